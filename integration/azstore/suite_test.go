package azstore

import (
	"testing"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/storetest"
)

// TestSuite leaves out what Azurite cannot do; the same cases run on azfake.
func TestSuite(t *testing.T) {
	for name, opts := range map[string]azstore.Options{
		"defaults":    {},
		"one request": {BlockSize: 16 << 20, Prefix: "tenant-7/"},
		"many blocks": {BlockSize: 256 * kib},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.TestBlobStore(t, func(t *testing.T) store.BlobStore {
				return over(t, services.AzuriteContainer(t), &opts)
			}, storetest.Deviation{
				Case: "Seal/refuses a blob of another intent",
				Why:  "Azurite 3.37.0 ignores conditions on Set Blob Tags; the REST reference says that they hold",
			})
		})
	}
}
