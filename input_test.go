package blobtx_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// secret stands for bodies and metadata: it must not be in any error.
const secret = "s3cr3t"

func tellsNoSecret(t *testing.T, err error) {
	t.Helper()
	require.NotContains(t, err.Error(), secret)
}

func TestABadKeyIsRefusedByEveryOperation(t *testing.T) {
	bad := map[string]struct{ key, says string }{
		"empty":            {"", "empty"},
		"701 bytes":        {strings.Repeat("k", 701), "701"},
		"701 bytes in all": {strings.Repeat("é", 350) + "k", "701"},
		"invalid UTF-8":    {"k\xff", "UTF-8"},
		"NUL":              {"k\x00k", "NUL"},
		"trailing space":   {"k ", "space"},
		"one space":        {" ", "space"},
	}
	operations := map[string]func(ctx context.Context, w *world, key string) error{
		"Put": func(ctx context.Context, w *world, key string) error {
			_, err := w.Put(ctx, key, text(secret), nil)
			return err
		},
		"Stage": func(ctx context.Context, w *world, key string) error {
			_, err := w.Stage(ctx, key, text(secret), nil)
			return err
		},
		"Intent": func(ctx context.Context, w *world, key string) error { _, err := w.Intent(ctx, key, nil); return err },
		"Get":    func(ctx context.Context, w *world, key string) error { _, err := w.Get(ctx, key); return err },
		"Open":   func(ctx context.Context, w *world, key string) error { _, err := w.Open(ctx, key, nil); return err },
		"Delete": func(ctx context.Context, w *world, key string) error { return w.Delete(ctx, key, nil) },
		"SetMetadata": func(ctx context.Context, w *world, key string) error {
			_, err := w.SetMetadata(ctx, key, map[string]string{"a": secret}, nil)
			return err
		},
		"DeleteTx": func(ctx context.Context, w *world, key string) error {
			tx, err := w.rows.Begin(ctx)
			require.NoError(w.t, err)
			return w.DeleteTx(ctx, tx, key, nil)
		},
		"SetMetadataTx": func(ctx context.Context, w *world, key string) error {
			tx, err := w.rows.Begin(ctx)
			require.NoError(w.t, err)
			_, err = w.SetMetadataTx(ctx, tx, key, nil, nil)
			return err
		},
	}
	for op, run := range operations {
		for what, tt := range bad {
			inBubble(t, op+"/"+what, func(t *testing.T) {
				w := plain(t, nil)
				err := run(t.Context(), w, tt.key)
				require.ErrorIs(t, err, blobtx.ErrInvalid)
				require.ErrorContains(t, err, "key")
				require.ErrorContains(t, err, tt.says)
				require.ErrorContains(t, err, "blobtx: ")
				tellsNoSecret(t, err)
				w.nothing()
			})
		}
	}
}

func TestAnErrorDoesNotRepeatAMegabyteOfKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.Put(t.Context(), strings.Repeat("k", 1<<20), text(secret), nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.Less(t, len(err.Error()), 2000)
		w.nothing()
	})
}

func TestTheLongestAndStrangestKeysAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		for _, key := range []string{strings.Repeat("k", 700), strings.Repeat("é", 350), " k", "\n", "a//b", "../..", "_blobtx/x", "\\", "."} {
			o := w.put(key, key, nil)
			require.Equal(t, key, o.Key)
			require.Equal(t, key, w.read(key))
		}
	})
}

func TestBadOptionsAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	sum := hexSum(secret)
	for what, tt := range map[string]struct {
		opts blobtx.PutOptions
		says []string
	}{
		"size -2":                        {blobtx.PutOptions{Size: -2}, []string{"size", "-2"}},
		"upper-case SHA-256":             {blobtx.PutOptions{SHA256: strings.ToUpper(sum)}, []string{"SHA-256", "lower-case"}},
		"short SHA-256":                  {blobtx.PutOptions{SHA256: sum[:62]}, []string{"SHA-256", "64"}},
		"long SHA-256":                   {blobtx.PutOptions{SHA256: sum + "00"}, []string{"SHA-256"}},
		"SHA-256 that is not hex":        {blobtx.PutOptions{SHA256: strings.Repeat("g", 64)}, []string{"SHA-256", "hex"}},
		"content type with newline":      {blobtx.PutOptions{ContentType: "a/b\r\nX-Evil: 1"}, []string{"content type"}},
		"content type not ASCII":         {blobtx.PutOptions{ContentType: "text/é"}, []string{"content type", "ASCII"}},
		"content type of 256 bytes":      {blobtx.PutOptions{ContentType: strings.Repeat("a", 256)}, []string{"content type", "255"}},
		"content type with space before": {blobtx.PutOptions{ContentType: " a/b"}, []string{"content type"}},
		"metadata with an empty name":    {blobtx.PutOptions{Metadata: map[string]string{"": secret}}, []string{"metadata", "name"}},
		"metadata name not UTF-8":        {blobtx.PutOptions{Metadata: map[string]string{"n\xff": secret}}, []string{"metadata", "UTF-8", "n"}},
		"metadata value not UTF-8":       {blobtx.PutOptions{Metadata: map[string]string{"name": secret + "\xff"}}, []string{"metadata", "UTF-8", "name"}},
		"metadata with NUL":              {blobtx.PutOptions{Metadata: map[string]string{"name": secret + "\x00"}}, []string{"metadata", "NUL", "name"}},
		"metadata too large":             {blobtx.PutOptions{Metadata: map[string]string{"name": strings.Repeat("x", 16<<10)}}, []string{"metadata", "16384"}},
		"TTL above MaxPending":           {blobtx.PutOptions{TTL: 48*time.Hour + 1}, []string{"TTL", "MaxPending", "48h"}},
		"negative TTL":                   {blobtx.PutOptions{TTL: -1}, []string{"TTL"}},
		"IfVersion of nothing":           {blobtx.PutOptions{If: blobtx.IfVersion()}, []string{"IfVersion"}},
		"IfVersion(0)":                   {blobtx.PutOptions{If: blobtx.IfVersion(0)}, []string{"IfVersion"}},
		"IfVersion(1, 0)":                {blobtx.PutOptions{If: blobtx.IfVersion(1, 0)}, []string{"IfVersion"}},
		"IfVersion(-1)":                  {blobtx.PutOptions{If: blobtx.IfVersion(-1)}, []string{"IfVersion"}},
		"17 versions":                    {blobtx.PutOptions{If: blobtx.IfVersion(append(sixteen(99), 100)...)}, []string{"IfVersion", "16"}},
		"idempotency key of 256 bytes":   {blobtx.PutOptions{IdempotencyKey: strings.Repeat("i", 256)}, []string{"idempotency key", "256"}},
		"idempotency key with NUL":       {blobtx.PutOptions{IdempotencyKey: "i\x00"}, []string{"idempotency key", "NUL"}},
		"idempotency key not UTF-8":      {blobtx.PutOptions{IdempotencyKey: "\xff"}, []string{"idempotency key", "UTF-8"}},
		"idempotency key, space at end":  {blobtx.PutOptions{IdempotencyKey: "i "}, []string{"idempotency key", "space"}},
	} {
		inBubble(t, what, func(t *testing.T) {
			w := plain(t, nil)
			body := &counted{Reader: text(secret)}
			_, put := w.Put(t.Context(), "the key", body, &tt.opts)
			up, stage := w.Stage(t.Context(), "the key", body, &tt.opts)
			require.Nil(t, up)
			for _, err := range []error{put, stage} {
				require.ErrorIs(t, err, blobtx.ErrInvalid)
				require.NotErrorIs(t, err, blobtx.ErrConflict)
				for _, says := range append(tt.says, "the key") {
					require.ErrorContains(t, err, says)
				}
				require.NotContains(t, err.Error(), "\n")
				require.NotContains(t, err.Error(), "\x00")
				require.Less(t, len(err.Error()), 400)
				tellsNoSecret(t, err)
			}
			require.Zero(t, body.reads)
			w.nothing()
		})
	}
	inBubble(t, "a condition that cannot hold, of a change to an object", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "x", nil)
		for _, want := range []blobtx.Condition{blobtx.IfVersion(), blobtx.IfVersion(0), blobtx.IfVersion(append(sixteen(o.Version), o.Version)...)} {
			require.ErrorIs(t, w.Delete(t.Context(), "k", &blobtx.DeleteOptions{If: want}), blobtx.ErrInvalid)
			_, err := w.SetMetadata(t.Context(), "k", nil, &blobtx.MetadataOptions{If: want})
			require.ErrorIs(t, err, blobtx.ErrInvalid)
		}
		_, err := w.SetMetadata(t.Context(), "k", map[string]string{"a": secret + "\x00"}, nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		tellsNoSecret(t, err)
		require.Equal(t, []blobtx.Object{o}, w.rows.Objects())
	})
	inBubble(t, "nil readers", func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.Put(t.Context(), "k", nil, nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.ErrorContains(t, err, "body is nil")
		_, err = w.Stage(t.Context(), "k", nil, nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		w.nothing()
		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		_, err = w.Upload(t.Context(), in, nil, nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.ErrorContains(t, err, in.ID)
		require.Empty(t, w.blobs.Snapshot())
	})
}

// A stream is known only when it was read: its promise is in a row by then. But
// nothing becomes readable, and Put and Stage give the promise up.
func TestABodyThatIsNotAsDeclaredNeverBecomesReadable(t *testing.T) {
	for what, tt := range map[string]struct {
		body string
		opts blobtx.PutOptions
		says []string
	}{
		"shorter":             {secret, blobtx.PutOptions{Size: 7}, []string{"6", "7"}},
		"longer":              {secret, blobtx.PutOptions{Size: 5}, []string{"5"}},
		"empty":               {"", blobtx.PutOptions{Size: 1}, []string{"0", "1"}},
		"another SHA-256":     {secret, blobtx.PutOptions{SHA256: hexSum("other")}, []string{hexSum("other"), hexSum(secret)}},
		"size right, SHA not": {secret, blobtx.PutOptions{Size: 6, SHA256: hexSum("other1")}, []string{"SHA-256"}},
		"SHA right, size not": {secret, blobtx.PutOptions{Size: 9, SHA256: hexSum(secret)}, []string{"9"}},
	} {
		inBubble(t, what, func(t *testing.T) {
			w := plain(t, nil)
			_, put := w.Put(t.Context(), "the key", text(tt.body), &tt.opts)
			_, stage := w.Stage(t.Context(), "the key", pipe(tt.body), &tt.opts)
			in, err := w.Intent(t.Context(), "the key", nil)
			require.NoError(t, err)
			_, upload := w.Upload(t.Context(), in, text(tt.body), &blobtx.UploadOptions{Size: tt.opts.Size, SHA256: tt.opts.SHA256})
			for _, err := range []error{put, stage, upload} {
				require.ErrorIs(t, err, blobtx.ErrBodyMismatch)
				require.NotErrorIs(t, err, blobtx.ErrInvalid)
				for _, says := range append(tt.says, "the key") {
					require.ErrorContains(t, err, says)
				}
				tellsNoSecret(t, err)
			}
			require.ErrorContains(t, upload, in.ID)
			require.Empty(t, w.blobs.Snapshot())
			for _, row := range w.rows.Intents() {
				require.Equal(t, row.ID == in.ID, row.State == store.Uploading, "Upload leaves the intent to its caller, Put and Stage abort")
			}
			up, err := w.Upload(t.Context(), in, text("right"), nil)
			require.NoError(t, err, "a wrong body used the intent up")
			_, err = w.Commit(t.Context(), nil, up)
			require.NoError(t, err)
			w.atRest()
		})
	}
}

func TestZeroHandlesAreRefused(t *testing.T) {
	noop := func(context.Context, func(store.RowTx) ([]blobtx.Object, error)) error { return nil }
	sets := map[string]func(w *world) []*blobtx.Upload{
		"no upload":             func(*world) []*blobtx.Upload { return nil },
		"a nil upload":          func(*world) []*blobtx.Upload { return []*blobtx.Upload{nil} },
		"a zero upload":         func(*world) []*blobtx.Upload { return []*blobtx.Upload{{}} },
		"a good and a zero one": func(w *world) []*blobtx.Upload { return []*blobtx.Upload{w.stage("a", secret, nil), {}} },
		"the same upload twice": func(w *world) []*blobtx.Upload { up := w.stage("a", secret, nil); return []*blobtx.Upload{up, up} },
		"two uploads of one key": func(w *world) []*blobtx.Upload {
			return []*blobtx.Upload{w.stage("a", secret, nil), w.stage("a", secret, nil)}
		},
	}
	operations := map[string]func(ctx context.Context, w *world, ups []*blobtx.Upload) error{
		"Commit": func(ctx context.Context, w *world, ups []*blobtx.Upload) error {
			_, err := w.Commit(ctx, nil, ups...)
			return err
		},
		"CommitWith": func(ctx context.Context, w *world, ups []*blobtx.Upload) error {
			_, err := w.CommitWith(ctx, noop, ups...)
			return err
		},
		"CommitTx": func(ctx context.Context, w *world, ups []*blobtx.Upload) error {
			tx, err := w.rows.Begin(ctx)
			require.NoError(w.t, err)
			_, err = w.CommitTx(ctx, tx, ups...)
			require.NoError(w.t, tx.Commit())
			return err
		},
		"Settle": func(ctx context.Context, w *world, ups []*blobtx.Upload) error {
			_, err := w.Settle(ctx, ups...)
			return err
		},
		"Seal": func(ctx context.Context, w *world, ups []*blobtx.Upload) error { return w.Seal(ctx, ups...) },
	}
	for op, run := range operations {
		for what, set := range sets {
			inBubble(t, op+"/"+what, func(t *testing.T) {
				w := plain(t, nil)
				ups := set(w)
				for _, up := range ups {
					defer up.Release()
				}
				before, blobs := w.rows.Intents(), w.blobs.Snapshot()
				err := run(t.Context(), w, ups)
				require.ErrorIs(t, err, blobtx.ErrInvalid)
				require.ErrorContains(t, err, "upload")
				require.ErrorContains(t, err, "blobtx: ")
				tellsNoSecret(t, err)
				require.Equal(t, before, w.rows.Intents())
				require.Equal(t, blobs, w.blobs.Snapshot())
				require.Empty(t, w.rows.Objects())
			})
		}
	}
	inBubble(t, "their methods do nothing", func(t *testing.T) {
		for _, up := range []*blobtx.Upload{nil, {}} {
			up.Release()
			require.Equal(t, blobtx.Intent{}, up.Intent())
			_, ok := up.Replay()
			require.False(t, ok)
		}
	})
	inBubble(t, "intents, transactions and functions", func(t *testing.T) {
		w := plain(t, nil)
		up := w.stage("a", secret, nil)
		defer up.Release()
		before := w.rows.Intents()
		for _, in := range []*blobtx.Intent{nil, {}, {Key: "a", BlobName: "b"}} {
			_, err := w.Upload(t.Context(), in, text(secret), nil)
			require.ErrorIs(t, err, blobtx.ErrInvalid)
			require.ErrorContains(t, err, "intent")
			require.ErrorIs(t, w.Abort(t.Context(), in), blobtx.ErrInvalid)
		}
		_, err := w.Outcome(t.Context(), "")
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		_, err = w.CommitTx(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.ErrorContains(t, err, "transaction is nil")
		require.ErrorIs(t, w.DeleteTx(t.Context(), nil, "a", nil), blobtx.ErrInvalid)
		_, err = w.SetMetadataTx(t.Context(), nil, "a", nil, nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		_, err = w.CommitWith(t.Context(), nil, up)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.ErrorContains(t, err, "nil")
		_, err = w.CommitWith(t.Context(), func(_ context.Context, commit func(store.RowTx) ([]blobtx.Object, error)) error {
			_, err := commit(nil)
			return err
		}, up)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.Equal(t, before, w.rows.Intents())
	})
}

func TestACancelledContextWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.Put(ctx, "k", text(secret), nil)
		require.ErrorIs(t, err, context.Canceled)
		_, err = w.Stage(ctx, "k", text(secret), nil)
		require.ErrorIs(t, err, context.Canceled)
		_, err = w.Intent(ctx, "k", nil)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, w.Delete(ctx, "k", nil), context.Canceled)
		_, err = w.SetMetadata(ctx, "k", nil, nil)
		require.ErrorIs(t, err, context.Canceled)
		w.nothing()

		in, err := w.Intent(t.Context(), "k", nil)
		require.NoError(t, err)
		body := &counted{Reader: text(secret)}
		_, err = w.Upload(ctx, in, body, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, body.reads)
		require.Empty(t, w.blobs.Snapshot())

		up := w.stage("k", secret, nil)
		defer up.Release()
		before := w.rows.Intents()
		_, err = w.Commit(ctx, nil, up)
		require.ErrorIs(t, err, context.Canceled)
		_, err = w.CommitWith(ctx, func(context.Context, func(store.RowTx) ([]blobtx.Object, error)) error {
			t.Error("the function was called")
			return nil
		}, up)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, before, w.rows.Intents())
		require.Empty(t, w.rows.Objects())
	})
}

func TestNewAndTheSweepersRefuseBadOptions(t *testing.T) {
	rows, blobs := memstore.NewRows(nil), memstore.NewBlobs(nil)
	for says, opts := range map[string]blobtx.Options{
		"IntentTTL":  {IntentTTL: -1},
		"MaxPending": {MaxPending: -1},
		"Quarantine": {Quarantine: -1},
		"Retention":  {Retention: -1},
		"15m0s":      {MaxPending: 15*time.Minute - 1}, // the default TTL
		"49h0m0s":    {IntentTTL: 49 * time.Hour},      // the default MaxPending
	} {
		c, err := blobtx.New(rows, blobs, &opts)
		require.ErrorIs(t, err, blobtx.ErrInvalid, says)
		require.ErrorContains(t, err, says)
		require.Nil(t, c)
	}
	_, err := blobtx.New(nil, blobs, nil)
	require.ErrorIs(t, err, blobtx.ErrInvalid)
	_, err = blobtx.New(rows, nil, nil)
	require.ErrorIs(t, err, blobtx.ErrInvalid)
	c, err := blobtx.New(rows, blobs, &blobtx.Options{ReadGrace: -1, IntentTTL: time.Hour, MaxPending: time.Hour})
	require.NoError(t, err)
	_, err = c.Sweep(t.Context(), &blobtx.SweepOptions{Batch: -1})
	require.ErrorIs(t, err, blobtx.ErrInvalid)
	require.ErrorContains(t, err, "-1")
	require.ErrorIs(t, c.RunSweeper(t.Context(), &blobtx.SweeperOptions{Batch: -1}), blobtx.ErrInvalid)
	require.ErrorIs(t, c.RunSweeper(t.Context(), &blobtx.SweeperOptions{Every: -1}), blobtx.ErrInvalid)
}

func TestBlobNamesOfTheCallersAreChecked(t *testing.T) {
	for what, name := range map[string]string{
		"empty": "", "reserved": "_blobtx/x", "invalid UTF-8": "\xff", "control character": "a\nb", "too long": strings.Repeat("n", 1025),
		"leading slash": "/a", "trailing slash": "a/", "dot segment": "a/../b", "trailing dot": "a.", "backslash": `a\b`,
	} {
		inBubble(t, what, func(t *testing.T) {
			w := plain(t, &blobtx.Options{BlobName: func(string, string) string { return name }})
			_, err := w.Put(t.Context(), "k", text(secret), nil)
			require.ErrorIs(t, err, blobtx.ErrInvalid)
			require.ErrorContains(t, err, "BlobName")
			require.ErrorContains(t, err, "blob name")
			tellsNoSecret(t, err)
			w.nothing()
		})
	}
	inBubble(t, "the same for two intents", func(t *testing.T) {
		w := plain(t, &blobtx.Options{BlobName: func(key, _ string) string { return "same" }})
		w.put("a", "x", nil)
		_, err := w.Put(t.Context(), "b", text(secret), nil)
		require.ErrorIs(t, err, blobtx.ErrInvalid)
		require.ErrorContains(t, err, `"same"`)
		require.Len(t, w.rows.Intents(), 1)
		require.Equal(t, "x", w.read("a"))
		_, err = w.Put(t.Context(), "a", text(secret), &blobtx.PutOptions{If: blobtx.Always()})
		require.ErrorIs(t, err, blobtx.ErrInvalid, "a replace would have written over the bytes")
		require.Equal(t, "x", w.read("a"))
	})
	inBubble(t, "used as given", func(t *testing.T) {
		w := plain(t, &blobtx.Options{BlobName: func(key, id string) string { return "mine/" + key + "/" + id }})
		o := w.put("k", "x", nil)
		require.Equal(t, "mine/k/"+o.IntentID, o.Blob.Name)
	})
}

// A container or a table that is not there is found out before the first
// promise is written.
func TestStoresThatAreNotSetUpGetNoPromise(t *testing.T) {
	for _, step := range []string{"check", "stat"} {
		inBubble(t, step, func(t *testing.T) {
			w, p := tapped(t, nil)
			p.onBefore(func(_ context.Context, s string) error {
				if s == step {
					return errors.Join(errors.New("create the container first"), store.ErrSetup)
				}
				return nil
			})
			for range 2 {
				_, err := w.Put(t.Context(), "k", text(secret), nil)
				require.ErrorIs(t, err, blobtx.ErrSetup)
				require.ErrorContains(t, err, "create the container first")
				w.nothing()
			}
			p.onBefore(nil)
			w.put("k", "x", nil)
			require.NoError(t, w.Check(t.Context()))
		})
	}
}

func TestHandlesThatNobodyMade(t *testing.T) {
	ctx, w := t.Context(), plain(t, nil)
	up, in := w.stage("k", "x", nil), &blobtx.Intent{ID: "i"}
	defer up.Release()
	run := func(context.Context, blobtx.CommitFunc) error { return nil }
	same := func(context.Context, *blobtx.Object, io.Reader) (io.Reader, error) { return text("x"), nil }
	for _, c := range []*blobtx.Coordinator{nil, {}} {
		for verb, do := range map[string]func() error{
			"Check":         func() error { return c.Check(ctx) },
			"Intent":        func() error { _, err := c.Intent(ctx, "k", nil); return err },
			"Upload":        func() error { _, err := c.Upload(ctx, in, text("x"), nil); return err },
			"Stage":         func() error { _, err := c.Stage(ctx, "k", text("x"), nil); return err },
			"Put":           func() error { _, err := c.Put(ctx, "k", text("x"), nil); return err },
			"Update":        func() error { _, err := c.Update(ctx, "k", same, nil); return err },
			"Commit":        func() error { _, err := c.Commit(ctx, nil, up); return err },
			"CommitWith":    func() error { _, err := c.CommitWith(ctx, run, up); return err },
			"CommitTx":      func() error { _, err := c.CommitTx(ctx, w.begin(), up); return err },
			"Settle":        func() error { _, err := c.Settle(ctx, up); return err },
			"Outcome":       func() error { _, err := c.Outcome(ctx, "i"); return err },
			"Seal":          func() error { return c.Seal(ctx, up) },
			"Abort":         func() error { return c.Abort(ctx, in) },
			"Sweep":         func() error { _, err := c.Sweep(ctx, nil); return err },
			"RunSweeper":    func() error { return c.RunSweeper(ctx, nil) },
			"Delete":        func() error { return c.Delete(ctx, "k", nil) },
			"DeleteTx":      func() error { return c.DeleteTx(ctx, w.begin(), "k", nil) },
			"SetMetadata":   func() error { _, err := c.SetMetadata(ctx, "k", nil, nil); return err },
			"SetMetadataTx": func() error { _, err := c.SetMetadataTx(ctx, w.begin(), "k", nil, nil); return err },
			"Get":           func() error { _, err := c.Get(ctx, "k"); return err },
			"Open":          func() error { _, err := c.Open(ctx, "k", nil); return err },
			"List": func() (err error) {
				for _, err = range c.List(ctx, nil) {
				}
				return err
			},
		} {
			require.ErrorIs(t, do(), blobtx.ErrInvalid, verb)
		}
	}
	_, err := new(blobtx.Reader).Read(make([]byte, 1))
	require.ErrorIs(t, err, blobtx.ErrInvalid)
}
