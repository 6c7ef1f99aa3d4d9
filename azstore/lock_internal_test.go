package azstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/azfake"
)

// A process was stopped for longer than the lock lasts, and runs again before
// its timers do: Err tells the truth all the same, and ends the context.
func TestErrDoesNotWaitForATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := azfake.New(nil).ContainerClient("bytes", nil)
		require.NoError(t, err)
		s, err := New(c, nil)
		require.NoError(t, err)
		l, err := s.Lock(t.Context(), "leader", nil)
		require.NoError(t, err)
		l.again(errors.New("an old failure"))
		l.renewed(time.Now())
		l.beat.Stop()
		l.dog.Stop()
		time.Sleep(defaultLockDuration - 1)
		require.NoError(t, l.Err())
		time.Sleep(time.Nanosecond)
		require.NoError(t, context.Cause(l.Context()), "no timer has run")
		require.ErrorIs(t, l.Err(), ErrLockLost)
		require.NotContains(t, l.Err().Error(), "an old failure")
		require.ErrorIs(t, context.Cause(l.Context()), ErrLockLost)
		require.ErrorIs(t, l.Release(), ErrLockLost)
	})
}
