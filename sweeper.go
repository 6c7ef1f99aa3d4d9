package blobtx

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SweeperOptions configures RunSweeper.
type SweeperOptions struct {
	// Every is the time between sweeps, with jitter of a quarter. Defaults to one minute.
	Every time.Duration
	// Batch is as in SweepOptions.
	Batch int
}

// RunSweeper sweeps until ctx is done and then returns nil, the batch in hand
// settled. Run it in every process of the service, in a goroutine of its own.
// Failures are logged and tried again; the only errors are ErrWrongStore and
// ErrNewerSchema, after which sweeping must not go on, and ErrInvalid options.
func (c *Coordinator) RunSweeper(ctx context.Context, opts *SweeperOptions) error {
	var o SweeperOptions
	if opts != nil {
		o = *opts
	}
	if err := c.made(); err != nil {
		return fmt.Errorf("blobtx: run sweeper: %w", err)
	}
	if o.Every < 0 || o.Batch < 0 {
		return fmt.Errorf("blobtx: run sweeper: a negative option: %w", ErrInvalid)
	}
	if o.Every == 0 {
		o.Every = time.Minute
	}
	for {
		err := c.rows.Check(ctx)
		var result SweepResult
		if err == nil {
			result, err = c.Sweep(ctx, &SweepOptions{Batch: o.Batch})
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrWrongStore), errors.Is(err, ErrNewerSchema):
			return fmt.Errorf("blobtx: run sweeper: %w", err)
		case err != nil:
			c.opts.Logger.Warn("blobtx: sweep ended early, it will be tried again", "error", err)
		case result != SweepResult{}:
			c.opts.Logger.Info("blobtx: swept", "result", result)
		}
		timer := time.NewTimer(c.random.around(o.Every))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
