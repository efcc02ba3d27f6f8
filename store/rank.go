package store

import (
	"context"
	"time"
)

// Ranker is implemented by backends that can report how many runs will be claimed before another
// one. It is for people who wonder why a run does not start. Without it, they are not told.
type Ranker interface {
	// Ahead counts the runs of the same queue and workflow that are due, are not pinned or are
	// pinned to the same build as the run, and come before the run in the order of P7. It counts up
	// to MaxAhead; MaxAhead+1 means more. It is 0 for a run that is not due, is paused or is final;
	// whether the queue or the workflow is paused does not matter. It reads hardly more entries of
	// the index of claims than it counts (P18). It returns ErrNotFound if there is no such run.
	Ahead(ctx context.Context, p AheadParams) (int, error)
}

// MaxAhead is how many runs [Ranker.Ahead] counts.
const MaxAhead = 1000

// AheadParams is the input of [Ranker.Ahead].
type AheadParams struct {
	Namespace string
	Run       ID
	Now       time.Time
}

// Validate checks the call.
func (p *AheadParams) Validate() error { return ValidateName("namespace", p.Namespace) }
