// Package azstore runs the tests of package azstore against Azurite. Where the
// emulator differs from the documented service, the test says which of the two
// the documentation supports; internal/azfake follows the documentation.
package azstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/store"
)

const (
	intentID    = "0190c0de-0000-4000-8000-000000000001"
	otherIntent = "0190c0de-0000-4000-8000-000000000002"
	kib         = 1 << 10
)

var small = &azstore.Options{BlockSize: 64 * kib, Concurrency: 3}

func TestMain(m *testing.M) {
	// The SDK's default transport keeps idle connections; they are not leaks.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func over(t *testing.T, c *container.Client, opts *azstore.Options) *azstore.Store {
	t.Helper()
	s, err := azstore.New(c, opts)
	require.NoError(t, err)
	return s
}

func noise(n int) []byte {
	out := make([]byte, n)
	state := uint64(n) + 1
	for i := range out {
		state = state*6364136223846793005 + 1442695040888963407
		out[i] = byte(state >> 56)
	}
	return out
}

func params(name string, data []byte) store.CreateParams {
	return store.CreateParams{
		Name: name, IntentID: intentID, Key: "Ärger/7 ", Base: "absent", ContentType: "text/plain",
		Body: store.NewBody(bytes.NewReader(data), int64(len(data)), ""),
	}
}

func create(t *testing.T, s *azstore.Store, name string, data []byte) store.Blob {
	t.Helper()
	b, err := s.Create(t.Context(), params(name, data))
	require.NoError(t, err)
	return b
}

func read(t *testing.T, s *azstore.Store, p store.OpenParams) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), p)
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return got
}

func deleteOne(ctx context.Context, s *azstore.Store, d store.DeleteBlob) error {
	return s.Delete(ctx, []store.DeleteBlob{d})[0]
}

func names(t *testing.T, s *azstore.Store) []string {
	t.Helper()
	var all []string
	for info, err := range s.List(t.Context(), store.ListBlobsParams{}) {
		require.NoError(t, err)
		all = append(all, info.Name)
	}
	return all
}

// stageAndFail leaves staged blocks under the name, as a crash would.
func stageAndFail(t *testing.T, s *azstore.Store, name string) {
	t.Helper()
	p := params(name, nil)
	p.Body = store.NewBody(bytes.NewReader(noise(200*kib)), 200*kib+1, "") // shorter than declared
	_, err := s.Create(t.Context(), p)
	require.ErrorIs(t, err, store.ErrBodyMismatch)
}

func TestLifeOfABlob(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), &azstore.Options{BlockSize: 64 * kib, Prefix: "tenant-7/"})
	for _, size := range []int{0, 1, 4 * kib, 64 * kib, 64*kib + 1, 300 * kib} {
		data := noise(size)
		b := create(t, s, "a/b c+ü", data)
		info, err := s.Stat(t.Context(), store.StatParams{Name: b.Name, Seal: true})
		require.NoError(t, err)
		require.Equal(t, store.BlobInfo{Blob: b, IntentID: intentID, Key: "Ärger/7 ", Base: "absent", CreatedAt: info.CreatedAt}, info)
		require.WithinDuration(t, time.Now(), info.CreatedAt, time.Minute)
		require.True(t, bytes.Equal(data, read(t, s, store.OpenParams{Name: b.Name, ETag: b.ETag, Count: -1})))
		require.Empty(t, read(t, s, store.OpenParams{Name: b.Name, ETag: b.ETag, Offset: int64(size), Count: -1}))
		for _, more := range []int{0, 10, 300 * kib} {
			_, err = s.Create(t.Context(), params(b.Name, noise(more)))
			require.ErrorIs(t, err, store.ErrExists)
		}
		_, err = s.Open(t.Context(), store.OpenParams{Name: b.Name, ETag: `"0x1"`, Count: -1})
		require.ErrorIs(t, err, store.ErrConflict)
		_, err = s.Open(t.Context(), store.OpenParams{Name: "absent", ETag: b.ETag, Count: -1})
		require.ErrorIs(t, err, store.ErrBlobNotFound)

		require.NoError(t, s.Seal(t.Context(), b.Name, intentID))
		require.NoError(t, s.Seal(t.Context(), b.Name, intentID))
		info.Sealed = true
		for listed, err := range s.List(t.Context(), store.ListBlobsParams{Prefix: "a/"}) {
			require.NoError(t, err)
			require.Equal(t, info, listed)
		}
		errs := s.Delete(t.Context(), []store.DeleteBlob{
			{Name: b.Name, IntentID: intentID, Pending: true},
			{Name: b.Name, IntentID: otherIntent},
			{Name: b.Name, IntentID: intentID},
			{Name: "absent", IntentID: intentID},
		})
		require.ErrorIs(t, errs[0], store.ErrGuardRefused)
		require.ErrorIs(t, errs[1], store.ErrGuardRefused)
		require.NoError(t, errs[2])
		require.ErrorIs(t, errs[3], store.ErrBlobNotFound)
		require.Empty(t, names(t, s))
	}
}

func TestExactlyOneOfManyCreatorsWins(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), small)
	for name, size := range map[string]int{"small": 4 * kib, "large": 200 * kib} {
		errs := make([]error, 5)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = s.Create(t.Context(), params(name, noise(size+i))) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, won, "two winners")
				won = i
				continue
			}
			require.ErrorIs(t, err, store.ErrExists)
		}
		require.NotEqual(t, -1, won)
		info, err := s.Stat(t.Context(), store.StatParams{Name: name})
		require.NoError(t, err)
		require.True(t, bytes.Equal(noise(size+won), read(t, s, store.OpenParams{Name: name, ETag: info.ETag, Count: -1})))
	}
}

// Differs: Azurite answers 409 to a create-only Put Blob over a name that has
// only staged blocks, though nothing is readable. "Put Blob" (REST reference)
// makes the blob and discards the blocks. Create succeeds under both.
func TestStagedBlocksAreNotInTheWay(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), small)
	for name, size := range map[string]int{"empty": 0, "small": 10, "large": 300 * kib} {
		stageAndFail(t, s, name)
		data := noise(size)
		b := create(t, s, name, data)
		require.True(t, bytes.Equal(data, read(t, s, store.OpenParams{Name: name, ETag: b.ETag, Count: -1})))
	}
}

// Differs: Azurite answers 202 to a delete where only staged blocks are, and
// keeps them. "Delete Blob" (REST reference) speaks of blobs: 404. A caller who
// wants them gone says ClearStaged, and then hears the same under both.
func TestClearStaged(t *testing.T) {
	c := services.AzuriteContainer(t)
	s := over(t, c, small)
	for _, name := range []string{"one", "two", "three"} {
		stageAndFail(t, s, name)
	}
	err := deleteOne(t.Context(), s, store.DeleteBlob{Name: "three", IntentID: intentID, Pending: true})
	if err != nil {
		require.ErrorIs(t, err, store.ErrBlobNotFound)
	}
	create(t, s, "blob", nil)
	errs := s.Delete(t.Context(), []store.DeleteBlob{
		{Name: "one", IntentID: intentID, Pending: true, ClearStaged: true},
		{Name: "nothing", IntentID: intentID, Pending: true, ClearStaged: true},
		{Name: "blob", IntentID: intentID, Pending: true, ClearStaged: true},
	})
	require.ErrorIs(t, errs[0], store.ErrBlobNotFound)
	require.ErrorIs(t, errs[1], store.ErrBlobNotFound)
	require.NoError(t, errs[2])
	require.ErrorIs(t, deleteOne(t.Context(), s, store.DeleteBlob{Name: "two", IntentID: intentID, Pending: true, ClearStaged: true}), store.ErrBlobNotFound)
	require.Empty(t, names(t, s))
	staged := container.ListBlobsInclude{UncommittedBlobs: true}
	page, err := c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: staged}).NextPage(t.Context())
	require.NoError(t, err)
	for _, item := range page.Segment.BlobItems {
		require.Equal(t, "three", *item.Name, "its blocks were not to be cleared")
	}
}

// Differs: Azurite ignores every condition on Set Blob Tags. "Set Blob Tags" and
// "Specifying conditional headers" (REST reference) say that x-ms-if-tags holds
// there, and Seal rests on that. This test fails on the day Azurite honours it:
// then Probe's exception and the skip in the suite can go.
func TestAzuriteIgnoresTheGuardOfASeal(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), nil)
	create(t, s, "a", nil)
	require.NoError(t, s.Seal(t.Context(), "a", otherIntent), "the service answers 412")
}

func TestProbe(t *testing.T) {
	for _, prefix := range []string{"", "tenant-7/"} {
		s := over(t, services.AzuriteContainer(t), &azstore.Options{Prefix: prefix})
		require.NoError(t, s.Probe(t.Context()))
		require.Empty(t, names(t, s))
	}
}

// Differs: Azurite takes tags on an upload without the permission t. "Create a
// service SAS" (REST reference) asks for it. Probe names it under both, because
// it asks for the tags themselves.
func TestProbeNamesEachMissingPermission(t *testing.T) {
	c := services.AzuriteContainer(t)
	all := []string{"r", "w", "d", "l", "t"}
	for _, missing := range all {
		has := func(letter string) bool { return letter != missing }
		link, err := c.GetSASURL(sas.ContainerPermissions{
			Read: has("r"), Write: has("w"), Delete: has("d"), List: has("l"), Tag: has("t"),
		}, time.Now().Add(time.Hour), nil)
		require.NoError(t, err)
		err = over(t, anonymous(t, link), nil).Probe(t.Context())
		require.ErrorIs(t, err, store.ErrSetup)
		for _, letter := range all {
			require.Equal(t, letter == missing, strings.Contains(err.Error(), "SAS permission "+letter), "without %s: %v", missing, err)
		}
		require.NotContains(t, err.Error(), "sig=")
	}
	require.Empty(t, names(t, over(t, c, nil)))
}

func anonymous(t *testing.T, link string) *container.Client {
	t.Helper()
	o := policy.ClientOptions{Retry: policy.RetryOptions{RetryDelay: time.Millisecond}}
	c, err := container.NewClientWithNoCredential(link, &container.ClientOptions{ClientOptions: o})
	require.NoError(t, err)
	return c
}

// Differs: Azurite answers 500 to a container's batch under an account SAS.
// "Blob Batch" (REST reference) allows one. The deletes succeed under both.
func TestDeleteUnderAnAccountSAS(t *testing.T) {
	c := services.AzuriteContainer(t)
	account, err := service.NewClientFromConnectionString(services.Azurite(t), nil)
	require.NoError(t, err)
	link, err := account.GetSASURL(
		sas.AccountResourceTypes{Service: true, Container: true, Object: true},
		sas.AccountPermissions{Read: true, Write: true, Delete: true, List: true, Create: true, Tag: true},
		time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	query := link[strings.Index(link, "?"):]
	s := over(t, anonymous(t, c.URL()+query), nil)
	require.NoError(t, s.Probe(t.Context()))
	var all []store.DeleteBlob
	for _, name := range []string{"a", "b", "c"} {
		create(t, s, name, nil)
		all = append(all, store.DeleteBlob{Name: name, IntentID: intentID})
	}
	for _, err := range s.Delete(t.Context(), all) {
		require.NoError(t, err)
	}
	require.Empty(t, names(t, s))
}

func TestContainerThatDoesNotExist(t *testing.T) {
	c := services.AzuriteContainer(t)
	s := over(t, c, small)
	_, err := c.Delete(t.Context(), nil)
	require.NoError(t, err)
	for _, size := range []int{1, 300 * kib} {
		_, err = s.Create(t.Context(), params("a", noise(size)))
		require.ErrorIs(t, err, store.ErrSetup)
		require.ErrorContains(t, err, "create it")
	}
	require.ErrorIs(t, s.Probe(t.Context()), store.ErrSetup)
	for _, err := range s.Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: intentID}, {Name: "b", IntentID: intentID}}) {
		require.ErrorIs(t, err, store.ErrSetup)
	}
}

// A cancelled upload leaves nothing readable, through real connections whose
// write loops may still hold a block when the request has already failed.
func TestCancelInMidUpload(t *testing.T) {
	s := over(t, services.AzuriteContainer(t), small)
	cause := errors.New("the client left")
	for after := range 12 {
		ctx, cancel := context.WithCancelCause(t.Context())
		left := noise(700 * kib)
		p := params("a", nil)
		p.Body = store.NewBody(readerFunc(func(b []byte) (int, error) {
			if len(left) <= 700*kib-after*60*kib {
				cancel(cause)
			}
			n := copy(b[:min(len(b), 8*kib)], left)
			if left = left[n:]; n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}), -1, "")
		_, err := s.Create(ctx, p)
		require.ErrorIs(t, err, cause)
		require.Empty(t, names(t, s))
	}
	data := noise(300 * kib)
	b := create(t, s, "a", data)
	require.True(t, bytes.Equal(data, read(t, s, store.OpenParams{Name: "a", ETag: b.ETag, Count: -1})))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// loseReply lets the n-th request through and loses its reply.
type loseReply struct {
	mu      sync.Mutex
	n, seen int
}

var errLost = errors.New("reply lost")

func (l *loseReply) Do(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.seen++
	lose := l.seen == l.n
	l.mu.Unlock()
	resp, err := http.DefaultClient.Do(req)
	if err != nil || !lose {
		return resp, err
	}
	_, _ = io.Copy(io.Discard, resp.Body) // applied, and nobody hears of it
	return nil, errors.Join(errLost, resp.Body.Close())
}

// The SDK repeats a request whose reply was lost, and meets its own success.
func TestLostReplies(t *testing.T) {
	for name, size := range map[string]int{"single": 10, "blocks": 200 * kib} {
		for n := 1; ; n++ {
			lose := &loseReply{n: n}
			c := services.AzuriteContainerWith(t, &container.ClientOptions{ClientOptions: policy.ClientOptions{
				Transport: lose, Retry: policy.RetryOptions{RetryDelay: time.Millisecond},
			}})
			s := over(t, c, small)
			data := noise(size)
			b, err := s.Create(t.Context(), params("a", data))
			if err != nil {
				require.ErrorIs(t, err, store.ErrExists, "%s, reply %d", name, n)
			}
			info, statErr := s.Stat(t.Context(), store.StatParams{Name: "a"})
			require.NoError(t, statErr)
			require.Equal(t, intentID, info.IntentID)
			if err == nil {
				require.Equal(t, b, info.Blob)
			}
			require.True(t, bytes.Equal(data, read(t, s, store.OpenParams{Name: "a", ETag: info.ETag, Count: -1})))
			require.NoError(t, s.Seal(t.Context(), "a", intentID))
			for _, err := range s.Delete(t.Context(), []store.DeleteBlob{{Name: "a", IntentID: intentID}, {Name: "b", IntentID: intentID, ClearStaged: true}}) {
				if err != nil {
					require.ErrorIs(t, err, store.ErrBlobNotFound, "%s, reply %d", name, n)
				}
			}
			require.Empty(t, names(t, s))
			if lose.seen < n {
				break
			}
		}
	}
}

// The guard is on the blob's own tags: an upload without tags is nobody's.
func TestBlobThatIsNotOurs(t *testing.T) {
	c := services.AzuriteContainer(t)
	s := over(t, c, nil)
	_, err := c.NewBlockBlobClient("theirs").UploadBuffer(t.Context(), []byte("x"), nil)
	require.NoError(t, err)
	require.ErrorIs(t, deleteOne(t.Context(), s, store.DeleteBlob{Name: "theirs", IntentID: intentID}), store.ErrGuardRefused)
	info, err := s.Stat(t.Context(), store.StatParams{Name: "theirs", Seal: true})
	require.NoError(t, err)
	require.Empty(t, info.IntentID)
}

// A snapshot that somebody took does not keep the blob alive.
func TestDeleteTakesSnapshotsWithIt(t *testing.T) {
	c := services.AzuriteContainer(t)
	s := over(t, c, nil)
	var all []store.DeleteBlob
	for _, name := range []string{"a", "b", "c"} {
		create(t, s, name, nil)
		_, err := c.NewBlobClient(name).CreateSnapshot(t.Context(), &blob.CreateSnapshotOptions{})
		require.NoError(t, err)
		all = append(all, store.DeleteBlob{Name: name, IntentID: intentID})
	}
	require.NoError(t, deleteOne(t.Context(), s, all[0]))
	for _, err := range s.Delete(t.Context(), all[1:]) {
		require.NoError(t, err)
	}
	require.Empty(t, names(t, s))
}
