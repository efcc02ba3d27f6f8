package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

var (
	// An array that is NULL stands for the default value of each row: see column.
	// Parameters: $1 now, $2 to $17 the columns of st.
	stepTable = sqlkit.Text(`INSERT INTO pawl.steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure,
			started_at, finished_at, due_at)
		SELECT st.run_id, coalesce(st.branch, ''), st.name, coalesce(st.occurrence, 1), coalesce(st.kind, {kindFunction}), coalesce(st.status, {stepCompleted}), st.position,
			coalesce(st.idx, 0), coalesce(st.attempt, 1), coalesce(st.epoch, 1), st.output, st.failure,
			coalesce(st.began, ` + now + `-st.took), CASE WHEN coalesce(st.status, {stepCompleted})>={stepFinal} THEN ` + now + ` END, coalesce(` + now + `+st.due_in, st.due_at)
		FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
			$11::bigint[], $12::bytea[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[])
			AS st(run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, began, took, due_in, due_at)`)
	stepConflict = sqlkit.Text(`
		ON CONFLICT (run_id, branch, name, occurrence) DO UPDATE SET kind=excluded.kind, status=excluded.status, idx=excluded.idx,
			attempt=excluded.attempt, epoch=excluded.epoch, output=excluded.output, failure=excluded.failure, started_at=excluded.started_at,
			finished_at=excluded.finished_at, due_at=excluded.due_at
		WHERE steps.status<{stepFinal}`)

	// plainCommits applies, in one statement, the usual commits of runs to which nothing
	// unusual has happened. If a commit of the call ends its run ($28 is false), parents
	// and children have to wait for their turn. It returns the places of the applied
	// commits in one row; their answers are known beforehand. The array of one element
	// keeps the planner to the primary key and the locks in the order of the arrays.
	// Parameters: $1 to $17 of stepTable, $18 to $26 the columns of c, $27 namespace, $28
	// whether no commit of the call ends its run, $29 the default worker.
	plainCommits = `WITH ` + plainUpdate + plainSteps + stepConflict + `)
		SELECT coalesce(array_agg(u.n), '{}'::bigint[]), false, ` + freedQueues + ` FROM u`
	plainUpdate = sqlkit.Text(`u AS (UPDATE pawl.runs r SET seq=c.seq, ` + plainSet + plainFrom + plainFence + `
			AND (c.status>{running} OR NOT r.pausing) AND ($28::bool OR r.parent IS NULL AND (r.parts & {partChildren})=0)`)
	plainSet = sqlkit.Text(`crashes=0, parts=r.parts | coalesce(c.bits, {partsOfStep})::smallint | CASE WHEN c.status>{running} THEN {partEnded} ELSE 0 END::smallint, status=c.status::smallint,
			output=CASE WHEN c.status>{running} THEN c.output ELSE r.output END, failure=CASE WHEN c.status>{running} THEN c.failure ELSE r.failure END,
			finished_at=CASE WHEN c.status>{running} THEN ` + now + ` ELSE r.finished_at END, visible_at=CASE WHEN c.status={running} THEN r.visible_at END,
			wakes=CASE WHEN c.status={running} THEN r.wakes ELSE 0 END, leased=c.status={running}, pausing=false, step_under=CASE WHEN c.status={running} THEN r.step_under END`)
	plainFrom = `
		FROM unnest($18::uuid[], $19::text[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bytea[], $26::text[])
			WITH ORDINALITY AS c(id, worker, epoch, seq, seen, status, bits, output, failure, n)`
	plainFence = sqlkit.Text(`
		WHERE r.id = ANY(ARRAY[c.id]) AND r.namespace=$27::text AND r.worker=coalesce(c.worker, $29::text) AND r.epoch=coalesce(c.epoch, 1) AND r.seq=c.seq-1 AND r.leased
			AND r.status={running} AND r.events=coalesce(c.seen, 0)`)
	plainGives = sqlkit.Text(`
		RETURNING r.id, c.n, CASE WHEN c.status>{running} AND r.flow IS NOT NULL THEN r.queue END AS queue`)
	plainSteps = plainGives + `),
		s AS (` + stepTable + ` WHERE st.run_id IN (SELECT u.id FROM u)`

	// bareCommits is plainCommits for commits without steps, such as the ends of a map's items. A call with
	// one commit takes a fifth less time. The parameters are those of plainCommits without $2 to $17.
	bareCommits = withoutSteps(`WITH ` + plainUpdate + plainGives + `)
		SELECT coalesce(array_agg(u.n), '{}'::bigint[]), false, ` + freedQueues + ` FROM u`)

	// freedQueues are the queues of the ended runs that were under limits.
	freedQueues = `array_agg(DISTINCT u.queue) FILTER (WHERE u.queue IS NOT NULL)`

	// boldCommits is plainCommits for steps that have no record yet. It skips and reports
	// commits with a step that has one. The check costs a fraction of being ready for a
	// conflict.
	boldCommits = `WITH known AS (SELECT array_agg(st.run_id) AS runs FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[])
			AS st(run_id, branch, name, occurrence)
		WHERE EXISTS (SELECT 1 FROM pawl.steps x WHERE x.run_id=st.run_id AND x.branch=coalesce(st.branch, '') AND x.name=st.name
			AND x.occurrence=coalesce(st.occurrence, 1) OFFSET 0)), ` + plainUpdate + `
			AND NOT coalesce(r.id = ANY((SELECT k.runs FROM known k)::uuid[]), false)` + plainSteps + `)
		SELECT coalesce(array_agg(u.n), '{}'::bigint[]), (SELECT k.runs IS NOT NULL FROM known k), ` + freedQueues + ` FROM u`

	// toldCommits, toldBold and toldBare leave the marks of limits themselves: see telling.
	toldCommits, toldBold, toldBare = telling(plainCommits), telling(boldCommits), telling(bareCommits)

	// statefulCommits and statefulBold are plainCommits and boldCommits for a call with commits that write state.
	// Parameters: $30 how many writes each commit has, $31 to $34 the columns of w.
	statefulCommits, statefulBold = withState(plainCommits), withState(boldCommits)

	// endMany ends runs that have no children: all of them ($28 in number), or none if one is not
	// as expected. The runs are locked. countMany and wakeMany handle their groups and parents.
	endMany = `WITH good AS (SELECT count(*) AS n` + plainFrom + ` CROSS JOIN pawl.runs r` + endFence + `),
		u AS (UPDATE pawl.runs r SET seq=c.seq, stamp=$30::bigint, ` + plainSet + plainFrom + endFence + `
			AND (SELECT g.n FROM good g)=$28::bigint` + plainSteps + stepConflict + `)
		SELECT count(*)=$28::bigint, ` + freedQueues + ` FROM u`
	endFence = sqlkit.Text(plainFence + ` AND (r.parts & {partChildren})=0`)

	// Any other commit begins with one fenced update of its run, in one form for each kind of
	// transition. The update leaves the commit's stamp in the row, from which all later statements of
	// the commit know that it was applied. Parameters: $1 seq, $2 stamp, $3 the number of writes of
	// state, $4 the parts to keep, $5 the parts to add, $6 run, $7 namespace, $8 worker, $9 epoch,
	// $10 crashes (NULL: unchanged), $11 whether the permits of the step end.
	commitKeep = `UPDATE pawl.runs SET seq=$1::bigint, stamp=$2::bigint, crashes=coalesce($10::integer, crashes), events=events+$3::bigint,
			parts=(parts & $4::smallint) | $5::smallint, step_under=CASE WHEN NOT $11::bool THEN step_under END,
			flow=CASE WHEN NOT $11::bool OR step_under IS NULL THEN flow ELSE ` + flowOf(``, `under`, `NULL`, `taken`) + ` END
		WHERE id=$6::uuid AND namespace=$7::text AND worker=$8::text AND epoch=$9::bigint AND seq=$1::bigint-1 AND leased
		RETURNING status, events, visible_at, pausing, queue, flow IS NOT NULL`

	// commitMark and commitFence: $1 now, $2 seq, $3 stamp, $4 the number of writes of state, $5 the parts to keep, $6
	// the parts to add, $7 run, $8 namespace, $9 worker, $10 epoch, $11 crashes (NULL: unchanged). The SQL between them
	// has its own parameters, from $12.
	commitMark = `UPDATE pawl.runs SET seq=$2::bigint, stamp=$3::bigint, crashes=coalesce($11::integer, crashes), events=events+$4::bigint,
			parts=(parts & $5::smallint) | $6::smallint`
	commitFence = ` WHERE id=$7::uuid AND namespace=$8::text AND worker=$9::text AND epoch=$10::bigint AND seq=$2::bigint-1 AND leased`
	commitGives = `
		RETURNING status, events, visible_at, pausing, queue, flow IS NOT NULL`

	// $12 status, $13 output, $14 whether an existing failure stays if there is no new
	// one, $15 failure.
	commitFinal = commitMark + `, status=$12::smallint, output=$13::bytea,
			failure=CASE WHEN $14::boolean THEN coalesce($15::text, failure) ELSE $15::text END, finished_at=` + now + `,
			visible_at=NULL, leased=false, pausing=false, wakes=0, step_under=NULL` + commitFence + commitGives

	// A canceling run stays canceling and is claimable at once, so that its end can be
	// recorded, unless it is released for a while. A run with a pending pause becomes
	// paused and keeps its time.
	commitLeave = sqlkit.Text(`, status=CASE WHEN status={canceling} THEN {canceling} WHEN pausing THEN {paused} ELSE $12::smallint END, paused_from=$12::smallint, leased=false, pausing=false`)

	// Events before this commit's own writes count, because the right side of an assignment sees
	// the old row. $12 status, $13 wakes, $14 whether another attempt begins, $15 failure, $16
	// events seen, $17 after, $18 at, $19 whether a canceling run keeps its time, $20 the limits of the
	// step for which the run waits, which must be compatible with its own.
	commitYield = sqlkit.Text(commitMark + commitLeave + `, wakes=$13::smallint, attempt=attempt+$14::boolean::int,
			failure=CASE WHEN status={canceling} THEN failure WHEN $14::boolean THEN $15::text ELSE coalesce($15::text, failure) END,
			visible_at=CASE WHEN status={canceling} AND NOT $19::boolean THEN least(` + now + `, deadline)
				WHEN events>$16::bigint THEN least(` + now + `+$17::bigint, $18::bigint, ` + now + `, deadline)
				ELSE least(` + now + `+$17::bigint, $18::bigint, deadline) END,
			taken=taken AND NOT $14::boolean, step_under=$20::text, flow=` + flowOf(``, `under`, `$20::text`, `taken AND NOT $14::boolean`) + commitFence + `
			AND ($20::text IS NULL OR under IS NULL OR jsonb_array_length(under::jsonb)+jsonb_array_length($20::jsonb)<=` + strconv.Itoa(store.MaxLimits) + `
				AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(under::jsonb) a(v) JOIN jsonb_array_elements($20::jsonb) b(v) ON a.v->>0=b.v->>0))` + commitGives)
	// $12 status, $13 input.
	commitContinue = sqlkit.Text(commitMark + commitLeave + `, wakes=0, attempt=1, generation=generation+1, pin='', pinned=NULL, build=NULL, failure=CASE WHEN status={canceling} THEN failure END,
			input=$13::bytea, visible_at=least(` + now + `, deadline), taken=false, step_under=NULL, flow=` + flowOf(``, `under`, `NULL`, `false`) + commitFence + commitGives)

	// The guards of later statements. The run is $1 and the stamp $2, or $2 and $3 if the time
	// comes first.
	applied12 = ` EXISTS (SELECT 1 FROM pawl.runs WHERE id=$1::uuid AND stamp=$2::bigint)`
	applied23 = ` EXISTS (SELECT 1 FROM pawl.runs WHERE id=$2::uuid AND stamp=$3::bigint)`

	putSteps = stepTable + ` WHERE EXISTS (SELECT 1 FROM pawl.runs WHERE id=$18::uuid AND stamp=$19::bigint)` + stepConflict
	consume  = `UPDATE pawl.signals SET consumed=true, payload=NULL
		WHERE run_id=$1::uuid AND id = ANY($3::uuid[]) AND` + applied12

	// Only children that are created here count. Parameters: $1 now, $2 parent, $3 stamp,
	// $4 namespace, $5 to $20 the columns of c.
	spawnRuns = sqlkit.Text(`WITH made AS (INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, visible_at, external_id, suffix, created_at,
			deadline, input, meta, parent, grp, ordinal, on_close, under, tags, flow)
		SELECT c.id, $4::text, c.workflow, c.queue, {pending}, c.priority, least(greatest(` + now + `+c.after, c.at), ` + now + `+c.timeout),
			c.external_id, c.suffix, ` + now + `, ` + now + `+c.timeout, c.input, c.meta, $2::uuid, c.grp, c.ordinal, c.on_close,
			c.under, c.tags, ` + hashOf(`$4::text, c.queue, c.workflow, c.priority`, `c.under`, `NULL`, `false`) + `
		FROM unnest($5::uuid[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[],
			$14::bytea[], $15::bytea[], $16::text[], $17::bigint[], $18::bigint[], $19::text[], $20::text[])
			AS c(id, workflow, queue, priority, after, at, timeout, external_id, suffix, input, meta, grp, ordinal, on_close, under, tags)
		WHERE` + applied23 + ` ON CONFLICT DO NOTHING RETURNING queue, workflow, parent, grp),
		counted AS (INSERT INTO pawl.groups AS g (run_id, name, total, open) SELECT m.parent, m.grp, count(*), count(*) FROM made m WHERE m.grp IS NOT NULL GROUP BY 1, 2
		ON CONFLICT (run_id, name) DO UPDATE SET total=g.total+excluded.total, open=g.open+excluded.open)
		SELECT queue, workflow, count(*) FROM made GROUP BY 1, 2`)

	// armGroup: $1 run, $2 stamp, $3 epoch, $4 open, $5 failures, $6 group.
	armGroup = `UPDATE pawl.groups SET armed=$3::bigint, wake_open=$4::bigint, wake_failures=$5::bigint
		WHERE run_id=$1::uuid AND name=$6::text AND` + applied12
	// An await that is already met, or whose group has no child, ends the sleep.
	// Parameters: $1 now, $2 run, $3 stamp, $4 group, $5 open, $6 failures.
	metAlready = sqlkit.Text(`UPDATE pawl.runs r SET visible_at=least(r.visible_at, ` + now + `), wakes=r.wakes & ~{wakeChildren}
		WHERE r.id=$2::uuid AND r.stamp=$3::bigint AND r.status IN ({sleeping},{paused})
		AND NOT EXISTS (SELECT 1 FROM pawl.groups g WHERE g.run_id=r.id AND g.name=$4::text AND g.open>$5::bigint
			AND NOT ($6::bigint>0 AND g.failed+g.canceled>=$6::bigint))
		RETURNING r.visible_at`)

	// pinRun: $1 run, $2 stamp, $3 the build, $4 the whole pin.
	pinRun = `UPDATE pawl.runs SET pin=$3::text, pinned=$4::text WHERE id=$1::uuid AND stamp=$2::bigint`

	// setTags: $1 run, $2 stamp, $3 the tags. Triggers keep pawl.run_tags.
	setTags = `UPDATE pawl.runs SET tags=$3::text WHERE id=$1::uuid AND stamp=$2::bigint`

	forgetGroups = `DELETE FROM pawl.groups WHERE run_id=$1::uuid AND` + applied12
	forgetSteps  = `DELETE FROM pawl.steps WHERE run_id=$1::uuid AND` + applied12
	// A failed step is deleted together with the steps that followed it in its branch: see
	// store.StepKey.Related.
	forgetFailed = sqlkit.Text(`DELETE FROM pawl.steps s WHERE s.run_id=$1::uuid
		AND EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id=s.run_id AND f.status={stepFailed} AND f.position<=s.position
			AND (f.branch='' OR s.branch='' OR f.branch=s.branch OR starts_with(f.branch, s.branch || '/') OR starts_with(s.branch, f.branch || '/')))
		AND` + applied12)
	forgetChildren = `UPDATE pawl.runs c SET grp=NULL, ordinal=0
		WHERE c.parent=$1::uuid AND c.parent IS NOT NULL AND c.grp IS NOT NULL AND` + applied12

	commitsNow = `SELECT id, status, events, visible_at, pausing, epoch, seq, worker, leased, under FROM pawl.runs
		WHERE id = ANY($1::uuid[]) AND namespace=$2::text`
)

// telling makes a form of plainCommits leave the marks of the permits that end. The trigger, which takes much longer,
// does not fire for the rows whose told changes. It knows better about a permit of a step. No other lease has the epoch.
func telling(sql string) string {
	sql = strings.NewReplacer(
		`SET seq=c.seq, `, sqlkit.Text(`SET seq=c.seq, told=CASE WHEN c.status>{running} AND r.flow IS NOT NULL AND r.step_under IS NULL THEN r.epoch ELSE r.told END, `),
		`THEN r.queue END AS queue`, sqlkit.Text(`THEN r.queue END AS queue, r.namespace, r.pin, CASE WHEN c.status>{running} AND r.told=r.epoch THEN r.under END AS freed`),
	).Replace(sql)
	return strings.Replace(sql, `)
		SELECT coalesce(array_agg(u.n)`, `),
		marks AS (INSERT INTO pawl.limit_marks (namespace, freed, pin, run) SELECT u.namespace, u.freed, u.pin, u.id FROM u WHERE u.freed IS NOT NULL)
		SELECT coalesce(array_agg(u.n)`, 1)
}

var parameter = regexp.MustCompile(`\$\d+`)

// withoutSteps numbers the parameters of plainCommits as if those of the steps did not exist.
func withoutSteps(sql string) string {
	return parameter.ReplaceAllStringFunc(sql, func(p string) string {
		n, _ := strconv.Atoi(p[1:])
		if n > 1 {
			n -= stepParams
		}
		return "$" + strconv.Itoa(n)
	})
}

// stepParams is the number of parameters of stepTable, beside the time.
const stepParams = 16

// withState makes a form of plainCommits record writes of state too.
func withState(sql string) string {
	return strings.NewReplacer(
		`SET seq=c.seq, `, `SET seq=c.seq, events=r.events+coalesce(c.writes, 0), `,
		`$26::text[])
			WITH ORDINALITY AS c(id, worker, epoch, seq, seen, status, bits, output, failure, n)`, `$26::text[], $30::bigint[])
			WITH ORDINALITY AS c(id, worker, epoch, seq, seen, status, bits, output, failure, writes, n)`,
		`)
		SELECT coalesce(array_agg(u.n)`, `),
		w AS (INSERT INTO pawl.state (run_id, key, value, version, updated_at)
			SELECT w.run_id, w.key, w.value, w.version, `+now+` FROM unnest($31::uuid[], $32::text[], $33::bytea[], $34::bigint[]) AS w(run_id, key, value, version)
			WHERE w.run_id IN (SELECT u.id FROM u)
			`+stateConflict+`)
		SELECT coalesce(array_agg(u.n)`).Replace(sql)
}

// carefulFor is the number of calls that expect steps that already have a record, after a call that
// met one unexpectedly.
const carefulFor = 100

// apartFor is the number of calls that end their runs one by one, after a call in which a run was
// not as expected, for example a parent.
const apartFor = 20

// begin is a first statement that calls reset whenever the transaction begins, which
// happens again after a deadlock.
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
	ends, wants := false, false // ends: the call ends a run; wants: a commit depends on another run
	bytes := 0
	stamp, setnow := sqlkit.NewStamp(), setNow(p.Now)
	for i := range p.Commits {
		m, res := &p.Commits[i], &results[i]
		if _, twice := seen[m.Lease.Run]; twice {
			res.Err = store.Invalid("commits", fmt.Sprintf("the call has two commits of run %v", m.Lease.Run))
			continue
		}
		seen[m.Lease.Run] = struct{}{}
		if res.Err = m.Validate(s.config.limits); res.Err != nil {
			continue
		}
		b := &commit{Commit: m, namespace: p.Namespace, setnow: setnow, stamp: stamp + int64(i), place: i, res: res}
		ends = ends || b.final()
		wants = wants || sqlkit.WantsExternalID(b.Commit)
		bytes += m.Size()
		if b.plain() {
			plain = append(plain, b)
		} else {
			list = append(list, b)
		}
	}
	if ends && wants || bytes > maxStatement { // the order decides, or one statement would be too large
		list, plain = append(list, plain...), nil
	}
	final := sqlkit.NewHints(p.Namespace)
	defer func() { s.publishAll(final) }()
	some := false
	if len(plain) > 0 {
		done, err := s.plainly(ctx, p.Namespace, setnow, plain, ends, final)
		if err != nil {
			return nil, err
		}
		for i, b := range plain {
			if !done[i] {
				list = append(list, b)
				continue
			}
			some = true
			*b.res = store.CommitResult{Status: sqlkit.EndStatus(b.Commit), Events: b.Seen + int64(len(b.State)), Next: b.passed}
			if b.stateful() {
				final.State(b.Lease.Run)
			}
			if b.Transition != nil {
				final.Final(b.Lease.Run)
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
	if err := s.readBack(ctx, p.Namespace, setnow, missed); err != nil {
		return nil, inPart(ctx, some, err)
	}
	return results, nil
}

func byRun(a, b *commit) int { return bytes.Compare(a.Lease.Run[:], b.Lease.Run[:]) }

func byPlace(a, b *commit) int { return a.place - b.place }

// plainly applies the plain commits and reports which of them it applied.
func (s *Store) plainly(ctx context.Context, namespace string, setnow any, list []*commit, ends bool, h *sqlkit.Hints) ([]bool, error) {
	slices.SortFunc(list, byRun)
	done := make([]bool, len(list))
	var places []int64
	var known bool      // a step has a record
	var queues []string // of ended runs that were under limits
	pass := s.passingOf(list)
	defer func() {
		if !allPassed(list) {
			freed(h, queues)
		}
	}()
	sql, boldly, args := plainCommits, boldCommits, append(plainArgs(setnow, namespace, list), !ends, list[0].Lease.Worker)
	bare, tell := false, ends && s.hasLimits(namespace)
	switch {
	case slices.ContainsFunc(list, (*commit).stateful):
		sql, boldly, args = statefulCommits, statefulBold, append(args, stateArgs(list)...)
	case !slices.ContainsFunc(list, (*commit).steps):
		if args, bare = slices.Delete(args, 1, 1+stepParams), true; tell {
			sql = toldBare
		} else {
			sql = bareCommits
		}
	case tell:
		sql, boldly = toldCommits, toldBold
	}
	commits := stmt{
		sql:  sql,
		args: args,
		rows: func(scan func(...any) error) error {
			var more []string
			err := scan(&places, &known, &more)
			queues = append(queues, more...)
			return err
		},
	}
	// Most steps have no record yet. Being ready for one costs as much again as the
	// insert; after a call that met one, the next calls are ready.
	some := false
	if !bare && s.in == nil && s.careful.Add(-1) < 0 {
		bold := commits
		bold.sql = boldly
		err := s.write(ctx, pass.after(bold, setnow, namespace)...)
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == "23505": // inserted by another call just now
			places, known = nil, true
		case err != nil:
			return nil, err
		}
		s.give(pass, list)
		for _, i := range places {
			done[i-1], some = true, true
		}
		if !known {
			return done, nil
		}
		s.careful.Store(carefulFor)
		places = nil
	}
	if err := s.write(ctx, pass.after(commits, setnow, namespace)...); err != nil {
		return nil, inPart(ctx, some, err)
	}
	s.give(pass, list)
	for _, i := range places {
		done[i-1] = true
	}
	return done, nil
}

// freed adds the hints that permits ended in the queues.
func freed(h *sqlkit.Hints, queues []string) {
	for _, q := range queues {
		h.WholeQueue(q)
	}
}

// plainArgs returns the parameters of plainCommits and endMany up to $27.
func plainArgs(setnow any, namespace string, list []*commit) []any {
	n, usual := len(list), list[0].Lease.Worker
	ids, seqs, status := make([]pgtype.UUID, n), make([]int64, n), make([]int64, n)
	var st stepList
	for i, b := range list {
		ids[i], seqs[i], status[i] = uuid(b.Lease.Run), b.Seq, int64(sqlkit.EndStatus(b.Commit))
		st.add(b, b.Steps)
	}
	workers := column(n, usual, func(i int) string { return list[i].Lease.Worker })
	epochs := column(n, 1, func(i int) int64 { return list[i].Lease.Epoch })
	events := column(n, 0, func(i int) int64 { return list[i].Seen })
	bits := column(n, int64(sqlkit.PartsOfStep), func(i int) int64 { return sqlkit.PartsOf(list[i].Commit) })
	outputs := payloads(n, func(i int) []byte {
		if t := list[i].Transition; t != nil && t.Kind == store.CompleteRun {
			return t.Output
		}
		return nil
	})
	failures := column(n, nil, func(i int) *string {
		if t := list[i].Transition; t != nil && t.Kind != store.CompleteRun {
			return failure(t.Failure)
		}
		return nil
	})
	return append(st.args(setnow), ids, workers, epochs, seqs, events, status, bits, outputs, failures, namespace)
}

// stateArgs returns the parameters that statefulCommits has in addition.
func stateArgs(list []*commit) []any {
	counts := make([]int64, len(list))
	var runs []pgtype.UUID
	var keys []string
	var values [][]byte
	var versions []int64
	for i, b := range list {
		counts[i] = int64(len(b.State))
		for k := range b.State {
			runs, keys = append(runs, uuid(b.Lease.Run)), append(keys, b.State[k].Key)
			values, versions = append(values, b.State[k].Value), append(versions, b.Seen+int64(k)+1)
		}
	}
	return []any{counts, runs, keys, values, versions}
}

// generally sends the commits that are not plain, or that could not be applied plainly.
// It first tries to apply adjacent ends of runs, such as those of many children, in one
// statement, unless another commit depends on what they release.
func (s *Store) generally(ctx context.Context, namespace string, list []*commit) error {
	ends, bytes, wants := 0, 0, false
	for _, b := range list {
		if bytes += b.Size(); b.onlyEnds() {
			ends++
		}
		wants = wants || sqlkit.WantsExternalID(b.Commit)
	}
	if ends < 2 || bytes > maxStatement || wants || s.in != nil || s.apart.Add(-1) >= 0 {
		return s.inOrder(ctx, namespace, list, false)
	}
	if err := s.inOrder(ctx, namespace, list, true); err != nil {
		return err
	}
	var left []*commit // ends of runs, one of which was not as expected
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

// inOrder sends commits in one transaction. together means that adjacent ends of runs are
// applied in one statement, or not at all.
func (s *Store) inOrder(ctx context.Context, namespace string, list []*commit, together bool) error {
	ordered := len(list) > 1 && slices.ContainsFunc(list, (*commit).reaches) || slices.ContainsFunc(list, (*commit).final)
	if ordered {
		slices.SortFunc(list, byPlace) // lockBatch needs the order of the locks
	} else {
		slices.SortFunc(list, byRun)
	}
	h := sqlkit.NewHints(namespace)
	reset := func() {
		h.Reset()
		for _, b := range list {
			b.applied, b.left, *b.res = false, false, store.CommitResult{}
		}
	}
	var lanes []lane
	under := false
	var finals, others []store.ID
	stmts := []stmt{begin(reset)}
	for _, b := range list {
		if b.final() {
			finals = append(finals, b.Lease.Run)
		} else {
			others = append(others, b.Lease.Run)
		}
		under = under || anyUnder(b.Spawn) || b.Transition != nil && len(b.Transition.Under) > 0
		for i := range b.Spawn {
			c := &b.Spawn[i]
			lanes = append(lanes, lane{c.Queue, c.Workflow, int16(c.Priority)})
		}
		b.hints = h
	}
	for from := 0; from < len(list); {
		to := from
		for together && to < len(list) && list[to].onlyEnds() {
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
	if err := s.ensureSpace(ctx, namespace, under); err != nil {
		return err
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
				h.Queue(b.Spawn[i].Queue)
			}
		}
	}
	s.publishAll(h)
	return nil
}

// end adds the statements that end many runs at once.
func end(stmts []stmt, namespace string, list []*commit, h *sqlkit.Hints) []stmt {
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
				var queues []string
				err := scan(&all, &queues)
				freed(h, queues)
				for _, b := range list {
					if b.applied, b.left = all, !all; all {
						*b.res = store.CommitResult{Status: sqlkit.EndStatus(b.Commit), Events: b.Seen}
						h.Final(b.Lease.Run)
					}
				}
				return err
			},
		},
		stmt{sql: countMany, args: []any{runs, stamp}},
		stmt{sql: wakeMany, args: []any{setnow, runs, stamp}, rows: h.ParentRows})
}

// readBack distinguishes commits that were applied before from those whose lease is lost,
// or that follow missing ones.
func (s *Store) readBack(ctx context.Context, namespace string, setnow any, missed []*commit) error {
	if len(missed) == 0 {
		return nil
	}
	ids, byID := make([]store.ID, len(missed)), make(map[store.ID]*commit, len(missed))
	for i, b := range missed {
		ids[i], byID[b.Lease.Run] = b.Lease.Run, b
		*b.res = store.CommitResult{Err: sqlkit.LeaseLost(b.Lease)}
	}
	list := []stmt{{
		sql: commitsNow, args: []any{uuids(ids), namespace},
		rows: func(scan func(...any) error) error {
			var id store.ID
			var status int16
			var now sqlkit.Fate
			var under []store.LimitUse
			if err := scan(sqlkit.ID(&id), &status, &now.Events, sqlkit.Time(&now.VisibleAt), &now.Pausing, &now.Epoch, &now.Seq, sqlkit.TextOrNull(&now.Worker), &now.Leased, sqlkit.Uses(&under)); err != nil {
				return err
			}
			if b := byID[id]; b != nil {
				now.Status = store.Status(status)
				*b.res, b.next = now.Of(b.Commit), now.Next(b.Commit)
				if t := b.Transition; t != nil && now.Next(b.Commit) {
					if err := store.CheckUses(under, t.Under); err != nil {
						b.res.Err = err
					}
				}
			}
			return nil
		},
	}}
	for _, b := range missed {
		if len(b.Streams) > 0 {
			list = append(list, b.streamsBack())
		}
	}
	if err := s.read(ctx, list...); err != nil {
		return err
	}
	return s.passedAgain(ctx, setnow, missed)
}

// commit builds the statements of one commit and reads their answers.
type commit struct {
	*store.Commit
	namespace string
	setnow    any
	stamp     int64
	place     int // in the call
	res       *store.CommitResult
	hints     *sqlkit.Hints
	applied   bool              // by the general statements
	left      bool              // not applied by endMany
	next      bool              // not applied, although it is the next one of the present lease
	under     []store.LimitUse  // of the run that it ends, if it asks to pass its permits on
	passed    *store.ClaimedRun // the run that has got them
}

// plain reports whether the commit is of the usual kind.
func (b *commit) plain() bool { return sqlkit.Plain(b.Commit) }

// final reports whether the commit ends its run.
func (b *commit) final() bool { return sqlkit.Ends(b.Commit) }

// stateful reports whether the commit writes state.
func (b *commit) stateful() bool { return len(b.State) > 0 }

// steps reports whether the commit records steps.
func (b *commit) steps() bool { return len(b.Steps) > 0 }

// onlyEnds reports whether endMany can apply the commit.
func (b *commit) onlyEnds() bool { return b.plain() && b.final() && !b.stateful() }

// reaches reports whether the commit may change what another commit of the call finds.
func (b *commit) reaches() bool { return b.final() || len(b.Spawn) > 0 }

func (b *commit) statements(stmts []stmt) []stmt {
	run, t := uuid(b.Lease.Run), b.Transition
	// guarded adds a statement whose first parameters are the run and the stamp.
	guarded := func(sql string, args ...any) {
		stmts = append(stmts, stmt{sql: sql, args: append([]any{run, b.stamp}, args...)})
	}
	if len(b.Streams) > 0 {
		stmts = append(stmts, lock(b.Lease.Run))
	}
	stmts = append(stmts, b.fence())
	if p := sqlkit.PlanOf(b.Commit); p.Pin != nil {
		guarded(pinRun, *p.Pin, p.Pinned)
	}
	if b.Tags != nil {
		guarded(setTags, text(sqlkit.TagsText(b.Tags)))
	}
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
	stmts = b.answer(stmts)
	stmts = b.stream(stmts)
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
		awaits := sqlkit.Awaits(t.Await)
		for _, a := range awaits {
			guarded(armGroup, b.Lease.Epoch, a.Open, a.Failures, a.Group)
		}
		for _, a := range awaits {
			stmts = append(stmts, stmt{
				sql: metAlready, args: []any{b.setnow, run, b.stamp, a.Group, a.Open, a.Failures},
				rows: sqlkit.One(sqlkit.Time(&b.res.VisibleAt)),
			})
		}
	case t.Kind.Final():
		guarded(countFinal)
		stmts = append(stmts,
			stmt{sql: wakeParents, args: []any{b.setnow, run, b.stamp}, rows: b.hints.ParentRows},
			stmt{sql: closeTree, args: []any{b.setnow, run, sqlkit.CanceledWithParent, b.stamp}, rows: b.hints.TreeRows(&b.res.Ended)})
	}
	return stmts
}

// fence builds the update that begins a commit that was not plain.
func (b *commit) fence() stmt {
	p, t := sqlkit.PlanOf(b.Commit), b.Transition
	sql := commitKeep
	args := []any{b.setnow, b.Seq, b.stamp, int64(len(b.State)), int16(p.Keep), int16(p.Parts), uuid(b.Lease.Run), b.namespace, b.Lease.Worker, b.Lease.Epoch, p.Crashes}
	switch {
	case t == nil:
		args = append(args[1:], b.Free)
	case t.Kind.Final():
		sql, args = commitFinal, append(args, int16(p.Status), p.Output, p.Cancel, text(p.Failure))
	case t.Kind == store.Continue:
		sql, args = commitContinue, append(args, int16(p.Status), t.Input)
	default:
		var after *int64
		if p.After > 0 || p.Now {
			v := sqlkit.Span(p.After)
			after = &v
		}
		sql, args = commitYield, append(args, int16(p.Status), int16(p.Wakes), p.Retry, text(p.Failure), p.Seen, after, micros(p.At), p.Release, text(sqlkit.UsesText(t.Under)))
	}
	sql, args = b.fenceStreams(sql, args)
	return stmt{sql: sql, args: args, rows: b.fenced}
}

// fenced reads the row that the fence returns: the commit was applied.
func (b *commit) fenced(scan func(...any) error) error {
	var status int16
	var queue string
	var limited bool // the run is under limits
	if err := scan(&status, &b.res.Events, sqlkit.Time(&b.res.VisibleAt), &b.res.Pausing, &queue, &limited); err != nil {
		return err
	}
	b.applied, b.res.Status = true, store.Status(status)
	if b.stateful() {
		b.hints.State(b.Lease.Run)
	}
	b.hints.Answer(b.Commit)
	b.hints.Streams(b.Commit)
	switch t := b.Transition; {
	case t == nil:
		b.res.VisibleAt = time.Time{} // the lease continues
		if b.Free {
			b.hints.Queue(queue)
		}
	case t.Kind.Final():
		b.hints.Final(b.Lease.Run)
		if limited {
			b.hints.Queue(queue)
		}
	default:
		b.hints.Queue(queue)
	}
	return nil
}

// stepList is a list of steps to insert, with their commits.
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

// args returns the parameters of stepTable.
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
		column(n, nil, func(i int) *string { return text(sqlkit.StepFailureText(l.list[i].Failure, l.list[i].Earlier)) }),
		column(n, nil, func(i int) *int64 { return micros(l.list[i].StartedAt) }), took,
		column(n, nil, func(i int) *int64 {
			if l.list[i].DueIn == 0 {
				return nil
			}
			v := sqlkit.Span(l.list[i].DueIn)
			return &v
		}),
		column(n, nil, func(i int) *int64 { return micros(l.list[i].DueAt) }))
}

func (b *commit) spawn(children []store.NewRun) stmt {
	n := len(children)
	ids, workflows, queues, suffixes := make([]store.ID, n), make([]string, n), make([]string, n), make([]string, n)
	priorities, afters, ordinals, closes := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	ats, timeouts := make([]*int64, n), make([]*int64, n)
	externals, groups, unders, tags := make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
	inputs, metas := make([][]byte, n), make([][]byte, n)
	for i := range children {
		c := &children[i]
		ids[i], workflows[i], queues[i], suffixes[i] = c.ID, c.Workflow, c.Queue, c.Suffix
		priorities[i], afters[i], ordinals[i], closes[i] = int64(c.Priority), sqlkit.Span(c.After), c.Ordinal, int64(c.OnClose)
		if ats[i] = micros(c.At); c.Timeout > 0 {
			v := sqlkit.Span(c.Timeout)
			timeouts[i] = &v
		}
		unders[i], tags[i] = text(sqlkit.UsesText(c.Under)), text(sqlkit.TagsText(c.Tags))
		externals[i], groups[i], inputs[i], metas[i] = text(c.ExternalID), text(c.Group), c.Input, c.Meta
	}
	args := []any{b.setnow, uuid(b.Lease.Run), b.stamp, b.namespace, uuids(ids), workflows, queues, priorities, afters, ats,
		timeouts, externals, suffixes, inputs, metas, groups, ordinals, closes, unders, tags}
	return stmt{sql: spawnRuns, args: args, rows: func(scan func(...any) error) error {
		var queue, workflow string
		var made int64
		err := scan(&queue, &workflow, &made)
		b.res.Spawned = store.Tally(b.res.Spawned, queue, workflow, store.Pending, made)
		return err
	}}
}
