package sqlitecore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A commit begins with one fenced update of its run, in one form for each kind of transition. The
// update leaves the commit's stamp in the row, from which all later statements of the commit know
// that it was applied.
var (
	// The usual commit of a run without a special condition, whose answer is known beforehand. RETURNING
	// would cost as much again as the update itself. Parameters: seq, stamp, the parts to add; for the
	// fence: run, namespace, worker, epoch, seq, events seen.
	plainKeep = sqlkit.Text(`UPDATE runs SET seq=?, stamp=?, crashes=0, parts=parts | ?
		WHERE id=? AND namespace=? AND worker=? AND epoch=? AND seq=?-1 AND leased=1 AND status={running} AND pausing=0 AND events=?`)
	// Parameters: those of plainKeep, and after the parts: status, output, failure, now. plainFinal leaves out what
	// has to be told; plainTold does not. endPermits follows plainLimited.
	plainFinal   = plainEnd + untold
	plainLimited = plainEnd + untoldStep
	plainTold    = tells(plainEnd)
	plainEnd     = sqlkit.Text(`UPDATE runs SET seq=?, stamp=?, crashes=0, parts=parts | ?, status=?, output=?, failure=?, finished_at=?,
			visible_at=NULL, leased=0, pausing=0, wakes=0
		WHERE id=? AND namespace=? AND worker=? AND epoch=? AND seq=?-1 AND leased=1 AND status={running} AND events=? AND grp IS NULL AND parts & {partChildren} = 0`)

	// commitMark: seq, stamp, crashes (NULL: unchanged), the number of writes of state, the parts to keep, the parts to
	// add. commitFence: run, namespace, worker, epoch, seq. The parts between them have their own parameters.
	commitMark  = `UPDATE runs SET seq=?, stamp=?, crashes=coalesce(?, crashes), events=events+?, parts=parts & ? | ?`
	commitFence = ` WHERE id=? AND namespace=? AND worker=? AND epoch=? AND seq=?-1 AND leased=1
		RETURNING status, events, visible_at, pausing`

	commitKeep = commitMark + commitFence
	// Parameters: status, output, whether the present failure stays if there is no new one, failure
	// twice, now.
	commitFinal = commitMark + `, told=NULL, drawn=0, status=?, output=?, failure=CASE WHEN ? THEN coalesce(?, failure) ELSE ? END, finished_at=?,
		visible_at=NULL, leased=0, pausing=0, wakes=0` + commitFence + `, parent, grp, parts, ` + limitedQueue

	// A canceling run stays canceling and is claimable at once, so that its end can be recorded,
	// unless it is released for a while. A run with a pending pause becomes paused and keeps its
	// time.
	yield = sqlkit.Text(`, told=NULL, step_under=?, limited=under IS NOT NULL OR ? IS NOT NULL, drawn=drawn AND ?, status=CASE WHEN status={canceling} THEN {canceling} WHEN pausing=1 THEN {paused} ELSE ? END, paused_from=?, leased=0, pausing=0`)
	// Events that came before this commit's own writes count, because the right side of an assignment
	// sees the old row. Parameters: status twice, wakes, another attempt twice (0 or 1), failure twice,
	// whether a canceling run keeps its time, now twice, events seen, due, now three times, due twice.
	commitYield = sqlkit.Text(commitMark + yield + `, wakes=?, attempt=attempt+?, failure=CASE WHEN status={canceling} THEN failure WHEN ? THEN ? ELSE coalesce(?, failure) END,
		visible_at=CASE WHEN status={canceling} AND NOT ? THEN coalesce(min(?, deadline), ?) WHEN events>? THEN min(coalesce(?, ?), ?, coalesce(deadline, ?))
		ELSE coalesce(min(?, deadline), ?, deadline) END` + commitFence + `, queue`)
	// commitUnder is commitYield for a step that waits for limits (two parameters more): the run is under none
	// of them itself.
	commitUnder = strings.Replace(commitYield, `leased=1`+"\n", sqlkit.Text(`leased=1 AND json_array_length(coalesce(under, '[]'))+json_array_length(?)<={maxLimits}
		AND NOT EXISTS (SELECT 1 FROM json_each(under) o CROSS JOIN json_each(?) s ON s.value->>0=o.value->>0)`)+"\n", 1)
	// Parameters: status twice, input, now twice.
	commitContinue = sqlkit.Text(commitMark + yield + `, wakes=0, attempt=1, generation=generation+1, pin='', pinned=NULL, build=NULL, failure=CASE WHEN status={canceling} THEN failure END, input=?,
		visible_at=min(?, coalesce(deadline, ?))` + commitFence + `, queue`)

	applied = ` EXISTS (SELECT 1 FROM runs WHERE id=? AND stamp=?)`

	putInto     = `INSERT INTO steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at) `
	putStep     = putInto + `SELECT ?,?,?,?,?,?,?,?,?,?,?,?,?,?,? WHERE` + applied + putConflict
	putStepNow  = putInto + `VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)` + putConflict // for a runner that skips unneeded statements
	putConflict = sqlkit.Text(`
		ON CONFLICT DO UPDATE SET kind=excluded.kind, status=excluded.status, idx=excluded.idx, attempt=excluded.attempt, epoch=excluded.epoch,
			output=excluded.output, failure=excluded.failure, started_at=excluded.started_at, finished_at=excluded.finished_at, due_at=excluded.due_at
		WHERE steps.status<{stepFinal}`)
	consume    = `UPDATE signals SET consumed=1, payload=NULL WHERE run_id=? AND id=? AND consumed=0 AND` + applied
	spawnInput = sqlkit.Text(`INSERT INTO large_inputs (run_id, data) SELECT id, ? FROM runs WHERE id=? AND parent=? AND parts & {partLargeInput} AND` + applied + ` ON CONFLICT DO NOTHING`)
	// changes() says whether the child of the statement before was created; only then it counts.
	countSpawned = `INSERT INTO groups (run_id, name, total, open) SELECT ?, ?, 1, 1 WHERE changes()=1
		ON CONFLICT DO UPDATE SET total=total+1, open=open+1`

	// armGroup: epoch, open, failures, run, group.
	armGroup = `UPDATE groups SET armed=?, wake_open=?, wake_failures=? WHERE run_id=? AND name=? AND` + applied
	// An await that is already met, or whose group has no child, ends the sleep. Parameters: now
	// twice, run, stamp, group, open, failures twice.
	metAlready = sqlkit.Text(`UPDATE runs SET told=NULL, visible_at=min(coalesce(visible_at, ?), ?), wakes=wakes & ~{wakeChildren} WHERE id=? AND stamp=? AND status IN ({sleeping},{paused})
		AND NOT EXISTS (SELECT 1 FROM groups WHERE run_id=runs.id AND name=? AND open>? AND NOT (?>0 AND failed+canceled>=?))
		RETURNING visible_at`)

	// pinRun: the build, the whole pin, run.
	pinRun = `UPDATE runs SET told=NULL, pin=?, pinned=? WHERE id=? AND` + applied

	// setTags: the tags, run. Triggers keep run_tags.
	setTags = `UPDATE runs SET tags=? WHERE id=? AND` + applied

	// freeStep ends the permits of the run's step.
	freeStep = `UPDATE runs SET told=NULL, step_under=NULL WHERE id=? AND step_under IS NOT NULL AND leased=1 AND` + applied + ` RETURNING queue`

	forgetGroups = `DELETE FROM groups WHERE run_id=? AND` + applied
	forgetSteps  = `DELETE FROM steps WHERE run_id=? AND` + applied
	// A failed step is deleted together with the steps that followed it in its line of execution:
	// see store.StepKey.Related.
	forgetFailed = sqlkit.Text(`DELETE FROM steps AS s WHERE s.run_id=? AND EXISTS (SELECT 1 FROM steps f WHERE f.run_id=s.run_id AND f.status={stepFailed} AND f.position<=s.position
		AND (f.branch='' OR s.branch='' OR f.branch=s.branch OR substr(f.branch, 1, length(s.branch)+1)=s.branch || '/'
			OR substr(s.branch, 1, length(f.branch)+1)=f.branch || '/')) AND` + applied)
	forgetInput    = `DELETE FROM large_inputs WHERE run_id=? AND` + applied
	forgetChildren = `UPDATE runs SET grp=NULL, ordinal=0 WHERE parent=? AND grp IS NOT NULL AND` + applied
	putInput       = `INSERT INTO large_inputs (run_id, data) SELECT ?, ? WHERE` + applied + ` ON CONFLICT DO UPDATE SET data=excluded.data`
)

// Commit implements store.Leases.
func (c *Core) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	m, err := c.validAt(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	results, hints := make([]store.CommitResult, len(p.Commits)), sqlkit.NewHints(p.Namespace)
	seen := make(map[store.ID]struct{}, len(p.Commits))
	list := make([]*commit, 0, len(p.Commits))
	stamp, watched := sqlkit.NewStamp(), c.watched.Add(-1) >= 0
	for i := range p.Commits {
		item, res := &p.Commits[i], &results[i]
		if _, twice := seen[item.Lease.Run]; twice {
			res.Err = store.Invalid("commits", fmt.Sprintf("the call has two commits of run %v", item.Lease.Run))
			continue
		}
		seen[item.Lease.Run] = struct{}{}
		if res.Err = item.Validate(c.config.Limits); res.Err == nil {
			b := &commit{Commit: item, namespace: p.Namespace, watched: watched, moment: m, stamp: stamp + int64(i), inTurn: c.config.InTurn, res: res, hints: hints}
			b.queue, b.under, b.passes = c.permits.Of(item)
			b.passes = b.passes && b.isPlain() && !watched && len(b.State) == 0
			list = append(list, b)
		}
	}
	passAtMost(list)
	if err := c.apply(ctx, list); err != nil {
		return nil, err
	}
	for _, b := range list {
		c.answer(b)
	}
	c.publishAll(hints)
	return results, nil
}

// answer completes the result of a commit.
func (c *Core) answer(b *commit) {
	if b.passed.did() {
		*b.res, b.res.Next = b.usual, b.passed.run
		c.permits.Tried(b.under, b.passed.run)
		b.hints.Final(b.Lease.Run)
		return
	}
	if b.passes {
		c.permits.Tried(b.under, nil)
	}
	if b.plainly > 0 {
		*b.res = b.usual
		if len(b.State) > 0 {
			b.hints.State(b.Lease.Run)
		}
		b.hints.Answer(b.Commit)
		if b.Transition != nil {
			b.hints.Final(b.Lease.Run)
			frees(b.hints, b.queue)
		}
		return
	}
	for i := range b.Spawn {
		if n := &b.Spawn[i]; b.applied {
			b.hints.Queue(n.Queue)
			b.res.Spawned = store.Tally(b.res.Spawned, n.Queue, n.Workflow, store.Pending, *b.made[i])
		}
	}
	if b.applied && isEnd(b) && !b.watched { // perhaps because it has to be told
		c.watched.Store(watchedFor)
	}
	switch {
	case b.missed() && b.res.Repeated:
		b.res.Next = b.passed.run
	case b.missed() && b.res.Err == nil:
		b.res.Err = sqlkit.LeaseLost(b.Lease)
	}
}

// apply applies the commits, those of the usual kind together if that is faster. Commits that were
// not applied are left in the list.
func (c *Core) apply(ctx context.Context, list []*commit) error {
	some := false
	bytes := 0
	for _, b := range list {
		bytes += b.Size()
	}
	batched := c.config.Batched && bytes <= maxTable
	if batched {
		var err error
		if some, err = c.commitMany(ctx, list); err != nil && !errors.Is(err, ErrTooLong) {
			return err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(b *commit) bool { return !b.missed() })
	together := batched && c.apart.Add(-1) < 0
	for len(rest) > 0 {
		part, ends := rest, false
		if together {
			part, ends = nextPart(rest)
		}
		if ends {
			var err error
			if ends, err = c.endMany(ctx, part); err != nil && !errors.Is(err, ErrTooLong) {
				return inPart(some, err)
			}
			some, together = some || ends, ends
		}
		if !ends {
			if batched {
				part = part[:min(len(part), maxApart)]
			}
			applied, err := c.applyApart(ctx, part)
			if some = some || applied; err != nil {
				return inPart(some, err)
			}
		}
		rest = rest[len(part):]
	}
	return nil
}

// watchedFor is the number of calls that tell the triggers of each end, after a call in which an end was not as expected,
// for example because the namespace has subscriptions.
const watchedFor = 100

// maxApart limits the commits that are sent to a server one by one in a transaction, because the
// server ends a transaction that takes long.
const maxApart = 100

// applyApart applies commits with statements of their own, all in one write, or in halves if that
// takes too long. It reports whether it has applied any.
func (c *Core) applyApart(ctx context.Context, list []*commit) (some bool, err error) {
	stmts := make([]Stmt, 0, 4*len(list))
	for _, b := range list {
		stmts = b.statements(stmts)
	}
	err = c.runner.Write(ctx, permitsOf(list, (*commit).limited).end(stmts))
	if n := len(list); errors.Is(err, ErrTooLong) && n > 1 {
		if some, err = c.applyApart(ctx, list[:n/2]); err != nil {
			return some, err
		}
		_, err = c.applyApart(ctx, list[n/2:])
		return true, err
	}
	return err == nil, err
}

// Forms of plainKeep and plainFinal for many commits: see table. A column that is not in SET costs
// no index entry.
var (
	// keepMany: if a commit of the call ends its run (?3 is false), parents and children have to
	// wait for their turn.
	keepMany = sqlkit.Text(`UPDATE runs SET seq=j.value->>1, stamp=j.value->>2, crashes=0, parts=parts | j.value->>3, events=events+(j.value->>11)
	FROM json_each(?1) j WHERE runs.id=unhex(j.value->>0) AND namespace=?2 AND worker=j.value->>5 AND epoch=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1
		AND status={running} AND events=j.value->>7 AND pausing=0 AND (?3 OR runs.parent IS NULL AND parts & {partChildren}=0)
	RETURNING stamp`)
	finalUpdate = sqlkit.Text(`UPDATE runs SET seq=j.value->>1, stamp=j.value->>2, crashes=0, parts=parts | j.value->>3, events=events+(j.value->>11), status=j.value->>4,
		output=substr(?2, j.value->>8, j.value->>9), failure=j.value->>10, finished_at=?3, visible_at=NULL, leased=0, pausing=0, wakes=0
	FROM json_each(?1) j WHERE runs.id=unhex(j.value->>0) AND namespace=?4 AND worker=j.value->>5 AND epoch=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1
		AND status={running} AND events=j.value->>7`)
	finalRest = sqlkit.Text(` AND grp IS NULL AND runs.parent IS NULL AND parts & {partChildren}=0
	RETURNING stamp, `) + limitedQueue
	finalMany = finalForms{finalUpdate + untoldMany + finalRest, finalUpdate + untoldStepMany + finalRest, tells(finalUpdate + finalRest)}

	// endMany ends runs that have no children: all ?5 of them, or none. countMany and wakeMany
	// handle their groups and parents.
	endMany = finalForms{finalUpdate + untoldMany + endAll(` AND r.under IS NULL AND r.step_under IS NULL`), finalUpdate + untoldStepMany + endAll(` AND r.step_under IS NULL`), tells(finalUpdate + endAll(``))}
)

func endAll(condition string) string {
	return sqlkit.Text(` AND ?5=(SELECT count(*) FROM json_each(?1) k CROSS JOIN runs r ON r.id=unhex(k.value->>0) AND r.namespace=?4
			AND r.worker=k.value->>5 AND r.epoch=k.value->>6 AND r.seq=(k.value->>1)-1 AND r.leased=1 AND r.status={running} AND r.events=k.value->>7 AND r.parts & {partChildren}=0` + condition + `)
	RETURNING stamp, ` + limitedQueue)
}

// finalForms are forms of a statement that ends runs. quiet leaves out those that have to be told; endPermits follows
// limited.
type finalForms struct{ quiet, limited, told string }

// of returns the form for commits.
func (f *finalForms) of(list []*commit) string {
	switch {
	case list[0].watched: // so are the others
		return f.told
	case slices.ContainsFunc(list, (*commit).limited):
		return f.limited
	default:
		return f.quiet
	}
}

// putSteps is putStep for many steps: see table.
var putSteps = putInto + `SELECT unhex(j.value->>0), j.value->>2, j.value->>3, j.value->>4, j.value->>5, j.value->>6, j.value->>7, j.value->>8, j.value->>9,
		j.value->>10, substr(?2, j.value->>11, j.value->>12), j.value->>13, j.value->>14, j.value->>15, j.value->>16
	FROM json_each(?1) j WHERE EXISTS (SELECT 1 FROM runs WHERE id=unhex(j.value->>0) AND stamp=j.value->>1)` + putConflict

// commitMany applies the commits of the usual kind to runs without a special condition, in one or
// two statements. It reports whether there were any such commits. The others are left in the list.
func (c *Core) commitMany(ctx context.Context, list []*commit) (some bool, err error) {
	var plain []*commit
	ends, frees := false, false // ends: a run of the call ends; frees: that may release an external id that another commit wants
	for _, b := range list {
		ends = ends || sqlkit.Ends(b.Commit)
		frees = frees || sqlkit.WantsExternalID(b.Commit)
		if b.isPlain() {
			plain = append(plain, b)
		}
	}
	if len(plain) == 0 || ends && frees { // the order decides
		return false, nil
	}
	return c.updateMany(ctx, plain, flag(!ends), &finalMany, nil)
}

// apartFor is the number of calls that end their runs one by one after a call in which a run was
// not as expected, for example a parent.
const apartFor = 20

// nextPart returns the next commits of a list, in order, and whether they are ends of runs that can
// be tried together. Each part is one round trip.
func nextPart(list []*commit) (part []*commit, ends bool) {
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

// endMany reports whether it has ended the runs.
func (c *Core) endMany(ctx context.Context, list []*commit) (bool, error) {
	var runs table
	for _, b := range list {
		runs.row(b.Lease.Run, nil, b.stamp)
	}
	ended, err := c.updateMany(ctx, list, 0, &endMany, []any{int64(len(list))},
		Stmt{SQL: countMany, Args: runs.args()[:1]},
		Stmt{SQL: wakeMany, Args: []any{runs.args()[0], list[0].now}, Rows: list[0].hints.ParentRows})
	if !ended {
		c.apart.Store(apartFor)
	}
	return ended, err
}

// updateMany applies plain commits, those that end a run with a form of finalUpdate that has
// further parameters at its end, and then runs the statements that follow. It reports whether any
// commit was applied.
func (c *Core) updateMany(ctx context.Context, list []*commit, families int64, final *finalForms, last []any, more ...Stmt) (some bool, err error) {
	var keeps, ends, steps, state table
	of := map[int64]*commit{}
	for _, b := range list {
		of[b.stamp] = b
		runs := &keeps
		p := sqlkit.PlanOf(b.Commit)
		b.usual = store.CommitResult{Status: p.Status, Events: b.Seen + int64(len(b.State))}
		if b.Transition != nil {
			runs = &ends
		}
		runs.row(b.Lease.Run, b.Seq, b.stamp, p.Parts, int64(p.Status), b.Lease.Worker, b.Lease.Epoch, b.Seen, payload(p.Output), text(p.Failure), int64(len(b.State)))
		for i := range b.State {
			w := &b.State[i]
			state.row(b.Lease.Run, b.stamp, w.Key, b.Seen+int64(i)+1, payload(w.Value))
		}
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
	ended := func(scan func(...any) error) error {
		var queue string
		err := done(func(dest ...any) error { return scan(append(dest, sqlkit.TextOrNull(&queue))...) })
		frees(first.hints, queue)
		return err
	}
	var stmts []Stmt
	for _, b := range list {
		if b.passes {
			stmts = b.passOn(stmts)
		}
	}
	if keeps.list != nil {
		stmts = append(stmts, Stmt{SQL: keepMany, Args: []any{keeps.args()[0], first.namespace, families}, Rows: done})
	}
	if ends.list != nil {
		sql := final.of(list)
		stmts = append(stmts, Stmt{SQL: sql, Args: append(ends.args(first.now, first.namespace), last...), Rows: ended})
		if sql == final.limited { // it ends all runs of the list, known or not
			stmts = permitsOf(list, isEnd).end(stmts)
		}
	}
	if steps.list != nil {
		stmts = append(stmts, Stmt{SQL: putSteps, Args: steps.args()})
	}
	if state.list != nil {
		stmts = append(stmts, Stmt{SQL: writeStates, Args: state.args(first.now)})
	}
	err = c.runner.Write(ctx, append(stmts, more...))
	return some, err
}

// commit builds the statements of one commit and reads their answers.
type commit struct {
	*store.Commit
	moment
	namespace string
	queue     string           // of a run that is known to be under limits
	under     []store.LimitUse // of a run that asks to pass its permits on
	passes    bool             // it is to try to pass the permits of its run on
	watched   bool             // an end was not as expected lately: see watchedFor
	stamp     int64
	inTurn    bool // unneeded statements are skipped
	res       *store.CommitResult
	hints     *sqlkit.Hints

	usual   store.CommitResult // the answer of a plain commit
	plainly int64              // rows that the plain update changed
	applied bool               // whether the other update applied it
	parent  store.ID
	group   string
	parts   int64
	made    []*int64 // 1 for each of Spawn that was created
	passed  passed
}

// limited reports whether the commit is to end a run that is known to be under limits, without telling the triggers.
func (b *commit) limited() bool { return b.queue != "" && !b.watched && isEnd(b) }

func (b *commit) missed() bool { return !b.applied && b.plainly == 0 && !b.passed.did() }

func (b *commit) statements(stmts []Stmt) []Stmt {
	run, t := b.Lease.Run[:], b.Transition
	// guarded adds a statement that ends with the condition applied.
	guarded := func(sql string, args ...any) {
		stmts = append(stmts, Stmt{SQL: sql, Args: append(args, run, b.stamp), Unneeded: b.missed})
	}
	b.made = nil
	stmts = b.begin(stmts)
	if p := sqlkit.PlanOf(b.Commit); p.Pin != nil {
		guarded(pinRun, *p.Pin, p.Pinned, run)
	}
	if b.Tags != nil {
		guarded(setTags, text(sqlkit.TagsText(b.Tags)), run)
	}
	if b.Free {
		stmts = append(stmts, Stmt{SQL: freeStep, Args: []any{run, run, b.stamp}, Unneeded: b.missed, Rows: func(scan func(...any) error) error { return freed(scan, b.hints) }})
	}
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
	stmts = b.answer(stmts)
	stmts = b.stream(stmts)
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
		awaits := sqlkit.Awaits(t.Await)
		for _, a := range awaits {
			guarded(armGroup, b.Lease.Epoch, a.Open, a.Failures, run, a.Group)
		}
		for _, a := range awaits {
			stmts = append(stmts, Stmt{
				SQL: metAlready, Args: []any{b.now, b.now, run, b.stamp, a.Group, a.Open, a.Failures, a.Failures},
				Unneeded: b.missed, Rows: sqlkit.One(sqlkit.Time(&b.res.VisibleAt)),
			})
		}
	case t.Kind.Final():
		alone := func() bool { return b.missed() || b.parent.IsZero() || b.group == "" }
		stmts = append(stmts,
			Stmt{SQL: countFinal, Args: []any{flag(t.Kind == store.CompleteRun), flag(t.Kind == store.FailRun), flag(t.Kind == store.CancelRun), run, b.stamp}, Unneeded: alone},
			wakeParent(run, b.stamp, b.now, alone, b.hints))
		childless := func() bool { return b.missed() || b.parts&sqlkit.PartChildren == 0 }
		stmts = append(stmts, closeChildren(run, b.stamp, b.now, childless, b.hints, &b.res.Ended)...)
	}
	var next bool
	stmts = append(stmts, b.readBack(&next))
	if t != nil && t.PassOn > 0 {
		stmts = append(stmts, b.passedBack())
	}
	if len(b.Streams) > 0 {
		stmts = append(stmts, b.streamsBack(&next))
	}
	return stmts
}

// begin adds the updates of the run, of which one applies.
func (b *commit) begin(stmts []Stmt) []Stmt {
	if plain, usual := b.plain(); usual {
		if b.passes && b.inTurn {
			stmts = b.passOn(stmts)
			plain.Unneeded = b.passed.did
		}
		stmts = append(stmts, plain)
	}
	return append(stmts, b.fence())
}

// plain returns the update that begins a commit of the usual kind, and false for a commit of
// another kind.
func (b *commit) plain() (Stmt, bool) {
	t := b.Transition
	if len(b.State) > 0 || len(b.Streams) > 0 || len(b.Spawn) > 0 || b.Crashes > 0 || b.Pin != nil || b.Tags != nil || b.Free || t != nil && t.Kind != store.CompleteRun && t.Kind != store.FailRun {
		return Stmt{}, false
	}
	s := Stmt{SQL: plainKeep, Args: make([]any, 0, 13), Affected: &b.plainly}
	p := sqlkit.PlanOf(b.Commit)
	s.Args = append(s.Args, b.Seq, b.stamp, p.Parts)
	if sqlkit.Ends(b.Commit) {
		switch {
		case b.watched:
			s.SQL = plainTold
		case b.limited():
			s.SQL = plainLimited
		default:
			s.SQL = plainFinal
		}
		s.Args = append(s.Args, int64(p.Status), blob(p.Output), text(p.Failure), b.now)
	}
	b.usual = store.CommitResult{Status: p.Status, Events: b.Seen}
	s.Args = append(s.Args, b.Lease.Run[:], b.namespace, b.Lease.Worker, b.Lease.Epoch, b.Seq, b.Seen)
	return s, true
}

// isEnd reports whether a commit of the usual kind ends its run.
func isEnd(b *commit) bool { return b.isPlain() && b.Transition != nil }

// isPlain reports whether the commit is of the usual kind.
func (b *commit) isPlain() bool { return sqlkit.Plain(b.Commit) }

// fence returns the update that begins a commit that is not plain.
func (b *commit) fence() Stmt {
	p, t := sqlkit.PlanOf(b.Commit), b.Transition
	sql, args := commitKeep, make([]any, 0, 20)
	args = append(args, b.Seq, b.stamp, count(p.Crashes), int64(len(b.State)), p.Keep, p.Parts)
	switch {
	case t == nil:
	case t.Kind.Final():
		why := text(p.Failure)
		sql, args = commitFinal, append(args, int64(p.Status), blob(p.Output), flag(p.Cancel), why, why, b.now)
	case t.Kind == store.Continue:
		input := blob(t.Input)
		args[4] = p.Keep &^ sqlkit.PartLargeInput
		if len(t.Input) > inlineInput {
			input, args[5] = nil, p.Parts|sqlkit.PartLargeInput
		}
		sql, args = commitContinue, append(args, nil, nil, int64(0), int64(p.Status), int64(p.Status), input, b.now, b.now)
	default:
		due, why, more := b.due(&p), text(p.Failure), flag(p.Retry)
		step := text(sqlkit.UsesText(t.Under))
		sql, args = commitYield, append(args, step, step, flag(!p.Retry), int64(p.Status), int64(p.Status), p.Wakes, more, more, why, why,
			flag(p.Release), b.now, b.now, p.Seen, due, b.now, b.now, b.now, due, due)
	}
	args = append(args, b.Lease.Run[:], b.namespace, b.Lease.Worker, b.Lease.Epoch, b.Seq)
	if t != nil && len(t.Under) > 0 {
		step := sqlkit.UsesText(t.Under)
		sql, args = commitUnder, append(args, step, step)
	}
	if len(b.Streams) > 0 {
		sql, args = strings.Replace(sql, "\n\t\tRETURNING", streamsFit+"\n\t\tRETURNING", 1), append(args, sqlkit.StreamRows(b.Streams))
	}
	return Stmt{SQL: sql, Args: args, Unneeded: func() bool { return b.plainly > 0 || b.passed.did() }, Rows: b.fenced}
}

// due returns when a run that yields may be claimed; nil if only an event makes it claimable.
func (b *commit) due(p *sqlkit.Plan) (due any) {
	if p.After > 0 {
		due = b.after(p.After)
	}
	if !p.At.IsZero() && (due == nil || p.At.UnixMicro() < due.(int64)) {
		due = p.At.UnixMicro()
	}
	if p.Now {
		due = b.now
	}
	return due
}

// fenced reads the row that the fence returns: the commit was applied.
func (b *commit) fenced(scan func(...any) error) error {
	b.applied = true
	if len(b.State) > 0 {
		b.hints.State(b.Lease.Run)
	}
	b.hints.Answer(b.Commit)
	b.hints.Streams(b.Commit)
	dest := []any{&b.res.Status, &b.res.Events, sqlkit.Time(&b.res.VisibleAt), &b.res.Pausing}
	switch t := b.Transition; {
	case t == nil:
		err := scan(dest...)
		b.res.VisibleAt = time.Time{} // the lease continues
		return err
	case t.Kind.Final():
		b.hints.Final(b.Lease.Run)
		var queue string
		err := scan(append(dest, sqlkit.ID(&b.parent), sqlkit.TextOrNull(&b.group), &b.parts, sqlkit.TextOrNull(&queue))...)
		frees(b.hints, queue)
		return err
	}
	var queue string
	err := scan(append(dest, &queue)...)
	b.hints.Queue(queue)
	return err
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
		b.Lease.Epoch, blob(s.Output), text(sqlkit.StepFailureText(s.Failure, s.Earlier)), began, done, due}
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
		// It is guarded by the absence of the child's own row in large_inputs.
		stmts = append(stmts, Stmt{
			SQL:  spawnInput,
			Args: []any{child.Input, child.ID[:], run, run, b.stamp}, Unneeded: none,
		})
	}
	return stmts
}

const commitNow = `SELECT status, events, visible_at, pausing, epoch, seq, worker, leased, under FROM runs WHERE id=? AND namespace=?`

// readBack distinguishes a commit that was applied before from one whose lease is lost, or that
// follows missing commits. next receives whether the commit is the next one of the present lease, so that its
// content was refused.
func (b *commit) readBack(next *bool) Stmt {
	return Stmt{
		SQL:      commitNow,
		Args:     []any{b.Lease.Run[:], b.namespace},
		Unneeded: func() bool { return !b.missed() },
		Rows: func(scan func(...any) error) error {
			var now sqlkit.Fate
			var under []store.LimitUse
			err := scan(&now.Status, &now.Events, sqlkit.Time(&now.VisibleAt), &now.Pausing, &now.Epoch, &now.Seq, sqlkit.TextOrNull(&now.Worker), &now.Leased, sqlkit.Uses(&under))
			if err == nil && b.missed() {
				*b.res, *next = now.Of(b.Commit), now.Next(b.Commit)
				if t := b.Transition; t != nil && now.Next(b.Commit) && store.CheckUses(under, t.Under) != nil {
					*b.res = store.CommitResult{Err: store.CheckUses(under, t.Under)}
				}
			}
			return err
		},
	}
}
