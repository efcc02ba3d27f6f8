package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// A trial is one engine in one scenario, once.
type trial struct {
	*Options
	engine   *engine
	scenario *scenario
	url, dir string
	client   client
	jobs     int
	procs    []*process
	killed   map[int]int64 // when, by process id
}

// Trial is what came of one.
type Trial struct {
	Engine, Scenario, Promises string
	Permitted                  int // at one time, or within a second
	Jobs, Processes, Hits      int
	Left                       int // jobs that were not recorded as done in the end
	Wanted                     int // at work at one time of the jobs after that
	Took                       time.Duration
	verdict
}

func (t *trial) run(ctx context.Context) (res Trial, err error) {
	t.dir, err = os.MkdirTemp("", "pawl-peers-")
	if err != nil {
		return res, err
	}
	defer func() { _ = os.RemoveAll(t.dir) }()
	defer t.end()
	from := time.Now()
	if err := t.begin(ctx); err != nil {
		return res, err
	}
	if err := t.hit(ctx); err != nil {
		return res, err
	}
	left, err := t.settle(ctx, 0, t.Wait)
	if err != nil {
		return res, err
	}
	took := time.Since(from)
	if t.scenario.atOnce > 0 {
		if err := t.client.enqueue(ctx, t.scenario.probe()); err != nil {
			return res, err
		}
		if _, err := t.settle(ctx, left, t.Wait); err != nil {
			return res, err
		}
	}
	t.end()
	all, err := readJournals(t.dir)
	return t.result(all, left, took), err
}

func (t *trial) result(all []line, left int, took time.Duration) Trial {
	res := Trial{
		Engine: t.engine.title(), Scenario: t.scenario.name, Promises: t.engine.promises[t.scenario.name],
		Permitted: t.scenario.atOnce, Jobs: t.jobs, Processes: t.engine.processes, Hits: t.Hits, Left: left, Wanted: t.scenario.atOnce, Took: took,
		verdict: t.engine.judge(t.scenario, all, t.killed),
	}
	if t.scenario.perSecond > 0 {
		res.Permitted = t.scenario.perSecond + t.engine.burst
	}
	if t.scenario.byKey {
		res.Wanted = keys
	}
	if t.engine.perProcess {
		res.Wanted *= t.engine.processes
	}
	return res
}

// begin starts the processes and gives them the jobs.
func (t *trial) begin(ctx context.Context) (err error) {
	if err := t.engine.prepare(ctx, t.url); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if t.client, err = t.engine.open(ctx, t.url, t.scenario); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	t.procs, t.killed = make([]*process, t.engine.processes), map[int]int64{}
	for i := range t.procs {
		if err := t.spawn(i); err != nil {
			return err
		}
	}
	for _, p := range t.procs {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return t.client.enqueue(ctx, jobs(t.jobs))
}

func (t *trial) spawn(i int) (err error) {
	t.procs[i], err = spawn(settings{Engine: t.engine.name, Scenario: t.scenario.name, URL: t.url, Dir: t.dir, Index: i})
	return err
}

// hit kills or stops processes, each time when a further share of the jobs is done.
func (t *trial) hit(ctx context.Context) error {
	for i := range t.Hits {
		if _, err := t.settle(ctx, t.jobs*(t.Hits-i)/(t.Hits+1), t.Wait); err != nil {
			return err
		}
		time.Sleep(rand.N(50 * time.Millisecond))
		victim, err := t.victim()
		if err != nil {
			return err
		}
		p := t.procs[victim]
		if !t.scenario.stops {
			t.killed[p.pid()] = p.kill()
			if err := t.spawn(victim); err != nil {
				return err
			}
			continue
		}
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(5 * lease / 2)
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// victim picks a process that is at work, or any process if none is for a while.
func (t *trial) victim() (int, error) {
	for range 100 {
		all, err := readJournals(t.dir)
		if err != nil {
			return 0, err
		}
		underWay := map[int]int{} // by process id
		for _, l := range all {
			if l.To == 0 {
				underWay[l.PID]++
			} else {
				underWay[l.PID]--
			}
		}
		var busy []int
		for i, p := range t.procs {
			if underWay[p.pid()] > 0 {
				busy = append(busy, i)
			}
		}
		if len(busy) > 0 {
			return busy[rand.IntN(len(busy))], nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return rand.IntN(len(t.procs)), nil
}

// settle waits until no more than so many jobs are left, but only so long, and returns how many there are.
func (t *trial) settle(ctx context.Context, want int, wait time.Duration) (left int, err error) {
	for until := time.Now().Add(wait); ; {
		for _, p := range t.procs {
			if p.ended() {
				return 0, fmt.Errorf("a process has ended while it was to work: %v", p.cmd.ProcessState)
			}
		}
		if left, err = t.client.left(ctx); err != nil || left <= want || time.Now().After(until) {
			return left, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

// end ends the processes. It may be called again.
func (t *trial) end() {
	for _, p := range t.procs {
		if p != nil {
			p.stop()
		}
	}
	t.procs = nil
	if t.client != nil {
		t.client.close()
		t.client = nil
	}
}
