package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

const (
	// maxMarks is how many marks a statement folds.
	maxMarks = 1000
	// maxLimitRounds limits how often a claim that found only flows that it had to park looks again.
	maxLimitRounds = 10
	// moreFlows is how many flows of a list the first round reads beyond the runs that the claim wants.
	moreFlows = 20
)

// limited is a claim in a namespace with limits.
type limited struct {
	*claiming
	plan    limitPlan
	byFlow  map[flowAt]*flow
	lists   map[flowList]*flowBound
	listed  int64 // how many flows of each list are read
	keys    map[keyName]*limitKey
	picks   []pick
	freed   bool  // keys got room by the marks
	folded  int64 // marks
	moved   bool  // flows in the lanes of the claim became ready
	changed bool  // flows were settled
	hints   *sqlkit.Hints
}

// flowAt names a flow: the pair says the pin.
type flowAt struct {
	id   store.ID
	pair int64
}

// takeLimited takes runs in a namespace with limits. Claims of such a namespace take turns.
func (c *claiming) takeLimited(ctx context.Context) error {
	for round := 1; ; round++ {
		l := c.newLimited(round)
		from := time.Now()
		err := c.rounds(ctx, l.run)
		c.way.Planned(time.Since(from))
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == codeLockNotAvailable {
			// A transaction holds the lock for long. What is under no limit does not wait for it.
			return c.send(ctx, c.write, c.statements(false)...)
		}
		c.looked(err, time.Since(from))
		if err != nil {
			return err
		}
		c.publishAll(l.hints)
		l.remember()
		if len(c.runs) > 0 || round == maxLimitRounds || c.wanted == 0 || !l.moved && !(l.changed && c.isDue()) && l.folded < maxMarks {
			return nil
		}
		if wait := time.Millisecond << (round - 1); len(l.picks) > 0 {
			// The runs are locked by writes that are about to end; see takeFree.
			if wait > patience {
				return nil
			}
			pause(ctx, wait)
		}
	}
}

// remember remembers the runs that were taken, and the keys that others wait for.
func (l *limited) remember() {
	for _, t := range l.runs {
		if len(t.Run.Under) > 0 {
			l.permits.Remember(&t.Run)
		}
	}
	for _, f := range l.plan.flows {
		if f.state == flowParked {
			l.permits.Wait(f.parked.name, f.parked.key)
		}
	}
}

// newLimited returns a claim that reads twice as many flows in each round, from 1 on.
func (c *claiming) newLimited(round int) *limited {
	return &limited{claiming: c, hints: sqlkit.NewHints(c.p.Namespace), listed: int64(c.wanted + moreFlows<<(round-1))}
}

// run is the transaction: it reads what decides, chooses, and writes.
func (l *limited) run(run func(bool, ...stmt) error) error {
	err := run(false, l.lockLimits(l.p.Namespace), l.begin(), l.fold(), l.load())
	if err == nil && l.folded >= maxMarks {
		err = l.foldMore(run)
	}
	if err != nil {
		return err
	}
	l.link()
	l.picks = l.plan.choose()
	l.plan.settle()
	return run(true, l.writes()...)
}

// foldMore folds the marks behind the first ones, which may be those of the runs that come first, and reads again what
// decides.
func (l *limited) foldMore(run func(bool, ...stmt) error) error {
	for n := 1; l.folded >= maxMarks && n < foldsAtOnce; n++ {
		if err := run(false, append(l.room(nil, nil), l.fold())...); err != nil {
			return err
		}
	}
	return run(false, l.load())
}

func ignore(func(...any) error) error { return nil }

// fold is the statement that reads the marks.
func (l *limited) fold() stmt {
	return foldOf(setNow(l.p.Now), l.p.Namespace, 0, &l.freed, &l.folded)
}

func foldOf(setnow any, namespace string, floor int64, freed *bool, folded *int64) stmt {
	return stmt{sql: foldMarks, args: []any{setnow, namespace, floor, int64(maxMarks)}, rows: func(scan func(...any) error) error {
		var last int64
		return scan(freed, &last, folded)
	}}
}

// lanesArgs are the parameters of limitLanes, and $7.
func (l *limited) lanesArgs() []any {
	return append(l.args[:6:6], int64(l.wanted), l.view.floors, l.pins)
}

// load is the statement that reads what decides.
func (l *limited) load() stmt {
	l.plan, l.picks = limitPlan{rules: map[string]*limitRule{}}, nil
	l.byFlow, l.keys, l.lists = map[flowAt]*flow{}, map[keyName]*limitKey{}, map[flowList]*flowBound{}
	p := &l.plan
	p.wanted, p.bounds = l.wanted, make([]int64, len(l.p.Demands))
	for i := range l.p.Demands {
		p.bounds[i] = int64(l.p.Demands[i].Max)
	}
	if !l.p.Bare {
		p.bytes = l.maxBytes()
	}
	var kind int32
	var a [4]string
	var n [5]int64
	var id, run store.ID
	var ok bool
	var fair string
	var turn int64
	dests := []any{&kind, sqlkit.ID(&id), sqlkit.ID(&run), &a[0], &a[1], &a[2], &a[3], &n[0], &n[1], &n[2], &n[3], &n[4], &ok, &fair, &turn}
	return stmt{sql: loadLimits, args: append(l.lanesArgs(), l.listed), rows: func(scan func(...any) error) error {
		if err := scan(dests...); err != nil {
			return err
		}
		switch kind {
		case 0:
			p.now = n[0]
		case 1:
			p.rules[a[0]] = &limitRule{name: a[0], concurrency: n[0], every: n[1], burst: n[2], clock: n[3], was: n[3], fair: ok}
		case 2:
			return l.readFlow(id, run, a, n, ok, fair, turn)
		case 3:
			l.readUse(id, a, n)
		case 4:
			if f := l.byFlow[flowAt{id, n[0]}]; f != nil {
				f.runs = append(f.runs, waiting{id: run, pair: n[0], priority: int16(n[1]), demand: n[2], at: n[3], size: n[4], past: a[0] != ""})
			}
		case 5:
			p.free = append(p.free, waiting{id: run, pair: n[0], priority: int16(n[1]), demand: n[2], at: n[3], size: n[4], expired: ok, past: a[0] != ""})
		}
		return nil
	}}
}

// readFlow reads a flow. It may be found twice.
func (l *limited) readFlow(id, head store.ID, text [4]string, n [5]int64, taken bool, fair string, turn int64) error {
	l.list(text, n, fair).read(turn, waiting{id: head, at: n[4], priority: int16(n[1])})
	at := flowAt{id, n[0]}
	if l.byFlow[at] != nil {
		return nil
	}
	own, err := sqlkit.ParseUses(text[0])
	if err != nil {
		return err
	}
	step, err := sqlkit.ParseUses(text[1])
	if err != nil {
		return err
	}
	f := &flow{id: id, under: [2]string{text[0], text[1]}, pair: n[0], priority: int16(n[1]), demand: n[2], state: int16(n[3]), parked: keyName{text[2], text[3]}, turn: turn,
		head: waiting{id: head, at: n[4], priority: int16(n[1])}}
	for _, u := range own {
		if taken {
			u.Tokens = 0
		}
		f.uses = append(f.uses, l.use(u))
	}
	for _, u := range step {
		f.uses = append(f.uses, l.use(u))
	}
	l.byFlow[at] = f
	l.plan.flows = append(l.plan.flows, f)
	return nil
}

// flowList names a list of flows that is read up to a number: those of a lane in a state, under a fair limit if they
// are ready, and parked at a key.
type flowList struct {
	pair     int64
	priority int16
	state    int64
	fair     string
	at       keyName
}

// list returns the list in which a flow was found, given its row.
func (l *limited) list(text [4]string, n [5]int64, fair string) *flowBound {
	in := flowList{pair: n[0], priority: int16(n[1]), state: n[3]}
	switch in.state {
	case flowReady:
		in.fair = fair
	case flowParked, flowStarved:
		in.at = keyName{text[2], text[3]}
	}
	b := l.lists[in]
	if b == nil {
		b = &flowBound{demand: n[2], state: int16(in.state), fair: in.fair}
		l.lists[in] = b
	}
	return b
}

func (l *limited) use(u store.LimitUse) heldUse {
	name := keyName{u.Limit, u.Key}
	k := l.keys[name]
	if k == nil {
		k = &limitKey{keyName: name, weight: 1}
		l.keys[name] = k
	}
	return heldUse{k, u.Tokens}
}

func (l *limited) readUse(_ store.ID, text [4]string, n [5]int64) {
	if k := l.keys[keyName{text[0], text[1]}]; k != nil {
		k.held, k.tat, k.vtime, k.weight = n[1], n[2], n[3], n[4]
	}
}

// link joins keys with their rules, finds the limit that decides on the turn of each flow, and notes the lists that
// may have flows that were not read.
func (l *limited) link() {
	for in, b := range l.lists {
		if b.flows >= l.listed {
			b.at = l.keys[in.at]
			l.plan.behind = append(l.plan.behind, b)
		}
	}
	for _, k := range l.keys {
		k.rule = l.plan.rules[k.name]
	}
	for _, f := range l.plan.flows {
		for i := range f.uses {
			u := &f.uses[i]
			if u.rule != nil && u.rule.fair && (f.fair == nil || u.name < f.fair.name) {
				f.fair = u
			}
		}
	}
}

// writes returns the statements that take the runs, record what that changes, and read the rest, as far as there is
// anything to do for them.
func (l *limited) writes() []stmt {
	reads := !l.p.Bare && slices.ContainsFunc(l.picks, func(p pick) bool { return p.past })
	stmts := []stmt{l.lease(l.p.Bare || reads)}
	stmts = append(stmts, l.charge()...)
	stmts = append(stmts, l.settle()...)
	stmts = append(stmts, l.unparking()...)
	stmts = append(stmts, l.nextDue(), l.limitsDue())
	if reads {
		stmts = append(stmts, replay(l.maxBytes(), l.byID)...)
	}
	return stmts
}

// lease is the statement that takes the runs, those with a history only if past is set.
func (l *limited) lease(past bool) stmt {
	n := len(l.picks)
	ids, flows, become := make([]pgtype.UUID, n), make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	expired, pins := make([]bool, n), make([]string, n)
	for i, p := range l.picks {
		ids[i], expired[i], pins[i] = uuid(p.id), p.expired, l.pins[p.pair-1]
		if p.of != nil {
			flows[i], become[i] = uuid(p.of.id), uuid(l.becomes(p.of))
		}
	}
	sql := takeLimitedRuns
	if l.p.Bare {
		sql = takeLimitedBare
	}
	return l.reading(sql, []any{setNow(l.p.Now), l.p.Namespace, ids, flows, expired, l.p.Worker, sqlkit.Span(l.p.LeaseFor), l.stamp, l.p.Build, pins, become, past})
}

// becomes is the flow of the runs of a flow whose tokens are taken.
func (l *limited) becomes(f *flow) store.ID {
	if f.paid.IsZero() {
		f.paid = flowID(l.p.Namespace, l.queues[f.pair-1], l.workflows[f.pair-1], int(f.priority), f.under[0], f.under[1], true)
	}
	return f.paid
}

// charge returns the statements that count what the taken runs hold.
func (l *limited) charge() (stmts []stmt) {
	var ids []pgtype.UUID
	var names, keys []string
	var costs, vtimes []int64
	for _, p := range l.picks {
		if p.of == nil {
			continue
		}
		for i := range p.of.uses {
			u := &p.of.uses[i]
			cost, vtime := int64(0), int64(0)
			if u.rule != nil {
				cost = u.tokens * u.rule.every
			}
			if p.of.fair == u {
				vtime = p.vtime
			}
			ids, names, keys, costs, vtimes = append(ids, uuid(p.id)), append(names, u.name), append(keys, u.key), append(costs, cost), append(vtimes, vtime)
		}
	}
	if len(ids) > 0 {
		stmts = append(stmts, stmt{sql: chargeKeys, args: []any{setNow(l.p.Now), l.p.Namespace, ids, names, keys, costs, vtimes}})
	}
	var limits []string
	var clocks []int64
	for _, r := range l.plan.rules {
		if r.clock != r.was {
			limits, clocks = append(limits, r.name), append(clocks, r.clock)
		}
	}
	if len(limits) > 0 {
		stmts = append(stmts, stmt{sql: setClocks, args: []any{l.p.Namespace, limits, clocks}})
	}
	return stmts
}

// settle returns the statement that records where flows wait.
func (l *limited) settle() []stmt {
	var ids []pgtype.UUID
	var pins, names, keys []string
	var states, ats, turns []int64
	for _, f := range l.plan.flows {
		stale := len(f.runs) == 0 || f.runs[0].id != f.head.id
		if !f.changed && !stale {
			continue
		}
		f.changed, l.changed = true, true
		turn := int64(0)
		if f.fair != nil {
			turn = f.fair.starts()
		}
		ids, pins, states, ats = append(ids, uuid(f.id)), append(pins, l.pins[f.pair-1]), append(states, int64(f.state)), append(ats, f.at)
		names, keys, turns = append(names, f.parked.name), append(keys, f.parked.key), append(turns, turn)
	}
	if len(ids) == 0 {
		return nil
	}
	return []stmt{{sql: settleFlows, args: []any{setNow(l.p.Now), ids, pins, states, ats, names, keys, turns, int64(len(l.picks))}}}
}

// unparking returns the statements for the keys with room: those that the plan has changed, and those that the fold has
// found.
func (l *limited) unparking() []stmt {
	var names, keys []string
	seen := map[keyName]bool{}
	for _, f := range l.plan.flows {
		for i := range f.uses {
			if u := &f.uses[i]; f.changed && !u.full() && !seen[u.keyName] {
				seen[u.keyName] = true
				names, keys = append(names, u.name), append(keys, u.key)
			}
		}
	}
	return l.room(names, keys)
}

// room returns the statements that let claims see the flows that are parked at keys with room. Flows of queues that the claim does not serve are announced.
func (l *limited) room(names, keys []string) (stmts []stmt) {
	if len(names) > 0 || l.freed {
		stmts = append(stmts, stmt{sql: unpark, args: []any{setNow(l.p.Now), l.p.Namespace, names, keys}, rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			if slices.Contains(l.queues, queue) {
				l.moved = true
			} else {
				l.hints.WholeQueue(queue)
			}
			return err
		}})
	}
	return stmts
}

// limitsDue asks for the earliest time of the flows in each lane.
func (l *limited) limitsDue() stmt {
	return l.limitTimes(int64(l.wanted))
}

// limitTimes asks for the earliest time of the flows in each lane.
func (c *claiming) limitTimes(wanted int64) stmt {
	return stmt{sql: limitNext, args: append(c.args[:6:6], wanted, c.view.floors, c.pins), rows: func(scan func(...any) error) error {
		var n limitLane
		err := scan(&n.pair, sqlkit.Time(&n.due), &n.waits)
		c.underLimits = append(c.underLimits, n)
		return err
	}}
}

// limitLane is when the first run under limits in a lane is due, as far as its limits permit.
type limitLane struct {
	pair  int64
	due   time.Time
	waits bool
}

// limitsLooked adds what limitTimes has read to the claim's answer.
func (c *claiming) limitsLooked() {
	if c.metLimits && (c.out.NextDue.IsZero() || c.out.Now.Before(c.out.NextDue)) {
		c.out.NextDue = c.out.Now
	}
	for _, n := range c.underLimits {
		if c.out.NextDue.IsZero() || n.due.Before(c.out.NextDue) {
			c.out.NextDue = n.due
		}
		if n.waits {
			c.out.Waiting = store.Waits(c.out.Waiting, c.queues[n.pair-1], c.workflows[n.pair-1], n.due)
		}
	}
}

// hasLimits reports whether a run of the namespace was ever under a limit, as far as the store knows.
func (b *base) hasLimits(namespace string) bool {
	known, _ := b.spaces.Load(namespace)
	has, _ := known.(bool)
	return has
}

// learnLimits finds out whether the namespace has limits, once. Later claims notice it when it gets some.
func (s *Store) learnLimits(ctx context.Context, namespace string) error {
	if _, known := s.spaces.Load(namespace); known {
		return nil
	}
	var has bool
	err := s.read(ctx, stmt{sql: `SELECT ` + someLimits + `, $1::text`, args: []any{"", namespace}, rows: func(scan func(...any) error) error {
		var none string
		return scan(&has, &none)
	}})
	if err == nil {
		s.spaces.LoadOrStore(namespace, has)
	}
	return err
}

// meetLimits notes that the namespace has limits. The claim that notices it first has looked for other runs
// only: if it has found none, it looks again; otherwise it asks for another claim.
func (c *claiming) meetLimits(has bool) {
	if has && !c.hasLimits(c.p.Namespace) {
		c.spaces.Store(c.p.Namespace, true)
		c.metLimits = true
	}
}

// mark is the first news for claims of a namespace with limits.
type mark struct {
	seq   int64 // 0: there is none
	freed bool  // it says only that permits ended
}

// firstMark asks for the first mark.
func (c *claiming) firstMark() stmt {
	return stmt{sql: firstMark, args: []any{c.p.Namespace}, rows: sqlkit.One(&c.mark.seq, &c.mark.freed)}
}

// giveWay looks whether there is work, and lets others claim first if all there is are permits that ended,
// and not here. It reports whether there is work left.
func (c *claiming) giveWay(ctx context.Context) (some bool, err error) {
	for try := 0; ; try++ {
		last, from := c.mark, time.Now()
		if err := c.look(ctx); err != nil {
			return false, err
		}
		switch {
		case c.isDue():
			return true, nil
		case c.mark.seq == 0:
			return false, nil
		case !c.mark.freed || try == sqlkit.MaxWays || c.mark == last:
			return true, nil
		}
		if c.way.Give(ctx, time.Since(from)) {
			return true, nil
		}
	}
}

// putSpace: $1 namespace.
const putSpace = `INSERT INTO pawl.limit_spaces (namespace) VALUES ($1::text) ON CONFLICT DO NOTHING`

// ensureSpace records that the namespace has limits before the first run under one is created, so that no
// creation waits for another one's transaction; see ensureLanes.
func (s *Store) ensureSpace(ctx context.Context, namespace string, under bool) error {
	if !under || s.hasLimits(namespace) {
		return nil
	}
	if err := s.write(ctx, stmt{sql: putSpace, args: []any{namespace}}); err != nil {
		return err
	}
	if s.in == nil {
		s.spaces.Store(namespace, true)
	}
	return nil
}

// anyUnder reports whether a run is under a limit.
func anyUnder(runs []store.NewRun) bool {
	return slices.ContainsFunc(runs, func(r store.NewRun) bool { return len(r.Under) > 0 })
}
