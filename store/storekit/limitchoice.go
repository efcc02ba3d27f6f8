package storekit

import (
	"cmp"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// fairPool contains the candidates of a fair limit.
type fairPool struct {
	limit  *LimitState
	before int64      // the clock
	keys   []*fairKey // with candidates, by start, then key
	bound  *FlowState // the last flow that was read; nil: all were
}

// fairKey contains the candidates of a key.
type fairKey struct {
	key   *planKey
	flows []*planFlow // by P7
}

// fairPool returns the pool of a fair limit.
func (l *limitPlanner) fairPool(limit string) *fairPool {
	p := l.fair[limit]
	if p == nil {
		p = &fairPool{limit: l.limits[limit], before: l.limits[limit].Clock}
		l.fair[limit] = p
	}
	return p
}

func (p *fairPool) compare(k, m *fairKey) int {
	return cmp.Or(cmp.Compare(k.key.start(p.limit.Clock), m.key.start(p.limit.Clock)), cmp.Compare(k.key.Key, m.key.Key))
}

func (p *fairPool) insert(k *fairKey) {
	at, _ := slices.BinarySearchFunc(p.keys, k, p.compare)
	p.keys = slices.Insert(p.keys, at, k)
}

// add adds a candidate.
func (p *fairPool) add(l *limitPlanner, f *planFlow) {
	key := l.keys[*f.Fair]
	i := slices.IndexFunc(p.keys, func(k *fairKey) bool { return k.key == key })
	if i < 0 {
		p.insert(&fairKey{key: key, flows: []*planFlow{f}})
		return
	}
	k := p.keys[i]
	at, _ := slices.BinarySearchFunc(k.flows, f, (*planFlow).compare)
	k.flows = slices.Insert(k.flows, at, f)
}

// choose takes runs until the claim is full or nothing that is permitted is left.
func (l *limitPlanner) choose() error {
	l.bound = &FlowState{} // nothing was read yet
	for _, s := range l.limits {
		if s.Rule.Fair {
			l.fairPool(s.Name).bound = &FlowState{}
		}
	}
	for !l.claim.Full() {
		if err := l.unpark(l.want); err != nil {
			return err
		}
		took, err := l.step()
		if err != nil {
			return err
		}
		if !took && len(l.freed) == 0 {
			return nil
		}
	}
	return nil
}

// step takes the first candidate by P7. took is false if there is none.
func (l *limitPlanner) step() (took bool, err error) {
	best, err := l.firstUnfair()
	if err != nil {
		return false, err
	}
	for _, name := range sortedNames(l.fair) {
		f, err := l.firstFair(l.fair[name])
		if err != nil {
			return false, err
		}
		if f != nil && (best == nil || f.compare(best) < 0) {
			best = f
		}
	}
	if best != nil {
		l.askBefore(best)
	}
	if len(l.freed) > 0 { // flows may have become ready that come before
		return false, nil
	}
	for len(l.plain) > 0 && !l.claim.Wants(l.plain[0].Lane) {
		l.plain = l.plain[1:] // its demand is full
	}
	if len(l.plain) > 0 {
		p := &l.plain[0]
		if best == nil || compareHeads(p.Priority, p.VisibleAt, p.ID, best.Priority, best.HeadAt, best.HeadID) < 0 {
			l.takePlain()
			return true, nil
		}
	}
	if best == nil {
		return false, nil
	}
	return true, l.take(best)
}

// askBefore notes the keys of a flow at which others are parked that may come before it.
func (l *limitPlanner) askBefore(f *planFlow) {
	for _, id := range KeysOf(f.Uses) {
		if k := l.keys[id]; k.Parked > 0 && !k.asked {
			l.freed = append(l.freed, id)
		}
	}
}

func sortedNames(pools map[string]*fairPool) []string {
	names := make([]string, 0, len(pools))
	for name := range pools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (l *limitPlanner) takePlain() {
	p := l.plain[0]
	l.plain = l.plain[1:]
	if l.claim.Take(p.Lane, p.Size) {
		l.picks = append(l.picks, Pick{LimitRun: p.LimitRun, Lane: p.Lane, Priority: p.Priority})
	}
}

// firstUnfair returns the first candidate without a fair limit that is permitted; nil if there is none. It
// parks those before it.
func (l *limitPlanner) firstUnfair() (*planFlow, error) {
	for {
		for len(l.pool) > 0 && !l.candidate(l.pool[0]) {
			l.pool = l.pool[1:]
		}
		behind := len(l.pool) == 0 || compareHeads(l.pool[0].Priority, l.pool[0].HeadAt, l.pool[0].HeadID, l.boundPriority(), l.bound0().HeadAt, l.bound0().HeadID) > 0
		if l.bound == nil || !behind {
			if len(l.pool) == 0 {
				return nil, nil
			}
			return l.pool[0], nil
		}
		var err error
		if l.bound, err = l.more(ReadyQuery{After: l.bound}); err != nil {
			return nil, err
		}
	}
}

// bound0 and boundPriority are the place up to which flows without a fair limit were read; before all
// flows if none were read.
func (l *limitPlanner) bound0() *FlowState {
	if l.bound == nil {
		return &FlowState{}
	}
	return l.bound
}

func (l *limitPlanner) boundPriority() int {
	if l.bound == nil || l.bound.HeadID.IsZero() {
		return store.MaxPriority + 1
	}
	return l.bound.Priority
}

// firstFair returns the first candidate of the key whose turn it is. It parks those before it.
func (l *limitPlanner) firstFair(p *fairPool) (*planFlow, error) {
	for {
		for len(p.keys) > 0 {
			k := p.keys[0]
			for len(k.flows) > 0 && !l.candidate(k.flows[0]) {
				k.flows = k.flows[1:]
			}
			if len(k.flows) > 0 {
				break
			}
			p.keys = p.keys[1:]
		}
		if p.bound == nil || len(p.keys) > 0 && !p.behind(p.keys[0]) {
			if len(p.keys) == 0 {
				return nil, nil
			}
			return p.keys[0].flows[0], nil
		}
		var err error
		if p.bound, err = l.more(ReadyQuery{Fair: p.limit.Name, Clock: p.before, After: p.bound}); err != nil {
			return nil, err
		}
	}
}

// behind reports whether the first candidate of a key comes after the flows that were read.
func (p *fairPool) behind(k *fairKey) bool {
	b := p.bound
	if b.HeadID.IsZero() {
		return true
	}
	f := k.flows[0]
	return cmp.Or(
		cmp.Compare(k.key.start(p.before), max(b.Turn, p.before)), cmp.Compare(k.key.Key, b.Fair.Key),
		compareHeads(f.Priority, f.HeadAt, f.HeadID, b.Priority, b.HeadAt, b.HeadID),
	) > 0
}

// candidate reports whether a ready flow may be taken from: a demand has room for it, and all limits permit
// it. A flow that a limit holds back is parked.
func (l *limitPlanner) candidate(f *planFlow) bool {
	if !l.claim.Wants(f.Lane) {
		return false
	}
	at, need := l.verdict(f)
	if at != nil {
		l.park(f, at, need)
		l.leftRoom(f)
		return false
	}
	return true
}

// leftRoom notes the keys of a flow that does not use their room: other flows that are parked there may.
func (l *limitPlanner) leftRoom(f *planFlow) {
	for _, u := range f.Uses {
		id := LimitKeyID{u.Limit, u.Key}
		k, r := l.keys[id], l.rule(u.Limit)
		holds := f.Parked != nil && *f.Parked == id && f.Need == 0 // one that needs no tokens may go before it
		if k.Parked > 0 && !holds && k.most(r) > 0 {
			l.freed = append(l.freed, id)
		}
	}
}

// more reads the next page of ready flows. It returns the last one of the page; nil if there are no more.
func (l *limitPlanner) more(q ReadyQuery) (*FlowState, error) {
	if q.Rows = flowsPerPage; q.After.HeadID.IsZero() {
		q.After = nil
	}
	page, err := l.src.Ready(q)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	last := page[len(page)-1]
	if err := l.enter(page, func(int) bool { return true }); err != nil || len(page) < q.Rows {
		return nil, err
	}
	return &last, nil
}

// take takes the first run of a flow.
func (l *limitPlanner) take(f *planFlow) error {
	run := f.heads[0]
	l.drop(f)
	if !l.claim.Take(f.Lane, run.Size) {
		l.place(f) // the claim is full
		return nil
	}
	flow := f.Flow
	l.picks = append(l.picks, Pick{LimitRun: run, Lane: f.Lane, Priority: f.Priority, Flow: &flow})
	for _, u := range f.Uses {
		k := l.keys[LimitKeyID{u.Limit, u.Key}]
		k.take(l.rule(u.Limit), u.Tokens, l.at)
	}
	if f.Fair != nil {
		l.turn(f)
	}
	f.heads = f.heads[1:]
	if len(f.heads) == 0 && !f.all {
		if err := l.readOn(f); err != nil {
			return err
		}
	}
	l.place(f)
	l.leftRoom(f)
	return nil
}

// drop removes a flow from its pool, where it is the first.
func (l *limitPlanner) drop(f *planFlow) {
	if f.Fair == nil {
		l.pool = l.pool[1:]
		return
	}
	k := l.fair[f.Fair.Limit].keys[0]
	if k.flows = k.flows[1:]; len(k.flows) == 0 {
		l.fair[f.Fair.Limit].keys = l.fair[f.Fair.Limit].keys[1:]
	}
}

// turn gives the key of a flow its turn.
func (l *limitPlanner) turn(f *planFlow) {
	p, key := l.fair[f.Fair.Limit], l.keys[*f.Fair]
	i := slices.IndexFunc(p.keys, func(k *fairKey) bool { return k.key == key })
	var k *fairKey
	if i >= 0 {
		k = p.keys[i]
		p.keys = slices.Delete(p.keys, i, i+1)
	}
	for _, u := range f.Uses {
		if u.Limit == f.Fair.Limit {
			p.limit.Clock = key.turn(u.Tokens, p.limit.Clock)
		}
	}
	if k != nil {
		p.insert(k)
	}
	// Flows that are parked at a key with room may come before those of this key now.
	l.partly = slices.DeleteFunc(l.partly, func(k *planKey) bool { return k.done || k.Parked == 0 || k.most(l.rule(k.Limit)) == 0 })
	for _, k := range l.partly {
		l.freed = append(l.freed, k.LimitKeyID)
	}
}

// readOn reads further runs of a flow of which all that were read are taken.
func (l *limitPlanner) readOn(f *planFlow) error {
	n := 2*f.read + l.want
	heads, err := l.src.Heads([]Flow{f.Flow}, n)
	if err != nil {
		return err
	}
	f.heads, f.all = heads[0][min(f.read, len(heads[0])):], len(heads[0]) < n
	f.read = len(heads[0])
	return nil
}

// known reports whether the plan has a flow.
func (l *limitPlanner) known(f FlowState) bool { return l.flows[f.Text()] != nil }

// settle leaves things as the next plan expects them: flows that are held back are parked, and of the
// flows that are parked at a key with room, the first of each lane is ready.
func (l *limitPlanner) settle() error {
	for id, k := range l.keys {
		if k.Parked > 0 {
			l.freed = append(l.freed, id)
		}
	}
	slices.SortFunc(l.freed, compareKeyIDs)
	for {
		if err := l.unpark(1); err != nil {
			return err
		}
		fresh := l.fresh
		l.fresh = nil
		for _, f := range fresh {
			if f.Parked != nil || !f.due(l.now) {
				continue
			}
			if at, need := l.verdict(f); at != nil {
				l.park(f, at, need)
				l.leftRoom(f)
			}
		}
		if len(l.freed) == 0 {
			return nil
		}
	}
}

// unpark makes flows ready that are parked at keys which have room: for each lane as many as there is room
// for, and at most n.
func (l *limitPlanner) unpark(n int) error {
	var qs []ParkedQuery
	var keys []*planKey
	ids := l.freed
	l.freed = nil
	seen := map[LimitKeyID]bool{}
	for _, id := range ids {
		k, r := l.keys[id], l.rule(id.Limit)
		room, tokens := k.most(r), k.tokens(r, l.at)
		if seen[id] || k.Parked == 0 || k.done || room == 0 {
			continue
		}
		if seen[id] = true; !k.asked {
			k.asked, k.need = true, tokens
			l.partly = append(l.partly, k)
		}
		q := ParkedQuery{Key: id, Need: k.need, Skip: k.skip, Rows: int(min(room, max(tokens, 1), int64(n)))}
		if k.skip > 0 { // the first ones have left room
			q.Rows = max(q.Rows, flowsPerPage/2)
		}
		k.skip += q.Rows
		qs, keys = append(qs, q), append(keys, k)
	}
	if len(qs) == 0 {
		return nil
	}
	answers, err := l.src.Parked(qs)
	if err != nil {
		return err
	}
	var states []FlowState
	for i, a := range answers {
		k := keys[i]
		if k.done = len(a.Flows) == 0; k.done {
			k.Need = least(a.Least, k.put)
		}
		if slices.ContainsFunc(a.Flows, l.known) {
			l.freed = append(l.freed, k.LimitKeyID) // the plan has them already; there may be others
		}
		states = append(states, a.Flows...)
		for j := range a.Flows {
			if !l.lanes[a.Flows[j].Lane] {
				l.stirred[a.Flows[j].Queue] = true
			}
		}
	}
	return l.enter(states, func(int) bool { return true })
}
