package sqlitecore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A lane is a queue and a workflow in it: the runs between which nothing but
// priority and time decides. d is the demand that it belongs to.
type lane struct {
	D int    `json:"d"`
	Q string `json:"q"`
	W string `json:"w"`
	N int    `json:"n"` // the demand's bound
}

// lanes lists the lanes of a claim; one that several demands name counts for
// the first of them.
func lanes(p *store.ClaimParams) []lane {
	seen := map[[2]string]bool{}
	var list []lane
	for d, demand := range p.Demands {
		for _, w := range demand.Workflows {
			if k := [2]string{demand.Queue, w}; !seen[k] {
				seen[k] = true
				list = append(list, lane{d, demand.Queue, w, demand.Max})
			}
		}
	}
	return list
}

// claimLevels are the distinct priorities in use in each lane that is not
// paused, each found by one seek in runs_claim below the one before. CROSS JOIN
// and the repeated index condition keep the planner to that. Parameters: ?1 the
// lanes, ?2 the namespace.
const claimLevels = `WITH RECURSIVE
	lane(d, queue, workflow, n) AS MATERIALIZED (
		SELECT j.value->>'d', j.value->>'q', j.value->>'w', j.value->>'n' FROM json_each(?1) j
		WHERE NOT EXISTS (SELECT 1 FROM paused WHERE namespace=?2 AND queue=j.value->>'q' AND workflow='')
		AND NOT EXISTS (SELECT 1 FROM paused WHERE namespace=?2 AND queue='' AND workflow=j.value->>'w')),
	level(d, queue, workflow, n, priority) AS (
		SELECT d, queue, workflow, n, (SELECT max(priority) FROM runs x WHERE x.namespace=?2 AND x.queue=lane.queue
			AND x.workflow=lane.workflow AND x.visible_at IS NOT NULL AND x.status<>4) FROM lane
		UNION ALL
		SELECT d, queue, workflow, n, (SELECT max(priority) FROM runs x WHERE x.namespace=?2 AND x.queue=level.queue
			AND x.workflow=level.workflow AND x.priority<level.priority AND x.visible_at IS NOT NULL AND x.status<>4)
		FROM level WHERE priority IS NOT NULL)`

// claimRuns: ?3 now, ?4 the bound over all, ?5 stamp, ?6 worker, ?7 end of lease. If
// the very request arrives twice, the second time finds what the first has taken.
var claimRuns = claimLevels + `,
	mine AS MATERIALIZED (SELECT r.id FROM level CROSS JOIN runs r
		WHERE r.namespace=?2 AND r.queue=level.queue AND r.workflow=level.workflow AND r.priority=level.priority
		AND r.visible_at=?7 AND r.visible_at IS NOT NULL AND r.status<>4 AND r.stamp=?5),
	due AS (
		SELECT r.id, r.priority, r.visible_at,
			row_number() OVER (PARTITION BY level.d ORDER BY r.priority DESC, r.visible_at, r.id) AS place, level.n
		FROM level CROSS JOIN runs r ON r.id IN (SELECT x.id FROM runs x
			WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow AND x.priority=level.priority
			AND x.visible_at<=?3 AND x.visible_at IS NOT NULL AND x.status<>4 ORDER BY x.visible_at, x.id LIMIT ?4+0)
		WHERE level.priority IS NOT NULL AND NOT EXISTS (SELECT 1 FROM mine))
	UPDATE runs SET status=CASE status WHEN 5 THEN 5 ELSE 2 END, epoch=epoch+(stamp<>?5), seq=0, stamp=?5, crashes=crashes+(leased AND stamp<>?5),
		worker=?6, leased=1, due_at=CASE WHEN stamp<>?5 THEN visible_at ELSE due_at END, visible_at=?7, started_at=coalesce(started_at, ?3)
	WHERE id IN (SELECT id FROM (SELECT id FROM due WHERE place<=n ORDER BY priority DESC, visible_at, id LIMIT ?4+0) UNION ALL SELECT id FROM mine)
	RETURNING ` + runColumns("input", "meta", "NULL") + `, parts, due_at`

// claimNext is the time, ?4, and the earliest one in the lanes, but for what bears
// stamp ?3.
const claimNext = claimLevels + `
	SELECT ?4, min((SELECT x.visible_at FROM runs x WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow
		AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>4 AND x.stamp<>?3 ORDER BY x.visible_at LIMIT 1))
	FROM level WHERE priority IS NOT NULL`

// claimPeek is claimNext over everything, with the time as ?3: it reads the index
// alone.
const claimPeek = claimLevels + `
	SELECT ?3, min((SELECT min(x.visible_at) FROM runs x WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow
		AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>4))
	FROM level WHERE priority IS NOT NULL`

// claimed finds again, by the index, what the claim with stamp ?3 and end of
// lease ?4 has taken.
const claimed = claimLevels + `,
	mine AS MATERIALIZED (SELECT r.id, r.priority, r.due_at, r.parts FROM level CROSS JOIN runs r
		WHERE r.namespace=?2 AND r.queue=level.queue AND r.workflow=level.workflow AND r.priority=level.priority
		AND r.visible_at=?4 AND r.visible_at IS NOT NULL AND r.status<>4 AND r.stamp=?3)
	`

// claimedAgain is what the claim itself has returned. Its answer was lost.
var claimedAgain = claimed + `SELECT ` + runColumns("input", "meta", "NULL") + `, parts, due_at FROM runs
	WHERE id IN (SELECT id FROM mine ORDER BY priority DESC, due_at, id LIMIT ?5+0) AND leased AND worker=?6`

// sought makes a statement over what a claim has taken look for leases of any end,
// up to ?4, that are not over.
func sought(sql string, leaseFor time.Duration) string {
	return strings.Replace(sql, "AND r.visible_at=?4", fmt.Sprintf("AND r.visible_at>?4-%d AND r.visible_at<=?4", span(leaseFor)), 1)
}

const (
	claimedParts  = claimed + `SELECT CASE WHEN EXISTS (SELECT 1 FROM mine WHERE parts<>0) THEN 1 ELSE json('none') END`
	claimedInputs = claimed + `SELECT mine.id, l.data FROM mine CROSS JOIN large_inputs l ON l.run_id=mine.id`
	// Which steps fit is decided on their lengths, so that what does not is never read.
	claimedSteps = claimed + `, sized AS MATERIALIZED (
			SELECT s.run_id, s.branch, s.name, s.occurrence,
				sum(coalesce(length(s.output), 0)) OVER (ORDER BY mine.priority DESC, mine.due_at, mine.id, s.position ROWS UNBOUNDED PRECEDING) AS total
			FROM mine CROSS JOIN steps s ON s.run_id=mine.id)
		SELECT s.run_id, ` + stepColumns + ` FROM sized z CROSS JOIN steps s USING (run_id, branch, name, occurrence)
		WHERE z.total<=?5 ORDER BY s.run_id, s.position`
	claimedStepCounts = claimed + `SELECT mine.id, count(*) FROM mine CROSS JOIN steps s ON s.run_id=mine.id GROUP BY mine.id`
	claimedState      = claimed + `SELECT mine.id, s.key, s.value, s.version, s.updated_at FROM mine CROSS JOIN state s ON s.run_id=mine.id ORDER BY mine.id, s.key`
	claimedGroups     = claimed + `SELECT mine.id, g.name, g.total, g.open, g.completed, g.failed, g.canceled FROM mine CROSS JOIN groups g ON g.run_id=mine.id ORDER BY mine.id, g.name`
	claimedSignals    = claimed + `SELECT mine.id, s.id, s.name, s.payload, s.sent_at FROM mine CROSS JOIN signals s ON s.run_id=mine.id AND s.consumed=0 ORDER BY mine.id, s.pos`
)

// Claim implements store.Leases.
func (c *Core) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	var out store.Claimed
	if err := p.Validate(); err != nil {
		return out, err
	}
	m, err := c.moment(ctx, p.Now)
	if err != nil {
		return out, err
	}
	out.Now = micro(m.now)
	list := lanes(&p)
	if len(list) == 0 {
		return out, nil
	}
	levels := []any{jsonText(list), p.Namespace}
	peek, take, next, clock := c.peek, c.take, c.next, []any(nil)
	if m.set || c.config.ServerNow == "" {
		peek, take, next, clock = claimPeek, claimRuns, claimNext, []any{m.now}
	}
	// An idle poll reads and never takes the write lock.
	if !p.Again && (!c.busy.Load() || p.Wanted() == 0) {
		look := Stmt{SQL: peek, Args: append(levels[:2:2], clock...), Rows: one(scanTime{&out.Now}, scanTime{&out.NextDue})}
		if err := c.look(ctx, look, m, &out); err != nil {
			return out, err
		}
		if out.NextDue.IsZero() || out.NextDue.After(out.Now) || p.Wanted() == 0 {
			return out, nil
		}
	}

	type taken struct {
		store.ClaimedRun
		parts int64
		due   time.Time
	}
	var (
		runs  []*taken
		byID  = map[store.ID]*taken{}
		parts int64
		until = m.after(p.LeaseFor)
		stamp = cmp.Or(p.ClaimID, newStamp())
		mine  = append(levels[:2:2], stamp, until)
		bytes = int64(cmp.Or(p.MaxBytes, store.DefaultClaimBytes))
		count = map[store.ID]int64{}
	)
	// with asks for one part of the claimed runs, if any has it.
	with := func(part int64, sql string, args []any, rows func(scan func(...any) error) error) Stmt {
		return Stmt{SQL: sql, Args: args, Rows: rows, Unneeded: func() bool { return parts&part == 0 }}
	}
	stmts := []Stmt{
		{SQL: take, Args: append(levels[:2:2], m.now, int64(p.Wanted()), stamp, p.Worker, until), Rows: func(scan func(...any) error) error {
			t := &taken{}
			err := scanRun(scan, &t.Run, &t.parts, scanTime{&t.due})
			runs, byID[t.Run.ID], parts = append(runs, t), t, parts|t.parts
			return err
		}},
		{SQL: next, Args: append(append(levels[:2:2], stamp), clock...), Rows: one(scanTime{&out.Now}, scanTime{&out.NextDue})},
		{SQL: claimedParts, Args: mine, Gate: true},
		with(partLargeInput, claimedInputs, mine, func(scan func(...any) error) error {
			var id store.ID
			var data []byte
			err := scan(scanID{&id}, scanBlob{&data})
			byID[id].Run.Input = data
			return err
		}),
		with(partSteps, claimedSteps, append(mine[:4:4], bytes), func(scan func(...any) error) error {
			var id store.ID
			var s store.Step
			err := scan(append([]any{scanID{&id}}, stepDest(&s)...)...)
			byID[id].Steps = append(byID[id].Steps, s)
			return err
		}),
		with(partSteps, claimedStepCounts, mine, func(scan func(...any) error) error {
			var id store.ID
			var n int64
			err := scan(scanID{&id}, &n)
			count[id] = n
			return err
		}),
		with(partState, claimedState, mine, func(scan func(...any) error) error {
			var id store.ID
			e, err := scanEntry(scan, scanID{&id})
			byID[id].Inbox.State = append(byID[id].Inbox.State, e)
			return err
		}),
		with(partGroups, claimedGroups, mine, func(scan func(...any) error) error {
			var id store.ID
			g, err := scanGroup(scan, scanID{&id})
			byID[id].Inbox.Groups = append(byID[id].Inbox.Groups, g)
			return err
		}),
		with(partSignals, claimedSignals, mine, func(scan func(...any) error) error {
			var id store.ID
			s, err := scanSignal(scan, scanID{&id})
			if in := &byID[id].Inbox; len(in.Signals) < store.MaxPage {
				in.Signals = append(in.Signals, s)
			}
			return err
		}),
	}
	if p.Again {
		stmts[0].SQL, stmts[0].Args = claimedAgain, append(mine[:4:4], int64(p.Wanted()), p.Worker)
		for i := range stmts {
			stmts[i].SQL = sought(stmts[i].SQL, p.LeaseFor)
		}
		err = c.read(ctx, stmts...)
	} else {
		err = c.runner.Write(ctx, stmts)
	}
	if err != nil {
		return store.Claimed{}, err
	}
	c.busy.Store(len(runs) > 0 || p.Again)
	slices.SortFunc(runs, func(a, b *taken) int {
		return cmp.Or(cmp.Compare(b.Run.Priority, a.Run.Priority), a.due.Compare(b.due), slices.Compare(a.Run.ID[:], b.Run.ID[:]))
	})
	out.Runs = make([]store.ClaimedRun, len(runs))
	for i, t := range runs {
		t.Lease = store.Lease{Run: t.Run.ID, Worker: p.Worker, Epoch: t.Run.Epoch}
		t.Recovered = t.Run.Crashes > 0
		t.MoreSteps = count[t.Run.ID] > int64(len(t.Steps))
		t.Inbox.Status, t.Inbox.Events = t.Run.Status, t.Run.Events
		out.Runs[i] = t.ClaimedRun
	}
	return out, nil
}

// idle is what a look has found: for as long as the database's version is the
// same, another would find it, too.
type idle struct {
	lanes, namespace string
	version          uint64
	next             time.Time
	at               time.Time // of the look
}

// trust is how long a look is held to be good by the version alone.
const trust = 30 * time.Second

// look finds out when the next run of the lanes is due.
func (c *Core) look(ctx context.Context, peek Stmt, m moment, out *store.Claimed) error {
	if c.config.Version == nil {
		return c.read(ctx, peek)
	}
	lanes, namespace := peek.Args[0].(string), peek.Args[1].(string)
	version, known := c.config.Seen(), c.idle.Load()
	if !c.stale.Swap(false) && known != nil && known.lanes == lanes && known.namespace == namespace && time.Since(known.at) < trust {
		v, now, err := c.config.Version(ctx)
		if err != nil {
			return err
		}
		if v != 0 && v == known.version {
			if out.NextDue = known.next; !m.set {
				out.Now = now
			}
			return nil
		}
		version = v
	}
	// The version is from before the look, so that no change falls between them.
	at := time.Now()
	if err := c.read(ctx, peek); err != nil {
		return err
	}
	c.idle.Store(&idle{lanes, namespace, version, out.NextDue, at})
	return nil
}

// one reads a single row.
func one(dest ...any) func(func(...any) error) error {
	return func(scan func(...any) error) error { return scan(dest...) }
}
