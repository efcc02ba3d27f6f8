package postgres_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// TestLimitsAsDefined compares claims with the rule of store.Leases.Claim, applied literally, in random
// sequences of one caller.
func TestLimitsAsDefined(t *testing.T) {
	t.Parallel()
	seeds := uint64(6)
	if n := os.Getenv("SEEDS"); n != "" {
		_, _ = fmt.Sscan(n, &seeds)
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			url, schema := pgtest.Schema(t)
			m := newLiteral(t, open(t, url, schema), seed)
			for range 120 {
				m.step()
			}
		})
	}
}

// literal is the definition, beside a store.
type literal struct {
	*testing.T
	s     store.Store
	rand  *rand.Rand
	now   time.Time
	rules map[string]store.LimitRule
	clock map[string]int64
	keys  map[[2]string]*literalKey
	runs  []*literalRun
}

type literalKey struct{ tat, vtime, weight int64 }

type literalRun struct {
	id          store.ID
	workflow    string
	priority    int
	due         time.Time
	under, step []store.LimitUse
	taken       bool
	leased      bool
	paused      bool
	lease       store.Lease
	seq         int64
}

func newLiteral(t *testing.T, s store.Store, seed uint64) *literal {
	m := &literal{T: t, s: s, rand: rand.New(rand.NewPCG(seed, 1)), now: time.UnixMicro(1_800_000_000_000_000).UTC(), rules: map[string]store.LimitRule{}, clock: map[string]int64{}, keys: map[[2]string]*literalKey{}}
	for _, name := range []string{"a", "b", "c"} {
		m.set(name)
	}
	return m
}

func (m *literal) set(name string) {
	var r store.LimitRule
	if m.rand.IntN(3) > 0 {
		r.Concurrency = 1 + m.rand.Int64N(3)
	}
	if m.rand.IntN(3) == 0 {
		r.Tokens, r.Per, r.Burst = 1+m.rand.Int64N(3), time.Second, m.rand.Int64N(4)
	}
	r.Fair = m.rand.IntN(3) == 0
	m.rules[name] = r
	require.NoError(m, m.s.SetLimit(m.Context(), store.SetLimitParams{Namespace: "n", Name: name, Rule: &r, Now: m.now}))
}

func (m *literal) key(u store.LimitUse) *literalKey {
	k := m.keys[[2]string{u.Limit, u.Key}]
	if k == nil {
		k = &literalKey{weight: 1}
		m.keys[[2]string{u.Limit, u.Key}] = k
	}
	return k
}

func (m *literal) held(u store.LimitUse) (n int64) {
	for _, r := range m.runs {
		for _, x := range r.uses() {
			if r.leased && x.Limit == u.Limit && x.Key == u.Key {
				n++
			}
		}
	}
	return n
}

func (r *literalRun) uses() []store.LimitUse {
	own := slices.Clone(r.under)
	for i := range own {
		if r.taken {
			own[i].Tokens = 0
		}
	}
	return append(own, r.step...)
}

// holds says what holds a run back at a time: a concurrency, or a rate until then.
func (m *literal) holds(r *literalRun) (full bool, until time.Time) {
	if r.leased {
		return false, time.Time{}
	}
	for _, u := range r.uses() {
		rule := m.rules[u.Limit]
		full = full || rule.Concurrency > 0 && m.held(u) >= rule.Concurrency
		if e := rule.Every(); e > 0 && u.Tokens > 0 {
			if at := time.UnixMicro(m.key(u).tat + (min(u.Tokens, rule.Most())-rule.Most())*e); at.After(m.now) && at.After(until) {
				until = at
			}
		}
	}
	return full, until
}

func (m *literal) fair(r *literalRun) (use store.LimitUse, ok bool) {
	if r.leased {
		return use, false
	}
	uses := r.uses()
	slices.SortFunc(uses, func(a, b store.LimitUse) int { return cmp.Compare(a.Limit, b.Limit) })
	for _, u := range uses {
		if m.rules[u.Limit].Fair {
			return u, true
		}
	}
	return use, false
}

func before(a, b *literalRun) bool {
	return cmp.Or(cmp.Compare(b.priority, a.priority), a.due.Compare(b.due), bytes.Compare(a.id[:], b.id[:])) < 0
}

// next is the run that a claim takes next.
func (m *literal) next(workflows []string) *literalRun {
	var plain *literalRun
	type turn struct {
		run   *literalRun
		start int64
		key   string
	}
	turns := map[string]*turn{}
	for _, r := range m.runs {
		if r.paused || r.due.After(m.now) || !slices.Contains(workflows, r.workflow) {
			continue
		}
		if full, until := m.holds(r); full || !until.IsZero() {
			continue
		}
		u, ok := m.fair(r)
		if !ok {
			if plain == nil || before(r, plain) {
				plain = r
			}
			continue
		}
		start := max(m.key(u).vtime, m.clock[u.Limit])
		switch old := turns[u.Limit]; {
		case old == nil, cmp.Or(cmp.Compare(start, old.start), cmp.Compare(u.Key, old.key)) < 0, start == old.start && u.Key == old.key && before(r, old.run):
			turns[u.Limit] = &turn{r, start, u.Key}
		}
	}
	best := plain
	for _, c := range turns {
		if best == nil || before(c.run, best) {
			best = c.run
		}
	}
	return best
}

func (m *literal) take(r *literalRun) {
	if !r.leased {
		if u, ok := m.fair(r); ok {
			k := m.key(u)
			m.clock[u.Limit] = max(k.vtime, m.clock[u.Limit])
			k.vtime = m.clock[u.Limit] + 1_000_000*max(1, u.Tokens)/k.weight
		}
		for _, u := range r.uses() {
			if e := m.rules[u.Limit].Every(); e > 0 && u.Tokens > 0 {
				k := m.key(u)
				k.tat = max(k.tat, m.now.UnixMicro()) + u.Tokens*e
			}
		}
		r.taken = r.taken || len(r.uses()) > 0
	}
	r.leased, r.due, r.seq = true, m.now.Add(10*time.Second), 0
}

func (m *literal) claim() {
	workflows := []string{"w0", "w1"}[m.rand.IntN(2):]
	most := m.rand.IntN(6)
	var want []*literalRun
	for range most {
		r := m.next(workflows)
		if r == nil {
			break
		}
		copied := *r
		want = append(want, &copied)
		m.take(r)
	}
	slices.SortFunc(want, func(a, b *literalRun) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	c, err := m.s.Claim(m.Context(), store.ClaimParams{Namespace: "n", Worker: "w", LeaseFor: 10 * time.Second, Now: m.now, Demands: []store.Demand{{Queue: "q", Workflows: workflows, Max: most}}})
	require.NoError(m, err)
	var got, expected []store.ID
	for _, r := range c.Runs {
		got = append(got, r.Run.ID)
	}
	for _, r := range want {
		expected = append(expected, r.id)
	}
	if !slices.Equal(expected, got) {
		for _, r := range m.runs {
			m.Logf("%v %s/%d due %v leased %v paused %v taken %v %v %v: expected %v, taken %v", r.id, r.workflow, r.priority, r.due, r.leased, r.paused, r.taken, r.under, r.step, slices.Contains(expected, r.id), slices.Contains(got, r.id))
		}
		m.Logf("now %v, %v, clocks %v", m.now, m.rules, m.clock)
	}
	require.Equal(m, expected, got, "what the claim takes")
	for _, r := range c.Runs {
		own := m.run(r.Run.ID)
		own.lease = r.Lease
		require.Equal(m, own.step, r.Run.StepUnder)
	}
	m.checkDue(workflows, got, c.NextDue)
}

// checkDue compares NextDue: of each flow, only the first run counts.
func (m *literal) checkDue(workflows []string, taken []store.ID, got time.Time) {
	var due time.Time
	rates := false
	first := map[string]*literalRun{}
	for _, r := range m.runs {
		if r.paused || slices.Contains(taken, r.id) || !slices.Contains(workflows, r.workflow) {
			continue
		}
		flow := fmt.Sprint(r.workflow, r.priority, r.uses())
		if r.leased || len(r.uses()) == 0 {
			flow = r.id.String()
		}
		if old := first[flow]; old == nil || before(r, old) {
			first[flow] = r
		}
	}
	for _, r := range first {
		at := r.due
		if !r.leased && !at.After(m.now) {
			full, until := m.holds(r)
			rates = rates || !until.IsZero() // NextDue may be earlier
			if full {
				continue
			}
			if !until.IsZero() {
				at = until
			}
		}
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	switch {
	case rates:
		require.False(m, !due.IsZero() && (got.IsZero() || got.After(due)), "NextDue is %v; at the latest it is %v", got, due)
	case due.IsZero() || due.After(m.now):
		require.WithinDuration(m, due, got, 0, "NextDue at %v", m.now)
	default:
		require.False(m, got.IsZero() || got.After(m.now), "NextDue is %v; a run is due since %v", got, due)
	}
}

func (m *literal) run(id store.ID) *literalRun {
	i := slices.IndexFunc(m.runs, func(r *literalRun) bool { return r.id == id })
	return m.runs[i]
}

func (m *literal) create() {
	p := store.CreateParams{Namespace: "n", Now: m.now}
	for range 1 + m.rand.IntN(4) {
		r := store.NewRun{ID: store.NewID(), Workflow: fmt.Sprint("w", m.rand.IntN(2)), Queue: "q", Priority: m.rand.IntN(2)}
		for _, name := range []string{"a", "b", "c"} {
			if m.rand.IntN(2) == 0 {
				r.Under = append(r.Under, store.LimitUse{Limit: name, Key: fmt.Sprint(m.rand.IntN(3)), Tokens: 1 + m.rand.Int64N(2)})
			}
		}
		if m.rand.IntN(4) == 0 {
			r.After = time.Duration(m.rand.IntN(3)) * time.Second
		}
		p.Runs = append(p.Runs, r)
		m.runs = append(m.runs, &literalRun{id: r.ID, workflow: r.Workflow, priority: r.Priority, due: m.now.Add(r.After), under: store.SortUses(r.Under)})
	}
	_, err := m.s.Create(m.Context(), p)
	require.NoError(m, err)
}

func (m *literal) commit() {
	var held []*literalRun
	for _, r := range m.runs {
		if r.leased {
			held = append(held, r)
		}
	}
	if len(held) == 0 {
		return
	}
	r := held[m.rand.IntN(len(held))]
	r.seq++
	c := store.Commit{Lease: r.lease, Seq: r.seq}
	r.leased = false
	switch m.rand.IntN(6) {
	case 0, 1:
		c.Transition = &store.Transition{Kind: store.CompleteRun}
		m.runs = slices.DeleteFunc(m.runs, func(o *literalRun) bool { return o == r })
	case 2:
		c.Transition = &store.Transition{Kind: store.Retry, After: time.Second, Failure: &store.Failure{Message: "x"}}
		r.taken, r.step, r.due = false, nil, m.now.Add(time.Second)
	case 3:
		c.Transition = &store.Transition{Kind: store.Sleep, After: 2 * time.Second}
		r.step, r.due = nil, m.now.Add(2*time.Second)
	case 4:
		c.Transition = &store.Transition{Kind: store.Release}
		if !slices.ContainsFunc(r.under, func(u store.LimitUse) bool { return u.Limit == "c" }) {
			c.Transition.Under = []store.LimitUse{{Limit: "c", Key: "0", Tokens: 1}}
		}
		r.step, r.due = c.Transition.Under, m.now
	case 5:
		c.Free = true
		r.step, r.leased = nil, true
	}
	res, err := m.s.Commit(m.Context(), store.CommitParams{Namespace: "n", Commits: []store.Commit{c}, Now: m.now})
	require.NoError(m, err)
	require.NoError(m, res[0].Err)
}

func (m *literal) control() {
	if len(m.runs) == 0 {
		return
	}
	r := m.runs[m.rand.IntN(len(m.runs))]
	if r.leased && !r.paused {
		res, err := m.s.Cancel(m.Context(), store.CancelParams{Namespace: "n", IDs: []store.ID{r.id}, Force: true, Now: m.now})
		require.NoError(m, err)
		require.NoError(m, res[0].Err)
		m.runs = slices.DeleteFunc(m.runs, func(o *literalRun) bool { return o == r })
		return
	}
	_, err := m.s.Pause(m.Context(), store.PauseParams{Namespace: "n", IDs: []store.ID{r.id}, Resume: r.paused, Now: m.now})
	require.NoError(m, err)
	r.paused = !r.paused
}

func (m *literal) step() {
	switch n := m.rand.IntN(20); {
	case n < 5:
		m.create()
	case n < 11:
		m.claim()
	case n < 16:
		m.commit()
	case n < 17:
		m.control()
	case n < 18:
		m.set(string(rune('a' + m.rand.IntN(3))))
	default:
		m.now = m.now.Add(time.Duration(m.rand.IntN(4000)) * time.Millisecond)
	}
	if m.rand.IntN(8) == 0 {
		m.checkKeys()
	}
}

// checkKeys compares what LimitKeys counts.
func (m *literal) checkKeys() {
	for _, name := range []string{"a", "b", "c"} {
		page, err := m.s.LimitKeys(m.Context(), store.LimitKeysParams{Namespace: "n", Limit: name, Now: m.now})
		require.NoError(m, err)
		for key := range 3 {
			u := store.LimitUse{Limit: name, Key: fmt.Sprint(key)}
			var got store.LimitKey
			for _, k := range page.Keys {
				if k.Key == u.Key {
					got = k
				}
			}
			require.Equal(m, m.held(u), got.Held, "held under %s %s", name, u.Key)
			var waiting int64
			for _, r := range m.runs {
				if !r.leased && !r.paused && !r.due.After(m.now) && slices.ContainsFunc(r.uses(), func(x store.LimitUse) bool { return x.Limit == name && x.Key == u.Key }) {
					waiting++
				}
			}
			require.Equal(m, waiting, got.Waiting, "waiting under %s %s", name, u.Key)
		}
	}
}
