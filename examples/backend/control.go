package backend

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Cancel implements [store.Runs].
func (s *Store) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	changes := func(r *storekit.Run) bool {
		return !r.Status.Final() && (p.Force || r.Status != store.Canceling)
	}
	return s.control(ctx, p.Validate(), call{p.Namespace, p.IDs, p.Now, p.Record, store.Canceled, changes}, func(t *tx, r *storekit.Run) {
		if !p.Force {
			t.cancel(r, p.Reason)
			return
		}
		r.Force(p.Reason, t.now)
		t.canceled(r)
	})
}

// cancel cancels a run and the children that follow it (P11).
func (t *tx) cancel(r *storekit.Run, reason string) {
	switch r.Cancel(reason, t.hasSteps(r.ID), t.now) {
	case storekit.BecameCanceling:
		t.save(r, false)
		t.closeChildren(r)
	case storekit.BecameCanceled:
		t.canceled(r)
	}
}

// canceled follows a cancel that was a run's end.
func (t *tx) canceled(r *storekit.Run) {
	t.ended = store.Tally(t.ended, r.Queue, r.Workflow, store.Canceled, 1)
	t.save(r, false)
	t.finished(r)
}

// Pause implements [store.Runs].
func (s *Store) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	changes := func(r *storekit.Run) bool {
		if p.Resume {
			return r.Status == store.Paused || r.Pausing
		}
		return r.Status == store.Pending || r.Status == store.Sleeping || r.Status == store.Running && !r.Pausing
	}
	return s.control(ctx, p.Validate(), call{p.Namespace, p.IDs, p.Now, p.Record, store.Paused, changes}, func(t *tx, r *storekit.Run) {
		if p.Resume {
			r.Unpause()
		} else {
			r.Pause()
		}
		t.save(r, false)
	})
}

// Unpin implements [store.Runs].
func (s *Store) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) ([]store.ControlResult, error) {
		out := make([]store.ControlResult, len(p.IDs))
		for i, id := range p.IDs {
			r := t.run(p.Namespace, id)
			if r == nil {
				out[i].Err = storekit.NotFound(id)
				continue
			}
			if out[i].Status = r.Status; r.Status.Final() {
				out[i].Err = storekit.Finished(r)
			} else if out[i].Err = r.Unpin(); out[i].Err == nil {
				t.save(r, false)
				t.record(p.Namespace, p.Record, i, true)
			}
		}
		return out, nil
	})
}

// call is what the calls on runs have in common. goal is the status that a run is brought to, and
// changes says whether the call changes a run.
type call struct {
	namespace string
	ids       []store.ID
	now       time.Time
	record    []store.Action
	goal      store.Status
	changes   func(*storekit.Run) bool
}

// control does something to each run that is not final. A final run is an error, except in
// the status that it would be brought to.
func (s *Store) control(ctx context.Context, invalid error, p call, do func(*tx, *storekit.Run)) ([]store.ControlResult, error) {
	return update(ctx, s, invalid, p.now, func(t *tx) ([]store.ControlResult, error) {
		changed := make([]bool, len(p.ids)) // by the call: an item may change the run of a later one
		for i, id := range p.ids {
			r := t.run(p.namespace, id)
			changed[i] = r != nil && p.changes(r)
		}
		out := make([]store.ControlResult, len(p.ids))
		for i, id := range p.ids {
			r := t.run(p.namespace, id)
			if r == nil {
				out[i].Err = storekit.NotFound(id)
				continue
			}
			switch {
			case !r.Status.Final():
				t.ended = nil
				do(t, r)
				out[i].Ended = t.ended
			case r.Status != p.goal:
				out[i].Err = storekit.Finished(r)
			}
			if out[i].Status = r.Status; out[i].Err == nil {
				t.record(p.namespace, p.record, i, changed[i])
			}
		}
		return out, nil
	})
}

// Restart implements [store.Runs].
func (s *Store) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) ([]store.ControlResult, error) {
		out := make([]store.ControlResult, len(p.IDs))
		for i, id := range p.IDs {
			r := t.run(p.Namespace, id)
			if r == nil {
				out[i].Err = storekit.NotFound(id)
				continue
			}
			if out[i].Err = t.restart(r); out[i].Err == nil {
				t.record(p.Namespace, p.Record, i, true)
			}
			out[i].Status = r.Status
		}
		return out, nil
	})
}

// restart restarts a run, or leaves it as it is and says why.
func (t *tx) restart(r *storekit.Run) error {
	var holder store.ID
	if r.ExternalID != "" {
		if h := t.holder(r.Namespace, r.ExternalID, r.Suffix); h != nil {
			holder = h.ID
		}
	}
	if err := r.Restart(holder, t.now); err != nil {
		return err
	}
	t.forgetSteps(r.ID)
	t.save(r, false)
	return nil
}
