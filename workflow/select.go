package workflow

import (
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Case is one of those for which [Select] waits: [Signal.Into] or [Timer].
type Case struct {
	on   exec.SelectCase
	err  error
	take func(codec exec.Codec, payload []byte) error // nil: a timer
}

// Into is the case that a signal of this kind comes; its payload is put into v.
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

// Timer is the case that d has passed, counted from the first time that the run comes
// to the [Select].
func Timer(d time.Duration) Case { return Case{on: exec.SelectCase{After: max(d, 0)}} }

// Select waits for the first of several signals and timers and returns its place
// among the cases, from 0.
//
//	var yes Approval
//	var no Rejection
//	chosen, err := workflow.Select(ctx, "decision", approved.Into(&yes), rejected.Into(&no), workflow.Timer(24*time.Hour))
//
// A signal that is there goes before a timer that is due, and of several signals that
// are there the first case's is taken; the others stay unread. What was chosen is
// recorded under the name, with the signal's payload, in the commit that takes the
// signal. The wait is one like [Signal.Receive]: the run sleeps meanwhile, and it fails
// with [ErrCanceled] or [ErrDeadline]. A signal that cannot be decoded gives its place and
// a [*DecodeError], and is passed over as by [Signal.Receive]. Timer(0) takes what is there already.
//
// While runs wait at a Select, signals may be added at its end. Other changes of its
// cases do not fit what is recorded.
func Select(ctx Context, name string, cases ...Case) (chosen int, err error) {
	if len(cases) == 0 {
		return -1, store.Invalid("select "+name, "it has no case and would wait for ever")
	}
	list := make([]exec.SelectCase, len(cases))
	for i, c := range cases {
		if c.err != nil {
			return -1, c.err
		}
		list[i] = c.on
	}
	return ctx.branch.Select(name, list, func(chosen int, payload []byte) error { return cases[chosen].take(ctx.codec, payload) })
}
