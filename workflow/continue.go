package workflow

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
)

// ContinueAsNew makes the error by which a workflow's function begins its run anew,
// with another input, instead of ending it:
//
//	return 0, workflow.ContinueAsNew(ctx, next)
//
// The run keeps its id, external id, flow state, unread signals, deadline and
// whoever waits for it; its recorded steps are forgotten, so that a run which works
// for ever does not grow. Signals that could not be decoded, and were passed over, are gone
// then. Children go on, and are no longer known to it. The input
// must be of the type that the workflow takes, or the run fails. A run that is
// canceled or past its deadline by then ends instead.
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
		return Permanent(fmt.Errorf("workflow %q is to continue as new with a %T, and takes a %T", name, c.In, want))
	}
	data, err := codec.Marshal(in)
	if b.Invocation().CheckInStep(err) != nil {
		return Permanent(fmt.Errorf("the input with which workflow %q is to continue, a %T, cannot be encoded: %w", name, in, err))
	}
	if data == nil {
		data = []byte{}
	}
	return &exec.Continuation{In: c.In, Data: data}
}
