package backend

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Signal implements [store.Coordination].
func (s *Store) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) ([]store.SignalResult, error) {
		out := make([]store.SignalResult, len(p.Signals))
		for i := range p.Signals {
			var stored bool
			out[i].Run, stored, out[i].Err = t.signal(p.Namespace, &p.Signals[i])
			if stored && len(p.Record) > 0 {
				a := p.Record[i]
				if a.Run.IsZero() {
					a.Run = out[i].Run
				}
				t.record(p.Namespace, []store.Action{a}, 0, true)
			}
		}
		return out, nil
	})
}

// signal says whether it has stored the signal.
func (t *tx) signal(namespace string, n *store.NewSignal) (store.ID, bool, error) {
	if err := n.Validate(t.limits); err != nil {
		return store.ID{}, false, err
	}
	r := t.run(namespace, n.Run)
	if n.ExternalID != "" {
		if id, had := t.hadBefore(namespace, n); had {
			return id, false, nil // P4, also when that run has ended and another one holds the external id
		}
		if r = t.holder(namespace, n.ExternalID, n.Suffix); r == nil {
			return store.ID{}, false, fmt.Errorf("active run of external id %q, suffix %q: %w", n.ExternalID, n.Suffix, store.ErrNotFound)
		}
	}
	switch {
	case r == nil:
		return store.ID{}, false, storekit.NotFound(n.Run)
	case t.get(hadKey(r.ID, n.ID)) != nil: // P4, also when the run has ended since
		return r.ID, false, nil
	case r.Status.Final():
		return store.ID{}, false, storekit.Finished(r)
	}
	t.receive(r, n)
	return r.ID, true, nil
}

// hadBefore returns the last run of an external id that has had a signal.
func (t *tx) hadBefore(namespace string, n *store.NewSignal) (id store.ID, had bool) {
	for p := range t.scan(namedKey(namespace, n.ExternalID).Name(n.Suffix).All(), true) {
		if id = storekit.LastID(p.Key); t.get(hadKey(id, n.ID)) != nil {
			return id, true
		}
	}
	return id, false
}

// putSent notes that a run has had a signal, for good.
func (t *tx) putSent(run, signal store.ID, position int64) {
	t.put(sentKey(run, position), signal[:])
	t.put(hadKey(run, signal), key(nil).Number(position))
}

// consume takes a signal out of the inbox.
func (t *tx) consume(run, signal store.ID) {
	if position := t.get(hadKey(run, signal)); position != nil {
		t.delete(inboxKey(run, storekit.LastNumber(position)))
	}
}

// Sent implements [store.Exporter].
func (s *Store) Sent(ctx context.Context, p store.SentParams) (store.SentPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.SentPage, error) {
		if t.run(p.Namespace, p.Run) == nil {
			return store.SentPage{}, storekit.NotFound(p.Run)
		}
		limit, _ := store.Page(p.Limit)
		var out []store.SentSignal
		for pair := range t.scan(between(sentKey(p.Run, p.After+1), keyOf(kindSent).ID(p.Run).End()), false) {
			if len(out) == limit {
				break
			}
			position := storekit.LastNumber(pair.Key)
			sent := store.SentSignal{Signal: store.Signal{ID: storekit.LastID(pair.Value), Position: position}, Consumed: true}
			if t.load(inboxKey(p.Run, position), &sent.Signal) {
				sent.Consumed = false
			}
			sent.Given = t.given(p.Run, sent.ID)
			out = append(out, sent)
		}
		return p.PageOf(out), nil
	})
}

// SetState implements [store.Coordination].
func (s *Store) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	return update(ctx, s, p.Validate(s.limits), p.Now, func(t *tx) (out []store.StateEntry, err error) {
		r := t.run(p.Namespace, p.Run)
		switch {
		case r == nil:
			return nil, storekit.NotFound(p.Run)
		case r.Status.Final():
			return nil, storekit.Finished(r)
		}
		for i := range p.Writes {
			var has store.StateEntry
			t.load(stateKey(r.ID, p.Writes[i].Key), &has)
			if err := storekit.CheckVersion(r.ID, &p.Writes[i], has.Version); err != nil {
				return nil, err
			}
		}
		for i := range p.Writes {
			out = append(out, t.setState(r, &p.Writes[i]))
		}
		if len(out) > 0 {
			r.Stir(store.WakeState, t.now)
			t.save(r, false)
		}
		t.record(p.Namespace, p.Record, 0, true)
		return out, nil
	})
}

// setState changes a key of a run's state. The run is saved afterwards.
func (t *tx) setState(r *storekit.Run, w *store.StateWrite) store.StateEntry {
	e := r.Write(w, t.now)
	if k := stateKey(r.ID, w.Key); w.Delete {
		t.delete(k)
	} else {
		t.write(k, &e)
	}
	return e
}

// GetState implements [store.Coordination].
func (s *Store) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) ([]store.StateEntry, error) {
		if t.run(p.Namespace, p.Run) == nil {
			return nil, storekit.NotFound(p.Run)
		}
		entries := t.state(p.Run, p.After)
		if len(p.Keys) > 0 {
			entries = t.stateOf(p.Run, p.Keys, p.After)
		}
		out, _ := storekit.Collect(entries, cmp.Or(p.Limit, math.MaxInt), storekit.FirstAndUpTo(p.MaxBytes), storekit.EntrySize)
		return out, nil
	})
}

// state yields a run's entries above a key.
func (t *tx) state(run store.ID, above string) iter.Seq[store.StateEntry] {
	s := keyOf(kindState).ID(run).All()
	if above != "" {
		s.From = stateKey(run, above).Next()
	}
	return values[store.StateEntry](t, s)
}

// stateOf yields the entries of some keys above a key.
func (t *tx) stateOf(run store.ID, keys []string, above string) iter.Seq[store.StateEntry] {
	return func(yield func(store.StateEntry) bool) {
		for _, k := range slices.Compact(slices.Sorted(slices.Values(keys))) {
			var e store.StateEntry
			if k > above && t.load(stateKey(run, k), &e) && !yield(e) {
				return
			}
		}
	}
}

// Inbox implements [store.Coordination].
func (s *Store) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.Inbox, error) {
		r := t.run(p.Namespace, p.Run)
		if r == nil {
			return store.Inbox{}, storekit.NotFound(p.Run)
		}
		return t.inbox(r, &p, storekit.FirstAndUpTo(p.MaxBytes), storekit.FirstAndUpTo(p.MaxBytes)), nil
	})
}

// inbox is what the params select of what has reached the run, up to the bounds of
// payloads and of values.
func (t *tx) inbox(r *storekit.Run, p *store.InboxParams, payloads, state *storekit.Bound) store.Inbox {
	in := store.Inbox{Status: r.Status, Events: r.Events}
	if p.After != store.NoSignals {
		unread := values[store.Signal](t, between(inboxKey(r.ID, p.After).Next(), keyOf(kindInbox).ID(r.ID).End()))
		named := only(unread, func(sig *store.Signal) bool { return p.Name == "" || sig.Name == p.Name })
		in.Signals, in.MoreSignals = storekit.Collect(named, store.MaxPage, payloads, storekit.SignalSize)
	}
	if !p.NoState {
		in.State, in.MoreState = storekit.Collect(t.state(r.ID, ""), store.MaxPage, state, storekit.EntrySize)
	}
	s := keyOf(kindGroup).ID(r.ID).All()
	if p.AfterGroup != "" {
		s.From = groupKey(r.ID, p.AfterGroup).Next()
	}
	groups := only(values[store.Group](t, s), func(g *store.Group) bool { return p.Group == "" || g.Name == p.Group })
	in.Groups, in.MoreGroups = storekit.Collect(groups, store.MaxPage, storekit.FirstAndUpTo(0), nil)
	return in
}

// only yields the items that are like that.
func only[T any](items iter.Seq[T], like func(*T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range items {
			if like(&v) && !yield(v) {
				return
			}
		}
	}
}
