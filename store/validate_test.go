package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

func TestABlobNameIsWhatTheServiceAndTheIndexesTake(t *testing.T) {
	for name, want := range map[string]string{
		"a\u0080b":               "control character",
		"a\u0081b":               "control character",
		"a\u009f":                "control character",
		"a\ufffeb":               "U+FFFE",
		"a\uffff":                "U+FFFF",
		"a\u007fb":               "control character",
		"a\u00a0b":               "",
		"a\ufffd":                "",
		"a\u202eb\u200b?b#c%41 ": "",
		// Four bytes each: PostgreSQL and SQL Server fail at such a name only when
		// it comes to the index.
		strings.Repeat("\U00020000", 1024):              "more than 1600 bytes",
		strings.Repeat("\U00020000", 401):               "more than 1600 bytes",
		strings.Repeat("\U00020000", 400):               "",
		strings.Repeat("n", store.MaxBlobName):          "",
		strings.Repeat("n", store.MaxBlobName+1):        "more than 1024 characters",
		strings.Repeat("ü", store.MaxBlobNameBytes/2):   "",
		strings.Repeat("ü", store.MaxBlobNameBytes/2+1): "more than 1600 bytes",
	} {
		err := store.ValidateBlobName(name)
		if want == "" {
			require.NoError(t, err, "%.20q", name)
			continue
		}
		require.ErrorIs(t, err, store.ErrInvalid, "%.20q", name)
		require.ErrorContains(t, err, want)
	}
}
