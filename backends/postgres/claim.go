package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// lanesOf lists the lanes that a claim may take from: a queue, a workflow, a pin, and a priority in
// use there. Parameters: $1 now, $2 namespace, $3 to $6 the demands' numbers, queues, workflows and
// maximums, $12 the pins; floors says where looks begin (see window).
func lanesOf(floors string) string {
	return `WITH lane AS MATERIALIZED (
		SELECT w.d, w.n, w.pair, w.pin, l.queue, l.workflow, l.priority,
			coalesce((w.floors::jsonb->>l.priority::text)::bigint, (-9223372036854775808)::bigint) AS since
		FROM unnest($3::bigint[], $4::text[], $5::text[], $6::bigint[], ` + floors + `::text[], $12::text[]) WITH ORDINALITY w(d, queue, workflow, n, floors, pin, pair)
		CROSS JOIN LATERAL (SELECT x.queue, x.workflow, x.priority FROM pawl.lanes x
			WHERE x.namespace=$2::text AND x.queue=w.queue AND x.workflow=w.workflow OFFSET 0) l
		WHERE NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND p.queue=w.queue AND p.workflow='')
		AND NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND p.queue='' AND p.workflow=w.workflow))`
}

// inLane selects the claimable runs r of a row of lane, due or not, except those that wait under limits: see
// limitsql.go.
var inLane = sqlkit.Text(`r.namespace=$2::text AND r.queue=lane.queue AND r.workflow=lane.workflow AND r.pin=lane.pin AND r.priority=lane.priority
		AND r.visible_at IS NOT NULL AND r.status<>{paused} AND (r.flow IS NULL OR r.leased)`)

// dueInLane selects the due runs of a lane, where looks begin.
var dueInLane = inLane + ` AND r.visible_at>=lane.since AND r.visible_at<=` + now

var (
	// Each lane with due runs locks its share of the claim in the scan of its own index range. The
	// scan skips runs that another transaction has locked, so concurrent claims take different runs.
	// The first runs of all lanes are sorted only to count the shares. Without shares, a claim
	// would either lock far too many runs or break the order over lanes. A single lane with due
	// runs needs no count. Parameters after those of lanesOf: $7 the maximum number of runs, $8
	// worker, $9 lease, $10 stamp, $11 floors, $12 pins, $13 build, $14 bytes.
	claimDue = sqlkit.Text(lanesOf(`$11`) + `, busy AS MATERIALIZED (
			SELECT lane.*, row_number() OVER () AS place, count(*) OVER () AS lanes FROM lane CROSS JOIN LATERAL (
				SELECT FROM pawl.runs r WHERE ` + dueInLane + ` ORDER BY r.visible_at, r.id LIMIT 1) c),
		head AS MATERIALIZED (
			SELECT lane.place, lane.priority, lane.n, c.visible_at, c.id,
				row_number() OVER (PARTITION BY lane.d ORDER BY lane.priority DESC, c.visible_at, c.id) AS nth
			FROM busy lane CROSS JOIN LATERAL (
				SELECT r.id, r.visible_at FROM pawl.runs r WHERE ` + dueInLane + ` ORDER BY r.visible_at, r.id LIMIT $7::bigint) c
			WHERE lane.lanes>1),
		share AS MATERIALIZED (
			SELECT w.place, count(*) AS runs FROM (
				SELECT head.place FROM head WHERE head.nth<=head.n ORDER BY head.priority DESC, head.visible_at, head.id LIMIT $7::bigint) w GROUP BY w.place
			UNION ALL SELECT busy.place, least(busy.n, $7::bigint) FROM busy WHERE busy.lanes=1),
		due AS MATERIALIZED (
			SELECT c.id, c.visible_at, c.parts, c.size, lane.priority FROM busy lane JOIN share USING (place) CROSS JOIN LATERAL (
				SELECT r.id, r.visible_at, r.parts, ` + inputLength + failureLength + ` AS size FROM pawl.runs r WHERE ` + dueInLane + `
				ORDER BY r.visible_at, r.id LIMIT share.runs FOR NO KEY UPDATE SKIP LOCKED) c)`)
	claimSet = sqlkit.Text(`
		UPDATE pawl.runs r SET status=CASE r.status WHEN {canceling} THEN {canceling} ELSE {running} END, epoch=r.epoch+1, seq=0, stamp=$10::bigint, crashes=r.crashes+r.leased::int,
			worker=$8::text, leased=true, due_at=r.visible_at, visible_at=` + now + `+$9::bigint, started_at=coalesce(r.started_at, ` + now + `),
			build=` + sqlkit.RunBuild + `, lease_build=nullif($13::text, ''), parts=r.parts & ~{partRecorded}::smallint
		FROM `)
	// claimAll locks the first runs of all lanes and selects among them. It is for claims whose
	// share is locked by others, perhaps for as long as a program's transaction is open.
	claimAll = sqlkit.Text(lanesOf(`$11`) + `, head AS MATERIALIZED (
			SELECT c.*, lane.priority, lane.d, lane.n FROM lane CROSS JOIN LATERAL (
				SELECT r.id, r.visible_at, r.parts, ` + inputLength + failureLength + ` AS size FROM pawl.runs r WHERE ` + dueInLane + `
				ORDER BY r.visible_at, r.id LIMIT $7::bigint FOR NO KEY UPDATE SKIP LOCKED) c),
		due AS MATERIALIZED (
			SELECT h.id, h.visible_at, h.parts, h.size, h.priority FROM (
				SELECT head.*, row_number() OVER (PARTITION BY head.d ORDER BY head.priority DESC, head.visible_at, head.id) AS nth FROM head) h
			WHERE h.nth<=h.n ORDER BY h.priority DESC, h.visible_at, h.id LIMIT $7::bigint)`)
	// claimFit selects the first run that is due, and the following ones that fit into $14.
	claimFit = `, fit AS MATERIALIZED (SELECT d.id, d.visible_at, d.parts, d.priority FROM (
			SELECT due.*, row_number() OVER place AS nth, sum(due.size) OVER place AS total FROM due
			WINDOW place AS (ORDER BY due.priority DESC, due.visible_at, due.id ROWS UNBOUNDED PRECEDING)) d WHERE d.nth=1 OR d.total<=$14::bigint)`
	takeRuns, takeRunsOfAll = takeRunsOf(claimDue), takeRunsOf(claimAll)

	// takeNew takes the due runs that fit, or none if one of them has a history. No statements follow it.
	takeNew = sqlkit.Text(claimDue + claimFit + claimSet + `fit WHERE r.id=ANY(ARRAY[fit.id]) AND r.visible_at<=` + now + `
		AND NOT EXISTS (SELECT 1 FROM fit past WHERE past.parts & {partsToReplay} <> 0)
		RETURNING ` + cols(`r.input,r.meta,NULL::bytea`) + `, r.due_at, false`)

	takeBare, takeBareOfAll = takeBareOf(claimDue), takeBareOf(claimAll)

	// takenRuns reads the runs that the claim of stamp $8 has taken for worker $9, with leases of
	// $10 that have not expired. It passes their ids to the statements that follow.
	takenRuns = takenOnes + cols(`r.input,r.meta,NULL::bytea`) + `, r.due_at, false` + takenFrom
	takenBare = sqlkit.Text(takenOnes + bareColumns + `, r.due_at, r.parts & {partSteps} <> 0 AND EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)` + takenFrom)
	takenOnes = sqlkit.Text(lanesOf(`$11`) + `, mine AS MATERIALIZED (SELECT c.id, c.due_at, c.parts, lane.priority FROM lane CROSS JOIN LATERAL (
			SELECT r.id, r.due_at, r.parts FROM pawl.runs r WHERE ` + inLane + ` AND r.visible_at>` + now + ` AND r.visible_at<=` + now + `+$10::bigint
			AND r.stamp=$8::bigint AND r.leased AND r.worker=$9::text OFFSET 0) c ORDER BY lane.priority DESC, c.due_at, c.id LIMIT $7::bigint),
		left_behind AS MATERIALIZED (SELECT set_config('pawl_tx.claimed', coalesce(
			string_agg(id::text, ',' ORDER BY priority DESC, due_at, id) FILTER (WHERE parts & {partsToReplay} <> 0), ''), true) FROM mine)
		SELECT `)
	takenFrom = ` FROM mine CROSS JOIN left_behind JOIN pawl.runs r ON r.id=ANY(ARRAY[mine.id])`

	// claimNext returns the earliest time in each lane, except for runs with stamp $7,
	// from $8 up to $9 after the present, together with the number of index entries
	// passed until then, whether worker $11 is asked whether it is alive, and whether the namespace
	// has limits. It has a row even if there is no lane.
	claimNext = lanesOf(`$8`) + ` SELECT ` + now + `, ` + passedEntries + `,
			EXISTS (SELECT 1 FROM pawl.workers w WHERE w.namespace=$2::text AND w.id=$11::text AND w.asked_at IS NOT NULL), ` + someLimits + `,
			lane.pair, lane.priority, c.visible_at
		FROM (SELECT 1) one LEFT JOIN lane ON true LEFT JOIN LATERAL (
		SELECT r.visible_at FROM pawl.runs r WHERE ` + inLane + ` AND r.stamp<>$7::bigint
		AND r.visible_at>=lane.since AND r.visible_at<=coalesce(` + now + `+$9::bigint, 9223372036854775807)
		ORDER BY r.visible_at, r.id LIMIT 1) c ON true`
)

// takeRunsOf takes the due runs that fit. It passes the ids of the runs with a history to the
// statements that follow in a setting of the transaction, because no Go code runs in between.
func takeRunsOf(due string) string {
	return sqlkit.Text(due + claimFit + `, left_behind AS MATERIALIZED (SELECT set_config('pawl_tx.claimed', coalesce(
			string_agg(id::text, ',' ORDER BY priority DESC, visible_at, id) FILTER (WHERE parts & {partsToReplay} <> 0), ''), true) FROM fit)` +
		claimSet + `fit CROSS JOIN left_behind WHERE r.id=ANY(ARRAY[fit.id]) AND r.visible_at<=` + now + `
		RETURNING ` + cols(`r.input,r.meta,NULL::bytea`) + `, r.due_at, false`)
}

// takeBareOf takes all due runs. Its last column says whether a run has steps.
func takeBareOf(due string) string {
	return sqlkit.Text(due + claimSet + `due WHERE r.id=ANY(ARRAY[due.id]) AND r.visible_at<=` + now + `
		RETURNING ` + bareColumns + `, r.due_at, r.parts & {partSteps} <> 0 AND EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)`)
}

// passedEntries counts the entries of the index of claimable runs ($10) that this
// session's scans have met. Entries that are known to be dead for everybody do not count.
const passedEntries = `pg_stat_get_xact_tuples_returned($10::text::regclass)`

// patience limits the last pause of a claim that found everything locked.
const patience = 32 * time.Millisecond

// brief is the pause from which on a claim locks the first runs of all lanes: others lock them for
// a moment only.
const brief = 4 * time.Millisecond

// metEntries counts the entries of an index ($1) that this session's scans have met.
const metEntries = `SELECT pg_stat_get_xact_tuples_returned($1::text::regclass)`

// claiming is a claim in progress.
type claiming struct {
	*Store
	p                 *store.ClaimParams
	wanted            int
	stamp             int64
	queues, workflows []string
	pins              []string // the pins of each queue and workflow
	args              []any    // the parameters of lanesOf
	index             string
	win               *window
	view              look

	// The results of the statements. They are reset when the statements are sent again.
	out            store.Claimed
	runs           []*sqlkit.Taken
	byID           map[store.ID]*sqlkit.Taken
	lanes          []laneNext
	underLimits    []limitLane
	metLimits      bool  // it has noticed first that the namespace has limits
	before, passed int64 // index entries met
	mark           mark  // what a look has found
}

// Claim implements store.Leases. It reads what the runs' replay needs in the transaction
// that took them: writers that would change it wait for their rows.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	if err := p.Validate(); err != nil {
		return store.Claimed{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Claimed{}, err
	}
	c := s.newClaim(&p)
	if err := s.learnLimits(ctx, p.Namespace); err != nil {
		return store.Claimed{}, err
	}
	if (c.wanted == 0 || len(c.queues) == 0) && (p.Again || !s.hasLimits(p.Namespace)) {
		err := c.send(ctx, s.read, c.begin(), c.nextDue())
		return c.out, err
	}
	// The server's present time decides whether to look first and whether to heal the lanes.
	present := p.Now.IsZero() && s.in == nil
	if failures := s.failures.Load(); present && c.win.heals(time.Now(), failures) {
		if err := s.write(ctx, stmt{sql: healLanes, args: []any{p.Namespace, c.queues, c.workflows, c.pins}}); err != nil {
			return c.out, err
		}
		c.win.healed(time.Now(), failures)
	}
	stirred := s.stirred.Load()
	switch {
	case !present || p.Again:
	case c.win.rests(stirred):
		// No hint announced work: one statement checks whether there is some.
		if err := c.look(ctx); err != nil || !c.isDue() && c.mark.seq == 0 {
			return c.out, err
		}
	case c.wanted > 0 && s.hasLimits(p.Namespace) && !s.way.Announced():
		// Others announced it, perhaps the end of a permit.
		if some, err := c.giveWay(ctx); err != nil || !some {
			c.win.found(err != nil, stirred)
			return c.out, err
		}
	}
	err := c.take(ctx)
	c.win.found(err != nil || c.isDue(), stirred)
	if err != nil {
		return store.Claimed{}, err
	}
	c.out.Runs = sqlkit.ClaimedRuns(&p, c.runs)
	return c.out, nil
}

// take takes runs, or finds the runs that the claim has taken. While claims meet no history, it
// first tries without the statements that read one.
func (c *claiming) take(ctx context.Context) error {
	if c.p.Again {
		return c.send(ctx, c.read, c.again()...)
	}
	if c.hasLimits(c.p.Namespace) {
		return c.takeLimited(ctx)
	}
	err := c.takeFree(ctx)
	if err == nil && c.metLimits && len(c.runs) == 0 {
		c.metLimits = false
		return c.takeLimited(ctx)
	}
	return err
}

// takeFree takes runs that are under no limit.
func (c *claiming) takeFree(ctx context.Context) error {
	if !c.p.Bare && c.win.meetsNew() {
		err := c.send(ctx, c.write, c.begin(), c.taking(takeNew, c.maxBytes()), c.nextDue())
		if err != nil || len(c.runs) > 0 || !c.isDue() {
			return err
		}
	}
	err := c.send(ctx, c.write, c.statements(false)...)
	// Skipped due runs are locked by a write that is about to end: a signal or another
	// claim. The claim waits for it no longer than that usually takes. If it takes longer, the
	// claim looks into all lanes, because its share may lie in lanes whose runs are locked.
	for wait := time.Millisecond; err == nil && len(c.runs) == 0 && c.isDue() && wait < patience; wait *= 2 {
		pause(ctx, wait)
		err = c.send(ctx, c.write, c.statements(wait >= brief)...)
	}
	if err == nil && !c.p.Bare {
		c.win.met(slices.ContainsFunc(c.runs, hasHistory))
	}
	return err
}

// hasHistory reports whether anything came with a run that its replay needs.
func hasHistory(t *sqlkit.Taken) bool {
	in := &t.Inbox
	return len(t.Steps)+len(in.State)+len(in.Signals)+len(in.Groups) > 0 || t.MoreSteps || in.MoreState || in.MoreSignals || in.MoreGroups
}

func (s *Store) newClaim(p *store.ClaimParams) *claiming {
	lanes := sqlkit.Lanes(p)
	n := len(lanes)
	c := &claiming{
		Store: s, p: p, wanted: p.Wanted(), stamp: sqlkit.ClaimStamp(p), byID: map[store.ID]*sqlkit.Taken{},
		queues: make([]string, n), workflows: make([]string, n), pins: make([]string, n), index: pgx.Identifier{s.config.schema, "runs_claim"}.Sanitize(),
	}
	numbers, bounds := make([]int64, n), make([]int64, n)
	for i, l := range lanes {
		numbers[i], c.queues[i], c.workflows[i], c.pins[i], bounds[i] = int64(l.Demand), l.Queue, l.Workflow, l.Pin, int64(l.Max)
	}
	c.args = []any{setNow(p.Now), p.Namespace, numbers, c.queues, c.workflows, bounds}
	c.view, c.win = everywhere(n), s.window(p.Namespace, c.queues, c.workflows, c.pins)
	c.win.doubt(s.failures.Load())
	if p.Now.IsZero() && !p.Again {
		c.view = c.win.look(time.Now())
	}
	return c
}

// send runs the statements and records what they report about the lanes.
func (c *claiming) send(ctx context.Context, run func(context.Context, ...stmt) error, stmts ...stmt) error {
	from := time.Now()
	err := run(ctx, stmts...)
	c.looked(err, time.Since(from))
	return err
}

// look asks when the next run is due, and takes none.
func (c *claiming) look(ctx context.Context) error {
	from := time.Now()
	c.lanes, c.underLimits, c.mark, c.out = nil, nil, mark{}, store.Claimed{}
	stmts := []stmt{c.nextDue()}
	if c.hasLimits(c.p.Namespace) {
		stmts = append(stmts, c.limitTimes(int64(c.wanted)), c.firstMark())
	}
	err := c.read(ctx, stmts...)
	c.before = c.passed // the entries that it passed cannot be separated; a claim of work will count them
	c.looked(err, time.Since(from))
	return err
}

// looked records what is due, and tells the window what a look has found.
func (c *claiming) looked(err error, long time.Duration) {
	c.out.NextDue = c.view.earliest(c.out.Now, c.lanes)
	for _, n := range c.lanes {
		if c.wanted > 0 && !n.due.IsZero() && !n.due.After(c.out.Now) {
			c.out.Waiting = store.Waits(c.out.Waiting, c.queues[n.pair], c.workflows[n.pair], n.due)
		}
	}
	c.limitsLooked()
	switch {
	case !c.p.Now.IsZero(), c.p.Again:
	case err != nil:
		c.win.failed(c.view, long)
	default:
		c.win.seen(c.view, c.out.Now, c.lanes, c.passed-c.before-3*int64(len(c.runs)), long)
	}
}

func (c *claiming) isDue() bool {
	return len(c.runs) > 0 || !c.out.NextDue.IsZero() && !c.out.NextDue.After(c.out.Now)
}

// begin discards what an earlier try of the transaction has found.
func (c *claiming) begin() stmt {
	return stmt{sql: metEntries, args: []any{c.index}, rows: func(scan func(...any) error) error {
		c.runs, c.lanes, c.underLimits, c.out = nil, nil, nil, store.Claimed{}
		clear(c.byID)
		return scan(&c.before)
	}}
}

// nextDue asks for the earliest time in each lane.
func (c *claiming) nextDue() stmt {
	args := append(c.args[:6:6], c.stamp, c.view.floors, c.view.within, c.index, c.p.Worker, c.pins)
	return stmt{sql: claimNext, args: args, rows: func(scan func(...any) error) error {
		var pair *int64
		var priority *int16
		var n laneNext
		limits := false
		err := scan(sqlkit.Time(&c.out.Now), &c.passed, &c.out.Asked, &limits, &pair, &priority, sqlkit.Time(&n.due))
		c.out.Asked = c.out.Asked && len(c.queues) > 0
		c.meetLimits(limits)
		if pair != nil {
			n.pair, n.priority = *pair-1, *priority
			c.lanes = append(c.lanes, n)
		}
		return err
	}}
}

// statements returns the statements that take runs, from the shares or from all lanes, and read
// what their replay needs.
func (c *claiming) statements(all bool) []stmt {
	take, bare := takeRuns, takeBare
	if all {
		take, bare = takeRunsOfAll, takeBareOfAll
	}
	if c.p.Bare {
		return []stmt{c.begin(), c.taking(bare), c.nextDue()}
	}
	bytes := c.maxBytes()
	return append([]stmt{c.begin(), c.taking(take, bytes), c.nextDue()}, replay(bytes, c.byID)...)
}

// again returns the statements that find the runs that the claim has taken and read what their
// replay needs.
func (c *claiming) again() []stmt {
	args := append(c.args[:6:6], int64(c.wanted), c.stamp, c.p.Worker, sqlkit.Span(c.p.LeaseFor), c.view.floors, c.pins)
	if c.p.Bare {
		return []stmt{c.begin(), c.reading(takenBare, args), c.nextDue(), c.limitTimes(int64(c.wanted))}
	}
	return append([]stmt{c.begin(), c.reading(takenRuns, args), c.nextDue(), c.limitTimes(int64(c.wanted))}, replay(c.maxBytes(), c.byID)...)
}

// maxBytes is the limit for what comes with the runs.
func (c *claiming) maxBytes() int64 {
	return sqlkit.AtMost(cmp.Or(c.p.MaxBytes, store.DefaultClaimBytes))
}

// taking is a statement that takes runs, with the parameters of claimDue and further ones.
func (c *claiming) taking(sql string, more ...any) stmt {
	args := append(c.args[:6:6], int64(c.wanted), c.p.Worker, sqlkit.Span(c.p.LeaseFor), c.stamp, c.view.floors, c.pins, c.p.Build)
	return c.reading(sql, append(args, more...))
}

// reading is a statement that returns taken runs.
func (c *claiming) reading(sql string, args []any) stmt {
	var due time.Time
	var steps bool
	row := newRunRow(sqlkit.Time(&due), &steps)
	return stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
		t := &sqlkit.Taken{}
		var err error
		t.Run, err = row.Read(scan)
		t.Due, t.MoreSteps = due, steps
		c.runs, c.byID[t.Run.ID] = append(c.runs, t), t
		return err
	}}
}

// claimed lists the taken runs that have a history, in the order of the claim.
const claimed = `unnest(string_to_array(nullif(current_setting('pawl_tx.claimed', true), ''), ',')::uuid[]) WITH ORDINALITY m(id, place)`

// claimedItems reads items of a table, as s, for claimed runs: up to limit $1, in the order of the
// runs, at most MaxPage+1 items of each run, including the first item of each run that does not
// fit. One window does all of this: most runs have no items, and then the cost is that of setting
// up a statement. at is the place in a run, size the length.
func claimedItems(table, which, at, size, columns string) string {
	return `SELECT s.run_id, s.before+s.size<=$1::bigint AS fits, ` + columns + ` FROM (
			SELECT m.place, s.*, coalesce(sum(s.size) OVER prior, 0) AS before, lag(m.place) OVER prior AS last
			FROM ` + claimed + ` CROSS JOIN LATERAL (SELECT x.*, ` + size + ` AS size FROM pawl.` + table + ` x WHERE x.run_id=m.id` + which + `
				ORDER BY x.` + at + ` LIMIT 1001) s
			WINDOW prior AS (ORDER BY m.place, s.` + at + ` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) s
		WHERE s.before<=$1::bigint OR s.last IS DISTINCT FROM s.place ORDER BY s.place, s.` + at
}

// ifFits is a column that comes only if the item fits.
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

// replay reads the content of claimed runs.
func replay(bytes int64, byID map[store.ID]*sqlkit.Taken) []stmt {
	of := func(id store.ID) *sqlkit.Taken {
		if t := byID[id]; t != nil {
			return t
		}
		return &sqlkit.Taken{} // locked, but not taken: nobody reads it
	}
	var id store.ID
	var fits bool
	return []stmt{
		{sql: claimedSteps, args: []any{bytes}, rows: func(scan func(...any) error) error {
			var step store.Step
			err := scanStep(scan, &step, sqlkit.ID(&id), &fits)
			t := of(id)
			sqlkit.Keep(&t.Steps, &t.MoreSteps, step, fits && len(t.Steps) < store.MaxPage)
			return err
		}},
		{sql: claimedState, args: []any{bytes}, rows: func(scan func(...any) error) error {
			e, err := scanEntry(scan, sqlkit.ID(&id), &fits)
			in := &of(id).Inbox
			sqlkit.Keep(&in.State, &in.MoreState, e, fits && len(in.State) < store.MaxPage)
			return err
		}},
		{sql: claimedGroups, rows: func(scan func(...any) error) error {
			g, err := sqlkit.ScanGroup(scan, sqlkit.ID(&id))
			in := &of(id).Inbox
			sqlkit.Keep(&in.Groups, &in.MoreGroups, g, len(in.Groups) < store.MaxPage)
			return err
		}},
		{sql: claimedSignals, args: []any{bytes}, rows: func(scan func(...any) error) error {
			sig, err := scanSignal(scan, sqlkit.ID(&id), &fits)
			in := &of(id).Inbox
			sqlkit.Keep(&in.Signals, &in.MoreSignals, sig, fits && len(in.Signals) < store.MaxPage)
			return err
		}},
	}
}
