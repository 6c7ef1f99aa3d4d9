package azstore_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

const (
	lockFor  = 15 * time.Second
	lockBlob = "_blobtx/lock/leader"
)

// once tries once, for a lock of 15 seconds.
var once = &azstore.LockOptions{Duration: lockFor, Wait: -1}

// inBubble runs f in fake time. The bubble fails if f leaves a goroutine.
func inBubble(t *testing.T, promise string, f func(t *testing.T)) {
	t.Helper()
	t.Run(promise, func(t *testing.T) { synctest.Test(t, f) })
}

// line is one process's way to the service, which can be disturbed.
type line struct {
	next policy.Transporter
	sent atomic.Int32
	by   atomic.Pointer[func(req *http.Request) error]
}

func (l *line) Do(req *http.Request) (*http.Response, error) {
	l.sent.Add(1)
	if by := l.by.Load(); by != nil {
		if err := (*by)(req); err != nil {
			return nil, err
		}
	}
	return l.next.Do(req)
}

func (l *line) disturb(by func(req *http.Request) error) { l.by.Store(&by) }

// die is the end of a process, as the service sees it.
func (l *line) die() { l.disturb(func(*http.Request) error { return errors.New("no route to host") }) }

// hang is a service that does not answer.
func (l *line) hang() {
	l.disturb(func(req *http.Request) error {
		<-req.Context().Done()
		return req.Context().Err()
	})
}

// process is a Store over the account with a line of its own and no retries.
func process(t testing.TB, server *azfake.Server) (*azstore.Store, *line) {
	t.Helper()
	l := &line{next: server.Transport()}
	return storeOver(t, server, &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: l, Retry: policy.RetryOptions{MaxRetries: -1},
	}}, nil), l
}

func lock(t testing.TB, s *azstore.Store, opts *azstore.LockOptions) *azstore.Lock {
	t.Helper()
	l, err := s.Lock(t.Context(), "leader", opts)
	require.NoError(t, err)
	return l
}

// requireTaken requires that another cannot get the lock now, and says who.
func requireTaken(t testing.TB, server *azfake.Server) {
	t.Helper()
	s, _ := process(t, server)
	l, err := s.Lock(t.Context(), "leader", once)
	require.Nil(t, l)
	require.ErrorIs(t, err, store.ErrBusy)
	require.ErrorIs(t, err, azstore.ErrLeaseHeld)
}

// requireFree requires that another can.
func requireFree(t testing.TB, server *azfake.Server) {
	t.Helper()
	s, _ := process(t, server)
	require.NoError(t, lock(t, s, once).Release())
}

func TestALockIsKeptUntilItIsReleased(t *testing.T) {
	for _, d := range []time.Duration{15 * time.Second, 0, 60 * time.Second} {
		inBubble(t, d.String(), func(t *testing.T) {
			server := azfake.New(nil)
			s, _ := process(t, server)
			l := lock(t, s, &azstore.LockOptions{Duration: d, Wait: -1})
			if d == 0 {
				d = 30 * time.Second
			}
			server.ResetCounts()
			for range 10 {
				time.Sleep(6 * time.Minute)
				require.NoError(t, l.Err())
				require.NoError(t, l.Context().Err())
			}
			synctest.Wait()
			require.Equal(t, int(time.Hour/(d/3)), server.Count(azfake.OpLeaseBlob), "a renewal each third of the duration")
			require.Equal(t, server.Count(azfake.OpLeaseBlob), server.Requests(), "and nothing else")
			requireTaken(t, server)

			require.NoError(t, l.Release())
			require.ErrorIs(t, l.Context().Err(), context.Canceled)
			require.NotErrorIs(t, l.Err(), azstore.ErrLockLost)
			requireFree(t, server)
			server.ResetCounts()
			require.NoError(t, l.Release(), "again")
			time.Sleep(hour)
			require.Zero(t, server.Requests(), "nothing goes on")
		})
	}
}

func TestTheLockBlobIsOutOfTheWay(t *testing.T) {
	server := azfake.New(nil)
	s := storeOver(t, server, nil, &azstore.Options{Prefix: "tenant-7/"})
	other, _ := process(t, server)
	l := lock(t, s, once)
	require.NoError(t, lock(t, other, once).Release(), "another prefix, another lock")
	require.NoError(t, l.Release())
	require.Equal(t, []string{lockBlob, "tenant-7/" + lockBlob}, server.Names(containerName))
	for _, b := range server.Inspect(containerName) {
		require.Zero(t, b.Size)
		require.Empty(t, b.Tags, "no lifecycle rule of ours takes it")
	}
	require.ErrorIs(t, deleteOne(t.Context(), s, store.DeleteBlob{Name: lockBlob, IntentID: intentID}), store.ErrInvalid)
	_, err := s.Create(t.Context(), params(lockBlob, nil))
	require.ErrorIs(t, err, store.ErrInvalid)
}

// The lock blob is made by whoever comes first, and made again when somebody has
// removed it.
func TestOneOfManyMakesTheBlobAndGetsTheLock(t *testing.T) {
	for name, opts := range servers {
		inBubble(t, name, func(t *testing.T) {
			server := azfake.New(&opts)
			// All find no blob before any of them makes it.
			server.SetHook(func(c azfake.Call) azfake.Fault {
				if c.Op == azfake.OpPutBlob {
					require.Equal(t, "*", c.Request.Header.Get("If-None-Match"))
					return azfake.Delay(time.Second)
				}
				return azfake.Fault{}
			})
			var won atomic.Int32
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					s, _ := process(t, server)
					l, err := s.Lock(t.Context(), "leader", once)
					if err != nil {
						require.ErrorIs(t, err, store.ErrBusy)
						return
					}
					won.Add(1)
					time.Sleep(time.Minute)
					require.NoError(t, l.Release())
				})
			}
			wg.Wait()
			require.Equal(t, int32(1), won.Load())
			require.Equal(t, 20, server.Count(azfake.OpPutBlob))
			require.Len(t, server.Names(containerName), 1)

			c, err := server.ContainerClient(containerName, nil)
			require.NoError(t, err)
			_, err = c.NewBlobClient(lockBlob).Delete(t.Context(), nil)
			require.NoError(t, err)
			requireFree(t, server)
		})
	}
}

func TestWaiting(t *testing.T) {
	inBubble(t, "a wait that ends in vain says who was in the way", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		l := lock(t, s, once)
		begun := time.Now()
		_, err := s.Lock(t.Context(), "leader", &azstore.LockOptions{Wait: 20 * time.Second})
		require.ErrorIs(t, err, store.ErrBusy)
		require.ErrorIs(t, err, azstore.ErrLeaseHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 20*time.Second, time.Since(begun))
		require.NoError(t, l.Release())
	})
	inBubble(t, "a lock that is free in time is got within a poll", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		l := lock(t, s, nil)
		begun := time.Now()
		time.AfterFunc(70*time.Second, func() { require.NoError(t, l.Release()) })
		next := lock(t, s, &azstore.LockOptions{Wait: 2 * time.Minute})
		require.Greater(t, time.Since(begun), 70*time.Second)
		require.LessOrEqual(t, time.Since(begun), 70*time.Second+5*time.Second*5/4)
		require.NoError(t, next.Release())
	})
	inBubble(t, "the end of the context ends it", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		l := lock(t, s, nil)
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		begun := time.Now()
		long := hour + time.Second // between two renewals
		time.AfterFunc(long, func() { cancel(cause) })
		_, err := s.Lock(ctx, "leader", nil)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.Equal(t, long, time.Since(begun))

		server.ResetCounts()
		_, err = s.Lock(ctx, "leader", once)
		require.ErrorIs(t, err, cause)
		require.Zero(t, server.Requests())
		require.NoError(t, l.Release())
	})
	inBubble(t, "only a holder is waited for", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		server.SetHook(func(azfake.Call) azfake.Fault { return azfake.Deny() })
		begun := time.Now()
		_, err := s.Lock(t.Context(), "leader", nil)
		require.ErrorIs(t, err, store.ErrSetup)
		require.ErrorContains(t, err, "SAS permission w")
		require.Zero(t, time.Since(begun))
	})
	inBubble(t, "many take their turns, one at a time", func(t *testing.T) {
		server := azfake.New(nil)
		var holders, most atomic.Int32
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				s, _ := process(t, server)
				l := lock(t, s, nil)
				most.Store(max(most.Load(), holders.Add(1)))
				time.Sleep(50 * time.Second)
				require.NoError(t, l.Err())
				holders.Add(-1)
				require.NoError(t, l.Release())
			})
		}
		wg.Wait()
		require.Equal(t, int32(1), most.Load())
	})
}

func TestTheContextIsTheLifeOfTheLock(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		cause := errors.New("shutting down")
		for _, released := range []bool{true, false} {
			ctx, cancel := context.WithCancelCause(t.Context())
			l, err := s.Lock(ctx, "leader", once)
			require.NoError(t, err)
			time.Sleep(time.Minute + time.Second) // a second after a renewal
			cancel(cause)
			require.Equal(t, cause, context.Cause(l.Context()))
			require.Equal(t, cause, l.Err())
			server.ResetCounts()
			if released {
				require.NoError(t, l.Release(), "though the context is done")
				requireFree(t, server)
				continue
			}
			time.Sleep(lockFor - time.Second - 1)
			require.Zero(t, server.Requests(), "no renewal")
			requireTaken(t, server)
			time.Sleep(time.Nanosecond)
			requireFree(t, server)
		}
	})
}

func TestRelease(t *testing.T) {
	inBubble(t, "concurrent calls do it once and hear the same", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		l := lock(t, s, once)
		server.ResetCounts()
		server.SetHook(func(azfake.Call) azfake.Fault { return azfake.Delay(time.Second) })
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				begun := time.Now()
				require.NoError(t, l.Release())
				require.Equal(t, time.Second, time.Since(begun))
			})
		}
		wg.Wait()
		require.Equal(t, 1, server.Requests())
		server.SetHook(nil)
		requireFree(t, server)
	})
	inBubble(t, "while a renewal is under way, which comes too late", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		l := lock(t, s, once)
		var late func() int
		server.SetHook(func(azfake.Call) azfake.Fault {
			server.SetHook(nil)
			return azfake.ApplyLate(func(apply func() int) { late = apply })
		})
		time.Sleep(lockFor / 3)
		synctest.Wait()
		require.NoError(t, l.Release())
		require.Equal(t, http.StatusConflict, late(), "a released lease is not renewed")
		requireFree(t, server)
	})
	inBubble(t, "it is bounded when the service does not answer", func(t *testing.T) {
		server := azfake.New(nil)
		s, way := process(t, server)
		l := lock(t, s, once)
		way.hang()
		begun := time.Now()
		err := l.Release()
		require.ErrorContains(t, err, `release lock "leader": release lease: no answer`)
		require.NotErrorIs(t, err, azstore.ErrLockLost)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "it is not the caller's deadline")
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.Equal(t, err, l.Release())
		requireTaken(t, server)
		time.Sleep(10 * time.Second)
		requireFree(t, server)
	})
	inBubble(t, "a repeated request meets its own success", func(t *testing.T) {
		server := azfake.New(nil)
		s := storeOver(t, server, nil, nil)
		l := lock(t, s, once)
		server.ResetCounts()
		server.SetHook((&nth{n: 1, fault: azfake.LoseReply()}).hook)
		require.NoError(t, l.Release())
		require.Equal(t, 2, server.Requests())
	})
}

// What can happen to any request on the way to a lock: it is got, or the error
// leaves nothing behind that keeps others waiting, unless nothing gets through.
func TestFaultsOnTheWayToALock(t *testing.T) {
	for name, fault := range faults {
		for _, retries := range []bool{true, false} {
			inBubble(t, name, func(t *testing.T) {
				for n := 1; ; n++ {
					server := azfake.New(nil)
					s := storeOver(t, server, nil, nil)
					if !retries {
						s = storeOver(t, server, withoutRetries(server), nil)
					}
					h := &nth{n: n, fault: fault}
					server.SetHook(h.hook)
					l, err := s.Lock(t.Context(), "leader", once)
					if err == nil {
						err = l.Release()
					}
					require.False(t, retries && err != nil, "request %d: %v", n, err)
					server.SetHook(nil)
					if !h.met {
						require.NoError(t, err)
						require.GreaterOrEqual(t, n, 4, "acquire, make the blob, acquire, release")
						break
					}
					if l != nil { // the release was lost
						time.Sleep(lockFor)
					}
					requireFree(t, server)
				}
			})
		}
	}
}

// timesOut carries requests out and answers that it took too long.
type timesOut struct{ next policy.Transporter }

func (o timesOut) Do(req *http.Request) (*http.Response, error) {
	if _, err := o.next.Do(req); err != nil {
		return nil, err
	}
	return bare(http.StatusInternalServerError).Do(req)
}

func TestALeaseThatMayBeOursIsGivenUp(t *testing.T) {
	server := azfake.New(nil)
	requireFree(t, server) // the blob is there
	s := storeOver(t, server, &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: timesOut{server.Transport()}, Retry: policy.RetryOptions{MaxRetries: -1},
	}}, nil)
	_, err := s.Lock(t.Context(), "leader", once)
	require.ErrorContains(t, err, "500")
	requireFree(t, server)
}

func TestBadLocks(t *testing.T) {
	s, server := newFake(t, nil, nil)
	second := time.Second
	for name, o := range map[string]*azstore.LockOptions{
		"too short": {Duration: 14 * second}, "too long": {Duration: 61 * second}, "negative": {Duration: -second},
		"not whole": {Duration: 20*second + 1}, "polls at once": {Poll: 1}, "polls backwards": {Poll: -second},
	} {
		_, err := s.Lock(t.Context(), "leader", o)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	for _, name := range []string{"", "/a", "a/../b", "a.", "a\nb", "_blobtx/probe", strings.Repeat("x", 1015)} {
		_, err := s.Lock(t.Context(), name, nil)
		require.ErrorIs(t, err, store.ErrInvalid, "%.20q", name)
		_, err = s.BreakLock(t.Context(), name, 0)
		require.ErrorIs(t, err, store.ErrInvalid, "%.20q", name)
	}
	for _, period := range []time.Duration{-second, 61 * second, second / 2} {
		_, err := s.BreakLock(t.Context(), "leader", period)
		require.ErrorIs(t, err, store.ErrInvalid, "%v", period)
	}
	require.Zero(t, server.Requests())
	l, err := s.Lock(t.Context(), "sweeper/tenant 7ü", nil)
	require.NoError(t, err)
	require.NoError(t, l.Release())
}
