package blobtx_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/store"
)

func TestOneBadRowStallsNobody(t *testing.T) {
	inBubble(t, "the others of its batch are finished, and it backs off with jitter", func(t *testing.T) {
		w, p := tapped(t, nil)
		var names []string
		for i := range 20 {
			o := w.put(fmt.Sprint("retired", i), "x", nil)
			names = append(names, o.Blob.Name)
			require.NoError(t, w.Delete(t.Context(), o.Key, nil))
		}
		var lost []string
		for i := range 20 {
			up := w.stage(fmt.Sprint("lost", i), "x", nil)
			up.Release()
			lost = append(lost, up.Intent().BlobName)
		}
		time.Sleep(15 * time.Minute)
		down := func(_ context.Context, step string) error {
			if step == "delete blob "+names[7] || step == "delete blob "+lost[7] {
				return errors.New("503: throttled")
			}
			return nil
		}
		p.onBefore(down)
		result, err := w.Sweep(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, 19, result.Deleted)
		require.Equal(t, 19, result.Abandoned)
		require.Equal(t, 2, result.Failed)
		require.Len(t, w.blobs.Snapshot(), 2)

		lost[7] = "" // which is tried again at its own time
		// Each failure moves it further away: 30 s, doubled, at most an hour, a
		// quarter of jitter.
		want, jitter := 30*time.Second, false
		for attempt := 1; attempt <= 12; attempt++ {
			bad := slices.IndexFunc(w.rows.RetiredNames(), func(r store.Retired) bool { return r.BlobName == names[7] })
			require.GreaterOrEqual(t, bad, 0)
			retired := w.rows.RetiredNames()[bad]
			require.Equal(t, attempt, retired.Attempts)
			require.Contains(t, retired.LastError, "503")
			wait := time.Until(retired.DueAt)
			require.GreaterOrEqual(t, wait, want*3/4)
			require.LessOrEqual(t, wait, want*5/4)
			early := w.sweepWith(w.Coordinator, time.Second)
			require.Zero(t, early.Failed+early.Deleted, "tried again before its time")
			jitter = jitter || wait != want
			time.Sleep(wait)
			w.sweepWith(w.Coordinator, 0)
			want = min(2*want, time.Hour)
		}
		require.True(t, jitter)
		p.onBefore(nil)
		time.Sleep(2 * time.Hour)
		w.sweepWith(w.Coordinator, 0)
		require.Empty(t, w.blobs.Snapshot())
		w.atRest()
	})
	inBubble(t, "a blob store that is down for all loses nothing", func(t *testing.T) {
		w, p := tapped(t, &blobtx.Options{SealLater: true})
		w.put("k", "x", nil)
		w.put("k", "y", &blobtx.PutOptions{If: blobtx.Always()})
		w.lost("l")
		p.onBefore(func(_ context.Context, step string) error {
			switch step {
			case "delete blobs", "seal", "stat", "create blob", "open blob":
				return errWire
			}
			return nil
		})
		for range 20 {
			time.Sleep(10 * time.Minute)
			_, err := w.Sweep(t.Context(), nil)
			require.NoError(t, err)
		}
		require.Len(t, w.blobs.Snapshot(), 3)
		p.onBefore(nil)
		w.atRest()
	})
}

func (w *world) sweepWith(c *blobtx.Coordinator, ahead time.Duration) blobtx.SweepResult {
	w.t.Helper()
	time.Sleep(ahead)
	result, err := c.Sweep(w.t.Context(), nil)
	require.NoError(w.t, err)
	return result
}

// bounds notes the largest batch that any step was given.
type bounds struct {
	mu              sync.Mutex
	claims, claim   int
	deletes, settle int
}

func (b *bounds) note(what *int, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*what = max(*what, n)
}

type rowsBounded struct {
	store.RowStore
	b *bounds
}

func (r rowsBounded) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	c, err := r.RowStore.Claim(ctx, p)
	r.b.claims++
	r.b.note(&r.b.claim, max(len(c.Intents), len(c.Retired)))
	return c, err
}

func (r rowsBounded) SettleIntents(ctx context.Context, s []store.IntentSettlement) (int, error) {
	r.b.note(&r.b.settle, len(s))
	for i := range s[1:] {
		if s[i].ID >= s[i+1].ID {
			return 0, errors.New("settled out of the order of keys")
		}
	}
	return r.RowStore.SettleIntents(ctx, s)
}

func (r rowsBounded) SettleRetired(ctx context.Context, s []store.RetiredSettlement) (int, error) {
	for i := range s[1:] {
		if s[i].BlobName >= s[i+1].BlobName {
			return 0, errors.New("settled out of the order of names")
		}
	}
	return r.RowStore.SettleRetired(ctx, s)
}

type blobsBounded struct {
	store.BlobStore
	b *bounds
}

func (b blobsBounded) Delete(ctx context.Context, d []store.DeleteBlob) []error {
	b.b.note(&b.b.deletes, len(d))
	return b.BlobStore.Delete(ctx, d)
}

func TestMemoryIsBoundedByTheBatchNeverByTheBacklog(t *testing.T) {
	for batch, want := range map[int]int{10: 10, 0: 256} {
		inBubble(t, fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			w := plain(t, &blobtx.Options{SealLater: true})
			const due = 1000
			for i := range due {
				o := w.put(fmt.Sprint("r", i), "", nil)
				require.NoError(t, w.Delete(t.Context(), o.Key, nil))
				w.stage(fmt.Sprint("l", i), "", nil).Release()
			}
			time.Sleep(15 * time.Minute)
			b := &bounds{}
			c, err := blobtx.New(rowsBounded{w.rows, b}, blobsBounded{w.blobs, b}, nil)
			require.NoError(t, err)
			result, err := c.Sweep(t.Context(), &blobtx.SweepOptions{Batch: batch})
			require.NoError(t, err)
			require.Equal(t, blobtx.SweepResult{Abandoned: due, Sealed: due, Deleted: due}, result, "one sweep does all that was due when it began")
			require.Empty(t, w.blobs.Snapshot())
			require.LessOrEqual(t, b.claim, want)
			require.LessOrEqual(t, b.deletes, want)
			require.LessOrEqual(t, b.settle, want)
			require.LessOrEqual(t, b.claims, 2*due/want+3)
		})
	}
}

func TestASweepDoesWhatWasDueWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := tapped(t, nil)
		for i := range 3 {
			w.stage(fmt.Sprint("due", i), "x", nil).Release()
		}
		time.Sleep(time.Minute)
		later := w.stage("later", "x", nil)
		later.Release()
		time.Sleep(14 * time.Minute)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "delete blobs" {
				time.Sleep(2 * time.Minute) // after the first batch the other is due
			}
			return nil
		})
		result, err := w.Sweep(t.Context(), &blobtx.SweepOptions{Batch: 1})
		require.NoError(t, err)
		require.Equal(t, 3, result.Abandoned)
		require.Equal(t, store.Uploading, w.row(later.Intent().ID).State)
		w.atRest()
	})
}

func TestACancelledSweepSettlesTheBatchInHand(t *testing.T) {
	for name, sweep := range map[string]func(ctx context.Context, c *blobtx.Coordinator) error{
		"Sweep": func(ctx context.Context, c *blobtx.Coordinator) error {
			result, err := c.Sweep(ctx, &blobtx.SweepOptions{Batch: 10})
			if result.Abandoned != 10 {
				return fmt.Errorf("the result tells %d: %w", result.Abandoned, err)
			}
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("told %w", err)
			}
			return nil
		},
		"RunSweeper": func(ctx context.Context, c *blobtx.Coordinator) error {
			return c.RunSweeper(ctx, &blobtx.SweeperOptions{Batch: 10})
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, p := tapped(t, nil)
			for i := range 30 {
				w.stage(fmt.Sprint(i), "x", nil).Release()
			}
			time.Sleep(15 * time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			p.onBefore(func(_ context.Context, step string) error {
				if step == "delete blobs" {
					cancel()
				}
				return nil
			})
			require.NoError(t, sweep(ctx, w.Coordinator))
			watched, uploading := 0, 0
			for _, in := range w.rows.Intents() {
				if in.State == store.Uploading {
					uploading++
				} else if in.Watched {
					watched++
				}
			}
			require.Equal(t, 10, watched)
			require.Equal(t, 20, uploading, "another batch was claimed after the end")
			require.Len(t, w.blobs.Snapshot(), 20)
			w.atRest()
		})
	}
	inBubble(t, "one that is cancelled already claims nothing", func(t *testing.T) {
		w := plain(t, nil)
		in := w.lost("k")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.Sweep(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, w.RunSweeper(ctx, nil))
		require.Equal(t, store.Uploading, w.row(in.ID).State)
	})
}

func TestASweeperThatFailsInBetweenDoesNoHarm(t *testing.T) {
	for _, step := range []string{"claim", "settle intents", "settle retired", "forget"} {
		for kind, lose := range map[string]func(p *tap){
			"the request is lost": func(p *tap) { p.lose(step, 1) },
			"the reply is lost":   func(p *tap) { p.loseReply(step, 1) },
		} {
			inBubble(t, step+": "+kind, func(t *testing.T) {
				w, p := tapped(t, &blobtx.Options{SealLater: true})
				w.put("k", "x", nil)
				w.put("k", "y", &blobtx.PutOptions{If: blobtx.Always()})
				up := w.stage("l", "x", nil)
				up.Release()
				time.Sleep(20 * time.Minute)
				lose(p)
				_, err := w.Sweep(t.Context(), nil)
				require.ErrorIs(t, err, errWire)
				w.intact()
				w.atRest()
				require.Len(t, w.blobs.Snapshot(), 1)
				require.Empty(t, w.rows.Intents(), "something was held")
			})
		}
	}
	inBubble(t, "it sleeps for an hour with its claims", func(t *testing.T) {
		w, p := tapped(t, nil)
		for i := range 5 {
			w.put(fmt.Sprint(i), "old", nil)
			w.put(fmt.Sprint(i), "new", &blobtx.PutOptions{If: blobtx.Always()})
			w.stage(fmt.Sprint("l", i), "x", nil).Release()
		}
		time.Sleep(16 * time.Minute)
		p.onBefore(func(_ context.Context, step string) error {
			if step == "delete blobs" {
				p.onBefore(nil)
				time.Sleep(time.Hour)
			}
			return nil
		})
		wait := ends(func() error { _, err := w.Sweep(t.Context(), nil); return err })
		for range 10 {
			time.Sleep(5 * time.Minute)
			w.sweep()
			w.intact()
		}
		_, _ = wait()
		w.intact()
		w.atRest()
	})
	inBubble(t, "a blob store that answers for too few is not believed", func(t *testing.T) {
		w := plain(t, nil)
		o := w.put("k", "x", nil)
		require.NoError(t, w.Delete(t.Context(), "k", nil))
		in := w.lost("l")
		c, err := blobtx.New(w.rows, blobsSilent{w.blobs}, nil)
		require.NoError(t, err)
		result, err := c.Sweep(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, blobtx.SweepResult{Failed: 2}, result)
		require.Contains(t, w.blobs.Snapshot(), o.Blob.Name)
		require.Len(t, w.rows.RetiredNames(), 1)
		require.Equal(t, store.Abandoned, w.row(in.ID).State)
		w.atRest()
	})
}

type blobsSilent struct{ store.BlobStore }

func (blobsSilent) Delete(context.Context, []store.DeleteBlob) []error { return nil }

// Sixteen sweepers and four writers at once, every twentieth message lost: no
// row ever dangles, and in the end everything is in its place.
func TestSixteenSweepersAtOnceWithFaults(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			w, p := tapped(t, &blobtx.Options{SealLater: seed%2 == 0, ReadGrace: time.Duration(seed%3) * time.Minute})
			rnd := rand.New(rand.NewPCG(seed, 0))
			dice := make(chan int)
			go func() {
				for {
					select {
					case dice <- rnd.IntN(40):
					case <-t.Context().Done():
						return
					}
				}
			}()
			p.onBefore(func(context.Context, string) error {
				if <-dice == 0 {
					return errWire
				}
				return nil
			})
			p.onAfter(func(context.Context, string, error) error {
				if <-dice == 0 {
					return errWire
				}
				return nil
			})
			var wg sync.WaitGroup
			for range 16 {
				c := p.process(w, nil)
				wg.Go(func() {
					for range 30 {
						time.Sleep(5 * time.Minute)
						_, _ = c.Sweep(t.Context(), &blobtx.SweepOptions{Batch: 7})
					}
				})
			}
			for n := range 4 {
				wg.Go(func() {
					for i := range 60 {
						key := fmt.Sprint("k", (n+i)%5)
						switch i % 4 {
						case 0, 1:
							_, _ = w.Put(t.Context(), key, text(fmt.Sprint(n, i)), &blobtx.PutOptions{If: blobtx.Always()})
						case 2:
							if up, err := w.Stage(t.Context(), key, text("lost"), &blobtx.PutOptions{If: blobtx.Always()}); err == nil {
								up.Release()
							}
						case 3:
							_ = w.Delete(t.Context(), key, nil)
						}
						time.Sleep(2 * time.Minute)
					}
				})
			}
			for range 75 {
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				w.intact()
			}
			wg.Wait()
			p.onBefore(nil)
			p.onAfter(nil)
			w.atRest()
			for _, in := range w.rows.Intents() {
				t.Errorf("intent left in state %s: %s", in.State, in.LastError)
			}
		})
	}
}

func TestRunSweeper(t *testing.T) {
	inBubble(t, "sweeps at once and then about every minute, until the context ends: nil", func(t *testing.T) {
		w, p := tapped(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		require.NoError(t, w.RunSweeper(ctx, nil))
		require.Equal(t, time.Hour, time.Since(began))
		require.InDelta(t, 60, p.steps()["claim"], 20)
		w.nothing()
	})
	inBubble(t, "every so often as it was told", func(t *testing.T) {
		w, p := tapped(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		require.NoError(t, w.RunSweeper(ctx, &blobtx.SweeperOptions{Every: time.Second}))
		require.InDelta(t, 600, p.steps()["claim"], 50)
	})
	for _, fatal := range []error{blobtx.ErrWrongStore, blobtx.ErrNewerSchema} {
		for _, step := range []string{"check", "claim"} {
			inBubble(t, fmt.Sprintf("ends with %v from %s", fatal, step), func(t *testing.T) {
				w, p := tapped(t, nil)
				in := w.lost("k")
				p.onBefore(func(_ context.Context, s string) error {
					if s == step {
						return fmt.Errorf("as it says: %w", fatal)
					}
					return nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := w.RunSweeper(ctx, nil)
				require.ErrorIs(t, err, fatal)
				require.Zero(t, p.steps()["delete blobs"], "deletions stop")
				require.Equal(t, store.Uploading, w.row(in.ID).State)
			})
		}
	}
	for _, step := range []string{"check", "forget", "claim", "settle intents", "delete blobs"} {
		inBubble(t, "goes on after failures of "+step, func(t *testing.T) {
			w, p := tapped(t, nil)
			w.lost("k")
			began := time.Now()
			p.onBefore(func(_ context.Context, s string) error {
				if s == step && time.Since(began) < 30*time.Minute {
					return errors.Join(errWire, store.ErrSetup)
				}
				return nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			require.NoError(t, w.RunSweeper(ctx, nil))
			require.Empty(t, w.blobs.Snapshot())
			w.atRest()
		})
	}
}
