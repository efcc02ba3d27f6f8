package exec

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Limits of one commit. A single record or child may be larger. A larger commit would be
// a long transaction, or a request that a server refuses.
const (
	commitRecords = 500
	commitBytes   = store.CallBytes / 2
)

// outbox collects the content of the next commit, and numbers the commits. At most one
// commit is in progress. Each has the number after that of the last applied commit, and a
// refused commit uses up no number.
//
// Its methods take no lock; the invocation's mutex guards it.
type outbox struct {
	lease store.Lease

	records  []store.StepRecord
	dues     map[store.StepKey]time.Time // due times of records, by this process's clock
	writes   []store.StateWrite          // of flow state, one for each key
	consumed []store.SignalID
	answers  []store.Answer // to consumed signals
	streams  []store.StreamWrite
	items    int            // of streams
	children []store.NewRun // to spawn
	tags     store.Tags     // of the run from the commit on; nil: they stay
	bytes    int            // of all of the above
	free     bool           // the permits of the run's step end

	appended int64 // entries ever added
	durable  int64 // the first entries, which are durable
	applied  int64 // number of the last commit that was applied
	crashes  int   // the count of crashes, kept by a commit that is no progress

	sending bool               // a commit is in progress
	held    bool               // a transactional step has the right to commit
	sent    []store.StateWrite // writes in the commit in progress
}

// add adds a record. due, unless zero, is its due time by this process's clock. The
// record replaces an unsent one with the same key.
func (x *outbox) add(r store.StepRecord, due time.Time) {
	x.appended++
	x.bytes += r.Size()
	if !due.IsZero() {
		if x.dues == nil {
			x.dues = make(map[store.StepKey]time.Time)
		}
		x.dues[r.StepKey] = due
	}
	for i := range x.records {
		if x.records[i].StepKey == r.StepKey {
			x.bytes -= x.records[i].Size()
			x.records[i] = r
			return
		}
	}
	x.records = append(x.records, r)
}

// write adds a write of flow state.
func (x *outbox) write(w store.StateWrite) {
	x.writes = putWrite(x.writes, w)
	x.bytes += len(w.Value)
	x.appended++
}

// spawn adds a child. Its record is in the same commit.
func (x *outbox) spawn(r store.NewRun) {
	x.children = append(x.children, r)
	x.bytes += r.Size()
}

// consume adds a signal that the commit removes from the run's inbox.
func (x *outbox) consume(id ...store.SignalID) { x.consumed = append(x.consumed, id...) }

// answer adds an answer to a signal that this commit or an earlier one consumes.
func (x *outbox) answer(a store.Answer) {
	x.answers = append(x.answers, a)
	x.bytes += a.Size()
	x.appended++
}

// stream adds items of a stream, which come with a record.
func (x *outbox) stream(w ...store.StreamWrite) {
	x.streams = append(x.streams, w...)
	for i := range w {
		x.items += len(w[i].Items)
		x.bytes += w[i].Size()
	}
}

// tag adds the tags that the run is to have.
func (x *outbox) tag(t store.Tags) {
	x.tags = t
	x.appended++
}

// freePermits adds the end of the permits of the run's step.
func (x *outbox) freePermits() {
	x.free = true
	x.appended++
}

// hasRoom reports whether an entry of n bytes fits into the next commit.
func (x *outbox) hasRoom(bytes int) bool {
	if x.settled() { // nothing waits for a commit
		return true
	}
	return x.bytes+bytes <= commitBytes && len(x.records) < commitRecords && len(x.children) < commitRecords && len(x.writes) < commitRecords &&
		len(x.answers) < commitRecords && len(x.consumed)+MaxSignals <= store.MaxBatch
}

// settled reports whether everything that was added is durable.
func (x *outbox) settled() bool { return x.durable >= x.appended }

// busy reports whether no commit may be sent at present.
func (x *outbox) busy() bool { return x.sending || x.held }

// next returns the number of the next commit.
func (x *outbox) next() int64 { return x.applied + 1 }

// take makes the next commit of everything that was added, and empties the outbox. seen
// is the count of events that the commit reports.
func (x *outbox) take(seen int64) *store.Commit {
	for i := range x.records {
		r := &x.records[i]
		if due, ok := x.dues[r.StepKey]; ok {
			if !r.Status.Final() {
				r.DueIn = max(time.Until(due), time.Microsecond)
			}
			delete(x.dues, r.StepKey)
		}
	}
	c := &store.Commit{Lease: x.lease, Seq: x.next(), Steps: x.records, State: x.writes, Consumed: x.consumed, Answers: x.answers, Streams: x.streams, Spawn: x.children, Tags: x.tags, Free: x.free, Seen: seen}
	if !isProgress(c) {
		c.Crashes = x.crashes
	}
	x.records, x.writes, x.sent, x.consumed, x.answers, x.children, x.tags, x.bytes, x.free = nil, nil, x.writes, nil, nil, nil, nil, 0, false
	x.streams, x.items = nil, 0
	return c
}

// accept records that a commit was applied.
func (x *outbox) accept(c *store.Commit) { x.applied, x.crashes = c.Seq, c.Crashes }

// unsent returns the latest write of a key that may not be in the store yet.
func (x *outbox) unsent(key string) (w store.StateWrite, ok bool) {
	for _, list := range [][]store.StateWrite{x.writes, x.sent} {
		for _, w := range list {
			if w.Key == key {
				return w, true
			}
		}
	}
	return w, false
}

// ownWrites returns the writes that may not be in the store yet, in order.
func (x *outbox) ownWrites() []store.StateWrite { return slices.Concat(x.sent, x.writes) }

// putWrite adds a write to a list that has one write for each key.
func putWrite(list []store.StateWrite, w store.StateWrite) []store.StateWrite {
	list = slices.DeleteFunc(list, func(o store.StateWrite) bool { return o.Key == w.Key })
	return append(list, w)
}
