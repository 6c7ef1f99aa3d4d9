package azfake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

func TestTagConditions(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a", "x", &blockblob.UploadOptions{Tags: map[string]string{"state": "pending", "intent": "7", "a b": "c"}})
	for query, want := range map[string]int{
		`"state" = 'pending'`:                             200,
		`"state"='pending'`:                               200,
		`"state" = 'pending' AND "intent" = '7'`:          200,
		`"state" = 'pending' and "intent" = '7'`:          200,
		`"state" = 'pending' AND "intent" = '8'`:          412,
		`"state" <> 'committed'`:                          200,
		`"state" <> 'pending'`:                            412,
		`"state" > 'o' AND "state" < 'q'`:                 200,
		`"state" >= 'pending' AND "state" <= 'pending'`:   200,
		`"state" > 'pending'`:                             412,
		`"gone" = 'x'`:                                    412,
		`"gone" <> 'x'`:                                   412,
		`"gone" <> 'x' OR "intent" = '7'`:                 200,
		`"state" = 'x' AND "intent" = '7' OR "a b" = 'c'`: 200,
		`"a b" = 'c'`:                                     200,
		`"State" = 'pending'`:                             412,
		`"state" = "pending"`:                             400,
		`state = 'pending'`:                               400,
		`NOT "state" = 'pending'`:                         400,
		`"state" IN ('pending')`:                          400,
		`"state" = 'pending' AND`:                         400,
		`"state" = 'pending`:                              400,
		`"state" 'pending'`:                               400,
		`"state" = 'pending' "intent" = '7'`:              400,
		`"" = 'pending'`:                                  400,
		`("state" = 'pending')`:                           400,
		`"state" = 'pending' XOR "intent" = '7'`:          400,
		strings.Repeat(`"state" = 'pending' AND `, 9) + `"intent" = '7' `: 200,
	} {
		t.Run(query, func(t *testing.T) {
			_, err := cc.NewBlobClient("a").GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: ifTags(query)})
			switch want {
			case 200:
				require.NoError(t, err)
			case 412:
				requireCode(t, err, 412, bloberror.ConditionNotMet)
			default:
				requireCode(t, err, 400, bloberror.InvalidHeaderValue)
			}
		})
	}
}

func TestTagsLeaveETagAndDateAlone(t *testing.T) {
	clk := newClock()
	srv, cc := start(t, &azfake.Options{Now: clk.now})
	e := put(t, cc, "a", "x", &blockblob.UploadOptions{Tags: map[string]string{"state": "pending"}})
	wrote := clk.now()
	clk.pass(time.Hour)
	_, err := cc.NewBlobClient("a").SetTags(ctx, map[string]string{"state": "committed", "n": ""}, nil)
	require.NoError(t, err)
	p, err := cc.NewBlobClient("a").GetProperties(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, e, *p.ETag)
	require.Equal(t, wrote, p.LastModified.UTC())
	require.Equal(t, int64(2), *p.TagCount)
	got, err := cc.NewBlobClient("a").GetTags(ctx, nil)
	require.NoError(t, err)
	require.Len(t, got.BlobTagSet, 2)
	require.Equal(t, "state", *got.BlobTagSet[1].Key)
	require.Equal(t, "committed", *got.BlobTagSet[1].Value)

	put(t, cc, "a", "y", nil)
	require.Empty(t, srv.Inspect("box")["a"].Tags, "an overwrite without tags erases them")
}

func TestTagsBeyondTheLimits(t *testing.T) {
	_, cc := start(t, nil)
	put(t, cc, "a", "x", nil)
	many := map[string]string{}
	for i := range 11 {
		many[fmt.Sprint("k", i)] = "v"
	}
	for name, tags := range map[string]map[string]string{
		"eleven tags":      many,
		"a long key":       {strings.Repeat("k", 129): "v"},
		"a long value":     {"k": strings.Repeat("v", 257)},
		"a strange letter": {"k": "é"},
		"a quote":          {"k": "it's"},
		"no key":           {"": "v"},
		"a question mark":  {"k?": "v"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cc.NewBlockBlobClient("b").Upload(ctx, body("x"), &blockblob.UploadOptions{Tags: tags})
			requireCode(t, err, 400, bloberror.InvalidHeaderValue)
			_, err = cc.NewBlobClient("a").SetTags(ctx, tags, nil)
			requireCode(t, err, 400, bloberror.InvalidXMLNodeValue)
		})
	}
	full := map[string]string{strings.Repeat("k", 128): strings.Repeat("v", 256), "Az 09+-./:=_": "Az 09+-./:=_"}
	_, err := cc.NewBlobClient("a").SetTags(ctx, full, nil)
	require.NoError(t, err)
	put(t, cc, "b", "x", &blockblob.UploadOptions{Tags: full})
}

func TestAHierarchicalNamespaceHasNoTags(t *testing.T) {
	srv, cc := start(t, &azfake.Options{Hierarchical: true})
	put(t, cc, "a", "x", nil)
	_, err := cc.NewBlobClient("a").SetTags(ctx, map[string]string{"k": "v"}, nil)
	requireCode(t, err, 400, bloberror.InvalidQueryParameterValue)
	_, err = cc.NewBlobClient("a").GetTags(ctx, nil)
	requireCode(t, err, 400, bloberror.InvalidQueryParameterValue)
	_, err = cc.NewBlockBlobClient("b").Upload(ctx, body("x"), &blockblob.UploadOptions{Tags: map[string]string{"k": "v"}})
	requireCode(t, err, 409, "FeatureNotYetSupportedForHierarchicalNamespaceAccounts")
	_, err = cc.NewBlobClient("a").Delete(ctx, &blob.DeleteOptions{AccessConditions: ifTags(`"k" = 'v'`)})
	requireCode(t, err, 409, "FeatureNotYetSupportedForHierarchicalNamespaceAccounts")
	require.Equal(t, []string{"a"}, srv.Names("box"))
	info, err := cc.GetAccountInfo(ctx, nil)
	require.NoError(t, err)
	require.True(t, *info.IsHierarchicalNamespaceEnabled)
}
