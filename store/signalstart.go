package store

import "fmt"

// StartSignal is the signal of a start that reaches the active run of an external id or creates one:
// see [NewRun].Signal. Its ID says whether two requests are the same one.
type StartSignal struct {
	ID      SignalID
	Name    string
	Payload []byte
}

// Found is a run that is in the way of a start with a Signal: see [NewRun.Reaches].
type Found struct {
	ID       ID
	Workflow string
	Status   Status
	Holds    bool // it holds the external id and suffix of the start (see [Reuse])
	Had      bool // it holds them or has held them, and has received a signal of that ID
}

// Reaches returns the outcome of creating r, which has a Signal, when another run is in the way, and
// whether the signal is to be delivered to that run. Stores call it, so that all of them decide alike.
// Of several runs that are in the way, the first of these counts: one that had the signal (of several,
// the one that was created last), the holder of the external id, the run with the ID of r.
//
//   - A run of another workflow is ErrConflict.
//   - A run that had the signal is the result, also when it is final: the request was sent before.
//   - A holder that is final ([ReuseNever]) is ErrFinished.
//   - A run of the same ID that neither holds the external id nor had the signal is ErrAlreadyExists.
//   - Otherwise the run is the result, and the signal is delivered to it.
//
// The Digest is not compared: r's input is for the run that r may create, and the signal is for
// whichever run there is. The result's ID is always that of the run that was found.
func (r *NewRun) Reaches(f Found) (res CreateResult, deliver bool) {
	switch {
	case !f.Had && !f.Holds:
		return CreateResult{ID: f.ID, Err: fmt.Errorf("run id %s belongs to a run that does not hold external id %q: %w", f.ID, clip(r.ExternalID), ErrAlreadyExists)}, false
	case f.Workflow != r.Workflow:
		return CreateResult{ID: f.ID, Err: fmt.Errorf("external id %q belongs to run %s of workflow %q: %w", clip(r.ExternalID), f.ID, clip(f.Workflow), ErrConflict)}, false
	case !f.Had && f.Status.Final():
		return CreateResult{ID: f.ID, Err: fmt.Errorf("external id %q belongs to run %s, which is %v: %w", clip(r.ExternalID), f.ID, f.Status, ErrFinished)}, false
	}
	same := f.ID == r.ID
	return CreateResult{ID: f.ID, Created: same, Repeated: same}, !f.Had
}

// SignalOf returns the signal of a start as one that is sent to the external id; r has one.
func (r *NewRun) SignalOf() NewSignal {
	return NewSignal{ID: r.Signal.ID, ExternalID: r.ExternalID, Suffix: r.Suffix, Name: r.Signal.Name, Payload: r.Signal.Payload}
}

// validateSignal checks the signal of a start.
func (r *NewRun) validateSignal(l Limits) error {
	switch {
	case r.Signal == nil:
		return nil
	case r.ExternalID == "":
		return Invalid("signal", "a start with a signal needs an external id")
	case r.MustBeNew:
		return Invalid("signal", "a start with a signal may find a run, but the run must be new")
	case r.Worker != "":
		return Invalid("worker", "a run with a signal cannot be leased at its creation")
	}
	s := r.SignalOf()
	return s.Validate(l)
}
