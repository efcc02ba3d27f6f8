package api

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

// readStream reads a page of the items of a run's streams. If there are none yet, it may wait for the first
// one.
func readStream(c *call, q *wire.ReadStream) (out wire.StreamPage, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	wait, err := waitFor(q.Wait)
	if err != nil {
		return out, err
	}
	p := store.ReadStreamParams{Run: id, Stream: q.Name, After: q.After, Limit: q.Limit, MaxBytes: answerBytes}
	page, err := c.eng.ReadStream(c.ctx, p)
	if err == nil && len(page.Items) == 0 && !page.Closed() && wait > 0 {
		if err = c.waitForItem(&p, wait); err == nil {
			page, err = c.eng.ReadStream(c.ctx, p)
		}
	}
	if err != nil {
		return out, err
	}
	out.Items = each(page.Items, func(it *store.StreamItem) wire.StreamItem {
		return wire.StreamItem{
			Position: it.Position, Stream: it.Stream, Step: it.Step.String(), Attempt: it.Attempt, Generation: it.Generation, Reset: it.Reset,
			At: asTime(it.At), Payload: c.payload(it.Payload, q.MaxPayload),
		}
	})
	out.After, out.Ended = q.After, page.Closed()
	if n := len(page.Items); n > 0 {
		out.After = page.Items[n-1].Position
	}
	return out, nil
}

// waitForItem waits until the stream has a further item, the run has ended, or the time is over.
func (c *call) waitForItem(p *store.ReadStreamParams, wait time.Duration) error {
	if !c.s.streams.enter(c.s.maxStreams) {
		return tooManyStreams(c.s.maxStreams)
	}
	defer c.s.streams.leave()
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	for _, err := range c.eng.Stream(ctx, p.Run, p.Stream, p.After) {
		if errors.Is(err, context.DeadlineExceeded) && c.ctx.Err() == nil {
			return nil
		}
		return cmp.Or(err, c.ctx.Err())
	}
	return nil
}
