package sqlitecore

import (
	"bytes"
	"cmp"
	"container/heap"
	"math"

	"github.com/pawlhq/pawl/store"
)

// A plan decides which due runs a claim takes when some of them are under limits, as P7 says: it repeats
// that choice in memory, over the first flows of each lane. It does not change the database.
type plan struct {
	now    int64
	max    int   // runs that may be taken
	bytes  int64 // and their size, of which only the first run of a claim may exceed it
	begun  bool  // an earlier plan of the claim has taken runs
	room   []int // by demand
	keys   map[limitKey]*keyState
	clocks map[string]int64 // of fair limits
	flows  []*waiting
	free   []dueRun // runs that need no permit, in the order of P7

	// Of what lies behind the flows that were read, only this is known: it is not before these.
	behind []bound

	picks []dueRun
	more  bool // it stopped because of something that was not read

	// What the plan may still take. A flow that the limits do not permit once is left out from then on, because
	// a plan only takes permits.
	next  int        // the first of free that may not have been taken
	ready flowHeap   // flows under no fair limit, with due runs
	fairs []*waiting // flows under a fair limit, with due runs
	dry   []*waiting // flows of which all runs that were read are taken, and which have more
}

// limitKey is a key of a limit.
type limitKey struct{ name, key string }

// keyState is what claims know of a key.
type keyState struct {
	rule                     store.LimitRule
	held, tat, vtime, weight int64
	turned                   bool  // tat or vtime has changed
	taken                    int64 // permits that the plan takes
}

// A use is what a run needs of a key.
type use struct {
	limitKey
	*keyState
	tokens int64 // of a rate; 0: the attempt has taken them
}

// A dueRun is a run that may be taken.
type dueRun struct {
	id       []byte
	priority int64
	at       int64
	size     int64
	demand   int
	limited  bool
	fresh    bool // its flow has no row
	queue    string
	workflow string
	taken    bool // of those that need no permit
}

func (r *dueRun) before(o *dueRun) bool {
	return cmp.Or(cmp.Compare(o.priority, r.priority), cmp.Compare(r.at, o.at), bytes.Compare(r.id, o.id)) < 0
}

// States of a flow.
const (
	flowReady = iota
	flowLater
	flowParked
)

// A park is a place where flows wait for a key: for its concurrency, or for so many tokens.
type park struct {
	limitKey
	tokens int64
}

// A waiting flow stands for the runs of one lane, priority, and set of permits and tokens.
type waiting struct {
	id       int64
	demand   int
	queue    string
	workflow string
	pin      string
	priority int64
	text     string
	headAt   int64
	headID   []byte
	uses     []use
	fair     string
	fairUse  *use
	turn     int64
	state    int64
	park     park
	fresh    bool // it has no row, and no id; its runs are fresh

	runs  []dueRun // the first ones that are due
	cut   bool     // there are more
	taken int
}

// first returns the flow's next due run, or nil.
func (f *waiting) first() *dueRun {
	if f.taken == len(f.runs) {
		return nil
	}
	return &f.runs[f.taken]
}

// A bound says that flows of a lane were not read: none of them comes before it.
type bound struct {
	demand int
	run    dueRun    // the last one that was read
	fair   string    // of a fair limit: none of them has an earlier turn than this
	turn   int64     //
	key    string    //
	at     *keyState // only if this key has room

	unordered bool // any of them may come first
}

// permit reports whether the limits permit another run, and otherwise where the flow waits, and until when;
// 0: until a lease ends.
func (p *plan) permit(f *waiting) (ok bool, at park, until int64) {
	for i := range f.uses {
		if u := &f.uses[i]; u.full() {
			return false, park{u.limitKey, 0}, 0
		}
	}
	for i := range f.uses {
		u := &f.uses[i]
		if t := u.after(u.tokens); t > p.now {
			return false, park{u.limitKey, u.tokens}, t
		}
	}
	return true, park{}, 0
}

// full reports whether the key's concurrency permits no more.
func (k *keyState) full() bool { return k.rule.Concurrency > 0 && k.held >= k.rule.Concurrency }

// after returns from when on the rate permits so many tokens.
func (k *keyState) after(tokens int64) int64 {
	every, most := k.rule.Every(), k.rule.Most()
	if tokens == 0 || every == 0 {
		return math.MinInt64
	}
	return k.tat + (min(tokens, most)-most)*every
}

// take counts a run of the flow.
func (p *plan) take(f *waiting) {
	for i := range f.uses {
		u := &f.uses[i]
		u.held++
		u.taken++
		if every := u.rule.Every(); every > 0 && u.tokens > 0 {
			u.tat, u.turned = max(u.tat, p.now)+u.tokens*every, true
		}
	}
	if u := f.fairUse; u != nil {
		start := p.start(f)
		p.clocks[f.fair] = start
		u.vtime, u.turned = start+1_000_000*max(1, u.tokens)/u.weight, true
	}
	f.taken++
}

// start is the virtual time at which the next claim of the flow's key would begin.
func (p *plan) start(f *waiting) int64 { return max(f.fairUse.vtime, p.clocks[f.fair]) }

// flowHeap is a heap of flows with due runs, by their first one.
type flowHeap []*waiting

func (h flowHeap) Len() int           { return len(h) }
func (h flowHeap) Less(i, j int) bool { return h[i].first().before(h[j].first()) }
func (h flowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *flowHeap) Push(f any)        { *h = append(*h, f.(*waiting)) }

func (h *flowHeap) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	*h = (*h)[:last]
	return f
}

// run chooses runs until the claim is full or nothing is left.
func (p *plan) run() {
	for _, f := range p.flows {
		switch {
		case f.first() == nil:
		case f.fair == "":
			p.ready = append(p.ready, f)
		default:
			p.fairs = append(p.fairs, f)
		}
	}
	heap.Init(&p.ready)
	var size int64
	for len(p.picks) < p.max {
		best, from := p.choose()
		if best == nil || p.more {
			return
		}
		if size += best.size; size > p.bytes && (p.begun || len(p.picks) > 0) {
			p.max = len(p.picks)
			return
		}
		p.picks = append(p.picks, *best)
		p.room[best.demand]--
		if from == nil {
			best.taken = true
			continue
		}
		p.take(from)
		empty := from.first() == nil
		if empty && from.cut {
			p.dry = append(p.dry, from)
		}
		switch {
		case from.fair != "":
		case empty:
			heap.Pop(&p.ready)
		default:
			heap.Fix(&p.ready, 0)
		}
	}
}

// open reports whether the limits and the claim permit another run of the flow.
func (p *plan) open(f *waiting) bool {
	if p.room[f.demand] <= 0 {
		return false
	}
	ok, _, _ := p.permit(f)
	return ok
}

// choose returns the run that is next, and its flow if it needs permits. It sets more if a run that was not
// read may come before it.
func (p *plan) choose() (best *dueRun, from *waiting) {
	for p.next < len(p.free) && p.free[p.next].taken {
		p.next++
	}
	for i := p.next; i < len(p.free); i++ {
		if r := &p.free[i]; !r.taken && p.room[r.demand] > 0 {
			best = r
			break
		}
	}
	consider := func(f *waiting) {
		if r := f.first(); best == nil || r.before(best) {
			best, from = r, f
		}
	}
	for len(p.ready) > 0 {
		if f := p.ready[0]; p.open(f) {
			consider(f)
			break
		}
		heap.Pop(&p.ready)
	}
	chosen := map[string]*waiting{}
	fairs := p.fairs[:0]
	for _, f := range p.fairs {
		if f.first() == nil || !p.open(f) {
			continue
		}
		fairs = append(fairs, f)
		c := chosen[f.fair]
		if c == nil {
			chosen[f.fair] = f
			continue
		}
		d := cmp.Or(cmp.Compare(p.start(f), p.start(c)), cmp.Compare(f.fairUse.key, c.fairUse.key))
		if d < 0 || d == 0 && f.first().before(c.first()) {
			chosen[f.fair] = f
		}
	}
	p.fairs = fairs
	for _, f := range chosen {
		consider(f)
	}
	p.more = p.hidden(best, chosen)
	return best, from
}

// hidden reports whether a run that was not read may come before the best one that was.
func (p *plan) hidden(best *dueRun, chosen map[string]*waiting) bool {
	for _, f := range p.dry {
		if p.open(f) {
			c := chosen[f.fair]
			if f.fair != "" && (c == nil || p.start(f) <= p.start(c)) || f.fair == "" && (best == nil || f.runs[len(f.runs)-1].before(best)) {
				return true
			}
		}
	}
	for i := range p.behind {
		b := &p.behind[i]
		if p.room[b.demand] <= 0 || b.at != nil && b.at.full() {
			continue
		}
		if b.unordered {
			return true
		}
		if b.fair == "" {
			if best == nil || b.run.before(best) {
				return true
			}
			continue
		}
		c, clock := chosen[b.fair], p.clocks[b.fair]
		if c == nil || max(b.turn, clock) < p.start(c) || b.turn >= clock && b.turn == p.start(c) && b.key < c.fairUse.key {
			return true
		}
	}
	return false
}
