package scenarios

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
)

// Azure returns the scenarios that mean something in an Azure world only, and
// the faults that they need there.
func Azure() []Named {
	return []Named{
		{Name: "an upload in blocks against a sweeper", Quick: 1, Full: 2, Make: blocksAgainstSweeper},
		{Name: "one idempotency key, different bytes in blocks", Quick: 1, Full: 2, Make: blocksOfTwo},
		{Name: "a watched name is looked at again", Quick: 2, Full: 2, Make: watchedAgain},
	}
}

// blocksAgainstSweeper: blocks and their list land at any time, also after a
// sweeper has cleared the name.
func blocksAgainstSweeper() blobtxtest.Scenario {
	body := twoBlocks('a')
	return blobtxtest.Scenario{
		Actors: []blobtxtest.Actor{writer("writer", "k", body, nil), sweeper("sweeper")},
		Always: holds("k", body),
		AtRest: keeps,
	}
}

// blocksOfTwo: a retry by another process, with other bytes, stages its blocks
// under the same name. They never mix, and who is told that the object is stored
// has its own bytes there.
func blocksOfTwo() blobtxtest.Scenario {
	first, second := twoBlocks('a'), twoBlocks('b')
	store := func(name, body string) blobtxtest.Actor {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
		return actor(name, func(ctx context.Context, p *blobtxtest.Process) error {
			o, err := put(ctx, p, "k", body, &blobtx.PutOptions{IdempotencyKey: "request", SHA256: sum})
			if err == nil && o.Blob.SHA256 != sum {
				p.Errorf("the object that is said to be stored has other bytes")
			}
			return err
		})
	}
	return blobtxtest.Scenario{
		Passes: never,
		Actors: []blobtxtest.Actor{store("first", first), store("second", second)},
		Always: holds("k", first, second),
		AtRest: keeps,
	}
}

// twoBlocks is a body that goes up in two blocks: an Azure world's have 64 KiB.
func twoBlocks(c byte) string {
	return string(bytes.Repeat([]byte{c}, 64<<10+1))
}

// watchedAgain: an abandoned name whose quarantine is over is looked at by two
// sweepers. Nothing may be created under it any more, not even the empty blob
// by which staged blocks are cleared: it could land after the row is forgotten.
func watchedAgain() blobtxtest.Scenario {
	return blobtxtest.Scenario{
		Setup: func(ctx context.Context, p *blobtxtest.Process) error {
			up, err := p.Stage(ctx, "k", bytes.NewReader(nil), nil)
			up.Release()
			if err != nil {
				return err
			}
			time.Sleep(16 * time.Minute) // in the bubble
			if _, err := p.Sweep(ctx, nil); err != nil {
				return err
			}
			time.Sleep(24*time.Hour + time.Minute)
			return nil
		},
		Actors: []blobtxtest.Actor{sweeper("one"), sweeper("two")},
		Passes: []time.Duration{6 * time.Minute}, // a claim
	}
}
