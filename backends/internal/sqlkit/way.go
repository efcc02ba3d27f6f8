package sqlkit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Way lets the store whose own write has announced work under limits claim first, because it knows of it
// first: of many workers that look when a permit ends, one finds a run, and the plans of the others are in
// its way.
type Way struct {
	own  chan struct{} // holds one token when this store's own writes have announced work
	pace atomic.Int64  // how long the last plan took, in nanoseconds
}

// Bounds of how long a claim gives way, and how often.
const (
	minWay  = time.Millisecond
	maxWay  = 50 * time.Millisecond
	MaxWays = 10
)

// NewWay returns the Way of a new store, whose first claim does not give way.
func NewWay() *Way {
	w := &Way{own: make(chan struct{}, 1)}
	w.own <- struct{}{}
	return w
}

// Announce is told of the hints of this store's own writes.
func (w *Way) Announce(hints ...store.Hint) {
	if !slices.ContainsFunc(hints, func(h store.Hint) bool { return h.Kind == store.HintQueue }) {
		return
	}
	select {
	case w.own <- struct{}{}:
	default:
	}
}

// Announced reports whether this store's own writes have announced work since the last call.
func (w *Way) Announced() bool {
	select {
	case <-w.own:
		return true
	default:
		return false
	}
}

// Planned is told how long a claim under limits took.
func (w *Way) Planned(took time.Duration) { w.pace.Store(int64(took)) }

// Known reports whether the store has claimed under limits.
func (w *Way) Known() bool { return w.pace.Load() > 0 }

// Give waits for longer than a claim of another store should take, by the last one here and by the time
// that a look took. It ends early, and returns true, if this store announces work itself.
func (w *Way) Give(ctx context.Context, look time.Duration) (announced bool) {
	wait := min(max(2*time.Duration(w.pace.Load()), 4*look, minWay), maxWay)
	timer := time.NewTimer(wait + rand.N(wait))
	defer timer.Stop()
	select {
	case <-w.own:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
