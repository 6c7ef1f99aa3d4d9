package scenarios

import (
	"context"
	"errors"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/blobtxtest"
)

// restored: a replace and a sweeper, in a database that is put back to an
// earlier moment. What was sealed in the time that is lost is not deleted,
// whether its upload is held or claimed again, and a person is told of it.
func restored(how blobtxtest.Restore) blobtxtest.Scenario {
	var before blobtx.Object
	return blobtxtest.Scenario{
		Options: noGrace(),
		Setup:   old(&before),
		Actors: []blobtxtest.Actor{
			writer("replacer", "k", "new", &blobtx.PutOptions{IdempotencyKey: "request", If: blobtx.Always()}),
			sweeper("sweeper"),
		},
		Always: holds("k", "old", "new", ""),
		AtRest: func(_ context.Context, v *blobtxtest.View) error {
			if len(v.Objects) != 1 {
				return errors.New("the object is gone")
			}
			return nil
		},
		Held:    true,
		Restore: how,
	}
}
