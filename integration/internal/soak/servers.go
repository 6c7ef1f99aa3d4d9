//go:build unix

package soak

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/blobtx/blobtx/integration/internal/services/launch"
	"github.com/blobtx/blobtx/internal/azfake"
)

// servers are the stores' servers, and what the conductor does to them.
type servers struct {
	address Address
	pause   func() error // stop the blob service in its tracks
	resume  func() error
	restart func(context.Context) error // the database, as after a crash; nil: it has no server
	stop    func()
}

const containerName = "soak"

// startServers starts PostgreSQL and Azurite with their data in dir.
func startServers(ctx context.Context, dir string) (*servers, error) {
	folders := map[string]string{"postgresql": "", "azurite": ""}
	for name := range folders {
		folders[name] = filepath.Join(dir, name)
		if err := os.Mkdir(folders[name], 0o700); err != nil {
			return nil, err
		}
	}
	postgres, err := launch.StartPostgres(ctx, folders["postgresql"], nil)
	if err != nil {
		return nil, installHint(err)
	}
	azurite, err := launch.StartAzurite(ctx, folders["azurite"], nil)
	if err != nil {
		postgres.Stop()
		return nil, installHint(err)
	}
	return &servers{
		address: Address{Postgres: postgres.URL, Blobs: azurite.URL, Container: containerName},
		pause:   azurite.Pause, resume: azurite.Resume, restart: postgres.Restart,
		stop: func() { azurite.Stop(); postgres.Stop() },
	}, nil
}

func installHint(err error) error {
	if errors.Is(err, launch.ErrNotInstalled) {
		return fmt.Errorf("%w; \"make services\" as root installs it, and SOAK_STORES=embedded needs none", err)
	}
	return err
}

// startEmbedded serves azfake from this process, which is never killed, for a
// SQLite file in dir.
func startEmbedded(dir string) (*servers, error) {
	key := base64.StdEncoding.EncodeToString([]byte(rand.Text()))
	fake := azfake.New(&azfake.Options{Key: key})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{open: make(chan struct{})}
	close(g.open)
	g.handler = fake
	server := &http.Server{Handler: g}
	go func() { _ = server.Serve(listener) }() // until stop
	return &servers{
		address: Address{
			SQLite: filepath.Join(dir, "rows.db"), Container: containerName,
			Blobs: fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=http://%s/%s;",
				azfake.DefaultAccount, key, listener.Addr(), azfake.DefaultAccount),
		},
		pause: g.pause, resume: g.resume,
		stop: func() { _ = server.Close() }, // its listener is all that can fail
	}, nil
}
