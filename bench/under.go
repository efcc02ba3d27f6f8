package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	pawllimit "github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// under is a load of three-step runs under a limit, or under none.
type under struct {
	name    string
	options []workflow.Option
	slots   int // of each worker
	workers int
	part    int  // of the runs, one in so many
	bare    bool // without the triggers of limits
}

func unders() []under {
	key := func(n int) func(int) string { return func(in int) string { return strconv.Itoa(in % n) } }
	all := []workflow.Option{workflow.Under(pawllimit.New("all", pawllimit.Concurrency(1000)))}
	one := func() []workflow.Option {
		return []workflow.Option{workflow.Under(pawllimit.New("one", pawllimit.Concurrency(1)))}
	}
	return []under{
		{name: "under limits: none", slots: 1000, workers: 1, part: 1},
		{name: "under limits: none, triggers of limits dropped", slots: 1000, workers: 1, part: 1, bare: true},
		{name: "under limits: one of 1,000 without a key", options: all, slots: 1000, workers: 1, part: 1},
		{name: "under limits: one of 10 with 10,000 keys", options: []workflow.Option{workflow.UnderKey(pawllimit.New("keys", pawllimit.Concurrency(10)), key(10_000))}, slots: 1000, workers: 1, part: 1},
		{name: "under limits: none, a worker of 500 slots", slots: 500, workers: 1, part: 1},
		{name: "under limits: one of 1,000, a worker of 500 slots", options: all, slots: 500, workers: 1, part: 1},
		{name: "under limits: none, a worker of one slot", slots: 1, workers: 1, part: 10},
		{name: "under limits: one of 1, a worker", options: one(), slots: 1000, workers: 1, part: 10},
		{name: "under limits: one of 1, eight workers", options: one(), slots: 1000, workers: 8, part: 10},
	}
}

// limited measures limits if they are asked for.
func (b *bench) limited(ctx context.Context, at *site) error {
	if b.only == "limits" {
		if err := b.underLimits(ctx, at); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	if b.only == "fairness" {
		if err := b.fairness(ctx, at); err != nil {
			return fmt.Errorf("fairness: %w", err)
		}
	}
	return nil
}

// underLimits measures what limits cost: runs a second, end to end, each load on a database of its own, in turns. The
// workers have started, and a first run has ended, when the time begins.
func (b *bench) underLimits(ctx context.Context, at *site) error {
	loads := unders()
	if len(b.rows) > 0 && len(b.row(loads[0].name, "/s").Pawl)%2 == 1 {
		slices.Reverse(loads)
	}
	for _, u := range loads {
		n := max(10, b.runs/u.part)
		took, err := u.run(ctx, at, n)
		if err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
		b.add(u.name, "/s", float64(n)/took.Seconds())
	}
	return nil
}

func (u *under) run(ctx context.Context, at *site, n int) (time.Duration, error) {
	place, leave, err := at.place()
	if err != nil {
		return 0, err
	}
	defer leave()
	w := workflow.New("limited", steps3, u.options...)
	var subjects []*subject
	defer func() {
		for _, s := range subjects {
			s.close()
		}
	}()
	for range u.workers {
		s, err := at.open(ctx, place)
		if err != nil {
			return 0, err
		}
		subjects = append(subjects, s)
	}
	if u.bare {
		if err := at.withoutLimits(ctx, place); err != nil {
			return 0, err
		}
	}
	if err := subjects[0].know(ctx, w); err != nil {
		return 0, err
	}
	for _, s := range subjects {
		if err := s.work(ctx, u.slots, w); err != nil {
			return 0, err
		}
	}
	first, err := w.Start(ctx, subjects[0].eng, 0)
	if err != nil {
		return 0, err
	}
	if _, err := first.Result(ctx); err != nil {
		return 0, err
	}
	from := time.Now()
	each := make([]workflow.Each[int], n)
	for i := range each {
		each[i].In = i
	}
	handles, err := w.StartMany(ctx, subjects[0].eng, each)
	if err != nil {
		return 0, err
	}
	_, err = workflow.Results(ctx, handles)
	return time.Since(from), err
}

// withoutLimits drops the triggers of limits, and on PostgreSQL the index of the runs under limits. On SQLite this index
// stays, because statements name it. It has no entries in loads under no limit.
func (at *site) withoutLimits(ctx context.Context, place string) error {
	drops := []string{
		`DROP TRIGGER runs_limit_insert`, `DROP TRIGGER runs_limit_left`, `DROP TRIGGER runs_limit_came`,
		`DROP TRIGGER runs_limit_ended`, `DROP TRIGGER runs_limit_step_ended`,
	}
	if at.wal != nil { // PostgreSQL
		drops = []string{
			`DROP TRIGGER limit_came ON pawl.runs`, `DROP TRIGGER limit_changed ON pawl.runs`, `DROP TRIGGER limit_gone ON pawl.runs`,
			`DROP INDEX pawl.runs_flow`,
		}
	}
	for _, sql := range drops {
		if err := at.raw(ctx, place, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// The load of the fairness test.
const (
	fairSlots = 8
	fairWork  = 5 * time.Millisecond
	fairSmall = 99 // tenants that start a run now and then
	fairBusy  = 9  // tenants beside the largest that always have runs
)

// fairness measures what a tenant with very many runs does to others under a fair limit: how long the
// runs of small tenants wait for their first line, beside it and alone, and how even the shares of busy
// tenants are, as Jain's index: 1 if all have the same.
func (b *bench) fairness(ctx context.Context, at *site) error {
	for _, big := range []int{0, b.crowd} {
		place, leave, err := at.place()
		if err != nil {
			return err
		}
		err = b.fair(ctx, at, place, big)
		leave()
		if err != nil {
			return err
		}
	}
	return nil
}

// visit is the input of a run of a tenant.
type visit struct {
	Tenant string
	At     int64 // when it was started, in microseconds; 0: not measured
}

// tenants counts what the runs of tenants get.
type tenants struct {
	mu    sync.Mutex
	runs  map[string]int
	waits []float64 // in milliseconds
}

func (b *bench) fair(ctx context.Context, at *site, place string, big int) error {
	s, err := at.open(ctx, place)
	if err != nil {
		return err
	}
	defer s.close()
	seen := tenants{runs: map[string]int{}}
	w := workflow.New("visit", func(ctx workflow.Context, v visit) (int, error) {
		return 1, workflow.Do(ctx, "visit", func(context.Context) error {
			seen.mu.Lock()
			seen.runs[v.Tenant]++
			if v.At > 0 {
				seen.waits = append(seen.waits, float64(time.Now().UnixMicro()-v.At)/1000)
			}
			seen.mu.Unlock()
			time.Sleep(fairWork)
			return nil
		})
	}, workflow.UnderKey(pawllimit.New("tenant", pawllimit.Fair()), func(v visit) string { return v.Tenant }))
	if err := s.st.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: "default", Workflows: []store.Workflow{{Name: w.Name(), Queue: w.Queue()}}}); err != nil {
		return err
	}
	from := time.Now()
	if err := fill(ctx, s, w, "big", big); err != nil {
		return err
	}
	name := "fairness: small tenants alone"
	if big > 0 {
		name = "fairness: small tenants beside one with very many runs"
		b.add("fairness: runs of the large tenant", "runs", float64(big))
		b.add("fairness: their starts", "/s", float64(big)/time.Since(from).Seconds())
	}
	if err := s.work(ctx, fairSlots, w); err != nil {
		return err
	}
	from = time.Now()
	h, err := w.Start(ctx, s.eng, visit{Tenant: "first"})
	if err == nil {
		_, err = h.Result(ctx) // now claims have caught up with what was started
	}
	if err != nil {
		return err
	}
	if big > 0 {
		b.add("fairness: until the first run beside them has ended", "s", time.Since(from).Seconds())
	}
	if err := b.smallTenants(ctx, s, w, &seen, name); err != nil || big == 0 {
		return err
	}
	return b.busyTenants(ctx, s, w, &seen, big)
}

// fill starts runs of a tenant.
func fill(ctx context.Context, s *subject, w *workflow.Workflow[visit, int], tenant string, n int) error {
	for n > 0 {
		part := min(n, 20_000)
		each := make([]workflow.Each[visit], part)
		for i := range each {
			each[i].In.Tenant = tenant
		}
		if _, err := w.StartMany(ctx, s.eng, each); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// smallTenants measures the waits of tenants that start a run now and then.
func (b *bench) smallTenants(ctx context.Context, s *subject, w *workflow.Workflow[visit, int], seen *tenants, name string) error {
	for i := range b.samples {
		if _, err := w.Start(ctx, s.eng, visit{fmt.Sprint("small-", i%fairSmall), time.Now().UnixMicro()}); err != nil {
			return err
		}
		if err := rest(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	for seen.measured() < b.samples {
		if err := rest(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	slices.Sort(seen.waits)
	b.add(name+", p50", "ms", seen.waits[len(seen.waits)/2])
	b.add(name+", p99", "ms", seen.waits[len(seen.waits)*99/100])
	return nil
}

// busyTenants compares the shares of tenants that always have runs, of which one has big.
func (b *bench) busyTenants(ctx context.Context, s *subject, w *workflow.Workflow[visit, int], seen *tenants, big int) error {
	backlog := b.samples * 2
	for i := range fairBusy {
		if err := fill(ctx, s, w, fmt.Sprint("busy-", i), backlog); err != nil {
			return err
		}
	}
	before := seen.counts()
	for {
		if err := rest(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		after := seen.counts()
		var sum, squares float64
		for tenant, n := range after {
			if got := float64(n - before[tenant]); tenant[0] == 'b' { // big and busy
				sum, squares = sum+got, squares+got*got
			}
		}
		if sum >= float64(backlog*(1+fairBusy)/2) || after["big"] >= big {
			b.add("fairness: Jain's index of ten busy tenants", "", sum*sum/squares/(1+fairBusy))
			return nil
		}
	}
}

func (t *tenants) measured() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waits)
}

func (t *tenants) counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := make(map[string]int, len(t.runs))
	for tenant, n := range t.runs {
		m[tenant] = n
	}
	return m
}
