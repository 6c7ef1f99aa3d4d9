package azfake_test

import (
	"context"
	"crypto/md5"
	"io"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

var ctx = context.Background()

func TestWhatWasPutComesBackWithItsProperties(t *testing.T) {
	clk := newClock()
	srv, cc := start(t, &azfake.Options{Now: clk.now})
	etag := put(t, cc, "dir/a b%c", "hello", &blockblob.UploadOptions{
		Metadata:    map[string]*string{"blobtx_intent": ptr("x y")},
		Tags:        map[string]string{"state": "pending", "a b": "1+1=2"},
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: ptr("text/plain"), BlobCacheControl: ptr("no-store")},
	})
	require.Equal(t, "hello", get(t, cc, "dir/a b%c"))

	p, err := cc.NewBlobClient("dir/a b%c").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, etag, *p.ETag)
	require.Equal(t, int64(5), *p.ContentLength)
	require.Equal(t, "text/plain", *p.ContentType)
	require.Equal(t, "no-store", *p.CacheControl)
	require.Equal(t, int64(2), *p.TagCount)
	require.Equal(t, clk.now(), p.LastModified.UTC())
	require.Equal(t, "x y", *p.Metadata["Blobtx_intent"])
	sum := md5.Sum([]byte("hello"))
	require.Equal(t, sum[:], p.ContentMD5)
	require.Equal(t, lease.StateTypeAvailable, *p.LeaseState)

	seen := srv.Inspect("box")["dir/a b%c"]
	require.Equal(t, []byte("hello"), seen.Data)
	require.Equal(t, map[string]string{"state": "pending", "a b": "1+1=2"}, seen.Tags)
	require.Equal(t, map[string]string{"blobtx_intent": "x y"}, seen.Metadata)
	require.Equal(t, string(etag), seen.ETag)
}

func TestEmptyBlob(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "empty", "", nil)
	require.Empty(t, get(t, cc, "empty"))
	_, err := cc.NewBlobClient("empty").DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Count: 1}})
	requireCode(t, err, 416, bloberror.InvalidRange)
}

func TestRanges(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a", "0123456789", nil)
	for name, tc := range map[string]struct {
		off, count int64
		want, head string
	}{
		"a middle":                      {2, 3, "234", "bytes 2-4/10"},
		"from an offset to the end":     {7, 0, "789", "bytes 7-9/10"},
		"an end beyond the last byte":   {8, 100, "89", "bytes 8-9/10"},
		"the last byte":                 {9, 1, "9", "bytes 9-9/10"},
		"everything, asked for by size": {0, 10, "0123456789", "bytes 0-9/10"},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := cc.NewBlobClient("a").DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: tc.off, Count: tc.count}})
			require.NoError(t, err)
			data, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(data))
			require.Equal(t, tc.head, *res.ContentRange)
			require.Equal(t, int64(len(tc.want)), *res.ContentLength)
		})
	}
	_, err := cc.NewBlobClient("a").DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 10}})
	requireCode(t, err, 416, bloberror.InvalidRange)
}

func TestRangesCrossBlocks(t *testing.T) {
	_, cc := start(t, nil)
	stage(t, cc, "a", 0, 1, 2)
	_, err := cc.NewBlockBlobClient("a").CommitBlockList(ctx, []string{blockID(0), blockID(1), blockID(2)}, nil)
	require.NoError(t, err)
	require.Equal(t, "aaabbbccc", get(t, cc, "a"))
	buf := make([]byte, 5)
	n, err := cc.NewBlobClient("a").DownloadBuffer(ctx, buf, &blob.DownloadBufferOptions{Range: blob.HTTPRange{Offset: 2, Count: 5}})
	require.NoError(t, err)
	require.Equal(t, "abbbc", string(buf[:n]))
}

func TestAbsentThingsSayWhatIsAbsent(t *testing.T) {
	srv, cc := start(t, nil)
	lost, err := srv.ServiceClient(nil)
	require.NoError(t, err)
	_, err = cc.NewBlobClient("no").GetProperties(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = cc.NewBlobClient("no").DownloadStream(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = cc.NewBlobClient("no").Delete(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = lost.NewContainerClient("nowhere").NewBlockBlobClient("x").Upload(ctx, body("x"), nil)
	requireCode(t, err, 404, bloberror.ContainerNotFound)
	_, err = lost.NewContainerClient("nowhere").GetProperties(ctx, nil)
	requireCode(t, err, 404, bloberror.ContainerNotFound)
}

func TestContainersAreCreatedOnceAndDeleted(t *testing.T) {
	srv, _ := start(t, &azfake.Options{Account: account, Key: key})
	sc, err := srv.ServiceClient(nil)
	require.NoError(t, err)
	_, err = sc.CreateContainer(ctx, "fresh", nil)
	require.NoError(t, err)
	_, err = sc.CreateContainer(ctx, "fresh", nil)
	requireCode(t, err, 409, bloberror.ContainerAlreadyExists)
	_, err = sc.NewContainerClient("fresh").GetProperties(ctx, nil)
	require.NoError(t, err)
	_, err = sc.DeleteContainer(ctx, "fresh", nil)
	require.NoError(t, err)
	_, err = sc.DeleteContainer(ctx, "fresh", nil)
	requireCode(t, err, 404, bloberror.ContainerNotFound)
	_, err = sc.CreateContainer(ctx, "Not-Valid", nil)
	requireCode(t, err, 400, bloberror.InvalidResourceName)
}

func TestMetadataAndHeadersChangeTheETag(t *testing.T) {
	clk := newClock()
	_, cc := start(t, &azfake.Options{Now: clk.now})
	first := put(t, cc, "a", "x", &blockblob.UploadOptions{Metadata: map[string]*string{"old": ptr("1")}})
	clk.pass(time.Minute)
	res, err := cc.NewBlobClient("a").SetMetadata(ctx, map[string]*string{"new": ptr("2")}, &blob.SetMetadataOptions{AccessConditions: ifMatch(first)})
	require.NoError(t, err)
	require.NotEqual(t, first, *res.ETag)
	require.Equal(t, clk.now(), res.LastModified.UTC())
	p, err := cc.NewBlobClient("a").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Len(t, p.Metadata, 1, "what is not named is gone")
	require.Equal(t, "2", *p.Metadata["New"])

	_, err = cc.NewBlobClient("a").SetMetadata(ctx, nil, &blob.SetMetadataOptions{AccessConditions: ifMatch(first)})
	requireCode(t, err, 412, bloberror.ConditionNotMet)
	h, err := cc.NewBlobClient("a").SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobContentType: ptr("image/png")}, nil)
	require.NoError(t, err)
	require.NotEqual(t, *res.ETag, *h.ETag)
	p, err = cc.NewBlobClient("a").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, "image/png", *p.ContentType)
}

func TestMetadataThatCannotTravelIsRefused(t *testing.T) {
	_, cc := start(t, nil)
	for name, tc := range map[string]struct {
		key, value string
		code       bloberror.Code
	}{
		"a hyphen in the name":  {"a-b", "x", bloberror.InvalidMetadata},
		"a leading digit":       {"1a", "x", bloberror.InvalidMetadata},
		"a value beyond ASCII":  {"a", "é", bloberror.InvalidMetadata},
		"more than 8 KiB":       {"a", string(make8K()), bloberror.MetadataTooLarge},
		"no name but a prefix":  {"", "x", bloberror.EmptyMetadataKey},
		"a dot inside the name": {"a.b", "x", bloberror.InvalidMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cc.NewBlockBlobClient("m").Upload(ctx, body("x"), &blockblob.UploadOptions{Metadata: map[string]*string{tc.key: &tc.value}})
			requireCode(t, err, 400, tc.code)
		})
	}
	_, err := cc.NewBlockBlobClient("m").Upload(ctx, body("x"), &blockblob.UploadOptions{Metadata: map[string]*string{"a": ptr("b\nc")}})
	require.ErrorContains(t, err, "invalid header field value")
}

func make8K() []byte {
	b := make([]byte, 8<<10)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

func TestADamagedBodyIsRefused(t *testing.T) {
	srv, cc := start(t, nil)
	_, err := cc.NewBlockBlobClient("a").Upload(ctx, body("x"), &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(make([]byte, 16))})
	requireCode(t, err, 400, bloberror.MD5Mismatch)
	_, err = cc.NewBlockBlobClient("a").Upload(ctx, body("x"), &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeCRC64(1)})
	requireCode(t, err, 400, bloberror.CRC64Mismatch)
	require.Empty(t, srv.Names("box"))
	_, err = cc.NewBlockBlobClient("a").Upload(ctx, body("x"), &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeComputeCRC64()})
	require.NoError(t, err)
}

func TestSoftDeletedBlobsComeBackUntilTheRetentionEnds(t *testing.T) {
	clk := newClock()
	srv, cc := start(t, &azfake.Options{Now: clk.now, SoftDelete: 48 * time.Hour})
	etag := put(t, cc, "a", "x", &blockblob.UploadOptions{Tags: map[string]string{"k": "v"}})
	_, err := cc.NewBlobClient("a").Delete(ctx, nil)
	require.NoError(t, err)
	_, err = cc.NewBlobClient("a").GetProperties(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	require.Empty(t, names(t, cc, nil))

	deleted := items(t, cc, &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Deleted: true}})
	require.Len(t, deleted, 1)
	require.True(t, *deleted[0].Deleted)
	require.Equal(t, int32(2), *deleted[0].Properties.RemainingRetentionDays)

	_, err = cc.NewBlobClient("a").Undelete(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, string(etag), srv.Inspect("box")["a"].ETag)
	require.Equal(t, map[string]string{"k": "v"}, srv.Inspect("box")["a"].Tags)

	_, err = cc.NewBlobClient("a").Delete(ctx, nil)
	require.NoError(t, err)
	clk.pass(48 * time.Hour)
	_, err = cc.NewBlobClient("a").Undelete(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
}

func TestWhatIsNotImplementedSaysSo(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a", "x", nil)
	_, err := cc.NewBlobClient("a").CreateSnapshot(ctx, nil)
	requireCode(t, err, 501, "NotImplemented")
	_, err = cc.NewAppendBlobClient("log").Create(ctx, nil)
	requireCode(t, err, 501, "NotImplemented")
}

func TestDiscardKeepsSizesOnly(t *testing.T) {
	srv, cc := start(t, &azfake.Options{Discard: true})
	stage(t, cc, "a", 0, 1)
	_, err := cc.NewBlockBlobClient("a").CommitBlockList(ctx, []string{blockID(0), blockID(1)}, nil)
	require.NoError(t, err)
	require.Equal(t, int64(6), srv.Inspect("box")["a"].Size)
	require.Equal(t, "\x00\x00\x00\x00\x00\x00", get(t, cc, "a"))
	_, err = cc.NewBlockBlobClient("a").Upload(ctx, body("x"), &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(make([]byte, 16))})
	requireCode(t, err, 400, bloberror.MD5Mismatch)
}

func names(t testing.TB, cc *container.Client, opts *container.ListBlobsFlatOptions) []string {
	t.Helper()
	var out []string
	for _, it := range items(t, cc, opts) {
		out = append(out, *it.Name)
	}
	return out
}

func items(t testing.TB, cc *container.Client, opts *container.ListBlobsFlatOptions) []*container.BlobItem {
	t.Helper()
	var out []*container.BlobItem
	pager := cc.NewListBlobsFlatPager(opts)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		require.NoError(t, err)
		out = append(out, page.Segment.BlobItems...)
	}
	return out
}
