// Package blobtxtest explores a scenario through every order of steps and every
// crash point, on the real code, and checks what package blobtx promises.
//
// A scenario is a few actors, each one OS process with a Coordinator of its own
// over shared stores. Every call that an actor makes to a store is a step. The
// explorer runs the scenario once per schedule: who takes the next step,
// whether the request or its reply is lost, arrives late, or the process dies
// there, and when time passes. In exhaustive mode it takes every schedule with
// at most Limits.Faults faults, and prunes where it meets a state it has been
// in.
//
//	func TestUploadHandler(t *testing.T) {
//		blobtxtest.Explore(t, blobtxtest.Scenario{
//			Actors: []blobtxtest.Actor{
//				{Name: "client", Run: func(ctx context.Context, p *blobtxtest.Process) error {
//					o, err := p.Put(ctx, "k", strings.NewReader("hello"), nil)
//					if err != nil {
//						p.Refused("k", err)
//						return err
//					}
//					p.Acked("k", o)
//					return nil
//				}},
//				{Name: "sweeper", Run: func(ctx context.Context, p *blobtxtest.Process) error {
//					_, err := p.Sweep(ctx, nil)
//					return err
//				}},
//			},
//			Limits: blobtxtest.Limits{Faults: 1},
//		})
//	}
//
// A handler with tables of its own is explored in the world SQL, through its
// ServeHTTP for example; there every statement of the process's *sql.DB is a
// step. Find returns what Explore fails a test with.
//
// After every step it checks: no object without its bytes; bytes once readable
// under an object never change; a sealed blob disappears only if an object once
// gave it up; a conflict leaves no trace; what clients were told (Process.Acked,
// Process.Refused) is true, and stays true when a late request arrives. When
// everything has ended, deadlines pass, a sweeper runs, and the container must
// hold exactly what the objects name.
//
// Each execution runs inside a testing/synctest bubble: time is fake, and a
// scenario must not wait for anything outside the bubble (sockets, other
// tests' goroutines). It must be repeatable: no wall clock, no randomness but
// the Coordinator's, no map order, goroutines that talk to stores only by what
// the schedule decides. A failure prints a short trace; Limits.Trace replays it.
package blobtxtest
