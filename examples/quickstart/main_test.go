package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/testenv"
)

// The quickstart's last line is computed from both stores, at every size on
// both sides of what one request can carry.
func TestTheStoresAgreeAtTheEnd(t *testing.T) {
	for name, size := range map[string]int{"empty": 0, "small": 5000, "in blocks": 9 << 20} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("blobtx"), size/6+1)[:size], 0o600))
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), &out, path, "", ""))
			require.True(t, strings.HasSuffix(out.String(), "\ndangling=0 orphans=0\n"), out.String())
			require.Contains(t, out.String(), "1 abandoned upload(s) removed, 3 blob(s) sealed, 1 replaced blob(s) deleted")
		})
	}
}

// The same against the services that make test starts.
func TestTheStoresAgreeOnRealServices(t *testing.T) {
	db, azure := testenv.Lookup(t, "PostgreSQL", testenv.PostgresEnv), testenv.Lookup(t, "Azurite", testenv.AzuriteEnv)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, "main.go", db, azure))
	require.True(t, strings.HasSuffix(out.String(), "\ndangling=0 orphans=0\n"), out.String())
}

func TestMistakesAreNamed(t *testing.T) {
	require.ErrorIs(t, run(t.Context(), &bytes.Buffer{}, filepath.Join(t.TempDir(), "absent"), "", ""), os.ErrNotExist)
	err := run(t.Context(), &bytes.Buffer{}, "main.go", "", "AccountName=secretaccount;AccountKey=secretkey")
	require.ErrorContains(t, err, "-azure is neither a URL nor a connection string")
	require.NotContains(t, err.Error(), "secret")

	denying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-ms-error-code", "AuthorizationFailure")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer denying.Close()
	const sas = "sv=2020&sig=SECRETSIG"
	for says, azure := range map[string]string{
		`create container: Put "http://127.0.0.1:1/acct/blobtx-quickstart": dial`: "BlobEndpoint=http://127.0.0.1:1/acct;SharedAccessSignature=" + sas,
		`create container: parse "http://127.0.0.1:1/%zz/blobtx-quickstart": `:    "BlobEndpoint=http://127.0.0.1:1/%zz;SharedAccessSignature=" + sas,
		`create container: 403 AuthorizationFailure`:                              "BlobEndpoint=" + denying.URL + "/acct;SharedAccessSignature=" + sas,
		`blobs cannot be listed`:     denying.URL + "/acct/container?" + sas,
		`parse "http://127.0.0.1:1/`: "http://127.0.0.1:1/%zz/container?" + sas,
	} {
		var out bytes.Buffer
		err := run(t.Context(), &out, "main.go", "", azure)
		require.ErrorContains(t, err, says)
		require.NotContains(t, out.String()+err.Error(), "SECRETSIG")
		require.NotContains(t, out.String()+err.Error(), "sig=")
	}
}
