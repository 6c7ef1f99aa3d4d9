package azfake_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

// writes are all operations that change a blob, each under conditions.
var writes = map[string]func(*container.Client, *blob.AccessConditions) error{
	"Put Blob": func(cc *container.Client, a *blob.AccessConditions) error {
		_, err := cc.NewBlockBlobClient("a").Upload(ctx, body("new"), &blockblob.UploadOptions{AccessConditions: a, Tags: map[string]string{"state": "pending"}})
		return err
	},
	"Put Block List": func(cc *container.Client, a *blob.AccessConditions) error {
		_, err := cc.NewBlockBlobClient("a").CommitBlockList(ctx, nil, &blockblob.CommitBlockListOptions{AccessConditions: a, Tags: map[string]string{"state": "pending"}})
		return err
	},
	"Copy Blob From URL": func(cc *container.Client, a *blob.AccessConditions) error {
		_, err := cc.NewBlobClient("a").CopyFromURL(ctx, cc.NewBlobClient("source").URL(), &blob.CopyFromURLOptions{BlobAccessConditions: a})
		return err
	},
	"Put Blob From URL": func(cc *container.Client, a *blob.AccessConditions) error {
		_, err := cc.NewBlockBlobClient("a").UploadBlobFromURL(ctx, cc.NewBlobClient("source").URL(), &blockblob.UploadBlobFromURLOptions{AccessConditions: a})
		return err
	},
	"Set Blob Metadata": func(cc *container.Client, a *blob.AccessConditions) error {
		_, err := cc.NewBlobClient("a").SetMetadata(ctx, nil, &blob.SetMetadataOptions{AccessConditions: a})
		return err
	},
	"Set Blob Properties": func(cc *container.Client, a *blob.AccessConditions) error {
		_, err := cc.NewBlobClient("a").SetHTTPHeaders(ctx, blob.HTTPHeaders{}, &blob.SetHTTPHeadersOptions{AccessConditions: a})
		return err
	},
	"Set Blob Tags": setTags,
	"Delete Blob": func(cc *container.Client, a *blob.AccessConditions) error {
		_, err := cc.NewBlobClient("a").Delete(ctx, &blob.DeleteOptions{AccessConditions: a})
		return err
	},
}

// setTags sends the entity tag and the dates the way Set Blob Tags wants them.
func setTags(cc *container.Client, a *blob.AccessConditions) error {
	o := &blob.SetTagsOptions{AccessConditions: a}
	if a != nil && a.ModifiedAccessConditions != nil {
		m := a.ModifiedAccessConditions
		o.BlobModifiedAccessConditions = &blob.BlobModifiedAccessConditions{
			IfMatch: m.IfMatch, IfNoneMatch: m.IfNoneMatch, IfModifiedSince: m.IfModifiedSince, IfUnmodifiedSince: m.IfUnmodifiedSince,
		}
	}
	_, err := cc.NewBlobClient("a").SetTags(ctx, map[string]string{"state": "committed"}, o)
	return err
}

func TestEveryConditionOfAWriteMustHold(t *testing.T) {
	clk := newClock()
	before, after := clk.now().Add(-time.Hour), clk.now().Add(time.Hour)
	stale := azcore.ETag(`"0x1"`)
	pending, committed := `"state" = 'pending'`, `"state" = 'committed'`
	cases := map[string]struct {
		cond func(current azcore.ETag) blob.ModifiedAccessConditions
		met  bool
	}{
		"nothing asked":      {func(azcore.ETag) blob.ModifiedAccessConditions { return blob.ModifiedAccessConditions{} }, true},
		"current entity tag": {func(e azcore.ETag) blob.ModifiedAccessConditions { return blob.ModifiedAccessConditions{IfMatch: &e} }, true},
		"stale entity tag":   {func(azcore.ETag) blob.ModifiedAccessConditions { return blob.ModifiedAccessConditions{IfMatch: &stale} }, false},
		"not this entity tag": {func(e azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfNoneMatch: &e}
		}, false},
		"modified since an hour ago": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfModifiedSince: &before}
		}, true},
		"modified since a later hour": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfModifiedSince: &after}
		}, false},
		"unmodified since a later hour": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfUnmodifiedSince: &after}
		}, true},
		"unmodified since an hour ago": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfUnmodifiedSince: &before}
		}, false},
		"the right tag": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfTags: &pending}
		}, true},
		"the wrong tag": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfTags: &committed}
		}, false},
		"right entity tag, right tag": {func(e azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfMatch: &e, IfTags: &pending}
		}, true},
		"right entity tag, wrong tag": {func(e azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfMatch: &e, IfTags: &committed}
		}, false},
		"stale entity tag, right tag": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfMatch: &stale, IfTags: &pending}
		}, false},
		"another entity tag, wrong tag": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfNoneMatch: &stale, IfTags: &committed}
		}, false},
		"unmodified, wrong tag": {func(azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfUnmodifiedSince: &after, IfTags: &committed}
		}, false},
		"right entity tag, modified before": {func(e azcore.ETag) blob.ModifiedAccessConditions {
			return blob.ModifiedAccessConditions{IfMatch: &e, IfUnmodifiedSince: &before}
		}, false},
	}
	for op, write := range writes {
		for name, tc := range cases {
			t.Run(op+"/"+name, func(t *testing.T) {
				srv, cc := start(t, &azfake.Options{Now: clk.now})
				put(t, cc, "source", "s", nil)
				e := put(t, cc, "a", "old", &blockblob.UploadOptions{Tags: map[string]string{"state": "pending"}})
				was := srv.Inspect("box")["a"]
				m := tc.cond(e)
				err := write(cc, &blob.AccessConditions{ModifiedAccessConditions: &m})
				if tc.met {
					require.NoError(t, err)
					return
				}
				requireCode(t, err, 412, bloberror.ConditionNotMet)
				require.Equal(t, was, srv.Inspect("box")["a"], "a refused write changes nothing")
			})
		}
	}
}

func TestWritesOnAnAbsentBlob(t *testing.T) {
	creates := map[string]bool{"Put Blob": true, "Put Block List": true, "Copy Blob From URL": true, "Put Blob From URL": true}
	for op, write := range writes {
		t.Run(op, func(t *testing.T) {
			srv, cc := start(t, nil)
			put(t, cc, "source", "s", nil)
			requireCode(t, write(cc, ifMatch(`"0x1"`)), 412, bloberror.ConditionNotMet)
			requireCode(t, write(cc, ifMatch("*")), 412, bloberror.ConditionNotMet)
			require.NotContains(t, srv.Names("box"), "a")
			err := write(cc, ifTags(`"state" = 'pending'`))
			if !creates[op] {
				requireCode(t, err, 404, bloberror.BlobNotFound)
				return
			}
			require.NoError(t, err)
			require.Contains(t, srv.Names("box"), "a")
		})
	}
}

func TestCreateOnlyLosesToWhatIsThere(t *testing.T) {
	for _, op := range []string{"Put Blob", "Put Block List", "Copy Blob From URL", "Put Blob From URL"} {
		for _, as412 := range []bool{false, true} {
			t.Run(fmt.Sprint(op, as412), func(t *testing.T) {
				srv, cc := start(t, &azfake.Options{CreateConflict412: as412})
				put(t, cc, "source", "s", nil)
				require.NoError(t, writes[op](cc, ifNoneMatch("*")))
				was := srv.Inspect("box")["a"]
				err := writes[op](cc, ifNoneMatch("*"))
				if as412 {
					requireCode(t, err, 412, bloberror.ConditionNotMet)
				} else {
					requireCode(t, err, 409, bloberror.BlobAlreadyExists)
				}
				require.Equal(t, was, srv.Inspect("box")["a"])
			})
		}
	}
}

func TestReadsUnderConditions(t *testing.T) {
	clk := newClock()
	before, after := clk.now().Add(-time.Hour), clk.now().Add(time.Hour)
	_, cc := start(t, &azfake.Options{Now: clk.now})
	e := put(t, cc, "a", "x", &blockblob.UploadOptions{Tags: map[string]string{"k": "v"}})
	other := azcore.ETag(`"0x1"`)
	for name, tc := range map[string]struct {
		cond   blob.ModifiedAccessConditions
		status int
	}{
		"right entity tag":                           {blob.ModifiedAccessConditions{IfMatch: &e}, 200},
		"one of several":                             {blob.ModifiedAccessConditions{IfMatch: ptr(other + "," + e)}, 200},
		"stale entity tag":                           {blob.ModifiedAccessConditions{IfMatch: &other}, 412},
		"unchanged since":                            {blob.ModifiedAccessConditions{IfUnmodifiedSince: &before}, 412},
		"wrong tag":                                  {blob.ModifiedAccessConditions{IfTags: ptr(`"k" = 'w'`)}, 412},
		"right entity tag, wrong tag":                {blob.ModifiedAccessConditions{IfMatch: &e, IfTags: ptr(`"k" = 'w'`)}, 412},
		"not modified: same entity tag":              {blob.ModifiedAccessConditions{IfNoneMatch: &e}, 304},
		"not modified: any entity tag":               {blob.ModifiedAccessConditions{IfNoneMatch: ptr(azcore.ETagAny)}, 304},
		"not modified: date":                         {blob.ModifiedAccessConditions{IfModifiedSince: &after}, 304},
		"either a new entity tag or a new date do":   {blob.ModifiedAccessConditions{IfNoneMatch: &other, IfModifiedSince: &after}, 200},
		"neither a new entity tag nor a new date":    {blob.ModifiedAccessConditions{IfNoneMatch: &e, IfModifiedSince: &after}, 304},
		"what must match counts before what differs": {blob.ModifiedAccessConditions{IfMatch: &other, IfNoneMatch: &e}, 412},
	} {
		t.Run(name, func(t *testing.T) {
			a := &blob.AccessConditions{ModifiedAccessConditions: &tc.cond}
			_, err := cc.NewBlobClient("a").GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: a})
			if tc.status == 200 {
				require.NoError(t, err)
			} else {
				requireCode(t, err, tc.status, bloberror.ConditionNotMet)
			}
			res, err := cc.NewBlobClient("a").DownloadStream(ctx, &blob.DownloadStreamOptions{AccessConditions: a})
			switch tc.status {
			case 200:
				require.NoError(t, err)
				require.NotNil(t, res.ETag)
			case 304:
				// The SDK reports this one as success without a body.
				require.NoError(t, err)
				require.Nil(t, res.BlobType)
			default:
				requireCode(t, err, tc.status, bloberror.ConditionNotMet)
			}
		})
	}
}
