package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A commit begins with one fenced update of its run. It leaves the commit's stamp,
// by which all later statements of the commit know that it was applied. A
// takeover cannot slip between check and write: the update checks the newest
// version of the row, which it then holds.
const (
	commitMark = `UPDATE pawl.runs r SET seq=$2::bigint, stamp=$3::bigint, crashes=0, events=r.events+$4::bigint,
		parts=(r.parts & $5::smallint) | $6::smallint`
	commitFence = ` WHERE r.id=$7::text::uuid AND r.namespace=$8::text AND r.worker=$9::text AND r.epoch=$10::bigint AND r.seq<$2::bigint AND r.leased
		AND $1::bigint IS NOT DISTINCT FROM $1::bigint RETURNING r.status, r.events, r.visible_at, r.pausing, r.queue`

	commitKeep  = commitMark + commitFence
	commitFinal = commitMark + `, status=$11::smallint, output=$12::bytea,
		failure=CASE WHEN $13::boolean THEN coalesce($14::text, r.failure) ELSE $14::text END,
		finished_at=` + now + `, visible_at=NULL, leased=false, pausing=false, wakes=0` + commitFence

	// A canceling run stays so and is claimable at once, that its end be recorded;
	// one that is to pause does so and keeps its time.
	yield = `, status=CASE WHEN r.status=5 THEN 5 WHEN r.pausing THEN 4 ELSE $11::smallint END, paused_from=$11::smallint, leased=false, pausing=false`
	// $17 is the time that was asked for: the earlier of a delay and a moment.
	askedFor = `least(` + now + `+$16::bigint, $17::bigint)`
	// Events that came before this commit's own writes count: the right side of an
	// assignment sees the row as it was. least ignores NULL.
	commitYield = commitMark + yield + `, wakes=$12::smallint, attempt=r.attempt+$13::integer,
		failure=CASE WHEN $13::integer>0 AND r.status<>5 THEN $14::text ELSE r.failure END,
		visible_at=CASE WHEN r.status=5 THEN least(` + now + `, r.deadline) WHEN r.events>$15::bigint THEN least(` + askedFor + `, ` + now + `, r.deadline)
		ELSE least(` + askedFor + `, r.deadline) END` + commitFence
	commitContinue = commitMark + yield + `, wakes=0, attempt=1, generation=r.generation+1, failure=CASE WHEN r.status=5 THEN r.failure END,
		input=$12::bytea, visible_at=least(` + now + `, r.deadline)` + commitFence

	putSteps = `INSERT INTO pawl.steps AS s (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at)
		SELECT $2::text::uuid, t.branch, t.name, t.occurrence::integer, t.kind::smallint, t.status::smallint, t.position, t.idx::integer, t.attempt::integer, $4::bigint, t.output, t.failure,
			` + now + `-t.took, CASE WHEN t.status>=3 THEN ` + now + ` END, coalesce(` + now + `+t.due_in, t.due_at)
		FROM unnest($5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bytea[],
			$14::text[], $15::bigint[], $16::bigint[], $17::bigint[]) t(branch, name, occurrence, kind, status, position, idx, attempt, output, failure, took, due_in, due_at)
		WHERE EXISTS (SELECT 1 FROM pawl.runs WHERE id=$2::text::uuid AND stamp=$3::bigint)
		ON CONFLICT (run_id, branch, name, occurrence) DO UPDATE SET kind=excluded.kind, status=excluded.status, idx=excluded.idx, attempt=excluded.attempt,
			epoch=excluded.epoch, output=excluded.output, failure=excluded.failure, started_at=excluded.started_at, finished_at=excluded.finished_at, due_at=excluded.due_at
		WHERE s.status<3`

	applied = ` EXISTS (SELECT 1 FROM pawl.runs WHERE id=$1::text::uuid AND stamp=$2::bigint)`

	consume = `UPDATE pawl.signals SET consumed=true, payload=NULL WHERE run_id=$1::text::uuid AND id=ANY($3::text[]::uuid[]) AND NOT consumed AND` + applied
	spawn   = `WITH made AS (` + insertOne + ` WHERE EXISTS (SELECT 1 FROM pawl.runs WHERE id=$18::text::uuid AND stamp=$19::bigint)
			ON CONFLICT DO NOTHING RETURNING parent, grp)
		INSERT INTO pawl.groups AS g (run_id, name, total, open) SELECT parent, grp, 1, 1 FROM made WHERE grp IS NOT NULL
		ON CONFLICT (run_id, name) DO UPDATE SET total=g.total+1, open=g.open+1`

	armGroup = `UPDATE pawl.groups SET armed=$3::bigint, wake_open=$4::bigint, wake_failures=$5::bigint WHERE run_id=$1::text::uuid AND name=$6::text AND` + applied
	// An await that is met already, or whose group has no child, ends the sleep.
	metAlready = `UPDATE pawl.runs r SET visible_at=least(r.visible_at, ` + now + `), wakes=r.wakes & ~4::smallint
		WHERE r.id=$2::text::uuid AND r.stamp=$3::bigint AND r.status IN (3,4) AND NOT EXISTS (SELECT 1 FROM pawl.groups
			WHERE run_id=r.id AND name=$4::text AND open>$5::bigint AND NOT ($6::bigint>0 AND failed+canceled>=$6::bigint))
		RETURNING r.visible_at`

	forgetGroups = `DELETE FROM pawl.groups WHERE run_id=$1::text::uuid AND` + applied
	forgetSteps  = `DELETE FROM pawl.steps WHERE run_id=$1::text::uuid AND` + applied
	// A failed step goes with what followed it in its line of execution: see
	// store.StepKey.Related.
	forgetFailed = `DELETE FROM pawl.steps s WHERE s.run_id=$1::text::uuid AND EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id=s.run_id AND f.status=4 AND f.position<=s.position
		AND (f.branch='' OR s.branch='' OR f.branch=s.branch OR starts_with(f.branch, s.branch || '/') OR starts_with(s.branch, f.branch || '/'))) AND` + applied
	forgetChildren = `UPDATE pawl.runs SET grp=NULL, ordinal=0 WHERE parent=$1::text::uuid AND grp IS NOT NULL AND` + applied

	// A write's version is the run's event count after it: the fence has counted all
	// writes of the list.
	writeState = `INSERT INTO pawl.state AS s (run_id, key, value, version, updated_at)
		SELECT r.id, $4::text, $5::bytea, r.events-$6::bigint, ` + now + ` FROM pawl.runs r WHERE r.id=$2::text::uuid AND r.stamp=$3::bigint
		ON CONFLICT (run_id, key) DO UPDATE SET value=excluded.value, version=excluded.version, updated_at=excluded.updated_at`
	deleteState = `DELETE FROM pawl.state WHERE run_id=$1::text::uuid AND key=$3::text AND` + applied
)

// putState adds the writes of a list whose first statement has left its stamp.
func putState(stmts []stmt, setnow any, id store.ID, stamp int64, writes []store.StateWrite) []stmt {
	for i := range writes {
		w := &writes[i]
		if w.Delete {
			stmts = append(stmts, stmt{sql: deleteState, args: []any{id.String(), stamp, w.Key}})
			continue
		}
		stmts = append(stmts, stmt{sql: writeState, args: []any{setnow, id.String(), stamp, w.Key, w.Value, int64(len(writes) - 1 - i)}})
	}
	return stmts
}

// Commit implements store.Leases.
func (s *Store) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]store.CommitResult, len(p.Commits))
	seen := make(map[store.ID]struct{}, len(p.Commits))
	hints, at, stamp := newHints(p.Namespace), setNow(p.Now), newStamp()
	var list []*commit
	var lanes []lane
	var finals []store.ID
	for i := range p.Commits {
		m, res := &p.Commits[i], &results[i]
		if _, twice := seen[m.Lease.Run]; twice {
			res.Err = store.Invalid("commits", fmt.Sprintf("run %v has two commits in one call", m.Lease.Run))
			continue
		}
		seen[m.Lease.Run] = struct{}{}
		if res.Err = m.Validate(s.config.limits); res.Err != nil {
			continue
		}
		list = append(list, &commit{Commit: m, namespace: p.Namespace, at: at, stamp: stamp, res: res, hints: hints})
		for j := range m.Spawn {
			lanes = append(lanes, laneOf(&m.Spawn[j]))
		}
		if m.Transition != nil && m.Transition.Kind.Final() {
			finals = append(finals, m.Lease.Run)
		}
	}
	if len(list) == 0 {
		return results, nil
	}
	if err := s.ensureLanes(ctx, p.Namespace, lanes); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b *commit) int { return slices.Compare(a.Lease.Run[:], b.Lease.Run[:]) })
	var stmts []stmt
	if len(finals) > 0 {
		ids := make([]store.ID, len(list))
		for i, b := range list {
			ids[i] = b.Lease.Run
		}
		stmts = append(stmts, stmt{sql: lockFamily, args: []any{uuids(ids)}})
	}
	for _, b := range list {
		stmts = b.statements(stmts)
	}
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	var missed []stmt
	for _, b := range list {
		if !b.applied {
			missed = append(missed, b.readBack())
			continue
		}
		for i := range b.Spawn {
			hints.queue(b.Spawn[i].Queue)
		}
	}
	hints.send(s)
	return results, s.read(ctx, missed...)
}

// commit makes the statements of one commit and reads their answers.
type commit struct {
	*store.Commit
	namespace string
	at        any
	stamp     int64
	res       *store.CommitResult
	hints     *hints
	applied   bool
}

func (b *commit) statements(stmts []stmt) []stmt {
	run, t := b.Lease.Run.String(), b.Transition
	// guarded adds a statement whose first parameters are those of applied.
	guarded := func(sql string, args ...any) {
		stmts = append(stmts, stmt{sql: sql, args: append([]any{run, b.stamp}, args...)})
	}
	stmts = append(stmts, b.fence())
	again := t != nil && t.Kind == store.Continue
	if len(b.Steps) > 0 && !again {
		stmts = append(stmts, b.steps())
	}
	stmts = putState(stmts, b.at, b.Lease.Run, b.stamp, b.State)
	if len(b.Consumed) > 0 {
		guarded(consume, uuids(b.Consumed))
	}
	for i := range b.Spawn {
		stmts = append(stmts, stmt{sql: spawn, args: append(insertArgs(b.at, b.namespace, &b.Spawn[i], b.Lease.Run), run, b.stamp)})
	}
	switch {
	case t == nil:
	case again:
		guarded(forgetSteps)
		guarded(forgetGroups)
		guarded(forgetChildren)
	case t.Kind == store.Retry:
		guarded(forgetFailed)
	case t.Kind == store.Sleep:
		awaits := oneForEach(t.Await)
		for _, a := range awaits {
			guarded(armGroup, b.Lease.Epoch, a.Open, a.Failures, a.Group)
		}
		for _, a := range awaits {
			stmts = append(stmts, stmt{sql: metAlready, args: []any{b.at, run, b.stamp, a.Group, a.Open, a.Failures}, rows: one(scanTime(&b.res.VisibleAt))})
		}
	case t.Kind.Final():
		guarded(countFinal)
		stmts = append(stmts,
			stmt{sql: wakeParents, args: []any{b.at, run, b.stamp}, rows: wakeRows(b.hints)},
			stmt{sql: closeTree, args: []any{b.at, run, b.namespace, (*string)(nil), canceledWithParent, b.stamp}, rows: treeRows(b.hints)})
	}
	return stmts
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

// fence makes the update that begins a commit.
func (b *commit) fence() stmt {
	var bits, mask int16 = 0, -1
	if len(b.Steps) > 0 {
		bits |= partSteps
	}
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
		mask, bits = ^(partSteps | partGroups), bits & ^(partSteps|partGroups)
	}
	sql, args := commitKeep, []any{b.at, b.Seq, b.stamp, int64(len(b.State)), mask, bits,
		b.Lease.Run.String(), b.namespace, b.Lease.Worker, b.Lease.Epoch}
	switch {
	case t == nil:
	case t.Kind.Final():
		status, why := store.Completed+store.Status(t.Kind-store.Complete), failure(t.Failure)
		if t.Kind == store.Complete {
			why = nil
		}
		sql, args = commitFinal, append(args, int16(status), t.Output, t.Kind == store.CancelRun, why)
	case t.Kind == store.Continue:
		sql, args = commitContinue, append(args, int16(store.Pending), t.Input)
	default:
		var after *int64
		if t.After > 0 {
			d := span(t.After)
			after = &d
		}
		at, status, seen, wakes, more := micros(t.At), store.Pending, int64(math.MaxInt64), int16(0), int64(0)
		if t.Kind == store.Sleep {
			status, seen, wakes = store.Sleeping, b.Seen, int16(t.Wakes)
			if len(t.Await) > 0 {
				wakes |= wakeChildren
			}
		} else if after == nil && at == nil {
			after = new(int64)
		}
		if t.Kind == store.Retry {
			more = 1
		}
		sql, args = commitYield, append(args, int16(status), wakes, more, failure(t.Failure), seen, after, at)
	}
	return stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
		var status int16
		var queue string
		err := scan(&status, &b.res.Events, scanTime(&b.res.VisibleAt), &b.res.Pausing, &queue)
		b.applied, b.res.Status = true, store.Status(status)
		switch {
		case t == nil:
			b.res.VisibleAt = time.Time{} // the lease goes on
		case t.Kind.Final():
			b.hints.final(b.Lease.Run)
		default:
			b.hints.queue(queue)
		}
		return err
	}}
}

func (b *commit) steps() stmt {
	n := len(b.Steps)
	branches, names, outputs := make([]string, n), make([]string, n), make([][]byte, n)
	var numbers [7][]int64 // occurrence, kind, status, position, index, attempt, took
	for i := range numbers {
		numbers[i] = make([]int64, n)
	}
	failures, dueIn, dueAt := make([]*string, n), make([]*int64, n), make([]*int64, n)
	for i := range b.Steps {
		r := &b.Steps[i]
		branches[i], names[i], outputs[i], failures[i] = r.Branch, r.Name, r.Output, failure(r.Failure)
		for k, v := range [7]int64{int64(r.Occurrence), int64(r.Kind), int64(r.Status), r.Position, int64(r.Index), int64(r.Attempt), r.Took.Microseconds()} {
			numbers[k][i] = v
		}
		if dueAt[i] = micros(r.DueAt); r.DueIn > 0 {
			d := span(r.DueIn)
			dueIn[i] = &d
		}
	}
	return stmt{sql: putSteps, args: []any{b.at, b.Lease.Run.String(), b.stamp, b.Lease.Epoch, branches, names, numbers[0], numbers[1], numbers[2],
		numbers[3], numbers[4], numbers[5], outputs, failures, numbers[6], dueIn, dueAt}}
}

// readBack tells a commit that was applied before from one whose lease is lost.
func (b *commit) readBack() stmt {
	b.res.Err = fmt.Errorf("run %v, epoch %d: %w", b.Lease.Run, b.Lease.Epoch, store.ErrLeaseLost)
	return stmt{
		sql: `SELECT r.status, r.events, CASE WHEN NOT r.leased THEN r.visible_at END, r.pausing FROM pawl.runs r
			WHERE r.id=$1::text::uuid AND r.namespace=$2::text AND r.epoch=$3::bigint AND r.seq>=$4::bigint AND r.worker=$5::text`,
		args: []any{b.Lease.Run.String(), b.namespace, b.Lease.Epoch, b.Seq, b.Lease.Worker},
		rows: func(scan func(...any) error) error {
			var status int16
			err := scan(&status, &b.res.Events, scanTime(&b.res.VisibleAt), &b.res.Pausing)
			b.res.Status, b.res.Repeated, b.res.Err = store.Status(status), true, nil
			return err
		},
	}
}
