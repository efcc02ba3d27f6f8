package mutant

import (
	"context"
	"errors"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// anyHint selects all hints.
func anyHint(store.Hint) bool { return true }

// only selects the hints of these kinds.
func only(kinds ...store.HintKind) func(store.Hint) bool {
	return func(h store.Hint) bool { return slices.Contains(kinds, h.Kind) }
}

// unhinted makes a method lose the hints that lost selects, in the calls that which selects.
func unhinted[P, R any](s *faulty, v *verb[P, R], which func(P) bool, lost func(store.Hint) bool) {
	call := *v
	*v = func(ctx context.Context, p P) (R, error) {
		if which(p) {
			defer s.Store.LoseHints(lost)()
		}
		return call(ctx, p)
	}
}

// always selects all calls.
func always[P any](P) bool { return true }

// turns selects commits that have a transition of a kind.
func turns(kind store.TransitionKind) func(store.CommitParams) bool {
	return func(p store.CommitParams) bool {
		return slices.ContainsFunc(p.Commits, func(c store.Commit) bool { return c.Transition != nil && c.Transition.Kind == kind })
	}
}

// unhintedCommit is a mutant whose commits with such a transition lose hints.
func unhintedCommit(name, fault string, kind store.TransitionKind, lost func(store.Hint) bool) Mutant {
	return Mutant{name, "", fault, wrap(func(s *faulty) { unhinted(s, &s.commit, turns(kind), lost) })}
}

// others selects the hints of runs other than those of the commits.
func (s *faulty) others(p store.CommitParams) func(store.Hint) bool {
	return func(h store.Hint) bool {
		return h.Kind == store.HintQueue || !slices.ContainsFunc(p.Commits, func(c store.Commit) bool { return c.Lease.Run == h.Run })
	}
}

// These mutants lose hints. Each row of the table at store.HintKind has one.
var hintMutants = []Mutant{
	{"no-hint-of-create", "", "a new run is not hinted", wrap(func(s *faulty) { unhinted(s, &s.create, always, anyHint) })},
	{"no-hint-of-a-start-signal", "", "a start with a signal does not hint at the run that it finds", wrap(func(s *faulty) {
		unhinted(s, &s.create, func(p store.CreateParams) bool {
			return slices.ContainsFunc(p.Runs, func(n store.NewRun) bool { return n.Signal != nil })
		}, only(store.HintEvent))
	})},
	{"no-hint-of-a-spawned-run", "", "a child that is spawned is not hinted", wrap(func(s *faulty) {
		unhinted(s, &s.commit, func(p store.CommitParams) bool {
			return slices.ContainsFunc(p.Commits, func(c store.Commit) bool { return len(c.Spawn) > 0 })
		}, only(store.HintQueue))
	})},
	{"no-hint-of-the-last-state", "", "the state that a run writes with its end is not hinted", wrap(func(s *faulty) {
		unhinted(s, &s.commit, turns(store.CompleteRun), only(store.HintState))
	})},
	unhintedCommit("no-hint-of-complete", "a run that completes is not hinted", store.CompleteRun, only(store.HintFinal)),
	unhintedCommit("no-hint-of-complete-under-limits", "a run under limits that completes does not hint at its queue", store.CompleteRun, only(store.HintQueue)),
	unhintedCommit("no-hint-of-fail", "a run that fails is not hinted", store.FailRun, only(store.HintFinal)),
	unhintedCommit("no-hint-of-cancel-run", "a run that its holder cancels is not hinted", store.CancelRun, only(store.HintFinal)),
	unhintedCommit("no-hint-of-a-sleep", "a sleep to a time is not hinted", store.Sleep, only(store.HintQueue)),
	unhintedCommit("no-hint-of-a-retry", "a plain failure that is to be retried is not hinted", store.Retry, anyHint),
	unhintedCommit("no-hint-of-a-release", "a run that is given back is not hinted", store.Release, anyHint),
	unhintedCommit("no-hint-of-continue", "a run that continues as new is not hinted", store.Continue, anyHint),
	{"no-hint-to-the-parent", "", "the end of a child hints of the child alone, not of the parent that it wakes", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			defer s.Store.LoseHints(s.others(p))()
			return commit(ctx, p)
		}
	})},
	{"no-hint-of-orphans", "", "the children that the end of their parent cancels are not hinted", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			if turns(store.CompleteRun)(p) {
				lost := s.others(p)
				defer s.Store.LoseHints(func(h store.Hint) bool { return h.Kind == store.HintFinal && lost(h) })()
			}
			return commit(ctx, p)
		}
	})},
	{"no-hint-of-a-signal", "", "a signal is not hinted", wrap(func(s *faulty) { unhinted(s, &s.signal, always, only(store.HintEvent)) })},
	{"no-hint-of-a-signal-s-queue", "", "a signal that wakes a run does not hint of its queue", wrap(func(s *faulty) {
		unhinted(s, &s.signal, always, only(store.HintQueue))
	})},
	{"no-hint-of-set-state", "", "state that is set from outside is not hinted", wrap(func(s *faulty) { unhinted(s, &s.setState, always, only(store.HintEvent)) })},
	{"no-hint-of-state-s-queue", "", "state that wakes a run does not hint of its queue", wrap(func(s *faulty) {
		unhinted(s, &s.setState, always, only(store.HintQueue))
	})},
	{"no-hint-of-cancel", "", "a run that is canceled at once is not hinted", wrap(func(s *faulty) { unhinted(s, &s.cancel, always, only(store.HintFinal)) })},
	{"no-hint-to-canceled-holders", "", "a cancel does not hint at those who are to clean up", wrap(func(s *faulty) {
		unhinted(s, &s.cancel, always, only(store.HintEvent))
	})},
	{"no-hint-of-a-canceled-queue", "", "a cancel does not hint of the queue in which a run is to be claimed", wrap(func(s *faulty) {
		unhinted(s, &s.cancel, always, only(store.HintQueue))
	})},
	{"no-hint-of-force", "", "the holder of a run that is ended by force is not told", wrap(func(s *faulty) {
		unhinted(s, &s.cancel, func(p store.CancelParams) bool { return p.Force }, only(store.HintEvent))
	})},
	{"no-hint-of-canceled-trees", "", "a cancel hints of the runs that it names alone", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			defer s.Store.LoseHints(func(h store.Hint) bool { return h.Kind != store.HintQueue && !slices.Contains(p.IDs, h.Run) })()
			return cancel(ctx, p)
		}
	})},
	{"no-hint-of-a-pause", "", "the holder of a run that is paused is not told", wrap(func(s *faulty) {
		unhinted(s, &s.pause, func(p store.PauseParams) bool { return !p.Resume }, anyHint)
	})},
	{"no-hint-of-a-resume", "", "a run that is resumed is not hinted", wrap(func(s *faulty) {
		unhinted(s, &s.pause, func(p store.PauseParams) bool { return p.Resume }, anyHint)
	})},
	{"no-hint-of-a-restart", "", "a run that is restarted is not hinted", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			defer s.Store.LoseHints(anyHint)()
			return restart(ctx, p)
		})
	})},
	{"no-hint-of-a-fork", "", "a fork is not hinted", wrap(func(s *faulty) { unhinted(s, &s.fork, always, anyHint) })},
	{"no-hint-of-a-fired-run", "", "the run that a schedule starts is not hinted", wrap(func(s *faulty) { unhinted(s, &s.fire, always, anyHint) })},
	{"no-hint-of-a-put-schedule", "", "a schedule that is put is not hinted, a worker that is asked is", wrap(func(s *faulty) { unhinted(s, &s.putSchedule, always, anyHint) })},
	{"no-hint-of-an-asked-worker", "", "a worker that is asked is not hinted, a schedule that is put is", wrap(func(s *faulty) { unhinted(s, &s.askWorkers, always, anyHint) })},
	unpauseUnhinted("no-hint-of-a-free-queue", "a queue that is free again is not hinted", func(p store.PauseTargetParams) bool { return p.Queue != "" }),
	unpauseUnhinted("no-hint-of-a-free-workflow", "a workflow that is free again is not hinted", func(p store.PauseTargetParams) bool { return p.Workflow != "" }),
	{"hints-of-a-closed-store", "P16", "a subscription to a closed store is a channel that is closed at once, and no error", wrap(func(s *faulty) {
		hints := s.hints
		s.hints = func(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
			ch, err := hints(ctx, topics...)
			if errors.Is(err, store.ErrUnavailable) {
				none := make(chan []store.Hint)
				close(none)
				return none, nil
			}
			return ch, err
		}
	})},
	{"hints-of-queues-alone", "", "queues are hinted, and nothing of runs is", wrap(func(s *faulty) {
		s.Store.LoseHints(only(store.HintEvent, store.HintFinal, store.HintState))
	})},
}

// unpauseUnhinted is a mutant whose PauseTarget loses the hints of the selected calls.
func unpauseUnhinted(name, fault string, which func(store.PauseTargetParams) bool) Mutant {
	return Mutant{name, "", fault, wrap(func(s *faulty) {
		set := s.pauseTarget
		s.pauseTarget = func(ctx context.Context, p store.PauseTargetParams) error {
			if which(p) {
				defer s.Store.LoseHints(anyHint)()
			}
			return set(ctx, p)
		}
	})}
}
