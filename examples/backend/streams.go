package backend

import (
	"context"
	"errors"
	"iter"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Append implements [store.Streamer].
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	return update(ctx, s, p.Validate(s.limits), p.Now, func(t *tx) (res store.AppendResult, err error) {
		r := t.run(p.Namespace, p.Lease.Run)
		if !r.MayAppend(p.Lease) {
			return res, storekit.LeaseLost(p.Lease)
		}
		plan, err := t.planStreams(r, p.Lease, []store.StreamWrite{p.StreamWrite})
		if err != nil {
			return res, err
		}
		t.writeStreams(r, plan)
		res.Repeated = len(plan.writes) == 0
		return res, nil
	})
}

// streamPlan is what writes to the streams of a run store.
type streamPlan struct {
	head   storekit.StreamHead
	writes []plannedWrite
}

type plannedWrite struct {
	*store.StreamWrite
	writer storekit.StreamWriter
	void   *storekit.StreamWriter // whose items are superseded
	last   int64                  // the last position before
}

// planStreams decides about writes, and stores nothing yet.
func (t *tx) planStreams(r *storekit.Run, l store.Lease, writes []store.StreamWrite) (plan streamPlan, err error) {
	if len(writes) == 0 {
		return plan, nil
	}
	t.load(streamKey(r.ID), &plan.head)
	for i := range writes {
		w, old := &writes[i], t.writer(r, &writes[i])
		last := plan.head.Position
		writer, void, repeated, err := plan.head.Append(l, w, old)
		switch {
		case err != nil:
			return plan, err
		case repeated:
			continue
		case !void:
			old = nil
		}
		plan.writes = append(plan.writes, plannedWrite{w, writer, old, last})
	}
	return plan, nil
}

// planCommitted is planStreams for a commit, whose refusals are ErrInvalid or ErrTooLarge.
func (t *tx) planCommitted(r *storekit.Run, c *store.Commit) (streamPlan, error) {
	plan, err := t.planStreams(r, c.Lease, c.Streams)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrLeaseLost) {
		err = store.Invalid("streams", err.Error())
	}
	return plan, err
}

// writer returns who has written to a stream, of a step in the run's generation.
func (t *tx) writer(r *storekit.Run, w *store.StreamWrite) *storekit.StreamWriter {
	var old storekit.StreamWriter
	if !t.load(writerKey(r.ID, w.Stream, w.Step, r.Generation), &old) {
		return nil
	}
	return &old
}

// writeStreams stores what was planned, and sends one hint for all of it.
func (t *tx) writeStreams(r *storekit.Run, plan streamPlan) {
	if len(plan.writes) == 0 {
		return
	}
	for i := range plan.writes {
		w := &plan.writes[i]
		if w.void != nil {
			t.supersede(r, w)
		}
		for _, item := range r.StreamItems(w.StreamWrite, w.last, w.void != nil, t.now) {
			t.write(itemKey(r.ID, item.Position), &item)
		}
		t.write(writerKey(r.ID, w.Stream, w.Step, r.Generation), &w.writer)
	}
	t.write(streamKey(r.ID), &plan.head)
	t.hints = append(t.hints, store.Hint{Kind: store.HintStream, Namespace: r.Namespace, Run: r.ID})
}

// supersede deletes the items of an earlier attempt.
func (t *tx) supersede(r *storekit.Run, w *plannedWrite) {
	var positions []int64
	for item := range t.items(r.ID, w.void.First-1) {
		if item.Stream == w.Stream && item.Step == w.Step && item.Generation == r.Generation {
			positions = append(positions, item.Position)
		}
	}
	for _, position := range positions {
		t.delete(itemKey(r.ID, position))
	}
}

// items yields the items of a run behind a position.
func (t *tx) items(run store.ID, after int64) iter.Seq[store.StreamItem] {
	return values[store.StreamItem](t, between(itemKey(run, after+1), keyOf(kindItem).ID(run).End()))
}

// ReadStream implements [store.Streamer].
func (s *Store) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (page store.StreamPage, err error) {
		r := t.run(p.Namespace, p.Run)
		if r == nil {
			return page, storekit.NotFound(p.Run)
		}
		limit, _ := store.Page(p.Limit)
		wanted := func(yield func(store.StreamItem) bool) {
			for item := range t.items(p.Run, p.After) {
				if (p.Stream == "" || item.Stream == p.Stream) && !yield(item) {
					return
				}
			}
		}
		items, more := storekit.Collect(wanted, limit, storekit.FirstAndUpTo(p.Bytes()), func(it *store.StreamItem) int { return len(it.Payload) })
		return p.PageOf(items, more, r.Status), nil
	})
}

// importStreams stores the items of an imported run, and what is to be known of those who wrote them.
func (t *tx) importStreams(run store.ID, items []store.StreamItem) {
	if len(items) == 0 {
		return
	}
	var head storekit.StreamHead
	writers := map[string]*storekit.StreamWriter{}
	for i := range items {
		item := items[i]
		item.At = storekit.Micro(item.At)
		t.write(itemKey(run, item.Position), &item)
		size := int64(len(item.Payload))
		head = storekit.StreamHead{Position: item.Position, Items: head.Items + 1, Bytes: head.Bytes + size}
		k := string(writerKey(run, item.Stream, item.Step, item.Generation))
		w := writers[k]
		if w == nil {
			w = &storekit.StreamWriter{First: item.Position}
			writers[k] = w
		}
		w.Epoch, w.Attempt, w.Last, w.Items, w.Bytes = item.Epoch, item.Attempt, item.Number, w.Items+1, w.Bytes+size
	}
	t.write(streamKey(run), &head)
	for k, w := range writers {
		t.write(key(k), w)
	}
}
