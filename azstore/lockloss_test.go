package azstore_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/store"
)

// The service says that the lease is not ours any more: told at the next
// renewal, at most a third of the duration later.
func TestALockIsLostWhenItsRenewalIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(t *testing.T, other *azstore.Store, c *container.Client)
		is      error
	}{
		"broken": {func(t *testing.T, other *azstore.Store, _ *container.Client) {
			_, err := other.BreakLock(t.Context(), "leader", 0)
			require.NoError(t, err)
		}, azstore.ErrLeaseBroken},
		"breaking": {func(t *testing.T, other *azstore.Store, _ *container.Client) {
			_, err := other.BreakLock(t.Context(), "leader", 10*time.Second)
			require.NoError(t, err)
		}, azstore.ErrLeaseBroken},
		"broken and taken": {func(t *testing.T, other *azstore.Store, _ *container.Client) {
			_, err := other.BreakLock(t.Context(), "leader", 0)
			require.NoError(t, err)
			l := lock(t, other, once)
			t.Cleanup(func() { require.NoError(t, l.Release()) })
		}, azstore.ErrLeaseIDMismatch},
		"the blob is gone": {func(t *testing.T, other *azstore.Store, c *container.Client) {
			_, err := other.BreakLock(t.Context(), "leader", 0)
			require.NoError(t, err)
			_, err = c.NewBlobClient(lockBlob).Delete(t.Context(), nil)
			require.NoError(t, err)
		}, store.ErrBlobNotFound},
		"the container is gone": {func(t *testing.T, _ *azstore.Store, c *container.Client) {
			_, err := c.Delete(t.Context(), nil)
			require.NoError(t, err)
		}, store.ErrSetup},
	} {
		inBubble(t, name, func(t *testing.T) {
			server := azfake.New(nil)
			s, way := process(t, server)
			l := lock(t, s, once)
			time.Sleep(11 * time.Second) // a second after the second renewal
			other, _ := process(t, server)
			cc, err := server.ContainerClient(containerName, nil)
			require.NoError(t, err)
			c.happens(t, other, cc)
			begun := time.Now()
			<-l.Context().Done()
			require.Equal(t, 4*time.Second, time.Since(begun))
			require.ErrorIs(t, l.Context().Err(), context.Canceled)
			cause := context.Cause(l.Context())
			require.ErrorIs(t, cause, azstore.ErrLockLost)
			require.ErrorIs(t, cause, c.is)
			require.ErrorContains(t, cause, `azstore: lock "leader": renew lease: lock lost: `)
			require.Equal(t, cause, l.Err())

			sent := way.sent.Load()
			require.Equal(t, cause, l.Release())
			require.Equal(t, cause, l.Release())
			time.Sleep(hour)
			require.Equal(t, sent, way.sent.Load(), "nothing is left to release or to renew")
		})
	}
}

// A lock taken under another's context ends with it, and is released all the same.
func TestTheLossOfAnotherLockIsNotItsOwn(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		outer, err := s.Lock(t.Context(), "outer", once)
		require.NoError(t, err)
		l, err := s.Lock(outer.Context(), "leader", once)
		require.NoError(t, err)
		_, err = s.BreakLock(t.Context(), "outer", 0)
		require.NoError(t, err)
		<-l.Context().Done()
		require.ErrorContains(t, l.Err(), `lock "outer": renew lease: lock lost`)
		require.NoError(t, l.Release())
		requireFree(t, server)
		require.ErrorIs(t, outer.Release(), azstore.ErrLockLost)
	})
}

var errCut = errors.New("no route to host")

// silences are ways in which no renewal is confirmed.
var silences = map[string]func(server *azfake.Server, way *line){
	"cut":   func(_ *azfake.Server, way *line) { way.disturb(func(*http.Request) error { return errCut }) },
	"hangs": func(_ *azfake.Server, way *line) { way.hang() },
	"no reply": func(server *azfake.Server, _ *line) {
		server.SetHook(func(azfake.Call) azfake.Fault { return azfake.LoseReply() })
	},
	"throttled": func(server *azfake.Server, _ *line) {
		server.SetHook(func(azfake.Call) azfake.Fault { return azfake.Throttle(503, 0) })
	},
	"not allowed any more": func(server *azfake.Server, _ *line) {
		server.SetHook(func(azfake.Call) azfake.Fault { return azfake.Deny() })
	},
}

// No renewal is confirmed: the lock is lost when its duration is over, counted
// from the sending of the last one that was, and not before.
func TestALockIsLostWhenNoRenewalIsConfirmed(t *testing.T) {
	for name, silence := range silences {
		inBubble(t, name, func(t *testing.T) {
			server := azfake.New(nil)
			s, way := process(t, server)
			l := lock(t, s, once)
			time.Sleep(21 * time.Second)
			silence(server, way)
			time.Sleep(14*time.Second - 1)
			require.NoError(t, l.Err())
			require.NoError(t, l.Context().Err())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			cause := context.Cause(l.Context())
			require.ErrorIs(t, cause, azstore.ErrLockLost)
			require.ErrorContains(t, cause, "no renewal was confirmed for 15s: renew lease: ", "and why")
			if name == "cut" {
				require.ErrorIs(t, cause, errCut)
			}
			server.SetHook(nil)
			require.Equal(t, cause, l.Release())
		})
	}
}

// Failures that pass in time are no loss, and later ones count anew.
func TestALockOutlivesShortFailures(t *testing.T) {
	for name, silence := range silences {
		inBubble(t, name, func(t *testing.T) {
			server := azfake.New(nil)
			s, way := process(t, server)
			l := lock(t, s, once)
			for range 20 {
				silence(server, way)
				time.Sleep(5 * time.Second)
				way.by.Store(nil)
				server.SetHook(nil)
				time.Sleep(6300 * time.Millisecond)
				require.NoError(t, l.Err())
				requireTaken(t, server)
			}
			require.NoError(t, l.Release())
		})
	}
}

// An answer that took long confirms no more than the request did.
func TestTheDurationCountsFromSending(t *testing.T) {
	inBubble(t, "acquire", func(t *testing.T) {
		server := azfake.New(nil)
		s, way := process(t, server)
		requireFree(t, server) // the blob is there
		server.SetHook(func(azfake.Call) azfake.Fault { return azfake.Fault{DelayReply: 10 * time.Second} })
		sent := time.Now()
		l := lock(t, s, once)
		way.hang()
		<-l.Context().Done()
		require.Equal(t, lockFor, time.Since(sent))
		require.ErrorIs(t, l.Release(), azstore.ErrLockLost)
	})
	inBubble(t, "renew", func(t *testing.T) {
		server := azfake.New(nil)
		s, way := process(t, server)
		l := lock(t, s, once)
		sent := time.Now().Add(5 * time.Second)
		server.SetHook(func(azfake.Call) azfake.Fault { return azfake.Fault{DelayReply: 2 * time.Second} })
		time.Sleep(7*time.Second + 1)
		way.die()
		<-l.Context().Done()
		require.Equal(t, lockFor, time.Since(sent))
		require.ErrorIs(t, l.Release(), azstore.ErrLockLost)
	})
	inBubble(t, "a lease that takes longer to get than it lasts is none", func(t *testing.T) {
		server := azfake.New(nil)
		s, _ := process(t, server)
		requireFree(t, server)
		server.SetHook((&nth{n: 1, fault: azfake.Fault{DelayReply: hour}}).hook)
		begun := time.Now()
		_, err := s.Lock(t.Context(), "leader", nil)
		require.ErrorContains(t, err, "acquire lease: no answer")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 30*time.Second, time.Since(begun))
		requireFree(t, server)
	})
}

// A holder that is cut off knows of its loss no later than the next one can have
// the lock, whatever point of its rhythm it was at.
func TestTakeoverFromADeadHolder(t *testing.T) {
	for cut := time.Duration(0); cut < 10*time.Second; cut += 700 * time.Millisecond {
		inBubble(t, cut.String(), func(t *testing.T) {
			server := azfake.New(nil)
			s, way := process(t, server)
			l := lock(t, s, once)
			time.Sleep(cut)
			way.die()
			dead := time.Now()
			next, _ := process(t, server)
			got := lock(t, next, &azstore.LockOptions{Duration: lockFor, Poll: 100 * time.Millisecond})
			require.ErrorIs(t, l.Err(), azstore.ErrLockLost)
			require.Error(t, l.Context().Err())
			require.Less(t, time.Since(dead), lockFor+200*time.Millisecond)

			// The line comes back, and what the old holder still does is no harm.
			way.by.Store(nil)
			require.ErrorIs(t, l.Release(), azstore.ErrLockLost)
			time.Sleep(hour)
			require.NoError(t, got.Err())
			require.NoError(t, got.Release())
		})
	}
}

func TestBreakLock(t *testing.T) {
	for period, free := range map[time.Duration]time.Duration{
		0: 0, 3 * time.Second: 3 * time.Second, 60 * time.Second: 14 * time.Second, // no more than is left
	} {
		inBubble(t, period.String(), func(t *testing.T) {
			server := azfake.New(nil)
			s, _ := process(t, server)
			l := lock(t, s, once)
			time.Sleep(6 * time.Second)
			operator, _ := process(t, server)
			left, err := operator.BreakLock(t.Context(), "leader", period)
			require.NoError(t, err)
			require.Equal(t, free, left)
			left, err = operator.BreakLock(t.Context(), "leader", 60*time.Second)
			require.NoError(t, err, "again")
			require.Equal(t, free, left)

			broken := time.Now()
			got := lock(t, operator, &azstore.LockOptions{Poll: 10 * time.Millisecond})
			require.GreaterOrEqual(t, time.Since(broken), free)
			require.Less(t, time.Since(broken), free+20*time.Millisecond)
			<-l.Context().Done()
			require.LessOrEqual(t, time.Since(broken), max(free, 4*time.Second)+20*time.Millisecond)
			require.ErrorIs(t, l.Release(), azstore.ErrLockLost)
			require.NoError(t, got.Release())
		})
	}
	s, server := newFake(t, nil, nil)
	_, err := s.BreakLock(t.Context(), "leader", 0)
	require.ErrorIs(t, err, azstore.ErrLeaseNotPresent, "there is not even a blob")
	requireFree(t, server)
	_, err = s.BreakLock(t.Context(), "leader", 0)
	require.ErrorIs(t, err, azstore.ErrLeaseNotPresent)
}
