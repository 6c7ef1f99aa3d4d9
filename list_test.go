package blobtx_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
)

func TestGetOfNothingIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t, nil)
		_, err := w.Get(t.Context(), "k")
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.ErrorContains(t, err, `"k"`)
		up := w.stage("k", "x", nil)
		defer up.Release()
		_, err = w.Get(t.Context(), "k")
		require.ErrorIs(t, err, blobtx.ErrNotFound, "an upload is visible before its commit")
		_, err = w.Open(t.Context(), "k", nil)
		require.ErrorIs(t, err, blobtx.ErrNotFound)
		require.Empty(t, keys(t, w, nil))
	})
}

func keys(t *testing.T, w *world, opts *blobtx.ListOptions) []string {
	t.Helper()
	var got []string
	for o, err := range w.List(t.Context(), opts) {
		require.NoError(t, err)
		got = append(got, o.Key)
	}
	return got
}

func TestList(t *testing.T) {
	all := []string{"A", "a", "a/1", "a/2", "a/é", "b", "é", "日"} // byte order
	for promise, tt := range map[string]struct {
		opts *blobtx.ListOptions
		want []string
	}{
		"all, in byte order":              {nil, all},
		"zero options: all":               {&blobtx.ListOptions{}, all},
		"a prefix":                        {&blobtx.ListOptions{Prefix: "a/"}, all[2:5]},
		"a prefix is no directory":        {&blobtx.ListOptions{Prefix: "a"}, all[1:5]},
		"a prefix that is a key":          {&blobtx.ListOptions{Prefix: "a/1"}, all[2:3]},
		"a prefix that nothing has":       {&blobtx.ListOptions{Prefix: "zz"}, nil},
		"after a key, without it":         {&blobtx.ListOptions{After: "a/1"}, all[3:]},
		"after a key that is not there":   {&blobtx.ListOptions{After: "a/15"}, all[3:]},
		"after the last":                  {&blobtx.ListOptions{After: "日"}, nil},
		"a limit":                         {&blobtx.ListOptions{Limit: 3}, all[:3]},
		"a limit beyond the end":          {&blobtx.ListOptions{Limit: 99}, all},
		"a prefix, after, and a limit":    {&blobtx.ListOptions{Prefix: "a/", After: "a/1", Limit: 1}, all[3:4]},
		"after something past a prefix":   {&blobtx.ListOptions{Prefix: "a/", After: "b"}, nil},
		"after something before a prefix": {&blobtx.ListOptions{Prefix: "a/", After: "A"}, all[2:5]},
	} {
		inBubble(t, promise, func(t *testing.T) {
			w := plain(t, nil)
			for _, i := range []int{5, 0, 7, 3, 1, 6, 2, 4} {
				w.put(all[i], "x", nil)
			}
			require.Equal(t, tt.want, keys(t, w, tt.opts))
		})
	}
}

func TestListGoesOnFromPageToPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := tapped(t, nil)
		var want []string
		for i := range 450 {
			want = append(want, fmt.Sprintf("k%03d", i))
			w.put(want[i], "x", nil)
		}
		require.Equal(t, want, keys(t, w, nil))
		for _, limit := range []int{1, 199, 200, 201, 400, 449, 450, 451} {
			require.Equal(t, want[:min(limit, 450)], keys(t, w, &blobtx.ListOptions{Limit: limit}), "limit %d", limit)
		}

		p.steps()
		w.List(t.Context(), nil)(func(blobtx.Object, error) bool { return false })
		require.Equal(t, map[string]int{"list objects": 1}, p.steps(), "a loop that was left goes on")

		// The loop body may change what it sees, and holds nothing open.
		seen := 0
		for o, err := range w.List(t.Context(), nil) {
			require.NoError(t, err)
			require.NoError(t, w.Delete(t.Context(), o.Key, nil))
			seen++
		}
		require.Equal(t, 450, seen)
		require.Empty(t, keys(t, w, nil))
	})
}

func TestAnErrorEndsAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := tapped(t, nil)
		for i := range 250 {
			w.put(fmt.Sprintf("k%03d", i), "x", nil)
		}
		n := 0
		p.onBefore(func(_ context.Context, step string) error {
			if step == "list objects" {
				if n++; n == 2 {
					return errWire
				}
			}
			return nil
		})
		var errs []error
		good := 0
		for o, err := range w.List(t.Context(), nil) {
			if err == nil {
				good++
				continue
			}
			require.Equal(t, blobtx.Object{}, o)
			errs = append(errs, err)
		}
		require.Equal(t, 200, good)
		require.Len(t, errs, 1, "an error does not end the list")
		require.ErrorIs(t, errs[0], errWire)

		errs = nil
		for _, err := range w.List(t.Context(), &blobtx.ListOptions{Limit: -1}) {
			errs = append(errs, err)
		}
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], blobtx.ErrInvalid)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		errs = nil
		for _, err := range w.List(ctx, nil) {
			errs = append(errs, err)
		}
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], context.Canceled)
		require.True(t, slices.IsSorted(keys(t, w, nil)))
	})
}
