package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Hints implements store.Hinter. Writes of this store are reported precisely and at once. Writes of
// other processes are noticed within 50 ms, or some times that while this store always writes, and
// reported as "look again".
func (s *Store) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.poller.join(ctx); err != nil {
		return nil, err
	}
	return s.hub.Subscribe(ctx, topics...)
}

// A poller looks for other processes' writes while there are listeners.
type poller struct {
	store *Store

	mu        sync.Mutex
	listeners int
	quit      context.CancelFunc // stops the goroutine
	running   sync.WaitGroup
}

const (
	pollSoon   = 10 * time.Millisecond
	pollSeldom = 50 * time.Millisecond
	pollsBusy  = 3 // after so many polls in a row that found the writer busy, the next one waits for its turn
)

// join counts a listener until ctx is done, and starts the goroutine for the first one.
// Writes after join returns are noticed.
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
	busy := 0
	for delay := pollSoon; ; timer.Reset(delay) {
		select {
		case <-ctx.Done():
			return
		case <-r.done:
			return
		case <-timer.C:
		}
		version, err := r.dataVersion(ctx, busy == pollsBusy)
		if busy++; err != nil || version != 0 {
			busy = 0
		}
		if err != nil || version == last || version == 0 {
			delay = min(delay+delay/4, pollSeldom)
			continue
		}
		last, delay = version, pollSoon
		p.store.hub.Publish(store.Hint{Kind: store.HintRescan})
	}
}

// dataVersion returns a number that changes when another connection has written. It asks
// the writer, whose own commits do not change the number. Unless wait is set, it does not
// wait for a busy writer and returns 0.
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
