package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// bytesIn is a container as the tests see it, past any fault.
type bytesIn interface {
	// contents returns the bytes of every blob, by name.
	contents(t testing.TB) map[string][]byte
	// sealed reports whether the blob says committed.
	sealed(t testing.TB, name string) bool
}

// world is one database, one container, and two processes over them: the one
// whose wire fails, and one whose wire never does.
type world struct {
	t testing.TB
	*blobtx.Coordinator
	tx         transactions
	calm       *blobtx.Coordinator
	sealsLater *blobtx.Coordinator // calm too, and owes the seals of what it commits
	direct     *sql.DB
	barrier    []string // see database
	container  bytesIn
	land       func()        // what was late arrives
	clock      *atomic.Int64 // added to the database's clock
}

// transaction is the caller's own, over any driver.
type transaction struct {
	rows   store.RowTx
	exec   func(query string, args ...any) error
	commit func() error
}

// clear empties the tables, the application's own included.
func (w *world) clear() {
	for table := range strings.SplitSeq(tables, ", ") {
		_, err := w.direct.ExecContext(w.t.Context(), "DELETE FROM "+table)
		require.NoError(w.t, err)
	}
}

func (w *world) put(key, body string) blobtx.Object {
	o, err := w.calm.Put(w.t.Context(), key, bytes.NewReader([]byte(body)), nil)
	require.NoError(w.t, err)
	return o
}

// holds reports whether the object is there with these bytes.
func (w *world) holds(key, body string) bool {
	r, err := w.calm.Open(w.t.Context(), key, nil)
	if err != nil {
		require.ErrorIs(w.t, err, blobtx.ErrNotFound)
		return false
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	require.NoError(w.t, err)
	return string(got) == body
}

// notes counts the application's own rows.
func (w *world) notes() (n int) {
	require.NoError(w.t, w.direct.QueryRowContext(w.t.Context(), "SELECT count(*) FROM notes").Scan(&n))
	return n
}

func (w *world) objects() []blobtx.Object {
	var all []blobtx.Object
	for o, err := range w.calm.List(w.t.Context(), nil) {
		require.NoError(w.t, err)
		all = append(all, o)
	}
	return all
}

// intact: a row in objects has its blob, with the row's bytes.
func (w *world) intact() {
	w.t.Helper()
	there := w.container.contents(w.t)
	for _, o := range w.objects() {
		content, ok := there[o.Blob.Name]
		require.True(w.t, ok, "dangling: object %q names blob %q, which is not there", o.Key, o.Blob.Name)
		sum := sha256.Sum256(content)
		require.Equal(w.t, o.Blob.SHA256, hex.EncodeToString(sum[:]))
	}
}

// outcomes asks a calm process for the outcome of every intent there is. What it
// says must be what is there: an upload is committed exactly if it became a
// version of its object.
func (w *world) outcomes() {
	w.t.Helper()
	rows, err := w.direct.QueryContext(w.t.Context(), "SELECT id, object_key, state FROM blobtx_intents")
	require.NoError(w.t, err)
	type row struct{ id, key, state string }
	var all []row
	for rows.Next() {
		var r row
		require.NoError(w.t, rows.Scan(&r.id, &r.key, &r.state))
		all = append(all, r)
	}
	require.NoError(w.t, rows.Err())
	for _, r := range all {
		outcome, err := w.calm.Outcome(w.t.Context(), r.id)
		require.NoError(w.t, err)
		committed := r.state == string(store.Sealing) || r.state == string(store.Done)
		require.Equal(w.t, committed, outcome.Committed, "intent %s was %s", r.id, r.state)
		current, err := w.calm.Get(w.t.Context(), r.key)
		if !committed && err == nil {
			require.NotEqual(w.t, r.id, current.IntentID, "told not committed, and it is visible")
		}
	}
}

// ended waits for the transactions of connections that were cut: the server
// learns of a cut a little later.
func (w *world) ended() {
	w.t.Helper()
	c, err := w.direct.Conn(w.t.Context())
	require.NoError(w.t, err)
	defer c.Close() // it only gives the connection back
	for _, statement := range w.barrier {
		_, err := c.ExecContext(w.t.Context(), statement)
		require.NoError(w.t, err)
	}
}

// taken counts what took effect: the uploads that were committed, and the blobs
// that were given up.
func (w *world) taken() (commits, retires int) {
	w.t.Helper()
	require.NoError(w.t, w.direct.QueryRowContext(w.t.Context(),
		"SELECT (SELECT count(*) FROM blobtx_intents WHERE state IN ('sealing', 'done')), (SELECT count(*) FROM blobtx_retired)").Scan(&commits, &retires))
	return commits, retires
}

// atRest lets every deadline pass, sweeps, and requires that nothing dangles
// and that the container holds exactly what the objects name, sealed.
func (w *world) atRest() {
	w.t.Helper()
	for range 4 {
		w.clock.Add(int64(49 * time.Hour))
		_, err := w.calm.Sweep(w.t.Context(), nil)
		require.NoError(w.t, err)
		w.intact()
	}
	var intents, retired int
	require.NoError(w.t, w.direct.QueryRowContext(w.t.Context(),
		"SELECT (SELECT count(*) FROM blobtx_intents), (SELECT count(*) FROM blobtx_retired)").Scan(&intents, &retired))
	require.Zero(w.t, intents)
	require.Zero(w.t, retired)
	var want, have []string
	for _, o := range w.objects() {
		want = append(want, o.Blob.Name)
		require.True(w.t, w.container.sealed(w.t, o.Blob.Name), "at rest, blob %q still says pending", o.Blob.Name)
	}
	for name := range w.container.contents(w.t) {
		have = append(have, name)
	}
	slices.Sort(want)
	slices.Sort(have)
	require.Equal(w.t, want, have)
}

// sqlTransactions runs the caller's transactions on database/sql.
func sqlTransactions(db *sql.DB, s *sqlstore.Store) transactions {
	return func(ctx context.Context, fn func(transaction) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // nothing after a commit, and an error after a cut
		return fn(transaction{
			rows:   s.Tx(tx),
			exec:   func(query string, args ...any) error { _, err := tx.ExecContext(ctx, query, args...); return err },
			commit: tx.Commit,
		})
	}
}
