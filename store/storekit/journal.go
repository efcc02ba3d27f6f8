package storekit

import (
	"cmp"
	"time"

	"github.com/pawlhq/pawl/store"
)

// actionName orders actions by their time, then by their ID.
func actionName(at time.Time, id store.ID) string { return TimeKey(at) + string(id[:]) }

// lastName comes after the name of every action.
const lastName = "\xff\xff\xff\xff\xff\xff\xff\xff\xff"

// forgetActions is how many old actions a call of [RecordActions] deletes at most.
const forgetActions = 1000

// RecordActions implements [store.Journal].Record.
func RecordActions(t Records, p *store.RecordParams, now time.Time) error {
	for _, a := range p.Actions {
		if err := recordAction(t, p.Namespace, a, now); err != nil {
			return err
		}
	}
	if p.KeepFor == 0 {
		return nil
	}
	return deleteActions(t, p.Namespace, now.Add(-RoundUp(p.KeepFor)))
}

// RecordItem records the action of an item of a call with a Record, in the transaction of the item's
// effect (P30). A backend calls it for each item without an Err that changed something or had nothing to
// change. Without a Record it does nothing.
func RecordItem(t Records, namespace string, record []store.Action, item int, changed bool, now time.Time) error {
	if len(record) == 0 {
		return nil
	}
	a := record[item]
	if a.Outcome = store.Done; !changed {
		a.Outcome = store.NoChange
	}
	return recordAction(t, namespace, a, now)
}

func recordAction(t Records, namespace string, a store.Action, now time.Time) error {
	id := Key{KindActionID, namespace, string(a.ID[:])}
	if known, err := t.Get(id); err != nil || known != nil { // P4
		return err
	}
	a.At = now
	name := actionName(now, a.ID)
	if err := t.Put(id, []byte(name)); err != nil {
		return err
	}
	if err := put(t, Key{KindAction, namespace, name}, &a); err != nil || a.Run.IsZero() {
		return err
	}
	return put(t, Key{KindActionOf, namespace, string(a.Run[:]) + name}, &a)
}

// deleteActions deletes the oldest actions from before a time.
func deleteActions(t Records, namespace string, until time.Time) error {
	var old []store.Action
	for a, err := range each[store.Action](t, KindAction, namespace, "", TimeKey(until), false) {
		if err != nil {
			return err
		}
		if len(old) == forgetActions {
			break
		}
		old = append(old, a)
	}
	for _, a := range old {
		name := actionName(a.At, a.ID)
		for _, k := range []Key{{KindAction, namespace, name}, {KindActionID, namespace, string(a.ID[:])}, {KindActionOf, namespace, string(a.Run[:]) + name}} {
			if err := t.Delete(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// ListActions implements [store.Journal].
func ListActions(t Records, p *store.ListActionsParams) (out store.ActionPage, err error) {
	at, id, err := p.Position()
	if err != nil {
		return out, err
	}
	kind, from, to := KindAction, "", ""
	if p.Cursor != "" {
		to = actionName(at, id)
	}
	if !p.Run.IsZero() {
		kind, from = KindActionOf, string(p.Run[:])
		to = from + cmp.Or(to, lastName)
	}
	all := each[store.Action](t, kind, p.Namespace, from, to, true)
	chosen := where(all, func(a *store.Action) bool { return p.Actor == "" || a.Actor == p.Actor })
	var more bool
	out.Actions, more, err = page(chosen, p.Limit, nil)
	if more {
		out.Next = p.NextCursor(&out.Actions[len(out.Actions)-1])
	}
	return out, err
}
