package model

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

var _ store.Streamer = (*Store)(nil)

func cloneItem(it store.StreamItem) store.StreamItem {
	it.Payload, it.At = bytes.Clone(it.Payload), micro(it.At)
	return it
}

// checkStream says whether a write can be applied, and whether it was applied before. It changes nothing.
func (r *run) checkStream(l store.Lease, w *store.StreamWrite) (repeated bool, err error) {
	last := int64(0)
	for i := range r.items {
		it := &r.items[i]
		switch {
		case !r.sameWriter(it, w) || it.Epoch != r.Epoch:
		case it.Attempt > w.Attempt:
			return false, store.SupersededAttempt(l, w)
		case it.Attempt == w.Attempt:
			last = it.Number
		}
	}
	switch {
	case w.First > last+1:
		return false, store.ItemsMissing(l, w, last)
	case w.Last() <= last:
		return true, nil
	case w.First <= last:
		return false, store.Invalid("stream", "some of the items are stored, and others are not")
	}
	return false, nil
}

// sameWriter reports whether a write is of the step, stream and generation of an item.
func (r *run) sameWriter(it *store.StreamItem, w *store.StreamWrite) bool {
	return it.Stream == w.Stream && it.Step == w.Step && it.Generation == r.Generation
}

// afterWrites returns the items as they are once the writes are applied.
func (r *run) afterWrites(writes []store.StreamWrite, now time.Time) (items []store.StreamItem, next int64) {
	items, next = slices.Clone(r.items), r.position
	for i := range writes {
		w := &writes[i]
		n := len(items)
		items = slices.DeleteFunc(items, func(it store.StreamItem) bool {
			return r.sameWriter(&it, w) && (it.Epoch != r.Epoch || it.Attempt != w.Attempt)
		})
		reset := len(items) < n
		for k, payload := range w.Items {
			next++
			items = append(items, cloneItem(store.StreamItem{
				Position: next, Stream: w.Stream, Step: w.Step, Attempt: w.Attempt, Epoch: r.Epoch, Generation: r.Generation, Number: w.First + int64(k),
				Reset: reset && k == 0, At: now, Payload: payload,
			}))
		}
	}
	return items, next
}

// boundStreams checks the bounds.
func boundStreams(items []store.StreamItem) error {
	total := 0
	for i := range items {
		total += len(items[i].Payload)
	}
	return store.CheckStreams(int64(len(items)), int64(total))
}

// planStreams checks the writes of a commit and returns those that change something.
func (r *run) planStreams(c *store.Commit, now time.Time) (fresh []store.StreamWrite, err error) {
	for _, w := range c.Streams {
		repeated, err := r.checkStream(c.Lease, &w)
		switch {
		case errors.Is(err, store.ErrInvalid):
			return nil, err
		case err != nil:
			return nil, store.Invalid("streams", err.Error())
		case !repeated:
			fresh = append(fresh, w)
		}
	}
	items, _ := r.afterWrites(fresh, now)
	return fresh, boundStreams(items)
}

// write applies the writes of a commit that change something.
func (s *Store) write(r *run, c *store.Commit, fresh []store.StreamWrite, now time.Time) {
	if len(c.Streams) > 0 {
		r.items, r.position = r.afterWrites(fresh, now)
		s.hintRun(store.HintStream, r)
	}
}

// Append implements [store.Streamer].
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	if err := s.enter(ctx, p.Validate(s.limits)); err != nil {
		return store.AppendResult{}, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Lease.Run)
	if r == nil || r.Epoch != p.Lease.Epoch || r.holder != p.Lease.Worker || !r.leased() {
		return store.AppendResult{}, leaseLost(p.Lease)
	}
	repeated, err := r.checkStream(p.Lease, &p.StreamWrite)
	if err != nil || repeated {
		return store.AppendResult{Repeated: repeated}, err
	}
	items, next := r.afterWrites([]store.StreamWrite{p.StreamWrite}, clock(p.Now))
	if err := boundStreams(items); err != nil {
		return store.AppendResult{}, err
	}
	r.items, r.position = items, next
	s.hintRun(store.HintStream, r)
	return store.AppendResult{}, nil
}

// ReadStream implements [store.Streamer].
func (s *Store) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.StreamPage{}, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return store.StreamPage{}, notFound(p.Run)
	}
	limit, _ := store.Page(p.Limit)
	var out []store.StreamItem
	total := 0
	for _, it := range r.items {
		if it.Position <= p.After || p.Stream != "" && it.Stream != p.Stream {
			continue
		}
		total += len(it.Payload)
		if len(out) == limit || len(out) > 0 && total > p.Bytes() {
			return p.PageOf(out, true, r.Status), nil
		}
		out = append(out, cloneItem(it))
	}
	return p.PageOf(out, false, r.Status), nil
}
