package azsteps_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/internal/azsteps"
	"github.com/blobtx/blobtx/store/faultstore"
)

// setting is a container, a process and a fault for its first request.
type setting struct {
	server *azfake.Server
	client *container.Client
	alive  *faultstore.Process
	first  faultstore.Kind
	steps  []faultstore.Op
	late   []faultstore.Message
	told   []error
	held   func() // what happens while the first request is held
}

func set(t *testing.T, first faultstore.Kind) *setting {
	s := &setting{server: azfake.New(nil), first: first}
	s.server.MakeContainer("box")
	s.alive = faultstore.NewProcess(t.Context(), s)
	var err error
	s.client, err = azsteps.Client(s.server, "box", s.alive)
	require.NoError(t, err)
	return s
}

func (s *setting) Step(_ context.Context, op faultstore.Op) faultstore.Fault {
	s.steps = append(s.steps, op)
	f := faultstore.Fault{
		Late: func(m faultstore.Message) { s.late = append(s.late, m) },
		Told: func(_ any, err error) { s.told = append(s.told, err) },
	}
	if len(s.steps) == 1 {
		f.Kind = s.first
		if s.held != nil {
			s.held()
		}
	}
	return f
}

func (s *setting) put(ctx context.Context, body string) error {
	any := azcore.ETagAny
	_, err := s.client.NewBlockBlobClient("b").Upload(ctx, streaming.NopCloser(strings.NewReader(body)), &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}},
	})
	return err
}

func (s *setting) body() string { return string(s.server.Inspect("box")["b"].Data) }

// Each fault meets the first try of a create-only Put Blob; the SDK's second
// try goes through.
func TestFaultsOfAWrite(t *testing.T) {
	for _, c := range []struct {
		kind   faultstore.Kind
		steps  int
		exists bool // the second try met the first
	}{
		{faultstore.Proceed, 1, false},
		{faultstore.FailBefore, 2, false},
		{faultstore.LoseReply, 2, true},
		{faultstore.Late, 2, false},
		{faultstore.Midway, 2, false},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := set(t, c.kind), time.Now()
				err := s.put(s.alive.Context(), "hello")
				require.Equal(t, time.Duration(c.steps-1)*100*time.Millisecond, time.Since(began), "no jitter")
				if c.exists {
					require.True(t, bloberror.HasCode(err, bloberror.BlobAlreadyExists), "%v", err)
					var answer *azcore.ResponseError
					require.ErrorAs(t, err, &answer)
					require.Empty(t, answer.RawResponse.Header.Get("x-ms-request-id"), "another in each run")
				} else {
					require.NoError(t, err)
				}
				require.Len(t, s.steps, c.steps)
				require.Equal(t, faultstore.Op{Store: "azure", Name: "Put Blob", Subject: "b", Write: true, Parts: true}, s.steps[0])
				require.Len(t, s.told, c.steps)
				if c.steps == 2 {
					require.ErrorIs(t, s.told[0], faultstore.ErrLost)
				}
				require.Equal(t, "hello", s.body())
				require.Equal(t, c.steps, s.server.Count(azfake.OpPutBlob))
				etag := s.server.Inspect("box")["b"].ETag
				for _, m := range s.late {
					m.Apply() // refused: something is there
				}
				require.Equal(t, c.kind == faultstore.Late, len(s.late) == 1)
				require.Equal(t, etag, s.server.Inspect("box")["b"].ETag)
			})
		})
	}
}

// What was late lands where nothing is, although its caller has gone.
func TestALateRequestOfADeadProcessLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, faultstore.Late)
		ctx, cancel := context.WithCancel(s.alive.Context())
		gaveUp := errors.New("gave up")
		go func() {
			synctest.Wait() // the SDK waits before its second try
			s.alive.Kill()
			cancel()
		}()
		require.ErrorIs(t, errors.Join(gaveUp, s.put(ctx, "hello")), context.Canceled)
		require.Empty(t, s.body())
		s.late[0].Apply()
		require.Equal(t, "hello", s.body())
	})
}

// The client leaves while its request is on its way: the request arrives.
func TestARequestDoesNotEndWithItsCaller(t *testing.T) {
	for _, kind := range []faultstore.Kind{faultstore.LoseReply, faultstore.Late} {
		s := set(t, kind)
		ctx, leave := context.WithCancel(t.Context())
		s.held = leave
		require.ErrorIs(t, s.put(ctx, "hello"), context.Canceled)
		for _, m := range s.late {
			m.Apply()
		}
		require.Equal(t, "hello", s.body(), kind)
	}
	s := set(t, faultstore.Proceed)
	ctx, leave := context.WithCancel(t.Context())
	s.held = leave
	require.ErrorIs(t, s.put(ctx, "hello"), context.Canceled)
	require.Empty(t, s.body())
}

// A dead process sends nothing, and the SDK does not try again.
func TestDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := set(t, faultstore.Die), time.Now()
		require.ErrorIs(t, s.put(context.WithoutCancel(s.alive.Context()), "hello"), faultstore.ErrDead)
		require.Len(t, s.steps, 1)
		require.ErrorIs(t, s.put(t.Context(), "hello"), faultstore.ErrDead)
		require.Len(t, s.steps, 1)
		require.Error(t, s.put(s.alive.Context(), "hello"))
		require.Empty(t, s.body())
		require.Zero(t, s.server.Requests())
		require.Equal(t, began, time.Now())
	})
}

// A read that breaks gives its first byte; a batch whose reply breaks was applied.
func TestRepliesThatBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, faultstore.Proceed)
		require.NoError(t, s.put(t.Context(), "hello"))
		s.steps, s.first = nil, faultstore.Midway
		resp, err := s.client.NewBlobClient("b").DownloadStream(t.Context(), nil)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, "h", string(got))
		require.NoError(t, resp.Body.Close())

		s.steps = nil
		builder, err := s.client.NewBatchBuilder()
		require.NoError(t, err)
		require.NoError(t, builder.Delete("b", nil))
		require.NoError(t, builder.Delete("c", nil))
		_, err = s.client.SubmitBatch(t.Context(), builder, nil)
		require.Error(t, err)
		require.Equal(t, "Batch", s.steps[0].Name)
		require.Empty(t, s.server.Names("box"))
	})
}

// A reader's own context ends its body.
func TestABodyEndsWithItsContext(t *testing.T) {
	s := set(t, faultstore.Proceed)
	require.NoError(t, s.put(t.Context(), "hello"))
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := s.client.NewBlobClient("b").DownloadStream(ctx, nil)
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, context.Canceled)
	asked := len(s.steps)
	require.ErrorIs(t, s.put(ctx, "hello"), context.Canceled)
	require.Len(t, s.steps, asked, "a request of an ended context is not sent")
}

func TestStepsOfBlocks(t *testing.T) {
	s := set(t, faultstore.Proceed)
	bb := s.client.NewBlockBlobClient("b")
	_, err := bb.StageBlock(t.Context(), "MDAwMTJ4", streaming.NopCloser(strings.NewReader("x")), nil) // "00012x"
	require.NoError(t, err)
	_, err = bb.CommitBlockList(t.Context(), []string{"MDAwMTJ4"}, nil)
	require.NoError(t, err)
	_, err = bb.GetTags(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []faultstore.Op{
		{Store: "azure", Name: "Put Block", Subject: "b, block 12", Write: true, Parts: true},
		{Store: "azure", Name: "Put Block List", Subject: "b", Write: true, Parts: true},
		{Store: "azure", Name: "Get Tags", Subject: "b", Parts: true},
	}, s.steps)
}
