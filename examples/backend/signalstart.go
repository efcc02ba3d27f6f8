package backend

import (
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// createSignaled creates a run with a signal, or delivers the signal to the run that holds the
// external id.
func (t *tx) createSignaled(namespace string, n *store.NewRun) store.CreateResult {
	sig := n.SignalOf()
	met := func(r *storekit.Run, holds, had bool) store.CreateResult {
		res, deliver := n.Reaches(store.Found{ID: r.ID, Workflow: r.Workflow, Status: r.Status, Holds: holds, Had: had})
		if deliver {
			t.receive(r, &sig)
		}
		return res
	}
	if id, had := t.hadBefore(namespace, &sig); had {
		return met(t.run(namespace, id), false, true) // P4, also when that run has ended and another one holds the external id
	}
	if r := t.holder(namespace, n.ExternalID, n.Suffix); r != nil {
		return met(r, true, false) // P8
	}
	if r := t.anyRun(n.ID); r != nil {
		if r.Namespace != namespace {
			return store.CreateResult{Err: storekit.IDTaken(n.ID)}
		}
		return met(r, false, false)
	}
	r := storekit.New(namespace, n, t.now)
	t.insert(r)
	t.receive(r, &sig)
	return store.CreateResult{ID: r.ID, Created: true}
}

// receive puts a signal into the inbox of a run.
func (t *tx) receive(r *storekit.Run, n *store.NewSignal) {
	sig := r.Receive(n, t.now)
	t.save(r, false)
	t.write(inboxKey(r.ID, sig.Position), &sig)
	t.putSent(r.ID, sig.ID, sig.Position)
}
