package backend

import (
	"context"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// answer stores the answers of a commit, whose signals are consumed by now (P25).
func (t *tx) answer(r *storekit.Run, answers []store.Answer) {
	for i := range answers {
		a := &answers[i]
		position := t.get(hadKey(r.ID, a.Signal))
		consumed := position != nil && t.get(inboxKey(r.ID, storekit.LastNumber(position))) == nil
		if given, write := storekit.Give(a, consumed, t.given(r.ID, a.Signal), t.now); write {
			t.putAnswer(r.ID, given)
		}
	}
	if len(answers) > 0 {
		t.hints = append(t.hints, store.Hint{Kind: store.HintAnswer, Namespace: r.Namespace, Run: r.ID})
	}
}

func (t *tx) putAnswer(run store.ID, a store.GivenAnswer) {
	a.At = storekit.Micro(a.At)
	t.write(answerKey(run, a.Signal), &a)
}

// given returns the answer to a signal, nil if there is none.
func (t *tx) given(run, signal store.ID) *store.GivenAnswer {
	var a store.GivenAnswer
	if !t.load(answerKey(run, signal), &a) {
		return nil
	}
	return &a
}

// Answers implements [store.Coordination].
func (s *Store) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) ([]store.AnswerResult, error) {
		return storekit.Answers(&p, func(a store.Ask) (store.Status, *store.GivenAnswer, error) {
			r := t.run(p.Namespace, a.Run)
			if r == nil || t.get(hadKey(a.Run, a.Signal)) == nil {
				return 0, nil, storekit.NotReceived(a)
			}
			return r.Status, t.given(a.Run, a.Signal), nil
		}), nil
	})
}
