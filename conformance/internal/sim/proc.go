package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
)

// proc is a process: an engine and a worker with a wire of their own.
type proc struct {
	world  *world
	wire   *wire
	eng    *engine.Engine
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	thawed chan struct{} // nil: it is not stopped
}

func (w *world) newProc(slot, n int, r *rand.Rand) *proc {
	who := fmt.Sprintf("p%d.%d", slot, n)
	p := &proc{world: w, wire: newWire(w, who, uint64(slot)<<10|uint64(n)), done: make(chan struct{})}
	switch {
	case w.crashAt != nil && n == 0:
		p.wire.crash = w.crashAt
	case r.IntN(100) < w.profile.crashing:
		verb := [...]string{"claim", "claim", "commit", "commit", "commit", "create", "extend", "put-worker"}[r.IntN(8)]
		p.wire.crash = &crashPoint{verb: verb, call: uint64(r.IntN(12)), after: r.IntN(2) == 0}
	}
	p.eng = engine.New(p.wire, engine.Namespace(namespace), engine.Logger(quiet), engine.RetryFor(w.profile.retryFor))
	wk := worker.New(p.eng, worker.ID(who), worker.Concurrency(w.profile.slots[slot]), worker.Lease(w.profile.lease),
		worker.Poll(w.profile.poll), worker.Park(w.profile.park), worker.Grace(w.profile.grace), worker.MaxCrashes(w.profile.maxCrashes))
	if err := wk.Register(p.definitions()...); err != nil {
		w.fail("register: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	if w.outbox != nil {
		w.wg.Go(func() { p.send(ctx) })
	}
	go func() {
		defer close(p.done)
		if err := wk.Run(ctx); err != nil {
			w.fail("worker %s: %v", who, err)
		}
		p.eng.Close()
	}()
	go func() {
		select {
		case <-p.wire.cut:
			cancel() // lets its goroutines end; nothing of it reaches the store
			p.eng.Close()
		case <-p.done:
		}
	}()
	w.note(who, "begins")
	return p
}

// kill ends the process as kill -9 would.
func (p *proc) kill() {
	p.world.note(p.wire.who, "killed")
	p.wire.set(wireCut)
}

func (p *proc) dead() bool { return p.wire.isCut() }

// haunt holds back what a dead process would no longer do, until the checks are over.
func (p *proc) haunt() { <-p.world.over }

// freeze stops the process where it is: its calls hang and its steps wait.
func (p *proc) freeze() {
	p.wire.set(wireHangs)
	p.mu.Lock()
	p.thawed = make(chan struct{})
	p.mu.Unlock()
}

func (p *proc) thaw() {
	p.mu.Lock()
	if p.thawed != nil {
		close(p.thawed)
		p.thawed = nil
	}
	p.mu.Unlock()
	p.wire.set(wireUp)
}

// still returns when the process is not stopped.
func (p *proc) still() {
	p.mu.Lock()
	thawed := p.thawed
	p.mu.Unlock()
	if thawed != nil {
		<-thawed
	}
	if p.dead() {
		p.haunt()
	}
}

// work is what a step does.
func (p *proc) work(ctx context.Context, d time.Duration, heeds bool) error {
	p.still()
	defer p.still()
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	var ended <-chan struct{}
	if heeds {
		ended = ctx.Done()
	}
	select {
	case <-t.C:
	case <-ended:
		return ctx.Err()
	case <-p.wire.cut:
		p.haunt()
	}
	return nil
}

// slot is a place for one process after another.
type slot struct {
	world *world
	n     int

	mu    sync.Mutex
	all   []*proc
	alive bool
}

// current returns the process in the slot, or nil if it is dead.
func (s *slot) current() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alive {
		return nil
	}
	return s.all[len(s.all)-1]
}

func (s *slot) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func (s *slot) begin(r *rand.Rand) *proc {
	p := s.world.newProc(s.n, len(s.all), r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.alive = append(s.all, p), true
	return p
}

func (s *slot) gone() {
	s.mu.Lock()
	s.alive = false
	s.mu.Unlock()
}

// live keeps a process in the slot, and applies faults to it until all faults end.
func (s *slot) live() {
	w := s.world
	r := w.rng("slot", s.n)
	lease := w.profile.lease
	upTo := func(d time.Duration) time.Duration { return time.Duration(float64(d) * r.Float64()) }
	p := s.begin(r)
	for {
		var event <-chan time.Time
		if w.profile.events > 0 {
			t := time.NewTimer(upTo(2 * w.profile.events))
			defer t.Stop()
			event = t.C
		}
		gap := lease / 10
		select {
		case <-w.healed:
			for { // a crash may still be on its way
				select {
				case <-w.ctx.Done():
					return
				case <-p.wire.cut:
					p = s.begin(r)
				}
			}
		case <-p.wire.cut:
			w.count("killed")
			gap = upTo(lease)
		case <-event:
			switch r.IntN(7) {
			case 0, 1:
				p.kill()
				w.count("killed")
				gap = upTo(lease)
			case 2, 3:
				w.count("stopped and woken")
				w.note(p.wire.who, "stands still")
				p.freeze()
				s.pause(upTo(3 * lease))
				w.note(p.wire.who, "goes on")
				p.thaw()
				continue
			case 4:
				w.count("outage")
				w.note(p.wire.who, "cannot reach the store")
				p.wire.set(wireDown)
				s.pause(upTo(2 * lease))
				p.wire.set(wireUp)
				w.note(p.wire.who, "reaches the store again")
				continue
			case 5:
				w.count("outage of all")
				w.note("world", "outage")
				s.outage(wireDown, upTo(lease))
				w.note("world", "the store is back")
				continue
			case 6:
				w.count("shut down")
				w.note(p.wire.who, "shuts down")
				p.cancel()
				select {
				case <-p.done:
				case <-p.wire.cut:
				}
				p.wire.set(wireCut)
			}
		}
		if w.quick {
			gap = time.Second
		}
		s.gone()
		s.pause(gap)
		p = s.begin(r)
	}
}

// outage makes the store unreachable for all processes.
func (s *slot) outage(state wireState, d time.Duration) {
	var hit []*proc
	for _, other := range s.world.procs {
		if p := other.current(); p != nil {
			p.wire.set(state)
			hit = append(hit, p)
		}
	}
	s.pause(d)
	for _, p := range hit {
		p.thaw()
	}
}

func (s *slot) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.world.healed:
	}
}

func (s *slot) stop() {
	for _, p := range s.all {
		p.cancel()
	}
}

func (s *slot) wait() {
	for _, p := range s.all {
		<-p.done
	}
}
