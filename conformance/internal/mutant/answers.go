package mutant

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// giveTo stores answers of a commit in a run, if which selects the signal by its answer so far.
func (s *faulty) giveTo(run store.ID, answers []store.Answer, now time.Time, which func(r model.Row, a store.Answer, given bool) bool) {
	s.Tamper(run, func(r model.Row) {
		for _, a := range answers {
			if _, given := r.Answers[a.Signal]; which(r, a, given) {
				r.Answers[a.Signal] = store.GivenAnswer{Answer: a, At: now}
			}
		}
	})
}

func isUnread(r model.Row, id store.SignalID) bool {
	return slices.ContainsFunc(*r.Signals, func(s store.Signal) bool { return s.ID == id })
}

// dropsAnswers makes a run forget its answers with a transition.
func dropsAnswers(kind store.TransitionKind) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, kind) {
				s.Tamper(c.Lease.Run, func(r model.Row) { clear(r.Answers) })
			}
		})
	})
}

// eachAnswer changes each result of Answers.
func eachAnswer(do func(s *faulty, p *store.AnswersParams, i int, res *store.AnswerResult)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		answers := s.answers
		s.answers = func(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
			out, err := answers(ctx, p)
			for i := range out {
				do(s, &p, i, &out[i])
			}
			return out, err
		}
	})
}

// refusedAnswers stores the answers of commits that were refused or repeated.
func refusedAnswers(when func(res *store.CommitResult) bool) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			if err == nil && when(&res) {
				s.giveTo(c.Lease.Run, c.Answers, clock(p.Now), func(r model.Row, a store.Answer, given bool) bool { return true })
			}
			return res, err
		})
	})
}

// These mutants break P25, and what other promises say of answers.
var answerMutants = []Mutant{
	{"second-answer-wins", "P25", "a later answer replaces the first", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, _ *store.CommitResult) {
			s.giveTo(c.Lease.Run, c.Answers, now, func(_ model.Row, _ store.Answer, given bool) bool { return given })
		})
	})},
	{"answered-before-read", "P25", "an unread signal is answered", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, _ *store.CommitResult) {
			s.giveTo(c.Lease.Run, c.Answers, now, func(r model.Row, a store.Answer, given bool) bool { return !given && isUnread(r, a.Signal) })
		})
	})},
	{"answer-lost-with-a-transition", "P25", "an answer in the commit of a transition is not stored", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if c.Transition != nil && c.Transition.Kind != store.GiveBack {
				c.Answers = nil
			}
		})
	})},
	{"answer-only-with-its-signal", "P25", "an answer in a later commit than the one that consumes the signal is not stored", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Answers = slices.DeleteFunc(slices.Clone(c.Answers), func(a store.Answer) bool { return !slices.Contains(c.Consumed, a.Signal) })
		})
	})},
	{"answers-capped", "P25", "of the answers of a commit only the first thousand are stored", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.Answers = upTo(c.Answers, 1000) })
	})},
	{"asks-capped", "P25", "of the asks of a call only the first thousand are answered", eachAnswer(func(_ *faulty, _ *store.AnswersParams, i int, res *store.AnswerResult) {
		if i >= 1000 {
			res.Given = nil
		}
	})},
	{"continue-drops-answers", "P25", "a run that continues as new forgets its answers", dropsAnswers(store.Continue)},
	{"retry-drops-answers", "P25", "a retry forgets the run's answers", dropsAnswers(store.Retry)},
	{"end-drops-answers", "P25", "a run that completes forgets its answers", dropsAnswers(store.CompleteRun)},
	{"restart-drops-answers", "P25", "a restart forgets the run's answers", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, next func(context.Context, oneRestart) error) error {
			err := next(ctx, p)
			if err == nil {
				s.Tamper(p.ID, func(r model.Row) { clear(r.Answers) })
			}
			return err
		})
	})},
	{"answer-of-an-earlier-moment", "P25", "the status of a run is read after its answer", eachAnswer(func(s *faulty, p *store.AnswersParams, i int, res *store.AnswerResult) {
		roundTrip()
		if r, ok := s.row(p.Asks[i].Run); ok && res.Err == nil {
			res.Status = r.Status
		}
	})},
	{"answer-without-its-time", "P25", "the time of an answer is that of the call", eachAnswer(func(_ *faulty, _ *store.AnswersParams, _ int, res *store.AnswerResult) {
		if res.Given != nil {
			res.Given.At = clock(time.Time{})
		}
	})},
	{"import-forgets-answers", "P25", "an imported run has no answers", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			if p.Validate(s.Limits()) == nil {
				p.Record.Answers = nil
			}
			return imports(ctx, p)
		}
	})},
	{"sent-without-answers", "P25", "Sent leaves out the answers", wrap(func(s *faulty) {
		sent := s.sent
		s.sent = func(ctx context.Context, p store.SentParams) (store.SentPage, error) {
			page, err := sent(ctx, p)
			for i := range page.Signals {
				page.Signals[i].Given = nil
			}
			return page, err
		}
	})},
	{"answer-of-a-repeat", "P4", "a commit that is sent again with another answer replaces the first", refusedAnswers(func(res *store.CommitResult) bool { return res.Repeated })},
	{"answer-of-a-zombie", "P2", "an answer under a lost lease is stored", refusedAnswers(func(res *store.CommitResult) bool { return errors.Is(res.Err, store.ErrLeaseLost) })},
	{"answer-of-a-refused-commit", "P3", "a refused commit stores its answers", refusedAnswers(func(res *store.CommitResult) bool { return errors.Is(res.Err, store.ErrInvalid) })},
	{"answer-stored-when-too-large", "P12", "a commit that is refused as too large stores its answers", refusedAnswers(func(res *store.CommitResult) bool { return errors.Is(res.Err, store.ErrTooLarge) })},
	{"answer-nil-as-empty", "P12", "an output that is nil is read as empty", eachAnswer(func(_ *faulty, _ *store.AnswersParams, _ int, res *store.AnswerResult) {
		if res.Given != nil && res.Given.Output == nil && !res.Omitted {
			res.Given.Output = []byte{}
		}
	})},
	{"answer-without-details", "P12", "the details of an answer's failure are lost", eachAnswer(func(_ *faulty, _ *store.AnswersParams, _ int, res *store.AnswerResult) {
		if res.Given != nil && res.Given.Failure != nil {
			res.Given.Failure.Details = nil
		}
	})},
	{"answers-unbounded", "P12", "MaxBytes does not limit the answers", wrap(func(s *faulty) {
		answers := s.answers
		s.answers = func(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
			p.MaxBytes = min(p.MaxBytes, 0)
			return answers(ctx, p)
		}
	})},
	{"answers-of-every-namespace", "P15", "answers are read from any namespace", wrap(func(s *faulty) {
		answers := s.answers
		s.answers = func(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
			if len(p.Asks) > 0 {
				if r, ok := s.row(p.Asks[0].Run); ok {
					p.Namespace = r.Namespace
				}
			}
			return answers(ctx, p)
		}
	})},
	{"unknown-asks-are-pending", "P16", "a signal that its run has not received is told as not answered yet", eachAnswer(func(s *faulty, p *store.AnswersParams, i int, res *store.AnswerResult) {
		if r, ok := s.row(p.Asks[i].Run); ok && errors.Is(res.Err, store.ErrNotFound) {
			*res = store.AnswerResult{Status: r.Status}
		}
	})},
	{"no-hint-of-answers", "", "an answer is not hinted", wrap(func(s *faulty) { s.dropHints(store.HintAnswer) })},
	{"no-hint-of-the-last-answer", "", "the answer that a run gives with its end is not hinted", wrap(func(s *faulty) {
		unhinted(s, &s.commit, turns(store.CompleteRun), only(store.HintAnswer))
	})},
}
