package workflow

import (
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Case is what [Select] waits for: a [Signal.Into] or a [Timer].
type Case struct {
	on   exec.SelectCase
	err  error
	take func(codec exec.Codec, payload []byte) error // nil: a timer
}

// Into returns the case that a signal of this kind arrives. Its payload is stored in v.
func (s Signal[T]) Into(v *T) Case {
	c := Case{on: exec.SelectCase{Signal: s.name}, err: store.ValidateName("signal name", s.name)}
	if v == nil {
		c.err = store.Invalid("signal "+s.name, "the variable for its payload is nil")
	}
	c.take = func(codec exec.Codec, payload []byte) error {
		var got T
		if err := s.decode(codec, payload, &got); err != nil {
			return err
		}
		*v = got
		return nil
	}
	return c
}

// Timer returns the case that d has passed, counted from the first time that the run reaches the
// [Select]. A negative d means 0.
func Timer(d time.Duration) Case { return Case{on: exec.SelectCase{After: max(d, 0)}} }

// Select waits for the first of several signals and timers and returns its index among the
// cases.
//
//	var yes Approval
//	var no Rejection
//	chosen, err := workflow.Select(ctx, "decision", approved.Into(&yes), rejected.Into(&no), workflow.Timer(24*time.Hour))
//
// A signal that has arrived takes precedence over a timer that is due. If several signals have arrived, that of the
// first case is taken, and the others stay unread. The choice is recorded under the name, with the signal's payload, in
// the commit that takes the signal. The run sleeps meanwhile, as with [Signal.Receive], and Select fails with
// [ErrCanceled] or [ErrDeadline]. A signal that cannot be decoded gives its index and a [*DecodeError], and is passed
// over as by [Signal.Receive]. With Timer(0), Select takes a signal that has already arrived and does not wait.
//
// While runs wait at a Select, cases for signals may be added at its end. Other changes of
// its cases do not fit what is recorded.
func Select(ctx Context, name string, cases ...Case) (chosen int, err error) {
	if len(cases) == 0 {
		return -1, store.Invalid("select "+name, "it has no case and would wait forever")
	}
	list := make([]exec.SelectCase, len(cases))
	for i, c := range cases {
		if c.err != nil {
			return -1, c.err
		}
		list[i] = c.on
	}
	chosen, err = ctx.branch.Select(name, list, func(chosen int, payload []byte) error { return cases[chosen].take(ctx.codec, payload) })
	return chosen, public(err)
}
