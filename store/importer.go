package store

import (
	"context"
	"fmt"
	"time"
)

// Importer is implemented by backends that can import a run from another store unchanged. Without
// it, runs cannot be moved to the backend.
type Importer interface {
	// Import creates a run from a record, with the recorded ID, completely or not at all. A run
	// that is not final becomes paused, whatever its status was, so that no worker takes it by
	// accident. When it is resumed, it is pending, and its replay finds out what it waits for. It
	// has no lease, no Crashes, and its VisibleAt is the time of the import, or the recorded one if
	// that is later and the run waited for its start or a retry: [RunRecord.Waits]. Everything else
	// is as recorded: a final run stays final, times and epochs stay, and the ids of signals that
	// were consumed are known, with their answers. The items of its streams keep their positions.
	//
	// P4: if the namespace has a run of that ID, the import is taken for the same import sent
	// again: nothing changes and created is false. If an import and a create with one ID are
	// concurrent, one creates the run and the other finds it.
	//
	// P8: an imported run holds its external id as it did (see [Reuse]), and keeps its digest. P3:
	// a reader sees it with everything that belongs to it, or not at all. P17: state, signals,
	// restart and everything else work as in any other run.
	//
	// It returns ErrAlreadyExists if another namespace has the ID, or if the run would hold an
	// external id that another run holds; ErrInvalid for a record that cannot belong to a run; and
	// ErrTooLarge. If it returns an error, nothing is stored.
	Import(ctx context.Context, p ImportParams) (created bool, err error)
}

// ImportParams is the input of [Importer.Import].
type ImportParams struct {
	Namespace string
	Record    RunRecord
	Now       time.Time
}

// RunRecord is a run with everything that belongs to it. The run's Namespace and Pausing are
// ignored, as are StepUnder and the Worker of a run that is not final.
type RunRecord struct {
	Run      Run
	Steps    []Step
	State    []StateEntry
	Signals  []Signal      // unread, in the order of sending
	Consumed []SignalID    // the IDs of the signals that were read
	Answers  []GivenAnswer // to signals of Consumed, at most one to each
	Groups   []Group
	Streams  []StreamItem // in the order of their positions
}

// Waits reports whether the run waits for its start or a retry, so that its VisibleAt counts. For a
// paused run this is so if it never started or if an attempt has failed.
func (r *RunRecord) Waits() bool {
	return r.Run.Status == Pending || r.Run.Status == Paused && (r.Run.StartedAt.IsZero() || r.Run.Failure != nil)
}

// Validate checks the call against the limits of a backend.
func (p *ImportParams) Validate(l Limits) error {
	r := &p.Record
	if err := first(ValidateName("namespace", p.Namespace), r.validateRun(l)); err != nil {
		return err
	}
	for _, check := range []func(Limits) error{r.validateSteps, r.validateState, r.validateSignals, r.validateAnswers, r.validateStreams} {
		if err := check(l); err != nil {
			return err
		}
	}
	return r.validateGroups()
}

func (r *RunRecord) validateRun(l Limits) error {
	run := &r.Run
	like := NewRun{ID: run.ID, Workflow: run.Workflow, Queue: run.Queue, Input: run.Input, Meta: run.Meta, Priority: run.Priority, ExternalID: run.ExternalID, Suffix: run.Suffix, Reuse: run.Reuse, Digest: run.Digest, Under: run.Under, Tags: run.Tags}
	if err := first(like.validate(l), size("output", len(run.Output), l.Payload), failureSize("failure", run.Failure), optionalName("group", run.Group), optionalName("worker", run.Worker), optionalName("build", run.Build), run.Pin.check()); err != nil {
		return err
	}
	switch {
	case run.Status < Pending || run.Status > Canceled:
		return Invalid("status", fmt.Sprintf("unknown status %v", run.Status))
	case run.CreatedAt.IsZero():
		return Invalid("creation time", "the run has none")
	case run.Status.Final() == run.FinishedAt.IsZero():
		return Invalid("end time", fmt.Sprintf("a run has one if and only if it is final; this one is %v", run.Status))
	case run.Status == Failed && run.Failure == nil:
		return Invalid("failure", "a failed run needs a failure")
	case run.Status != Completed && run.Output != nil:
		return Invalid("output", fmt.Sprintf("only a completed run has one; this one is %v", run.Status))
	case run.Attempt < 1 || run.Crashes < 0 || run.Generation < 0 || run.Epoch < 0 || run.Events < 0 || run.Ordinal < 0:
		return Invalid("run", "its attempt is below 1, or its crashes, generation, epoch, events or ordinal is negative")
	case max(run.Attempt, run.Crashes, run.Generation) > maxCount:
		return Invalid("run", fmt.Sprintf("its attempt, crashes or generation is above %d", maxCount))
	case run.OnClose > CloseAbandon:
		return Invalid("close policy", "it is neither cancel nor abandon")
	case int64(len(r.Signals)+len(r.Consumed)) > run.Events:
		return Invalid("signals", fmt.Sprintf("there are %d, but the run has had only %d events; each signal is an event", len(r.Signals)+len(r.Consumed), run.Events))
	}
	return nil
}

func (r *RunRecord) validateSteps(l Limits) error {
	keys, positions := make(map[StepKey]bool), make(map[int64]bool)
	for i := range r.Steps {
		s := &r.Steps[i]
		rec := StepRecord{StepKey: s.StepKey, Kind: s.Kind, Status: s.Status, Position: s.Position, Index: s.Index, Attempt: s.Attempt, Output: s.Output, Failure: s.Failure, Earlier: s.Earlier}
		switch err := rec.validate(l); {
		case err != nil:
			return err
		case keys[s.StepKey] || positions[s.Position]:
			return Invalid(fmt.Sprintf("step %q", clip(s.StepKey.String())), fmt.Sprintf("its key or its position %d occurs twice", s.Position))
		case s.Epoch < 0:
			return Invalid(fmt.Sprintf("step %q", clip(s.StepKey.String())), "its epoch is negative")
		case s.StartedAt.IsZero():
			return Invalid(fmt.Sprintf("step %q", clip(s.StepKey.String())), "it has no start time")
		}
		keys[s.StepKey], positions[s.Position] = true, true
	}
	return nil
}

func (r *RunRecord) validateState(l Limits) error {
	names := make(map[string]bool)
	for _, e := range r.State {
		name := fmt.Sprintf("state %q", clip(e.Key))
		switch err := first(ValidateName("state key", e.Key), size(name, len(e.Value), l.Payload)); {
		case err != nil:
			return err
		case names[e.Key]:
			return Invalid(name, "it occurs twice")
		case e.Version < 1 || e.Version > r.Run.Events:
			return Invalid(name, fmt.Sprintf("version %d is not between 1 and the run's %d events", e.Version, r.Run.Events))
		}
		names[e.Key] = true
	}
	return nil
}

func (r *RunRecord) validateSignals(l Limits) error {
	ids := make(map[SignalID]bool)
	for _, id := range r.Consumed {
		if id.IsZero() || ids[id] {
			return Invalid("signal id", fmt.Sprintf("%q is zero or occurs twice", id.String()))
		}
		ids[id] = true
	}
	for _, s := range r.Signals {
		switch err := first(ValidateName("signal name", s.Name), size("signal payload", len(s.Payload), l.Payload)); {
		case err != nil:
			return err
		case s.ID.IsZero() || ids[s.ID]:
			return Invalid("signal id", fmt.Sprintf("%q is zero or occurs twice", s.ID.String()))
		}
		ids[s.ID] = true
	}
	return nil
}

func (r *RunRecord) validateGroups() error {
	groups := make(map[string]bool)
	for _, g := range r.Groups {
		if err := ValidateName("group", g.Name); err != nil {
			return err
		}
		if groups[g.Name] || g.Total < 0 || g.Open < 0 || g.Completed < 0 || g.Failed < 0 || g.Canceled < 0 {
			return Invalid(fmt.Sprintf("group %q", clip(g.Name)), "it occurs twice, or one of its counts is negative")
		}
		groups[g.Name] = true
	}
	return nil
}

// Imported returns the run that [Importer.Import] is to create from the record. Its VisibleAt is
// the recorded one if that counts, and otherwise zero. For a run that is not final, the store uses
// the time of the import if that is later.
func (p *ImportParams) Imported() Run {
	r := p.Record.Run
	r.Namespace, r.Pausing = p.Namespace, false
	r.Under, r.StepUnder, r.Tags = SortUses(r.Under), nil, r.Tags.Clone()
	if !p.Record.Waits() {
		r.VisibleAt = time.Time{}
	}
	if !r.Status.Final() {
		r.Status, r.Crashes, r.Worker = Paused, 0, ""
	}
	return r
}
