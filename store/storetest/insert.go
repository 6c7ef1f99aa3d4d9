package storetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

var insertCases = []rowCase{
	{"Insert/records what was asked for", func(t *rowTest) {
		p := t.insertParams("invoice/7")
		p.IdempotencyKey = "request-1"
		p.Expect = store.IfAbsent()
		p.Direct = true
		p.Metadata = map[string]string{"a": "1", "b": ""}
		in, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		require.Equal(t, store.Intent{
			ID: p.ID, IdempotencyKey: "request-1", Key: "invoice/7", Expect: store.IfAbsent(), BlobName: p.BlobName,
			Direct: true, Metadata: p.Metadata, State: store.Uploading, Version: 1, Holder: p.Holder,
			DueAt: in.DueAt, ExpiresAt: in.ExpiresAt, CreatedAt: in.CreatedAt, UpdatedAt: in.CreatedAt,
		}, in)
		require.Equal(t, in, t.intent(p.ID))
	}},
	{"Insert/is due after TTL and expires after MaxPending", func(t *rowTest) {
		in := t.insert("k")
		t.near(in.CreatedAt.Add(ttl), in.DueAt)
		t.near(in.CreatedAt.Add(maxPending), in.ExpiresAt)
	}},
	{"Insert/times are UTC in whole microseconds", func(t *rowTest) {
		in := t.insert("k")
		for _, at := range []time.Time{in.DueAt, in.ExpiresAt, in.CreatedAt, in.UpdatedAt} {
			require.Equal(t, time.UTC, at.Location())
			require.Equal(t, at.Truncate(time.Microsecond), at)
		}
	}},
	{"Insert/again after a lost reply returns the same intent", func(t *rowTest) {
		p := t.insertParams("k")
		p.IdempotencyKey = "request-1"
		first, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		t.Advance(time.Second)
		second, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		require.Equal(t, normal(first), normal(second))
	}},
	{"Insert/again after a lost reply returns it although the object has come into being", func(t *rowTest) {
		p := t.insertParams("k")
		p.Expect = store.IfAbsent()
		first, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		t.put("k")
		second, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		require.Equal(t, normal(first), normal(second))
	}},
	{"Insert/a known idempotency key returns the intent that has it and writes nothing", func(t *rowTest) {
		first := t.insert("k", idempotent("request-1"))
		p := t.insertParams("other")
		p.IdempotencyKey = "request-1"
		got, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		require.Equal(t, normal(first), normal(got))
		t.noIntent(p.ID)
		p.IdempotencyKey = ""
		_, err = t.rows.InsertIntent(t.ctx, p) // the blob name was not taken
		require.NoError(t, err)
	}},
	{"Insert/a known idempotency key is looked at before the condition", func(t *rowTest) {
		first := t.insert("k", idempotent("request-1"), expecting(store.IfAbsent()))
		t.commit(first)
		p := t.insertParams("k")
		p.IdempotencyKey, p.Expect = "request-1", store.IfAbsent()
		got, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		require.Equal(t, first.ID, got.ID)
		require.Equal(t, store.Sealing, got.State)
		require.NotNil(t, got.Result)
	}},
	{"Insert/a known idempotency key returns the intent in whatever state", func(t *rowTest) {
		first := t.insert("k", idempotent("request-1"))
		t.commit(first)
		again := func() store.Intent {
			p := t.insertParams("k")
			p.IdempotencyKey = "request-1"
			got, err := t.rows.InsertIntent(t.ctx, p)
			require.NoError(t, err)
			require.Equal(t, first.ID, got.ID)
			return got
		}
		in := again()
		require.Equal(t, store.Sealing, in.State)
		t.settle(store.IntentSettlement{ID: in.ID, State: in.State, Version: in.Version, To: store.ToHeld})
		require.Equal(t, store.Held, again().State)

		second := t.insert("k2", idempotent("request-2"))
		t.commit(second)
		t.settle(store.IntentSettlement{ID: second.ID, State: store.Sealing, Version: second.Version + 1, To: store.ToDone, In: time.Hour})
		p := t.insertParams("k2")
		p.IdempotencyKey = "request-2"
		got, err := t.rows.InsertIntent(t.ctx, p)
		require.NoError(t, err)
		require.Equal(t, store.Done, got.State)
	}},
	{"Insert/idempotency keys are compared byte for byte", func(t *rowTest) {
		for _, key := range lookalikes {
			if len(key) <= store.MaxIdempotencyKey {
				in := t.insert("k", idempotent(key))
				require.Equal(t, key, t.intent(in.ID).IdempotencyKey)
			}
		}
	}},
	{"Insert/any number of intents have no idempotency key", func(t *rowTest) {
		require.NotEqual(t, t.insert("k").ID, t.insert("k").ID)
	}},
	{"Insert/refuses a condition that is false already and writes nothing", func(t *rowTest) {
		o := normalObject(t.put("k"))
		for _, refused := range []struct {
			key     string
			want    store.Condition
			current *store.Object
		}{
			{"k", store.IfAbsent(), &o},
			{"k", store.IfVersion(o.Version + 1), &o},
			{"absent", store.IfExists(), nil},
			{"absent", store.IfVersion(o.Version), nil},
		} {
			p := t.insertParams(refused.key)
			p.Expect, p.IdempotencyKey = refused.want, "request-1"
			_, err := t.rows.InsertIntent(t.ctx, p)
			require.Equal(t, &store.ConflictError{
				Key: refused.key, Want: refused.want, Current: refused.current, Deleted: refused.current == nil,
			}, t.conflict(err))
			t.noIntent(p.ID)
		}
		t.insert("k", idempotent("request-1")) // still free
	}},
	{"Insert/accepts every condition that holds", func(t *rowTest) {
		t.insert("absent", expecting(store.IfAbsent()))
		t.insert("absent", expecting(store.Always()))
		o := t.put("k")
		versions := make([]store.Version, store.MaxVersions)
		for i := range versions {
			versions[i] = o.Version + store.Version(i) - store.MaxVersions + 1
		}
		for _, want := range []store.Condition{store.Always(), store.IfExists(), store.IfVersion(o.Version), store.IfVersion(versions...)} {
			in := t.insert("k", expecting(want))
			require.Equal(t, want, t.intent(in.ID).Expect)
		}
	}},
	{"Insert/an invalid condition is ErrInvalid", func(t *rowTest) {
		p := t.insertParams("k")
		p.Expect = store.IfVersion(0)
		_, err := t.rows.InsertIntent(t.ctx, p)
		require.ErrorIs(t, err, store.ErrInvalid)
		t.noIntent(p.ID)
	}},
	{"Insert/a blob name of another intent, object or retired name is ErrInvalid", func(t *rowTest) {
		taken := []string{t.insert("k").BlobName}

		retired := t.put("k").Blob.Name
		object := t.put("k").Blob.Name // replaces it
		t.forgetAll()
		taken = append(taken, retired, object)

		for _, name := range taken {
			p := t.insertParams("k")
			p.BlobName = name
			_, err := t.rows.InsertIntent(t.ctx, p)
			require.ErrorIs(t, err, store.ErrInvalid)
			t.noIntent(p.ID)
		}
	}},
	{"Insert/blob names are compared byte for byte", func(t *rowTest) {
		long := strings.Repeat("n", store.MaxBlobName-1)
		wide := make([]rune, store.MaxBlobNameBytes/4) // which no index entry shortens
		for i := range wide {
			wide[i] = rune(0x20000 + i*7919%40000)
		}
		one, other := string(wide), string(wide[1:])+"\U0002fa1d"
		for _, name := range []string{"b/a", "b/A", "b/ä", "b/a\u0308", "b/😀", "b/😁", long + "x", long + "X", one, other} {
			in := t.insert("k", func(p *store.InsertParams) { p.BlobName = name })
			require.Equal(t, name, t.commit(in).Blob.Name)
		}
	}},
	{"Insert/metadata comes back as it was", func(t *rowTest) {
		m := map[string]string{
			"Ünïcode 😀": "ürgh \"quoted\" \\ back\nline\ttab", "": "", "case": "1", "CASE": "2",
			"json": `{"a":[1,null]}`, "html": "<a href='x'>&amp;</a>\u2028", "long": strings.Repeat("x", 8<<10),
		}
		delete(m, "") // no empty names
		in := t.insert("k", func(p *store.InsertParams) { p.Metadata = m })
		require.Equal(t, m, in.Metadata)
		require.Equal(t, m, t.intent(in.ID).Metadata)
		require.Equal(t, m, t.commit(in).Metadata)
		require.Equal(t, m, t.object("k").Metadata)
		require.Equal(t, m, t.intent(in.ID).Result.Metadata)
	}},
	{"Insert/metadata that is nil or empty comes back as none", func(t *rowTest) {
		for _, m := range []map[string]string{nil, {}} {
			in := t.insert("k", func(p *store.InsertParams) { p.Metadata = m })
			require.Empty(t, in.Metadata)
			require.Empty(t, t.intent(in.ID).Metadata)
			require.Empty(t, t.commit(in).Metadata)
			require.Empty(t, t.object("k").Metadata)
		}
	}},
	{"Insert/what the caller does with a map afterwards changes nothing", func(t *rowTest) {
		m := map[string]string{"a": "1"}
		in := t.insert("k", func(p *store.InsertParams) { p.Metadata = m })
		m["a"] = "2"
		in.Metadata["a"] = "3"
		o := t.commit(in)
		o.Metadata["a"] = "4"
		got := t.object("k")
		require.Equal(t, map[string]string{"a": "1"}, got.Metadata)
		got.Metadata["a"] = "5"
		require.Equal(t, map[string]string{"a": "1"}, t.object("k").Metadata)
		require.Equal(t, map[string]string{"a": "1"}, t.intent(in.ID).Result.Metadata)
	}},
}
