package azstore_test

import (
	"testing"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/storetest"
)

// The suite, where the reference leaves a choice under every answer, with large
// bodies in one request and in blocks.
func TestSuite(t *testing.T) {
	for name, c := range map[string]struct {
		fake azfake.Options
		opts azstore.Options
	}{
		"defaults":    {},
		"one request": {azfake.Options{SoftDelete: 24 * hour}, azstore.Options{BlockSize: 16 * mib, Prefix: "tenant-7/"}},
		"many blocks": {azfake.Options{CreateConflict412: true}, azstore.Options{BlockSize: 64 * kib}},
		"one at once": {azfake.Options{AzuriteStaged: true, Key: accountKey}, azstore.Options{BlockSize: mib, Concurrency: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.TestBlobStore(t, func(t *testing.T) store.BlobStore {
				s, _ := newFake(t, &c.fake, &c.opts)
				return s
			})
		})
	}
}
