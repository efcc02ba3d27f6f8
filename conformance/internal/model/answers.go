package model

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// answer stores the answers of a commit whose signals are consumed by now. The first answer to a
// signal stays (P25).
func (s *Store) answer(r *run, answers []store.Answer, now time.Time) {
	for _, a := range answers {
		unread := slices.ContainsFunc(r.signals, func(sig store.Signal) bool { return sig.ID == a.Signal })
		if _, given := r.answers[a.Signal]; given || unread || !r.had[a.Signal] {
			continue
		}
		r.give(store.GivenAnswer{Answer: a, At: now})
	}
	if len(answers) > 0 {
		s.hintRun(store.HintAnswer, r)
	}
}

func (r *run) give(a store.GivenAnswer) {
	if r.answers == nil {
		r.answers = map[store.SignalID]store.GivenAnswer{}
	}
	r.answers[a.Signal] = cloneAnswer(a)
}

func cloneAnswer(a store.GivenAnswer) store.GivenAnswer {
	a.Output, a.Failure, a.At = bytes.Clone(a.Output), cloneFailure(a.Failure), micro(a.At)
	return a
}

// given returns a copy of the answer to a signal, nil if there is none.
func (r *run) given(id store.SignalID) *store.GivenAnswer {
	a, ok := r.answers[id]
	if !ok {
		return nil
	}
	a = cloneAnswer(a)
	return &a
}

// Answers implements [store.Coordination].
func (s *Store) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := make([]store.AnswerResult, len(p.Asks))
	total, answered := 0, 0
	for i, ask := range p.Asks {
		r := s.find(p.Namespace, ask.Run)
		switch {
		case r == nil:
			out[i].Err = notFound(ask.Run)
			continue
		case !r.had[ask.Signal]:
			out[i].Err = fmt.Errorf("signal %s of run %s: %w", ask.Signal, ask.Run, store.ErrNotFound)
			continue
		}
		a := r.given(ask.Signal)
		out[i].Status, out[i].Given = r.Status, a
		if a == nil {
			continue
		}
		total += a.Size()
		if answered++; answered > 1 && p.MaxBytes > 0 && total > p.MaxBytes {
			out[i].Omitted, a.Output, a.Failure = true, nil, nil
		}
	}
	return out, nil
}
