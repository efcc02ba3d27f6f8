package backend

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Cancel implements [store.Runs].
func (s *Store) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	return s.control(ctx, p.Validate(), p.Namespace, p.IDs, p.Now, store.Canceled, func(t *tx, r *storekit.Run) {
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
	return s.control(ctx, p.Validate(), p.Namespace, p.IDs, p.Now, store.Paused, func(t *tx, r *storekit.Run) {
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
	return update(ctx, s, p.Validate(), noTime, func(t *tx) ([]store.ControlResult, error) {
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
			}
		}
		return out, nil
	})
}

// control does something to each run that is not final. A final run is an error, except in
// the status that it would be brought to.
func (s *Store) control(ctx context.Context, invalid error, namespace string, ids []store.ID, now time.Time, goal store.Status, do func(*tx, *storekit.Run)) ([]store.ControlResult, error) {
	return update(ctx, s, invalid, now, func(t *tx) ([]store.ControlResult, error) {
		out := make([]store.ControlResult, len(ids))
		for i, id := range ids {
			r := t.run(namespace, id)
			if r == nil {
				out[i].Err = storekit.NotFound(id)
				continue
			}
			switch {
			case !r.Status.Final():
				t.ended = nil
				do(t, r)
				out[i].Ended = t.ended
			case r.Status != goal:
				out[i].Err = storekit.Finished(r)
			}
			out[i].Status = r.Status
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
			out[i].Err = t.restart(r)
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
