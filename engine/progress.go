package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// GeneratorStatus says how far a generator is. It is empty for steps that are no
// generators.
type GeneratorStatus string

// The statuses of a generator.
const (
	GeneratorStarted  GeneratorStatus = "started"  // it yields items
	GeneratorComplete GeneratorStatus = "complete" // it has come to the end of its stream
	GeneratorFailed   GeneratorStatus = "failed"   // it has failed for good, or was stopped by failures of its items
)

// Progress is how far a run's descendants are: its children, their children, and so on. Detached children are left
// out, and so are those that a fork's original has spawned. A child that was restarted leaves the counts together with its
// descendants; its end stays counted (see [store.TreeReader]). Children that are still to be spawned are not in the counts.
type Progress struct {
	Run    store.ID
	Status store.Status // of the run
	At     time.Time    // when it was so, by the store's clock
	// The counts of all levels together.
	store.TreeCounts
	// Levels has the counts of the children, of their children, and so on. It is empty if the run has none.
	Levels []store.TreeCounts
	// Capped says that the counts are lower bounds: more than 100,000 descendants have children themselves, or the
	// store cannot count trees and only the children are counted.
	Capped bool
	// Rate is how many descendants end in a second. Of [Engine.Progress] it is the average since the run was first
	// claimed, until now or until its end. Of [Engine.WatchProgress] it is that of the last minute, as soon as
	// the watch has seen more than a few seconds.
	Rate float64
	// Left is an estimate of the time until all present descendants have ended: the open ones at the present rate. It is 0 if
	// none is open, or if it is unknown: the run is final, Capped is set, or none has ended.
	Left time.Duration
	// Steps are the steps that have children, in the order in which they were begun. [Engine.WatchProgress]
	// leaves them out.
	Steps []StepProgress
}

// StepProgress is the progress of a step with children: a child, a map or a generator.
type StepProgress struct {
	Step   store.StepKey
	Kind   store.StepKind
	Status store.StepStatus
	// Generator is where the generator is; empty for a step of another kind.
	Generator GeneratorStatus
	Spawned   int64 // children so far
	Completed int64
	Failed    int64
	Canceled  int64
	InFlight  int64 // not final
	// Cursor is where the generator would continue, as the codec has encoded it; nil if it has
	// none.
	Cursor []byte
}

// Progress returns how far a run's descendants are, and its steps that have children. It works while
// the run is active, whoever executes it, and afterwards. The store counts a tree by the groups of those
// runs in it that have children; it does not read the others. It fails with store.ErrNotFound.
func (e *Engine) Progress(ctx context.Context, run store.ID) (Progress, error) {
	steps, err := e.stepsWithChildren(ctx, run)
	if err != nil {
		return Progress{}, err
	}
	tree, err := e.tree(ctx, run)
	if err != nil {
		return Progress{}, fmt.Errorf("progress of run %s: %w", run, err)
	}
	p := progressOf(run, &tree)
	p.Rate = averageRate(&tree)
	p.Steps = steps
	p.estimate()
	return p, nil
}

func (e *Engine) stepsWithChildren(ctx context.Context, run store.ID) ([]StepProgress, error) {
	steps, err := e.Steps(ctx, run)
	if err != nil {
		return nil, err
	}
	// The counts are read last: they have every item that a record tells of.
	counts, err := e.groups(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("progress of run %s: %w", run, err)
	}
	groups := make(map[string]store.Group, len(counts))
	for _, g := range counts {
		groups[g.Name] = g
	}
	var list []StepProgress
	for i := range steps {
		s := &steps[i]
		p, ok := exec.ProgressOf(s)
		if !ok {
			continue
		}
		row := StepProgress{
			Step: s.StepKey, Kind: s.Kind, Status: s.Status, Generator: GeneratorStatus(p.Generator),
			Spawned: p.Spawned, Completed: p.Completed, Failed: p.Failed, Canceled: p.Canceled, Cursor: p.Cursor,
		}
		if g, ok := groups[p.Group]; ok && !s.Status.Final() {
			row.Spawned, row.Completed, row.Failed, row.Canceled, row.InFlight = g.Total, g.Completed, g.Failed, g.Canceled, g.Open
		}
		list = append(list, row)
	}
	return list, nil
}

// groups reads the counts of a run's children, in the order of their groups' names.
func (e *Engine) groups(ctx context.Context, run store.ID) (groups []store.Group, err error) {
	for last := ""; ; {
		var box store.Inbox
		err := e.retry(ctx, func(ctx context.Context) (err error) {
			box, err = e.store.Inbox(ctx, store.InboxParams{Namespace: e.namespace, Run: run, After: store.NoSignals, NoState: true, AfterGroup: last})
			return err
		})
		if err != nil {
			return nil, err
		}
		groups = append(groups, box.Groups...)
		if !box.MoreGroups {
			return groups, nil
		}
		last = groups[len(groups)-1].Name
	}
}

// Children iterates over the children of a step in the order of their places: the items of
// a map or of a generator, also while they are made. They come with their outputs and
// failures, and without their inputs. Detached children are not known, and children that
// retention has deleted are left out.
//
// It fails with store.ErrNotFound if there is no such run, or if the run has no such step
// of a kind that has children.
func (e *Engine) Children(ctx context.Context, run store.ID, step store.StepKey) iter.Seq2[store.Run, error] {
	return func(yield func(store.Run, error) bool) {
		steps, err := e.Steps(ctx, run)
		if err != nil {
			yield(store.Run{}, err)
			return
		}
		if step.Occurrence == 0 {
			step.Occurrence = 1
		}
		i := slices.IndexFunc(steps, func(s store.Step) bool { return s.StepKey == step })
		p, ok := exec.Progress{}, false
		if i >= 0 {
			p, ok = exec.ProgressOf(&steps[i])
		}
		if !ok {
			yield(store.Run{}, fmt.Errorf("children of step %s of run %s: %w", step, run, store.ErrNotFound))
			return
		}
		if p.Parent.IsZero() {
			p.Parent = run
		}
		read := func(p store.ChildrenParams) (page store.ChildPage, err error) {
			err = e.retry(ctx, func(ctx context.Context) (err error) {
				page, err = e.store.Children(ctx, p)
				return err
			})
			return page, err
		}
		err = exec.ChildPages(store.ChildrenParams{Namespace: e.namespace, Parent: p.Parent, Group: p.Group}, read, func(child *store.Run) bool {
			return yield(*child, nil)
		})
		if err != nil {
			yield(store.Run{}, fmt.Errorf("children of step %s of run %s: %w", step, run, err))
		}
	}
}
