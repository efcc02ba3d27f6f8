package exec

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// ending is how an execution ends. First it is closed, after which no operation
// continues, and then finished, when its last commit is being sent.
//
// Its methods take no lock; the invocation's mutex guards it.
type ending struct {
	closed   bool
	reason   reason
	done     chan struct{}  // closed with closed
	failure  *store.Failure // of byFailure
	pin      *store.Pin     // of byMisfit
	at       string         // of byFailure and byMisfit: the operation at which the history does not fit
	aside    *store.Failure // of byRelease: why the lease is given back for a while
	result   *outcome       // of byReturn
	finished bool
	told     bool // the host knows that user code has ended
}

// outcome is what a workflow's function returned.
type outcome struct {
	output []byte
	err    error
}

// reason is why an invocation was closed.
type reason uint8

const (
	byReturn  reason = iota // the main function returned
	bySuspend               // everything waits
	byRelease               // the worker shuts down, or the run is to pause
	byFailure               // a panic, a history that does not fit the code of its own build
	byMisfit                // a history that does not fit, of another build
	byLoss                  // the lease is lost
)

// close closes the execution. The first reason counts, but for the loss of the lease:
// after it nothing can be committed any more. It reports whether this was the first.
func (e *ending) close(why reason) (first bool) {
	if e.closed {
		if why == byLoss {
			e.reason = why
		}
		return false
	}
	e.closed, e.reason = true, why
	close(e.done)
	return true
}

// lost reports whether the execution was closed because its lease is lost.
func (e *ending) lost() bool { return e.closed && e.reason == byLoss }

// over reports whether nothing is recorded any more.
func (e *ending) over() bool { return e.closed || e.finished }

// finish marks the execution as finished; false: it was.
func (e *ending) finish() (first bool) {
	first = !e.finished
	e.finished = true
	return first
}

// interruption is what ends a run's operations early while its code goes on.
type interruption struct {
	canceled bool
	expired  bool // its deadline has passed
}

func (i interruption) any() bool { return i.canceled || i.expired }

// err is the error of the operations that are interrupted.
func (i interruption) err() error {
	if i.canceled {
		return ErrCanceled
	}
	return ErrDeadline
}

// clock translates between this process's clock and the store's.
type clock struct {
	claimed  time.Time // when the claim was answered, by this process's clock
	answered time.Time // the store's clock in that answer
}

// now is the store's clock as this process can tell it.
func (c clock) now() time.Time { return c.answered.Add(time.Since(c.claimed)) }

// stored turns a time of this process's clock into one of the store's.
func (c clock) stored(t time.Time) time.Time { return c.answered.Add(t.Sub(c.claimed)) }

// local turns a time of the store's clock into one of this process's.
func (c clock) local(t time.Time) time.Time { return c.claimed.Add(t.Sub(c.answered)) }
