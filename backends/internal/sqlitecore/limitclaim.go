package sqlitecore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// limited claims when runs under limits may be claimable. It reads what a plan needs on one snapshot, plans,
// and applies the plan with one write, which does nothing if another plan came first. It repeats this until
// the claim is full or nothing is left.
func (c *Core) limited(ctx context.Context, p *store.ClaimParams, m moment, out *store.Claimed) error {
	// Plans of one process do not compete with one another.
	select {
	case c.planning <- struct{}{}:
	default:
		select {
		case c.planning <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := c.moment(ctx, p.Now) // tokens count from when they are given
		if err != nil {
			<-c.planning
			return err
		}
		m = now
	}
	defer func() { <-c.planning }()
	l := &limitedClaim{core: c, ClaimParams: p, moment: m, lanes: sqlkit.Lanes(p), out: out, bytes: sqlkit.AtMost(cmp.Or(p.MaxBytes, store.DefaultClaimBytes)),
		hints: sqlkit.NewHints(p.Namespace)}
	l.now = max(m.now, out.Now.UnixMicro())
	l.stamp, l.until = sqlkit.ClaimStamp(p), m.after(p.LeaseFor)
	l.left = p.Wanted()
	l.room = make([]int, len(p.Demands))
	for i, d := range p.Demands {
		l.room[i] = d.Max
	}
	from := time.Now()
	if err := l.claim(ctx); err != nil {
		return err
	}
	c.publishAll(l.hints)
	c.busy.Store(len(l.runs) > 0)
	c.plans.Store(len(l.runs) > 0)
	c.way.Planned(time.Since(from))
	out.Runs = sqlkit.ClaimedRuns(p, l.runs)
	return nil
}

// claim claims at once, or makes plans.
func (l *limitedClaim) claim(ctx context.Context) error {
	tries := l.core.attempts(l.Namespace)
	tried := l.left > 0 && l.core.config.AtOnce && tries.due()
	if tried {
		if err := l.atOnce(ctx); err != nil {
			return err
		}
		if len(l.runs) > 0 {
			tries.succeeded()
			return nil
		}
	}
	err := l.rounds(ctx)
	if tried && (len(l.runs) > 0 || l.parked) {
		tries.failed()
	}
	if l.spared {
		tries.spared()
	}
	return err
}

// rounds makes and applies plans.
func (l *limitedClaim) rounds(ctx context.Context) error {
	lost := 0
	for round := 0; round < maxRounds && lost < maxLost; round++ {
		again, applied, err := l.round(ctx)
		if err != nil {
			if len(l.runs) > 0 { // what was taken is returned, rather than lost
				break
			}
			return err
		}
		if !applied {
			lost++
			continue
		}
		if lost = 0; !again {
			break
		}
	}
	if lost == maxLost {
		l.out.NextDue = l.out.Now
	}
	l.core.expected = max(l.core.expected/2, fewRuns+2*int64(len(l.runs)))
	return nil
}

const (
	maxRounds = 1000 // each but the last takes runs or parks flows
	maxLost   = 20   // plans in a row that others were faster than

	// A plan reads some more runs of a flow than the last claims took in all: behind a limit of 1, hundreds may be
	// due. If that was too few, the next plan of the claim reads twice as many.
	fewRuns = 8

	// Parks whose keys may permit more, and flows that have become due, are not read in the order of P7. A plan reads
	// some of them, or many if there are more.
	someLoose, manyLoose = 100, 1600

	// manyFresh is how many fresh runs of a list a plan reads at most.
	manyFresh = 1016
)

// limitedClaim is a claim when runs under limits may be claimable.
type limitedClaim struct {
	core *Core
	*store.ClaimParams
	moment
	lanes []sqlkit.Lane
	out   *store.Claimed
	bytes int64
	until int64
	stamp int64
	left  int   // runs that may still be taken
	room  []int // by demand
	runs  []*sqlkit.Taken
	hints *sqlkit.Hints

	plan    *plan
	idle    store.Claimed // the answer if the plan changes nothing
	version int64
	awake   []awakePark
	listed  int64 // the most flows of a list that were read
	recent  int64 // the most fresh runs of a list that were read
	parked  bool  // flows were parked
	spared  bool  // a flow that is full was not parked; see brief
	loose   int   // the most parks, and flows of a lane that have become due, that were read
	fresh   map[flowOf]*waiting
}

// awakePark is a park whose key may permit more.
type awakePark struct {
	park
	queue, workflow, pin string
	flows                []*waiting
	cut                  bool // it has more flows than were read
}

// round makes and applies one plan. again says that another one may take more.
func (l *limitedClaim) round(ctx context.Context) (again, applied bool, err error) {
	if err := l.read(ctx); err != nil {
		return false, false, err
	}
	l.plan.run()
	if l.plan.more {
		l.core.expected = min(2*l.core.expected, 1<<20)
	}
	w := l.changes()
	if w.none() { // no other plan can be in its way, and it is in nobody's
		// Without a round trip, the answer is read only now. A run that came since the plan was read sends a hint.
		if !l.core.config.Batched {
			if err := l.core.runner.Read(ctx, []Stmt{l.next(&l.idle)}); err != nil {
				return false, false, err
			}
		}
		*l.out = l.idle
		l.rest()
		return false, true, nil
	}
	applied, woken, err := l.write(ctx, w)
	if err != nil || !applied {
		return false, applied, err
	}
	taken := len(l.plan.picks)
	l.left -= taken
	l.bytes -= w.size
	l.until++ // the runs of the next plan can be told from these
	for i := range l.room {
		l.room[i] = l.plan.room[i]
	}
	again = l.plan.more || w.more || woken > 0
	full := l.left <= 0 && l.Wanted() > 0
	moved := taken > 0 || len(w.states) > 0 || len(w.flowed) > 0 || len(w.empty) > 0 || len(w.awake) > 0
	return again && moved && !full, true, nil
}

// read reads what a plan needs. If there are more parks, or flows that have become due, than it reads, it reads again.
func (l *limitedClaim) read(ctx context.Context) error {
	l.loose = max(l.loose, someLoose)
	err := l.readOnce(ctx)
	if err == nil && l.loose < manyLoose && slices.ContainsFunc(l.plan.behind, func(b bound) bool { return b.unordered }) {
		l.loose = manyLoose
		err = l.readOnce(ctx)
	}
	return err
}

// readOnce reads what a plan needs, on one snapshot.
func (l *limitedClaim) readOnce(ctx context.Context) error {
	most := int64(max(1, l.left))
	l.listed, l.recent = min(most+16, 200), min(most+16, manyFresh)
	l.plan = &plan{now: l.now, max: l.left, bytes: l.bytes, begun: len(l.runs) > 0, room: slices.Clone(l.room), keys: map[limitKey]*keyState{}, clocks: map[string]int64{}}
	l.awake, l.fresh = nil, map[flowOf]*waiting{}
	rules := map[string]store.LimitRule{}
	lanes := sqlkit.JSON(l.lanes)
	flows, fresh, free := planFlows, planFresh, planFree
	if l.Bare {
		flows, fresh, free = planFlowsBare, planFreshBare, planFreeBare
	}
	each := min(most, l.core.expected)
	args := []any{lanes, l.Namespace, l.now, l.listed, 4*each + 32, each, int64(l.loose)}
	var some int64 // 0: no flow has a row
	none := func() bool { return some == 0 }
	stmts := []Stmt{
		{SQL: planBegin, Args: []any{l.Namespace}, Rows: func(scan func(...any) error) error { return scan(&l.version, &some) }},
		{SQL: planRules, Args: []any{l.Namespace}, Rows: func(scan func(...any) error) error {
			var name, rule string
			var clock int64
			if err := scan(&name, &rule, &clock); err != nil {
				return err
			}
			r, err := parseRule(rule)
			rules[name], l.plan.clocks[name] = r, clock
			return err
		}},
		{SQL: fresh, Args: []any{lanes, l.Namespace, l.now, l.recent}, Rows: func(scan func(...any) error) error { return l.freshRow(scan, rules) }},
	}
	if l.left > 0 {
		stmts = append(stmts, Stmt{SQL: free, Args: []any{lanes, l.Namespace, l.now, most}, Rows: l.freeRow})
	}
	if l.idle = *l.out; l.core.config.Batched {
		stmts = append(stmts, l.next(&l.idle))
	}
	stmts = append(stmts,
		Stmt{SQL: planRows, Args: []any{l.Namespace}, Gate: true},
		Stmt{SQL: flows, Args: args, Rows: func(scan func(...any) error) error { return l.flowRow(scan, rules) }, Unneeded: none},
		Stmt{SQL: planParks, Args: args, Rows: l.parkRow, Unneeded: none})
	if err := l.core.runner.Read(ctx, stmts); err != nil {
		return err
	}
	l.freshBounds()
	l.bounds()
	return nil
}

func (l *limitedClaim) freeRow(scan func(...any) error) error {
	var r dueRun
	err := scan(&r.id, &r.priority, &r.at, &r.demand, &r.queue, &r.workflow, &r.size)
	r.id = slices.Clone(r.id)
	l.plan.free = append(l.plan.free, r)
	return err
}

func (l *limitedClaim) parkRow(scan func(...any) error) error {
	var a awakePark
	var most int
	err := scan(&a.name, &a.key, &a.tokens, &a.queue, &a.workflow, &a.pin, &most)
	n := map[bool]int{} // of fair ones and of others
	for _, f := range l.plan.flows {
		if f.state == flowParked && f.park == a.park && f.queue == a.queue && f.workflow == a.workflow && f.pin == a.pin {
			a.flows = append(a.flows, f)
			n[f.fair != ""]++
		}
	}
	a.cut = n[true] >= most || n[false] >= most
	l.awake = append(l.awake, a)
	return err
}

// flowRow reads a flow.
func (l *limitedClaim) flowRow(scan func(...any) error, rules map[string]store.LimitRule) error {
	f := &waiting{}
	var fairKey, runs, keys string
	var most int
	if err := scan(&f.id, &f.queue, &f.workflow, &f.pin, &f.priority, &f.text, &f.headAt, &f.headID, &f.fair, &fairKey, &f.turn, &f.state,
		&f.park.name, &f.park.key, &f.park.tokens, &most, &runs, &keys); err != nil {
		return err
	}
	if err := l.placed(f, keys, rules); err != nil {
		return err
	}
	var list [][]any
	if err := decode(runs, &list); err != nil {
		return err
	}
	for _, r := range list {
		id, err := hex.DecodeString(r[0].(string))
		if err != nil {
			return err
		}
		f.runs = append(f.runs, dueRun{id: id, priority: f.priority, at: number(r[1]), size: number(r[2]), demand: f.demand, limited: true, queue: f.queue, workflow: f.workflow})
	}
	if f.cut = len(f.runs) > most; f.cut {
		f.runs = f.runs[:most]
	}
	l.plan.flows = append(l.plan.flows, f)
	return nil
}

// freshFlow ends the text of a flow of runs that wait for no step's permits and have no tokens: as fresh ones do.
const freshFlow = ",[],0]"

// freshRow reads a fresh run, which belongs to a flow without a row.
func (l *limitedClaim) freshRow(scan func(...any) error, rules map[string]store.LimitRule) error {
	f := &waiting{fresh: true}
	var keys string
	var size int64
	if err := scan(&f.headID, &f.queue, &f.workflow, &f.pin, &f.priority, &f.text, &f.headAt, &size, &keys); err != nil {
		return err
	}
	f.text = "[" + f.text + freshFlow
	of := flowOf{f.queue, f.workflow, f.pin, f.priority, f.text}
	run := dueRun{id: slices.Clone(f.headID), priority: f.priority, at: f.headAt, size: size, limited: true, fresh: true, queue: f.queue, workflow: f.workflow}
	if l.fresh[of] == nil {
		if err := l.placed(f, keys, rules); err != nil {
			return err
		}
		l.fresh[of] = f
		l.plan.flows = append(l.plan.flows, f)
	}
	f = l.fresh[of]
	run.demand = f.demand
	f.runs = append(f.runs, run)
	return nil
}

// flowOf identifies a flow.
type flowOf struct {
	queue, workflow, pin string
	priority             int64
	text                 string
}

// freshBounds puts the fresh runs of each flow in order, and notes what was not read of the lists of fresh runs: each has
// those of a lane with one priority.
func (l *limitedClaim) freshBounds() {
	n := map[flowOf]int{} // by list: without a text
	last := map[flowOf]*dueRun{}
	for of, f := range l.fresh {
		slices.SortFunc(f.runs, func(a, b dueRun) int { return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.id, b.id)) })
		f.headAt, f.headID = f.runs[0].at, f.runs[0].id
		of.text = ""
		n[of] += len(f.runs)
		if r := &f.runs[len(f.runs)-1]; last[of] == nil || r.after(last[of]) {
			last[of] = r
		}
	}
	for of, r := range last {
		if n[of] >= int(l.recent) {
			l.plan.behind = append(l.plan.behind, bound{demand: r.demand, run: *r})
		}
	}
}

// placed finds the lane of a flow, and reads what is known of its keys.
func (l *limitedClaim) placed(f *waiting, keys string, rules map[string]store.LimitRule) error {
	f.headID = slices.Clone(f.headID)
	i := slices.IndexFunc(l.lanes, func(n sqlkit.Lane) bool { return n.Queue == f.queue && n.Workflow == f.workflow && n.Pin == f.pin })
	if i < 0 {
		return fmt.Errorf("a flow of another lane: %s/%s", f.queue, f.workflow)
	}
	f.demand = l.lanes[i].Demand
	var states [][]any
	if keys != "[]" {
		if err := decode(keys, &states); err != nil {
			return err
		}
	}
	for _, s := range states {
		k := limitKey{s[0].(string), s[1].(string)}
		if l.plan.keys[k] == nil {
			l.plan.keys[k] = &keyState{rule: rules[k.name], held: number(s[2]), tat: number(s[3]), vtime: number(s[4]), weight: number(s[5])}
		}
	}
	return l.uses(f, rules)
}

// uses reads what a flow needs from its text: the limits of the run, those of its step, and whether the
// tokens of the first ones are taken.
func (l *limitedClaim) uses(f *waiting, rules map[string]store.LimitRule) error {
	parts := [3]string{2: "0"}
	if under, plain := strings.CutSuffix(f.text, freshFlow); plain {
		parts[0] = under[1:]
	} else {
		var raw [3]json.RawMessage
		if err := json.Unmarshal([]byte(f.text), &raw); err != nil {
			return fmt.Errorf("stored flow: %w", err)
		}
		parts = [3]string{string(raw[0]), string(raw[1]), string(raw[2])}
	}
	for i := range 2 {
		uses, err := sqlkit.ParseUses(parts[i])
		if err != nil {
			return err
		}
		for _, u := range uses {
			k := limitKey{u.Limit, u.Key}
			if l.plan.keys[k] == nil {
				l.plan.keys[k] = &keyState{rule: rules[k.name], weight: 1}
			}
			n := use{k, l.plan.keys[k], u.Tokens}
			if i == 0 && parts[2] != "0" {
				n.tokens = 0
			}
			f.uses = append(f.uses, n)
		}
	}
	for i := range f.uses {
		if f.fair != "" && f.uses[i].name == f.fair {
			f.fairUse = &f.uses[i]
		}
	}
	if f.fairUse == nil {
		f.fair = ""
	}
	return nil
}

// bounds notes what was not read.
func (l *limitedClaim) bounds() {
	type list struct {
		queue, workflow, pin, fair string
		priority                   int64
	}
	n := map[list]int{}
	last := map[list]*waiting{}
	later := map[list]int{}
	for _, f := range l.plan.flows {
		if f.state == flowLater {
			k := list{queue: f.queue, workflow: f.workflow, pin: f.pin}
			if later[k]++; later[k] == l.loose {
				l.plan.behind = append(l.plan.behind, bound{demand: f.demand, unordered: true})
			}
		}
		if f.state != flowReady || f.fresh {
			continue
		}
		k := list{f.queue, f.workflow, f.pin, f.fair, 0}
		if f.fair == "" {
			k.priority = f.priority
		}
		n[k]++
		if o := last[k]; o == nil || f.fair == "" && f.head().after(o.head()) || f.fair != "" && cmp.Or(cmp.Compare(f.turn, o.turn), cmp.Compare(f.fairUse.key, o.fairUse.key)) > 0 {
			last[k] = f
		}
	}
	for k, f := range last {
		if n[k] >= int(l.listed) {
			l.plan.behind = append(l.plan.behind, boundOf(f))
		}
	}
	if len(l.awake) >= l.loose {
		for demand := range l.Demands {
			l.plan.behind = append(l.plan.behind, bound{demand: demand, unordered: true})
		}
	}
	for i := range l.awake {
		a := &l.awake[i]
		if !a.cut || len(a.flows) == 0 {
			continue
		}
		f := a.flows[0]
		for _, o := range a.flows {
			if o.fair == "" && (f.fair != "" || o.head().after(f.head())) || o.fair != "" && f.fair != "" && o.turn >= f.turn {
				f = o
			}
		}
		b := boundOf(f)
		b.at = l.plan.keys[a.limitKey]
		l.plan.behind = append(l.plan.behind, b)
	}
}

func (f *waiting) head() *dueRun { return &dueRun{id: f.headID, priority: f.priority, at: f.headAt} }

func (r *dueRun) after(o *dueRun) bool { return o.before(r) }

func boundOf(f *waiting) bound {
	b := bound{demand: f.demand, run: *f.head(), fair: f.fair, turn: f.turn}
	if f.fairUse != nil {
		b.key = f.fairUse.key
	}
	return b
}

// planned is what a plan changes.
type planChanges struct {
	ids, seen      []any // runs; those that need permits with what they were like
	size           int64
	keys, clocks   []any
	turned         bool  // times of keys
	heads, gone    []any // flows of which runs are taken, and those of them that seem to have no more
	fairs          []any
	turns          []any
	states, parked []any
	flowed         []any // fresh runs that are parked
	awake, empty   []any
	wake, freed    []any
	more           bool // there are parked flows that the next plan can look at
}

// none reports whether nothing changes.
func (w *planChanges) none() bool {
	return len(w.ids)+len(w.keys)+len(w.turns)+len(w.clocks)+len(w.states)+len(w.parked)+len(w.flowed)+len(w.awake)+len(w.empty)+len(w.wake)+len(w.freed) == 0
}

// changes lists what the plan changes.
func (l *limitedClaim) changes() *planChanges {
	w, p := &planChanges{}, l.plan
	for i := range p.picks {
		r := &p.picks[i]
		id := hex.EncodeToString(r.id)
		w.ids = append(w.ids, id)
		if r.limited {
			w.seen = append(w.seen, []any{id, r.at, flag(r.fresh)})
		}
		w.size += r.size
	}
	clocks := map[string]bool{}
	for k, s := range p.keys {
		if s.taken > 0 {
			w.keys = append(w.keys, []any{k.name, k.key, s.taken, s.tat, s.vtime})
		}
		if s.turned {
			w.turned = true
			if s.rule.Fair {
				w.turns = append(w.turns, []any{k.name, k.key, s.vtime})
				clocks[k.name] = true
			}
		}
	}
	for name := range clocks {
		w.clocks = append(w.clocks, []any{name, p.clocks[name]})
		w.fairs = append(w.fairs, name)
	}
	l.settle(w)
	return w
}

// settle decides where each flow that was read stands now, and when the parks are looked at again.
func (l *limitedClaim) settle(w *planChanges) {
	p := l.plan
	freed, wake := map[limitKey]bool{}, map[limitKey]bool{}
	stays := map[*waiting]bool{}
	brief, many := l.brief(), len(p.picks) >= manyPicks
	l.spared = false
	// parked returns when the flow may go, as far as that is known.
	parked := func(f *waiting, at park, until int64) (t any) {
		if until > 0 {
			t = until
		} else if !freed[at.limitKey] {
			freed[at.limitKey] = true
			w.freed = append(w.freed, []any{at.name, at.key, p.keys[at.limitKey].held})
		}
		for _, u := range f.uses { // its other keys may let others go
			if f.state != flowParked && u.limitKey != at.limitKey && !u.full() && !wake[u.limitKey] {
				wake[u.limitKey] = true
				w.wake = append(w.wake, []any{u.name, u.key})
			}
		}
		return t
	}
	for _, f := range p.flows {
		empty := f.first() == nil && !f.cut
		gone := empty && f.taken > 0
		if f.taken > 0 && !f.fresh {
			w.heads = append(w.heads, f.id)
			if gone {
				w.gone = append(w.gone, f.id)
			}
		}
		state, at, until := int64(flowReady), park{}, int64(0)
		switch ok, where, t := p.permit(f); {
		case gone && f.state != flowParked:
			continue // or not due: planHeads finds the next run
		case empty:
			if f.fair != "" || f.state == flowLater {
				state = flowLater
			}
		case !ok:
			if t == 0 {
				l.core.permits.Wait(where.name, where.key)
			}
			if brief && f.taken > 0 && (f.state == flowReady || many) {
				l.spared = true
			} else {
				state, at, until = flowParked, where, t
			}
		}
		switch {
		case state == f.state && at == f.park:
			stays[f] = true
		case f.fresh:
			w.flowed = append(w.flowed, []any{hex.EncodeToString(f.first().id), at.name, at.key, at.tokens, parked(f, at, until)})
		default:
			w.states = append(w.states, []any{f.id, f.text, state, at.name, at.key, at.tokens})
			if state == flowParked {
				w.parked = append(w.parked, []any{f.id, parked(f, at, until)})
			}
		}
	}
	for i := range l.awake {
		l.settlePark(w, &l.awake[i], stays, freed)
	}
	if len(l.awake) >= l.loose {
		w.more = true
	}
	l.parked = l.parked || len(w.parked)+len(w.flowed) > 0
}

// manyPicks is the number of runs from which on a claim does not park a flow again that was parked. For fewer runs, it would
// cost more that another worker, which looks meanwhile, parks the flow.
const manyPicks = 32

// brief reports whether flows of which runs are taken need not be parked. The worker has got as many runs as it wanted, so it
// claims next when one of them ends, and that ends a permit as well. If nobody parks the flows until then, it can claim at once.
func (l *limitedClaim) brief() bool {
	if !l.core.config.AtOnce || l.left == 0 || len(l.plan.picks) < l.left {
		return false
	}
	rows := 0
	for _, f := range l.plan.flows {
		if !f.fresh {
			rows++
		}
		if f.fair != "" || !strings.HasSuffix(f.text, freshFlow) || slices.ContainsFunc(f.uses, func(u use) bool { return u.rule.Every() > 0 }) {
			return false
		}
	}
	return rows <= onceFlows
}

// settlePark decides when a park is looked at again.
func (l *limitedClaim) settlePark(w *planChanges, a *awakePark, stays map[*waiting]bool, freed map[limitKey]bool) {
	key := []any{a.name, a.key, a.tokens, a.queue, a.workflow, a.pin}
	left := a.cut || slices.ContainsFunc(a.flows, func(f *waiting) bool { return stays[f] })
	k := l.plan.keys[a.limitKey]
	if !left || k == nil {
		w.empty = append(w.empty, key)
		return
	}
	var at any
	switch {
	case k.full():
		if !freed[a.limitKey] {
			freed[a.limitKey] = true
			w.freed = append(w.freed, []any{a.name, a.key, k.held})
		}
		if a.tokens > 0 { // its flows wait for the concurrency now, as far as they were read
			at, w.more = int64(0), true
		}
	case a.tokens > 0 && k.after(a.tokens) > l.now:
		at = k.after(a.tokens)
	default:
		at, w.more = int64(0), w.more || a.cut
	}
	w.awake = append(w.awake, append(key, at))
}

// write applies the plan and reads the runs that it takes. woken is the number of parks that the next plan
// is to look at.
func (l *limitedClaim) write(ctx context.Context, w *planChanges) (applied bool, woken int64, err error) {
	columns, taken := claimColumns, &taking{byID: map[store.ID]*sqlkit.Taken{}}
	if l.Bare {
		columns = bareColumns + `, parts, due_at`
	}
	hints, reply := sqlkit.NewHints(l.Namespace), *l.out
	mine := []any{sqlkit.JSON(l.lanes), l.Namespace, l.stamp, l.until}
	// Of two claims with one stamp, of which one is sent again, each has plans of its own.
	plan := []any{l.Namespace, sqlkit.NewStamp(), l.version}
	var said int64
	stmts := []Stmt{
		{SQL: planGuard, Args: append(plan[:3:3], list(w.seen), int64(len(w.seen)))},
	}
	add := func(sql string, rows []any, affected *int64) {
		if len(rows) > 0 {
			stmts = append(stmts, Stmt{SQL: sql, Args: append(plan[:3:3], list(rows)), Affected: affected})
		}
	}
	add(planKeys, w.keys, nil)
	stmts = append(stmts, Stmt{SQL: planTake + columns, Args: []any{l.Namespace, list(w.ids), l.now, l.version, l.stamp, l.Worker, l.until, l.Build, plan[1]}, Rows: taken.run})
	add(planGone, w.gone, nil)
	add(planHeads, w.heads, nil)
	add(planClocks, w.clocks, nil)
	add(planTurns, w.turns, nil)
	add(planStates, w.states, nil)
	add(planFlow, w.flowed, nil)
	add(planFlowed, w.flowed, nil)
	add(planAwake, w.awake, nil)
	add(planEmpty, w.empty, nil)
	add(planParked, w.parked, nil)
	add(planFlowPark, w.flowed, nil)
	add(planWake, w.wake, &woken)
	add(planFreed, w.freed, nil)
	if w.turned {
		stmts = append(stmts, Stmt{SQL: planForget, Args: []any{l.Namespace, l.now}})
		if len(w.fairs) > 0 {
			stmts = append(stmts, Stmt{SQL: planForgetFair, Args: []any{l.Namespace, l.now, list(w.fairs)}})
		}
	}
	stmts = append(stmts,
		Stmt{SQL: planTold, Args: plan, Rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			hints.WholeQueue(queue)
			return err
		}},
		Stmt{SQL: planApplied, Args: plan, Rows: sqlkit.One(&said)},
		l.next(&reply),
		Stmt{SQL: claimedParts, Args: mine, Gate: true})
	stmts = append(stmts, taken.replay(mine, l.bytes, l.Bare, l.core.config.InTurn)...)
	if err := l.core.runner.Write(ctx, stmts); err != nil {
		return false, 0, err
	}
	*l.out = reply
	l.rest()
	l.took(taken.runs)
	l.hints.List = append(l.hints.List, hints.List...)
	return said != 0 || len(taken.runs) > 0, woken, nil
}

// took adds runs that were taken.
func (l *limitedClaim) took(runs []*sqlkit.Taken) {
	for _, r := range runs {
		if len(r.Run.Under)+len(r.Run.StepUnder) > 0 {
			l.core.permits.Remember(&r.Run)
		}
	}
	l.runs = append(l.runs, runs...)
}

// next asks for what the answer tells beside the runs.
func (l *limitedClaim) next(out *store.Claimed) Stmt {
	return l.nextBy(claimNext, l.core.next, out)
}

// nextBy does so with a statement that is given the time, or with one that has the server's.
func (l *limitedClaim) nextBy(given, server string, out *store.Claimed) Stmt {
	s := Stmt{SQL: server, Args: []any{sqlkit.JSON(l.lanes), l.Namespace, l.Worker, l.stamp}, Rows: l.nextRow(out)}
	if l.set || l.core.config.ServerNow == "" {
		s.SQL, s.Args = given, append(s.Args, l.now)
	}
	return s
}

// nextRow reads the answer to claimNext; what it says about runs under limits is not what the plan knows.
func (l *limitedClaim) nextRow(out *store.Claimed) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		out.Waiting = nil
		later := int64(0)
		err := nextRow(out, &later)(scan)
		if l.Wanted() == 0 {
			out.Waiting = nil
		}
		if later > l.now {
			out.NextDue = earlier(out.NextDue, later)
		}
		return err
	}
}

// rest adds to the answer what the plan has left: due runs that are permitted.
func (l *limitedClaim) rest() {
	for _, f := range l.plan.flows {
		r := f.first()
		if r == nil {
			continue
		}
		if ok, _, _ := l.plan.permit(f); ok {
			at := sqlkit.Micro(r.at)
			if l.out.NextDue.IsZero() || at.Before(l.out.NextDue) {
				l.out.NextDue = at
			}
			if l.Wanted() > 0 {
				l.out.Waiting = store.Waits(l.out.Waiting, f.queue, f.workflow, at)
			}
		}
	}
	if l.plan.more && (l.out.NextDue.IsZero() || l.out.NextDue.UnixMicro() > l.now) {
		l.out.NextDue = sqlkit.Micro(l.now)
	}
}

func list(rows []any) string {
	if rows == nil {
		return "[]"
	}
	return sqlkit.JSON(rows)
}

// decode reads JSON with whole numbers.
func decode(text string, v any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	return d.Decode(v)
}

func number(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

// storedRule is a rule as its column stores it.
type storedRule struct {
	Concurrency int64 `json:"c,omitempty"`
	Tokens      int64 `json:"t,omitempty"`
	Per         int64 `json:"p,omitempty"` // nanoseconds
	Burst       int64 `json:"b,omitempty"`
	Fair        bool  `json:"f,omitempty"`
}

func ruleText(r store.LimitRule) string {
	return sqlkit.JSON(storedRule{r.Concurrency, r.Tokens, int64(r.Per), r.Burst, r.Fair})
}

func parseRule(text string) (store.LimitRule, error) {
	var s storedRule
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return store.LimitRule{}, fmt.Errorf("stored rule: %w", err)
	}
	return store.LimitRule{Concurrency: s.Concurrency, Tokens: s.Tokens, Per: time.Duration(s.Per), Burst: s.Burst, Fair: s.Fair}, nil
}
