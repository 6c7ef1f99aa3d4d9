package azfake_test

import (
	"crypto/md5"
	"encoding/base64"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

func TestContainerMetadataChangeTheETag(t *testing.T) {
	_, cc := start(t, nil)
	before, err := cc.GetProperties(ctx, nil)
	require.NoError(t, err)
	_, err = cc.SetMetadata(ctx, &container.SetMetadataOptions{Metadata: map[string]*string{"owner": ptr("me")}})
	require.NoError(t, err)
	after, err := cc.GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, "me", *after.Metadata["Owner"])
	require.NotEqual(t, *before.ETag, *after.ETag)
}

func TestTheServiceTellsItsSoftDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		keep time.Duration
		days *int32
	}{"off": {0, nil}, "seven days": {7 * 24 * time.Hour, ptr(int32(7))}} {
		t.Run(name, func(t *testing.T) {
			srv, _ := start(t, &azfake.Options{SoftDelete: tc.keep})
			sc, err := srv.ServiceClient(nil)
			require.NoError(t, err)
			p, err := sc.GetProperties(ctx, nil)
			require.NoError(t, err)
			require.Equal(t, tc.keep > 0, *p.DeleteRetentionPolicy.Enabled)
			require.Equal(t, tc.days, p.DeleteRetentionPolicy.Days)
		})
	}
}

func TestGetBlobMetadataSendsNoBody(t *testing.T) {
	srv, cc := start(t, nil)
	put(t, cc, "a", "x", &blockblob.UploadOptions{Metadata: map[string]*string{"k": ptr("v")}})
	res, err := srv.HTTPClient().Get(srv.URL() + "box/a?comp=metadata")
	require.NoError(t, err)
	require.Equal(t, "v", res.Header.Get("x-ms-meta-k"))
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Empty(t, data)
}

func TestARangeCanCarryItsMD5(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a", "0123456789", nil)
	res, err := cc.NewBlobClient("a").DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: 2, Count: 3}, RangeGetContentMD5: ptr(true),
	})
	require.NoError(t, err)
	part, whole := md5.Sum([]byte("234")), md5.Sum([]byte("0123456789"))
	require.Equal(t, part[:], res.ContentMD5)
	require.Equal(t, whole[:], res.BlobContentMD5)
}

func TestAnErrorToHEADHasAHeaderAndNoBody(t *testing.T) {
	srv, _ := start(t, nil)
	res, err := srv.HTTPClient().Head(srv.URL() + "box/absent")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	require.Equal(t, string(bloberror.BlobNotFound), res.Header.Get("x-ms-error-code"))
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Empty(t, data)
}

func TestBodiesNeedALengthWithinTheLimit(t *testing.T) {
	srv, _ := start(t, nil)
	send := func(target string, size int64) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL()+target, body("x"))
		require.NoError(t, err)
		req.ContentLength = size
		req.Header.Set("x-ms-blob-type", "BlockBlob")
		res, err := srv.Transport().Do(req)
		require.NoError(t, err)
		return res
	}
	require.Equal(t, http.StatusLengthRequired, send("box/a", -1).StatusCode)
	require.Equal(t, http.StatusRequestEntityTooLarge, send("box/a", 5000<<20+1).StatusCode)
	block := "box/a?comp=block&blockid=" + base64.URLEncoding.EncodeToString([]byte("1234"))
	require.Equal(t, http.StatusRequestEntityTooLarge, send(block, 4000<<20+1).StatusCode)
	require.Empty(t, srv.Names("box"))
}

func TestStagedNamesAreCounted(t *testing.T) {
	srv, cc := start(t, nil)
	put(t, cc, "whole", "x", nil)
	stage(t, cc, "a", 0, 1)
	stage(t, cc, "b", 0)
	require.Equal(t, map[string]int{"a": 2, "b": 1}, srv.StagedNames("box"))
}
