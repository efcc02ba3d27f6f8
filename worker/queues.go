package worker

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// Bounds of [Queues]: each pair costs every claim a look.
const (
	maxQueues = 32
	maxPairs  = 1000
)

// Queues makes the worker serve further queues: it takes each of its workflows from each of
// them, besides the workflow's own queue. It is for runs that are put into another queue
// than their workflow's, by [engine.Queue], [workflow.ChildQueue], [workflow.ItemQueue] or
// a schedule: a queue of urgent runs, or of one tenant. A queue that no worker serves for a
// workflow keeps its runs until one does. For other pairs of queue and workflow, make two
// workers.
//
// Run fails if a name is not valid or comes twice, if there are more than 32 names, or more
// than 1,000 pairs of queue and workflow. Every claim looks at each pair, so that what an
// idle worker reads grows with their number.
func Queues(names ...string) Option {
	return func(w *Worker) { w.queues = append(w.queues, names...) }
}

// checkQueues says what is wrong with the further queues.
func (w *Worker) checkQueues() error {
	for i, name := range w.queues {
		if err := store.ValidateName("queue", name); err != nil {
			return err
		}
		if slices.Contains(w.queues[:i], name) {
			return store.Invalid("queues", fmt.Sprintf("worker.Queues names %q twice; name each queue once", name))
		}
	}
	if n := len(w.queues); n > maxQueues {
		return store.Invalid("queues", fmt.Sprintf("worker.Queues names %d queues, but a worker serves up to %d besides those of its workflows; divide them among several workers", n, maxQueues))
	}
	if n := len(w.queues) * len(w.defs); n > maxPairs {
		return store.Invalid("queues", fmt.Sprintf("%d workflows in %d queues each are %d pairs, but a worker serves up to %d; divide the queues or the workflows among several workers",
			len(w.defs), len(w.queues), n, maxPairs))
	}
	return nil
}

// queuesOf lists the queues that a workflow is taken from: its own first.
func (w *Worker) queuesOf(workflow string) []string {
	own := w.defs[workflow].Queue
	queues := []string{own}
	for _, q := range w.queues {
		if q != own {
			queues = append(queues, q)
		}
	}
	return queues
}

// takes lists the pairs that the worker serves: workflows by queue, sorted.
func (w *Worker) takes() map[string][]string {
	pairs := make(map[string][]string)
	for name := range w.defs {
		for _, q := range w.queuesOf(name) {
			pairs[q] = append(pairs[q], name)
		}
	}
	for _, names := range pairs {
		slices.Sort(names)
	}
	return pairs
}

// demands are what a claim asks for: a limit bounds a workflow over all of its queues.
func (w *Worker) demands() (list []demand) {
	pairs := w.takes()
	names, queues := w.served()
	for _, name := range names {
		if w.limits[name] > 0 {
			from := w.queuesOf(name)
			list = append(list, demand{store.Demand{Queue: from[0], MoreQueues: from[1:], Workflows: []string{name}}, true})
		}
	}
	for _, q := range queues {
		free := slices.DeleteFunc(pairs[q], func(name string) bool { return w.limits[name] > 0 })
		if len(free) > 0 {
			list = append(list, demand{Demand: store.Demand{Queue: q, Workflows: free}})
		}
	}
	return list
}
