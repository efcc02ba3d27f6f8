package workflow

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
)

// ContinueAsNew returns an error. A workflow's function that returns it starts its run again, with
// another input, instead of ending it:
//
//	return 0, workflow.ContinueAsNew(ctx, next)
//
// The run keeps its ID, external id, flow state, unread signals and deadline, and calls that wait
// for it continue to wait. Its recorded steps are deleted, so that a run that works forever does
// not grow. Signals that could not be decoded, and were passed over, are then gone. Children
// continue, and are no longer connected to the run. The input must be of the type that the workflow
// takes, or the run fails. A run that is canceled or past its deadline by then ends instead.
func ContinueAsNew[In any](_ Context, in In) error { return &exec.Continuation{In: in} }

// continueWith encodes the input of an error of ContinueAsNew; others stay.
func continueWith[In any](b *exec.Branch, name string, codec engine.Codec, err error) error {
	var c *exec.Continuation
	if !errors.As(err, &c) {
		return err
	}
	in, ok := c.In.(In)
	if !ok {
		var want In
		return Permanent(fmt.Errorf("workflow %q continues as new with a %T, but takes a %T", name, c.In, want))
	}
	data, err := codec.Marshal(in)
	if b.Invocation().CheckInStep(err) != nil {
		return Permanent(fmt.Errorf("the new input of workflow %q, a %T, cannot be encoded: %w", name, in, err))
	}
	if data == nil {
		data = []byte{}
	}
	return &exec.Continuation{In: c.In, Data: data}
}
