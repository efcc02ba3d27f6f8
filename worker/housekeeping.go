package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
)

// A worker at rest looks whether a schedule was put that no hint has told of: seldom
// where hints tell of all, often where none does; and after hints that tell no more than
// that something was written.
const (
	seldomLook = 5 * time.Minute
	oftenLook  = 10 * time.Second
	hintedLook = 15 * time.Second // for three of them
)

// tidyAgain is the least time between two passes of what has time.
const tidyAgain = time.Minute

// early is by how much this machine's clock may run ahead of the store's.
const early = 500 * time.Millisecond

// maxHold bounds how long the others wait for a worker that dies while it fires
// schedules. It is no longer than its leases.
const maxHold = 10 * time.Second

// housekeeping is the worker's part in what is done for the whole namespace.
type housekeeping struct {
	keeper bridge.Housekeeper
	look   chan struct{} // look at the schedules now
	soon   chan struct{} // look at them before long
	deaf   func()        // ends the subscription to the ends of runs; nil: there is none
}

func (w *Worker) newHousekeeping() housekeeping {
	return housekeeping{
		keeper: w.inside.Housekeeper(w.id, min(maxHold, w.leaseFor)),
		look:   make(chan struct{}, 1), soon: make(chan struct{}, 1),
	}
}

// scheduleLoop fires schedules when they are due.
//
// All workers of a namespace know when that is. The one that fired the last time comes
// first; the others come a moment later, find nothing left, and have written nothing.
func (w *Worker) scheduleLoop(ctx context.Context) {
	var (
		rest    = oftenLook
		due     time.Time    // a fire time
		looks   [3]time.Time // the latest ones that hints have caused
		later   <-chan time.Time
		backoff time.Duration
		second  bool // another worker has fired the last time
	)
	if w.store.Features().Hints {
		rest = seldomLook
	}
	rest = max(rest, w.poll)
	timer := time.NewTimer(atOnce)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.house.look:
		case <-w.house.soon:
			// They come with every write of another process, perhaps.
			if wait := hintedLook - time.Since(looks[0]); wait > 0 {
				if later == nil {
					later = time.After(wait)
				}
				continue
			}
			looks = [3]time.Time{looks[1], looks[2], time.Now()}
		case <-later:
			later, looks = nil, [3]time.Time{looks[1], looks[2], time.Now()}
		}
		pass, err := w.house.keeper.Fire(ctx)
		now := time.Now()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			backoff = min(max(2*backoff, 100*time.Millisecond), 10*time.Second)
			w.log.Error("failed to fire schedules; retrying", "in", backoff, "error", err)
			timer.Reset(backoff)
			continue
		}
		backoff = 0
		w.hearEnds(ctx, pass.Waiting > 0)
		switch {
		case pass.Fired+pass.Skipped > 0:
			second = false
		case pass.Elsewhere:
			second = true
		case !due.IsZero() && now.After(due) && pass.Waiting == 0 && (pass.Next.IsZero() || pass.Next.Sub(due) > early):
			second = true // it was done before this worker came
		}
		due = pass.Next
		wait := rest - rand.N(rest/10)
		for _, at := range []time.Time{pass.Next, pass.Again} {
			if !at.IsZero() {
				if second {
					at = at.Add(stagger())
				}
				wait = min(wait, time.Until(at))
			}
		}
		timer.Reset(max(wait, atOnce))
	}
}

// hearEnds subscribes to the ends of runs while schedules wait for some. Other workers need
// not hear of ends.
func (w *Worker) hearEnds(ctx context.Context, wanted bool) {
	h, ok := w.store.(store.Hinter)
	switch {
	case !ok, wanted == (w.house.deaf != nil):
		return
	case !wanted:
		w.house.deaf()
		w.house.deaf = nil
		return
	}
	ctx, w.house.deaf = context.WithCancel(ctx)
	go func() {
		hints, err := h.Hints(ctx, store.HintsOfRuns)
		if err != nil {
			return // hintLoop has warned
		}
		signal(w.house.look) // of an end before now there was no hint
		for batch := range hints {
			for _, hint := range batch {
				w.house.hinted(hint)
			}
		}
	}()
}

// stagger is by how much a worker comes later that leaves the first go to another.
func stagger() time.Duration { return 250*time.Millisecond + rand.N(time.Second) }

// tidyLoop does what has time: retention, and the registrations of dead workers.
func (w *Worker) tidyLoop(ctx context.Context) {
	wait := max(tidyAgain+rand.N(seldomLook), w.poll) // not all at once, and not a start's concern
	for sleep(ctx, wait) {
		wait = max(w.tidy(ctx), w.poll)
	}
}

// tidy does it once, and says how long to wait then.
func (w *Worker) tidy(ctx context.Context) time.Duration {
	pass, err := w.house.keeper.Tidy(ctx)
	wait := max(time.Until(pass.Next), tidyAgain)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.log.Error("housekeeping failed; retrying", "error", err)
	case pass.Purged > 0 || pass.Workers > 0:
		w.log.Info("housekeeping", "runs purged", pass.Purged, "dead workers removed", pass.Workers)
	}
	return wait
}

// nextPurge says when retention next deletes a run; zero: never, as things are. It is for a
// worker that has tidied and is about to leave.
func (w *Worker) nextPurge(ctx context.Context) time.Time {
	next, err := w.house.keeper.NextPurge(ctx)
	if err != nil && ctx.Err() == nil {
		w.log.Error("failed to read when retention next deletes a run; the program may be run again earlier than needed", "at", next, "error", err)
	}
	return next
}

// fireDue fires what is due now, for a worker that is about to leave; next: when there
// is something to fire again, zero: never.
func (w *Worker) fireDue(ctx context.Context) (fired bool, next time.Time, err error) {
	w.house.keeper.Ended(store.ID{}) // whatever a schedule has waited for may have ended here
	pass, err := w.house.keeper.Fire(ctx)
	next = pass.Next
	if pass.Elsewhere {
		next = earliest(next, pass.Again)
	}
	return pass.Fired > 0, next, err
}

// hinted tells the housekeeping what hints say.
func (h *housekeeping) hinted(hint store.Hint) {
	switch hint.Kind {
	case store.HintRescan:
		h.keeper.Ended(store.ID{})
		signal(h.soon)
	case store.HintFinal:
		if h.keeper.Ended(hint.Run) {
			signal(h.look)
		}
	}
}
