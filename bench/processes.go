package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

const (
	trickle    = 50 // starts a second
	trickleFor = 10 * time.Second
)

// envReport makes a worker process print what it did as it ends.
const envReport = "PAWL_BENCH_REPORT"

// did is what a worker process did.
type did struct {
	Claims, Empty int64
	CPU           time.Duration
}

// counting counts claims.
type counting struct {
	*postgres.Store
	claims, empty atomic.Int64
	before        atomic.Int64 // CPU that the process had used when it was at rest
}

// atRest takes down what the start of the process has used.
func (c *counting) atRest() {
	if used, err := usedCPU(); err == nil {
		c.before.Store(int64(used))
	}
}

func usedCPU() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}

func (c *counting) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	res, err := c.Store.Claim(ctx, p)
	if p.Wanted() > 0 {
		c.claims.Add(1)
		if len(res.Runs) == 0 {
			c.empty.Add(1)
		}
	}
	return res, err
}

func (c *counting) report() error {
	used, err := usedCPU()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(did{c.claims.Load(), c.empty.Load(), used - time.Duration(c.before.Load())})
}

// processes measures one to eight worker processes of 100 slots, and a further process that
// starts runs of three steps.
func (b *bench) processes(ctx context.Context, srv *server) error {
	for range b.reps {
		for _, n := range upTo(b.scale, 1, 2, 4, 8) {
			for _, l := range []struct {
				name string
				do   func(context.Context, *subject) (load, error)
			}{
				{"50 starts a second", trickled},
				{"bulk start", b.bulkStarted},
				{"backlog", b.backlogged},
			} {
				if b.curve != "" && !strings.Contains(l.name, b.curve) {
					continue
				}
				if err := b.crewOf(ctx, srv, n, l.name, l.do); err != nil {
					return fmt.Errorf("%d processes, %s: %w", n, l.name, err)
				}
			}
		}
	}
	return nil
}

// crewOf measures a load on n worker processes.
func (b *bench) crewOf(ctx context.Context, srv *server, n int, name string, do func(context.Context, *subject) (load, error)) error {
	schema, drop := srv.schema()
	defer drop()
	st, err := srv.open(ctx, schema, 8)
	if err != nil {
		return err
	}
	s := newSubject(st)
	defer s.close()
	outs := make([]bytes.Buffer, n)
	stops := make([]func(), n)
	for i := range n {
		if stops[i], err = startWorkerOf(srv.url+" "+schema, &outs[i], envReport+"=1"); err != nil {
			return err
		}
	}
	if err := s.online(ctx, n); err != nil {
		return err
	}
	before, err := srv.cpu(ctx)
	if err != nil {
		return err
	}
	l, err := do(ctx, s)
	if err != nil {
		return err
	}
	after, err := srv.cpu(ctx)
	if err != nil {
		return err
	}
	var sum did
	var wg sync.WaitGroup
	for _, stop := range stops {
		wg.Go(stop)
	}
	wg.Wait()
	for i := range outs {
		var one did
		if err := json.Unmarshal(outs[i].Bytes(), &one); err != nil {
			return fmt.Errorf("the report of worker %d: %w", i+1, err)
		}
		sum.Claims, sum.Empty, sum.CPU = sum.Claims+one.Claims, sum.Empty+one.Empty, sum.CPU+one.CPU
	}
	name = fmt.Sprintf("%s, %d processes: ", name, n)
	if len(l.each) == 0 {
		b.add(name+"runs", "/s", float64(l.runs)/l.took.Seconds())
	} else {
		slices.Sort(l.each)
		b.add(name+"start to result, median", "ms", l.each[len(l.each)/2].Seconds()*1000)
	}
	b.add(name+"claims per run", "", float64(sum.Claims)/float64(l.runs))
	b.add(name+"empty claims", "%", 100*float64(sum.Empty)/float64(max(1, sum.Claims)))
	b.add(name+"CPU of the workers, per run", "us", float64(sum.CPU.Microseconds())/float64(l.runs))
	b.add(name+"CPU of PostgreSQL, per run", "us", float64((after-before).Microseconds())/float64(l.runs))
	return nil
}

// online waits until so many workers have registered, and have been at rest for a moment.
func (s *subject) online(ctx context.Context, n int) error {
	for {
		page, err := s.st.ListWorkers(ctx, store.ListWorkersParams{Namespace: "default"})
		if err != nil {
			return err
		}
		if err := rest(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		if len(page.Workers) == n {
			return rest(ctx, 1500*time.Millisecond) // what senders know of them is as new
		}
	}
}

// load is what a load has taken.
type load struct {
	runs int
	took time.Duration
	each []time.Duration // from start to result
}

// trickled starts runs at an even pace.
func trickled(ctx context.Context, s *subject) (load, error) {
	n := int(trickleFor.Seconds() * trickle)
	took := make([]time.Duration, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / trickle)
	defer tick.Stop()
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return load{}, ctx.Err()
		}
		wg.Go(func() {
			from := time.Now()
			h, err := threeStep.Start(ctx, s.eng, i)
			if err == nil {
				_, err = h.Result(ctx)
			}
			took[i], errs[i] = time.Since(from), err
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return load{}, err
		}
	}
	return load{runs: n, each: took}, nil
}

func (b *bench) bulkStarted(ctx context.Context, s *subject) (load, error) {
	from := time.Now()
	err := s.bulk(ctx, threeStep, b.runs, true)
	return load{runs: b.runs, took: time.Since(from)}, err
}

// backlogged has the workers wait until all runs are there.
func (b *bench) backlogged(ctx context.Context, s *subject) (load, error) {
	queue := store.PauseTargetParams{Namespace: "default", Queue: threeStep.Queue()}
	if err := s.st.PauseTarget(ctx, queue); err != nil {
		return load{}, err
	}
	handles, err := threeStep.StartMany(ctx, s.eng, make([]workflow.Each[int], b.runs))
	if err != nil {
		return load{}, err
	}
	queue.Resume = true
	if err := s.st.PauseTarget(ctx, queue); err != nil {
		return load{}, err
	}
	from := time.Now()
	_, err = workflow.Results(ctx, handles)
	return load{runs: b.runs, took: time.Since(from)}, err
}

// cpu is what the server's processes that are there have used.
func (s *server) cpu(ctx context.Context) (time.Duration, error) {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE pid<>pg_backend_pid()`)
	if err != nil {
		return 0, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum, nil
}
