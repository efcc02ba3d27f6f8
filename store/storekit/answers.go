package storekit

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Give returns an answer in the form in which it is stored. write is false if nothing is to be
// stored (P25): the signal is not consumed, or old, its stored answer, is not nil.
func Give(a *store.Answer, consumed bool, old *store.GivenAnswer, now time.Time) (given store.GivenAnswer, write bool) {
	if !consumed || old != nil {
		return given, false
	}
	return store.GivenAnswer{Answer: *a, At: now}, true
}

// Answers makes the results of [store.Coordination.Answers]. find returns the status of a run and
// the answer to a signal, nil if there is none. Its error is that of the item.
func Answers(p *store.AnswersParams, find func(store.Ask) (store.Status, *store.GivenAnswer, error)) []store.AnswerResult {
	out, bound := make([]store.AnswerResult, len(p.Asks)), FirstAndUpTo(p.MaxBytes)
	for i, ask := range p.Asks {
		status, given, err := find(ask)
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].Status, out[i].Given = status, given
		if given != nil && !bound.Take(len(given.Output)+FailureSize(given.Failure)) {
			out[i].Omitted, out[i].Given = true, &store.GivenAnswer{Answer: store.Answer{Signal: ask.Signal}, At: given.At}
		}
	}
	return out
}

// NotReceived is the error of [Answers] for a signal that its run has not received.
func NotReceived(a store.Ask) error {
	return fmt.Errorf("run %v has not received the signal %v: %w", a.Run, a.Signal, store.ErrNotFound)
}
