package sqlitecore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A commit begins with one fenced update of its run, a form of it for each kind
// of transition. It leaves the commit's stamp, by which all later statements of
// the commit know that it was applied.
const (
	// The usual commit of a run to which nothing unusual has happened: its answer is
	// known beforehand. RETURNING would cost as much again as the update itself.
	plainKeep = `UPDATE runs SET seq=?, stamp=?, crashes=0, parts=parts | ?
		WHERE id=? AND namespace=? AND worker=? AND epoch=? AND seq=?-1 AND leased=1 AND status=2 AND pausing=0 AND events=?`
	plainFinal = `UPDATE runs SET seq=?, stamp=?, crashes=0, parts=parts | ?, status=?, output=?, failure=?, finished_at=?,
			visible_at=NULL, leased=0, pausing=0, wakes=0
		WHERE id=? AND namespace=? AND worker=? AND epoch=? AND seq=?-1 AND leased=1 AND status=2 AND events=? AND grp IS NULL AND parts & 32 = 0`

	commitMark  = `UPDATE runs SET seq=?, stamp=?, crashes=?, events=events+?, parts=parts & ? | ?`
	commitFence = ` WHERE id=? AND namespace=? AND worker=? AND epoch=? AND seq=?-1 AND leased=1
		RETURNING status, events, visible_at, pausing`

	commitKeep  = commitMark + commitFence
	commitFinal = commitMark + `, status=?, output=?, failure=CASE WHEN ? THEN coalesce(?, failure) ELSE ? END, finished_at=?,
		visible_at=NULL, leased=0, pausing=0, wakes=0` + commitFence + `, parent, grp, parts`

	// A canceling run stays so and is claimable at once, that its end be recorded,
	// unless it is released for a while; one that is to pause does so and keeps its time.
	yield = `, status=CASE WHEN status=5 THEN 5 WHEN pausing=1 THEN 4 ELSE ? END, paused_from=?, leased=0, pausing=0`
	// Events that came before this commit's own writes count: the right side of an
	// assignment sees the row as it was.
	commitYield = commitMark + yield + `, wakes=?, attempt=attempt+?, failure=CASE WHEN status=5 THEN failure WHEN ? THEN ? ELSE coalesce(?, failure) END,
		visible_at=CASE WHEN status=5 AND NOT ? THEN coalesce(min(?, deadline), ?) WHEN events>? THEN min(coalesce(?, ?), ?, coalesce(deadline, ?))
		ELSE coalesce(min(?, deadline), ?, deadline) END` + commitFence + `, queue`
	commitContinue = commitMark + yield + `, wakes=0, attempt=1, generation=generation+1, failure=CASE WHEN status=5 THEN failure END, input=?,
		visible_at=min(?, coalesce(deadline, ?))` + commitFence + `, queue`

	applied = ` EXISTS (SELECT 1 FROM runs WHERE id=? AND stamp=?)`

	putInto     = `INSERT INTO steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at) `
	putStep     = putInto + `SELECT ?,?,?,?,?,?,?,?,?,?,?,?,?,?,? WHERE` + applied + putConflict
	putStepNow  = putInto + `VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)` + putConflict // for a runner that leaves out what is unneeded
	putConflict = `
		ON CONFLICT DO UPDATE SET kind=excluded.kind, status=excluded.status, idx=excluded.idx, attempt=excluded.attempt, epoch=excluded.epoch,
			output=excluded.output, failure=excluded.failure, started_at=excluded.started_at, finished_at=excluded.finished_at, due_at=excluded.due_at
		WHERE steps.status<3`
	consume = `UPDATE signals SET consumed=1, payload=NULL WHERE run_id=? AND id=? AND consumed=0 AND` + applied
	// The child before this was made if changes() says so; then it counts.
	countSpawned = `INSERT INTO groups (run_id, name, total, open) SELECT ?, ?, 1, 1 WHERE changes()=1
		ON CONFLICT DO UPDATE SET total=total+1, open=open+1`

	armGroup = `UPDATE groups SET armed=?, wake_open=?, wake_failures=? WHERE run_id=? AND name=? AND` + applied
	// An await that is met already, or whose group has no child, ends the sleep.
	metAlready = `UPDATE runs SET visible_at=min(coalesce(visible_at, ?), ?), wakes=wakes & ~4 WHERE id=? AND stamp=? AND status IN (3,4)
		AND NOT EXISTS (SELECT 1 FROM groups WHERE run_id=runs.id AND name=? AND open>? AND NOT (?>0 AND failed+canceled>=?))
		RETURNING visible_at`

	forgetGroups = `DELETE FROM groups WHERE run_id=? AND` + applied
	forgetSteps  = `DELETE FROM steps WHERE run_id=? AND` + applied
	// A failed step goes with what followed it in its line of execution: see
	// store.StepKey.Related.
	forgetFailed = `DELETE FROM steps AS s WHERE s.run_id=? AND EXISTS (SELECT 1 FROM steps f WHERE f.run_id=s.run_id AND f.status=4 AND f.position<=s.position
		AND (f.branch='' OR s.branch='' OR f.branch=s.branch OR substr(f.branch, 1, length(s.branch)+1)=s.branch || '/'
			OR substr(s.branch, 1, length(f.branch)+1)=f.branch || '/')) AND` + applied
	forgetInput    = `DELETE FROM large_inputs WHERE run_id=? AND` + applied
	forgetChildren = `UPDATE runs SET grp=NULL, ordinal=0 WHERE parent=? AND grp IS NOT NULL AND` + applied
	putInput       = `INSERT INTO large_inputs (run_id, data) SELECT ?, ? WHERE` + applied + ` ON CONFLICT DO UPDATE SET data=excluded.data`
)

// Commit implements store.Leases.
func (c *Core) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	m, err := c.moment(ctx, p.Now)
	if err != nil {
		return nil, err
	}
	results, hints := make([]store.CommitResult, len(p.Commits)), newHints(p.Namespace)
	seen := make(map[store.ID]struct{}, len(p.Commits))
	list := make([]*commit, 0, len(p.Commits))
	stamp := newStamp()
	for i := range p.Commits {
		item, res := &p.Commits[i], &results[i]
		if _, twice := seen[item.Lease.Run]; twice {
			res.Err = store.Invalid("commits", fmt.Sprintf("run %v has two commits in one call", item.Lease.Run))
			continue
		}
		seen[item.Lease.Run] = struct{}{}
		if res.Err = item.Validate(c.config.Limits); res.Err == nil {
			list = append(list, &commit{Commit: item, namespace: p.Namespace, moment: m, stamp: stamp + int64(i), inTurn: c.config.InTurn, res: res, hints: hints})
		}
	}
	some := false
	bytes := 0
	for _, b := range list {
		bytes += b.Size()
	}
	batched := c.config.Batched && bytes <= maxTable
	if batched {
		if some, err = c.commitMany(ctx, list); err != nil {
			return nil, err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(b *commit) bool { return !b.missed() })
	together := batched && c.apart.Add(-1) < 0
	for len(rest) > 0 {
		part, ends := rest, false
		if together {
			part, ends = nextPart(rest)
		}
		rest = rest[len(part):]
		if ends {
			if ends, err = c.endMany(ctx, part); err != nil {
				return nil, inPart(some, err)
			}
			some, together = some || ends, ends
		}
		if !ends {
			stmts := make([]Stmt, 0, 4*len(part))
			for _, b := range part {
				stmts = b.statements(stmts)
			}
			if err := c.runner.Write(ctx, stmts); err != nil {
				return nil, inPart(some, err)
			}
			some = true
		}
	}
	for _, b := range list {
		if b.plainly > 0 {
			*b.res = b.usual
			if b.Transition != nil {
				hints.final(b.Lease.Run)
			}
			continue
		}
		for i := range b.Spawn {
			if n := &b.Spawn[i]; b.applied {
				hints.queue(n.Queue)
				b.res.Spawned = store.Tally(b.res.Spawned, n.Queue, n.Workflow, store.Pending, *b.made[i])
			}
		}
		if b.missed() && !b.res.Repeated && b.res.Err == nil {
			b.res.Err = fmt.Errorf("run %v, epoch %d: %w", b.Lease.Run, b.Lease.Epoch, store.ErrLeaseLost)
		}
	}
	hints.send(c)
	return results, nil
}

// Forms of plainKeep and plainFinal for many commits: see table. What is not in a SET
// costs no entry of an index.
const (
	// keepMany: where a commit of the call ends its run (?3 is false), parents and
	// children have to wait for their turn.
	keepMany = `UPDATE runs SET seq=j.value->>1, stamp=j.value->>2, crashes=0, parts=parts | j.value->>3
	FROM json_each(?1) j WHERE runs.id=unhex(j.value->>0) AND namespace=?2 AND worker=j.value->>5 AND epoch=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1
		AND status=2 AND events=j.value->>7 AND pausing=0 AND (?3 OR runs.parent IS NULL AND parts & 32=0)
	RETURNING stamp`
	finalUpdate = `UPDATE runs SET seq=j.value->>1, stamp=j.value->>2, crashes=0, parts=parts | j.value->>3, status=j.value->>4,
		output=substr(?2, j.value->>8, j.value->>9), failure=j.value->>10, finished_at=?3, visible_at=NULL, leased=0, pausing=0, wakes=0
	FROM json_each(?1) j WHERE runs.id=unhex(j.value->>0) AND namespace=?4 AND worker=j.value->>5 AND epoch=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1
		AND status=2 AND events=j.value->>7`
	finalMany = finalUpdate + ` AND grp IS NULL AND runs.parent IS NULL AND parts & 32=0
	RETURNING stamp`

	// endMany ends runs that have no children, all of them (?5 many) or none. Their groups
	// and parents are left to countMany and wakeMany.
	endMany = finalUpdate + ` AND ?5=(SELECT count(*) FROM json_each(?1) k CROSS JOIN runs r ON r.id=unhex(k.value->>0) AND r.namespace=?4
			AND r.worker=k.value->>5 AND r.epoch=k.value->>6 AND r.seq=(k.value->>1)-1 AND r.leased=1 AND r.status=2 AND r.events=k.value->>7 AND r.parts & 32=0)
	RETURNING stamp`
)

// putSteps is putStep for many steps: see table.
const putSteps = putInto + `SELECT unhex(j.value->>0), j.value->>2, j.value->>3, j.value->>4, j.value->>5, j.value->>6, j.value->>7, j.value->>8, j.value->>9,
		j.value->>10, substr(?2, j.value->>11, j.value->>12), j.value->>13, j.value->>14, j.value->>15, j.value->>16
	FROM json_each(?1) j WHERE EXISTS (SELECT 1 FROM runs WHERE id=unhex(j.value->>0) AND stamp=j.value->>1)` + putConflict

// commitMany makes the commits of the usual kind of runs to which nothing unusual has
// happened, by one statement or two, and tells whether there were any. The others are
// left.
func (c *Core) commitMany(ctx context.Context, list []*commit) (some bool, err error) {
	var plain []*commit
	ends, frees := false, false // a run of the call; an external id that another may want
	for _, b := range list {
		ends = ends || b.Transition != nil && b.Transition.Kind.Final()
		frees = frees || slices.ContainsFunc(b.Spawn, func(r store.NewRun) bool { return r.ExternalID != "" })
		if b.isPlain() {
			plain = append(plain, b)
		}
	}
	if len(plain) == 0 || ends && frees { // who comes first decides
		return false, nil
	}
	return c.updateMany(ctx, plain, flag(!ends), finalMany, nil)
}

// apartFor is how many calls end their runs one by one after one in which a run was not as
// expected, such as a parent.
const apartFor = 20

// nextPart are the commits of a list that come next, in its order, and whether they are
// ends of runs that can be tried at once. Each part is a round trip.
func nextPart(list []*commit) (part []*commit, ends bool) {
	isEnd := func(b *commit) bool { return b.isPlain() && b.Transition != nil }
	for n := range list {
		if !isEnd(list[n]) || n+1 < len(list) && !isEnd(list[n+1]) {
			continue
		}
		to := n
		for to < len(list) && isEnd(list[to]) {
			to++
		}
		switch {
		case to-n < 2:
		case n > 0:
			return list[:n], false
		default:
			return list[:to], true
		}
	}
	return list, false
}

// endMany tells whether it has ended the runs.
func (c *Core) endMany(ctx context.Context, list []*commit) (bool, error) {
	var runs table
	for _, b := range list {
		runs.row(b.Lease.Run, nil, b.stamp)
	}
	ended, err := c.updateMany(ctx, list, 0, endMany, []any{int64(len(list))},
		Stmt{SQL: countMany, Args: runs.args()[:1]},
		Stmt{SQL: wakeMany, Args: []any{runs.args()[0], list[0].now}, Rows: wakeRows(list[0].hints)})
	if !ended {
		c.apart.Store(apartFor)
	}
	return ended, err
}

// updateMany makes plain commits, the ends among them by a form of finalUpdate with its
// last parameters, and runs what follows. It tells whether any was applied.
func (c *Core) updateMany(ctx context.Context, list []*commit, families int64, sql string, last []any, more ...Stmt) (some bool, err error) {
	var keeps, ends, steps table
	of := map[int64]*commit{}
	for _, b := range list {
		of[b.stamp] = b
		runs := &keeps
		b.usual = store.CommitResult{Status: store.Running, Events: b.Seen}
		var output payload
		var why any
		if t := b.Transition; t != nil {
			runs = &ends
			b.usual.Status = store.Completed + store.Status(t.Kind-store.Complete)
			output, why = t.Output, failure(t.Failure)
		}
		runs.row(b.Lease.Run, b.Seq, b.stamp, b.bits(), int64(b.usual.Status), b.Lease.Worker, b.Lease.Epoch, b.Seen, output, why)
		for i := range b.Steps {
			s := &b.Steps[i]
			a := b.step(s)
			// a: run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, ...
			steps.row(slices.Concat([]any{b.Lease.Run, b.stamp}, a[1:10], []any{payload(s.Output)}, a[11:])...)
		}
	}
	done := func(scan func(...any) error) error {
		var stamp int64
		err := scan(&stamp)
		if b := of[stamp]; b != nil {
			b.plainly, some = 1, true
		}
		return err
	}
	first := list[0]
	var stmts []Stmt
	if keeps.list != nil {
		stmts = append(stmts, Stmt{SQL: keepMany, Args: []any{keeps.args()[0], first.namespace, families}, Rows: done})
	}
	if ends.list != nil {
		stmts = append(stmts, Stmt{SQL: sql, Args: append(ends.args(first.now, first.namespace), last...), Rows: done})
	}
	if steps.list != nil {
		stmts = append(stmts, Stmt{SQL: putSteps, Args: steps.args()})
	}
	err = c.runner.Write(ctx, append(stmts, more...))
	return some, err
}

// commit makes the statements of one commit and reads their answers.
type commit struct {
	*store.Commit
	moment
	namespace string
	stamp     int64
	inTurn    bool // statements that are unneeded are left out
	res       *store.CommitResult
	hints     *hints

	usual   store.CommitResult // the answer of a plain commit
	plainly int64              // rows that the plain update changed
	applied bool               // by the other update
	parent  store.ID
	group   string
	parts   int64
	made    []*int64 // 1 for each of Spawn that was made
}

func (b *commit) missed() bool { return !b.applied && b.plainly == 0 }

func (b *commit) statements(stmts []Stmt) []Stmt {
	run, t := b.Lease.Run[:], b.Transition
	// guarded adds a statement that ends with the condition applied.
	guarded := func(sql string, args ...any) {
		stmts = append(stmts, Stmt{SQL: sql, Args: append(args, run, b.stamp), Unneeded: b.missed})
	}
	plain, usual := b.plain()
	if usual {
		stmts = append(stmts, plain)
	}
	stmts = append(stmts, b.fence())
	again := t != nil && t.Kind == store.Continue
	for i := range b.Steps {
		if !again {
			if s := &b.Steps[i]; b.inTurn {
				stmts = append(stmts, Stmt{SQL: putStepNow, Args: b.step(s), Unneeded: b.missed})
			} else {
				guarded(putStep, b.step(s)...)
			}
		}
	}
	stmts = putState(stmts, b.Lease.Run, b.stamp, b.State, b.now, b.missed)
	for i := range b.Consumed {
		guarded(consume, run, b.Consumed[i][:])
	}
	for i := range b.Spawn {
		stmts = b.spawn(stmts, &b.Spawn[i])
	}
	switch {
	case t == nil:
	case again:
		guarded(forgetSteps, run)
		guarded(forgetGroups, run)
		guarded(forgetChildren, run)
		guarded(forgetInput, run)
		if len(t.Input) > inlineInput {
			guarded(putInput, run, t.Input)
		}
	case t.Kind == store.Retry:
		guarded(forgetFailed, run)
	case t.Kind == store.Sleep:
		awaits := oneForEach(t.Await)
		for _, a := range awaits {
			guarded(armGroup, b.Lease.Epoch, a.Open, a.Failures, run, a.Group)
		}
		for _, a := range awaits {
			stmts = append(stmts, Stmt{
				SQL: metAlready, Args: []any{b.now, b.now, run, b.stamp, a.Group, a.Open, a.Failures, a.Failures},
				Unneeded: b.missed, Rows: one(scanTime{&b.res.VisibleAt}),
			})
		}
	case t.Kind.Final():
		alone := func() bool { return b.missed() || b.parent.IsZero() || b.group == "" }
		stmts = append(stmts,
			Stmt{SQL: countFinal, Args: []any{flag(t.Kind == store.Complete), flag(t.Kind == store.Fail), flag(t.Kind == store.CancelRun), run, b.stamp}, Unneeded: alone},
			wakeParent(run, b.stamp, b.now, alone, b.hints))
		childless := func() bool { return b.missed() || b.parts&partChildren == 0 }
		stmts = append(stmts, closeChildren(run, b.stamp, b.now, childless, b.hints, &b.res.Ended)...)
	}
	return append(stmts, b.readBack())
}

// oneForEach makes one await of those for one group: a group keeps one condition,
// and what meets any of several meets the easiest.
func oneForEach(list []store.Await) []store.Await {
	var out []store.Await
	for _, a := range list {
		i := slices.IndexFunc(out, func(o store.Await) bool { return o.Group == a.Group })
		if i < 0 {
			out = append(out, a)
			continue
		}
		out[i].Open = max(out[i].Open, a.Open)
		if f := out[i].Failures; f == 0 || a.Failures > 0 && a.Failures < f {
			out[i].Failures = a.Failures // 0: failures do not matter
		}
	}
	return out
}

// plain makes the update that begins a commit of the usual kind; false: it is of
// another.
func (b *commit) plain() (Stmt, bool) {
	if len(b.State) > 0 || len(b.Spawn) > 0 || b.Crashes > 0 {
		return Stmt{}, false
	}
	s := Stmt{SQL: plainKeep, Args: make([]any, 0, 13), Affected: &b.plainly}
	s.Args = append(s.Args, b.Seq, b.stamp, b.bits())
	b.usual = store.CommitResult{Status: store.Running, Events: b.Seen}
	if t := b.Transition; t != nil {
		switch t.Kind {
		case store.Complete:
			b.usual.Status = store.Completed
			s.Args = append(s.Args, int64(store.Completed), blob(t.Output), nil, b.now)
		case store.Fail:
			b.usual.Status = store.Failed
			s.Args = append(s.Args, int64(store.Failed), nil, failure(t.Failure), b.now)
		default:
			return Stmt{}, false
		}
		s.SQL = plainFinal
	}
	s.Args = append(s.Args, b.Lease.Run[:], b.namespace, b.Lease.Worker, b.Lease.Epoch, b.Seq, b.Seen)
	return s, true
}

// isPlain says whether the commit is of the usual kind, and does nothing else.
func (b *commit) isPlain() bool {
	t := b.Transition
	return len(b.State) == 0 && len(b.Spawn) == 0 && len(b.Consumed) == 0 && b.Crashes == 0 && (t == nil || t.Kind == store.Complete || t.Kind == store.Fail)
}

// bits are what a plain commit adds to runs.parts.
func (b *commit) bits() (bits int64) {
	if len(b.Steps) > 0 {
		bits |= partSteps
	}
	if b.Transition != nil && b.Transition.Kind.Final() {
		bits |= partEnded
	}
	return bits
}

// fence makes the update that begins a commit that was not plain.
func (b *commit) fence() Stmt {
	bits, mask := b.bits(), int64(-1)
	if len(b.State) > 0 {
		bits |= partState
	}
	for i := range b.Spawn {
		bits |= partChildren
		if b.Spawn[i].Group != "" {
			bits |= partGroups
		}
	}
	t := b.Transition
	if t != nil && t.Kind == store.Continue {
		mask, bits = ^(partSteps | partGroups | partLargeInput), bits & ^(partSteps|partGroups)
		if len(t.Input) > inlineInput {
			bits |= partLargeInput
		}
	}
	sql, args := commitKeep, make([]any, 0, 20)
	args = append(args, b.Seq, b.stamp, int64(b.Crashes), int64(len(b.State)), mask, bits)
	switch {
	case t == nil:
	case t.Kind.Final():
		status, why := store.Completed+store.Status(t.Kind-store.Complete), failure(t.Failure)
		if t.Kind == store.Complete {
			why = nil
		}
		sql, args = commitFinal, append(args, int64(status), blob(t.Output), flag(t.Kind == store.CancelRun), why, why, b.now)
	case t.Kind == store.Continue:
		input := blob(t.Input)
		if len(t.Input) > inlineInput {
			input = nil
		}
		sql, args = commitContinue, append(args, int64(store.Pending), int64(store.Pending), input, b.now, b.now)
	default:
		var due any
		if t.After > 0 {
			due = b.after(t.After)
		}
		if at := t.At; !at.IsZero() && (due == nil || at.UnixMicro() < due.(int64)) {
			due = at.UnixMicro()
		}
		status, seen, wakes, more := store.Pending, int64(math.MaxInt64), int64(0), int64(0)
		if t.Kind == store.Sleep {
			status, seen, wakes = store.Sleeping, b.Seen, int64(t.Wakes)
			if len(t.Await) > 0 {
				wakes |= wakeChildren
			}
		} else if due == nil {
			due = b.now
		}
		if t.Kind == store.Retry {
			more = 1
		}
		var why any
		if t.Kind != store.Sleep {
			why = failure(t.Failure)
		}
		sql, args = commitYield, append(args, int64(status), int64(status), wakes, more, more, why, why,
			flag(t.Kind == store.Release), b.now, b.now, seen, due, b.now, b.now, b.now, due, due)
	}
	args = append(args, b.Lease.Run[:], b.namespace, b.Lease.Worker, b.Lease.Epoch, b.Seq)
	return Stmt{SQL: sql, Args: args, Unneeded: func() bool { return b.plainly > 0 }, Rows: func(scan func(...any) error) error {
		b.applied = true
		if len(b.State) > 0 {
			b.hints.state(b.Lease.Run)
		}
		dest := []any{&b.res.Status, &b.res.Events, scanTime{&b.res.VisibleAt}, &b.res.Pausing}
		switch {
		case t == nil:
			err := scan(dest...)
			b.res.VisibleAt = time.Time{} // the lease goes on
			return err
		case t.Kind.Final():
			b.hints.final(b.Lease.Run)
			return scan(append(dest, scanID{&b.parent}, scanText{&b.group}, &b.parts)...)
		}
		var queue string
		err := scan(append(dest, &queue)...)
		b.hints.queue(queue)
		return err
	}}
}

func (b *commit) step(s *store.StepRecord) []any {
	var done, due any
	began := b.now - s.Took.Microseconds()
	if !s.StartedAt.IsZero() {
		began = s.StartedAt.UnixMicro()
	}
	if s.Status.Final() {
		done = b.now
	}
	if due = micros(s.DueAt); s.DueIn > 0 {
		due = b.after(s.DueIn)
	}
	return []any{b.Lease.Run[:], s.Branch, s.Name, int64(s.Occurrence), int64(s.Kind), int64(s.Status), s.Position, int64(s.Index), int64(s.Attempt),
		b.Lease.Epoch, blob(s.Output), stepFailure(s.Failure, s.Earlier), began, done, due}
}

func (b *commit) spawn(stmts []Stmt, child *store.NewRun) []Stmt {
	made := new(int64)
	b.made = append(b.made, made)
	none := func() bool { return b.missed() || *made == 0 }
	run := b.Lease.Run[:]
	stmts = append(stmts, Stmt{
		SQL: spawnRun, Args: append(insertArgs(b.namespace, child, b.Lease.Run, b.moment), run, b.stamp),
		Affected: made, Unneeded: b.missed,
	})
	if child.Group != "" {
		stmts = append(stmts, Stmt{SQL: countSpawned, Args: []any{run, child.Group}, Unneeded: none})
	}
	if len(child.Input) > inlineInput {
		// Its guard is the child's own absence from large_inputs.
		stmts = append(stmts, Stmt{
			SQL:  `INSERT INTO large_inputs (run_id, data) SELECT id, ? FROM runs WHERE id=? AND parent=? AND parts & 16 AND` + applied + ` ON CONFLICT DO NOTHING`,
			Args: []any{child.Input, child.ID[:], run, run, b.stamp}, Unneeded: none,
		})
	}
	return stmts
}

// readBack tells a commit that was applied before from one whose lease is lost, or before
// which others are missing.
func (b *commit) readBack() Stmt {
	return Stmt{
		SQL:      `SELECT status, events, visible_at, pausing, epoch, seq, worker, leased FROM runs WHERE id=? AND namespace=?`,
		Args:     []any{b.Lease.Run[:], b.namespace},
		Unneeded: func() bool { return !b.missed() },
		Rows: func(scan func(...any) error) error {
			var now store.CommitResult
			var epoch, seq int64
			var worker string
			var leased bool
			if err := scan(&now.Status, &now.Events, scanTime{&now.VisibleAt}, &now.Pausing, &epoch, &seq, scanText{&worker}, &leased); err != nil || !b.missed() {
				return err
			}
			if leased {
				now.VisibleAt = time.Time{}
			}
			switch {
			case epoch != b.Lease.Epoch || worker != b.Lease.Worker:
			case seq >= b.Seq:
				now.Repeated = true
				*b.res = now
			case leased:
				b.res.Err = store.CommitsMissing(b.Lease, b.Seq, seq)
			}
			return nil
		},
	}
}
