package storekit

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// StreamHead is what a backend stores of the streams of a run: the last position that was given, and how many items with
// how many bytes there are.
type StreamHead struct {
	Position, Items, Bytes int64
}

// StreamWriter is what a backend stores of the attempt that has items in a stream: the last one that has written, of a
// step in a generation of the run.
type StreamWriter struct {
	Epoch   int64
	Attempt int
	First   int64 // the position of its first item
	Last    int64 // the number of its last item
	Items   int64
	Bytes   int64
}

// MayAppend reports whether a lease is the run's present one, so that its holder may append to streams (P2). r may be
// nil.
func (r *Run) MayAppend(l store.Lease) bool { return r != nil && r.Leased() && r.LeaseOf() == l }

// Append decides about a write to a stream of a run under its present lease (P27). old is the writer that is stored for
// the step in the run's generation, nil if there is none. Repeated: nothing is to be stored. Otherwise the items of next
// are to be stored, with positions from head's on, and head and next afterwards; if void is set, the items of old are to
// be deleted, and the first new item has Reset set.
func (h *StreamHead) Append(l store.Lease, w *store.StreamWrite, old *StreamWriter) (next StreamWriter, void, repeated bool, err error) {
	next = StreamWriter{Epoch: l.Epoch, Attempt: w.Attempt, First: h.Position + 1}
	same := old != nil && old.Epoch == l.Epoch && old.Attempt == w.Attempt
	switch {
	case same:
		next = *old
	case old != nil && old.Epoch == l.Epoch && old.Attempt > w.Attempt:
		return next, false, false, store.SupersededAttempt(l, w)
	}
	switch {
	case w.First > next.Last+1:
		return next, false, false, store.ItemsMissing(l, w, next.Last)
	case w.Last() <= next.Last:
		return next, false, true, nil
	case w.First <= next.Last:
		return next, false, false, store.Invalid("stream", "some of the items are stored, and others are not")
	}
	n, size := int64(len(w.Items)), int64(w.Size())
	after := StreamHead{Position: h.Position + n, Items: h.Items + n, Bytes: h.Bytes + size}
	if void = old != nil && !same; void {
		after.Items, after.Bytes = after.Items-old.Items, after.Bytes-old.Bytes
	}
	if err := store.CheckStreams(after.Items, after.Bytes); err != nil {
		return next, false, false, err
	}
	*h = after
	next.Last, next.Items, next.Bytes = w.Last(), next.Items+n, next.Bytes+size
	return next, void, false, nil
}

// StreamItems makes the items of a write to a stream of r; last is the last position that was given before.
func (r *Run) StreamItems(w *store.StreamWrite, last int64, reset bool, now time.Time) []store.StreamItem {
	items := make([]store.StreamItem, len(w.Items))
	for i, payload := range w.Items {
		items[i] = store.StreamItem{
			Position: last + 1 + int64(i), Stream: w.Stream, Step: w.Step, Attempt: w.Attempt, Epoch: r.Epoch, Generation: r.Generation,
			Number: w.First + int64(i), Reset: reset && i == 0, At: now, Payload: payload,
		}
	}
	return items
}
