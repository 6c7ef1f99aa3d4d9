//go:build unix

package launch

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// AzuriteOptions says where the emulator is installed.
type AzuriteOptions struct {
	// Install is the folder that holds node_modules. Defaults to
	// "integration/azurite", seen from the root of the repository.
	Install string
}

// StartAzurite serves Blob Storage from the emulator, with its data in dir. The
// server's URL is a connection string for an account with a random key.
func StartAzurite(ctx context.Context, dir string, o *AzuriteOptions) (*Server, error) {
	install := "integration/azurite"
	if o != nil && o.Install != "" {
		install = o.Install
	}
	script, err := filepath.Abs(filepath.Join(install, "node_modules/azurite/dist/src/blob/main.js"))
	if err != nil {
		return nil, fmt.Errorf("start azurite: %w", err)
	}
	if _, err := os.Stat(script); err != nil {
		return nil, fmt.Errorf("start azurite: %w", ErrNotInstalled)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("start azurite: node: %w", ErrNotInstalled)
	}

	const account = "blobtx"
	key := base64.StdEncoding.EncodeToString([]byte(secret()))
	var endpoint string
	server, err := start(ctx, "azurite", func(port int) attempt {
		endpoint = "http://127.0.0.1:" + strconv.Itoa(port) + "/" + account
		// The version check is off because SDKs speak newer API versions than the
		// emulator knows. Loose mode stays off: it hides unsupported headers.
		cmd := exec.Command(node, script,
			"--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(port),
			"--location", dir, "--silent", "--disableTelemetry", "--skipApiVersionCheck")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+account+":"+key)
		return attempt{
			cmd:        cmd,
			logPath:    filepath.Join(dir, "azurite.log"),
			stopSignal: syscall.SIGKILL, // nothing of it is kept
			probe:      func(ctx context.Context) error { return probeAzurite(ctx, endpoint) },
		}
	})
	if err != nil {
		return nil, err
	}
	server.URL = fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;",
		account, key, endpoint)
	return server, nil
}

// probeAzurite asks for anything at all: a refusal signed by the emulator proves
// that it is the emulator and that it serves.
func probeAzurite(ctx context.Context, endpoint string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"?comp=list", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() // only the header is read
	if server := response.Header.Get("Server"); !strings.HasPrefix(server, "Azurite-Blob/") {
		return fmt.Errorf("port answered by %q", server)
	}
	return nil
}
