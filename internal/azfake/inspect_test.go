package azfake_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

// What a look shows, without a request.
func TestInspect(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := azfake.New(&azfake.Options{Now: func() time.Time { return created }})
	c, err := s.ContainerClient("box", nil)
	require.NoError(t, err)
	put := func(name, id string) {
		_, err := c.NewBlockBlobClient(name).StageBlock(t.Context(), id, streaming.NopCloser(strings.NewReader("x")), nil)
		require.NoError(t, err)
	}
	put("staged", "Mg==")
	put("staged", "MQ==")
	_, err = c.NewBlockBlobClient("there").Upload(t.Context(), streaming.NopCloser(strings.NewReader("hello")), nil)
	require.NoError(t, err)
	asked := s.Requests()

	require.Equal(t, map[string][]string{"staged": {"MQ==", "Mg=="}}, s.StagedBlocks("box"))
	require.Empty(t, s.StagedBlocks("other"))
	require.Equal(t, "hello", string(s.Inspect("box")["there"].Data))
	facts := s.InspectFacts("box")
	require.Len(t, facts, 1)
	require.Nil(t, facts["there"].Data)
	require.EqualValues(t, 5, facts["there"].Size)
	require.Equal(t, created, facts["there"].CreatedAt)
	require.Equal(t, asked, s.Requests())
}

// Describe says of a request what a Hook is told, before it is sent.
func TestDescribe(t *testing.T) {
	s := azfake.New(nil)
	var told azfake.Call
	s.SetHook(func(c azfake.Call) azfake.Fault {
		told = c
		return azfake.Fault{}
	})
	for _, c := range []struct {
		method, path string
		op           azfake.Op
		blob         string
	}{
		{http.MethodPut, "box/a%20b/c?comp=block&blockid=MQ==", azfake.OpPutBlock, "a b/c"},
		{http.MethodHead, "box/b", azfake.OpHeadBlob, "b"},
		{http.MethodGet, "box?restype=container&comp=list", azfake.OpList, ""},
		{http.MethodPatch, "box/b", azfake.OpUnsupported, "b"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL()+c.path, nil)
		require.NoError(t, err)
		got := s.Describe(req)
		require.Equal(t, c.op, got.Op)
		require.Equal(t, "box", got.Container)
		require.Equal(t, c.blob, got.Blob)
		require.Zero(t, got.Seq)
		require.Zero(t, s.Count(c.op), "nothing was sent")
		resp, err := s.HTTPClient().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []any{told.Op, told.Container, told.Blob}, []any{got.Op, got.Container, got.Blob})
	}
}
