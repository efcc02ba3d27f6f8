package sqlitecore

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// A plan decides which due runs a claim takes when some of them are under limits, as P7 says: it repeats
// that choice in memory, over the first flows of each lane. It does not change the database.
type plan struct {
	now    int64
	max    int   // runs that may be taken
	bytes  int64 // and their size
	room   []int // by demand
	keys   map[limitKey]*keyState
	clocks map[string]int64 // of fair limits
	flows  []*waiting
	free   []dueRun // runs that need no permit, in the order of P7

	// Of what lies behind the flows that were read, only this is known: it is not before these.
	behind []bound

	picks []dueRun
	more  bool // it stopped because of something that was not read
}

// limitKey is a key of a limit.
type limitKey struct{ name, key string }

// keyState is what claims know of a key.
type keyState struct {
	rule                     store.LimitRule
	held, tat, vtime, weight int64
	turned                   bool // tat or vtime has changed
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
	queue    string
	workflow string
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

// run chooses runs until the claim is full or nothing is left.
func (p *plan) run() {
	var size int64
	for len(p.picks) < p.max {
		best, from := p.choose()
		if best == nil || p.more {
			return
		}
		if size += best.size; len(p.picks) > 0 && size > p.bytes {
			p.max = len(p.picks)
			return
		}
		p.picks = append(p.picks, *best)
		p.room[best.demand]--
		if from == nil {
			p.free = slices.DeleteFunc(p.free, func(r dueRun) bool { return bytes.Equal(r.id, best.id) })
		} else {
			p.take(from)
		}
	}
}

// choose returns the run that is next, and its flow if it needs permits. It sets more if a run that was not
// read may come before it.
func (p *plan) choose() (best *dueRun, from *waiting) {
	for i := range p.free {
		if r := &p.free[i]; p.room[r.demand] > 0 {
			best = r
			break
		}
	}
	open := func(f *waiting) bool {
		ok := p.room[f.demand] > 0
		if ok {
			ok, _, _ = p.permit(f)
		}
		return ok
	}
	consider := func(f *waiting) {
		if r := f.first(); best == nil || r.before(best) {
			best, from = r, f
		}
	}
	chosen := map[string]*waiting{}
	for _, f := range p.flows {
		switch {
		case f.first() == nil || !open(f):
		case f.fair == "":
			consider(f)
		default:
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
	}
	for _, f := range chosen {
		consider(f)
	}
	p.more = p.hidden(best, chosen, open)
	return best, from
}

// hidden reports whether a run that was not read may come before the best one that was.
func (p *plan) hidden(best *dueRun, chosen map[string]*waiting, open func(*waiting) bool) bool {
	for _, f := range p.flows {
		if f.cut && f.first() == nil && open(f) {
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
