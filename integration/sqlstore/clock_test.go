package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

const day = 24 * time.Hour

// unsynced are SQLite databases that need not survive a power cut.
var unsynced = []database{
	{"modernc", sqlstore.SQLite, "sqlite", sqliteFile("_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")},
	{"mattn", sqlstore.SQLite, "sqlite3", sqliteFile("_busy_timeout=5000&_journal_mode=WAL&_synchronous=OFF&_txlock=immediate")},
}

// clockText reads each database's own clock, at the time of the statement.
var clockText = map[sqlstore.Dialect]string{
	sqlstore.SQLite:   `SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000`,
	sqlstore.Postgres: `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`,
	sqlstore.MySQL:    `SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`,
}

// now is the database's clock.
func (d database) now(t testing.TB, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) time.Time {
	t.Helper()
	var us int64
	require.NoError(t, q.QueryRowContext(context.WithoutCancel(t.Context()), clockText[d.dialect]).Scan(&us))
	return time.UnixMicro(us).UTC()
}

// byTheClock plays a process for which every deadline matters, and tells what it
// saw; the database's clock begins this far off.
func (d database) byTheClock(t *testing.T, off time.Duration) (told []string) {
	var c clock
	c.advance(off)
	rows, db := d.migrated(t, &sqlstore.Options{TestClockOffset: c.offset})
	files, err := blobtx.New(rows, memstore.NewBlobs(nil), nil)
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	tell := func(what string, got any) { told = append(told, fmt.Sprintf("%s: %+v", what, got)) }
	sweep := func(what string) {
		r, err := files.Sweep(ctx, nil)
		require.NoError(t, err)
		tell(what, r)
	}
	stage := func(key string) *blobtx.Upload {
		up, err := files.Stage(ctx, key, strings.NewReader(key), nil)
		require.NoError(t, err)
		up.Release() // what keeps it alive from here on is its deadline
		return up
	}
	why := func(err error) string {
		for _, is := range []error{store.ErrIntentLost, store.ErrNotFound} {
			if errors.Is(err, is) {
				return is.Error()
			}
		}
		return fmt.Sprint(err)
	}

	before := d.now(t, db).Add(c.offset())
	a, err := files.Put(ctx, "a", strings.NewReader("one"), nil)
	require.NoError(t, err)
	after := d.now(t, db).Add(c.offset())
	tell("created by the database's clock", !a.CreatedAt.Before(before) && !a.CreatedAt.After(after) && a.UpdatedAt.Equal(a.CreatedAt))
	tell("so is its version", int64(a.Version)>>21 == a.UpdatedAt.UnixMilli())

	kept, lost := stage("kept"), stage("lost")
	sweep("at once")
	c.advance(14 * time.Minute)
	sweep("within the TTL")
	_, err = files.Commit(ctx, nil, kept)
	tell("committed within the TTL", why(err))
	c.advance(2 * time.Minute)
	sweep("after the TTL")
	_, err = files.Commit(ctx, nil, lost)
	tell("committed after the TTL", why(err))

	b, err := files.Put(ctx, "a", strings.NewReader("two"), &blobtx.PutOptions{If: blobtx.IfVersion(a.Version)})
	require.NoError(t, err)
	tell("a minute of its own", b.UpdatedAt.Sub(a.UpdatedAt).Round(time.Minute))
	tell("made once", b.CreatedAt.Equal(a.CreatedAt))
	sweep("within the grace")
	c.advance(6 * time.Minute)
	sweep("after the grace")

	old := stage("old")
	c.advance(49 * time.Hour)
	_, err = files.Commit(ctx, nil, old)
	tell("committed after MaxPending", why(err))
	sweep("after the quarantine")
	require.NoError(t, files.Delete(ctx, "a", nil))
	c.advance(25 * time.Hour)
	sweep("a day later")
	c.advance(25 * time.Hour)
	sweep("two days later")
	_, err = files.Get(ctx, "a")
	tell("deleted", why(err))
	return told
}

// A database whose clock is a day off, either way, is to the application what its
// own clock a day off is to the database: nothing that it sees is different.
func TestADayBetweenTheClocksChangesNothing(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		told := d.byTheClock(t, 0)
		require.Contains(t, told, "created by the database's clock: true")
		require.Contains(t, told, "so is its version: true")
		require.Contains(t, told, "committed within the TTL: <nil>")
		require.Contains(t, told, "committed after the TTL: "+store.ErrIntentLost.Error())
		for _, off := range []time.Duration{-day, day} {
			require.Equal(t, told, d.byTheClock(t, off), "%v", off)
		}
	})
}

// The application's own clock: in a bubble it is what the test makes it, while
// SQLite's goes on as before.
func TestTheApplicationsClockADayOffChangesNothing(t *testing.T) {
	for _, d := range embedded {
		t.Run(d.name, func(t *testing.T) {
			told, wall := d.byTheClock(t, 0), time.Now()
			for _, off := range []time.Duration{-day, day} {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(wall.Add(off))) // fake time
					require.Equal(t, off, time.Since(wall).Round(time.Hour))
					require.Equal(t, told, d.byTheClock(t, 0), "%v", off)
				})
			}
		})
	}
}

// Where no bubble reaches, the same by construction: with the database ten years
// ahead, whatever is sent to it that looks like a time of these days can only be
// the application's.
func TestNoStatementHasTheApplicationsTime(t *testing.T) {
	for _, now := range []any{
		time.Now(), time.Now().Unix(), time.Now().UnixMilli(), time.Now().UnixMicro(), time.Now().UnixNano(),
		time.Now().UnixMilli()<<21 | 5, fmt.Sprintf(`{"due":%d}`, time.Now().UnixMicro()+day.Microseconds()), []byte("2036" + time.Now().Format(time.RFC3339)),
	} {
		require.True(t, ofTheseDays(now), "%v", now)
	}
	each(t, databases, func(t *testing.T, d database) {
		var c clock
		c.advance(10 * 365 * day)
		db, sent := d.openRecorded(t)
		rows := d.store(t, db, &sqlstore.Options{TestClockOffset: c.offset})
		files, err := blobtx.New(rows, memstore.NewBlobs(nil), &blobtx.Options{IntentTTL: time.Second})
		require.NoError(t, err)
		ctx := t.Context()
		put := func(key string, body io.Reader, condition blobtx.Condition) {
			_, err := files.Put(ctx, key, body, &blobtx.PutOptions{If: condition, IdempotencyKey: fmt.Sprint(key, condition)})
			require.NoError(t, err)
		}
		put("a", strings.NewReader("one"), blobtx.IfAbsent())
		put("a", readerFunc(func([]byte) (int, error) { // a slow client, until a heartbeat was sent
			select {
			case <-sent.beat:
				return 0, io.EOF
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}), blobtx.Always())
		_, err = files.SetMetadata(ctx, "a", map[string]string{"a": "b"}, nil)
		require.NoError(t, err)
		up, err := files.Stage(ctx, "lost", strings.NewReader("lost"), nil)
		require.NoError(t, err)
		up.Release()
		_, err = files.Settle(ctx, up)
		require.NoError(t, err)
		up, err = files.Stage(ctx, "aborted", strings.NewReader("aborted"), nil)
		require.NoError(t, err)
		in := up.Intent()
		require.NoError(t, files.Abort(ctx, &in))
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, files.DeleteTx(ctx, rows.Tx(tx), "a", nil))
		require.NoError(t, tx.Commit())
		total := blobtx.SweepResult{}
		for range 4 {
			c.advance(49 * time.Hour)
			r, err := files.Sweep(ctx, nil)
			require.NoError(t, err)
			total.Abandoned += r.Abandoned
			total.Deleted += r.Deleted
			total.Cleared += r.Cleared
			total.Forgotten += r.Forgotten
		}
		require.NotContains(t, []int{total.Abandoned, total.Deleted, total.Cleared, total.Forgotten}, 0, "%+v", total)
		require.Greater(t, sent.n, 30)
		require.Empty(t, sent.suspects)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var number = regexp.MustCompile(`\d+`)

// ofTheseDays reports whether the value is, or holds, a time within two days of
// the application's clock, as a number in any unit or as RFC 3339 or SQL text.
func ofTheseDays(value any) bool {
	now := time.Now()
	if _, ok := value.(time.Time); ok {
		return true
	}
	text := fmt.Sprint(value)
	if b, ok := value.([]byte); ok {
		text = string(b)
	}
	for d := -2; d <= 2; d++ {
		if strings.Contains(text, now.AddDate(0, 0, d).Format(time.DateOnly)) {
			return true
		}
	}
	for _, digits := range number.FindAllString(text, -1) {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			continue
		}
		for _, t := range []time.Time{time.Unix(n, 0), time.UnixMilli(n), time.UnixMicro(n), time.Unix(0, n), time.UnixMilli(n >> 21)} {
			if now.Sub(t).Abs() <= 2*day {
				return true
			}
		}
	}
	return false
}

// recorder looks at every text and argument on its way to a database.
type recorder struct {
	mu       sync.Mutex
	n        int
	suspects []string
	beat     chan struct{} // closed by the first heartbeat
}

func (r *recorder) see(query string, args []driver.NamedValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if ofTheseDays(query) {
		r.suspects = append(r.suspects, query)
	}
	for _, a := range args {
		if ofTheseDays(a.Value) {
			r.suspects = append(r.suspects, fmt.Sprintf("%s: argument %d is %v", query, a.Ordinal, a.Value))
		}
	}
	if strings.Contains(query, "beats = ") && r.beat != nil {
		select {
		case <-r.beat:
		default:
			close(r.beat)
		}
	}
}

type recordedConnector struct {
	dsnConnector
	sent *recorder
}

func (c recordedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.dsnConnector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return recordedConn{watchedConn{conn, &wire{}}, c.sent}, nil
}

type recordedConn struct {
	watchedConn
	sent *recorder
}

func (c recordedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.sent.see(query, args)
	return c.watchedConn.ExecContext(ctx, query, args)
}

func (c recordedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.sent.see(query, args)
	return c.watchedConn.QueryContext(ctx, query, args)
}

func (d database) openRecorded(t testing.TB) (*sql.DB, *recorder) {
	t.Helper()
	dsn := d.dsn(t)
	sent := &recorder{beat: make(chan struct{})}
	db := sql.OpenDB(recordedConnector{dsnConnector{dsn, open(t, d.driver, dsn).Driver()}, sent})
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, sent
}

// Times are the statement's, not the transaction's: in one that is open for
// long, they move on, and a deadline that passes meanwhile has passed.
func TestALongTransactionKeepsStatementTime(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		s, db := d.migrated(t, nil)
		ctx := t.Context()
		a, b := upload(t, s, "a", store.IfAbsent()), upload(t, s, "b", store.IfAbsent())
		soon := store.InsertParams{ID: "soon", Holder: "h", Key: "soon", BlobName: "soon", TTL: 20 * time.Millisecond, MaxPending: 20 * time.Millisecond}
		insert := func() store.Intent {
			in, err := s.InsertIntent(ctx, soon)
			require.NoError(t, err)
			return in
		}
		var late store.Intent
		if d.dialect == sqlstore.SQLite { // one writer at a time
			late = insert()
		}
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		require.NoError(t, err)
		defer tx.Rollback() //nolint:errcheck // nothing after a commit
		begun := d.now(t, tx)
		if d.dialect != sqlstore.SQLite { // younger than the transaction
			late = insert()
		}
		past := func(when time.Time) {
			for !d.now(t, tx).After(when) {
				require.NoError(t, ctx.Err())
			}
		}
		bound := s.Tx(tx)
		objects, err := bound.CommitObjects(ctx, []store.CommitParams{commit(a, 1)})
		require.NoError(t, err)
		first := objects[0]
		require.False(t, first.CreatedAt.Before(begun))
		past(first.CreatedAt.Add(time.Millisecond))
		objects, err = bound.CommitObjects(ctx, []store.CommitParams{commit(b, 1)})
		require.NoError(t, err)
		require.Greater(t, objects[0].CreatedAt, first.CreatedAt)
		past(objects[0].CreatedAt.Add(time.Millisecond))
		changed, err := bound.SetObjectMetadata(ctx, store.MetadataParams{Key: "a", If: store.Always()})
		require.NoError(t, err)
		require.Equal(t, first.CreatedAt, changed.CreatedAt)
		require.Greater(t, changed.UpdatedAt, objects[0].CreatedAt)
		require.Equal(t, changed.UpdatedAt.UnixMilli(), int64(changed.Version)>>21)
		past(late.ExpiresAt)
		_, err = bound.CommitObjects(ctx, []store.CommitParams{commit(late, 1)})
		require.ErrorIs(t, err, store.ErrIntentLost)
		if d.dialect == sqlstore.Postgres {
			var still int64
			require.NoError(t, tx.QueryRowContext(ctx, `SELECT (extract(epoch FROM now()) * 1000000)::bigint`).Scan(&still))
			require.Less(t, still, late.ExpiresAt.UnixMicro(), "the transaction's own time shows nothing here")
		}
		require.NoError(t, tx.Commit())
	})
}

// random is the n-th of 2^21 different texts of random bits, in no order.
func random(n int) uint32 { return bits.Reverse32(uint32(n)) >> (32 - store.RandomBits) }

// Deleted and made again as fast as can be, on clocks of milliseconds: no version
// comes back, and where the row stays, each is greater than the one before.
func TestVersionsNeverRepeat(t *testing.T) {
	each(t, append(append(unsynced[:2:2], servers...), mariadbs...), func(t *testing.T, d database) {
		rounds, inOne := 200, 200
		if d.dialect == sqlstore.SQLite {
			rounds, inOne = 2000, 500
		}
		s, db := d.migrated(t, nil)
		ctx := context.WithoutCancel(t.Context())
		seen := map[store.Version]bool{}
		within := map[int64]int{}
		note := func(o store.Object) store.Version {
			require.False(t, seen[o.Version], "version %d came back", o.Version)
			seen[o.Version] = true
			within[int64(o.Version)>>21]++
			return o.Version
		}
		// life is one object from its creation to its end, on either kind of rows.
		life := func(rows store.RowTx, round int, in store.Intent) {
			p := commit(in, 1)
			p.Random = random(2 * round)
			objects, err := rows.CommitObjects(ctx, []store.CommitParams{p})
			require.NoError(t, err)
			made := note(objects[0])
			changed, err := rows.SetObjectMetadata(ctx, store.MetadataParams{Key: "k", If: store.IfVersion(made), Random: random(2*round + 1)})
			require.NoError(t, err)
			require.Greater(t, note(changed), made)
			_, err = rows.DeleteObject(ctx, store.DeleteParams{Key: "k", If: store.IfVersion(changed.Version)})
			require.NoError(t, err)
		}
		for i := range rounds {
			life(s, i, upload(t, s, "k", store.IfAbsent()))
		}
		intents := make([]store.Intent, inOne)
		for i := range intents {
			intents[i] = upload(t, s, "k", store.IfAbsent())
		}
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		bound := s.Tx(tx)
		for i, in := range intents {
			life(bound, rounds+i, in)
		}
		require.NoError(t, tx.Commit())
		require.Len(t, seen, 2*rounds+2*inOne)
		t.Logf("%d versions in %d milliseconds", len(seen), len(within))
	})
}

// A clock that is set back does not bring a version back: it grows by one then.
func TestVersionsGrowWhileTheClockGoesBack(t *testing.T) {
	each(t, databases, func(t *testing.T, d database) {
		var c clock
		c.advance(day)
		s, db := d.migrated(t, &sqlstore.Options{TestClockOffset: c.offset})
		ctx := context.WithoutCancel(t.Context())
		in := func() store.CommitParams { return commit(upload(t, s, "k", store.Always()), 1) }
		objects, err := s.CommitObjects(ctx, []store.CommitParams{in()})
		require.NoError(t, err)
		v := objects[0].Version
		c.advance(-2 * day)
		first, second := in(), in()
		objects, err = s.CommitObjects(ctx, []store.CommitParams{first})
		require.NoError(t, err)
		require.Equal(t, v+1, objects[0].Version)
		changed, err := s.SetObjectMetadata(ctx, store.MetadataParams{Key: "k", If: store.Always(), Random: 77})
		require.NoError(t, err)
		require.Equal(t, v+2, changed.Version)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		defer tx.Rollback() //nolint:errcheck // nothing after a commit
		objects, err = s.Tx(tx).CommitObjects(ctx, []store.CommitParams{second})
		require.NoError(t, err)
		require.Equal(t, v+3, objects[0].Version)
		changed, err = s.Tx(tx).SetObjectMetadata(ctx, store.MetadataParams{Key: "k", If: store.IfVersion(v + 3), Random: 78})
		require.NoError(t, err)
		require.Equal(t, v+4, changed.Version)
		require.NoError(t, tx.Commit())
	})
}
