package services

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/testenv"
)

// Azurite returns the connection string of the Blob Storage emulator, for tests
// that make clients of their own. Prefer AzuriteContainer, which gives a
// container of its own and records that the emulator took part.
func Azurite(t testing.TB) string {
	t.Helper()
	return testenv.Lookup(t, "Azurite", AzuriteEnv)
}

// AzuriteContainer returns a client of a new, empty container in the emulator.
// The container is deleted when the test ends.
func AzuriteContainer(t testing.TB) *container.Client {
	t.Helper()
	return AzuriteContainerWith(t, nil)
}

// AzuriteContainerWith is AzuriteContainer with options for the returned client,
// such as a transport that loses replies. Making and removing the container does
// not go through them.
func AzuriteContainerWith(t testing.TB, o *container.ClientOptions) *container.Client {
	t.Helper()
	account := Azurite(t)
	name := "test-" + strings.ToLower(rand.Text())
	plain, err := container.NewClientFromConnectionString(account, name, nil)
	require.NoError(t, err)
	client, err := container.NewClientFromConnectionString(account, name, o)
	require.NoError(t, err)

	// The test's context is cancelled before its cleanups run.
	ctx := context.WithoutCancel(t.Context())
	var response *http.Response
	_, err = plain.Create(policy.WithCaptureResponse(ctx, &response), nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := plain.Delete(ctx, nil)
		if !bloberror.HasCode(err, bloberror.ContainerNotFound) { // the test may have deleted it
			require.NoError(t, err)
		}
	})
	tookPart(t, "azurite", strings.TrimPrefix(response.Header.Get("Server"), "Azurite-Blob/"))
	return client
}
