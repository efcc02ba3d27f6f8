package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/store"
)

const (
	// An array that is NULL stands for the usual value of each row: see column.
	stepTable = `INSERT INTO pawl.steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure,
			started_at, finished_at, due_at)
		SELECT st.run_id, coalesce(st.branch, ''), st.name, coalesce(st.occurrence, 1), coalesce(st.kind, 1), coalesce(st.status, 3), st.position,
			coalesce(st.idx, 0), coalesce(st.attempt, 1), coalesce(st.epoch, 1), st.output, st.failure,
			coalesce(st.began, ` + now + `-st.took), CASE WHEN coalesce(st.status, 3)>=3 THEN ` + now + ` END, coalesce(` + now + `+st.due_in, st.due_at)
		FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
			$11::bigint[], $12::bytea[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[])
			AS st(run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, began, took, due_in, due_at)`
	stepConflict = `
		ON CONFLICT (run_id, branch, name, occurrence) DO UPDATE SET kind=excluded.kind, status=excluded.status, idx=excluded.idx,
			attempt=excluded.attempt, epoch=excluded.epoch, output=excluded.output, failure=excluded.failure, started_at=excluded.started_at,
			finished_at=excluded.finished_at, due_at=excluded.due_at
		WHERE steps.status<3`

	// plainCommits makes the usual commits of runs to which nothing unusual has
	// happened, all at once. Where a commit of the call ends its run ($28 is false),
	// parents and children have to wait for their turn. Its answer is the places of those that were applied,
	// in one row; what they answer is known beforehand. The array of one keeps the
	// planner to the primary key and the locks in the order of the arrays.
	plainCommits = `WITH ` + plainUpdate + plainSteps + stepConflict + `)
		SELECT coalesce(array_agg(u.n), '{}'::bigint[]), false FROM u`
	plainUpdate = `u AS (UPDATE pawl.runs r SET seq=c.seq, ` + plainSet + plainFrom + plainFence + `
			AND (c.status=2 AND NOT r.pausing OR c.status>2 AND r.grp IS NULL AND (r.parts & 32)=0)
			AND ($28::bool OR r.parent IS NULL AND (r.parts & 32)=0)`
	plainSet = `crashes=0, parts=r.parts | coalesce(c.bits, 1)::smallint | CASE WHEN c.status>2 THEN 64 ELSE 0 END::smallint, status=c.status::smallint,
			output=CASE WHEN c.status>2 THEN c.output ELSE r.output END, failure=CASE WHEN c.status>2 THEN c.failure ELSE r.failure END,
			finished_at=CASE WHEN c.status>2 THEN ` + now + ` ELSE r.finished_at END, visible_at=CASE WHEN c.status=2 THEN r.visible_at END,
			wakes=CASE WHEN c.status=2 THEN r.wakes ELSE 0 END, leased=c.status=2, pausing=false`
	plainFrom = `
		FROM unnest($18::uuid[], $19::text[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bytea[], $26::text[])
			WITH ORDINALITY AS c(id, worker, epoch, seq, seen, status, bits, output, failure, n)`
	plainFence = `
		WHERE r.id = ANY(ARRAY[c.id]) AND r.namespace=$27::text AND r.worker=coalesce(c.worker, $29::text) AND r.epoch=coalesce(c.epoch, 1) AND r.seq=c.seq-1 AND r.leased
			AND r.status=2 AND r.events=coalesce(c.seen, 0)`
	plainSteps = `
		RETURNING r.id, c.n),
		s AS (` + stepTable + ` WHERE st.run_id IN (SELECT u.id FROM u)`

	// boldCommits are plainCommits of steps that have no record yet: commits with one that
	// has are left alone, and told of. To look costs a fraction of being ready for a conflict.
	boldCommits = `WITH known AS (SELECT array_agg(st.run_id) AS runs FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[])
			AS st(run_id, branch, name, occurrence)
		WHERE EXISTS (SELECT 1 FROM pawl.steps x WHERE x.run_id=st.run_id AND x.branch=coalesce(st.branch, '') AND x.name=st.name
			AND x.occurrence=coalesce(st.occurrence, 1) OFFSET 0)), ` + plainUpdate + `
			AND NOT coalesce(r.id = ANY((SELECT k.runs FROM known k)::uuid[]), false)` + plainSteps + `)
		SELECT coalesce(array_agg(u.n), '{}'::bigint[]), (SELECT k.runs IS NOT NULL FROM known k) FROM u`

	// endMany ends runs that have no children, all of them ($28 many) or, if one is not as
	// expected, none. They are locked. Their groups and parents are left to countMany and wakeMany.
	endMany = `WITH good AS (SELECT count(*) AS n` + plainFrom + ` CROSS JOIN pawl.runs r` + endFence + `),
		u AS (UPDATE pawl.runs r SET seq=c.seq, stamp=$30::bigint, ` + plainSet + plainFrom + endFence + `
			AND (SELECT g.n FROM good g)=$28::bigint` + plainSteps + stepConflict + `)
		SELECT count(*)=$28::bigint FROM u`
	endFence = plainFence + ` AND (r.parts & 32)=0`

	// Any other commit begins with one fenced update of its run, a form of it for
	// each kind of transition. It leaves the commit's stamp, by which all later
	// statements of the commit know that it was applied.
	commitKeep = `UPDATE pawl.runs SET seq=$1::bigint, stamp=$2::bigint, crashes=$10::integer, events=events+$3::bigint,
			parts=(parts & $4::smallint) | $5::smallint
		WHERE id=$6::uuid AND namespace=$7::text AND worker=$8::text AND epoch=$9::bigint AND seq=$1::bigint-1 AND leased
		RETURNING status, events, visible_at, pausing, queue`

	commitMark = `UPDATE pawl.runs SET seq=$2::bigint, stamp=$3::bigint, crashes=$11::integer, events=events+$4::bigint,
			parts=(parts & $5::smallint) | $6::smallint`
	commitFence = ` WHERE id=$7::uuid AND namespace=$8::text AND worker=$9::text AND epoch=$10::bigint AND seq=$2::bigint-1 AND leased
		RETURNING status, events, visible_at, pausing, queue`

	commitFinal = commitMark + `, status=$12::smallint, output=$13::bytea,
			failure=CASE WHEN $14::boolean THEN coalesce($15::text, failure) ELSE $15::text END, finished_at=` + now + `,
			visible_at=NULL, leased=false, pausing=false, wakes=0` + commitFence

	// A canceling run stays so and is claimable at once, that its end be recorded,
	// unless it is released for a while; one that is to pause does so and keeps its time.
	commitLeave = `, status=CASE WHEN status=5 THEN 5 WHEN pausing THEN 4 ELSE $12::smallint END, paused_from=$12::smallint, leased=false, pausing=false`

	// Events that came before this commit's own writes count: the right side of an
	// assignment sees the row as it was.
	commitYield = commitMark + commitLeave + `, wakes=$13::smallint, attempt=attempt+$14::boolean::int,
			failure=CASE WHEN status=5 THEN failure WHEN $14::boolean THEN $15::text ELSE coalesce($15::text, failure) END,
			visible_at=CASE WHEN status=5 AND NOT $19::boolean THEN least(` + now + `, deadline)
				WHEN events>$16::bigint THEN least(` + now + `+$17::bigint, $18::bigint, ` + now + `, deadline)
				ELSE least(` + now + `+$17::bigint, $18::bigint, deadline) END` + commitFence
	commitContinue = commitMark + commitLeave + `, wakes=0, attempt=1, generation=generation+1, failure=CASE WHEN status=5 THEN failure END,
			input=$13::bytea, visible_at=least(` + now + `, deadline)` + commitFence

	// The guards of what follows: the run is $1 and the stamp $2, or one further
	// behind the time.
	applied12 = ` EXISTS (SELECT 1 FROM pawl.runs WHERE id=$1::uuid AND stamp=$2::bigint)`
	applied23 = ` EXISTS (SELECT 1 FROM pawl.runs WHERE id=$2::uuid AND stamp=$3::bigint)`

	putSteps = stepTable + ` WHERE EXISTS (SELECT 1 FROM pawl.runs WHERE id=$18::uuid AND stamp=$19::bigint)` + stepConflict
	consume  = `UPDATE pawl.signals SET consumed=true, payload=NULL
		WHERE run_id=$1::uuid AND id = ANY($3::uuid[]) AND` + applied12

	// Only children that are made here count.
	spawnRuns = `WITH made AS (INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, visible_at, external_id, suffix, created_at,
			deadline, input, meta, parent, grp, ordinal, on_close)
		SELECT c.id, $4::text, c.workflow, c.queue, 1, c.priority, least(greatest(` + now + `+c.after, c.at), ` + now + `+c.timeout),
			c.external_id, c.suffix, ` + now + `, ` + now + `+c.timeout, c.input, c.meta, $2::uuid, c.grp, c.ordinal, c.on_close
		FROM unnest($5::uuid[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[],
			$14::bytea[], $15::bytea[], $16::text[], $17::bigint[], $18::bigint[])
			AS c(id, workflow, queue, priority, after, at, timeout, external_id, suffix, input, meta, grp, ordinal, on_close)
		WHERE` + applied23 + ` ON CONFLICT DO NOTHING RETURNING queue, workflow, parent, grp),
		counted AS (INSERT INTO pawl.groups AS g (run_id, name, total, open) SELECT m.parent, m.grp, count(*), count(*) FROM made m WHERE m.grp IS NOT NULL GROUP BY 1, 2
		ON CONFLICT (run_id, name) DO UPDATE SET total=g.total+excluded.total, open=g.open+excluded.open)
		SELECT queue, workflow, count(*) FROM made GROUP BY 1, 2`

	armGroup = `UPDATE pawl.groups SET armed=$3::bigint, wake_open=$4::bigint, wake_failures=$5::bigint
		WHERE run_id=$1::uuid AND name=$6::text AND` + applied12
	// An await that is met already, or whose group has no child, ends the sleep.
	metAlready = `UPDATE pawl.runs r SET visible_at=least(r.visible_at, ` + now + `), wakes=r.wakes & ~4
		WHERE r.id=$2::uuid AND r.stamp=$3::bigint AND r.status IN (3,4)
		AND NOT EXISTS (SELECT 1 FROM pawl.groups g WHERE g.run_id=r.id AND g.name=$4::text AND g.open>$5::bigint
			AND NOT ($6::bigint>0 AND g.failed+g.canceled>=$6::bigint))
		RETURNING r.visible_at`

	forgetGroups = `DELETE FROM pawl.groups WHERE run_id=$1::uuid AND` + applied12
	forgetSteps  = `DELETE FROM pawl.steps WHERE run_id=$1::uuid AND` + applied12
	// A failed step goes with what followed it in its line of execution: see
	// store.StepKey.Related.
	forgetFailed = `DELETE FROM pawl.steps s WHERE s.run_id=$1::uuid
		AND EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id=s.run_id AND f.status=4 AND f.position<=s.position
			AND (f.branch='' OR s.branch='' OR f.branch=s.branch OR starts_with(f.branch, s.branch || '/') OR starts_with(s.branch, f.branch || '/')))
		AND` + applied12
	forgetChildren = `UPDATE pawl.runs c SET grp=NULL, ordinal=0
		WHERE c.parent=$1::uuid AND c.parent IS NOT NULL AND c.grp IS NOT NULL AND` + applied12

	// A write's version is the run's event count after it: the write before in the
	// list has counted all of the list's writes already.
	writeState = `INSERT INTO pawl.state (run_id, key, value, version, updated_at)
		SELECT r.id, $4::text, $5::bytea, r.events-$6::bigint, ` + now + ` FROM pawl.runs r WHERE r.id=$2::uuid AND r.stamp=$3::bigint
		ON CONFLICT (run_id, key) DO UPDATE SET value=excluded.value, version=excluded.version, updated_at=excluded.updated_at`
	deleteState = `DELETE FROM pawl.state WHERE run_id=$1::uuid AND key=$3::text AND` + applied12

	commitsNow = `SELECT id, status, events, visible_at, pausing, epoch, seq, worker, leased FROM pawl.runs
		WHERE id = ANY($1::uuid[]) AND namespace=$2::text`
)

// carefulFor is how many calls are ready for steps that have a record after one that had
// not been.
const carefulFor = 100

// apartFor is how many calls end their runs one by one after one in which a run was not as
// expected, such as a parent.
const apartFor = 20

// begin is a first statement that calls reset whenever the transaction begins,
// which it does again after a deadlock.
func begin(reset func()) stmt {
	return stmt{sql: `SELECT true`, rows: resetRow(reset)}
}

func resetRow(reset func()) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		reset()
		var ok bool
		return scan(&ok)
	}
}

// Commit implements store.Leases.
func (s *Store) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := checkCall("commits", p.Commits, (*store.Commit).Size); err != nil {
		return nil, err
	}
	results := make([]store.CommitResult, len(p.Commits))
	seen := make(map[store.ID]struct{}, len(p.Commits))
	var plain, list []*commit
	ends, wants := false, false // a run of the call; what another wants
	bytes := 0
	stamp, setnow := newStamp(), setNow(p.Now)
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
		b := &commit{Commit: m, namespace: p.Namespace, setnow: setnow, stamp: stamp + int64(i), place: i, res: res}
		ends = ends || b.final()
		wants = wants || b.wants()
		bytes += m.Size()
		if b.plain() {
			plain = append(plain, b)
		} else {
			list = append(list, b)
		}
	}
	if ends && wants || bytes > maxStatement { // who comes first decides; one statement is not to take it all
		list, plain = append(list, plain...), nil
	}
	final := newHints(p.Namespace)
	defer func() { final.send(ctx, s) }()
	some := false
	if len(plain) > 0 {
		done, err := s.plainly(ctx, p.Namespace, setnow, plain, ends)
		if err != nil {
			return nil, err
		}
		for i, b := range plain {
			if !done[i] {
				list = append(list, b)
				continue
			}
			some = true
			*b.res = store.CommitResult{Status: b.status(), Events: b.Seen}
			if b.Transition != nil {
				final.final(b.Lease.Run)
			}
		}
	}
	if len(list) == 0 {
		return results, nil
	}
	if err := s.generally(ctx, p.Namespace, list); err != nil {
		return nil, inPart(ctx, some, err)
	}
	var missed []*commit
	for _, b := range list {
		if b.applied {
			some = true
		} else {
			missed = append(missed, b)
		}
	}
	if err := s.readBack(ctx, p.Namespace, missed); err != nil {
		return nil, inPart(ctx, some, err)
	}
	return results, nil
}

func byRun(a, b *commit) int { return bytes.Compare(a.Lease.Run[:], b.Lease.Run[:]) }

func byPlace(a, b *commit) int { return a.place - b.place }

// plainly says which of the commits it applied.
func (s *Store) plainly(ctx context.Context, namespace string, setnow any, list []*commit, ends bool) ([]bool, error) {
	slices.SortFunc(list, byRun)
	done := make([]bool, len(list))
	var places []int64
	var known bool // a step has a record
	commits := stmt{
		sql:  plainCommits,
		args: append(plainArgs(setnow, namespace, list), !ends, list[0].Lease.Worker),
		rows: one(&places, &known),
	}
	// Most steps have no record yet. To be ready for one costs as much again as the
	// insert; where one was there, the next calls are ready.
	some := false
	if s.in == nil && s.careful.Add(-1) < 0 {
		bold := commits
		bold.sql = boldCommits
		err := s.write(ctx, bold)
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == "23505": // put by another just now
			places, known = nil, true
		case err != nil:
			return nil, err
		}
		for _, i := range places {
			done[i-1], some = true, true
		}
		if !known {
			return done, nil
		}
		s.careful.Store(carefulFor)
		places = nil
	}
	if err := s.write(ctx, commits); err != nil {
		return nil, inPart(ctx, some, err)
	}
	for _, i := range places {
		done[i-1] = true
	}
	return done, nil
}

// plainArgs are the parameters of plainCommits and endMany up to $27.
func plainArgs(setnow any, namespace string, list []*commit) []any {
	n, usual := len(list), list[0].Lease.Worker
	ids, seqs, status := make([]pgtype.UUID, n), make([]int64, n), make([]int64, n)
	var st stepList
	for i, b := range list {
		ids[i], seqs[i], status[i] = uuid(b.Lease.Run), b.Seq, int64(b.status())
		st.add(b, b.Steps)
	}
	workers := column(n, usual, func(i int) string { return list[i].Lease.Worker })
	epochs := column(n, 1, func(i int) int64 { return list[i].Lease.Epoch })
	events := column(n, 0, func(i int) int64 { return list[i].Seen })
	bits := column(n, int64(partSteps), func(i int) int64 {
		if len(list[i].Steps) == 0 {
			return 0
		}
		return int64(partSteps)
	})
	outputs := payloads(n, func(i int) []byte {
		if t := list[i].Transition; t != nil && t.Kind == store.Complete {
			return t.Output
		}
		return nil
	})
	failures := column(n, nil, func(i int) *string {
		if t := list[i].Transition; t != nil && t.Kind != store.Complete {
			return failure(t.Failure)
		}
		return nil
	})
	return append(st.args(setnow), ids, workers, epochs, seqs, events, status, bits, outputs, failures, namespace)
}

// generally sends the commits that are not plain, or were not to be had plainly. Ends of
// runs that stand together, as those of many children do, are tried at once first, unless
// another commit wants what they free.
func (s *Store) generally(ctx context.Context, namespace string, list []*commit) error {
	ends, bytes, wants := 0, 0, false
	for _, b := range list {
		if bytes += b.Size(); b.plain() && b.final() {
			ends++
		}
		wants = wants || b.wants()
	}
	if ends < 2 || bytes > maxStatement || wants || s.in != nil || s.apart.Add(-1) >= 0 {
		return s.inOrder(ctx, namespace, list, false)
	}
	if err := s.inOrder(ctx, namespace, list, true); err != nil {
		return err
	}
	var left []*commit // ends of which one was not as expected
	for _, b := range list {
		if b.left {
			left = append(left, b)
		}
	}
	if len(left) == 0 {
		return nil
	}
	s.apart.Store(apartFor)
	return inPart(ctx, len(left) < len(list), s.inOrder(ctx, namespace, left, false))
}

// inOrder sends commits in one transaction; together: ends of runs that stand together go
// at once, or are left.
func (s *Store) inOrder(ctx context.Context, namespace string, list []*commit, together bool) error {
	ordered := len(list) > 1 && slices.ContainsFunc(list, (*commit).reaches) || slices.ContainsFunc(list, (*commit).final)
	if ordered {
		slices.SortFunc(list, byPlace) // lockBatch has the order of the locks
	} else {
		slices.SortFunc(list, byRun)
	}
	h := newHints(namespace)
	reset := func() {
		*h = *newHints(namespace)
		for _, b := range list {
			b.applied, b.left, *b.res = false, false, store.CommitResult{}
		}
	}
	var lanes []lane
	var finals, others []store.ID
	stmts := []stmt{begin(reset)}
	for _, b := range list {
		if b.final() {
			finals = append(finals, b.Lease.Run)
		} else {
			others = append(others, b.Lease.Run)
		}
		for i := range b.Spawn {
			c := &b.Spawn[i]
			lanes = append(lanes, lane{c.Queue, c.Workflow, int16(c.Priority)})
		}
		b.hints = h
	}
	for from := 0; from < len(list); {
		to := from
		for together && to < len(list) && list[to].plain() && list[to].final() {
			to++
		}
		if to-from > 1 {
			stmts = end(stmts, namespace, list[from:to], h)
			from = to
			continue
		}
		stmts = list[from].statements(stmts)
		from++
	}
	if len(lanes) > 0 {
		if err := s.ensureLanes(ctx, namespace, lanes); err != nil {
			return err
		}
	}
	if ordered {
		stmts[0] = stmt{sql: lockBatch, args: []any{uuids(finals), uuids(others)}, rows: resetRow(reset)}
	}
	if err := s.write(ctx, stmts...); err != nil {
		return err
	}
	for _, b := range list {
		for i := range b.Spawn {
			if b.applied {
				h.queue(b.Spawn[i].Queue)
			}
		}
	}
	h.send(ctx, s)
	return nil
}

// end adds the statements by which many runs end at once.
func end(stmts []stmt, namespace string, list []*commit, h *hints) []stmt {
	setnow, stamp, ids := list[0].setnow, list[0].stamp, make([]store.ID, len(list))
	for i, b := range list {
		ids[i] = b.Lease.Run
	}
	runs := uuids(ids)
	return append(stmts,
		stmt{
			sql: endMany, args: append(plainArgs(setnow, namespace, list), int64(len(list)), list[0].Lease.Worker, stamp),
			rows: func(scan func(...any) error) error {
				var all bool
				err := scan(&all)
				for _, b := range list {
					if b.applied, b.left = all, !all; all {
						*b.res = store.CommitResult{Status: b.status(), Events: b.Seen}
						h.final(b.Lease.Run)
					}
				}
				return err
			},
		},
		stmt{sql: countMany, args: []any{runs, stamp}},
		stmt{sql: wakeMany, args: []any{setnow, runs, stamp}, rows: wakeRows(h)})
}

// readBack tells commits that were applied before from those whose lease is lost, or before
// which others are missing.
func (s *Store) readBack(ctx context.Context, namespace string, missed []*commit) error {
	if len(missed) == 0 {
		return nil
	}
	ids, byID := make([]store.ID, len(missed)), make(map[store.ID]*commit, len(missed))
	for i, b := range missed {
		ids[i], byID[b.Lease.Run] = b.Lease.Run, b
		*b.res = store.CommitResult{Err: fmt.Errorf("run %v, epoch %d: %w", b.Lease.Run, b.Lease.Epoch, store.ErrLeaseLost)}
	}
	return s.read(ctx, stmt{
		sql: commitsNow, args: []any{uuids(ids), namespace},
		rows: func(scan func(...any) error) error {
			var id store.ID
			var status int16
			var epoch, seq int64
			var worker string
			var leased bool
			res := store.CommitResult{Repeated: true}
			if err := scan(scanID(&id), &status, &res.Events, scanTime(&res.VisibleAt), &res.Pausing, &epoch, &seq, scanText(&worker), &leased); err != nil {
				return err
			}
			if res.Status = store.Status(status); leased {
				res.VisibleAt = time.Time{}
			}
			b := byID[id]
			switch {
			case b == nil || epoch != b.Lease.Epoch || worker != b.Lease.Worker:
			case seq >= b.Seq:
				*b.res = res
			case leased:
				b.res.Err = store.CommitsMissing(b.Lease, b.Seq, seq)
			}
			return nil
		},
	})
}

// commit makes the statements of one commit and reads their answers.
type commit struct {
	*store.Commit
	namespace string
	setnow    any
	stamp     int64
	place     int // in the call
	res       *store.CommitResult
	hints     *hints
	applied   bool // by the general statements
	left      bool // by endMany
}

// plain says whether the commit is of the usual kind.
func (b *commit) plain() bool {
	t := b.Transition
	return len(b.State) == 0 && len(b.Spawn) == 0 && len(b.Consumed) == 0 && b.Crashes == 0 &&
		(t == nil || t.Kind == store.Complete || t.Kind == store.Fail)
}

// reaches says whether the commit may change what another of the call finds.
func (b *commit) reaches() bool { return b.final() || len(b.Spawn) > 0 }

// final says whether the commit ends its run.
func (b *commit) final() bool { return b.Transition != nil && b.Transition.Kind.Final() }

// wants says whether the commit wants an external id, which the end of another one may free.
func (b *commit) wants() bool {
	return slices.ContainsFunc(b.Spawn, func(r store.NewRun) bool { return r.ExternalID != "" })
}

// status is what a plain or final commit makes of a run.
func (b *commit) status() store.Status {
	if b.Transition == nil {
		return store.Running
	}
	return store.Completed + store.Status(b.Transition.Kind-store.Complete)
}

func (b *commit) statements(stmts []stmt) []stmt {
	run, t := uuid(b.Lease.Run), b.Transition
	// guarded adds a statement whose first parameters are the run and the stamp.
	guarded := func(sql string, args ...any) {
		stmts = append(stmts, stmt{sql: sql, args: append([]any{run, b.stamp}, args...)})
	}
	stmts = append(stmts, b.fence())
	again := t != nil && t.Kind == store.Continue
	if len(b.Steps) > 0 && !again {
		for _, part := range perStatement(b.Steps, stepBytes) {
			var st stepList
			st.add(b, part)
			stmts = append(stmts, stmt{sql: putSteps, args: append(st.args(b.setnow), run, b.stamp)})
		}
	}
	stmts = putState(stmts, b.setnow, b.Lease.Run, b.stamp, b.State)
	if len(b.Consumed) > 0 {
		guarded(consume, uuids(b.Consumed))
	}
	if len(b.Spawn) > 0 {
		for _, part := range perStatement(b.Spawn, (*store.NewRun).Size) {
			stmts = append(stmts, b.spawn(part))
		}
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
			stmts = append(stmts, stmt{
				sql: metAlready, args: []any{b.setnow, run, b.stamp, a.Group, a.Open, a.Failures},
				rows: one(scanTime(&b.res.VisibleAt)),
			})
		}
	case t.Kind.Final():
		guarded(countFinal)
		stmts = append(stmts,
			stmt{sql: wakeParents, args: []any{b.setnow, run, b.stamp}, rows: wakeRows(b.hints)},
			stmt{sql: closeTree, args: []any{b.setnow, run, canceledWithParent, b.stamp}, rows: treeRows(b.hints, &b.res.Ended)})
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

// fence makes the update that begins a commit that was not plain.
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
		mask, bits = ^(partSteps | partGroups), bits&^(partSteps|partGroups)
	}
	if b.final() {
		bits |= partEnded
	}
	sql := commitKeep
	args := []any{b.setnow, b.Seq, b.stamp, int64(len(b.State)), mask, bits, uuid(b.Lease.Run), b.namespace, b.Lease.Worker, b.Lease.Epoch, int32(b.Crashes)}
	switch {
	case t == nil:
		args = args[1:]
	case t.Kind.Final():
		var output []byte
		var why *string
		if t.Kind == store.Complete {
			output = t.Output
		} else {
			why = failure(t.Failure)
		}
		sql, args = commitFinal, append(args, int16(b.status()), output, t.Kind == store.CancelRun, why)
	case t.Kind == store.Continue:
		sql, args = commitContinue, append(args, int16(store.Pending), t.Input)
	default:
		var after *int64
		if t.After > 0 {
			v := span(t.After)
			after = &v
		}
		status, seen, wakes := store.Pending, int64(math.MaxInt64), int16(0)
		if t.Kind == store.Sleep {
			status, seen, wakes = store.Sleeping, b.Seen, int16(t.Wakes)
			if len(t.Await) > 0 {
				wakes |= wakeChildren
			}
		} else if after == nil && t.At.IsZero() {
			after = new(int64)
		}
		var why *string
		if t.Kind != store.Sleep {
			why = failure(t.Failure)
		}
		sql, args = commitYield, append(args, int16(status), wakes, t.Kind == store.Retry, why, seen, after, micros(t.At), t.Kind == store.Release)
	}
	return stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
		var status int16
		var queue string
		if err := scan(&status, &b.res.Events, scanTime(&b.res.VisibleAt), &b.res.Pausing, &queue); err != nil {
			return err
		}
		b.applied, b.res.Status = true, store.Status(status)
		if len(b.State) > 0 {
			b.hints.state(b.Lease.Run)
		}
		switch {
		case t == nil:
			b.res.VisibleAt = time.Time{} // the lease goes on
		case t.Kind.Final():
			b.hints.final(b.Lease.Run)
		default:
			b.hints.queue(queue)
		}
		return nil
	}}
}

// stepList are steps to be put, with their commits.
type stepList struct {
	list []*store.StepRecord
	of   []*commit
}

func stepBytes(s *store.StepRecord) int { return len(s.Output) }

func (l *stepList) add(b *commit, steps []store.StepRecord) {
	for i := range steps {
		l.list, l.of = append(l.list, &steps[i]), append(l.of, b)
	}
}

// args are the parameters of stepTable.
func (l *stepList) args(setnow any) []any {
	n := len(l.list)
	runs, names, positions, took := make([]pgtype.UUID, n), make([]string, n), make([]int64, n), make([]int64, n)
	for i, s := range l.list {
		runs[i], names[i], positions[i], took[i] = uuid(l.of[i].Lease.Run), s.Name, s.Position, s.Took.Microseconds()
	}
	return append(make([]any, 0, 30), setnow, runs,
		column(n, "", func(i int) string { return l.list[i].Branch }), names,
		column(n, 1, func(i int) int64 { return int64(l.list[i].Occurrence) }),
		column(n, int64(store.KindFunction), func(i int) int64 { return int64(l.list[i].Kind) }),
		column(n, int64(store.StepCompleted), func(i int) int64 { return int64(l.list[i].Status) }), positions,
		column(n, 0, func(i int) int64 { return int64(l.list[i].Index) }),
		column(n, 1, func(i int) int64 { return int64(l.list[i].Attempt) }),
		column(n, 1, func(i int) int64 { return l.of[i].Lease.Epoch }),
		payloads(n, func(i int) []byte { return l.list[i].Output }),
		column(n, nil, func(i int) *string { return stepFailure(l.list[i].Failure, l.list[i].Earlier) }),
		column(n, nil, func(i int) *int64 { return micros(l.list[i].StartedAt) }), took,
		column(n, nil, func(i int) *int64 {
			if l.list[i].DueIn == 0 {
				return nil
			}
			v := span(l.list[i].DueIn)
			return &v
		}),
		column(n, nil, func(i int) *int64 { return micros(l.list[i].DueAt) }))
}

func (b *commit) spawn(children []store.NewRun) stmt {
	n := len(children)
	ids, workflows, queues, suffixes := make([]store.ID, n), make([]string, n), make([]string, n), make([]string, n)
	priorities, afters, ordinals, closes := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	ats, timeouts := make([]*int64, n), make([]*int64, n)
	externals, groups := make([]*string, n), make([]*string, n)
	inputs, metas := make([][]byte, n), make([][]byte, n)
	for i := range children {
		c := &children[i]
		ids[i], workflows[i], queues[i], suffixes[i] = c.ID, c.Workflow, c.Queue, c.Suffix
		priorities[i], afters[i], ordinals[i], closes[i] = int64(c.Priority), span(c.After), c.Ordinal, int64(c.OnClose)
		if ats[i] = micros(c.At); c.Timeout > 0 {
			v := span(c.Timeout)
			timeouts[i] = &v
		}
		externals[i], groups[i], inputs[i], metas[i] = text(c.ExternalID), text(c.Group), c.Input, c.Meta
	}
	args := []any{b.setnow, uuid(b.Lease.Run), b.stamp, b.namespace, uuids(ids), workflows, queues, priorities, afters, ats,
		timeouts, externals, suffixes, inputs, metas, groups, ordinals, closes}
	return stmt{sql: spawnRuns, args: args, rows: func(scan func(...any) error) error {
		var queue, workflow string
		var made int64
		err := scan(&queue, &workflow, &made)
		b.res.Spawned = store.Tally(b.res.Spawned, queue, workflow, store.Pending, made)
		return err
	}}
}

// putState adds the writes of a list whose first statement has left its stamp.
func putState(stmts []stmt, setnow any, id store.ID, stamp int64, writes []store.StateWrite) []stmt {
	for i := range writes {
		w := &writes[i]
		if w.Delete {
			stmts = append(stmts, stmt{sql: deleteState, args: []any{uuid(id), stamp, w.Key}})
			continue
		}
		later := int64(len(writes) - 1 - i)
		stmts = append(stmts, stmt{sql: writeState, args: []any{setnow, uuid(id), stamp, w.Key, w.Value, later}})
	}
	return stmts
}
