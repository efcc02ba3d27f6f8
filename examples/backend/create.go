package backend

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Create implements [store.Runs].
func (s *Store) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) ([]store.CreateResult, error) {
		out := make([]store.CreateResult, len(p.Runs))
		for i := range p.Runs {
			out[i] = t.create(p.Namespace, &p.Runs[i])
		}
		return out, nil
	})
}

func (t *tx) create(namespace string, n *store.NewRun) store.CreateResult {
	if err := n.Validate(t.limits); err != nil {
		return store.CreateResult{Err: err}
	}
	if n.Signal != nil {
		return t.createSignaled(namespace, n)
	}
	if r := t.anyRun(n.ID); r != nil {
		if r.Namespace != namespace {
			return store.CreateResult{Err: storekit.IDTaken(n.ID)}
		}
		res := n.Meets(r.ID, r.Workflow, r.Digest) // P4
		if res.Created && r.Leased() && r.Epoch == 1 && r.Worker == n.Worker {
			res.Lease, res.CreatedAt = r.LeaseOf(), r.CreatedAt
		}
		return res
	}
	if n.Debounce != "" {
		if id, found := t.debounce(namespace, n); found {
			return store.CreateResult{ID: id} // P28
		}
	}
	if n.ExternalID != "" {
		if r := t.holder(namespace, n.ExternalID, n.Suffix); r != nil {
			return n.Meets(r.ID, r.Workflow, r.Digest) // P8
		}
	}
	r := storekit.New(namespace, n, t.now)
	res := store.CreateResult{ID: r.ID, Created: true}
	if n.Worker != "" && len(n.Under) == 0 && !t.paused(namespace, storekit.Lane{Queue: n.Queue, Workflow: n.Workflow}) {
		res.Lease, res.CreatedAt = r.Lease(n.Worker, n.Build, n.LeaseFor, 0, t.now), t.now
	}
	t.insert(r)
	return res
}

// insert stores a new run with its payloads.
func (t *tx) insert(r *storekit.Run) {
	t.putPayload(r.ID, input, r.Input)
	t.putPayload(r.ID, output, r.Output)
	t.putPayload(r.ID, meta, r.Meta)
	t.save(r, false)
}

func (t *tx) paused(namespace string, l storekit.Lane) bool {
	paused, err := storekit.Paused(t, namespace, l)
	check(err)
	return paused
}

// Fork implements [store.Runs].
func (s *Store) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (store.CreateResult, error) {
		if r := t.anyRun(p.New); r != nil {
			if r.Namespace != p.Namespace {
				return store.CreateResult{}, storekit.IDTaken(p.New)
			}
			return store.CreateResult{ID: p.New, Created: true, Repeated: true}, nil // P4, even if the old run is gone
		}
		old := t.run(p.Namespace, p.ID)
		if old == nil {
			return store.CreateResult{}, storekit.NotFound(p.ID)
		}
		before := int64(math.MaxInt64)
		if p.Before != nil {
			st := t.step(old.ID, *p.Before)
			if st == nil {
				return store.CreateResult{}, storekit.StepNotFound(old.ID, *p.Before)
			}
			before = st.Position
		}
		t.record(p.Namespace, p.Record, 0, true)
		r := old.Fork(p.New, t.now)
		r.Input, r.Meta = t.get(payloadKey(old.ID, input)), t.get(payloadKey(old.ID, meta))
		t.insert(r)
		for _, st := range slices.Collect(t.steps(old.ID, 0)) {
			if storekit.ForkKeeps(&st, before) {
				t.putStep(r.ID, &st)
			}
		}
		return store.CreateResult{ID: r.ID, Created: true}, nil
	})
}

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, p store.ImportParams) (bool, error) {
	return update(ctx, s, p.Validate(s.limits), p.Now, func(t *tx) (bool, error) {
		r := storekit.Import(&p, t.now)
		if old := t.anyRun(r.ID); old != nil {
			if old.Namespace != p.Namespace {
				return false, storekit.IDTaken(r.ID)
			}
			return false, nil // P4
		}
		if r.HoldsExternalID() {
			if holder := t.holder(p.Namespace, r.ExternalID, r.Suffix); holder != nil {
				return false, storekit.ExternalIDTaken(holder.ID, r.ExternalID)
			}
		}
		t.insert(r)
		for _, st := range p.Record.Steps {
			st = storekit.ImportedStep(st)
			t.putStep(r.ID, &st)
		}
		for _, e := range p.Record.State {
			e.UpdatedAt = storekit.Micro(e.UpdatedAt)
			t.write(stateKey(r.ID, e.Key), &e)
		}
		t.importSignals(r.ID, p.Record)
		t.importStreams(r.ID, p.Record.Streams)
		for i := range p.Record.Groups {
			t.putGroup(r, p.Record.Groups[i].Name, &p.Record.Groups[i])
		}
		return true, nil
	})
}

// importSignals stores the signals that a run has had. Those to come have higher
// positions, for each signal was an event of the run.
func (t *tx) importSignals(run store.ID, rec store.RunRecord) {
	for i, id := range rec.Consumed {
		t.putSent(run, id, int64(i+1))
	}
	for i := range rec.Answers {
		t.putAnswer(run, rec.Answers[i])
	}
	for i, sig := range rec.Signals {
		sig.SentAt, sig.Position = storekit.Micro(sig.SentAt), int64(len(rec.Consumed)+i+1)
		t.putSent(run, sig.ID, sig.Position)
		t.write(inboxKey(run, sig.Position), &sig)
	}
}

// Purge implements [store.Runs].
func (s *Store) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (int, error) {
		limit := p.Limit
		if limit == 0 {
			limit = 1000
		}
		until := t.now.Add(-storekit.RoundUp(p.OlderThan))
		filter := store.RunFilter{Statuses: p.Statuses, Workflow: p.Workflow, FinishedBefore: until.Add(time.Microsecond)}
		var old []*storekit.Run
		for id := range t.listed(p.Namespace, &filter, listing{byEnd: true, oldestFirst: true}) {
			r := t.run(p.Namespace, id)
			if parent := t.run(p.Namespace, r.Parent); !t.matches(&filter, r) || parent != nil && !parent.Status.Final() || storekit.CountedInTree(r, t.hasGroups, t.anyRun) {
				continue
			}
			if old = append(old, r); len(old) == limit {
				break
			}
		}
		for _, r := range old {
			t.purge(r)
		}
		t.record(p.Namespace, p.Record, 0, len(old) > 0)
		return len(old), nil
	})
}

// purge deletes a run with all that belongs to it.
func (t *tx) purge(r *storekit.Run) {
	t.index(r, nil)
	t.forgetStarts(r.ID, keyOf(kindStartOf).ID(r.ID).All())
	for _, kind := range []byte{kindRun, kindPayload, kindStep, kindStepKey, kindGroup, kindState, kindInbox, kindSent, kindHad, kindAnswer, kindItem, kindWriter, kindStream} {
		t.deleteAll(keyOf(kind).ID(r.ID).All())
	}
	t.forgetInner(r)
	t.runs[r.ID] = &loaded{}
}
