package backend

import (
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// debounce finds the run that a start with a key reaches: the one that it has replaced before, or one
// that has not begun, which it replaces now.
func (t *tx) debounce(namespace string, n *store.NewRun) (id store.ID, found bool) {
	var known storekit.Replacement
	if t.load(startKey(namespace, n.ID), &known) && known.Known(t.now) && t.anyRun(known.Run) != nil {
		return known.Run, true // P4
	}
	value := t.get(debounceKey(namespace, n.Workflow, n.Debounce))
	if value == nil {
		return id, false
	}
	r := t.anyRun(storekit.LastID(value))
	r.Replace(n, t.now)
	t.putPayload(r.ID, input, r.Input)
	t.putPayload(r.ID, meta, r.Meta)
	t.save(r, false)
	t.write(startKey(namespace, n.ID), &storekit.Replacement{Run: r.ID, At: t.now})
	starts := keyOf(kindStartOf).ID(r.ID)
	t.put(starts.Time(t.now).ID(n.ID), startKey(namespace, n.ID))
	t.forgetStarts(r.ID, between(starts, starts.Time(t.now.Add(-store.DebounceMemory))))
	return r.ID, true
}

// forgetStarts forgets starts that have replaced what a run was started with. One that was sent again
// after its time has another record by now.
func (t *tx) forgetStarts(run store.ID, s span) {
	for p := range t.scan(s, false) {
		var known storekit.Replacement
		own := t.load(p.Value, &known) && known.Run == run
		if own && string(keyOf(kindStartOf).ID(run).Time(known.At).ID(storekit.LastID(p.Key))) == string(p.Key) {
			t.delete(p.Value)
		}
	}
	t.deleteAll(s)
}
