package azfake

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

// ClientOptions returns azcore options that reach this server without a
// socket. The SDK retries as often as by default, the first time after a
// millisecond. The longest delay stays at its default, because azcore gives up
// on a Retry-After beyond it.
func (s *Server) ClientOptions() policy.ClientOptions {
	return policy.ClientOptions{
		Transport: s.Transport(),
		Retry:     policy.RetryOptions{RetryDelay: time.Millisecond},
	}
}

// URL is the account's address; append a container and a blob name.
func (s *Server) URL() string { return "https://" + s.opts.Account + ".blob.core.windows.net/" }

// ContainerClient returns the SDK's client for a container, which is created
// if need be, authorized with the account key if there is one. Nil options are
// those of ClientOptions; options without a Transport get this server's.
func (s *Server) ContainerClient(name string, opts *container.ClientOptions) (*container.Client, error) {
	s.MakeContainer(name)
	o := container.ClientOptions{ClientOptions: s.ClientOptions()}
	if opts != nil {
		o = *opts
		if o.Transport == nil {
			o.Transport = s.Transport()
		}
	}
	if s.opts.Key == "" {
		return container.NewClientWithNoCredential(s.URL()+name, &o)
	}
	cred, err := container.NewSharedKeyCredential(s.opts.Account, s.opts.Key)
	if err != nil {
		return nil, err
	}
	return container.NewClientWithSharedKeyCredential(s.URL()+name, cred, &o)
}

// ServiceClient returns the SDK's client for the account, under the rules of
// ContainerClient.
func (s *Server) ServiceClient(opts *service.ClientOptions) (*service.Client, error) {
	o := service.ClientOptions{ClientOptions: s.ClientOptions()}
	if opts != nil {
		o = *opts
		if o.Transport == nil {
			o.Transport = s.Transport()
		}
	}
	if s.opts.Key == "" {
		return service.NewClientWithNoCredential(s.URL(), &o)
	}
	cred, err := service.NewSharedKeyCredential(s.opts.Account, s.opts.Key)
	if err != nil {
		return nil, err
	}
	return service.NewClientWithSharedKeyCredential(s.URL(), cred, &o)
}
