package store

import (
	"context"
	"time"
)

// Ranker is implemented by backends that can tell how many runs are to be claimed before
// another one. It is for people who wonder why a run does not start.
type Ranker interface {
	// Ahead counts the runs of the same queue and workflow that are due and come before
	// the run in the order of P7, up to MaxAhead; MaxAhead+1 stands for more. It is 0 for
	// a run that is not due, is paused or is final; whether the queue or the workflow is
	// paused does not matter. It reads hardly more entries of the index of claims than it
	// counts. ErrNotFound. Cases: claim/ahead, claim/ahead-is-capped.
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
