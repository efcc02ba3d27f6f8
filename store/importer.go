package store

import (
	"context"
	"fmt"
	"time"
)

// Importer is implemented by backends that can take over a run of another store as
// it is.
type Importer interface {
	// Import makes a run out of a record, with its ID, all or nothing. A run that is
	// not final becomes paused, whatever it was, so that no worker takes it up by
	// accident; resumed it is pending, and its replay finds what it waits for. It has
	// no lease, no Crashes, and its VisibleAt is the time of the import, or the recorded
	// one if that is later and the run waited for its start or a retry: [RunRecord.Waits].
	// Everything else is as recorded: a final run stays final, times and epochs stay, and
	// the ids of signals that were consumed are known.
	//
	// P4: a run of that ID in the namespace is taken for the same import sent again:
	// nothing changes and created is false. Case: import/repeat.
	//
	// ErrAlreadyExists when another namespace has the ID, or the run is to hold an
	// external id that another one holds (see [Reuse]); ErrInvalid; ErrTooLarge. Further cases: import/as-recorded,
	// import/open-run-is-paused, import/start-time, import/consumed-signals, import/taken,
	// import/refused, import/state-goes-on.
	Import(ctx context.Context, p ImportParams) (created bool, err error)
}

// ImportParams is the input of [Importer.Import].
type ImportParams struct {
	Namespace string
	Record    RunRecord
	Now       time.Time
}

// RunRecord is a run with all that belongs to it. The run's Namespace and Pausing do not
// count, nor does the Worker of one that is not final.
type RunRecord struct {
	Run      Run
	Steps    []Step
	State    []StateEntry
	Signals  []Signal   // unread, in the order of sending
	Consumed []SignalID // of the signals that were read
	Groups   []Group
}

// Waits reports whether the run waits for its start or a retry, by its VisibleAt. A paused
// run tells only that it never started or that an attempt has failed.
func (r *RunRecord) Waits() bool {
	return r.Run.Status == Pending || r.Run.Status == Paused && (r.Run.StartedAt.IsZero() || r.Run.Failure != nil)
}

// Validate checks the call against the sizes that a backend enforces.
func (p *ImportParams) Validate(l Limits) error {
	r := &p.Record.Run
	like := NewRun{ID: r.ID, Workflow: r.Workflow, Queue: r.Queue, Input: r.Input, Meta: r.Meta, Priority: r.Priority, ExternalID: r.ExternalID, Suffix: r.Suffix, Reuse: r.Reuse, Digest: r.Digest}
	if err := first(ValidateName("namespace", p.Namespace), like.validate(l), size("output", len(r.Output), l.Payload), failureSize("failure", r.Failure), optionalName("group", r.Group), optionalName("worker", r.Worker)); err != nil {
		return err
	}
	switch {
	case r.Status < Pending || r.Status > Canceled:
		return Invalid("status", fmt.Sprintf("%v is none", r.Status))
	case r.CreatedAt.IsZero():
		return Invalid("creation time", "the run has none")
	case r.Status.Final() == r.FinishedAt.IsZero():
		return Invalid("end time", fmt.Sprintf("a run that is final has one, and no other; this one is %v", r.Status))
	case r.Status == Failed && r.Failure == nil:
		return Invalid("failure", "a failed run needs its failure")
	case r.Status != Completed && r.Output != nil:
		return Invalid("output", fmt.Sprintf("only a completed run has one; this one is %v", r.Status))
	case r.Attempt < 1 || r.Crashes < 0 || r.Generation < 0 || r.Epoch < 0 || r.Events < 0 || r.Ordinal < 0:
		return Invalid("run", "one of its counts is below what is possible")
	case r.OnClose > CloseAbandon:
		return Invalid("close policy", "it is neither cancel nor abandon")
	case int64(len(p.Record.Signals)+len(p.Record.Consumed)) > r.Events:
		return Invalid("signals", fmt.Sprintf("there are %d, and the run has had %d events; each signal is one", len(p.Record.Signals)+len(p.Record.Consumed), r.Events))
	}
	keys, positions := make(map[StepKey]bool), make(map[int64]bool)
	for i := range p.Record.Steps {
		s := &p.Record.Steps[i]
		rec := StepRecord{StepKey: s.StepKey, Kind: s.Kind, Status: s.Status, Position: s.Position, Output: s.Output, Failure: s.Failure, Earlier: s.Earlier}
		switch err := rec.validate(l); {
		case err != nil:
			return err
		case keys[s.StepKey] || positions[s.Position]:
			return Invalid(fmt.Sprintf("step %q", clip(s.StepKey.String())), fmt.Sprintf("its key or its position %d is there twice", s.Position))
		case s.Index < 0 || s.Attempt < 0 || s.Epoch < 0:
			return Invalid(fmt.Sprintf("step %q", clip(s.StepKey.String())), "one of its counts is negative")
		case s.StartedAt.IsZero():
			return Invalid(fmt.Sprintf("step %q", clip(s.StepKey.String())), "it has no start time")
		}
		keys[s.StepKey], positions[s.Position] = true, true
	}
	names := make(map[string]bool)
	for _, e := range p.Record.State {
		name := fmt.Sprintf("state %q", clip(e.Key))
		switch err := first(ValidateName("state key", e.Key), size(name, len(e.Value), l.Payload)); {
		case err != nil:
			return err
		case names[e.Key]:
			return Invalid(name, "it is there twice")
		case e.Version < 1 || e.Version > r.Events:
			return Invalid(name, fmt.Sprintf("version %d is not between 1 and the run's %d events", e.Version, r.Events))
		}
		names[e.Key] = true
	}
	ids := make(map[SignalID]bool)
	for _, id := range p.Record.Consumed {
		if id.IsZero() || ids[id] {
			return Invalid("signal id", fmt.Sprintf("%q is zero or there twice", id.String()))
		}
		ids[id] = true
	}
	for _, s := range p.Record.Signals {
		switch err := first(ValidateName("signal name", s.Name), size("signal payload", len(s.Payload), l.Payload)); {
		case err != nil:
			return err
		case s.ID.IsZero() || ids[s.ID]:
			return Invalid("signal id", fmt.Sprintf("%q is zero or there twice", s.ID.String()))
		}
		ids[s.ID] = true
	}
	groups := make(map[string]bool)
	for _, g := range p.Record.Groups {
		if err := ValidateName("group", g.Name); err != nil {
			return err
		}
		if groups[g.Name] || g.Total < 0 || g.Open < 0 || g.Completed < 0 || g.Failed < 0 || g.Canceled < 0 {
			return Invalid(fmt.Sprintf("group %q", clip(g.Name)), "it is there twice, or one of its counts is negative")
		}
		groups[g.Name] = true
	}
	return nil
}

// Imported is the run as [Importer.Import] is to make it of the record. Its VisibleAt is
// the recorded one where that counts, and zero otherwise: of a run that is not final, the
// store takes the time of the import if that is later.
func (p *ImportParams) Imported() Run {
	r := p.Record.Run
	r.Namespace, r.Pausing = p.Namespace, false
	if !p.Record.Waits() {
		r.VisibleAt = time.Time{}
	}
	if !r.Status.Final() {
		r.Status, r.Crashes, r.Worker = Paused, 0, ""
	}
	return r
}
