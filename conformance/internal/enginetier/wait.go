package enginetier

import (
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

var waitEngineCases = []Case{
	{Name: "wait/purged", Promise: "P16", Rule: "A caller that waits for a run that is purged before its end was seen gets ErrNotFound within one poll.", Run: func(e *E) {
		wire := newWire(e.s)
		eng := engine.New(wire, engine.Namespace("engine"), engine.Logger(quiet), engine.Poll(50*time.Millisecond))
		defer eng.Close()
		id := store.NewID()
		res, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{{ID: id, Workflow: "wf", Queue: "wf"}}})
		e.ok("Create", err)
		e.ok("the create", res[0].Err)
		looked := make(chan struct{}, 1)
		wire.mu.Lock()
		wire.after = func(verb string) {
			if verb == "get" {
				select {
				case looked <- struct{}{}:
				default:
				}
			}
		}
		wire.mu.Unlock()
		waited := make(chan error, 1)
		go func() {
			_, err := eng.Wait(e.ctx, id)
			waited <- err
		}()
		receive(e, "the first look at the run", looked)
		// The run ends and is purged while the waiter receives nothing.
		wire.set(wireDown)
		receive(e, "the end of the calls that were under way", wire.silence())
		e.ok("cancel", e.eng.Cancel(e.ctx, id, ""))
		n, err := e.s.Purge(e.ctx, store.PurgeParams{Namespace: "engine"})
		e.ok("Purge", err)
		e.eq("runs purged", n, 1)
		wire.set(wireUp)
		err = receive(e, "the end of the wait for a run that is gone", waited)
		e.says("the error", err, store.ErrNotFound, id.String())
	}},
}
