package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Hints implements store.Hinter. What this store writes is told precisely and at
// once; what another process writes is seen within 50 ms, as "look again".
func (s *Store) Hints(ctx context.Context) (<-chan []store.Hint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.poller.join(ctx); err != nil {
		return nil, err
	}
	return s.hub.Subscribe(ctx)
}

// A poller looks for other processes' writes while anybody listens.
type poller struct {
	store *Store

	mu        sync.Mutex
	listeners int
	quit      context.CancelFunc // ends the goroutine
	running   sync.WaitGroup
}

const (
	pollSoon   = 10 * time.Millisecond
	pollSeldom = 50 * time.Millisecond
)

// join counts a listener until ctx is done, and starts the goroutine for the
// first. What is written after join returns is seen.
func (p *poller) join(ctx context.Context) error {
	if p.store.config.memory {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == 0 {
		version, err := p.store.runner.dataVersion(ctx, true)
		if err != nil {
			return err
		}
		polling, quit := context.WithCancel(context.Background())
		p.quit = quit
		p.running.Go(func() { p.poll(polling, version) })
	}
	p.listeners++
	context.AfterFunc(ctx, p.leave)
	return nil
}

func (p *poller) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners--; p.listeners == 0 {
		p.quit()
	}
}

func (p *poller) wait() { p.running.Wait() }

func (p *poller) poll(ctx context.Context, last int64) {
	r := p.store.runner
	timer := time.NewTimer(pollSoon)
	defer timer.Stop()
	for delay := pollSoon; ; timer.Reset(delay) {
		select {
		case <-ctx.Done():
			return
		case <-r.done:
			return
		case <-timer.C:
		}
		version, err := r.dataVersion(ctx, false)
		if err != nil || version == last || version == 0 {
			delay = min(delay+delay/4, pollSeldom)
			continue
		}
		last, delay = version, pollSoon
		p.store.hub.Publish(store.Hint{Kind: store.HintRescan})
	}
}

// dataVersion is a number that changes when another connection has written. It is
// asked on the writer, whose own commits do not change it. Unless wait is set,
// a writer at work is not waited for: 0.
func (r *runner) dataVersion(ctx context.Context, wait bool) (version int64, err error) {
	var c *conn
	if wait {
		if c, err = r.take(ctx, r.writer); err != nil {
			return 0, err
		}
	} else {
		select {
		case c = <-r.writer:
		default:
			return 0, nil
		}
	}
	defer func() { r.writer <- c }()
	stmt, err := c.prepare("PRAGMA data_version")
	if err == nil {
		err = stmt.GetContext(background, &version)
	}
	return version, classify(err)
}
