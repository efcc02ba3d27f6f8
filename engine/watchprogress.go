package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Bounds of a look at a tree.
const (
	treeScan     = 100_000                // runs with children that a look reads
	progressGap  = 200 * time.Millisecond // between two looks of a watch, whatever hints say
	progressCost = 10                     // times as long as a look took is the gap after it at least
	rateWindow   = time.Minute            // from which the rate of a watch is taken
	rateLeast    = 3 * time.Second        // that a watch must have seen for a rate of its own
)

// tree reads the counts of a run's descendants: of its children alone if the store cannot count trees.
func (e *Engine) tree(ctx context.Context, run store.ID) (tree store.Tree, err error) {
	reader, ok := e.store.(store.TreeReader)
	if ok && store.Able(e.store, store.Trees) {
		err = e.retry(ctx, func(ctx context.Context) (err error) {
			tree, err = reader.Tree(ctx, store.TreeParams{Namespace: e.namespace, Run: run, MaxScan: treeScan})
			return err
		})
		return tree, err
	}
	groups, err := e.groups(ctx, run)
	if err != nil {
		return tree, err
	}
	for i := range groups {
		tree.Count(1, groups[i].Counts())
	}
	tree.Capped = len(tree.Levels) > 0
	err = e.retry(ctx, func(ctx context.Context) error {
		runs, err := e.store.Get(ctx, store.GetParams{Namespace: e.namespace, IDs: []store.ID{run}, NoInput: true})
		if err == nil && len(runs) == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		tree.Status, tree.StartedAt, tree.FinishedAt = runs[0].Status, runs[0].StartedAt, runs[0].FinishedAt
		tree.At, err = e.store.Clock(ctx)
		return err
	})
	return tree, err
}

func progressOf(run store.ID, t *store.Tree) Progress {
	return Progress{Run: run, Status: t.Status, At: t.At, TreeCounts: t.Sum(), Levels: t.Levels, Capped: t.Capped}
}

// averageRate is how many descendants have ended in a second since the run began, until now or until its end.
func averageRate(t *store.Tree) float64 {
	until := t.At
	if !t.FinishedAt.IsZero() {
		until = t.FinishedAt
	}
	sum := t.Sum()
	if t.StartedAt.IsZero() || !until.After(t.StartedAt) {
		return 0
	}
	return float64(sum.Ended()) / until.Sub(t.StartedAt).Seconds()
}

// estimate sets Left.
func (p *Progress) estimate() {
	p.Left = 0
	if p.Open == 0 || p.Rate <= 0 || p.Capped || p.Status.Final() {
		return
	}
	if left := float64(p.Open) / p.Rate * float64(time.Second); left < math.MaxInt64 {
		p.Left = time.Duration(left)
	}
}

// moment is how many descendants had ended at a time.
type moment struct {
	at    time.Time
	ended int64
}

// samples are what a watch has seen lately, oldest first.
type samples []moment

// rate adds what a look has seen, and returns how many descendants end in a second: those of the window, or
// the average since the run began if the watch has seen too little.
func (s *samples) rate(t *store.Tree) float64 {
	sum := t.Sum()
	ended := sum.Ended()
	if n := len(*s); n > 0 && ended < (*s)[n-1].ended {
		*s = nil // a child has left the tree, or the run continues as new
	}
	*s = append(*s, moment{t.At, ended})
	old := slices.IndexFunc(*s, func(x moment) bool { return t.At.Sub(x.at) <= rateWindow })
	*s = (*s)[max(0, old-1):] // one before the window, so that the whole of it counts
	if over := t.At.Sub((*s)[0].at); over >= rateLeast && !t.Status.Final() {
		return float64(ended-(*s)[0].ended) / over.Seconds()
	}
	return averageRate(t)
}

// WatchProgress returns how far a run's descendants are: first at present, then after each change of the counts or of the run's
// status. The sequence ends with the progress of the run when it is final, or with an error: store.ErrNotFound,
// store.ErrInvalid on a view inside a transaction, [ErrClosed] or the context's error. It has no Steps.
//
// Hints of the store wake it when runs end. It combines changes that come in quick succession: it reads the counts at most
// five times a second, and less often if reading them takes long, however many runs end. Without
// hints, and in case one is lost, it polls. While the store cannot be reached it waits.
func (e *Engine) WatchProgress(ctx context.Context, run store.ID) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		fail := func(err error) { yield(Progress{}, fmt.Errorf("progress of run %s: %w", run, err)) }
		switch {
		case e.fault != nil:
			fail(e.fault)
			return
		case e.root != nil:
			fail(store.Invalid("watching progress", "it is not possible inside a transaction; watch after the transaction has committed"))
			return
		}
		w := e.watches.add(anyRun)
		defer e.watches.remove(w)
		poll := e.newPoll()
		var last *Progress
		var seen samples
		for {
			begun := time.Now()
			tree, err := e.tree(ctx, run)
			switch {
			case err != nil && ctx.Err() == nil && (store.Retryable(err) || errors.Is(err, context.DeadlineExceeded)):
				e.log.Warn("failed to read the progress of a run; retrying", "run", run.String(), "error", err)
			case err != nil:
				fail(err)
				return
			default:
				p := progressOf(run, &tree)
				p.Rate = seen.rate(&tree)
				p.estimate()
				if last == nil || last.Status != p.Status || last.Capped != p.Capped || !slices.Equal(last.Levels, p.Levels) {
					poll.again()
					last = &p
					if !yield(p, nil) {
						return
					}
				}
				if p.Status.Final() {
					return
				}
			}
			if err := e.pauseWatch(ctx, w, max(progressGap, progressCost*time.Since(begun)), poll.next()); err != nil {
				fail(err)
				return
			}
		}
	}
}

// pauseWatch waits for news, but at least for gap, and at most for poll after it.
func (e *Engine) pauseWatch(ctx context.Context, w *watch, gap, poll time.Duration) error {
	timer := time.NewTimer(gap)
	defer timer.Stop()
	var news <-chan struct{}
	for {
		select {
		case <-timer.C:
			if news != nil {
				return nil
			}
			news = w.news
			timer.Reset(poll)
		case <-news:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-e.ctx.Done():
			return ErrClosed
		}
	}
}

// polls are the intervals at which a watch looks without news.
type polls struct{ least, most, now time.Duration }

func (e *Engine) newPoll() *polls {
	p := &polls{least: waitPollMin, most: waitPollMax}
	if store.Able(e.store, store.Hints) {
		p.least, p.most = hintedPollMin, hintedPollMax
	}
	if e.poll > 0 {
		p.least, p.most = min(p.least, e.poll), e.poll
	}
	p.now = p.least
	return p
}

// again begins with the shortest interval again.
func (p *polls) again() { p.now = p.least }

func (p *polls) next() time.Duration {
	d := p.now
	p.now = min(2*p.now, p.most)
	return d
}
