package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Stream returns the items of a stream of a run with a Position above after, in order, as they appear, until the
// run is final. An empty name means all streams of the run. Most programs use the typed [workflow.Stream].
//
// Items are announced by hints of the store. Without hints, and in case one is lost, the store is polled.
// The last pair has the error, if there is one: store.ErrNotFound; store.ErrUnsupported if the store has no
// streams; store.ErrInvalid, also on a view inside a transaction; [ErrClosed]; the context's error. While the
// store cannot be reached, Stream waits.
//
// [workflow.Stream]: https://pkg.go.dev/github.com/pawlhq/pawl/workflow#Stream
func (e *Engine) Stream(ctx context.Context, run store.ID, name string, after int64) iter.Seq2[store.StreamItem, error] {
	return func(yield func(store.StreamItem, error) bool) {
		fail := func(err error) { yield(store.StreamItem{}, fmt.Errorf("stream %q of run %s: %w", name, run, err)) }
		if e.fault != nil {
			fail(e.fault)
			return
		}
		if e.root != nil {
			fail(store.Invalid("reading a stream", "it is not possible inside a transaction; read after the transaction has committed"))
			return
		}
		w := e.watches.add(run)
		defer e.watches.remove(w)
		least, most := waitPollMin, waitPollMax
		if store.Able(e.store, store.Hints) {
			least, most = hintedPollMin, hintedPollMax
		}
		if e.poll > 0 {
			least, most = min(least, e.poll), e.poll
		}
		poll := least
		timer := time.NewTimer(poll)
		defer timer.Stop()
		for {
			page, err := e.ReadStream(ctx, store.ReadStreamParams{Run: run, Stream: name, After: after, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes})
			switch {
			case err != nil && ctx.Err() == nil && (store.Retryable(err) || errors.Is(err, context.DeadlineExceeded)):
				e.log.Warn("failed to read a stream; retrying", "run", run.String(), "stream", name, "error", err)
			case err != nil:
				fail(err)
				return
			}
			for _, it := range page.Items {
				if after = it.Position; !yield(it, nil) {
					return
				}
			}
			switch {
			case page.Next != 0:
				continue
			case err == nil && page.Closed():
				return
			case len(page.Items) > 0:
				poll = least
			}
			timer.Reset(poll)
			select {
			case <-w.news:
			case <-timer.C:
				poll = min(2*poll, most)
			case <-ctx.Done():
				fail(ctx.Err())
				return
			case <-e.ctx.Done():
				fail(ErrClosed)
				return
			}
		}
	}
}

// ReadStream reads a page of the items of a stream of a run, or of all its streams: see
// [store.Streamer.ReadStream]. The Namespace of p is ignored. It fails with store.ErrUnsupported if the store has no
// streams.
func (e *Engine) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	if !store.Able(e.store, store.Streams) {
		return store.StreamPage{}, fmt.Errorf("the store is a %s, which has no streams: %w", e.store.Features().Name, store.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	p.Namespace = e.namespace
	return e.store.(store.Streamer).ReadStream(ctx, p)
}
