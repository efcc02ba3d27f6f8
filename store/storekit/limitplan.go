package storekit

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// LimitState is a limit as a plan needs it.
type LimitState struct {
	Name  string
	Rule  store.LimitRule // in force
	Clock int64           // the virtual clock (P23)
}

// LimitRun is a waiting run as a plan needs it.
type LimitRun struct {
	ID        store.ID
	VisibleAt time.Time
	Size      int // [ClaimSize]
}

// FlowState is a flow in which runs wait, as a store keeps it. A store has a row for each flow in which a
// run waits; a row may be behind the runs by the marks that no plan has folded yet.
type FlowState struct {
	Flow
	HeadAt time.Time // of the first run of the flow, by VisibleAt, then ID
	HeadID store.ID
	// Parked is the key that holds the flow back; nil: the flow is ready. A flow is parked only if it is
	// due. Need is how many tokens it waits for there; 0: it waits for a lease to end.
	Parked *LimitKeyID
	Need   int64
	// Fair is the key that takes turns with others for the flow; nil: no limit of the flow is fair. Turn is
	// the VTime of that key. A plan that changes the VTime of a key changes the Turn of all of its flows:
	// those that are not in the plan, too.
	Fair *LimitKeyID
	Turn int64
}

// A LimitMark tells a plan what a write has changed. A store makes it in the write itself.
type LimitMark struct {
	// Freed are the uses under which a lease has ended; nil: none has.
	Freed []store.LimitUse
	// News is the flow in which a run has come to wait, has ceased to wait without a lease, or waits with
	// another time; no Uses: there is none.
	News Flow
}

// ReadyQuery asks for flows that are ready, and due, in the lanes of the claim, in their order.
type ReadyQuery struct {
	// Fair is the fair limit of the flows. If it is empty, the query is for flows without one.
	//
	// Flows without one are in the order of P7 of their heads. Flows with one are in the order of the
	// greater of Turn and Clock, then the key, then P7 of their heads.
	Fair  string
	Clock int64
	After *FlowState // the last one of the previous page; nil: from the beginning
	Rows  int
}

// Compare compares flows in the order of the query.
func (q *ReadyQuery) Compare(f, g *FlowState) int {
	if q.Fair != "" {
		if c := cmp.Or(cmp.Compare(max(f.Turn, q.Clock), max(g.Turn, q.Clock)), cmp.Compare(f.Fair.Key, g.Fair.Key)); c != 0 {
			return c
		}
	}
	return compareHeads(f.Priority, f.HeadAt, f.HeadID, g.Priority, g.HeadAt, g.HeadID)
}

// ParkedQuery asks for flows that are parked at a key, of each lane and priority, and separately for each
// Fair limit and without one. They are in the order of their heads, or of their turns. Lanes are all lanes
// of the namespace, not only those of the claim.
type ParkedQuery struct {
	Key  LimitKeyID
	Need int64 // only flows that need no more than this
	Skip int   // of each lane and priority
	Rows int   // of each lane and priority
}

// ParkedFlows is the answer to a [ParkedQuery].
type ParkedFlows struct {
	Flows []FlowState
	// Least is the least Need above that of the query among the flows that are parked at the key; 0: there
	// is none.
	Least int64
}

// PlainRun is a due run that limits do not concern: it is under no limit, or its lease expired.
type PlainRun struct {
	LimitRun
	Lane
	Priority int
}

// LimitSource is what a plan reads: the state of one namespace, which does not change during the plan. Each
// method is called with as much as possible at a time, because it may cost a round trip.
type LimitSource interface {
	// Limits returns all limits of the namespace.
	Limits() ([]LimitState, error)
	// Marks returns marks, the oldest first, as many as the store folds at a time. The store deletes them
	// when it applies the plan.
	Marks() ([]LimitMark, error)
	// Keys returns the states of keys, in the order of ids.
	Keys(ids []LimitKeyID) ([]LimitKeyState, error)
	// Flows returns the rows of flows, in the order of flows; nil for one without a row.
	Flows(flows []Flow) ([]*FlowState, error)
	// Heads returns the first n runs that wait in each flow, due or not, by VisibleAt, then ID.
	Heads(flows []Flow, n int) ([][]LimitRun, error)
	// TokensDue returns keys whose NextAt is set and not after now, the earliest first, as many as the store
	// looks at in a claim.
	TokensDue() ([]LimitKeyID, error)
	// Paused reports whether the runs of a lane are not claimed.
	Paused(lane Lane) (bool, error)
	// Ready returns the ready flows that the query asks for; see [ReadyQuery].
	Ready(q ReadyQuery) ([]FlowState, error)
	// Parked returns the flows that are parked at the keys that the queries name, one result for each query, in
	// order; see [ParkedQuery].
	Parked(qs []ParkedQuery) ([]ParkedFlows, error)
	// Plain returns the due runs that limits do not concern: those that the claim would take if no other
	// runs were there, by P7. MaxBytes does not matter.
	Plain() ([]PlainRun, error)
}

// Pick is a run that a plan leases.
type Pick struct {
	LimitRun
	Lane
	Priority int
	// Flow is the flow in which the run waited; nil: limits do not concern it.
	Flow *Flow
}

// LimitPlan is what a claim under limits does. The store applies it in one write with the deletion of the
// marks: it leases the picked runs, and stores the keys and flows.
type LimitPlan struct {
	Picks []Pick // in the order of P7
	// Keys are the keys that change. IdleKeys are those whose state says no more than that of a key without
	// a row: the store deletes them.
	Keys     []LimitKeyState
	IdleKeys []LimitKeyID
	// Flows are the flows that change. Gone are those in which no run waits any more.
	Flows, Gone []FlowState
	// Clocks are the virtual clocks that change, by limit.
	Clocks map[string]int64
	// Stirred are the queues in which runs have become permitted, of other lanes than those of the claim:
	// the store sends [store.HintQueue] for each of them.
	Stirred []string
}

// flowsPerPage is how many flows a plan looks at in one read.
const flowsPerPage = 128

// PlanLimits decides which runs a claim takes, if runs under limits wait in the namespace. It is the rule
// of [store.Leases.Claim], and it looks only at what the marks name, at flows that are ready, and at as many
// of the flows that are parked at a key as the key has room for (P18).
func PlanLimits(p *store.ClaimParams, now time.Time, src LimitSource) (*LimitPlan, error) {
	l, err := planLimits(p, now, src)
	if err != nil {
		return nil, err
	}
	return l.plan(), nil
}

func planLimits(p *store.ClaimParams, now time.Time, src LimitSource) (*limitPlanner, error) {
	l := &limitPlanner{
		src: src, claim: NewClaim(p), want: p.Wanted(), now: now, at: now.UnixMicro(), lanes: map[Lane]bool{},
		limits: map[string]*LimitState{}, keys: map[LimitKeyID]*planKey{}, flows: map[string]*planFlow{},
		fair: map[string]*fairPool{}, stirred: map[string]bool{},
	}
	for _, lane := range Lanes(p) {
		paused, err := src.Paused(lane)
		if err != nil {
			return nil, err
		}
		l.lanes[lane] = !paused
	}
	for _, step := range []func() error{l.load, l.fold, l.tokensDue, l.choose, l.settle} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// planKey is a key in a plan.
type planKey struct {
	LimitKeyState
	before LimitKeyState
	asked  bool  // whether flows parked at it were read
	need   int64 // of that query
	skip   int
	done   bool  // there are no more of these
	put    int64 // the least need of the flows that this plan has parked at it; 0: none
}

// planFlow is a flow in a plan.
type planFlow struct {
	FlowState
	before *FlowState // its row; nil: none
	heads  []LimitRun // that are left, as far as they were read
	all    bool       // there are no others
	read   int        // how many were read
}

func (f *planFlow) due(now time.Time) bool {
	return len(f.heads) > 0 && !f.heads[0].VisibleAt.After(now)
}

// compare orders flows by P7 of their heads.
func (f *planFlow) compare(g *planFlow) int {
	return compareHeads(f.Priority, f.HeadAt, f.HeadID, g.Priority, g.HeadAt, g.HeadID)
}

func compareHeads(p int, at time.Time, id store.ID, q int, bt time.Time, jd store.ID) int {
	return cmp.Or(cmp.Compare(q, p), at.Compare(bt), bytes.Compare(id[:], jd[:]))
}

// limitPlanner makes a plan.
type limitPlanner struct {
	src   LimitSource
	claim *Claim
	want  int
	now   time.Time
	at    int64
	lanes map[Lane]bool

	limits map[string]*LimitState
	keys   map[LimitKeyID]*planKey
	flows  map[string]*planFlow // by text

	plain   []PlainRun
	pool    []*planFlow // candidates without a fair limit, by P7
	bound   *FlowState  // the last one that was read; nil: all were
	fair    map[string]*fairPool
	picks   []Pick
	freed   []LimitKeyID // keys that may have room for flows that are parked at them
	stirred map[string]bool
	fresh   []*planFlow // that nothing has looked at
	partly  []*planKey  // of which some of the flows that are parked there were read
}

func (l *limitPlanner) rule(limit string) store.LimitRule {
	if s := l.limits[limit]; s != nil {
		return s.Rule
	}
	return store.LimitRule{}
}

// load reads the limits, and the runs that they do not concern.
func (l *limitPlanner) load() error {
	limits, err := l.src.Limits()
	if err != nil {
		return err
	}
	for i := range limits {
		l.limits[limits[i].Name] = &limits[i]
	}
	if l.want > 0 {
		l.plain, err = l.src.Plain()
	}
	return err
}

// fold takes in what the marks say.
func (l *limitPlanner) fold() error {
	marks, err := l.src.Marks()
	if err != nil {
		return err
	}
	var ids []LimitKeyID
	var news []Flow
	for i := range marks {
		ids = append(ids, KeysOf(marks[i].Freed)...)
		if marks[i].News.Limited() {
			news = append(news, marks[i].News)
		}
	}
	if err := l.needKeys(ids); err != nil {
		return err
	}
	for i := range marks {
		for _, id := range KeysOf(marks[i].Freed) {
			l.keys[id].Held--
		}
	}
	l.freed = append(l.freed, ids...)
	news = distinctFlows(news)
	rows, err := l.src.Flows(news)
	if err != nil {
		return err
	}
	states := make([]FlowState, len(news))
	for i, row := range rows {
		if states[i] = (FlowState{Flow: news[i]}); row != nil {
			states[i] = *row
		}
	}
	return l.enter(states, func(i int) bool { return rows[i] != nil })
}

// distinctFlows returns each flow once.
func distinctFlows(flows []Flow) []Flow {
	seen := map[string]bool{}
	return slices.DeleteFunc(flows, func(f Flow) bool {
		text := f.Text()
		if seen[text] {
			return true
		}
		seen[text] = true
		return false
	})
}

// tokensDue lets flows go whose keys have tokens again.
func (l *limitPlanner) tokensDue() error {
	ids, err := l.src.TokensDue()
	if err != nil {
		return err
	}
	l.freed = append(l.freed, ids...)
	return l.needKeys(ids)
}

// needKeys reads the states of keys.
func (l *limitPlanner) needKeys(ids []LimitKeyID) error {
	seen := map[LimitKeyID]bool{}
	var missing []LimitKeyID
	for _, id := range ids {
		if l.keys[id] == nil && !seen[id] {
			missing, seen[id] = append(missing, id), true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	states, err := l.src.Keys(missing)
	if err != nil {
		return err
	}
	for i, s := range states {
		s.LimitKeyID = missing[i]
		l.keys[s.LimitKeyID] = &planKey{LimitKeyState: s, before: s}
	}
	return nil
}

// enter takes flows into the plan that are not yet in it, as ready ones, with their first runs and their
// keys. stored says which of them have a row.
func (l *limitPlanner) enter(states []FlowState, stored func(i int) bool) error {
	var fresh []*planFlow
	var flows []Flow
	var ids []LimitKeyID
	for i := range states {
		text := states[i].Text()
		if l.flows[text] != nil {
			continue
		}
		f := &planFlow{FlowState: states[i]}
		if stored(i) {
			f.before = &states[i]
		}
		l.flows[text] = f
		fresh, flows, ids = append(fresh, f), append(flows, f.Flow), append(ids, KeysOf(f.Uses)...)
		if f.Parked != nil {
			ids = append(ids, *f.Parked)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	n := 2 + max(0, l.want-1)/len(fresh)
	heads, err := l.src.Heads(flows, n)
	if err == nil {
		err = l.needKeys(ids)
	}
	if err != nil {
		return err
	}
	for i, f := range fresh {
		f.heads, f.read, f.all = heads[i], len(heads[i]), len(heads[i]) < n
		if f.Parked != nil {
			l.keys[*f.Parked].Parked--
			f.Parked, f.Need = nil, 0
		}
		l.place(f)
		l.fresh = append(l.fresh, f)
		if f.before == nil || f.before.Parked == nil {
			l.leftRoom(f) // others may come before it now
		}
	}
	return nil
}

// place puts a ready flow where its first run belongs.
func (l *limitPlanner) place(f *planFlow) {
	f.Fair, f.Turn = nil, 0
	for _, u := range f.Uses {
		if l.rule(u.Limit).Fair {
			f.Fair = &LimitKeyID{u.Limit, u.Key}
			break
		}
	}
	if len(f.heads) == 0 {
		f.HeadAt, f.HeadID = time.Time{}, store.ID{}
		return
	}
	f.HeadAt, f.HeadID = f.heads[0].VisibleAt, f.heads[0].ID
	if !f.due(l.now) || !l.lanes[f.Lane] {
		return
	}
	if f.Fair != nil {
		l.fairPool(f.Fair.Limit).add(l, f)
		return
	}
	at, _ := slices.BinarySearchFunc(l.pool, f, (*planFlow).compare)
	l.pool = slices.Insert(l.pool, at, f)
}

// verdict says which key holds a flow back, and how many tokens it waits for there.
func (l *limitPlanner) verdict(f *planFlow) (at *planKey, need int64) {
	for _, u := range f.Uses {
		if k := l.keys[LimitKeyID{u.Limit, u.Key}]; k.most(l.rule(u.Limit)) == 0 {
			return k, 0
		}
	}
	for _, u := range f.Uses {
		r, k := l.rule(u.Limit), l.keys[LimitKeyID{u.Limit, u.Key}]
		if n := min(u.Tokens, max(r.Most(), 1)); n > k.tokens(r, l.at) {
			return k, n
		}
	}
	return nil, 0
}

// park parks a flow that a key holds back.
func (l *limitPlanner) park(f *planFlow, k *planKey, need int64) {
	id := k.LimitKeyID
	f.Parked, f.Need = &id, need
	k.Parked++
	k.put = least(k.put, need)
	k.Need = least(k.Need, need)
}

// least returns the smaller of two numbers, where 0 means none.
func least(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// plan returns the plan as it was made.
func (l *limitPlanner) plan() *LimitPlan {
	out := &LimitPlan{Picks: l.picks, Clocks: map[string]int64{}}
	slices.SortFunc(out.Picks, func(a, b Pick) int {
		return compareHeads(a.Priority, a.VisibleAt, a.ID, b.Priority, b.VisibleAt, b.ID)
	})
	for _, k := range l.keys {
		l.finish(k)
		switch idle := k.Idle(l.clock(k.Limit), l.now); {
		case idle && k.before != (LimitKeyState{LimitKeyID: k.LimitKeyID}):
			out.IdleKeys = append(out.IdleKeys, k.LimitKeyID)
		case !idle && k.LimitKeyState != k.before:
			out.Keys = append(out.Keys, k.LimitKeyState)
		}
	}
	slices.SortFunc(out.IdleKeys, compareKeyIDs)
	slices.SortFunc(out.Keys, func(a, b LimitKeyState) int { return compareKeyIDs(a.LimitKeyID, b.LimitKeyID) })
	for _, f := range l.flows {
		if f.Fair != nil {
			f.Turn = l.keys[*f.Fair].VTime
		}
		switch {
		case len(f.heads) > 0 && (f.before == nil || !f.before.equal(&f.FlowState)):
			out.Flows = append(out.Flows, f.FlowState)
		case len(f.heads) == 0 && f.before != nil:
			out.Gone = append(out.Gone, *f.before)
		}
	}
	slices.SortFunc(out.Flows, func(a, b FlowState) int { return cmp.Compare(a.Text(), b.Text()) })
	slices.SortFunc(out.Gone, func(a, b FlowState) int { return cmp.Compare(a.Text(), b.Text()) })
	for _, p := range l.fair {
		if p.limit.Clock != p.before {
			out.Clocks[p.limit.Name] = p.limit.Clock
		}
	}
	for q := range l.stirred {
		out.Stirred = append(out.Stirred, q)
	}
	slices.Sort(out.Stirred)
	return out
}

// finish determines when the plan looks at a key again without being told to: when there are the tokens that
// a parked flow needs, if leases do not hold it back as well, or when nothing is left to remember.
func (l *limitPlanner) finish(k *planKey) {
	r := l.rule(k.Limit)
	if k.Parked == 0 {
		k.Need = 0
	}
	k.NextAt = 0
	switch {
	case k.Need > 0 && k.most(r) > 0:
		k.NextAt = k.tokensAt(r, k.Need, l.at)
	case k.Held == 0 && k.Parked == 0 && k.Weight <= 1 && k.TAT > l.at && k.VTime <= l.clock(k.Limit):
		k.NextAt = k.TAT
	}
}

// clock returns the virtual clock of a limit.
func (l *limitPlanner) clock(limit string) int64 {
	if s := l.limits[limit]; s != nil {
		return s.Clock
	}
	return 0
}

func compareKeyIDs(a, b LimitKeyID) int {
	return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key))
}

// equal reports whether two states of one flow are the same.
func (f *FlowState) equal(g *FlowState) bool {
	same := func(a, b *LimitKeyID) bool { return a == b || a != nil && b != nil && *a == *b }
	return f.HeadAt.Equal(g.HeadAt) && f.HeadID == g.HeadID && same(f.Parked, g.Parked) && f.Need == g.Need && same(f.Fair, g.Fair) && f.Turn == g.Turn
}

// Of answers the query from all flows that are parked at its key. clocks are the virtual clocks of the limits. A
// store that may have many flows at a key has an index instead.
func (q *ParkedQuery) Of(parked []FlowState, clocks map[string]int64) (out ParkedFlows) {
	type line struct {
		Lane
		priority int
		fair     string
	}
	lines := map[line][]FlowState{}
	for _, f := range parked {
		if f.Need > q.Need {
			out.Least = least(out.Least, f.Need)
			continue
		}
		l := line{f.Lane, f.Priority, ""}
		if f.Fair != nil {
			l.fair = f.Fair.Limit
		}
		lines[l] = append(lines[l], f)
	}
	for l, flows := range lines {
		order := ReadyQuery{Fair: l.fair, Clock: clocks[l.fair]}
		slices.SortFunc(flows, func(a, b FlowState) int { return order.Compare(&a, &b) })
		from := min(q.Skip, len(flows))
		out.Flows = append(out.Flows, flows[from:min(from+q.Rows, len(flows))]...)
	}
	return out
}
