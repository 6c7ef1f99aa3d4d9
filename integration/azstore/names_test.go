package azstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// A name that store.ValidateBlobName takes is a blob's from its upload, on both
// paths, to its delete, and stands in listings as it was given: one that does
// not makes every listing of the container fail.
func TestEveryValidNameGoesTheWholeWay(t *testing.T) {
	for where, open := range map[string]func() *container.Client{
		"Azurite": func() *container.Client { return services.AzuriteContainer(t) },
		"azfake": func() *container.Client {
			c, err := azfake.New(nil).ContainerClient("objects", nil)
			require.NoError(t, err)
			return c
		},
	} {
		t.Run(where, func(t *testing.T) {
			s := over(t, open(), &azstore.Options{BlockSize: 64 * kib})
			var want []string
			for i, suffix := range []string{
				"?b#c%41", " b", "é", "+b", " ", "/ ", "/ b", "\u202e", "*\"<>|", ":b", "%2F", "%", "&x=1", "=", "'", "\u00a0", "😀",
				"~", "^`{}[]", ";", "@", "$", "%2Eb", "%00", "!()", ",b", "/%2e%2e/x", "/...b", "..a", "?comp=list", "\u2028", "\ufffd",
				"\u0081", "\u0085", "\u009f", "\ufffe", "\uffff", "\x7f",
			} {
				for _, data := range [][]byte{noise(5), noise(200 * kib)} {
					name := fmt.Sprintf("%02d-%d%s", i, len(data), suffix)
					if store.ValidateBlobName(name) != nil {
						continue
					}
					b := create(t, s, name, data)
					require.Equal(t, data, read(t, s, store.OpenParams{Name: name, ETag: b.ETag, Count: -1}), "%q", name)
					want = append(want, name)
				}
			}
			require.Greater(t, len(want), 60)
			slices.Sort(want)
			require.Equal(t, want, names(t, s))
			var doomed []store.DeleteBlob
			for _, name := range want {
				info, err := s.Stat(t.Context(), store.StatParams{Name: name})
				require.NoError(t, err, "%q", name)
				require.Equal(t, name, info.Name)
				doomed = append(doomed, store.DeleteBlob{Name: name, IntentID: info.IntentID, Pending: true})
			}
			for i, err := range s.Delete(t.Context(), doomed) {
				require.NoError(t, err, "%q", doomed[i].Name)
			}
			require.Empty(t, names(t, s))
		})
	}
}
