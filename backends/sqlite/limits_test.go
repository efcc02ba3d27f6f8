package sqlite_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

// naive chooses runs as the contract says (P7 with limits), over a list of all runs.
type naive struct {
	now    int64
	rules  map[string]store.LimitRule
	runs   map[store.ID]*naiveRun
	tat    map[store.LimitUse]int64 // by limit and key
	vtime  map[store.LimitUse]int64
	weight map[store.LimitUse]int64
	clock  map[string]int64
	paused map[string]bool // workflows
}

type naiveRun struct {
	store.Run
	at     int64 // VisibleAt; below zero: none
	leased bool
	drawn  bool
	lease  store.Lease
	seq    int64
}

func of(u store.LimitUse) store.LimitUse { u.Tokens = 0; return u }

func (m *naive) uses(r *naiveRun) []store.LimitUse {
	var out []store.LimitUse
	for _, u := range r.Under {
		if r.drawn {
			u.Tokens = 0
		}
		out = append(out, u)
	}
	return append(out, r.StepUnder...)
}

func (m *naive) held(k store.LimitUse) (n int64) {
	for _, r := range m.runs {
		if r.leased && slices.ContainsFunc(m.uses(r), func(u store.LimitUse) bool { return of(u) == k }) {
			n++
		}
	}
	return n
}

func (m *naive) permitted(r *naiveRun) bool {
	if r.leased {
		return true
	}
	for _, u := range m.uses(r) {
		rule := m.rules[u.Limit]
		if rule.Concurrency > 0 && m.held(of(u)) >= rule.Concurrency {
			return false
		}
		if e := rule.Every(); e > 0 && u.Tokens > 0 && max(m.tat[of(u)], m.now)+min(u.Tokens, rule.Most())*e-rule.Most()*e > m.now {
			return false
		}
	}
	return true
}

func (m *naive) fair(r *naiveRun) (store.LimitUse, bool) {
	if r.leased {
		return store.LimitUse{}, false
	}
	uses := m.uses(r)
	slices.SortFunc(uses, func(a, b store.LimitUse) int { return cmp.Compare(a.Limit, b.Limit) })
	for _, u := range uses {
		if m.rules[u.Limit].Fair {
			return u, true
		}
	}
	return store.LimitUse{}, false
}

func before(a, b *naiveRun) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.at, b.at), bytes.Compare(a.ID[:], b.ID[:]))
}

func (m *naive) claim(workflows []string, most int, until int64) []store.ID {
	type taken struct {
		run naiveRun
	}
	var out []taken
	for len(out) < most {
		var free *naiveRun
		first := map[string]*naiveRun{}
		for _, r := range m.runs {
			if r.at < 0 || r.at > m.now || r.Status.Final() || r.Status == store.Paused || !slices.Contains(workflows, r.Workflow) || m.paused[r.Workflow] || !m.permitted(r) {
				continue
			}
			u, fair := m.fair(r)
			if !fair {
				if free == nil || before(r, free) < 0 {
					free = r
				}
				continue
			}
			start := func(u store.LimitUse) int64 { return max(m.vtime[of(u)], m.clock[u.Limit]) }
			c := first[u.Limit]
			if c != nil {
				v, _ := m.fair(c)
				if d := cmp.Or(cmp.Compare(start(u), start(v)), cmp.Compare(u.Key, v.Key), before(r, c)); d >= 0 {
					continue
				}
			}
			first[u.Limit] = r
		}
		best := free
		for _, r := range first {
			if best == nil || before(r, best) < 0 {
				best = r
			}
		}
		if best == nil {
			break
		}
		out = append(out, taken{*best})
		if !best.leased {
			if u, fair := m.fair(best); fair {
				s := max(m.vtime[of(u)], m.clock[u.Limit])
				m.clock[u.Limit] = s
				m.vtime[of(u)] = s + 1_000_000*max(1, u.Tokens)/max(1, m.weight[of(u)])
			}
			for _, u := range m.uses(best) {
				if e := m.rules[u.Limit].Every(); e > 0 && u.Tokens > 0 {
					m.tat[of(u)] = max(m.tat[of(u)], m.now) + u.Tokens*e
				}
			}
		}
		best.drawn, best.leased, best.at = true, true, until
		if best.Status != store.Canceling {
			best.Status = store.Running
		}
	}
	slices.SortFunc(out, func(a, b taken) int { return before(&a.run, &b.run) })
	ids := []store.ID{}
	for _, o := range out {
		ids = append(ids, o.run.ID)
	}
	return ids
}

// due is when the next claim would take something, as far as concurrency permits.
func (m *naive) permittedDue(workflows []string) bool {
	for _, r := range m.runs {
		if r.at >= 0 && r.at <= m.now && !r.Status.Final() && r.Status != store.Paused && slices.Contains(workflows, r.Workflow) && !m.paused[r.Workflow] && m.permitted(r) {
			return true
		}
	}
	return false
}

// TestLimitsLikeTheDefinition compares claims with the definition of their choice, step by step.
func TestLimitsLikeTheDefinition(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			d := &definition{t: t, r: rand.New(rand.NewPCG(seed, 7)), s: openMemory(t), m: &naive{
				now: 1_000_000_000, rules: map[string]store.LimitRule{}, runs: map[store.ID]*naiveRun{}, tat: map[store.LimitUse]int64{}, vtime: map[store.LimitUse]int64{},
				weight: map[store.LimitUse]int64{}, clock: map[string]int64{}, paused: map[string]bool{},
			}}
			for range 400 {
				d.step()
			}
		})
	}
}

func openMemory(t *testing.T) *sqlite.Store {
	s, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

type definition struct {
	t   *testing.T
	r   *rand.Rand
	s   *sqlite.Store
	m   *naive
	log []string
	n   int64
}

func (d *definition) time() time.Time { return time.UnixMicro(d.m.now).UTC() }

func (d *definition) someUses() (uses []store.LimitUse) {
	for _, name := range []string{"a", "b", "c"} {
		if d.r.IntN(3) == 0 {
			uses = append(uses, store.LimitUse{Limit: name, Key: []string{"", "k", "l"}[d.r.IntN(3)], Tokens: 1 + d.r.Int64N(3)})
		}
	}
	return uses
}

func (d *definition) run(ok func(*naiveRun) bool) *naiveRun {
	var list []*naiveRun
	for _, id := range slices.SortedFunc(maps.Keys(d.m.runs), func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) }) {
		if r := d.m.runs[id]; ok(r) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[d.r.IntN(len(list))]
}

func (d *definition) step() {
	t, m, r := d.t, d.m, d.r
	ctx := t.Context()
	m.now += r.Int64N(3) * 500_000
	note := func(format string, args ...any) {
		d.log = append(d.log, fmt.Sprintf("%d: ", m.now)+fmt.Sprintf(format, args...))
	}
	switch r.IntN(12) {
	case 0, 1, 2:
		run := store.NewRun{ID: store.NewID(), Workflow: []string{"v", "w"}[r.IntN(2)], Queue: "q", Priority: r.IntN(2), Under: d.someUses()}
		if r.IntN(4) == 0 {
			run.After = time.Second * time.Duration(r.IntN(3))
		}
		_, err := d.s.Create(ctx, store.CreateParams{Namespace: "n", Runs: []store.NewRun{run}, Now: d.time()})
		require.NoError(t, err)
		m.runs[run.ID] = &naiveRun{Run: store.Run{ID: run.ID, Workflow: run.Workflow, Priority: run.Priority, Under: store.SortUses(run.Under), Status: store.Pending}, at: m.now + run.After.Microseconds()}
		note("create %v %s %v at %v", run.ID, run.Workflow, run.Under, m.runs[run.ID].at)
	case 3:
		rule := store.LimitRule{}
		if r.IntN(2) == 0 {
			rule.Concurrency = 1 + r.Int64N(3)
		}
		if r.IntN(3) == 0 {
			rule.Tokens, rule.Per, rule.Burst = 1+r.Int64N(3), time.Duration(1+r.IntN(4))*time.Second, r.Int64N(4)
		}
		rule.Fair = r.IntN(2) == 0
		name := []string{"a", "b", "c"}[r.IntN(3)]
		require.NoError(t, d.s.PutLimits(ctx, store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: name, Rule: rule}}, Now: d.time()}))
		m.rules[name] = rule
		note("put %s %+v", name, rule)
	case 4:
		k := store.LimitUse{Limit: []string{"a", "b", "c"}[r.IntN(3)], Key: "k"}
		m.weight[k] = 1 + r.Int64N(3)
		require.NoError(t, d.s.SetWeight(ctx, store.SetWeightParams{Namespace: "n", Limit: k.Limit, Key: k.Key, Weight: m.weight[k], Now: d.time()}))
		note("weight %v %d", k, m.weight[k])
	case 5:
		if run := d.run(func(r *naiveRun) bool { return !r.Status.Final() && !r.leased }); run != nil {
			resume := run.Status == store.Paused
			_, err := d.s.Pause(ctx, store.PauseParams{Namespace: "n", IDs: []store.ID{run.ID}, Resume: resume, Now: d.time()})
			require.NoError(t, err)
			if resume {
				run.Status = store.Pending
			} else {
				run.Status = store.Paused
			}
			note("pause %v %v", run.ID, !resume)
		}
	case 6, 7:
		d.commit(note)
	default:
		d.claim(note)
	}
	d.check()
}

func (d *definition) commit(note func(string, ...any)) {
	t, m, r := d.t, d.m, d.r
	run := d.run(func(r *naiveRun) bool { return r.leased && r.lease.Worker != "" })
	if run == nil {
		return
	}
	run.seq++
	c := store.Commit{Lease: run.lease, Seq: run.seq}
	tr := &store.Transition{}
	c.Transition = tr
	switch r.IntN(6) {
	case 0, 1:
		tr.Kind = store.CompleteRun
	case 2:
		tr.Kind, tr.Failure = store.Retry, &store.Failure{Code: "x"}
	case 3:
		tr.Kind = store.Release
		tr.Under = d.stepUses(run)
	case 4:
		tr.Kind, tr.After = store.Sleep, time.Second
		tr.Under = d.stepUses(run)
	case 5:
		c.Transition, c.Free = nil, true
	}
	out, err := d.s.Commit(t.Context(), store.CommitParams{Namespace: "n", Commits: []store.Commit{c}, Now: d.time()})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	note("commit %v %+v", run.ID, c.Transition)
	if c.Transition == nil {
		run.StepUnder = nil
		return
	}
	run.leased, run.lease, run.StepUnder, run.at = false, store.Lease{}, store.SortUses(tr.Under), m.now
	switch tr.Kind {
	case store.CompleteRun:
		run.Status, run.at = store.Completed, -1
	case store.Retry:
		run.Status, run.drawn = store.Pending, false
	case store.Release:
		run.Status = store.Pending
	case store.Sleep:
		run.Status, run.at = store.Sleeping, m.now+1_000_000
	}
}

func (d *definition) stepUses(run *naiveRun) (out []store.LimitUse) {
	for _, u := range d.someUses() {
		if !slices.ContainsFunc(run.Under, func(o store.LimitUse) bool { return o.Limit == u.Limit }) {
			out = append(out, u)
		}
	}
	return out
}

func (d *definition) claim(note func(string, ...any)) {
	t, m, r := d.t, d.m, d.r
	workflows := [][]string{{"v"}, {"w"}, {"v", "w"}, {"v", "w"}}[r.IntN(4)]
	most := 1 + r.IntN(5)
	d.n++
	p := store.ClaimParams{
		Namespace: "n", Worker: "x", Demands: []store.Demand{{Queue: "q", Workflows: workflows, Max: most}}, LeaseFor: time.Duration(1+r.IntN(5)) * time.Second,
		Bare: r.IntN(2) == 0, ClaimID: d.n, Now: d.time(),
	}
	got, err := d.s.Claim(t.Context(), p)
	require.NoError(t, err)
	ids := []store.ID{}
	for i := range got.Runs {
		ids = append(ids, got.Runs[i].Run.ID)
	}
	want := m.claim(workflows, most, m.now+p.LeaseFor.Microseconds())
	note("claim %v max %d: %v", workflows, most, ids)
	if !slices.Equal(want, ids) {
		for _, l := range d.log {
			t.Log(l)
		}
	}
	require.Equal(t, want, ids)
	for i := range got.Runs {
		run := m.runs[got.Runs[i].Run.ID]
		run.lease, run.seq = got.Runs[i].Lease, 0
		require.Equal(t, run.StepUnder, got.Runs[i].Run.StepUnder)
		require.Equal(t, run.Under, got.Runs[i].Run.Under)
	}
	if due := !got.NextDue.IsZero() && !got.NextDue.After(got.Now); due != m.permittedDue(workflows) {
		for _, l := range d.log {
			t.Log(l)
		}
		require.Equal(t, m.permittedDue(workflows), due, "NextDue %v now %v", got.NextDue, got.Now)
	}
	require.Equal(t, m.permittedDue(workflows), len(got.Waiting) > 0)
}

// check compares the permits with the runs (P24).
func (d *definition) check() {
	for _, name := range []string{"a", "b", "c"} {
		page, err := d.s.LimitKeys(d.t.Context(), store.LimitKeysParams{Namespace: "n", Limit: name, Now: d.time()})
		require.NoError(d.t, err)
		for _, k := range page.Keys {
			if want := d.m.held(store.LimitUse{Limit: name, Key: k.Key}); want != k.Held {
				for _, l := range d.log {
					d.t.Log(l)
				}
				require.Equal(d.t, want, k.Held, "held of %s/%s", name, k.Key)
			}
		}
	}
}
