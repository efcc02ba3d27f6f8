package store

import (
	"fmt"
	"time"
)

// Answer is what a run answers to a signal that it has consumed: an output or a failure. A signal
// that asks for an answer is like any other; who asks reads the answer with
// [Coordination.Answers].
type Answer struct {
	Signal  SignalID
	Output  []byte
	Failure *Failure // nil: the answer is Output
}

// GivenAnswer is an answer as it is stored.
type GivenAnswer struct {
	Answer
	At time.Time // when it was committed, by the store's clock
}

// Ask names a signal whose answer is wanted, by its run and its ID.
type Ask struct {
	Run    ID
	Signal SignalID
}

// AnswersParams is the input of [Coordination.Answers].
type AnswersParams struct {
	Namespace string
	Asks      []Ask
	// MaxBytes limits the outputs and failures together; 0: no limit.
	MaxBytes int
}

// AnswerResult is what is known of one signal's answer.
type AnswerResult struct {
	Status Status       // of the run, at the moment at which the answer was read
	Given  *GivenAnswer // nil: the signal is not answered
	// Omitted says that the signal is answered, and that Output and Failure were left out of Given
	// because of MaxBytes.
	Omitted bool
	Err     error
}

// Size returns how many bytes of payload an answer has.
func (a *Answer) Size() int { return len(a.Output) + a.Failure.size() }

func (a *Answer) validate(l Limits) error {
	name := fmt.Sprintf("answer to signal %v", a.Signal)
	switch {
	case a.Signal.IsZero():
		return Invalid("answer", "its signal id is zero")
	case a.Failure != nil && a.Output != nil:
		return Invalid(name, "it has an output and a failure; it can have one of them")
	}
	return first(size(name, len(a.Output), l.Payload), failureSize(name+": failure", a.Failure))
}

// validateAnswers checks the answers of a commit.
func (c *Commit) validateAnswers(l Limits) error {
	seen := make(map[SignalID]bool, len(c.Answers))
	for i := range c.Answers {
		a := &c.Answers[i]
		if err := a.validate(l); err != nil {
			return err
		}
		if seen[a.Signal] {
			return Invalid(fmt.Sprintf("answer to signal %v", a.Signal), "the commit has two")
		}
		seen[a.Signal] = true
	}
	return batch("answers", len(c.Answers))
}

// Validate checks the call.
func (p *AnswersParams) Validate() error {
	for _, a := range p.Asks {
		if a.Run.IsZero() || a.Signal.IsZero() {
			return Invalid("ask", "its run or its signal is zero")
		}
	}
	return first(ValidateName("namespace", p.Namespace), batch("asks", len(p.Asks)), maxBytes(p.MaxBytes))
}

// validateAnswers checks the answers of an imported run.
func (r *RunRecord) validateAnswers(l Limits) error {
	if len(r.Answers) == 0 {
		return nil
	}
	consumed := make(map[SignalID]bool, len(r.Consumed))
	for _, id := range r.Consumed {
		consumed[id] = true
	}
	for i := range r.Answers {
		a := &r.Answers[i]
		if err := a.validate(l); err != nil {
			return err
		}
		if !consumed[a.Signal] {
			return Invalid(fmt.Sprintf("answer to signal %v", a.Signal), "the signal is not consumed, or the answer occurs twice")
		}
		if a.At.IsZero() {
			return Invalid(fmt.Sprintf("answer to signal %v", a.Signal), "it has no time")
		}
		delete(consumed, a.Signal)
	}
	return nil
}

// Answered returns the answers of an imported run by their signals.
func (r *RunRecord) Answered() map[SignalID]*GivenAnswer {
	if len(r.Answers) == 0 {
		return nil
	}
	given := make(map[SignalID]*GivenAnswer, len(r.Answers))
	for i := range r.Answers {
		given[r.Answers[i].Signal] = &r.Answers[i]
	}
	return given
}
