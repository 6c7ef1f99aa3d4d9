package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
)

// lab is where the situations are played.
type lab struct {
	out          io.Writer
	usual, large *container.Client
	prefix       string // begins the names of this run's blobs
	folder       string // of the databases
	sizes        string // options.large
}

func openLab(ctx context.Context, out io.Writer, o options) (_ *lab, err error) {
	l := &lab{out: out, prefix: "failuremodes-" + strings.ToLower(rand.Text()[:8]) + "/", sizes: o.large}
	if err := l.openContainers(ctx, o); err != nil {
		return nil, err
	}
	blobs, err := azstore.New(l.usual, &azstore.Options{Prefix: l.prefix})
	if err != nil {
		return nil, err
	}
	if err := blobs.Probe(ctx); err != nil { // a permission that is missing is told at once
		return nil, err
	}
	l.folder, err = os.MkdirTemp("", "failuremodes")
	return l, err
}

func (l *lab) openContainers(ctx context.Context, o options) (err error) {
	switch {
	case o.fake:
		if l.usual, err = azfake.New(nil).ContainerClient("failuremodes", nil); err != nil {
			return err
		}
		l.large, err = azfake.New(&azfake.Options{Discard: true}).ContainerClient("failuremodes", nil)
		return err
	case strings.HasPrefix(o.azure, "http://"), strings.HasPrefix(o.azure, "https://"):
		l.usual, err = container.NewClientWithNoCredential(o.azure, nil)
		l.large = l.usual
		return withoutSAS(err)
	}
	l.usual, err = container.NewClientFromConnectionString(o.azure, "blobtx-failuremodes", nil)
	if err != nil {
		return errors.New("-azure is neither a URL nor a connection string")
	}
	l.large = l.usual
	// Without retries, so that a wrong address is told at once.
	once := policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	if _, err := l.usual.Create(once, nil); err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return fmt.Errorf("create container: %w", withoutSAS(err))
	}
	return nil
}

// withoutSAS is err without the query of the URL, whose sig is a secret.
func withoutSAS(err error) error {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) { // its own text has many lines
		return fmt.Errorf("%d %s", answer.StatusCode, cmp.Or(answer.ErrorCode, http.StatusText(answer.StatusCode)))
	}
	var u *url.Error
	if errors.As(err, &u) {
		address, _, _ := strings.Cut(u.URL, "?")
		return fmt.Errorf("%s %q: %w", u.Op, address, u.Err)
	}
	return err
}

// play plays a situation twice: as programs are usually written, and under
// blobtx.
func (l *lab) play(ctx context.Context, s situation) error {
	if err := l.in(ctx, s, s.letter, s.plain); err != nil {
		return err
	}
	return l.in(ctx, s, s.letter+" blobtx", s.blobtx)
}

// in plays in a new world and removes it.
func (l *lab) in(ctx context.Context, s situation, label string, play func(context.Context, *world) error) (err error) {
	w := &world{label: label, out: l.out, container: l.usual, folder: l.folder, sizes: l.sizes}
	w.prefix = l.prefix + strings.ReplaceAll(label, " ", "-") + "/"
	if s.large {
		w.container = l.large
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, w.close(bounded))
	}()
	if err := w.open(ctx, s.opts); err != nil {
		return err
	}
	return play(ctx, w)
}

func (l *lab) close() error { return os.RemoveAll(l.folder) }
