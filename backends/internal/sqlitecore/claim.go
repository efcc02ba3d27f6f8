package sqlitecore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// laneTable contains the lanes that are not paused. Parameters: ?1 the lanes, ?2 the namespace.
const laneTable = `WITH RECURSIVE
	lane(d, queue, workflow, pin, n) AS MATERIALIZED (
		SELECT j.value->>'d', j.value->>'q', j.value->>'w', j.value->>'p', j.value->>'n' FROM json_each(?1) j
		WHERE NOT EXISTS (SELECT 1 FROM paused WHERE namespace=?2 AND queue=j.value->>'q' AND workflow='')
		AND NOT EXISTS (SELECT 1 FROM paused WHERE namespace=?2 AND queue='' AND workflow=j.value->>'w'))`

// freshTable follows laneTable and contains the distinct priorities of fresh runs in each lane.
const freshTable = `,
	fresh(d, queue, workflow, pin, n, priority) AS (
		SELECT d, queue, workflow, pin, n, (SELECT max(priority) FROM runs x WHERE x.namespace=?2 AND x.queue=lane.queue AND x.workflow=lane.workflow AND x.pin=lane.pin AND x.fresh=1)
			FROM lane WHERE ` + someFresh + `
		UNION ALL SELECT d, queue, workflow, pin, n, (SELECT max(priority) FROM runs x WHERE x.namespace=?2 AND x.queue=fresh.queue AND x.workflow=fresh.workflow AND x.pin=fresh.pin
			AND x.priority<fresh.priority AND x.fresh=1) FROM fresh WHERE priority IS NOT NULL)`

// someFresh says whether the namespace has fresh runs.
const someFresh = `EXISTS (SELECT 1 FROM runs WHERE namespace=?2 AND fresh=1)`

// claimLevels lists the distinct priorities in use in each lane that is not paused. One seek in
// runs_claim finds each priority, below the one before. CROSS JOIN and the repeated index condition
// make the planner use these seeks. Parameters: ?1 the lanes, ?2 the namespace.
var claimLevels = sqlkit.Text(laneTable + `,
	level(d, queue, workflow, pin, n, priority) AS (
		SELECT d, queue, workflow, pin, n, (SELECT max(priority) FROM runs x WHERE x.namespace=?2 AND x.queue=lane.queue
			AND x.workflow=lane.workflow AND x.pin=lane.pin AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0) FROM lane
		UNION ALL
		SELECT d, queue, workflow, pin, n, (SELECT max(priority) FROM runs x WHERE x.namespace=?2 AND x.queue=level.queue
			AND x.workflow=level.workflow AND x.pin=level.pin AND x.priority<level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0)
		FROM level WHERE priority IS NOT NULL)`)

// news says whether runs under limits may be claimable in the lanes at a time, or may have become so in
// other queues: then a claim plans.
func news(at string) string {
	return `(EXISTS (SELECT 1 FROM limit_parks WHERE namespace=?2 AND wake_at=-1)
		OR EXISTS (SELECT 1 FROM lane CROSS JOIN limit_flows f ON f.namespace=?2 AND f.queue=lane.queue AND f.workflow=lane.workflow AND f.pin=lane.pin
			AND f.state<2 AND f.head_at<=` + at + `)
		OR EXISTS (SELECT 1 FROM lane CROSS JOIN limit_parks p ON p.namespace=?2 AND p.queue=lane.queue AND p.workflow=lane.workflow AND p.pin=lane.pin
			AND p.wake_at IS NOT NULL AND p.wake_at<=` + at + `)
		OR EXISTS (SELECT 1 FROM fresh CROSS JOIN runs x ON x.namespace=?2 AND x.queue=fresh.queue AND x.workflow=fresh.workflow AND x.pin=fresh.pin
			AND x.priority=fresh.priority AND x.fresh=1 AND x.visible_at<=` + at + `))`
}

// parkFreed is the latest wake_at of a park whose key has got a permit; other times are of runs or tokens.
const parkFreed = 0

// soon is the earliest time at which a run under limits may be claimable in the lanes, as far as the last
// plans know; below zero: there may be some in other queues. A namespace without any reads nothing.
const soon = `iif(EXISTS (SELECT 1 FROM limit_flows WHERE namespace=?2) OR EXISTS (SELECT 1 FROM limit_parks WHERE namespace=?2) OR ` + someFresh + `, (SELECT min(at) FROM (
		SELECT min(wake_at) AS at FROM limit_parks WHERE namespace=?2 AND wake_at=-1
		UNION ALL SELECT (SELECT min(f.head_at) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=lane.queue AND f.workflow=lane.workflow AND f.pin=lane.pin AND f.state<2) FROM lane
		UNION ALL SELECT (SELECT min(p.wake_at) FROM limit_parks p WHERE p.namespace=?2 AND p.queue=lane.queue AND p.workflow=lane.workflow AND p.pin=lane.pin
			AND p.wake_at IS NOT NULL) FROM lane
		UNION ALL SELECT (SELECT min(x.visible_at) FROM runs x WHERE x.namespace=?2 AND x.queue=fresh.queue AND x.workflow=fresh.workflow AND x.pin=fresh.pin
			AND x.priority=fresh.priority AND x.fresh=1) FROM fresh WHERE priority IS NOT NULL)), NULL)`

// claimDue selects the runs to be taken: ?3 now, ?4 the maximum number of runs, ?5 the stamp, ?7
// the end of the lease, ?8 the build. If the same request arrives twice, the second finds the runs
// that the first has taken: mine. It takes none if runs under limits may be claimable, because their
// order decides: see plan.
var claimDue = sqlkit.Text(claimLevels + freshTable + `,
	mine AS MATERIALIZED (SELECT r.id FROM level CROSS JOIN runs r
		WHERE r.namespace=?2 AND r.queue=level.queue AND r.workflow=level.workflow AND r.pin=level.pin AND r.priority=level.priority
		AND r.visible_at=?7 AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=0 AND r.stamp=?5),
	news(some) AS MATERIALIZED (SELECT ` + news("?3") + `),
	due AS (
		SELECT r.id, r.priority, r.visible_at,
			row_number() OVER (PARTITION BY level.d ORDER BY r.priority DESC, r.visible_at, r.id) AS place, level.n
		FROM level CROSS JOIN runs r ON r.id IN (SELECT x.id FROM runs x
			WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow AND x.pin=level.pin AND x.priority=level.priority
			AND x.visible_at<=?3 AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0 ORDER BY x.visible_at, x.id LIMIT ?4+0)
		WHERE level.priority IS NOT NULL AND NOT EXISTS (SELECT 1 FROM mine) AND NOT (SELECT some FROM news)),
	wanted AS (SELECT id, priority, visible_at FROM due WHERE place<=n ORDER BY priority DESC, visible_at, id LIMIT ?4+0)`)

// claimSet: ?6 worker, ?8 its build. Runs that the first arrival of the request took already have the end
// of their lease; due runs have an earlier time.
var claimSet = sqlkit.Text(`
	UPDATE runs SET status=CASE status WHEN {canceling} THEN {canceling} ELSE {running} END, epoch=epoch+(visible_at<>?7), seq=0, stamp=?5, crashes=crashes+(leased AND visible_at<>?7),
		worker=?6, leased=1, due_at=CASE WHEN visible_at<>?7 THEN visible_at ELSE due_at END, visible_at=?7, started_at=coalesce(started_at, ?3),
		build=` + runBuild + `, lease_build=nullif(?8, ''), parts=parts & ~{partRecorded}
	WHERE id IN `)

var (
	// claimRuns takes the first run, and the following ones that fit into ?9. It adds their sizes up one by one only if
	// not all of them fit.
	claimRuns = claimDue + `,
	sized AS (SELECT w.id, ` + inputLength + `+` + metaLength + `+` + failureLength + ` AS size FROM wanted w CROSS JOIN runs r ON r.id=w.id),
	list AS (SELECT json_group_array(hex(id)) AS ids, json_group_array(size) AS sizes, sum(size)<=?9 AS fits FROM sized),
	room AS MATERIALIZED (SELECT ids, iif(fits, ?4+0, (SELECT count(*) FROM (SELECT z.key AS nth, sum(z.value) OVER (ORDER BY z.key) AS total FROM json_each(list.sizes) z) WHERE nth=0 OR total<=?9)) AS n FROM list)` +
		claimSet + `(SELECT unhex(i.value) FROM room CROSS JOIN json_each(room.ids) i WHERE i.key<room.n
		UNION ALL SELECT id FROM mine)
	RETURNING ` + claimColumns

	// claimBare takes all of them.
	claimBare = claimDue + claimSet + `(SELECT id FROM wanted UNION ALL SELECT id FROM mine)
	RETURNING ` + bareColumns + `, parts, due_at`

	claimColumns = runColumns("input", "meta", "NULL") + `, parts, due_at`
)

// isAsked says whether the worker is asked for a sign of life. It reads no row of a worker that is
// not asked.
const isAsked = `EXISTS (SELECT 1 FROM workers INDEXED BY workers_asked WHERE namespace=?2 AND id=?3 AND asked_at IS NOT NULL)`

// claimNext returns the time (?5), whether worker ?3 is asked for a sign of life, and the earliest
// time in the lanes except that of runs with stamp ?4; then each lane with a due run, and the run's
// time.
var claimNext = sqlkit.Text(claimLevels + freshTable + `,
	first(queue, workflow, at) AS MATERIALIZED (
		SELECT queue, workflow, (SELECT x.visible_at FROM runs x WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow AND x.pin=level.pin
			AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0 AND x.stamp<>?4 ORDER BY x.visible_at LIMIT 1)
		FROM level WHERE priority IS NOT NULL)
	SELECT ?5, ` + isAsked + `, min(at), json_group_array(json_object('q', queue, 'w', workflow, 'at', at)) FILTER (WHERE at<=?5), ` + soon + ` FROM first`)

// claimPeek is claimNext for all runs, with the time as ?4: it reads only the index.
var claimPeek = sqlkit.Text(claimLevels + freshTable + `
	SELECT ?4, ` + isAsked + `, min((SELECT min(x.visible_at) FROM runs x WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow AND x.pin=level.pin
		AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0)), ` + soon + `
	FROM level WHERE priority IS NOT NULL`)

// claimed finds, by the index, the runs that the claim with stamp ?3 and end of lease ?4 has taken.
var claimed = sqlkit.Text(claimLevels + `,
	mine AS MATERIALIZED (SELECT r.id, r.priority, r.due_at, r.parts FROM level CROSS JOIN runs r
		WHERE r.namespace=?2 AND r.queue=level.queue AND r.workflow=level.workflow AND r.pin=level.pin AND r.priority=level.priority
		AND r.visible_at=?4 AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=0 AND r.stamp=?3)
	`)

// claimedAgain reads the runs that the claim itself returned in an answer that was lost.
var (
	claimedAgain     = claimed + `SELECT ` + claimColumns + found
	claimedBareAgain = claimed + `SELECT ` + bareColumns + `, parts, due_at` + found
)

// found selects the runs of worker ?6, at most ?5.
const found = ` FROM runs WHERE id IN (SELECT id FROM mine ORDER BY priority DESC, due_at, id LIMIT ?5+0) AND leased AND worker=?6`

// sought turns a statement over the runs of a claim into one that accepts leases with any end up to
// ?4 that have not expired.
func sought(sql string, leaseFor time.Duration) string {
	return strings.Replace(sql, "AND r.visible_at=?4", fmt.Sprintf("AND r.visible_at>?4-%d AND r.visible_at<=?4", sqlkit.Span(leaseFor)), 1)
}

// claimedPart is one kind of items that a claim returns with its runs.
type claimedPart struct {
	tally string // the largest number of items of a run, and their total size, up to MaxPage
	all   string
	fit   string // the items that fit into ?5, in the order of the runs; and the first that does not
}

// newPart makes the claimedPart for the items of a table, as s. at is the item's place in the run,
// size the length, key the other columns of the primary key, and which a further condition. columns
// may depend on z.fits.
func newPart(table, which, at, size, key, columns string) claimedPart {
	from := `mine CROSS JOIN ` + table + ` s ON s.run_id=mine.id` + which
	of := claimed + `, item AS (SELECT mine.id AS run_id, mine.priority, mine.due_at, `
	return claimedPart{
		tally: claimed + `SELECT coalesce(max(n), 0), coalesce(sum(size), 0) FROM (SELECT count(*) AS n, sum(` + size + `) AS size FROM ` + from + ` GROUP BY mine.id)`,
		all:   claimed + `, z AS (SELECT 1 AS fits) SELECT s.run_id, z.fits, ` + columns + ` FROM z CROSS JOIN ` + from + ` ORDER BY s.run_id, s.` + at,
		fit: of + key + `, s.` + at + ` AS at, ` + size + ` AS size, row_number() OVER (PARTITION BY mine.id ORDER BY s.` + at + `) AS nth FROM ` + from + `)` +
			fitting(`priority DESC, due_at, run_id, at`, 0, `1000`, `?5`) +
			`SELECT s.run_id, z.fits, ` + columns + ` FROM fit z CROSS JOIN ` + table + ` s USING (run_id, ` + strings.ReplaceAll(key, "s.", "") + `)
		ORDER BY s.run_id, s.` + at,
	}
}

var (
	claimedParts  = claimed + `SELECT CASE WHEN EXISTS (SELECT 1 FROM mine WHERE parts<>0) THEN 1 ELSE json('none') END`
	claimedInputs = claimed + `SELECT mine.id, l.data FROM mine CROSS JOIN large_inputs l ON l.run_id=mine.id`
	claimedSteps  = newPart(`steps`, ``,
		`position`, `coalesce(length(s.output), 0)+coalesce(octet_length(s.failure), 0)`, `s.branch, s.name, s.occurrence`, stepColumnsIf)
	claimedState = newPart(`state`, ` AND s.key IN (SELECT x.key FROM state x WHERE x.run_id=mine.id ORDER BY x.key LIMIT 1001+0)`,
		`key`, `coalesce(length(s.value), 0)`, `s.key`, `s.key, iif(z.fits, s.value, NULL), s.version, s.updated_at`)
	claimedSignals = newPart(`signals`, ` AND s.consumed=0
			AND s.pos IN (SELECT x.pos FROM signals x WHERE x.run_id=mine.id AND x.consumed=0 ORDER BY x.pos LIMIT 1001+0)`,
		`pos`, `coalesce(length(s.payload), 0)`, `s.id`, `s.id, s.name, iif(z.fits, s.payload, NULL), s.sent_at, s.pos`)
	claimedGroups = claimed + `SELECT mine.id, g.name, g.total, g.open, g.completed, g.failed, g.canceled FROM mine CROSS JOIN groups g ON g.run_id=mine.id
			AND g.name IN (SELECT x.name FROM groups x WHERE x.run_id=mine.id ORDER BY x.name LIMIT 1001+0) ORDER BY mine.id, g.name`
	claimedAnySteps = claimed + `SELECT mine.id FROM mine WHERE EXISTS (SELECT 1 FROM steps s WHERE s.run_id=mine.id)`
)

// Claim implements store.Leases.
func (c *Core) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	g := giving{mine: p.Wanted() == 0 || !p.Now.IsZero()}
	for {
		out, gave, err := c.claim(ctx, p, &g)
		if !gave {
			return out, err
		}
	}
}

// giving says how a claim has given way.
type giving struct {
	mine  bool  // it need not
	times int   // how often it has
	plans int64 // the plans of the namespace at the last time
}

// claim claims, or gives way to another store and is to be called again, because it is later now.
func (c *Core) claim(ctx context.Context, p store.ClaimParams, g *giving) (out store.Claimed, gave bool, err error) {
	m, err := c.validAt(ctx, p.Validate(), p.Now)
	if err != nil {
		return out, false, err
	}
	out.Now = sqlkit.Micro(m.now)
	lanes := sqlkit.Lanes(&p)
	if len(lanes) == 0 {
		return out, false, nil
	}
	levels := []any{sqlkit.JSON(lanes), p.Namespace}
	peek, take, bare, next, clock := c.peek, c.take, c.bare, c.next, []any(nil)
	if m.set || c.config.ServerNow == "" {
		peek, take, bare, next, clock = claimPeek, claimRuns, claimBare, claimNext, []any{m.now}
	}
	// An idle poll only reads and never takes the write lock.
	later := int64(math.MaxInt64)
	if busy := c.busy.Load() && p.Wanted() > 0; !p.Again && (!busy || c.plans.Load()) {
		mine := c.way.Announced() || g.mine
		if busy && mine {
			err = c.limited(ctx, &p, m, &out)
			return out, false, err
		}
		look := Stmt{SQL: peek, Args: append(append(levels[:2:2], p.Worker), clock...)}
		if gave, err := c.lookAround(ctx, look, m, mine, g, &out, &later); err != nil || gave {
			return out, gave, err
		}
		if later <= out.Now.UnixMicro() {
			err = c.limited(ctx, &p, m, &out)
			return out, false, err
		}
		if out.NextDue.IsZero() || out.NextDue.After(out.Now) || p.Wanted() == 0 {
			return out, false, nil
		}
	}

	t := &taking{byID: map[store.ID]*sqlkit.Taken{}}
	until, stamp := m.after(p.LeaseFor), sqlkit.ClaimStamp(&p)
	mine := append(levels[:2:2], stamp, until)
	first, again := append(levels[:2:2], m.now, int64(p.Wanted()), stamp, p.Worker, until, p.Build), claimedAgain
	bytes := sqlkit.AtMost(cmp.Or(p.MaxBytes, store.DefaultClaimBytes))
	if p.Bare {
		take, again = bare, claimedBareAgain
	} else {
		first = append(first, bytes)
	}
	stmts := append([]Stmt{
		{SQL: take, Args: first, Rows: t.run},
		{SQL: next, Args: append(append(levels[:2:2], p.Worker, stamp), clock...), Rows: nextRow(&out, &later)},
		{SQL: claimedParts, Args: mine, Gate: true},
	}, t.replay(mine, bytes, p.Bare, c.config.InTurn)...)
	if p.Again {
		stmts[0].SQL, stmts[0].Args = again, append(mine[:4:4], int64(p.Wanted()), p.Worker)
		for i := range stmts {
			stmts[i].SQL = sought(stmts[i].SQL, p.LeaseFor)
		}
		err = c.read(ctx, stmts...)
	} else {
		err = c.runner.Write(ctx, stmts)
	}
	if err != nil {
		return store.Claimed{}, false, err
	}
	if later <= out.Now.UnixMicro() && len(t.runs) == 0 && !p.Again {
		err = c.limited(ctx, &p, m, &out)
		return out, false, err
	}
	c.busy.Store(len(t.runs) > 0 || p.Again)
	c.plans.Store(false)
	out.NextDue = earlier(out.NextDue, later)
	out.Runs = sqlkit.ClaimedRuns(&p, t.runs)
	return out, false, nil
}

// earlier returns the earlier of a time, unless it is zero, and another one in microseconds.
func earlier(t time.Time, later int64) time.Time {
	if later < math.MaxInt64 && (t.IsZero() || later < t.UnixMicro()) {
		return sqlkit.Micro(later)
	}
	return t
}

// peekRow reads the answer to claimPeek. free receives whether runs under no limit are due.
func peekRow(out *store.Claimed, later *int64, free *bool) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var at *int64
		err := scan(sqlkit.Time(&out.Now), &out.Asked, sqlkit.Time(&out.NextDue), &at)
		*later, *free = orNever(at), !out.NextDue.IsZero() && !out.NextDue.After(out.Now)
		out.NextDue = earlier(out.NextDue, *later)
		return err
	}
}

func orNever(at *int64) int64 {
	if at == nil {
		return math.MaxInt64
	}
	return *at
}

// nextRow reads the answer to claimNext. later receives when runs under limits may be claimable.
func nextRow(out *store.Claimed, later *int64) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var text string
		var soonest *int64
		if err := scan(sqlkit.Time(&out.Now), &out.Asked, sqlkit.Time(&out.NextDue), &text, &soonest); err != nil {
			return err
		}
		*later = orNever(soonest)
		var due []struct {
			Q  string `json:"q"`
			W  string `json:"w"`
			At int64  `json:"at"`
		}
		err := json.Unmarshal([]byte(text), &due)
		for _, l := range due {
			out.Waiting = store.Waits(out.Waiting, l.Q, l.W, sqlkit.Micro(l.At))
		}
		return err
	}
}

// taking collects the answer of a claim.
type taking struct {
	runs  []*sqlkit.Taken
	byID  map[store.ID]*sqlkit.Taken
	parts int64 // the parts that at least one of the runs has
}

func (t *taking) run(scan func(...any) error) error {
	r := &sqlkit.Taken{}
	var parts int64
	err := scanRun(scan, &r.Run, &parts, sqlkit.Time(&r.Due))
	t.runs, t.byID[r.Run.ID], t.parts = append(t.runs, r), r, t.parts|parts
	return err
}

// replay reads the parts of the claimed runs that at least one of them has.
func (t *taking) replay(mine []any, bytes int64, bare, inTurn bool) []Stmt {
	with := func(part int64, sql string, args []any, rows func(scan func(...any) error) error) Stmt {
		return Stmt{SQL: sql, Args: args, Rows: rows, Unneeded: func() bool { return t.parts&part == 0 }}
	}
	var id store.ID
	if bare {
		return []Stmt{with(sqlkit.PartSteps, claimedAnySteps, mine, func(scan func(...any) error) error {
			err := scan(sqlkit.ID(&id))
			t.byID[id].MoreSteps = true
			return err
		})}
	}
	var fits bool
	var stmts []Stmt
	// bounded reads a part, without sorting it if all of it is known to fit.
	bounded := func(part int64, sql *claimedPart, rows func(scan func(...any) error) error) {
		fit := with(part, sql.fit, append(mine[:4:4], bytes), rows)
		if inTurn {
			var n, size int64
			all := with(part, sql.all, mine, rows)
			all.Unneeded = func() bool { return n == 0 || n > store.MaxPage || size > bytes }
			fit.Unneeded = func() bool { return n == 0 || !all.Unneeded() }
			stmts = append(stmts, with(part, sql.tally, mine, sqlkit.One(&n, &size)), all)
		}
		stmts = append(stmts, fit)
	}
	stmts = append(stmts, with(sqlkit.PartLargeInput, claimedInputs, mine, func(scan func(...any) error) error {
		var data []byte
		err := scan(sqlkit.ID(&id), sqlkit.Blob(&data))
		t.byID[id].Run.Input = data
		return err
	}))
	bounded(sqlkit.PartSteps, &claimedSteps, func(scan func(...any) error) error {
		var s store.Step
		err := scanStep(scan, &s, sqlkit.ID(&id), &fits)
		r := t.byID[id]
		sqlkit.Keep(&r.Steps, &r.MoreSteps, s, fits)
		return err
	})
	bounded(sqlkit.PartState, &claimedState, func(scan func(...any) error) error {
		e, err := scanEntry(scan, sqlkit.ID(&id), &fits)
		in := &t.byID[id].Inbox
		sqlkit.Keep(&in.State, &in.MoreState, e, fits)
		return err
	})
	bounded(sqlkit.PartSignals, &claimedSignals, func(scan func(...any) error) error {
		s, err := scanSignal(scan, sqlkit.ID(&id), &fits)
		in := &t.byID[id].Inbox
		sqlkit.Keep(&in.Signals, &in.MoreSignals, s, fits)
		return err
	})
	return append(stmts, with(sqlkit.PartGroups, claimedGroups, mine, func(scan func(...any) error) error {
		g, err := sqlkit.ScanGroup(scan, sqlkit.ID(&id))
		in := &t.byID[id].Inbox
		sqlkit.Keep(&in.Groups, &in.MoreGroups, g, len(in.Groups) < store.MaxPage)
		return err
	}))
}

// lookAround looks whether there is work. If all there is are permits that ended, which another store may know
// of first, and mine is not set, it gives way, until nobody else plans.
func (c *Core) lookAround(ctx context.Context, peek Stmt, m moment, mine bool, g *giving, out *store.Claimed, later *int64) (gave bool, err error) {
	var free bool
	var plans int64
	peek.Rows = peekRow(out, later, &free)
	stmts := []Stmt{peek}
	if c.way.Known() {
		stmts = append(stmts, Stmt{SQL: planVersion, Args: peek.Args[1:2], Rows: sqlkit.One(&plans)})
	}
	from := time.Now()
	if err := c.look(ctx, stmts, m, out, later); err != nil {
		return false, err
	}
	if *later > parkFreed || free || mine || g.times == sqlkit.MaxWays || g.times > 0 && plans == g.plans {
		return false, nil
	}
	g.times, g.plans, g.mine = g.times+1, plans, c.way.Give(ctx, time.Since(from))
	c.stale.Store(true)
	return true, nil
}

// idle is the result of a look that found nothing. It is valid for other claims while the
// database's version is the same.
type idle struct {
	lanes, namespace string
	version          uint64
	next             time.Time
	later            int64
	asked            bool
	at               time.Time // of the look
}

// looks holds the last look of each worker of this process.
type looks struct {
	mu sync.Mutex
	by map[string]*idle
}

// manyLooks limits the number of looks that are kept.
const manyLooks = 64

func (l *looks) of(worker string) *idle {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[worker]
}

func (l *looks) keep(worker string, found *idle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil || len(l.by) >= manyLooks {
		l.by = make(map[string]*idle)
	}
	l.by[worker] = found
}

// trust is how long an unchanged version alone is enough to trust a look.
const trust = 30 * time.Second

// look finds when the next run of the lanes is due.
func (c *Core) look(ctx context.Context, peek []Stmt, m moment, out *store.Claimed, later *int64) error {
	if c.config.Version == nil {
		return c.read(ctx, peek...)
	}
	lanes, namespace, worker := peek[0].Args[0].(string), peek[0].Args[1].(string), peek[0].Args[2].(string)
	version, known := c.config.Seen(), c.idle.of(worker)
	if !c.stale.Swap(false) && known != nil && known.lanes == lanes && known.namespace == namespace && time.Since(known.at) < trust {
		v, now, err := c.config.Version(ctx)
		if err != nil {
			return err
		}
		if v != 0 && v == known.version {
			*later = known.later
			if out.NextDue, out.Asked = known.next, known.asked; !m.set {
				out.Now = now
			}
			return nil
		}
		version = v
	}
	// The version is read before the look, so that no change is missed between them.
	at := time.Now()
	if err := c.read(ctx, peek...); err != nil {
		return err
	}
	c.idle.keep(worker, &idle{lanes, namespace, version, out.NextDue, *later, out.Asked, at})
	return nil
}
