package storekit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// world keeps runs and, beside them, what a store keeps for the planner. naive is the state by the
// definition of [store.Leases.Claim].
type world struct {
	rules map[string]store.LimitRule
	runs  []*Run
	now   time.Time

	marks  []LimitMark
	keys   map[LimitKeyID]LimitKeyState
	flows  map[string]FlowState
	clocks map[string]int64

	naive       map[LimitKeyID]*LimitKeyState // TAT, VTime and Weight; nothing is ever forgotten
	naiveClocks map[string]int64
	params      *store.ClaimParams
	batch       int
	reads       int
}

func (w *world) naiveKey(id LimitKeyID) *LimitKeyState {
	if w.naive[id] == nil {
		w.naive[id] = &LimitKeyState{LimitKeyID: id, Weight: 1}
	}
	return w.naive[id]
}

// held counts the leases under a key.
func (w *world) held(id LimitKeyID) (n int64) {
	for _, r := range w.runs {
		if slices.Contains(r.Held(), id) {
			n++
		}
	}
	return n
}

func (w *world) permits(f Flow) bool {
	for _, u := range f.Uses {
		r, k := w.rules[u.Limit], w.naiveKey(LimitKeyID{u.Limit, u.Key})
		if r.Concurrency > 0 && w.held(k.LimitKeyID) >= r.Concurrency {
			return false
		}
		at := w.now.UnixMicro()
		if e := r.Every(); e > 0 && u.Tokens > 0 && max(k.TAT, at)+min(u.Tokens, r.Most())*e-r.Most()*e > at {
			return false
		}
	}
	return true
}

// choose returns the next run that the definition takes.
func (w *world) choose(c *Claim) *Run {
	var best *Run
	better := func(r *Run) {
		if best == nil || CompareClaims(r, best) < 0 {
			best = r
		}
	}
	turns := map[string]map[string]*Run{} // the first run of each key of each fair limit
	for _, r := range w.runs {
		if !r.Due(w.now) || !c.Wants(r.LaneOf()) {
			continue
		}
		f, waits := r.Waits()
		if !waits {
			better(r)
			continue
		}
		if !w.permits(f) {
			continue
		}
		i := slices.IndexFunc(f.Uses, func(u store.LimitUse) bool { return w.rules[u.Limit].Fair })
		if i < 0 {
			better(r)
			continue
		}
		u := f.Uses[i]
		if turns[u.Limit] == nil {
			turns[u.Limit] = map[string]*Run{}
		}
		if first := turns[u.Limit][u.Key]; first == nil || CompareClaims(r, first) < 0 {
			turns[u.Limit][u.Key] = r
		}
	}
	for limit, keys := range turns {
		names := make([]string, 0, len(keys))
		for key := range keys {
			names = append(names, key)
		}
		slices.SortFunc(names, func(a, b string) int {
			k, m := w.naiveKey(LimitKeyID{limit, a}), w.naiveKey(LimitKeyID{limit, b})
			return cmp.Or(cmp.Compare(k.start(w.naiveClocks[limit]), m.start(w.naiveClocks[limit])), cmp.Compare(a, b))
		})
		better(keys[names[0]])
	}
	return best
}

// claim takes runs by the definition.
func (w *world) claim() (ids []store.ID) {
	c := NewClaim(w.params)
	for !c.Full() {
		r := w.choose(c)
		if r == nil || !c.Take(r.LaneOf(), 0) {
			break
		}
		if f, waits := r.Waits(); waits {
			fair := false
			for _, u := range f.Uses {
				k := w.naiveKey(LimitKeyID{u.Limit, u.Key})
				k.take(w.rules[u.Limit], u.Tokens, w.now.UnixMicro())
				if w.rules[u.Limit].Fair && !fair {
					fair, w.naiveClocks[u.Limit] = true, k.turn(u.Tokens, w.naiveClocks[u.Limit])
				}
			}
		}
		ids = append(ids, r.ID)
		r.Lease("w", "", time.Minute, 0, w.now)
	}
	return ids
}

// change changes a run, and leaves the mark that a store leaves.
func (w *world) change(r *Run, do func()) {
	before := *r
	do()
	w.marks = append(w.marks, LimitMarksOf(&before, r)...)
}

func (w *world) Limits() ([]LimitState, error) {
	w.reads++
	var out []LimitState
	for name, r := range w.rules {
		out = append(out, LimitState{Name: name, Rule: r, Clock: w.clocks[name]})
	}
	return out, nil
}

func (w *world) Marks() ([]LimitMark, error) {
	w.reads++
	return slices.Clone(w.marks[:min(len(w.marks), w.batch)]), nil
}

func (w *world) Keys(ids []LimitKeyID) (out []LimitKeyState, err error) {
	w.reads++
	for _, id := range ids {
		out = append(out, w.keys[id])
	}
	return out, nil
}

func (w *world) Flows(flows []Flow) (out []*FlowState, err error) {
	w.reads++
	for i := range flows {
		if s, ok := w.flows[flows[i].Text()]; ok {
			out = append(out, &s)
		} else {
			out = append(out, nil)
		}
	}
	return out, nil
}

func (w *world) Heads(flows []Flow, n int) (out [][]LimitRun, err error) {
	w.reads++
	for i := range flows {
		var runs []LimitRun
		for _, r := range w.runs {
			if f, waits := r.Waits(); waits && f.Text() == flows[i].Text() {
				runs = append(runs, LimitRun{ID: r.ID, VisibleAt: r.VisibleAt})
			}
		}
		slices.SortFunc(runs, func(a, b LimitRun) int { return compareHeads(0, a.VisibleAt, a.ID, 0, b.VisibleAt, b.ID) })
		out = append(out, runs[:min(n, len(runs))])
	}
	return out, nil
}

func (w *world) TokensDue() (out []LimitKeyID, err error) {
	w.reads++
	for id, k := range w.keys {
		if k.NextAt > 0 && k.NextAt <= w.now.UnixMicro() {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, compareKeyIDs)
	return out, nil
}

func (w *world) Ready(q ReadyQuery) (out []FlowState, err error) {
	w.reads++
	compare := func(a, b *FlowState) int {
		if q.Fair == "" {
			return compareHeads(a.Priority, a.HeadAt, a.HeadID, b.Priority, b.HeadAt, b.HeadID)
		}
		return cmp.Or(cmp.Compare(max(a.Turn, q.Clock), max(b.Turn, q.Clock)), cmp.Compare(a.Fair.Key, b.Fair.Key),
			compareHeads(a.Priority, a.HeadAt, a.HeadID, b.Priority, b.HeadAt, b.HeadID))
	}
	for _, f := range w.flows {
		fair := f.Fair != nil && f.Fair.Limit == q.Fair || f.Fair == nil && q.Fair == ""
		if f.Parked == nil && fair && !f.HeadAt.After(w.now) && slices.Contains(Lanes(w.params), f.Lane) && (q.After == nil || compare(&f, q.After) > 0) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b FlowState) int { return compare(&a, &b) })
	return out[:min(len(out), q.Rows)], nil
}

func (w *world) Parked(qs []ParkedQuery) (out []ParkedFlows, err error) {
	w.reads++
	for _, q := range qs {
		lanes := map[string][]FlowState{}
		var a ParkedFlows
		for _, f := range w.flows {
			if f.Parked == nil || *f.Parked != q.Key {
				continue
			}
			if f.Need > q.Need {
				a.Least = least(a.Least, f.Need)
				continue
			}
			fair := ""
			if f.Fair != nil {
				fair = f.Fair.Limit
			}
			lane := fmt.Sprint(f.Lane, f.Priority, fair)
			lanes[lane] = append(lanes[lane], f)
		}
		for _, flows := range lanes {
			slices.SortFunc(flows, func(a, b FlowState) int {
				byHead := compareHeads(a.Priority, a.HeadAt, a.HeadID, b.Priority, b.HeadAt, b.HeadID)
				if a.Fair == nil {
					return byHead
				}
				clock := w.clocks[a.Fair.Limit]
				return cmp.Or(cmp.Compare(max(a.Turn, clock), max(b.Turn, clock)), cmp.Compare(a.Fair.Key, b.Fair.Key), byHead)
			})
			from := min(q.Skip, len(flows))
			a.Flows = append(a.Flows, flows[from:min(from+q.Rows, len(flows))]...)
		}
		out = append(out, a)
	}
	return out, nil
}

func (w *world) Plain() (out []PlainRun, err error) {
	w.reads++
	var due []*Run
	for _, r := range w.runs {
		if _, waits := r.Waits(); !waits && r.Due(w.now) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, CompareClaims)
	c := NewClaim(w.params)
	for _, r := range due {
		if c.Take(r.LaneOf(), 0) {
			out = append(out, PlainRun{LimitRun{ID: r.ID, VisibleAt: r.VisibleAt}, r.LaneOf(), r.Priority})
		}
	}
	return out, nil
}

// apply stores a plan.
func (w *world) apply(p *LimitPlan) {
	w.marks = w.marks[min(len(w.marks), w.batch):]
	for _, k := range p.Keys {
		if k.VTime != w.keys[k.LimitKeyID].VTime {
			for text, f := range w.flows {
				if f.Fair != nil && *f.Fair == k.LimitKeyID {
					f.Turn = k.VTime
					w.flows[text] = f
				}
			}
		}
		w.keys[k.LimitKeyID] = k
	}
	for _, id := range p.IdleKeys {
		delete(w.keys, id)
	}
	for _, f := range p.Gone {
		delete(w.flows, f.Text())
	}
	for _, f := range p.Flows {
		w.flows[f.Text()] = f
	}
	for limit, c := range p.Clocks {
		w.clocks[limit] = c
	}
}

// check compares what is stored with what it has to be if no marks are left.
func (w *world) check(t *testing.T) {
	parked := map[LimitKeyID]int64{}
	for _, f := range w.flows {
		if f.Parked != nil {
			parked[*f.Parked]++
		}
	}
	for id, k := range w.keys {
		require.Equal(t, w.held(id), k.Held, "held by %v", id)
		require.Equal(t, parked[id], k.Parked, "parked at %v", id)
	}
	for _, r := range w.runs {
		if f, waits := r.Waits(); waits {
			require.Contains(t, w.flows, f.Text())
		}
		for _, id := range r.Held() {
			require.Positive(t, w.keys[id].Held, "key %v is forgotten", id)
		}
	}
}

// TestPlansFollowTheDefinition compares plans with the definition of a claim, over random histories.
func TestPlansFollowTheDefinition(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { comparePlans(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func comparePlans(t *testing.T, r *rand.Rand) {
	w := &world{
		now: time.UnixMicro(1_700_000_000_000_000).UTC(), keys: map[LimitKeyID]LimitKeyState{}, flows: map[string]FlowState{}, clocks: map[string]int64{},
		naive: map[LimitKeyID]*LimitKeyState{}, naiveClocks: map[string]int64{}, rules: map[string]store.LimitRule{}, batch: 1000,
	}
	for i, name := range []string{"a", "b", "f", "g"} {
		w.rules[name] = someRule(r, i >= 2)
	}
	for range 60 {
		w.now = w.now.Add(time.Duration(r.IntN(3)) * time.Second)
		w.happen(r)
		demand := store.Demand{Queue: "q0", Workflows: []string{"w"}, Max: 1 + r.IntN(6)}
		w.params = &store.ClaimParams{Namespace: "n", Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{demand}}
		if r.IntN(2) == 0 {
			w.params.Demands[0].MoreQueues = []string{"q1"}
		} else if r.IntN(2) == 0 {
			w.params.Demands = append(w.params.Demands, store.Demand{Queue: "q1", Workflows: []string{"w"}, Max: 1 + r.IntN(3)})
		}
		l, err := planLimits(w.params, w.now, w)
		require.NoError(t, err)
		var got []store.ID
		for _, p := range l.picks { // in the order in which they were chosen
			got = append(got, p.ID)
		}
		plan := l.plan()
		want := w.claim()
		if !slices.Equal(want, got) {
			for _, id := range slices.Concat(want, got) {
				i := slices.IndexFunc(w.runs, func(r *Run) bool { return r.ID == id })
				run := w.runs[i]
				t.Logf("%x want %v got %v queue %s prio %d under %+v step %+v", id[12:], slices.Contains(want, id), slices.Contains(got, id), run.Queue, run.Priority, run.Under, run.StepUnder)
			}
			t.Logf("rules %+v demands %+v", w.rules, w.params.Demands)
			t.Logf("clocks %v %v", w.clocks, w.naiveClocks)
			for id, k := range w.keys {
				t.Logf("key %+v naive %+v", k, w.naive[id])
			}
			for text, f := range w.flows {
				t.Logf("%s parked %v head %x at %v turn %v", text, f.Parked, f.HeadID[12:], f.HeadAt.Sub(w.now), f.Turn)
			}
		}
		require.Equal(t, want, got)
		w.apply(plan)
		w.check(t)
		for id, k := range w.naive {
			require.Equal(t, w.naiveClocks[id.Limit], w.clocks[id.Limit], "clock of %v; picks %+v, rules %+v", id.Limit, plan.Picks, w.rules)
			stored := w.keys[id]
			require.Equal(t, k.start(w.clocks[id.Limit]), stored.start(w.clocks[id.Limit]), "virtual time of %v; picks %+v, rules %+v", id, plan.Picks, w.rules)
		}
	}
}

func someRule(r *rand.Rand, fair bool) store.LimitRule {
	rule := store.LimitRule{Concurrency: int64(r.IntN(4)), Fair: fair}
	if r.IntN(3) == 0 {
		rule.Tokens, rule.Per, rule.Burst = int64(1+r.IntN(3)), time.Duration(1+r.IntN(5))*time.Second, int64(r.IntN(4))
	}
	return rule
}

// happen makes some random changes.
func (w *world) happen(r *rand.Rand) {
	for range r.IntN(8) {
		n := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: fmt.Sprintf("q%d", r.IntN(2)), Priority: r.IntN(2), After: time.Duration(r.IntN(3)) * time.Second}
		n.Under = someUses(r, "a", "b", "f", "g")
		run := &Run{}
		w.change(run, func() { *run = *New("n", &n, w.now) })
		w.runs = append(w.runs, run)
	}
	for _, run := range w.runs {
		if r.IntN(5) > 0 {
			continue
		}
		w.change(run, func() {
			switch {
			case run.Status == store.Running:
				kind := []store.TransitionKind{store.CompleteRun, store.Sleep, store.Retry, store.Release}[r.IntN(4)]
				tr := store.Transition{Kind: kind}
				if kind == store.Release && r.IntN(2) == 0 && len(run.Under) == 0 {
					tr.Under = someUses(r, "a", "f")
				}
				if kind == store.Sleep {
					tr.After = time.Duration(1+r.IntN(3)) * time.Second
				}
				run.Transition(&tr, false, func(string) store.Group { return store.Group{} }, w.now)
			case run.Status.Final():
			case r.IntN(4) == 0:
				run.Pause()
				if r.IntN(2) == 0 {
					run.Unpause()
				}
			case r.IntN(4) == 0:
				run.Cancel("x", false, w.now)
			}
		})
	}
	if r.IntN(10) == 0 {
		names := []string{"a", "b", "f", "g"}
		name := names[r.IntN(len(names))]
		w.rules[name] = someRule(r, r.IntN(2) == 0)
		for _, f := range w.flows { // as a store does that changes a rule
			if slices.ContainsFunc(f.Uses, func(u store.LimitUse) bool { return u.Limit == name }) {
				w.marks = append(w.marks, LimitMark{News: f.Flow})
			}
		}
	}
}

func someUses(r *rand.Rand, limits ...string) (uses []store.LimitUse) {
	for _, l := range limits {
		if r.IntN(2) == 0 {
			uses = append(uses, store.LimitUse{Limit: l, Key: fmt.Sprintf("k%d", r.IntN(3)), Tokens: int64(r.IntN(4))})
		}
	}
	return uses
}

func (w *world) Paused(Lane) (bool, error) { return false, nil }
