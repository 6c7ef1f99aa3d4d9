package azfake_test

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

func locked(t testing.TB, clk *clock) (*azfake.Server, *container.Client) {
	t.Helper()
	return start(t, &azfake.Options{Account: account, Key: key, Now: clk.now})
}

// containerSAS is a client with a service SAS for the container.
func containerSAS(t testing.TB, srv *azfake.Server, clk *clock, p sas.ContainerPermissions) *container.Client {
	t.Helper()
	return withSAS(t, srv, sas.BlobSignatureValues{
		ContainerName: "box", Permissions: p.String(), ExpiryTime: clk.now().Add(time.Hour),
	})
}

func withSAS(t testing.TB, srv *azfake.Server, v sas.BlobSignatureValues) *container.Client {
	t.Helper()
	cred, err := container.NewSharedKeyCredential(account, key)
	require.NoError(t, err)
	q, err := v.SignWithSharedKey(cred)
	require.NoError(t, err)
	return withQuery(t, srv, q.Encode())
}

func withQuery(t testing.TB, srv *azfake.Server, query string) *container.Client {
	t.Helper()
	cc, err := container.NewClientWithNoCredential(srv.URL()+"box?"+query, &container.ClientOptions{ClientOptions: srv.ClientOptions()})
	require.NoError(t, err)
	return cc
}

func TestSharedKeySignaturesAreVerified(t *testing.T) {
	srv, cc := locked(t, newClock())
	put(t, cc, "d/a b%é", "x", &blockblob.UploadOptions{
		Metadata: map[string]*string{"blobtx_intent": ptr("1"), "blobtx0": ptr("2"), "blobtxa": ptr("3")},
		Tags:     map[string]string{"k": "v"}, AccessConditions: ifNoneMatch("*"),
	})
	require.Equal(t, "x", get(t, cc, "d/a b%é"))
	require.Len(t, names(t, cc, &container.ListBlobsFlatOptions{Prefix: ptr("d/a b"), Include: container.ListBlobsInclude{Tags: true, Metadata: true}}), 1)

	_, err := cc.NewBlockBlobClient("m").Upload(ctx, body("x"), &blockblob.UploadOptions{Metadata: map[string]*string{"a-b": ptr("1"), "aa": ptr("2")}})
	requireCode(t, err, 400, bloberror.InvalidMetadata) // the signature is right: hyphens do not count in the order

	wrong, err := container.NewSharedKeyCredential(account, base64.StdEncoding.EncodeToString([]byte("another key")))
	require.NoError(t, err)
	thief, err := container.NewClientWithSharedKeyCredential(srv.URL()+"box", wrong, &container.ClientOptions{ClientOptions: srv.ClientOptions()})
	require.NoError(t, err)
	_, err = thief.NewBlobClient("d/a b%é").GetProperties(ctx, nil)
	requireCode(t, err, 403, bloberror.AuthenticationFailed)
	nobody, err := container.NewClientWithNoCredential(srv.URL()+"box", &container.ClientOptions{ClientOptions: srv.ClientOptions()})
	require.NoError(t, err)
	_, err = nobody.NewBlobClient("d/a b%é").DownloadStream(ctx, nil)
	requireCode(t, err, 401, bloberror.NoAuthenticationInformation)
}

func TestASASAllowsWhatItSays(t *testing.T) {
	denied := bloberror.AuthorizationPermissionMismatch
	type op = func(*container.Client) error
	upload := func(o *blockblob.UploadOptions) op {
		return func(cc *container.Client) error {
			_, err := cc.NewBlockBlobClient("new").Upload(ctx, body("x"), o)
			return err
		}
	}
	ops := map[string]op{
		"Put Blob":           upload(nil),
		"Put Blob with tags": upload(&blockblob.UploadOptions{Tags: map[string]string{"k": "v"}}),
		"Overwrite": func(cc *container.Client) error {
			_, err := cc.NewBlockBlobClient("a").Upload(ctx, body("x"), nil)
			return err
		},
		"Put Block": func(cc *container.Client) error {
			_, err := cc.NewBlockBlobClient("s").StageBlock(ctx, blockID(0), body("x"), nil)
			return err
		},
		"Put Block List": func(cc *container.Client) error {
			_, err := cc.NewBlockBlobClient("s").CommitBlockList(ctx, nil, nil)
			return err
		},
		"Head": func(cc *container.Client) error { _, err := cc.NewBlobClient("a").GetProperties(ctx, nil); return err },
		"Set Blob Tags": func(cc *container.Client) error {
			_, err := cc.NewBlobClient("a").SetTags(ctx, nil, nil)
			return err
		},
		"Get Blob Tags": func(cc *container.Client) error { _, err := cc.NewBlobClient("a").GetTags(ctx, nil); return err },
		"Delete Blob":   func(cc *container.Client) error { _, err := cc.NewBlobClient("a").Delete(ctx, nil); return err },
		"Lease Blob": func(cc *container.Client) error {
			_, err := leaseOf(t, cc, "a", mine).AcquireLease(ctx, -1, nil)
			return err
		},
		"List": func(cc *container.Client) error {
			_, err := cc.NewListBlobsFlatPager(nil).NextPage(ctx)
			return err
		},
		"List with tags": func(cc *container.Client) error {
			_, err := cc.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Tags: true}}).NextPage(ctx)
			return err
		},
	}
	for name, tc := range map[string]struct {
		perms   sas.ContainerPermissions
		allowed []string
	}{
		"r":   {sas.ContainerPermissions{Read: true}, []string{"Head"}},
		"w":   {sas.ContainerPermissions{Write: true}, []string{"Put Blob", "Overwrite", "Put Block", "Put Block List", "Lease Blob"}},
		"wt":  {sas.ContainerPermissions{Write: true, Tag: true}, []string{"Put Blob", "Put Blob with tags", "Overwrite", "Put Block", "Put Block List", "Lease Blob", "Set Blob Tags", "Get Blob Tags"}},
		"c":   {sas.ContainerPermissions{Create: true}, []string{"Put Blob"}},
		"ct":  {sas.ContainerPermissions{Create: true, Tag: true}, []string{"Put Blob", "Put Blob with tags", "Set Blob Tags", "Get Blob Tags"}},
		"d":   {sas.ContainerPermissions{Delete: true}, []string{"Delete Blob"}},
		"l":   {sas.ContainerPermissions{List: true}, []string{"List"}},
		"lt":  {sas.ContainerPermissions{List: true, Tag: true}, []string{"List", "List with tags", "Set Blob Tags", "Get Blob Tags"}},
		"x":   {sas.ContainerPermissions{DeletePreviousVersion: true}, nil},
		"all": {sas.ContainerPermissions{Read: true, Write: true, Delete: true, List: true, Tag: true}, keys(ops)},
	} {
		for opName, do := range ops {
			t.Run(name+"/"+opName, func(t *testing.T) {
				clk := newClock()
				srv, cc := locked(t, clk)
				put(t, cc, "a", "x", nil)
				err := do(containerSAS(t, srv, clk, tc.perms))
				for _, a := range tc.allowed {
					if a == opName {
						require.NoError(t, err)
						return
					}
				}
				if opName == "Overwrite" && tc.perms.Create {
					requireCode(t, err, 403, bloberror.UnauthorizedBlobOverwrite)
					return
				}
				requireCode(t, err, 403, denied)
			})
		}
	}
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestASASIsForOneResourceAndOneTime(t *testing.T) {
	clk := newClock()
	srv, cc := locked(t, clk)
	put(t, cc, "a", "x", nil)
	put(t, cc, "b", "x", nil)
	head := func(cc *container.Client, name string) error {
		_, err := cc.NewBlobClient(name).GetProperties(ctx, nil)
		return err
	}
	v := sas.BlobSignatureValues{ContainerName: "box", BlobName: "a", Permissions: (&sas.BlobPermissions{Read: true}).String(), ExpiryTime: clk.now().Add(time.Minute)}
	one := withSAS(t, srv, v)
	require.NoError(t, head(one, "a"))
	requireCode(t, head(one, "b"), 403, bloberror.AuthenticationFailed)
	clk.pass(time.Minute)
	requireCode(t, head(one, "a"), 403, bloberror.AuthenticationFailed)

	v.StartTime, v.ExpiryTime = clk.now().Add(time.Minute), clk.now().Add(time.Hour)
	early := withSAS(t, srv, v)
	requireCode(t, head(early, "a"), 403, bloberror.AuthenticationFailed)
	clk.pass(time.Minute)
	require.NoError(t, head(early, "a"))

	v.ContainerName, v.BlobName = "elsewhere", ""
	requireCode(t, head(withSAS(t, srv, v), "a"), 403, bloberror.AuthenticationFailed)
}

func TestAChangedSASIsRefused(t *testing.T) {
	clk := newClock()
	srv, cc := locked(t, clk)
	put(t, cc, "a", "x", nil)
	cred, err := container.NewSharedKeyCredential(account, key)
	require.NoError(t, err)
	q, err := sas.BlobSignatureValues{ContainerName: "box", Permissions: "r", ExpiryTime: clk.now().Add(time.Hour)}.SignWithSharedKey(cred)
	require.NoError(t, err)
	_, err = withQuery(t, srv, q.Encode()).NewBlobClient("a").GetProperties(ctx, nil)
	require.NoError(t, err)
	for name, change := range map[string]string{"more permissions": "&sp=rwd", "a later end": "&se=2099-01-01T00:00:00Z"} {
		t.Run(name, func(t *testing.T) {
			// The first value of a parameter counts, so the change goes first.
			_, err := withQuery(t, srv, change[1:]+"&"+q.Encode()).NewBlobClient("a").GetProperties(ctx, nil)
			requireCode(t, err, 403, bloberror.AuthenticationFailed)
		})
	}
}

func TestAServiceSASDoesNotCoverTheContainerItself(t *testing.T) {
	clk := newClock()
	srv, _ := locked(t, clk)
	cc := containerSAS(t, srv, clk, sas.ContainerPermissions{Read: true, Write: true, Create: true, Delete: true, List: true})
	_, err := cc.GetProperties(ctx, nil)
	requireCode(t, err, 403, bloberror.AuthorizationFailure)
	_, err = cc.Delete(ctx, nil)
	requireCode(t, err, 403, bloberror.AuthorizationFailure)
}

func TestAnAccountSAS(t *testing.T) {
	clk := newClock()
	srv, cc := locked(t, clk)
	put(t, cc, "a", "x", nil)
	cred, err := service.NewSharedKeyCredential(account, key)
	require.NoError(t, err)
	client := func(p sas.AccountPermissions, rt sas.AccountResourceTypes) *container.Client {
		q, err := sas.AccountSignatureValues{Permissions: p.String(), ResourceTypes: rt.String(), ExpiryTime: clk.now().Add(time.Hour)}.SignWithSharedKey(cred)
		require.NoError(t, err)
		return withQuery(t, srv, q.Encode())
	}
	objects := client(sas.AccountPermissions{Read: true, Delete: true}, sas.AccountResourceTypes{Object: true})
	_, err = objects.NewBlobClient("a").GetProperties(ctx, nil)
	require.NoError(t, err)
	_, err = objects.GetProperties(ctx, nil)
	requireCode(t, err, 403, bloberror.AuthorizationResourceTypeMismatch)
	containers := client(sas.AccountPermissions{Read: true}, sas.AccountResourceTypes{Container: true})
	_, err = containers.GetProperties(ctx, nil)
	require.NoError(t, err)
	_, err = containers.Delete(ctx, nil)
	requireCode(t, err, 403, bloberror.AuthorizationPermissionMismatch)
}

func TestABatchUnderAContainerSAS(t *testing.T) {
	clk := newClock()
	srv, cc := locked(t, clk)
	for _, n := range []string{"a", "b"} {
		put(t, cc, n, "x", nil)
	}
	submit := func(p sas.ContainerPermissions) error {
		client := containerSAS(t, srv, clk, p)
		bb, err := client.NewBatchBuilder()
		require.NoError(t, err)
		require.NoError(t, bb.Delete("a", nil))
		res, err := client.SubmitBatch(ctx, bb, nil)
		require.NoError(t, err)
		return res.Responses[0].Error
	}
	requireCode(t, submit(sas.ContainerPermissions{Read: true}), 403, bloberror.AuthorizationPermissionMismatch)
	require.NoError(t, submit(sas.ContainerPermissions{Delete: true}))
	require.Equal(t, []string{"b"}, srv.Names("box"))
}

func TestPermissionsCountWithoutAKeyToo(t *testing.T) {
	srv, _ := start(t, nil)
	cc := withQuery(t, srv, "sv=2024-11-04&sr=c&sp=r&se=2099-01-01T00:00:00Z&sig=unverified")
	_, err := cc.NewBlockBlobClient("a").Upload(ctx, body("x"), nil)
	requireCode(t, err, 403, bloberror.AuthorizationPermissionMismatch)
	_, err = cc.NewBlobClient("a").GetProperties(ctx, nil)
	requireCode(t, err, 404, bloberror.BlobNotFound)
}

func TestABearerTokenIsTakenAtItsWord(t *testing.T) {
	srv, _ := locked(t, newClock())
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, srv.URL()+"box?restype=container", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer anything")
	res, err := srv.HTTPClient().Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
}

func TestCopySourcesNeedARightOfTheirOwn(t *testing.T) {
	clk := newClock()
	srv, cc := locked(t, clk)
	put(t, cc, "a", "x", nil)
	plain := cc.NewBlobClient("a").URL()
	signed := containerSAS(t, srv, clk, sas.ContainerPermissions{Read: true}).NewBlobClient("a").URL()
	blind := containerSAS(t, srv, clk, sas.ContainerPermissions{Write: true}).NewBlobClient("a").URL()

	_, err := cc.NewBlobClient("c").CopyFromURL(ctx, plain, nil)
	requireCode(t, err, 403, bloberror.CannotVerifyCopySource)
	_, err = cc.NewBlobClient("c").CopyFromURL(ctx, blind, nil)
	requireCode(t, err, 403, bloberror.CannotVerifyCopySource)
	_, err = cc.NewBlobClient("c").CopyFromURL(ctx, signed, nil)
	require.NoError(t, err)
	_, err = cc.NewBlobClient("c").StartCopyFromURL(ctx, plain, nil)
	require.NoError(t, err, "Copy Blob may read its own account under the account key")
	_, err = cc.NewBlobClient("c").CopyFromURL(ctx, plain, &blob.CopyFromURLOptions{CopySourceAuthorization: ptr("Bearer anything")})
	require.NoError(t, err)
}
