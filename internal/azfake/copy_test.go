package azfake_test

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/stretchr/testify/require"
)

func TestCopiesInheritMetadataUnlessGivenSome(t *testing.T) {
	srv, cc := start(t, nil)
	put(t, cc, "src", "bytes", &blockblob.UploadOptions{
		Metadata: map[string]*string{"blobtx_intent": ptr("7")}, Tags: map[string]string{"state": "committed"},
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: ptr("text/plain")},
	})
	url := cc.NewBlobClient("src").URL()
	own := map[string]*string{"blobtx_published": ptr("k")}
	copies := map[string]func(name string, m map[string]*string) error{
		"Copy Blob": func(n string, m map[string]*string) error {
			_, err := cc.NewBlobClient(n).StartCopyFromURL(ctx, url, &blob.StartCopyFromURLOptions{Metadata: m})
			return err
		},
		"Copy Blob From URL": func(n string, m map[string]*string) error {
			_, err := cc.NewBlobClient(n).CopyFromURL(ctx, url, &blob.CopyFromURLOptions{Metadata: m})
			return err
		},
		"Put Blob From URL": func(n string, m map[string]*string) error {
			_, err := cc.NewBlockBlobClient(n).UploadBlobFromURL(ctx, url, &blockblob.UploadBlobFromURLOptions{Metadata: m})
			return err
		},
	}
	for op, do := range copies {
		t.Run(op, func(t *testing.T) {
			require.NoError(t, do(op, nil))
			got := srv.Inspect("box")[op]
			require.Equal(t, "bytes", string(got.Data))
			require.Equal(t, map[string]string{"blobtx_intent": "7"}, got.Metadata)
			require.Equal(t, "text/plain", got.ContentType)
			require.Empty(t, got.Tags, "tags are not copied unasked")
			require.NotEqual(t, srv.Inspect("box")["src"].ETag, got.ETag)
			require.NoError(t, do(op, own))
			require.Equal(t, map[string]string{"blobtx_published": "k"}, srv.Inspect("box")[op].Metadata)
		})
	}
}

func TestCopyConditions(t *testing.T) {
	srv, cc := start(t, nil)
	e := put(t, cc, "src", "bytes", &blockblob.UploadOptions{Tags: map[string]string{"k": "v"}})
	old := put(t, cc, "dst", "old", nil)
	url := cc.NewBlobClient("src").URL()
	stale := azcore.ETag(`"0x1"`)
	_, err := cc.NewBlobClient("dst").CopyFromURL(ctx, url, &blob.CopyFromURLOptions{SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{SourceIfMatch: &stale}})
	requireCode(t, err, 412, bloberror.SourceConditionNotMet)
	_, err = cc.NewBlobClient("dst").CopyFromURL(ctx, url, &blob.CopyFromURLOptions{BlobAccessConditions: ifMatch(stale)})
	requireCode(t, err, 412, bloberror.ConditionNotMet)
	_, err = cc.NewBlobClient("dst").StartCopyFromURL(ctx, url, &blob.StartCopyFromURLOptions{AccessConditions: ifMatch(stale)})
	requireCode(t, err, 412, bloberror.TargetConditionNotMet)
	_, err = cc.NewBlobClient("dst").CopyFromURL(ctx, cc.NewBlobClient("no").URL(), nil)
	requireCode(t, err, 404, bloberror.CannotVerifyCopySource)
	_, err = cc.NewBlobClient("dst").StartCopyFromURL(ctx, cc.NewBlobClient("no").URL(), nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	require.Equal(t, "old", get(t, cc, "dst"))

	_, err = cc.NewBlobClient("dst").CopyFromURL(ctx, url, &blob.CopyFromURLOptions{
		SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{SourceIfMatch: &e}, BlobAccessConditions: ifMatch(old),
	})
	require.NoError(t, err)
	require.Equal(t, "bytes", get(t, cc, "dst"))
	p, err := cc.NewBlobClient("dst").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, blob.CopyStatusTypeSuccess, *p.CopyStatus)

	_, err = cc.NewBlockBlobClient("dst").UploadBlobFromURL(ctx, url, &blockblob.UploadBlobFromURLOptions{CopySourceTags: ptr(blockblob.BlobCopySourceTagsCopy)})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "v"}, srv.Inspect("box")["dst"].Tags)
}

func TestABlockComesFromARangeOfABlob(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "src", "0123456789", nil)
	bb := cc.NewBlockBlobClient("dst")
	_, err := bb.StageBlockFromURL(ctx, blockID(0), cc.NewBlobClient("src").URL(), &blockblob.StageBlockFromURLOptions{Range: blob.HTTPRange{Offset: 3, Count: 4}})
	require.NoError(t, err)
	_, err = bb.CommitBlockList(ctx, []string{blockID(0)}, nil)
	require.NoError(t, err)
	require.Equal(t, "3456", get(t, cc, "dst"))
}
