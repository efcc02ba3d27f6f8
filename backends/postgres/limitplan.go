package postgres

import (
	"bytes"
	"cmp"
	"container/heap"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// limitRule is the rule of a limit that is in force, and its virtual clock.
type limitRule struct {
	name                      string
	concurrency, every, burst int64
	fair                      bool
	clock                     int64
	was                       int64 // the clock before the claim
}

// keyName names a key of a limit.
type keyName struct{ name, key string }

// limitKey is a key of a limit. rule is nil if the limit does not exist.
type limitKey struct {
	keyName
	rule                     *limitRule
	held, tat, vtime, weight int64
}

// heldUse is a limit that the runs of a flow are under. tokens is what a run takes.
type heldUse struct {
	*limitKey
	tokens int64
}

// waiting is a due run that no worker holds, or whose lease has expired.
type waiting struct {
	id       store.ID
	at       int64
	priority int16
	size     int64
	pair     int64 // of its lane, from 1
	demand   int64
	expired  bool
	past     bool // it has a history
}

// before reports whether a comes first by P7.
func (a *waiting) before(b *waiting) bool {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.at, b.at), bytes.Compare(a.id[:], b.id[:])) < 0
}

// States of a flow.
const (
	flowReady   = 1
	flowParked  = 2 // at a key, until that has a permit
	flowTimed   = 3 // until a time
	flowStarved = 4 // parked at a key, behind a flow that waits for the time of its tokens
)

// flow is the list of runs that wait for the same permits in one lane.
type flow struct {
	id, paid store.ID // paid is the flow of the runs whose tokens are taken
	under    [2]string
	pair     int64
	demand   int64
	priority int16
	uses     []heldUse
	fair     *heldUse // the use that decides on its turn; nil: none
	runs     []waiting
	taken    int // how many of them the claim takes
	head     waiting
	state    int16
	at       int64
	turn     int64   // as it was stored
	parked   keyName // where it is parked, or was
	changed  bool
}

// permits reports whether the limits permit the next run of the flow at a time.
func (f *flow) permits(now int64) bool {
	for i := range f.uses {
		if u := &f.uses[i]; u.full() || u.rateAt(u.tokens) > now {
			return false
		}
	}
	return true
}

// full reports whether the key has no permit left.
func (k *limitKey) full() bool {
	return k.rule != nil && k.rule.concurrency > 0 && k.held >= k.rule.concurrency
}

// rateAt returns from when on the key has n tokens.
func (k *limitKey) rateAt(n int64) int64 {
	if k.rule == nil || k.rule.every == 0 || n == 0 {
		return 0
	}
	return k.tat + (min(n, k.rule.burst)-k.rule.burst)*k.rule.every
}

// starts is the virtual time at which the next claim of a run of the key begins.
func (k *limitKey) starts() int64 { return max(k.vtime, k.rule.clock) }

// take counts the permits and tokens of a run of the flow.
func (f *flow) take(now int64) {
	for i := range f.uses {
		u := &f.uses[i]
		u.held++
		if u.rule != nil && u.tokens > 0 {
			u.tat = max(u.tat, now) + u.tokens*u.rule.every
		}
	}
	if u := f.fair; u != nil {
		u.rule.clock = u.starts()
		u.vtime = u.rule.clock + 1_000_000*max(1, u.tokens)/u.weight
	}
	f.taken++
	f.changed = true
}

// flowBound is what is known of the flows of a list that were not read: they come after those that were, in the order
// of the turn and then of the first run. Those that wait for a time are in no order.
type flowBound struct {
	flows  int64 // that were read
	demand int64
	state  int16
	fair   string    // the fair limit that decides on the turn; only of ready flows
	at     *limitKey // where the flows are parked; nil: nowhere
	turn   int64
	head   waiting
}

// read notes that a flow was read.
func (b *flowBound) read(turn int64, head waiting) {
	if b.flows == 0 || turn > b.turn || turn == b.turn && b.head.before(&head) {
		b.turn, b.head = turn, head
	}
	b.flows++
}

// hidden reports whether a run of a flow that was not read may come before best, the first one of those that were. turns has
// the first flow of each fair limit.
func (p *limitPlan) hidden(best *waiting, turns map[*limitRule]*flow, open func(int64) bool) bool {
	for _, b := range p.behind {
		switch {
		case !open(b.demand):
		case b.at != nil && (b.at.full() || b.state == flowStarved && b.at.rateAt(1) > p.now):
		case b.state == flowTimed:
			return true
		case b.fair != "" && p.rules[b.fair] != nil:
			rule := p.rules[b.fair]
			if f := turns[rule]; f == nil || max(b.turn, rule.clock) < f.fair.starts() {
				return true
			}
		case best == nil || b.head.before(best):
			return true
		}
	}
	return false
}

// limitPlan chooses the runs that a claim takes: see store.Leases.Claim.
type limitPlan struct {
	now    int64
	wanted int
	bytes  int64   // 0: not limited
	bounds []int64 // maximum of each demand
	free   []waiting
	flows  []*flow
	rules  map[string]*limitRule
	behind []*flowBound // the lists that may have flows that were not read
	more   bool         // the choice ended because one of them may be next

	ready flowHeap // flows under no fair limit of which runs may still be taken
	fairs []*flow  // and those under one
}

// pick is a run that the claim is to take.
type pick struct {
	*waiting
	of    *flow // nil: under no limit, or its lease expired
	vtime int64 // of the key whose turn it is, afterwards
}

// choose repeats the choice of P7 until the claim is full, or until a run that was not read may be next.
func (p *limitPlan) choose() []pick {
	slices.SortFunc(p.free, func(a, b waiting) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	var picks []pick
	taken := make([]int64, len(p.bounds))
	open := func(demand int64) bool { return taken[demand] < p.bounds[demand] }
	var size int64
	free := p.free
	p.begin()
	for len(picks) < p.wanted {
		for len(free) > 0 && !open(free[0].demand) {
			free = free[1:]
		}
		var best pick
		if len(free) > 0 {
			best.waiting = &free[0]
		}
		f, turns := p.first(open)
		if f != nil && (best.waiting == nil || f.runs[f.taken].before(best.waiting)) {
			best = pick{waiting: &f.runs[f.taken], of: f}
		}
		if p.more = p.hidden(best.waiting, turns, open); p.more || best.waiting == nil {
			break
		}
		if size += best.size; p.bytes > 0 && len(picks) > 0 && size > p.bytes {
			break
		}
		if taken[best.demand]++; best.of == nil {
			free = free[1:]
		} else {
			if best.of.take(p.now); best.of.fair != nil {
				best.vtime = best.of.fair.vtime
			}
			p.took(best.of)
		}
		picks = append(picks, best)
	}
	return picks
}

// begin sorts the flows that have runs.
func (p *limitPlan) begin() {
	for _, f := range p.flows {
		switch {
		case len(f.runs) == 0:
		case f.fair == nil:
			p.ready = append(p.ready, f)
		default:
			p.fairs = append(p.fairs, f)
		}
	}
	heap.Init(&p.ready)
}

// first returns the flow whose next run is the first candidate among those under limits, and the one whose turn it is
// under each fair limit. A flow that may not go once is left out from then on, because a claim only takes permits.
func (p *limitPlan) first(open func(int64) bool) (best *flow, turns map[*limitRule]*flow) {
	mayGo := func(f *flow) bool { return f.taken < len(f.runs) && open(f.demand) && f.permits(p.now) }
	for len(p.ready) > 0 && !mayGo(p.ready[0]) {
		heap.Pop(&p.ready)
	}
	if len(p.ready) > 0 {
		best = p.ready[0]
	}
	p.fairs = slices.DeleteFunc(p.fairs, func(f *flow) bool { return !mayGo(f) })
	if len(p.fairs) > 0 {
		turns = map[*limitRule]*flow{}
	}
	for _, f := range p.fairs {
		if other := turns[f.fair.rule]; other == nil || f.goesBefore(other) {
			turns[f.fair.rule] = f
		}
	}
	for _, f := range turns {
		if best == nil || f.runs[f.taken].before(&best.runs[best.taken]) {
			best = f
		}
	}
	return best, turns
}

// took corrects the order after a run of the flow was taken.
func (p *limitPlan) took(f *flow) {
	switch {
	case f.fair != nil:
	case f.taken == len(f.runs):
		heap.Pop(&p.ready)
	default:
		heap.Fix(&p.ready, 0)
	}
}

// flowHeap is a heap of flows with runs, by the next one.
type flowHeap []*flow

func (h flowHeap) Len() int { return len(h) }

func (h flowHeap) Less(i, j int) bool { return h[i].runs[h[i].taken].before(&h[j].runs[h[j].taken]) }

func (h flowHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *flowHeap) Push(f any) { *h = append(*h, f.(*flow)) }

func (h *flowHeap) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	*h = (*h)[:last]
	return f
}

// goesBefore reports whether f is next, of two flows under the same fair limit.
func (f *flow) goesBefore(other *flow) bool {
	a, b := f.fair.limitKey, other.fair.limitKey
	if c := cmp.Or(cmp.Compare(a.starts(), b.starts()), cmp.Compare(a.key, b.key)); c != 0 {
		return c < 0
	}
	return f.runs[f.taken].before(&other.runs[other.taken])
}

// settle decides where each flow waits after the claim. Of the flows of a lane that one key's rate holds
// back, the one that may go first waits for the time, and the others are parked at the key.
func (p *limitPlan) settle() {
	type place struct {
		keyName
		pair     int64
		priority int16
	}
	first := map[place]*flow{}
	for _, f := range p.flows {
		if p.more && f.fair != nil && f.turn < f.fair.starts() {
			f.changed = true // so that it goes behind those that were not read
		}
		state, at, parked := int16(flowReady), int64(0), f.parked
		var later *heldUse
		for i := range f.uses {
			u := &f.uses[i]
			if u.full() {
				state, parked, later = flowParked, u.keyName, nil
				break
			}
			if t := u.rateAt(u.tokens); t > p.now && t > at {
				state, at, parked, later = flowTimed, t, u.keyName, u
			}
		}
		if state == flowReady {
			at = 0
		}
		if later != nil {
			in := place{later.keyName, f.pair, f.priority}
			if other := first[in]; other == nil {
				first[in] = f
			} else if at < other.at || at == other.at && f.next().before(other.next()) {
				first[in] = f
				other.become(flowStarved, 0, later.keyName)
			} else {
				state, at = flowStarved, 0
			}
		}
		f.become(state, at, parked)
	}
}

// next returns the flow's first run that the claim does not take, as far as it is known.
func (f *flow) next() *waiting {
	if f.taken < len(f.runs) {
		return &f.runs[f.taken]
	}
	return &f.head
}

func (f *flow) become(state int16, at int64, parked keyName) {
	if f.state != state || f.at != at && state == flowTimed || f.parked != parked {
		f.changed = true
	}
	f.state, f.at, f.parked = state, at, parked
}
