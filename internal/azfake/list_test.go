package azfake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"
)

func TestPagesGoThroughAllNamesInOrder(t *testing.T) {
	_, cc := start(t, nil)
	var want []string
	for i := range 25 {
		n := fmt.Sprintf("p/%02d", i)
		put(t, cc, n, "x", nil)
		want = append(want, n)
	}
	put(t, cc, "other", "x", nil)
	put(t, cc, "q", "x", nil)

	pager := cc.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: ptr("p/"), MaxResults: ptr(int32(7))})
	var got []string
	pages := 0
	for pager.More() {
		page, err := pager.NextPage(ctx)
		require.NoError(t, err)
		pages++
		for _, it := range page.Segment.BlobItems {
			got = append(got, *it.Name)
		}
		if pages == 1 {
			_, err := cc.NewBlobClient(want[7]).Delete(ctx, nil)
			require.NoError(t, err)
		}
	}
	require.Equal(t, 4, pages)
	require.Equal(t, append(want[:7:7], want[8:]...), got, "a marker outlives the blob it points to")
}

func TestAListingShowsWhatItIsAskedFor(t *testing.T) {
	_, cc := start(t, nil)
	e := put(t, cc, "a&<b>", "x", &blockblob.UploadOptions{
		Metadata: map[string]*string{"blobtx_intent": ptr("<7>")}, Tags: map[string]string{"state": "pending"},
	})
	bare := items(t, cc, nil)
	require.Len(t, bare, 1)
	require.Nil(t, bare[0].Metadata)
	require.Nil(t, bare[0].BlobTags)
	full := items(t, cc, &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Metadata: true, Tags: true}})
	require.Equal(t, "a&<b>", *full[0].Name)
	require.Equal(t, "<7>", *full[0].Metadata["blobtx_intent"])
	require.Equal(t, "pending", *full[0].BlobTags.BlobTagSet[0].Value)
	require.Equal(t, int64(1), *full[0].Properties.ContentLength)
	require.Equal(t, strings.Trim(string(e), `"`), string(*full[0].Properties.ETag), "listings carry the entity tag without quotes")
	require.NotNil(t, full[0].Properties.LastModified)
}

func TestAHierarchyFoldsNamesAtTheDelimiter(t *testing.T) {
	_, cc := start(t, nil)
	for _, n := range []string{"a", "d/1", "d/2", "d/e/3", "f/1", "g"} {
		put(t, cc, n, "x", nil)
	}
	walk := func(prefix string, size int32) (blobs, prefixes []string) {
		pager := cc.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &prefix, MaxResults: &size})
		for pager.More() {
			page, err := pager.NextPage(ctx)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Segment.BlobItems)+len(page.Segment.BlobPrefixes), int(size))
			for _, it := range page.Segment.BlobItems {
				blobs = append(blobs, *it.Name)
			}
			for _, p := range page.Segment.BlobPrefixes {
				prefixes = append(prefixes, *p.Name)
			}
		}
		return blobs, prefixes
	}
	for _, size := range []int32{1, 2, 100} {
		blobs, prefixes := walk("", size)
		require.Equal(t, []string{"a", "g"}, blobs)
		require.Equal(t, []string{"d/", "f/"}, prefixes)
	}
	blobs, prefixes := walk("d/", 100)
	require.Equal(t, []string{"d/1", "d/2"}, blobs)
	require.Equal(t, []string{"d/e/"}, prefixes)
}

func TestNamesThatXMLCannotCarryAreEncoded(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a\x01 +b", "x", nil)
	require.Equal(t, []string{"a\x01 +b"}, names(t, cc, nil))
}

func TestAnEmptyContainerListsNothing(t *testing.T) {
	_, cc := start(t, nil)
	require.Empty(t, names(t, cc, nil))
}
