//go:build unix

package soak

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// ver is a version of the n-th millisecond.
func ver(n int) store.Version { return store.Version(n) << store.RandomBits }

func second(n int) time.Time { return time.Unix(int64(n), 0) }

// world is a run in which everything went well: kept/0 was created and replaced,
// hot/0 created beside an order and deleted, a pair committed together, one ask
// refused, one never answered; readers saw some of it.
type world struct {
	pages map[string][]Record
	facts
}

func (w *world) asked(client string, at int, ask, via string, condition store.Condition, keys ...string) {
	r := Record{Kind: asked, At: second(at), Ask: ask, Via: via, Keys: keys, If: &condition}
	for i := range keys {
		r.SHA256 = append(r.SHA256, "sum of "+part(ask, i))
	}
	w.pages[client] = append(w.pages[client], r)
}

func (w *world) told(client string, at int, ask, answer string, versions ...store.Version) {
	r := Record{Kind: told, At: second(at), Ask: ask, Answer: answer, Versions: versions}
	for i := range versions {
		r.SHA256 = append(r.SHA256, "sum of "+part(ask, i))
	}
	w.pages[client] = append(w.pages[client], r)
}

func (w *world) saw(client string, at int, key string, v store.Version, part string) {
	r := Record{Kind: saw, At: second(at), Key: key, Version: v, Part: part}
	if v != 0 {
		r.SHA256 = []string{"sum of " + part}
	}
	w.pages[client] = append(w.pages[client], r)
}

func (w *world) became(key string, v, old store.Version, part string) {
	w.history = append(w.history, change{key, v, old, part, "sum of " + part})
}

func (w *world) is(key string, v store.Version, part string) {
	b := store.Blob{Name: "blob of " + part, ETag: "e", Size: 3, SHA256: "sum of " + part}
	w.objects = append(w.objects, store.Object{Key: key, Version: v, Blob: b, Metadata: map[string]string{partKey: part}})
	w.blobs[b.Name] = b
}

func sound() *world {
	w := &world{map[string][]Record{}, facts{blobs: map[string]store.Blob{}, orders: map[string]int{"b": 1, "d": 1}}}
	w.asked("writer-1", 10, "a", viaPut, store.IfAbsent(), "kept/0")
	w.told("writer-1", 11, "a", acked, ver(10))
	w.asked("writer-1", 12, "b", viaTx, store.IfAbsent(), "hot/0")
	w.told("writer-1", 13, "b", acked, ver(12))
	w.asked("writer-2", 14, "pair", viaPut, store.IfAbsent(), "own/1", "own/2")
	w.told("writer-2", 15, "pair", acked, ver(14), ver(15))
	w.asked("writer-3", 15, "no", viaPut, store.IfAbsent(), "kept/0")
	w.told("writer-3", 16, "no", refused)
	w.asked("replacer-1", 20, "c", viaPut, store.IfVersion(ver(10)), "kept/0")
	w.told("replacer-1", 21, "c", acked, ver(20))
	w.asked("replacer-2", 20, "silent", viaPut, store.Always(), "kept/0")
	w.asked("deleter-1", 30, "d", viaTx, store.IfVersion(ver(12)), "hot/0")
	w.pages["deleter-1"][0].Delete = true
	w.told("deleter-1", 31, "d", acked)
	w.saw("reader-1", 12, "kept/0", ver(10), "a/0")
	w.saw("reader-1", 22, "kept/0", ver(20), "c/0")
	w.saw("reader-2", 40, "hot/0", 0, "")
	w.became("kept/0", ver(10), 0, "a/0")
	w.became("hot/0", ver(12), 0, "b/0")
	w.became("own/1", ver(14), 0, "pair/0")
	w.became("own/2", ver(15), 0, "pair/1")
	w.became("kept/0", ver(20), ver(10), "c/0")
	w.history = append(w.history, change{key: "hot/0", old: ver(12)})
	w.is("kept/0", ver(20), "c/0")
	w.is("own/1", ver(14), "pair/0")
	w.is("own/2", ver(15), "pair/1")
	return w
}

func (w *world) compare() Report {
	var pages []page
	for client, records := range w.pages {
		pages = append(pages, page{client, 0, records})
	}
	return compare(pages, w.facts)
}

func TestASoundRunHasNoFault(t *testing.T) {
	r := sound().compare()
	require.Empty(t, r.Findings)
	require.Equal(t, 5, r.Acked)
	require.Equal(t, 2, r.Reads)
	require.False(t, r.Passed(), "writer-3, replacer-2 and reader-2 got nothing done")
}

func TestEveryFaultIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(w *world)
		want string // dangling, orphans, lost, lies, owed
	}{
		"blob missing":         {func(w *world) { delete(w.blobs, "blob of c/0") }, "1 0 0 0 0"},
		"blob replaced":        {func(w *world) { w.blobs["blob of c/0"] = store.Blob{ETag: "f", Size: 3, SHA256: "sum of c/0"} }, "1 0 0 0 0"},
		"blob truncated":       {func(w *world) { w.blobs["blob of c/0"] = store.Blob{ETag: "e", Size: 2} }, "1 0 0 0 0"},
		"old blob not retired": {func(w *world) { w.blobs["blob of a/0"] = store.Blob{} }, "0 1 0 0 0"},
		"row left":             {func(w *world) { w.owed = []string{"x"} }, "0 0 0 0 1"},
		"acked never committed": {func(w *world) {
			w.asked("writer-1", 50, "n", viaPut, store.Always(), "kept/1")
			w.told("writer-1", 51, "n", acked, ver(50))
		}, "0 0 1 0 0"},
		"acked and rolled back": {func(w *world) { w.objects = w.objects[:2]; delete(w.blobs, "blob of pair/1") }, "0 0 1 0 0"},
		"deleted by nobody":     {func(w *world) { w.pages["deleter-1"][0].Keys[0] = "hot/1" }, "0 0 2 0 0"},
		"acked delete not done": {func(w *world) { w.history = w.history[:5]; w.is("hot/0", ver(12), "b/0") }, "0 0 2 1 0"},
		"delete without order":  {func(w *world) { delete(w.orders, "d") }, "0 0 1 0 0"},
		"refused and committed": {func(w *world) { w.pages["writer-1"][1].Answer = refused }, "0 0 0 1 0"},
		"refused delete done":   {func(w *world) { w.pages["deleter-1"][1].Answer = refused }, "0 0 1 1 0"},
		"answer that cannot be": {func(w *world) { w.told("replacer-2", 21, "silent", broken) }, "0 0 0 1 0"},
		"acked as another":      {func(w *world) { w.pages["writer-1"][1].Versions[0]++ }, "0 0 0 1 0"},
		"order without object":  {func(w *world) { w.pages["replacer-2"][0].Via, w.orders["silent"] = viaTx, 1 }, "0 0 0 1 0"},
		"object without order":  {func(w *world) { delete(w.orders, "b") }, "0 0 0 1 0"},
		"order twice":           {func(w *world) { w.orders["b"] = 2 }, "0 0 0 1 0"},
		"committed twice": {func(w *world) {
			w.became("kept/0", ver(25), ver(20), "c/0")
			w.objects[0].Version = ver(25)
		}, "0 0 0 2 0"}, // and not on its condition
		"half of a pair": {func(w *world) {
			w.pages["writer-2"] = w.pages["writer-2"][:1]
			w.history = append(w.history[:3], w.history[4:]...)
			w.objects = w.objects[:2]
			delete(w.blobs, "blob of pair/1")
		}, "0 0 0 1 0"},
		"condition did not hold": {func(w *world) { *w.pages["replacer-1"][0].If = store.IfVersion(ver(9)) }, "0 0 0 1 0"},
		"replaced twice":         {func(w *world) { w.became("kept/0", ver(25), ver(10), "silent/0"); w.objects[0].Version = ver(25) }, "0 0 1 2 0"},
		"written by nobody":      {func(w *world) { w.became("kept/5", ver(30), 0, "x/0"); w.is("kept/5", ver(30), "x/0") }, "0 0 0 1 0"},
		"row that never was":     {func(w *world) { w.is("kept/5", ver(30), "a/0") }, "0 0 0 1 0"},
		"row of other bytes":     {func(w *world) { w.objects[0].Metadata[partKey] = "a/0" }, "0 0 0 1 0"},
		"read without bytes":     {func(w *world) { w.pages["reader-1"][0].Answer = broken }, "0 0 0 1 0"},
		"read other bytes":       {func(w *world) { w.pages["reader-1"][0].SHA256[0] = "mixture" }, "0 0 0 1 0"},
		"read what nobody wrote": {func(w *world) { w.saw("reader-1", 30, "kept/0", ver(21), "silent/0") }, "0 0 0 1 0"},
		"read an older version":  {func(w *world) { w.saw("reader-2", 30, "kept/0", ver(10), "a/0") }, "0 0 0 1 0"},
		"read backwards": {func(w *world) {
			w.pages["replacer-1"] = w.pages["replacer-1"][:1] // nobody was told, but the reader knows
			w.saw("reader-1", 23, "kept/0", ver(10), "a/0")
		}, "0 0 0 1 0"},
		"not found, never gone":   {func(w *world) { w.saw("reader-2", 30, "kept/0", 0, "") }, "0 0 0 1 0"},
		"not found, not yet told": {func(w *world) { w.saw("reader-2", 9, "kept/0", 0, "") }, "0 0 0 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sound()
			c.harm(w)
			r := w.compare()
			got := fmt.Sprint(r.Dangling, r.Orphans, r.Lost, r.Lies, r.Owed)
			require.Equal(t, c.want, got, "%v", r.Findings)
			require.Len(t, r.Findings, r.Dangling+r.Orphans+r.Lost+r.Lies+r.Owed)
		})
	}
}

// A run without faults passes only if every client got something done.
func TestAClientThatGotNothingDoneFailsTheRun(t *testing.T) {
	r := Report{Acked: 9, Minutes: 2, Clients: []Tally{{Name: "reader-1", Reads: 1}, {Name: "writer-1", Acked: 9}}}
	require.True(t, r.Passed())
	require.InDelta(t, 4.5, r.AckedPerClientMin(), 1e-9)
	for i, harm := range []func(*Report){
		func(r *Report) { r.Clients[0] = Tally{Name: "reader-1", Acked: 5} },
		func(r *Report) { r.Clients[1] = Tally{Name: "writer-1", Refused: 5, Unknown: 2} },
		func(r *Report) { r.Dangling++ }, func(r *Report) { r.Orphans++ },
		func(r *Report) { r.Lost++ }, func(r *Report) { r.Lies++ }, func(r *Report) { r.Owed++ },
	} {
		harmed := r
		harmed.Clients = append([]Tally{}, r.Clients...)
		harm(&harmed)
		require.False(t, harmed.Passed(), i)
	}
	r.Kills, r.Reads = 3, 1
	var out bytes.Buffer
	r.Print(&out)
	require.Contains(t, out.String(), "\nkills=3 acked=9 reads=1 acked_per_client_min=4.5 dangling=0 orphans=0 lost=0 lies=0\n")
}

// What a kill tore off was never acted on; what came before it counts.
func TestLedgerTornByAKill(t *testing.T) {
	dir := t.TempDir()
	always := store.Always()
	for life, again := range []bool{true, false} {
		l, err := openLedger(ledgerPath(dir, "writer-1", 2*life))
		require.NoError(t, err)
		require.NoError(t, l.write(Record{Kind: asked, Ask: "a", Keys: []string{"k"}, If: &always, Again: again}))
		_, err = l.file.WriteString(`{"Kind":"told","Answer":"ack`)
		require.NoError(t, err)
		require.NoError(t, l.file.Close())
	}
	pages, err := readLedgers(dir)
	require.NoError(t, err)
	require.Len(t, pages, 2)
	require.Equal(t, 2, pages[1].Incarnation)
	require.Len(t, pages[0].Records, 1)
	require.Equal(t, store.Always(), *pages[0].Records[0].If)

	r, err := unfinished(dir, "writer-1", 2) // the second life left no ledger at all
	require.NoError(t, err)
	require.Equal(t, "a", r.Ask)
	r, err = unfinished(dir, "writer-1", 3)
	require.NoError(t, err)
	require.Nil(t, r, "it has no idempotency key")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "writer-1.5"), []byte("{\n{}\n"), 0o600))
	_, err = readLedgers(dir)
	require.ErrorContains(t, err, "writer-1.5: line 1")
}
