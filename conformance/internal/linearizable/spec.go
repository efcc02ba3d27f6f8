package linearizable

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/pawlhq/pawl/store"
)

// spec is one run as a sequential store would store it. It contains the part of the contract that
// the clients of a history can see. It is comparable, and written independently of the model store.
type spec struct {
	status  store.Status // 0: not made
	epoch   int64
	holder  string // of the last lease
	leased  bool
	ended   bool // by its holder
	seq     int64
	visible int64 // in microseconds since began, and 1; 0: none
	events  int64
	attempt int
	crashes int
	wakes   bool
	steps   bool   // one was recorded and not forgotten
	unread  string // signals by number: "1,3,"
	had     string // those that ever came, in order of their numbers
}

// sequential is the specification in porcupine's form.
var sequential = porcupine.Model{
	Init: func() any { return spec{} },
	Step: func(state, in, out any) (bool, any) {
		s, call, got := state.(spec), in.(request), out.(answer)
		if call.verb == "signal" && got.err == "" && !call.permit(&s, call.id) {
			return false, s
		}
		want := s.apply(call)
		return got.unknown || got == want, s
	},
	DescribeOperation: func(in, out any) string { return describeCall(in.(request), out.(answer)) },
	DescribeState:     func(state any) string { return describeSpec(state) },
}

// expected returns the answer that a call would get now.
func expected(s spec, in request) answer { return s.apply(in) }

func failed(err error) answer { return answer{err: err.Error()} }

// apply makes the call and returns its answer.
func (s *spec) apply(in request) answer {
	now := in.now + 1
	switch in.verb {
	case "create":
		if s.status != 0 { // P4
			if s.leased && s.epoch == 1 && in.span > 0 && s.holder == in.worker {
				return answer{yes: true, epoch: 1}
			}
			return answer{yes: true}
		}
		*s = spec{status: store.Pending, visible: now, attempt: 1}
		if in.span > 0 {
			s.lease(in)
		}
		return answer{yes: true, epoch: s.epoch}
	case "claim":
		if s.visible == 0 || s.visible > now {
			return answer{} // P1, P13
		}
		s.lease(in)
		out := s.row()
		out.yes, out.signals, out.worker = s.crashes > 0, s.unread, ""
		return out
	case "commit":
		return s.commit(in)
	case "extend":
		if !s.leased || s.epoch != in.epoch || s.holder != in.worker {
			return answer{yes: true} // P2
		}
		s.visible = now + in.span
		return answer{canceled: s.status == store.Canceling, events: s.events}
	case "signal":
		switch id := fmt.Sprintf("%d,", in.id); {
		case s.status == 0:
			return failed(store.ErrNotFound)
		case slices.Contains(split(s.had), in.id):
		case s.status.Final():
			return failed(store.ErrFinished)
		default:
			s.unread += id
			s.had = joined(append(split(s.had), in.id))
			s.events++
			if s.status == store.Sleeping && s.wakes {
				s.wake(now)
			}
		}
		return answer{}
	case "cancel":
		switch {
		case s.status == 0:
			return failed(store.ErrNotFound)
		case s.status == store.Canceled, s.status == store.Canceling:
		case s.status.Final():
			return failed(store.ErrFinished)
		case s.leased:
			s.status = store.Canceling
			s.events++
		case s.steps: // P11: it is claimed once more
			s.status, s.wakes = store.Canceling, false
			s.events++
			s.wake(now)
		default:
			s.finish(store.Canceled)
		}
		return answer{status: s.status}
	case "get":
		if s.status == 0 {
			return answer{}
		}
		return s.row()
	}
	panic("conformance: no such verb: " + in.verb)
}

func (s *spec) lease(in request) {
	if s.leased {
		s.crashes++ // P6
	}
	if s.status != store.Canceling {
		s.status = store.Running
	}
	s.epoch++
	s.holder, s.leased, s.seq, s.wakes = in.worker, true, 0, false
	s.visible = in.now + 1 + in.span
}

func (s *spec) commit(in request) answer {
	if s.status == 0 || s.epoch != in.epoch || s.holder != in.worker || !s.leased && in.seq > s.seq {
		return failed(store.ErrLeaseLost) // P2
	}
	if in.seq <= s.seq { // P4
		out := s.committed()
		out.yes = true
		return out
	}
	if in.seq > s.seq+1 {
		return failed(store.ErrLeaseLost)
	}
	now := in.now + 1
	s.seq, s.crashes, s.steps = in.seq, in.crashes, s.steps || in.step
	consumed := split(in.consumed)
	s.unread = joined(slices.DeleteFunc(split(s.unread), func(n int) bool { return slices.Contains(consumed, n) }))
	if in.end == 0 {
		return s.committed()
	}
	if in.end == store.CompleteRun {
		s.finish(store.Completed)
		s.ended = true
		return s.committed()
	}
	s.leased = false
	status := store.Pending
	s.visible = now
	if in.span > 0 {
		s.visible = now + in.span
	}
	switch in.end {
	case store.Retry:
		s.attempt++
	case store.Sleep:
		status, s.wakes = store.Sleeping, in.wakes
		if in.span == 0 {
			s.visible = 0
		}
		if s.events > in.seen { // P5
			s.wake(now)
		}
	}
	if s.status == store.Canceling {
		if s.wakes = false; in.end != store.Release {
			s.visible = now
		}
	} else {
		s.status = status
	}
	return s.committed()
}

func (s *spec) wake(now int64) {
	if s.visible == 0 || s.visible > now {
		s.visible = now
	}
}

func (s *spec) finish(status store.Status) {
	s.status, s.leased, s.visible, s.wakes = status, false, 0, false
}

// committed returns the answer of a commit.
func (s *spec) committed() answer {
	out := answer{status: s.status, events: s.events}
	if !s.leased {
		out.visible = s.visible
	}
	return out
}

func (s *spec) row() answer {
	out := answer{status: s.status, epoch: s.epoch, events: s.events, visible: s.visible, attempt: s.attempt, crashes: s.crashes}
	if s.leased || s.ended {
		out.worker = s.holder
	}
	return out
}

func joined(list []int) string {
	var b strings.Builder
	for _, n := range list {
		fmt.Fprintf(&b, "%d,", n)
	}
	return b.String()
}

func describeSpec(state any) string {
	s := state.(spec)
	if s.status == 0 {
		return "not made"
	}
	out := fmt.Sprintf("%v, epoch %d, %d events, visible %s, attempt %d, %d crashes", s.status, s.epoch, s.events, at(s.visible), s.attempt, s.crashes)
	if s.leased {
		out += fmt.Sprintf(", leased by %s, commits up to %d", s.holder, s.seq)
	}
	if s.unread != "" {
		out += ", unread " + s.unread
	}
	if s.steps {
		out += ", with steps"
	}
	return out
}

func at(visible int64) string {
	if visible == 0 {
		return "never"
	}
	return "at " + span(visible-1)
}

func span(us int64) string { return fmt.Sprintf("%gm", float64(us)/60e6) }

func describeCall(in request, out answer) string {
	text := fmt.Sprintf("at %s %s", span(in.now), in.verb)
	switch in.verb {
	case "create":
		if in.span > 0 {
			text += fmt.Sprintf(" leased by %s for %s", in.worker, span(in.span))
		}
	case "claim":
		text += fmt.Sprintf(" by %s for %s", in.worker, span(in.span))
	case "commit":
		text += fmt.Sprintf(" by %s, epoch %d, number %d, seen %d", in.worker, in.epoch, in.seq, in.seen)
		if in.consumed != "" {
			text += ", consumed " + in.consumed
		}
		if in.crashes > 0 {
			text += fmt.Sprintf(", keeps %d crashes", in.crashes)
		}
		if in.step {
			text += ", with a step"
		}
		if in.end != 0 {
			text += ", " + in.end.String()
		}
		if in.span > 0 {
			text += " for " + span(in.span)
		}
		if in.wakes {
			text += " or a signal"
		}
	case "extend":
		text += fmt.Sprintf(" by %s, epoch %d, for %s", in.worker, in.epoch, span(in.span))
	case "signal":
		text += fmt.Sprintf(" %d", in.id)
	}
	return text + ": " + describeAnswer(in, out)
}

func describeAnswer(in request, out answer) string {
	switch {
	case out.unknown:
		return "unknown"
	case out.err != "":
		return out.err
	}
	row := fmt.Sprintf("%v, epoch %d, %d events, visible %s, attempt %d, %d crashes", out.status, out.epoch, out.events, at(out.visible), out.attempt, out.crashes)
	switch in.verb {
	case "create":
		if out.epoch > 0 {
			return fmt.Sprintf("leased, epoch %d", out.epoch)
		}
		return "there"
	case "claim":
		switch {
		case out.epoch == 0:
			return "nothing"
		case out.yes:
			row += ", recovered"
		}
		return row + ", unread " + out.signals
	case "commit":
		text := fmt.Sprintf("%v, %d events, visible %s", out.status, out.events, at(out.visible))
		if out.yes {
			text += ", repeated"
		}
		return text
	case "extend":
		switch {
		case out.yes:
			return "lost"
		case out.canceled:
			return fmt.Sprintf("held, %d events, canceling", out.events)
		}
		return fmt.Sprintf("held, %d events", out.events)
	case "cancel":
		return out.status.String()
	case "get":
		if out.status == 0 {
			return "not there"
		}
		return row + ", held by " + out.worker
	}
	return "sent"
}
