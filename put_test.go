package blobtx_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

func TestPutWithoutOptionsCreatesAndNeverReplaces(t *testing.T) {
	for _, opts := range []*blobtx.PutOptions{nil, {}, {If: blobtx.IfAbsent()}} {
		synctest.Test(t, func(t *testing.T) {
			w := plain(t, nil)
			first := w.put("k", "first", opts)
			_, err := w.Put(t.Context(), "k", text("second"), opts)
			require.ErrorIs(t, err, blobtx.ErrExists)
			require.ErrorIs(t, err, blobtx.ErrConflict)
			require.NotErrorIs(t, err, blobtx.ErrNotFound)
			var conflict *blobtx.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, "k", conflict.Key)
			require.Equal(t, blobtx.IfAbsent(), conflict.Want)
			require.Equal(t, &first, conflict.Current)
			require.False(t, conflict.Deleted)
			require.ErrorContains(t, err, "Always")
			require.ErrorContains(t, err, "IfVersion")
			require.ErrorContains(t, err, `"k"`)
			require.Equal(t, "first", w.read("k"))
			require.Len(t, w.rows.Intents(), 1, "a refusal wrote an intent")
			require.Len(t, w.blobs.Snapshot(), 1)
			w.atRest()
		})
	}
}

func TestPutReplacesUnderACondition(t *testing.T) {
	for promise, condition := range map[string]func(v blobtx.Version) blobtx.Condition{
		"the version that is there":    func(v blobtx.Version) blobtx.Condition { return blobtx.IfVersion(v) },
		"one of several versions":      func(v blobtx.Version) blobtx.Condition { return blobtx.IfVersion(v-1, v, 7) },
		"whatever exists":              func(blobtx.Version) blobtx.Condition { return blobtx.IfExists() },
		"whatever exists or does not":  func(blobtx.Version) blobtx.Condition { return blobtx.Always() },
		"sixteen versions, it is last": func(v blobtx.Version) blobtx.Condition { return blobtx.IfVersion(sixteen(v)...) },
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, nil)
			old := w.put("k", "old", &blobtx.PutOptions{Metadata: map[string]string{"a": "1"}, ContentType: "text/old"})
			time.Sleep(time.Second)
			fresh := w.put("k", "new", &blobtx.PutOptions{If: condition(old.Version)})
			require.Equal(t, "new", w.read("k"))
			require.Greater(t, fresh.Version, old.Version)
			require.NotEqual(t, old.Blob.Name, fresh.Blob.Name, "bytes under one name never change")
			require.NotEqual(t, old.IntentID, fresh.IntentID)
			require.Equal(t, old.CreatedAt, fresh.CreatedAt)
			require.True(t, fresh.UpdatedAt.After(old.UpdatedAt))
			require.Empty(t, fresh.Metadata, "metadata belongs to one put")
			require.Equal(t, "application/octet-stream", fresh.Blob.ContentType)

			retired := w.rows.RetiredNames()
			require.Len(t, retired, 1)
			require.Equal(t, old.Blob.Name, retired[0].BlobName)
			require.Equal(t, old.IntentID, retired[0].IntentID)
			require.Equal(t, "old", string(w.blobs.Snapshot()[old.Blob.Name]), "a reader may still have it open")
			w.atRest()
			require.Len(t, w.blobs.Snapshot(), 1)
		})
	}
}

func sixteen(last blobtx.Version) []blobtx.Version {
	versions := make([]blobtx.Version, 16)
	for i := range versions {
		versions[i] = blobtx.Version(i + 1)
	}
	versions[15] = last
	return versions
}

// Every conflict is told apart, whether it is met before the upload or only at
// the commit; it leaves nothing behind, and the upload can still be committed.
func TestConflictsTellWhatStoodInTheWay(t *testing.T) {
	type facts struct{ exists, deleted, current bool }
	replace := func(w *world) { w.put("k", "theirs", &blobtx.PutOptions{If: blobtx.Always()}) }
	remove := func(w *world) { require.NoError(w.t, w.calm.Delete(w.t.Context(), "k", nil)) }
	recreate := func(w *world) { remove(w); w.put("k", "again", nil) }
	setMetadata := func(w *world) {
		_, err := w.calm.SetMetadata(w.t.Context(), "k", map[string]string{"x": "y"}, nil)
		require.NoError(w.t, err)
	}
	same := func(v blobtx.Version) blobtx.Condition { return blobtx.IfVersion(v) }
	for _, tt := range []struct {
		promise string
		there   bool // an object is there first
		want    func(v blobtx.Version) blobtx.Condition
		change  func(w *world) // by somebody else
		facts   facts
	}{
		{"modified", true, same, replace, facts{current: true}},
		{"metadata modified", true, same, setMetadata, facts{current: true}},
		{"deleted", true, same, remove, facts{deleted: true}},
		{"deleted and created again", true, same, recreate, facts{current: true}},
		{"exists was wanted, deleted", true, func(blobtx.Version) blobtx.Condition { return blobtx.IfExists() }, remove, facts{deleted: true}},
		{"absent was wanted, created", false, func(blobtx.Version) blobtx.Condition { return blobtx.IfAbsent() },
			func(w *world) { w.put("k", "theirs", nil) }, facts{exists: true, current: true}},
	} {
		check := func(t *testing.T, w *world, err error) {
			var conflict *blobtx.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.ErrorIs(t, err, blobtx.ErrConflict)
			require.Equal(t, tt.facts.exists, errors.Is(err, blobtx.ErrExists))
			require.Equal(t, tt.facts.deleted, errors.Is(err, blobtx.ErrNotFound))
			require.Equal(t, tt.facts.deleted, conflict.Deleted)
			require.False(t, conflict.Retryable)
			if tt.facts.current {
				current, err := w.calm.Get(t.Context(), "k")
				require.NoError(t, err)
				require.Equal(t, &current, conflict.Current)
			} else {
				require.Nil(t, conflict.Current)
			}
		}
		arrange := func(w *world) (want blobtx.Condition) {
			var v blobtx.Version = 1
			if tt.there {
				v = w.put("k", "mine", nil).Version
			}
			return tt.want(v)
		}
		inBubble(t, tt.promise+", before the upload", func(t *testing.T) {
			w := plain(t, nil)
			want := arrange(w)
			tt.change(w)
			intents, blobs := len(w.rows.Intents()), len(w.blobs.Snapshot())
			body := &counted{Reader: text("new")}
			_, err := w.Put(t.Context(), "k", body, &blobtx.PutOptions{If: want})
			check(t, w, err)
			require.Zero(t, body.reads, "the body was read for nothing")
			require.Len(t, w.rows.Intents(), intents)
			require.Len(t, w.blobs.Snapshot(), blobs)
		})
		inBubble(t, tt.promise+", at the commit", func(t *testing.T) {
			w := plain(t, nil)
			up := w.stage("k", "new", &blobtx.PutOptions{If: arrange(w)})
			defer up.Release()
			tt.change(w)
			before, retired := w.rows.Objects(), w.rows.RetiredNames()
			_, err := w.Commit(t.Context(), nil, up)
			check(t, w, err)
			require.Equal(t, before, w.rows.Objects())
			require.Equal(t, retired, w.rows.RetiredNames())
			require.Equal(t, store.Uploading, w.row(up.Intent().ID).State, "a conflict uses the upload up")
			in := up.Intent()
			require.NoError(t, w.Abort(t.Context(), &in))
			w.atRest()
		})
		inBubble(t, tt.promise+", while Put uploads", func(t *testing.T) {
			w, p := tapped(t, nil)
			want := arrange(w)
			p.onBefore(func(_ context.Context, step string) error {
				if step == "create blob" {
					p.onBefore(nil)
					c := w.Coordinator
					w.Coordinator = w.calm
					tt.change(w)
					w.Coordinator = c
				}
				return nil
			})
			_, err := w.Put(t.Context(), "k", text("new"), &blobtx.PutOptions{If: want})
			check(t, w, err)
			for name := range w.blobs.Snapshot() {
				info, _ := w.blobs.Get(name)
				require.True(t, info.Sealed, "the blob of a Put that met a conflict is still there")
			}
			w.atRest()
		})
	}
}

// counted counts the reads.
type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

func TestAnUploadInConflictMayBeCommittedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("k", "mine", nil)
		w.put("k", "theirs", nil)
		for range 3 {
			_, err := w.Commit(t.Context(), nil, up)
			require.ErrorIs(t, err, blobtx.ErrExists)
		}
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		_, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		require.Equal(t, "mine", w.read("k"))
		w.atRest()
	})
}

func TestPutCarriesWhatItWasGiven(t *testing.T) {
	for promise, tt := range map[string]struct {
		body string
		opts blobtx.PutOptions
	}{
		"nothing but bytes":    {"hello", blobtx.PutOptions{}},
		"an empty body":        {"", blobtx.PutOptions{}},
		"three megabytes":      {strings.Repeat("0123456789abcdef", 3<<16), blobtx.PutOptions{}},
		"content type":         {"{}", blobtx.PutOptions{ContentType: "application/json; charset=utf-8"}},
		"metadata":             {"m", blobtx.PutOptions{Metadata: map[string]string{"a": "1", "Ärger": "日本 🙂", "empty": "", "With-Hyphen": "x y"}}},
		"declared, size known": {"12345", blobtx.PutOptions{Size: 5}},
		"declared, unknown":    {"12345", blobtx.PutOptions{Size: -1}},
		"declared, SHA-256":    {"12345", blobtx.PutOptions{SHA256: hexSum("12345")}},
		"an empty body's hash": {"", blobtx.PutOptions{SHA256: hexSum(""), Size: 0}},
		"everything":           {"12345", blobtx.PutOptions{SHA256: hexSum("12345"), Size: 5, ContentType: "a/b", Metadata: map[string]string{"k": "v"}, TTL: time.Minute, IdempotencyKey: "i"}},
		"metadata of 16 KiB":   {"m", blobtx.PutOptions{Metadata: map[string]string{"k": strings.Repeat("x", 16<<10-1)}}},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, nil)
			began := time.Now()
			o := w.put("dir/ключ 🙂", tt.body, &tt.opts)
			got, err := w.Get(t.Context(), "dir/ключ 🙂")
			require.NoError(t, err)
			require.Equal(t, o, got)
			require.Equal(t, "dir/ключ 🙂", o.Key)
			require.Positive(t, o.Version)
			require.Equal(t, int64(len(tt.body)), o.Blob.Size)
			require.Equal(t, hexSum(tt.body), o.Blob.SHA256)
			require.NotEmpty(t, o.Blob.ETag)
			wantType := tt.opts.ContentType
			if wantType == "" {
				wantType = "application/octet-stream"
			}
			require.Equal(t, wantType, o.Blob.ContentType)
			require.Len(t, o.Metadata, len(tt.opts.Metadata))
			for name, value := range tt.opts.Metadata {
				require.Equal(t, value, o.Metadata[name])
			}
			for _, at := range []time.Time{o.CreatedAt, o.UpdatedAt} {
				require.Equal(t, time.UTC, at.Location())
				require.Equal(t, at.Truncate(time.Microsecond), at)
				require.False(t, at.Before(began.Truncate(time.Microsecond)))
			}
			require.Equal(t, tt.body, w.read("dir/ключ 🙂"))

			info, ok := w.blobs.Get(o.Blob.Name)
			require.True(t, ok)
			require.Equal(t, o.Blob, info.Blob)
			require.Equal(t, o.IntentID, info.IntentID)
			require.Equal(t, o.Key, info.Key)
			require.Equal(t, "absent", info.Base)
			require.True(t, info.Sealed)
			w.intact()
		})
	}
}

func hexSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestMetadataIsTheCallersOwnMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		m := map[string]string{"a": "1"}
		up := w.stage("k", "x", &blobtx.PutOptions{Metadata: m})
		m["a"] = "changed after Stage"
		objects, err := w.Commit(t.Context(), nil, up)
		require.NoError(t, err)
		objects[0].Metadata["a"] = "changed after Commit"
		o, err := w.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "1"}, o.Metadata)
	})
}

// A version that was seen once never comes back, however fast an object is
// changed, deleted and created again, and when the database's clock stands
// still or falls back while the object lives.
func TestVersionsNeverRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Duration(0)
		w := plain(t, nil)
		rows := memstore.NewRows(&memstore.RowsOptions{Now: func() time.Time { return time.Now().Add(-back) }})
		c, err := blobtx.New(rows, w.blobs, nil)
		require.NoError(t, err)
		seen := make(map[blobtx.Version]int)
		last := blobtx.Version(0)
		saw := func(i int, v blobtx.Version) {
			require.NotContains(t, seen, v, "round %d repeats a version", i)
			seen[v] = i
			last = v
		}
		for i := range 100 {
			o, err := c.Put(t.Context(), "k", text("a"), nil)
			require.NoError(t, err)
			saw(i, o.Version)
			back = time.Hour // the clock falls back while the object lives
			for range 2 {
				before := last
				o, err = c.Put(t.Context(), "k", text("b"), &blobtx.PutOptions{If: blobtx.IfVersion(last)})
				require.NoError(t, err)
				saw(i, o.Version)
				o, err = c.SetMetadata(t.Context(), "k", nil, &blobtx.MetadataOptions{If: blobtx.IfVersion(last)})
				require.NoError(t, err)
				saw(i, o.Version)
				require.Greater(t, last, before)
			}
			back = 0
			require.NoError(t, c.Delete(t.Context(), "k", &blobtx.DeleteOptions{If: blobtx.IfVersion(last)}))
			if i%4 == 3 {
				time.Sleep(time.Millisecond)
			}
		}
		for v := range seen {
			_, err := c.Put(t.Context(), "k", text("late"), &blobtx.PutOptions{If: blobtx.IfVersion(v)})
			require.ErrorIs(t, err, blobtx.ErrConflict)
		}
	})
}

func TestOfManyWritersExactlyThoseWinThatMay(t *testing.T) {
	for promise, tt := range map[string]struct {
		want func(v blobtx.Version) blobtx.Condition
		wins int
	}{
		"create-only: one":    {func(blobtx.Version) blobtx.Condition { return blobtx.IfAbsent() }, 1},
		"one version: one":    {func(v blobtx.Version) blobtx.Condition { return blobtx.IfVersion(v) }, 1},
		"whatever exists all": {func(blobtx.Version) blobtx.Condition { return blobtx.IfExists() }, 16},
		"always: all":         {func(blobtx.Version) blobtx.Condition { return blobtx.Always() }, 16},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, nil)
			var v blobtx.Version
			if !strings.HasPrefix(promise, "create") {
				v = w.put("k", "first", nil).Version
			}
			errs, objects := make([]error, 16), make([]blobtx.Object, 16)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() {
					body := bytes.Repeat([]byte{byte('a' + i)}, 1000)
					objects[i], errs[i] = w.Put(t.Context(), "k", bytes.NewReader(body), &blobtx.PutOptions{If: tt.want(v)})
				})
			}
			wg.Wait()
			wins, newest := 0, blobtx.Object{}
			for i, err := range errs {
				if err != nil {
					require.ErrorIs(t, err, blobtx.ErrConflict)
					continue
				}
				if wins++; objects[i].Version > newest.Version {
					newest = objects[i]
				}
			}
			require.Equal(t, tt.wins, wins)
			o, err := w.Get(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, newest, o)
			w.intact()
			w.atRest()
		})
	}
}
