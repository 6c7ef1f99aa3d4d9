package blobtxtest

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/internal/azsteps"
	"github.com/blobtx/blobtx/store"
)

// The SDK's ids, boundaries and jitter make no difference between two runs.
func TestAzureIsRepeatable(t *testing.T) {
	s := Scenario{World: Azure(), Actors: []Actor{putter("one", "k"), sweeping()}, Limits: Limits{Faults: 1, Executions: 1500}}
	first, second := newExplorer(t, s), newExplorer(t, s)
	require.Nil(t, first.explore())
	require.Nil(t, second.explore())
	require.Equal(t, first.stats, second.stats)
	require.Positive(t, first.stats.Merged)
	require.Equal(t, first.stats.Injected, first.stats.Surfaced)
}

// Uploads in blocks and deletes in batches are steps of several goroutines at
// once, and repeatable too.
func TestAzureRequestsAtOnceAreRepeatable(t *testing.T) {
	long := act("long", func(ctx context.Context, p *Process) error {
		_, err := p.Put(ctx, "long", bytes.NewReader(make([]byte, azureBlockSize+1)), nil)
		return err
	})
	s := Scenario{
		World: Azure(),
		Setup: func(ctx context.Context, p *Process) error {
			for _, key := range []string{"a", "b"} {
				up, err := p.Stage(ctx, key, strings.NewReader(key), nil)
				if err != nil {
					return err
				}
				up.Release()
			}
			time.Sleep(16 * time.Minute) // in the bubble; their deadlines pass
			return nil
		},
		Actors: []Actor{long, sweeping()},
		Limits: Limits{Faults: 2, Executions: 150, Seed: 3},
	}
	first, second := newExplorer(t, s), newExplorer(t, s)
	require.Nil(t, first.explore())
	require.Nil(t, second.explore())
	require.Equal(t, first.stats, second.stats)

	l := new(log)
	e, _, err := first.execute(schedule{}, l)
	require.NoError(t, err)
	require.Empty(t, e.violation)
	for _, step := range []string{", block 0: ok", ", block 1: ok", "Put Block List", "Batch: ok"} {
		require.Contains(t, l.String(), step)
	}
}

// A handler that deletes what it uploaded when its insert fails, over Azure.
func TestTheNaiveHandlerIsCaughtOverAzure(t *testing.T) {
	naive := act("handler", func(ctx context.Context, p *Process) error {
		in, err := p.Intent(ctx, "k", nil)
		if err != nil {
			return err
		}
		blob, err := p.Blobs.Create(ctx, store.CreateParams{Name: in.BlobName, IntentID: in.ID, Key: "k", Body: store.NewBody(strings.NewReader("hello"), -1, "")})
		if err != nil {
			return err
		}
		objects, err := p.Rows.CommitObjects(ctx, []store.CommitParams{{IntentID: in.ID, Version: in.Version, Key: "k", Blob: blob}})
		if err != nil {
			p.Blobs.Delete(ctx, []store.DeleteBlob{{Name: in.BlobName, IntentID: in.ID}})
			p.Refused("k", err)
			return err
		}
		p.Acked("k", objects[0])
		return nil
	})
	v := finds(t, "dangling: ", Scenario{World: Azure(), Actors: []Actor{naive}, Limits: Limits{Faults: 1}})
	require.Contains(t, v.steps, "handler: Delete Blob ")
}

// What a reply says makes a difference; what is different each time does not.
func TestAzureRepliesAreDigested(t *testing.T) {
	of := func(r azsteps.Reply) digest {
		h := newHasher()
		var d digest
		h.reply(&d, r)
		require.False(t, h.opaque)
		return d
	}
	plain := func() azsteps.Reply {
		return azsteps.Reply{
			Op: azfake.OpGetBlob, Blob: "b", Status: 200, Body: []byte("x"),
			Header: http.Header{"Etag": {`"1"`}, "X-Ms-Meta-A": {"b"}, "Date": {"now"}, "X-Ms-Client-Request-Id": {"1"}},
		}
	}
	for what, change := range map[string]func(*azsteps.Reply){
		"status": func(r *azsteps.Reply) { r.Status = 206 },
		"body":   func(r *azsteps.Reply) { r.Body = []byte("y") },
		"header": func(r *azsteps.Reply) { r.Header.Set("x-ms-meta-a", "c") },
		"name":   func(r *azsteps.Reply) { r.Blob = "c" },
		"no tag": func(r *azsteps.Reply) { r.Header.Del("ETag") },
	} {
		r := plain()
		change(&r)
		require.NotEqual(t, of(plain()), of(r), what)
	}
	same := plain()
	same.Header.Set("Date", "later")
	same.Header.Set("x-ms-client-request-id", "2")
	same.Header.Set("ETag", `"7"`) // the first creation of its name in each run
	require.Equal(t, of(plain()), of(same))

	batch := func(body string) digest {
		return of(azsteps.Reply{Op: azfake.OpBatch, Status: 202, Body: []byte(body)})
	}
	require.Equal(t, batch("--a\r\nContent-ID: 0\r\nHTTP/1.1 202 Accepted\r\nDate: 1"), batch("--b\r\nContent-ID: 0\r\nHTTP/1.1 202 Accepted\r\nDate: 2"))
	require.NotEqual(t, batch("HTTP/1.1 202 Accepted"), batch("HTTP/1.1 404 Not Found"))
}

// Staged blocks and tags are state that no snapshot shows.
func TestAzureHiddenStateIsDigested(t *testing.T) {
	server := azfake.New(nil)
	client, err := server.ContainerClient(azureContainer, nil)
	require.NoError(t, err)
	place := &azurePlace{server: server}
	place.openRows()
	seen := make(map[digest]bool)
	another := func() {
		var s snapshot
		var d digest
		require.NoError(t, place.look(&s))
		place.hidden(&d)
		require.NotContains(t, seen, d)
		seen[d] = true
	}
	another()
	for _, block := range []struct{ blob, id string }{{"a", "MQ=="}, {"a", "Mg=="}, {"b", "MQ=="}} {
		_, err = client.NewBlockBlobClient(block.blob).StageBlock(t.Context(), block.id, readSeekNopCloser{strings.NewReader("x")}, nil)
		require.NoError(t, err)
		another()
	}
	_, err = client.NewBlockBlobClient("c").Upload(t.Context(), readSeekNopCloser{strings.NewReader("x")}, nil)
	require.NoError(t, err)
	another()
	_, err = client.NewBlobClient("c").SetTags(t.Context(), map[string]string{"intent": "another"}, nil)
	require.NoError(t, err)
	another()
}

type readSeekNopCloser struct{ *strings.Reader }

func (readSeekNopCloser) Close() error { return nil }
