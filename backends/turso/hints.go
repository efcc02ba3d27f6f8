package turso

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Hints implements store.Hinter. Writes of this store are reported precisely and at once. Writes of
// others are found by polling and reported as "look again".
func (s *Store) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.poller.join(ctx); err != nil {
		return nil, err
	}
	return s.hub.Subscribe(ctx, topics...)
}

// publish sends hints to this process and tells the poller that there is activity.
func (s *Store) publish(hints ...store.Hint) {
	for i := range hints {
		if hints[i].Kind == store.HintQueue || hints[i].Kind == store.HintRescan {
			s.Expect()
		}
	}
	s.hub.Publish(hints...)
	s.poller.hurry()
}

// poller asks for the database's count of changes while there are listeners. It sends an empty
// batch, which reads no row. Its pauses grow while nothing happens.
type poller struct {
	store *Store
	wake  chan struct{} // holds one token when something has happened in this process

	mu        sync.Mutex
	closed    bool
	listeners int
	quit      context.CancelFunc // stops the goroutine
	running   sync.WaitGroup
}

// pollSoon is the pause after something has happened; it doubles up to the limit.
const pollSoon = 20 * time.Millisecond

// join counts a listener until ctx is done, and starts the goroutine for the first one. Writes made
// after join returns are noticed.
func (p *poller) join(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == 0 && !p.closed {
		// If the server does not answer now, assume a change once it does.
		if err := p.store.look(ctx); err == nil {
			p.store.changes.seen()
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
		polling, quit := context.WithCancel(context.Background())
		p.quit = quit
		p.running.Go(func() { p.poll(polling) })
	}
	p.listeners++
	context.AfterFunc(ctx, p.leave)
	return nil
}

func (p *poller) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners--; p.listeners == 0 && p.quit != nil {
		p.quit()
	}
}

// close stops the poller.
func (p *poller) close() {
	p.mu.Lock()
	if p.closed = true; p.quit != nil {
		p.quit()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *poller) hurry() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *poller) poll(ctx context.Context) {
	s, delay, deaf := p.store, pollSoon, false
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			if delay > pollSoon {
				delay = pollSoon
				timer.Reset(delay/2 + rand.N(delay))
			}
			continue
		case <-timer.C:
		}
		delay = min(2*delay, s.config.maxSleep)
		var err error
		if !s.changes.told() {
			err = s.look(ctx)
		}
		if err != nil && !deaf && ctx.Err() == nil {
			s.config.logger.Warn("pawl: failed to look for writes of other processes; retrying", "database", s.config.host(), "error", err)
		}
		deaf = err != nil
		if err == nil && s.countless.Load() && delay == s.config.maxSleep {
			s.hub.Publish(store.Hint{Kind: store.HintRescan}) // whether something changed is unknown
		}
		if err == nil && s.changes.foreign() {
			delay = pollSoon
			s.Changed()
			s.hub.Publish(store.Hint{Kind: store.HintRescan})
		}
		timer.Reset(delay/2 + rand.N(delay))
	}
}

// look asks the nearest server for the count of changes.
func (s *Store) look(ctx context.Context) error {
	now, err := s.runner.version(ctx, false)
	if err == nil && now == nil {
		s.uncounted.Do(func() {
			s.config.logger.Info("pawl: this server does not count changes; polling for writes of other processes",
				"database", s.config.host(), "every", s.config.maxSleep)
		})
	}
	if err == nil {
		s.countless.Store(now == nil)
		s.changes.saw(now)
	}
	return err
}

// version returns the count of changes as the primary knows it. It returns 0 until a write of this
// store has shown that the server counts changes.
func (s *Store) version(ctx context.Context) (uint64, time.Time, error) {
	now, _, err := s.runner.bounds(ctx)
	if err != nil {
		return 0, now, err
	}
	v, err := s.runner.version(ctx, true)
	if err != nil || v == nil || !s.changes.counts.Load() {
		return 0, now, err
	}
	return uint64(*v), time.UnixMicro(now.UnixMicro()).UTC(), nil
}

// seen returns the last known count of changes.
func (s *Store) seen() uint64 {
	c := s.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.now)
}

// version asks for the count of changes. It runs no statement and so reads no row; the server
// counts one row for each statement that it runs.
func (r *runner) version(ctx context.Context, primary bool) (*index, error) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	look := func(on *stream, primary bool) *pipeline {
		p := newPipeline(on, nil)
		p.batch(func() {
			if primary {
				p.step(inTransaction, forwarded, false)
			}
		})
		return p
	}
	var a *answer
	var err error
	if primary {
		a, err = r.client.readThrough(bounded, look)
	} else {
		a, err = r.client.send(bounded, func(on *stream) *pipeline { return look(on, false) })
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, failure(err, false)
	}
	if a.Results[0].Type == "error" {
		return nil, classify(a.Results[0].Error)
	}
	return a.Results[0].Response.Result.Index, nil
}

// changes distinguishes the changes of other processes from this store's own, by comparing the
// database's count of changes before and after each of this store's writes.
type changes struct {
	counts atomic.Bool // the count has increased with a write

	mu     sync.Mutex
	known  index           // changes of others up to here have been reported
	now    index           // the last known count
	looked index           // the count at the last look
	fresh  bool            // now comes from a write, so that no look is needed
	mine   map[index]index // own writes: the count before, and the count after
	flying int             // own writes whose answer has not arrived yet
	gap    bool            // a change may have come from another process
}

// begin adds n to the writes in progress; n is negative when writes have ended.
func (c *changes) begin(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying += n
}

// own records a write of this store.
func (c *changes) own(before, behind *index) {
	if before == nil || behind == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if *behind <= c.known || *behind <= *before {
		return
	}
	c.counts.Store(true)
	if c.mine == nil || len(c.mine) > 4096 { // there was no look for a long time
		c.mine = map[index]index{}
	}
	c.mine[*before] = *behind
	c.now, c.fresh = max(c.now, *behind), true
}

// saw records the count of changes.
func (c *changes) saw(now *index) {
	if now == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if *now < c.looked { // another database, or one that was restored
		c.known, c.now = 0, *now
	}
	c.looked, c.now = *now, max(c.now, *now)
}

// seen marks all changes so far as reported.
func (c *changes) seen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = c.now
	clear(c.mine)
}

// told reports whether a write has returned the count since the last look.
func (c *changes) told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.fresh
	c.fresh = false
	return fresh
}

// foreign reports whether other processes have written since the last look.
func (c *changes) foreign() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.known < c.now {
		behind, mine := c.mine[c.known]
		if !mine {
			break
		}
		delete(c.mine, c.known)
		c.known = behind
	}
	if c.known >= c.now { // or own writes that the look has not seen yet
		c.gap = false
		return false
	}
	if c.flying > 0 && !c.gap {
		c.gap = true // the next look decides
		return false
	}
	c.known, c.gap = c.now, false
	for before := range c.mine {
		if before < c.known {
			delete(c.mine, before)
		}
	}
	return true
}
