package azfake_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

func TestStagedBlocksAreNoBlob(t *testing.T) {
	srv, cc := start(t, nil)
	stage(t, cc, "a", 0, 1)
	require.Equal(t, 2, srv.Staged("box", "a"))
	_, err := cc.NewBlobClient("a").GetProperties(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = cc.NewBlobClient("a").DownloadStream(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = cc.NewBlobClient("a").GetTags(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = cc.NewBlobClient("a").Delete(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	require.Empty(t, names(t, cc, nil))
	require.Equal(t, []string{"a"}, names(t, cc, &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{UncommittedBlobs: true}}))

	list, err := cc.NewBlockBlobClient("a").GetBlockList(ctx, blockblob.BlockListTypeAll, nil)
	require.NoError(t, err)
	require.Nil(t, list.ETag)
	require.Len(t, list.UncommittedBlocks, 2)

	put(t, cc, "a", "x", &blockblob.UploadOptions{AccessConditions: ifNoneMatch("*")})
	require.Zero(t, srv.Staged("box", "a"), "Put Blob discards what was staged")
}

func TestStagedBlocksAsAzuriteTreatsThem(t *testing.T) {
	srv, cc := start(t, &azfake.Options{AzuriteStaged: true})
	stage(t, cc, "a", 0, 1)
	_, err := cc.NewBlockBlobClient("a").Upload(ctx, body("x"), &blockblob.UploadOptions{AccessConditions: ifNoneMatch("*")})
	requireCode(t, err, 409, bloberror.BlobAlreadyExists)
	_, err = cc.NewBlobClient("a").GetProperties(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	_, err = cc.NewBlobClient("a").Delete(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 2, srv.Staged("box", "a"))
	_, err = cc.NewBlobClient("a").Delete(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
	put(t, cc, "a", "x", &blockblob.UploadOptions{AccessConditions: ifNoneMatch("*")})
	require.Equal(t, 2, srv.Staged("box", "a"))
}

func TestAnEmptyCreateOnlyListClearsStagedBlocks(t *testing.T) {
	srv, cc := start(t, nil)
	stage(t, cc, "a", 0, 1)
	bb := cc.NewBlockBlobClient("a")
	_, err := bb.CommitBlockList(ctx, []string{}, &blockblob.CommitBlockListOptions{AccessConditions: ifNoneMatch("*"), Tags: map[string]string{"state": "pending"}})
	require.NoError(t, err)
	require.Zero(t, srv.Staged("box", "a"))
	require.Empty(t, get(t, cc, "a"))
	_, err = bb.CommitBlockList(ctx, []string{blockID(0)}, &blockblob.CommitBlockListOptions{AccessConditions: ifNoneMatch("*")})
	requireCode(t, err, 409, bloberror.BlobAlreadyExists)
	_, err = bb.Delete(ctx, &blob.DeleteOptions{AccessConditions: ifTags(`"state" = 'pending'`)})
	require.NoError(t, err)
	_, err = bb.CommitBlockList(ctx, []string{blockID(0)}, &blockblob.CommitBlockListOptions{AccessConditions: ifNoneMatch("*")})
	requireCode(t, err, 400, bloberror.InvalidBlockList)
	require.Empty(t, srv.Names("box"))
}

func TestABlockListIsTheBlob(t *testing.T) {
	srv, cc := start(t, nil)
	bb := cc.NewBlockBlobClient("a")
	stage(t, cc, "a", 2, 0, 1)
	_, err := bb.CommitBlockList(ctx, []string{blockID(0), blockID(1), blockID(0)}, nil)
	require.NoError(t, err)
	require.Equal(t, "aaabbbaaa", get(t, cc, "a"))
	require.Zero(t, srv.Staged("box", "a"), "blocks that were not listed are gone")

	stage(t, cc, "a", 4)
	require.Equal(t, "aaabbbaaa", get(t, cc, "a"), "staging leaves the committed blob alone")
	_, err = bb.CommitBlockList(ctx, []string{blockID(4), blockID(1)}, nil)
	require.NoError(t, err)
	require.Equal(t, "eeebbb", get(t, cc, "a"), "committed blocks may be listed again")
	list, err := bb.GetBlockList(ctx, blockblob.BlockListTypeAll, nil)
	require.NoError(t, err)
	require.Len(t, list.CommittedBlocks, 2)
	require.Equal(t, blockID(4), *list.CommittedBlocks[0].Name)
	require.Equal(t, int64(3), *list.CommittedBlocks[0].Size)

	_, err = bb.CommitBlockList(ctx, []string{blockID(9)}, nil)
	requireCode(t, err, 400, bloberror.InvalidBlockList)
	require.Equal(t, "eeebbb", get(t, cc, "a"))
}

func TestCommittedAndUncommittedAreSeparateLists(t *testing.T) {
	srv, cc := start(t, nil)
	stage(t, cc, "a", 0)
	commit := func(list string) int {
		doc := `<?xml version="1.0"?><BlockList><` + list + `>` + blockID(0) + `</` + list + `></BlockList>`
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL()+"box/a?comp=blocklist", strings.NewReader(doc))
		require.NoError(t, err)
		res, err := srv.HTTPClient().Do(req)
		require.NoError(t, err)
		return res.StatusCode
	}
	require.Equal(t, 400, commit("Committed"))
	require.Equal(t, 400, commit("Elsewhere"))
	require.Equal(t, 201, commit("Uncommitted"))
	require.Equal(t, 400, commit("Uncommitted"))
	require.Equal(t, 201, commit("Committed"))
	require.Equal(t, "aaa", get(t, cc, "a"))
}

func TestAPutBlobHasNoBlocks(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a", "whole", nil)
	list, err := cc.NewBlockBlobClient("a").GetBlockList(ctx, blockblob.BlockListTypeCommitted, nil)
	require.NoError(t, err)
	require.Empty(t, list.CommittedBlocks)
}

func TestBlockIDsOfOneLength(t *testing.T) {
	_, cc := start(t, nil)
	bb := cc.NewBlockBlobClient("a")
	long := base64.StdEncoding.EncodeToString([]byte("a longer block id"))
	stage(t, cc, "a", 0)
	_, err := bb.StageBlock(ctx, long, body("x"), nil)
	requireCode(t, err, 400, bloberror.InvalidBlobOrBlock)
	_, err = bb.CommitBlockList(ctx, []string{blockID(0)}, nil)
	require.NoError(t, err)
	_, err = bb.StageBlock(ctx, long, body("x"), nil)
	requireCode(t, err, 400, bloberror.InvalidBlobOrBlock)
	_, err = bb.StageBlock(ctx, "not base64!", body("x"), nil)
	requireCode(t, err, 400, bloberror.InvalidBlockID)
	_, err = bb.StageBlock(ctx, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 65)), body("x"), nil)
	requireCode(t, err, 400, bloberror.InvalidBlockID)
}

func TestABlockListHasAtMost50000Blocks(t *testing.T) {
	srv, cc := start(t, nil)
	stage(t, cc, "a", 0)
	ids := make([]string, 50_001)
	for i := range ids {
		ids[i] = blockID(0)
	}
	_, err := cc.NewBlockBlobClient("a").CommitBlockList(ctx, ids, nil)
	requireCode(t, err, 400, bloberror.BlockListTooLong)
	_, err = cc.NewBlockBlobClient("a").CommitBlockList(ctx, ids[1:], nil)
	require.NoError(t, err)
	require.Equal(t, int64(150_000), srv.Inspect("box")["a"].Size)
}

func TestAtMost100000BlocksAreStaged(t *testing.T) {
	srv, cc := start(t, nil)
	id := make([]byte, 4)
	for i := range 100_000 {
		binary.BigEndian.PutUint32(id, uint32(i))
		srv.StageBlock("box", "a", base64.StdEncoding.EncodeToString(id), []byte{'x'})
	}
	_, err := cc.NewBlockBlobClient("a").StageBlock(ctx, base64.StdEncoding.EncodeToString([]byte("new!")), body("x"), nil)
	requireCode(t, err, 409, bloberror.BlockCountExceedsLimit)
}
