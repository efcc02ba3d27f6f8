package store

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"
)

// Bounds of the streams of a run. They count all items of all streams of the run that are stored; items
// that were superseded do not count.
const (
	MaxStreamItems = 1 << 15  // items
	MaxStreamBytes = 16 << 20 // bytes of items together
)

// Streamer is implemented by backends whose runs have streams: lists of items, by name, to which the holder
// of a run appends and from which anyone reads while the run goes on. Without it, programs cannot append to
// streams, and a commit has no Streams.
//
// P27: the items of a run are numbered by Position in the order in which they became visible, over all of
// its streams. A reader that passes the last Position it has seen as After gets each later item of its
// stream once, in order, whatever happens meanwhile; an item never becomes visible below one that was seen.
// A position is never given again.
//
// An item is written by one attempt of a step: [StreamWrite].Step and Attempt, and the epoch of the lease. When
// an attempt writes its first items to a stream, the items that other attempts of the same step wrote to
// the same stream, in the same generation of the run, are superseded: they are deleted in the same write, and
// the first item of the new attempt has Reset set. A reader that has seen some of them has to discard, when it
// meets the Reset, the items of that step and generation that it got before. A reader that begins later, or
// that was behind them, does not see them; it meets the Reset too, with nothing to discard. An attempt that
// writes nothing supersedes nothing.
//
// Streams stay when the run sleeps, crashes, retries, continues as new, ends, and is restarted; they move with
// an export. A fork begins without items. They are deleted with the run.
type Streamer interface {
	// Append adds items to a stream of a run whose lease the caller holds. They are visible when it returns,
	// also if the run never commits again. It changes nothing else of the run, and sends one hint
	// whatever the number of items.
	//
	// P2: a lease that is not the run's present one appends nothing and gets ErrLeaseLost. An append that is
	// concurrent with a takeover is applied completely before the takeover, or not at all. A lease that
	// expired but was not taken over can still append. P3: all items become visible together.
	//
	// P4: items are numbered from 1 within an attempt and stream, without gaps, and First is the number of
	// the first one of the call. A call whose last number is not above the last one stored was applied
	// already: nothing changes, and the result says Repeated. If the answer is lost, send the call again.
	//
	// It returns ErrConflict if a later attempt of the step, under the same lease, has written to the stream;
	// ErrLeaseLost if a number is skipped, because the store has lost items that the holder believes
	// stored ([ItemsMissing]); ErrInvalid, also if a call has both numbers that are stored and others;
	// and ErrTooLarge for an item above the payload limit, and for a run that would have more than
	// [MaxStreamItems] or [MaxStreamBytes] afterwards. On an error nothing is stored. A call has at most
	// [MaxBatch] items; one of several items with more than half of [CallBytes] may be
	// refused with ErrTooLarge.
	Append(ctx context.Context, p AppendParams) (AppendResult, error)

	// ReadStream returns a page of the items of a stream, or of all streams of the run, in the order of their
	// positions: those above After, up to Limit items and up to MaxBytes of payloads, but at least one. A
	// stream that nobody has written to is empty.
	//
	// Items and Status are of one moment: if the page is the last one and the run is final, no item follows,
	// unless the run is restarted: [StreamPage.Closed].
	//
	// It works on final runs too, and returns ErrNotFound if there is no such run.
	ReadStream(ctx context.Context, p ReadStreamParams) (StreamPage, error)
}

// StreamWrite is what an attempt of a step adds to a stream.
type StreamWrite struct {
	Stream  string  // its name
	Step    StepKey // whose attempt writes
	Attempt int     // from 0
	// First is the number of the first item: 1 for the first item that the attempt writes to the stream, under
	// its lease, and 1 more for each further one.
	First int64
	Items [][]byte // at least one
}

// AppendParams is the input of [Streamer.Append].
type AppendParams struct {
	Namespace string
	Lease     Lease
	StreamWrite
	Now time.Time
}

// AppendResult is the outcome of [Streamer.Append].
type AppendResult struct {
	Repeated bool // the items were stored before, and this call changed nothing
}

// ReadStreamParams is the input of [Streamer.ReadStream].
type ReadStreamParams struct {
	Namespace string
	Run       ID
	Stream    string // empty: all streams of the run
	After     int64  // only items of a Position above it; 0: from the beginning
	Limit     int    // 0: 100; at most MaxPage
	// MaxBytes ends the page before the item whose payload would exceed it; 0: [PageBytes]. The first item is
	// always returned.
	MaxBytes int
}

// StreamItem is a stored item.
type StreamItem struct {
	Position int64
	Stream   string
	// Step, Attempt, Epoch and Generation say who wrote the item: an attempt of a step, under a lease,
	// in a generation of the run.
	Step       StepKey
	Attempt    int
	Epoch      int64
	Generation int
	Number     int64 // within the attempt
	// Reset says that this is the first item of an attempt that has superseded another one: the items of
	// the same Stream, Step and Generation with a lower Position are void.
	Reset   bool
	At      time.Time // when it became visible, by the store's clock
	Payload []byte
}

// StreamPage is a page of items; Next is zero on the last one.
type StreamPage struct {
	Items  []StreamItem
	Next   int64
	Status Status // of the run
}

// Bytes returns the number of bytes of a page.
func (p *ReadStreamParams) Bytes() int { return cmp.Or(p.MaxBytes, PageBytes) }

// Closed reports whether no item follows those of the page.
func (p *StreamPage) Closed() bool { return p.Next == 0 && p.Status.Final() }

// PageOf makes the page of the items that p has selected. more says that further items follow.
func (p *ReadStreamParams) PageOf(items []StreamItem, more bool, status Status) StreamPage {
	page := StreamPage{Items: items, Status: status}
	if more && len(items) > 0 {
		page.Next = items[len(items)-1].Position
	}
	return page
}

// Size returns how many bytes of payload a write has.
func (w *StreamWrite) Size() (n int) {
	for _, item := range w.Items {
		n += len(item)
	}
	return n
}

// Last returns the number of the last item of a write.
func (w *StreamWrite) Last() int64 { return w.First + int64(len(w.Items)) - 1 }

// ItemsMissing is the error for an append whose first number does not follow last, the number of the last
// item that the store has of the attempt. The error matches [ErrLeaseLost].
func ItemsMissing(l Lease, w *StreamWrite, last int64) error {
	return fmt.Errorf("run %v, epoch %d, stream %q: item %d of step %s does not follow item %d, the last one that the store has: the database has lost acknowledged items, for example by the promotion of a lagging replica or the restore of a backup: %w",
		l.Run, l.Epoch, w.Stream, w.First, w.Step, last, ErrLeaseLost)
}

// SupersededAttempt is the error for an append of an attempt after which another one has written. It matches
// [ErrConflict].
func SupersededAttempt(l Lease, w *StreamWrite) error {
	return fmt.Errorf("run %v, stream %q: a later attempt of step %s than attempt %d has written to it, so this one cannot any more; it should have ended with its context: %w",
		l.Run, w.Stream, w.Step, w.Attempt, ErrConflict)
}

// CheckStreams returns the error for a run that would have this many items, with this many bytes, in its
// streams: nil or a [*TooLargeError].
func CheckStreams(items, bytes int64) error {
	switch {
	case items > MaxStreamItems:
		return &TooLargeError{Field: "the streams of the run", Size: int(items), Limit: MaxStreamItems, Unit: "items"}
	case bytes > MaxStreamBytes:
		return &TooLargeError{Field: "the streams of the run", Size: int(bytes), Limit: MaxStreamBytes, Unit: "bytes of items"}
	}
	return nil
}

func (w *StreamWrite) validate(l Limits) error {
	if err := ValidateName("stream", w.Stream); err != nil {
		return err
	}
	name := "stream " + strconv.Quote(clip(w.Stream))
	switch {
	case w.Step.Name == "":
		return Invalid(name, "the write names no step; every item belongs to an attempt of a step")
	case w.Step.Occurrence < 1 || w.Step.Occurrence > maxCount:
		return Invalid(name, fmt.Sprintf("occurrence %d of the step is not between 1 and %d", w.Step.Occurrence, maxCount))
	case w.Attempt < 0 || w.Attempt > maxCount:
		return Invalid(name, fmt.Sprintf("attempt %d of the step is not between 0 and %d", w.Attempt, maxCount))
	case len(w.Items) == 0:
		return Invalid(name, "the write has no items")
	case w.First < 1:
		return Invalid(name, "items are numbered from 1")
	}
	if err := first(ValidateName("step name", w.Step.Name), optionalName("branch", w.Step.Branch), batch("items", len(w.Items))); err != nil {
		return err
	}
	for i, item := range w.Items {
		if err := size(fmt.Sprintf("item %d of %s", w.First+int64(i), name), len(item), l.Payload); err != nil {
			return err
		}
	}
	return CheckStreams(int64(len(w.Items)), int64(w.Size()))
}

// Validate checks the call against the limits of a backend.
func (p *AppendParams) Validate(l Limits) error {
	if p.Lease.Run.IsZero() {
		return Invalid("lease", "it names no run")
	}
	return first(ValidateName("namespace", p.Namespace), p.validate(l))
}

// Validate checks the call.
func (p *ReadStreamParams) Validate() error {
	if p.After < 0 {
		return Invalid("after", fmt.Sprintf("%d is negative; 0 begins", p.After))
	}
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), optionalName("stream", p.Stream), err, maxBytes(p.MaxBytes))
}

// validateStreams checks the items of a commit.
func (c *Commit) validateStreams(l Limits) error {
	if len(c.Streams) == 0 {
		return nil
	}
	if c.Transition != nil && c.Transition.Kind == GiveBack {
		return Invalid("commit", "a give back changes nothing of the run, and cannot write to streams")
	}
	type writer struct {
		stream string
		step   StepKey
	}
	seen := make(map[writer]bool, len(c.Streams))
	items, bytes := 0, 0
	for i := range c.Streams {
		w := &c.Streams[i]
		if err := w.validate(l); err != nil {
			return err
		}
		if seen[writer{w.Stream, w.Step}] {
			return Invalid("stream "+strconv.Quote(clip(w.Stream)), fmt.Sprintf("the commit has two writes of step %s", w.Step))
		}
		seen[writer{w.Stream, w.Step}] = true
		items, bytes = items+len(w.Items), bytes+w.Size()
	}
	return first(batch("items of streams", items), CheckStreams(int64(items), int64(bytes)))
}

// validateStreams checks the items of an imported run.
func (r *RunRecord) validateStreams(l Limits) error {
	type writer struct {
		stream     string
		step       StepKey
		generation int
	}
	writers := map[writer]*StreamItem{} // the last item of each
	last, bytes := int64(0), 0
	for i := range r.Streams {
		it := &r.Streams[i]
		w := StreamWrite{Stream: it.Stream, Step: it.Step, Attempt: it.Attempt, First: it.Number, Items: [][]byte{it.Payload}}
		if err := w.validate(l); err != nil {
			return err
		}
		name := fmt.Sprintf("item %d of stream %q", it.Number, clip(it.Stream))
		switch {
		case it.Position <= last:
			return Invalid(name, fmt.Sprintf("its position %d does not follow %d, that of the item before", it.Position, last))
		case it.Epoch < 1 || it.Epoch > r.Run.Epoch || it.Generation < 0 || it.Generation > r.Run.Generation:
			return Invalid(name, "its epoch or its generation is not one that the run has had")
		case it.At.IsZero():
			return Invalid(name, "it has no time")
		}
		before, number := writers[writer{it.Stream, it.Step, it.Generation}], int64(1)
		if before != nil {
			number = before.Number + 1
		}
		if it.Number != number || before != nil && (before.Epoch != it.Epoch || before.Attempt != it.Attempt) {
			return Invalid(name, fmt.Sprintf("it is not item %d of the only attempt of step %s that has items in the stream", number, it.Step))
		}
		writers[writer{it.Stream, it.Step, it.Generation}] = it
		last, bytes = it.Position, bytes+len(it.Payload)
	}
	return CheckStreams(int64(len(r.Streams)), int64(bytes))
}
