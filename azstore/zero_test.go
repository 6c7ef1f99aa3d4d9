package azstore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/store"
)

// A Store that an error was ignored for, or that a struct was left with, says
// so; it does not crash the process in a place that tells nothing.
func TestAStoreThatNewDidNotMakeIsRefused(t *testing.T) {
	ctx := t.Context()
	for name, s := range map[string]*azstore.Store{"nil": nil, "zero": {}} {
		for what, do := range map[string]func() error{
			"create": func() error { _, err := s.Create(ctx, params("a", []byte("x"))); return err },
			"open": func() error {
				_, err := s.Open(ctx, store.OpenParams{Name: "a", ETag: `"1"`, Count: -1})
				return err
			},
			"stat":      func() error { _, err := s.Stat(ctx, store.StatParams{Name: "a"}); return err },
			"seal":      func() error { return s.Seal(ctx, "a", "1") },
			"delete":    func() error { return s.Delete(ctx, []store.DeleteBlob{{Name: "a", IntentID: "1"}})[0] },
			"probe":     func() error { return s.Probe(ctx) },
			"protect":   func() error { return s.ProtectContainer(ctx) },
			"unprotect": func() error { return s.UnprotectContainer(ctx) },
			"lock":      func() error { _, err := s.Lock(ctx, "a", nil); return err },
			"break":     func() error { _, err := s.BreakLock(ctx, "a", 0); return err },
			"list": func() error {
				for _, err := range s.List(ctx, store.ListBlobsParams{}) {
					return err
				}
				return nil
			},
		} {
			require.ErrorIs(t, do(), store.ErrInvalid, "%s: %s", name, what)
		}
	}
}

// Lock returns a nil Lock beside its error, and a deferred Release comes all the
// same.
func TestALockThatWasNotTakenIsNotHeld(t *testing.T) {
	for name, l := range map[string]*azstore.Lock{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, l.Release(), store.ErrInvalid)
			require.ErrorIs(t, l.Err(), store.ErrInvalid)
			require.ErrorIs(t, l.Context().Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(l.Context()), store.ErrInvalid)
		})
	}
}
