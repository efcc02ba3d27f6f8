package exec

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawlhq/pawl/store"
)

// CodeStream is the failure code of a step or a run that writes to a stream what it cannot take.
const CodeStream = "stream"

// stepStream is what one attempt of a step has written to a stream. The invocation's mutex guards it.
type stepStream struct {
	next    int64          // the number of the next item that is appended at once
	waiting *appendedItems // for the call under way; nil: none
	sending bool
	err     error // nothing more can be appended

	staged [][]byte // for the step's record
}

// appendedItems are items of one call of Append or of several that came meanwhile.
type appendedItems struct {
	items [][]byte
	bytes int
	done  chan struct{}
	err   error // once done is closed
}

// CheckStream checks what is to be written to a stream, and that the store has streams.
func (inv *Invocation) CheckStream(stream string, items [][]byte) error {
	if err := store.ValidateName("stream", stream); err != nil {
		return err
	}
	bytes := 0
	for i, item := range items {
		if err := inv.checkSize(fmt.Sprintf("value %d for stream %s", i+1, strconv.Quote(stream)), item); err != nil {
			return refusedItems(err)
		}
		bytes += len(item)
	}
	if len(items) > maxAppend || bytes > commitBytes && len(items) > 1 {
		return refusedItems(store.Invalid("stream "+strconv.Quote(stream),
			fmt.Sprintf("%d items of %d bytes in one call; append at most %d items of %d bytes together, in several calls", len(items), bytes, maxAppend, commitBytes)))
	}
	var lacks error
	err := inv.host.Ask(inv, "what the store can do", func(_ context.Context, st store.Store, _ string) error {
		if !store.Able(st, store.Streams) {
			lacks = refusedItems(fmt.Errorf("stream %q: the store is a %s, which has no streams; keep progress in flow state, or use a backend that has them: %w", stream, st.Features().Name, store.ErrUnsupported))
		}
		return nil
	})
	return errors.Join(err, lacks)
}

// maxAppend limits the items of a call, so that those of a few steps fit into a commit.
const maxAppend = store.MaxBatch / 10

// refusedItems marks an error that another attempt would meet again.
func refusedItems(err error) error { return &Coded{Code: CodeStream, Permanent: true, Err: err} }

// AppendStream appends items to a stream of the step's run: at once, or with the step's record. In a step's
// transaction they become visible with the transaction.
func (i *StepInfo) AppendStream(ctx context.Context, stream string, items [][]byte, withRecord bool) error {
	inv := i.Inv
	if err := inv.CheckStream(stream, items); err != nil || len(items) == 0 {
		return err
	}
	inv.mu.Lock()
	if err := i.refuseLocked(ctx); err != nil {
		inv.mu.Unlock()
		return err
	}
	s := i.streams[stream]
	if s == nil {
		if i.streams == nil {
			i.streams = make(map[string]*stepStream)
		}
		s = &stepStream{next: 1}
		i.streams[stream] = s
	}
	if withRecord || i.inTx {
		defer inv.mu.Unlock()
		return i.stageLocked(stream, s, items)
	}
	inv.mu.Unlock()
	if !inv.host.Ready(inv) { // the lease may have run out
		inv.Lose()
		return ErrLeaseLost
	}
	inv.mu.Lock()
	call, err := i.queueLocked(ctx, stream, s, items)
	inv.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stageLocked keeps items for the step's record.
func (i *StepInfo) stageLocked(stream string, s *stepStream, items [][]byte) error {
	n, bytes := 0, 0
	for _, other := range i.streams {
		n += len(other.staged)
		for _, item := range other.staged {
			bytes += len(item)
		}
	}
	for _, item := range items {
		bytes += len(item)
	}
	if n += len(items); n > store.MaxBatch/2 || bytes > commitBytes {
		return refusedItems(store.Invalid("stream "+strconv.Quote(stream),
			fmt.Sprintf("step %s would write %d items of %d bytes with its record; at most %d items of %d bytes are possible; append them at once, or from several steps", i.Key, n, bytes, store.MaxBatch/2, commitBytes)))
	}
	s.staged = append(s.staged, items...)
	return nil
}

// queueLocked adds items to those that are appended next. Items that come while a call is under way share the
// next one.
func (i *StepInfo) queueLocked(ctx context.Context, stream string, s *stepStream, items [][]byte) (*appendedItems, error) {
	bytes := 0
	for _, item := range items {
		bytes += len(item)
	}
	for s.err == nil && s.waiting != nil && (len(s.waiting.items)+len(items) > maxAppend || s.waiting.bytes+bytes > commitBytes) {
		full := s.waiting
		i.Inv.unlocked(func() {
			select {
			case <-full.done:
			case <-ctx.Done():
			}
		})
		if err := i.refuseLocked(ctx); err != nil {
			return nil, err
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.waiting == nil {
		s.waiting = &appendedItems{done: make(chan struct{})}
	}
	call := s.waiting
	call.items, call.bytes = append(call.items, items...), call.bytes+bytes
	if !s.sending {
		s.sending = true
		go i.send(stream, s)
	}
	return call, nil
}

// send appends what waits, until nothing does. It goes on when a caller's context ends, so that the numbers stay
// without gaps.
func (i *StepInfo) send(stream string, s *stepStream) {
	inv := i.Inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for s.waiting != nil {
		call := s.waiting
		s.waiting = nil
		if s.err == nil {
			w := store.StreamWrite{Stream: stream, Step: i.Key, Attempt: i.Attempt, First: s.next, Items: call.items}
			var err error
			inv.unlocked(func() { err = i.appendNow(w) })
			switch {
			case err == nil:
				s.next = w.Last() + 1
			case errors.Is(err, store.ErrTooLarge): // nothing is stored, and fewer items may fit
				call.err = err
			default:
				s.err = err
			}
		}
		if call.err == nil {
			call.err = s.err
		}
		close(call.done)
	}
	s.sending = false
	inv.changed.Broadcast()
}

// appendNow makes one call of the store, and makes it again while the store is out of reach: the numbers of the
// items keep it from having two effects.
func (i *StepInfo) appendNow(w store.StreamWrite) error {
	inv := i.Inv
	err := inv.host.Ask(inv, "items of stream "+strconv.Quote(w.Stream), func(ctx context.Context, st store.Store, namespace string) error {
		_, err := st.(store.Streamer).Append(ctx, store.AppendParams{Namespace: namespace, Lease: inv.lease, StreamWrite: w})
		return err
	})
	switch {
	case errors.Is(err, store.ErrLeaseLost):
		inv.Lose()
		return ErrLeaseLost
	case errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrConflict):
		return refusedItems(err)
	}
	return err
}

// stagedLocked returns what the step's record is to bring.
func (i *StepInfo) stagedLocked() (list []store.StreamWrite) {
	for stream, s := range i.streams {
		for s.sending { // for a goroutine that the step has left behind
			i.Inv.changed.Wait()
		}
		if len(s.staged) > 0 {
			list = append(list, store.StreamWrite{Stream: stream, Step: i.Key, Attempt: i.Attempt, First: s.next, Items: s.staged})
		}
	}
	return list
}

// AppendStream appends items to a stream of the run, from the run's function, once: the commit that records the
// operation contains them. now says that they are visible when it returns.
func (b *Branch) AppendStream(stream string, items [][]byte, now bool) error {
	inv := b.inv
	if err := inv.CheckStream(stream, items); err != nil || len(items) == 0 {
		return err
	}
	_, err := durable(b, store.KindState, "append "+stream, isDone, func(o *op) (none, error) {
		w := store.StreamWrite{Stream: stream, Step: o.key, Attempt: o.attempt, First: 1, Items: items}
		inv.makeStreamRoomLocked(0, w)
		inv.outbox.stream(w)
		o.finishLocked(o.record(store.StepCompleted))
		if now {
			inv.awaitFrontLocked(o.recorded == nil)
			inv.flushLocked()
		}
		return none{}, nil
	})
	return err
}

// makeStreamRoomLocked ensures that a record of n bytes and its items fit into the next commit.
func (inv *Invocation) makeStreamRoomLocked(bytes int, writes ...store.StreamWrite) {
	items := 0
	for i := range writes {
		items += len(writes[i].Items)
		bytes += writes[i].Size()
	}
	for !inv.outbox.hasRoom(bytes) || inv.outbox.items+items > store.MaxBatch {
		inv.awaitFrontLocked(true)
		inv.flushLocked()
	}
}
