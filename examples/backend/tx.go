package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// tx is a verb under way, in a transaction.
type tx struct {
	tx     Tx
	now    time.Time // of the call
	limits store.Limits
	runs   map[store.ID]*loaded // that were loaded or made; nil if this only reads
	wrote  bool                 // anything
	hints  []store.Hint         // to publish after the commit
	ended  []store.RunCount     // by the cancels of the item under way

	planned bool // a claim leases runs under limits
}

// loaded is a run, and what is stored of it.
type loaded struct {
	run    *storekit.Run // nil: there is none
	stored *storekit.Run // nil: nothing is stored
}

func (t *tx) get(k key) []byte {
	v, err := t.tx.Get(k)
	check(err)
	return v
}

func (t *tx) put(k key, value []byte) {
	t.wrote = true
	check(t.tx.Put(k, value))
}

func (t *tx) delete(k key) {
	t.wrote = true
	check(t.tx.Delete(k))
}

// scan yields the pairs of a span. Nothing is written meanwhile.
func (t *tx) scan(s span, backwards bool) iter.Seq[Pair] {
	return func(yield func(Pair) bool) {
		for p, err := range t.tx.Scan(s.From, s.To, backwards) {
			check(err)
			if !yield(p) {
				return
			}
		}
	}
}

// first returns the first key of a span.
func (t *tx) first(s span) (k key, found bool) {
	for p := range t.scan(s, false) {
		return bytes.Clone(p.Key), true
	}
	return nil, false
}

// ids returns the runs of a span of an index.
func (t *tx) ids(s span) (ids []store.ID) {
	for p := range t.scan(s, false) {
		ids = append(ids, storekit.LastID(p.Key))
	}
	return ids
}

// deleteAll deletes the pairs of a span.
func (t *tx) deleteAll(s span) {
	var keys []key
	for p := range t.scan(s, false) {
		keys = append(keys, bytes.Clone(p.Key))
	}
	for _, k := range keys {
		t.delete(k)
	}
}

// Values are JSON, which can be read with the eye and takes on new fields.

func (t *tx) write(k key, v any) {
	b, err := json.Marshal(v)
	if err != nil { // a time that JSON cannot write
		check(store.Invalid("record", err.Error()))
	}
	t.put(k, b)
}

// load reads a value, and reports whether there is one.
func (t *tx) load(k key, v any) bool {
	b := t.get(k)
	if b == nil {
		return false
	}
	check(read(b, v))
	return true
}

func read(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("a record is damaged: %w", err)
	}
	return nil
}

// values yields the values of a span.
func values[T any](t *tx, s span) iter.Seq[T] {
	return func(yield func(T) bool) {
		for p := range t.scan(s, false) {
			var v T
			if check(read(p.Value, &v)); !yield(v) {
				return
			}
		}
	}
}

// run returns the run of that ID, nil if the namespace has none (P15). A run is loaded
// once in a transaction, so that all who change it change the same one.
func (t *tx) run(namespace string, id store.ID) *storekit.Run {
	if r := t.anyRun(id); r != nil && r.Namespace == namespace {
		return r
	}
	return nil
}

// anyRun returns the run of that ID, of whatever namespace.
func (t *tx) anyRun(id store.ID) *storekit.Run {
	if l := t.runs[id]; l != nil {
		return l.run
	}
	var l loaded
	var r storekit.Run
	if t.load(runKey(id), &r) {
		l = loaded{&r, copyOf(&r)}
	}
	if t.runs != nil {
		t.runs[id] = &l
	}
	return l.run
}

func copyOf(r *storekit.Run) *storekit.Run {
	c := *r
	return &c
}

// save stores a run that was loaded or made, with its place in all indexes, and notes the hints
// for it. ByHolder says that its holder's commit has changed it. Payloads are stored
// apart.
func (t *tx) save(r *storekit.Run, byHolder bool) {
	l := &loaded{run: r}
	if old := t.runs[r.ID]; old != nil {
		l.stored = old.stored
	}
	t.runs[r.ID] = l
	t.hints = append(t.hints, storekit.Hints(l.stored, r, byHolder)...)
	t.index(l.stored, r)
	t.tell(l.stored, r)
	l.stored = copyOf(r)
	row := *r
	row.Input, row.Output, row.Meta = nil, nil, nil
	t.write(runKey(r.ID), &row)
}

// index brings the indexes up to date with a run that has changed: from nil when it is
// made, to nil when it is deleted.
func (t *tx) index(from, to *storekit.Run) {
	t.mark(from, to)
	stays := map[string]bool{}
	var id store.ID
	var keys []key
	if to != nil {
		id, keys = to.ID, indexKeys(to)
		for _, k := range keys {
			stays[string(k)] = true
		}
	}
	if from != nil {
		for _, k := range indexKeys(from) {
			if !stays[string(k)] {
				t.delete(k)
			}
			delete(stays, string(k))
		}
	}
	for _, k := range keys {
		if stays[string(k)] {
			t.put(k, id[:])
		}
	}
}

// The payloads of a run.
const (
	input  = 'i'
	output = 'o'
	meta   = 'm'
)

// putPayload stores a payload as it is. A nil one is not there.
func (t *tx) putPayload(id store.ID, which byte, payload []byte) {
	if k := payloadKey(id, which); payload == nil {
		t.delete(k)
	} else {
		t.put(k, payload)
	}
}

// row returns a run for a caller, with these payloads.
func (t *tx) row(r *storekit.Run, payloads ...byte) store.Run {
	out := r.Run
	out.Input, out.Output, out.Meta = nil, nil, nil
	for _, which := range payloads {
		payload := bytes.Clone(t.get(payloadKey(r.ID, which)))
		switch which {
		case input:
			out.Input = payload
		case output:
			out.Output = payload
		case meta:
			out.Meta = payload
		}
	}
	return out
}

// holder returns the run that holds an external id, nil if none does.
func (t *tx) holder(namespace, externalID, suffix string) *storekit.Run {
	id := t.get(holderKey(namespace, externalID, suffix))
	if id == nil {
		return nil
	}
	return t.anyRun(storekit.LastID(id))
}

// group returns a run's group; the zero Group if there is none of that name.
func (t *tx) group(run store.ID, name string) (g store.Group) {
	t.load(groupKey(run, name), &g)
	return g
}

// groups returns the function of storekit that finds the groups of a run.
func (t *tx) groups(run store.ID) func(string) store.Group {
	return func(name string) store.Group { return t.group(run, name) }
}

// step returns a step's record, nil if there is none.
func (t *tx) step(run store.ID, k store.StepKey) *store.Step {
	position := t.get(stepNameKey(run, k))
	if position == nil {
		return nil
	}
	var st store.Step
	t.load(keyOf(kindStep).ID(run).And(position...), &st)
	return &st
}

// steps yields a run's steps behind a position.
func (t *tx) steps(run store.ID, after int64) iter.Seq[store.Step] {
	return values[store.Step](t, between(stepKey(run, after).Next(), keyOf(kindStep).ID(run).End()))
}

func (t *tx) putStep(run store.ID, st *store.Step) {
	at := stepKey(run, st.Position)
	t.write(at, st)
	t.put(stepNameKey(run, st.StepKey), at[len(at)-8:])
}

func (t *tx) hasSteps(run store.ID) bool {
	_, has := t.first(keyOf(kindStep).ID(run).All())
	return has
}

// forgetSteps deletes the steps that a new attempt repeats.
func (t *tx) forgetSteps(run store.ID) {
	var forget storekit.Forgetter
	var steps []store.Step
	for st := range t.steps(run, 0) {
		if forget.Forgets(&st) {
			steps = append(steps, st)
		}
	}
	for _, st := range steps {
		t.delete(stepKey(run, st.Position))
		t.delete(stepNameKey(run, st.StepKey))
	}
}

// merge yields the keys of several lines of an index in one order.
func (t *tx) merge(lines []storekit.Line, backwards bool, wanted func(line int) bool) iter.Seq2[int, key] {
	return storekit.Merge(lines, backwards, func(s span) iter.Seq[[]byte] {
		return func(yield func([]byte) bool) {
			for p := range t.scan(s, backwards) {
				if !yield(p.Key) {
					return
				}
			}
		}
	}, wanted)
}

// Records of storekit.

func recordKey(k storekit.Key) key {
	return keyOf(kindRecord).And(byte(k.Kind)).Name(k.Namespace).And([]byte(k.Name)...)
}

var _ storekit.Records = (*tx)(nil)

// Get implements [storekit.Records].
func (t *tx) Get(k storekit.Key) ([]byte, error) { return t.get(recordKey(k)), nil }

// Put implements [storekit.Records].
func (t *tx) Put(k storekit.Key, value []byte) error {
	t.put(recordKey(k), value)
	return nil
}

// Delete implements [storekit.Records].
func (t *tx) Delete(k storekit.Key) error {
	t.delete(recordKey(k))
	return nil
}

// Scan implements [storekit.Records].
func (t *tx) Scan(kind storekit.Kind, namespace, from, to string, backwards bool) iter.Seq2[storekit.Record, error] {
	prefix := recordKey(storekit.Key{Kind: kind, Namespace: namespace})
	s := between(prefix.And([]byte(from)...), prefix.And([]byte(to)...))
	if to == "" {
		s.To = prefix.End()
	}
	return func(yield func(storekit.Record, error) bool) {
		for p := range t.scan(s, backwards) {
			if !yield(storekit.Record{Name: string(p.Key[len(prefix):]), Value: p.Value}, nil) {
				return
			}
		}
	}
}
