package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/store"
)

// lanesOf are the lanes that a claim may take from: a queue, a workflow in it and a
// priority in use there. Parameters: $1 now, $2 namespace, $3 to $6 the demands'
// numbers, queues, workflows and bounds, and floors, where looks begin (see window).
func lanesOf(floors string) string {
	return `WITH lane AS MATERIALIZED (
		SELECT w.d, w.n, w.pair, l.queue, l.workflow, l.priority,
			coalesce((w.floors::jsonb->>l.priority::text)::bigint, (-9223372036854775808)::bigint) AS since
		FROM unnest($3::bigint[], $4::text[], $5::text[], $6::bigint[], ` + floors + `::text[]) WITH ORDINALITY w(d, queue, workflow, n, floors, pair)
		CROSS JOIN LATERAL (SELECT x.queue, x.workflow, x.priority FROM pawl.lanes x
			WHERE x.namespace=$2::text AND x.queue=w.queue AND x.workflow=w.workflow OFFSET 0) l
		WHERE NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND p.queue=w.queue AND p.workflow='')
		AND NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND p.queue='' AND p.workflow=w.workflow))`
}

const inLane = `x.namespace=$2::text AND x.queue=lane.queue AND x.workflow=lane.workflow AND x.priority=lane.priority
		AND x.visible_at IS NOT NULL AND x.status<>4`

var (
	// What is at the heads of the lanes is put in order first, and then locked: to
	// lock the heads of all lanes would lock far too much. The coalesce leaves the
	// primary key as the only index for that.
	claimDue = lanesOf(`$11`) + `, head AS MATERIALIZED (
			SELECT c.id, c.visible_at, lane.priority, lane.n, row_number() OVER (PARTITION BY lane.d ORDER BY lane.priority DESC, c.visible_at, c.id) AS place
			FROM lane CROSS JOIN LATERAL (
				SELECT x.id, x.visible_at FROM pawl.runs x WHERE ` + inLane + ` AND x.visible_at>=lane.since AND x.visible_at<=` + now + `
				ORDER BY x.visible_at, x.id LIMIT $7::bigint) c),
		wanted AS MATERIALIZED (SELECT id, visible_at, priority FROM head WHERE place<=n ORDER BY priority DESC, visible_at, id LIMIT $7::bigint),
		due AS MATERIALIZED (SELECT c.id, c.visible_at, c.parts, c.size, wanted.priority FROM wanted CROSS JOIN LATERAL (
			SELECT r.id, r.visible_at, r.parts, ` + inputLength + failureLength + ` AS size FROM pawl.runs r WHERE r.id=wanted.id AND r.status<>4
			AND coalesce(r.visible_at, 9223372036854775807)<=` + now + ` AND r.priority=wanted.priority FOR NO KEY UPDATE SKIP LOCKED) c)`
	claimSet = `
		UPDATE pawl.runs r SET status=CASE r.status WHEN 5 THEN 5 ELSE 2 END, epoch=r.epoch+1, seq=0, stamp=$10::bigint, crashes=r.crashes+r.leased::int,
			worker=$8::text, leased=true, due_at=r.visible_at, visible_at=` + now + `+$9::bigint, started_at=coalesce(r.started_at, ` + now + `)
		FROM `
	// takeRuns takes the first of them, and those with it that fit into $12. The ids of
	// the runs that have a past are left to the statements that follow: as a setting of
	// the transaction, since nothing of Go runs in between.
	takeRuns = claimDue + `, fit AS MATERIALIZED (SELECT d.id, d.visible_at, d.parts, d.priority FROM (
			SELECT due.*, row_number() OVER place AS nth, sum(due.size) OVER place AS total FROM due
			WINDOW place AS (ORDER BY due.priority DESC, due.visible_at, due.id ROWS UNBOUNDED PRECEDING)) d WHERE d.nth=1 OR d.total<=$12::bigint),
		left_behind AS MATERIALIZED (SELECT set_config('pawl_tx.claimed', coalesce(
			string_agg(id::text, ',' ORDER BY priority DESC, visible_at, id) FILTER (WHERE parts & 15 <> 0), ''), true) FROM fit)` +
		claimSet + `fit CROSS JOIN left_behind WHERE r.id=ANY(ARRAY[fit.id]) AND r.visible_at<=` + now + `
		RETURNING ` + cols(`r.input,r.meta,NULL::bytea`) + `, r.due_at, false`

	// takeBare takes them all. Its last column says whether a run has steps.
	takeBare = claimDue + claimSet + `due WHERE r.id=ANY(ARRAY[due.id]) AND r.visible_at<=` + now + `
		RETURNING ` + bareColumns + `, r.due_at, r.parts & 1 <> 0 AND EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)`

	// takenRuns are those that the claim of stamp $8 has taken for worker $9, with leases
	// of $10 that are not over. Their ids are left to the statements that follow.
	takenRuns = takenOnes + cols(`r.input,r.meta,NULL::bytea`) + `, r.due_at, false` + takenFrom
	takenBare = takenOnes + bareColumns + `, r.due_at, r.parts & 1 <> 0 AND EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)` + takenFrom
	takenOnes = lanesOf(`$11`) + `, mine AS MATERIALIZED (SELECT c.id, c.due_at, c.parts, lane.priority FROM lane CROSS JOIN LATERAL (
			SELECT x.id, x.due_at, x.parts FROM pawl.runs x WHERE ` + inLane + ` AND x.visible_at>` + now + ` AND x.visible_at<=` + now + `+$10::bigint
			AND x.stamp=$8::bigint AND x.leased AND x.worker=$9::text OFFSET 0) c ORDER BY lane.priority DESC, c.due_at, c.id LIMIT $7::bigint),
		left_behind AS MATERIALIZED (SELECT set_config('pawl_tx.claimed', coalesce(
			string_agg(id::text, ',' ORDER BY priority DESC, due_at, id) FILTER (WHERE parts & 15 <> 0), ''), true) FROM mine)
		SELECT `
	takenFrom = ` FROM mine CROSS JOIN left_behind JOIN pawl.runs r ON r.id=ANY(ARRAY[mine.id])`

	// claimNext gives the earliest time in each lane, but for what bears stamp $7,
	// from $8 to so far beyond the present ($9), beside the number of index entries
	// passed until then, and whether worker $11 is asked for a sign of life. It has a row
	// even where there is no lane.
	claimNext = lanesOf(`$8`) + ` SELECT ` + now + `, ` + passedEntries + `,
			EXISTS (SELECT 1 FROM pawl.workers w WHERE w.namespace=$2::text AND w.id=$11::text AND w.asked_at IS NOT NULL),
			lane.pair, lane.priority, c.visible_at
		FROM (SELECT 1) one LEFT JOIN lane ON true LEFT JOIN LATERAL (
		SELECT x.visible_at FROM pawl.runs x WHERE ` + inLane + ` AND x.stamp<>$7::bigint
		AND x.visible_at>=lane.since AND x.visible_at<=coalesce(` + now + `+$9::bigint, 9223372036854775807)
		ORDER BY x.visible_at, x.id LIMIT 1) c ON true`
)

// passedEntries are those of the index of what is claimable ($10) that this session's
// scans have met. Those that are known to be dead for all do not count.
const passedEntries = `pg_stat_get_xact_tuples_returned($10::text::regclass)`

// patience bounds the last pause of a claim that found everything locked.
const patience = 32 * time.Millisecond

// taken is a run as a claim gathers it.
type taken struct {
	store.ClaimedRun
	due time.Time
}

// Claim implements store.Leases. What the runs' replay needs is read in the
// transaction that took them: whoever would change it waits for their rows.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	var out store.Claimed
	if err := p.Validate(); err != nil {
		return out, err
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	var numbers, bounds []int64
	var queues, workflows []string
	seen := map[[2]string]bool{} // what several demands name counts for the first
	for d, demand := range p.Demands {
		for _, q := range demand.Queues() {
			for _, w := range demand.Workflows {
				if k := [2]string{q, w}; !seen[k] {
					seen[k] = true
					numbers, queues = append(numbers, int64(d)), append(queues, q)
					workflows, bounds = append(workflows, w), append(bounds, int64(demand.Max))
				}
			}
		}
	}
	at, wanted, stamp := setNow(p.Now), p.Wanted(), cmp.Or(p.ClaimID, newStamp())
	base := []any{at, p.Namespace, numbers, queues, workflows, bounds}
	var runs []*taken
	byID := map[store.ID]*taken{}
	view, win := everywhere(len(queues)), s.window(p.Namespace, queues, workflows)
	win.doubt(s.failures.Load())
	if p.Now.IsZero() && !p.Again {
		view = win.look(time.Now())
	}
	index := pgx.Identifier{s.config.schema, "runs_claim"}.Sanitize()
	var before, passed int64
	var lanes []laneNext
	begin := stmt{sql: `SELECT pg_stat_get_xact_tuples_returned($1::text::regclass)`, args: []any{index}, rows: func(scan func(...any) error) error {
		runs, lanes, out = nil, nil, store.Claimed{} // sent again
		clear(byID)
		return scan(&before)
	}}
	next := stmt{sql: claimNext, args: append(base[:6:6], stamp, view.floors, view.within, index, p.Worker), rows: func(scan func(...any) error) error {
		var pair *int64
		var priority *int16
		var n laneNext
		err := scan(scanTime(&out.Now), &passed, &out.Asked, &pair, &priority, scanTime(&n.due))
		out.Asked = out.Asked && len(queues) > 0
		if pair != nil {
			n.pair, n.priority = *pair-1, *priority
			lanes = append(lanes, n)
		}
		return err
	}}
	looked := func(err error, long time.Duration) {
		out.NextDue = view.earliest(out.Now, lanes)
		for _, n := range lanes {
			if wanted > 0 && !n.due.IsZero() && !n.due.After(out.Now) {
				out.Waiting = store.Waits(out.Waiting, queues[n.pair], workflows[n.pair], n.due)
			}
		}
		switch {
		case !p.Now.IsZero(), p.Again:
		case err != nil:
			win.failed(view, long)
		default:
			win.seen(view, out.Now, lanes, passed-before-3*int64(len(runs)), long)
		}
	}
	if wanted == 0 || len(numbers) == 0 {
		from := time.Now()
		err := s.read(ctx, begin, next)
		looked(err, time.Since(from))
		return out, err
	}
	if failures := s.failures.Load(); p.Now.IsZero() && s.in == nil && win.heals(time.Now(), failures) {
		if err := s.write(ctx, stmt{sql: healLanes, args: []any{p.Namespace, queues, workflows}}); err != nil {
			return out, err
		}
		win.healed(time.Now(), failures)
	}
	stirred := s.stirred.Load()
	isDue := func() bool { return len(runs) > 0 || !out.NextDue.IsZero() && !out.NextDue.After(out.Now) }
	if p.Now.IsZero() && s.in == nil && !p.Again && win.rests(stirred) {
		// Nobody has told of work: whether there is some is seen by one statement.
		from := time.Now()
		err := s.read(ctx, next)
		before = passed // what it has passed is not told apart; a claim of work will see
		looked(err, time.Since(from))
		if err != nil || !isDue() {
			return out, err
		}
	}
	var due time.Time
	var steps bool
	row := newRunRow(scanTime(&due), &steps)
	first := stmt{
		sql: takeBare, args: append(base[:6:6], int64(wanted), p.Worker, span(p.LeaseFor), stamp, view.floors),
		rows: func(scan func(...any) error) error {
			t := &taken{}
			var err error
			t.Run, err = row.read(scan)
			t.due, t.MoreSteps = due, steps
			runs, byID[t.Run.ID] = append(runs, t), t
			return err
		},
	}
	var then []stmt
	if !p.Bare {
		bytes := atMost(cmp.Or(p.MaxBytes, store.DefaultClaimBytes))
		first.sql, first.args, then = takeRuns, append(first.args, bytes), replay(bytes, byID)
	}
	run := s.write
	if p.Again {
		run, first.sql = s.read, takenRuns
		if p.Bare {
			first.sql = takenBare
		}
		first.args = append(base[:6:6], int64(wanted), stamp, p.Worker, span(p.LeaseFor), view.floors)
	}
	take := func() error {
		from := time.Now()
		err := run(ctx, slices.Concat([]stmt{begin, first, next}, then)...)
		looked(err, time.Since(from))
		return err
	}
	err := take()
	// What was due and was skipped is locked by a write that is about to end: a signal,
	// another claim. It is not waited for longer than that usually takes.
	for wait := time.Millisecond; err == nil && !p.Again && len(runs) == 0 && isDue() && wait < patience; wait *= 2 {
		pause(ctx, wait)
		err = take()
	}
	win.found(err != nil || isDue(), stirred)
	if err != nil {
		return store.Claimed{}, err
	}
	slices.SortFunc(runs, func(a, b *taken) int {
		return cmp.Or(cmp.Compare(b.Run.Priority, a.Run.Priority), a.due.Compare(b.due), slices.Compare(a.Run.ID[:], b.Run.ID[:]))
	})
	out.Runs = make([]store.ClaimedRun, len(runs))
	for i, t := range runs {
		t.Lease = store.Lease{Run: t.Run.ID, Worker: p.Worker, Epoch: t.Run.Epoch}
		t.Recovered = t.Run.Crashes > 0
		t.Inbox.Status, t.Inbox.Events = t.Run.Status, t.Run.Events
		if p.Bare {
			t.Run.Omitted, t.Inbox.MoreSignals, t.Inbox.MoreState, t.Inbox.MoreGroups = true, true, true, true
		}
		out.Runs[i] = t.ClaimedRun
	}
	return out, nil
}

// claimed are those of the runs which the transaction has taken that have a past, in
// the order of the claim.
const claimed = `unnest(string_to_array(nullif(current_setting('pawl_tx.claimed', true), ''), ',')::uuid[]) WITH ORDINALITY m(id, place)`

// claimedItems reads of a table, as s, what comes along: up to a bound $1, in the order of
// the runs, one item beyond MaxPage at most of each, and of each run the first that does
// not fit. One window does it all: most runs have nothing to bring, and to set up a
// statement is what it costs then. at is the place in a run, size the length.
func claimedItems(table, which, at, size, columns string) string {
	return `SELECT s.run_id, s.before+s.size<=$1::bigint AS fits, ` + columns + ` FROM (
			SELECT m.place, s.*, coalesce(sum(s.size) OVER prior, 0) AS before, lag(m.place) OVER prior AS last
			FROM ` + claimed + ` CROSS JOIN LATERAL (SELECT x.*, ` + size + ` AS size FROM pawl.` + table + ` x WHERE x.run_id=m.id` + which + `
				ORDER BY x.` + at + ` LIMIT 1001) s
			WINDOW prior AS (ORDER BY m.place, s.` + at + ` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) s
		WHERE s.before<=$1::bigint OR s.last IS DISTINCT FROM s.place ORDER BY s.place, s.` + at
}

// ifFits is a column that comes with what fits alone.
func ifFits(column string) string {
	return `CASE WHEN s.before+s.size<=$1::bigint THEN ` + column + ` END`
}

var (
	claimedSteps = claimedItems(`steps`, ``, `position`, `coalesce(octet_length(x.output), 0)+coalesce(octet_length(x.failure), 0)`,
		strings.NewReplacer(`s.output`, ifFits(`s.output`), `s.failure`, ifFits(`s.failure`)).Replace(stepColumns))
	claimedState = claimedItems(`state`, ``, `key`, `coalesce(octet_length(x.value), 0)`,
		strings.Replace(stateColumns, `s.value`, ifFits(`s.value`), 1))
	claimedSignals = claimedItems(`signals`, ` AND NOT x.consumed`, `pos`, `coalesce(octet_length(x.payload), 0)`,
		strings.Replace(signalColumns, `s.payload`, ifFits(`s.payload`), 1))
	claimedGroups = `SELECT s.run_id, ` + groupColumns + ` FROM ` + claimed + ` CROSS JOIN LATERAL (
		SELECT * FROM pawl.groups x WHERE x.run_id=m.id ORDER BY x.name LIMIT 1001) s ORDER BY m.place, s.name`
)

// replay reads what claimed runs bring along.
func replay(bytes int64, byID map[store.ID]*taken) []stmt {
	of := func(id store.ID) *taken {
		if t := byID[id]; t != nil {
			return t
		}
		return &taken{} // locked, but not taken: nobody reads it
	}
	var id store.ID
	var fits bool
	return []stmt{
		{sql: claimedSteps, args: []any{bytes}, rows: func(scan func(...any) error) error {
			var step store.Step
			err := scanStep(scan, &step, scanID(&id), &fits)
			t := of(id)
			keep(&t.Steps, &t.MoreSteps, step, fits && len(t.Steps) < store.MaxPage)
			return err
		}},
		{sql: claimedState, args: []any{bytes}, rows: func(scan func(...any) error) error {
			e, err := scanEntry(scan, scanID(&id), &fits)
			in := &of(id).Inbox
			keep(&in.State, &in.MoreState, e, fits && len(in.State) < store.MaxPage)
			return err
		}},
		{sql: claimedGroups, rows: func(scan func(...any) error) error {
			g, err := scanGroup(scan, scanID(&id))
			in := &of(id).Inbox
			keep(&in.Groups, &in.MoreGroups, g, len(in.Groups) < store.MaxPage)
			return err
		}},
		{sql: claimedSignals, args: []any{bytes}, rows: func(scan func(...any) error) error {
			sig, err := scanSignal(scan, scanID(&id), &fits)
			in := &of(id).Inbox
			keep(&in.Signals, &in.MoreSignals, sig, fits && len(in.Signals) < store.MaxPage)
			return err
		}},
	}
}
