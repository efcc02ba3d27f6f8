package storetier

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/store"
)

// held says which request of which call waits until the other call has ended.
type held struct {
	faults.Store
	second bool // the second call waits, and the first comes between
	nth    int  // the number of the request, from 1
	met    bool // the call had that many requests
}

// handOver limits the wait for a call that runs between two requests of another. It only matters if
// that call waits for a lock of the other call: then the other call continues.
const handOver = 50 * time.Millisecond

// orders yields the rounds of a race of two calls. In the first rounds the calls run freely. If the
// transport can hold a request, each request of each of the two calls is then held once until the other
// call has ended, so that the schedule in which the other call runs between two statements certainly
// occurs.
func (c *C) orders() iter.Seq[int] {
	return func(yield func(int) bool) {
		round := 0
		for ; round < c.rounds(); round++ {
			if !yield(round) {
				return
			}
		}
		if c.h.simulated || c.h.Faults == nil {
			return
		}
		fs := c.h.Faults(c.host, c.s)
		if !slices.Contains(fs.Faults, faults.Delayed) {
			return
		}
		defer func() { c.held = nil }()
		for _, second := range []bool{false, true} {
			for nth := 1; nth <= maxRequests; nth++ {
				c.held = &held{Store: fs, second: second, nth: nth}
				if !yield(round) {
					return
				}
				if round++; !c.held.met {
					break
				}
			}
		}
	}
}

// between makes two calls, one of which comes between two requests of the other.
func (c *C) between(a, b func(s store.Store) error) {
	c.Helper()
	h, outer, inner := c.held, a, b
	if h.second {
		outer, inner = b, a
	}
	met, heal := h.Arm(faults.Delayed, h.nth)
	defer heal()
	ended, other := make(chan error, 1), make(chan error, 1)
	go func() { ended <- outer(h.Store.Store) }()
	var err error
	select {
	case err = <-ended: // it has fewer requests
		heal()
		other <- inner(c.s)
	case <-met:
		h.met = true
		go func() { other <- inner(c.s) }()
		bound := time.NewTimer(handOver)
		defer bound.Stop()
		select {
		case e := <-other:
			other <- e
		case <-bound.C: // it waits for a lock
		}
		heal()
		err = <-ended
	}
	if err = first(err, <-other); err != nil {
		c.Fatalf("%s: saw %s, expected no error", h, show(err))
	}
}

func (h *held) String() string {
	if h.second {
		return fmt.Sprintf("the first call before request %d of the second", h.nth)
	}
	return fmt.Sprintf("the second call before request %d of the first", h.nth)
}
