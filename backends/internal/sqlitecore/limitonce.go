package sqlitecore

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A claim at once takes runs under limits with one write and without a plan. It takes the first due runs, those under
// limits and the others, if the limits permit all of them. If all due runs are under the same limits and keys, it takes as
// many as these permit. Otherwise it takes none, and a plan decides, as it does if a flow of its lanes is parked, if a
// limit is fair or a rate, if a step needs permits, if many runs wait in many flows, or if other queues have to be told of permits.

// onceFlows is the largest number of flows with rows that a claim at once reads, because it reads as many runs of each as it
// may take.
const onceFlows = 4

// onceFresh is the largest number of fresh runs in a namespace with which a claim is made at once. Where there are more, many
// keys have runs, and a plan reads them without holding up writes.
const onceFresh = 32

// onceRows contains the flows with rows of the lanes, as far as a claim at once reads them.
var onceRows = sqlkit.Text(`,
	flows AS MATERIALIZED (SELECT f.id, f.queue, f.workflow, f.pin, f.priority, f.flow, f.state, f.fair, f.head_at, lane.d, lane.n FROM lane CROSS JOIN limit_flows f INDEXED BY limit_flows_flow
		ON f.namespace=?2 AND f.queue=lane.queue AND f.workflow=lane.workflow AND f.pin=lane.pin LIMIT ` + strconv.Itoa(onceFlows+1) + `)`)

// keyRule is the rule of a limit, l.
const keyRule = `coalesce(l.set_rule, l.rule)`

// onceDue selects the runs to be taken, given the size of a run, r: parameters of claimRuns.
func onceDue(size string) string {
	return sqlkit.Text(claimLevels + freshTable + onceRows + `,
	mine AS MATERIALIZED (SELECT r.id FROM level CROSS JOIN runs r
		WHERE r.namespace=?2 AND r.queue=level.queue AND r.workflow=level.workflow AND r.pin=level.pin AND r.priority=level.priority
		AND r.visible_at=?7 AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=0 AND r.stamp=?5),
	plain(yes) AS MATERIALIZED (SELECT NOT EXISTS (SELECT 1 FROM mine) AND NOT EXISTS (SELECT 1 FROM limit_parks WHERE namespace=?2 AND wake_at=-1)
		AND (SELECT count(*) FROM flows)<=` + strconv.Itoa(onceFlows) + `
		AND (SELECT count(*) FROM (SELECT 1 FROM runs WHERE namespace=?2 AND fresh=1 LIMIT ` + strconv.Itoa(onceFresh+1) + `))<=` + strconv.Itoa(onceFresh) + `
		AND NOT EXISTS (SELECT 1 FROM flows WHERE fair<>'' OR state=2 OR substr(flow, -6)<>',[],0]')),
	due AS (
		SELECT r.id, r.priority, r.visible_at, level.d, level.n, iif(r.under IS NULL, '[]', NULL) AS under
		FROM level CROSS JOIN runs r ON r.id IN (SELECT x.id FROM runs x
			WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow AND x.pin=level.pin AND x.priority=level.priority
			AND x.visible_at<=?3 AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0 ORDER BY x.visible_at, x.id LIMIT ?4+0)
		WHERE level.priority IS NOT NULL
		UNION ALL SELECT r.id, r.priority, r.visible_at, fresh.d, fresh.n, r.under
		FROM fresh CROSS JOIN runs r ON r.id IN (SELECT x.id FROM runs x WHERE x.namespace=?2 AND x.queue=fresh.queue AND x.workflow=fresh.workflow AND x.pin=fresh.pin
			AND x.priority=fresh.priority AND x.fresh=1 AND x.visible_at<=?3 ORDER BY x.visible_at, x.id LIMIT ?4+0)
		WHERE fresh.priority IS NOT NULL
		UNION ALL SELECT r.id, r.priority, r.visible_at, flows.d, flows.n, r.under
		FROM flows CROSS JOIN runs r ON r.id IN (SELECT x.id FROM runs x INDEXED BY runs_flow WHERE x.namespace=?2 AND x.queue=flows.queue AND x.workflow=flows.workflow AND x.pin=flows.pin
			AND x.priority=flows.priority AND x.flow=flows.flow AND x.visible_at<=?3 AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=1 ORDER BY x.visible_at, x.id LIMIT ?4+0)),
	placed AS (SELECT *, row_number() OVER (PARTITION BY d ORDER BY priority DESC, visible_at, id) AS place, min(under) OVER ()=max(under) OVER () AS alike FROM due),
	wanted AS (SELECT * FROM placed WHERE place<=n ORDER BY priority DESC, visible_at, id LIMIT ?4+0),
	list AS (SELECT json_group_array(hex(w.id)) AS ids, json_group_array(w.under) AS unders, min(w.alike) AS alike,
		(SELECT yes FROM plain) AND NOT max(w.under IS NULL) AND sum(` + size + `)<=?9 AS good FROM wanted w CROSS JOIN runs r ON r.id=w.id),
	room AS MATERIALIZED (SELECT ids, CASE WHEN good THEN (SELECT CASE WHEN max(n>left) THEN iif(alike, min(left), 0) ELSE ?4+0 END FROM (
			SELECT u.n, iif(` + keyRule + `->>'t'>0, 0, max(0, ` + keyRule + `->>'c'-coalesce(k.held, 0))) AS left
			FROM (SELECT e.value->>0 AS name, e.value->>1 AS key, sum(same.n) AS n FROM (SELECT value, count(*) AS n FROM json_each(list.unders) GROUP BY 1) same CROSS JOIN json_each(same.value) e GROUP BY 1, 2) u
			CROSS JOIN limits l ON l.namespace=?2 AND l.name=u.name LEFT JOIN limit_keys k ON k.namespace=?2 AND k.name=u.name AND k.key=u.key)) ELSE 0 END AS n FROM list)`)
}

var (
	// onceTake takes the runs, with the parameters of claimRuns.
	onceTake = lines.Replace(onceDue(inputLength+`+`+metaLength+`+`+failureLength)+onceSet) + claimColumns
	onceBare = lines.Replace(onceDue(`0`)+onceSet) + bareColumns + `, parts, due_at`
	onceSet  = strings.Replace(claimSet, `leased=1,`, `leased=1, limited=0, fresh=0, drawn=under IS NOT NULL,`, 1) + `(SELECT unhex(i.value) FROM room CROSS JOIN json_each(room.ids) i WHERE i.key<room.n) RETURNING `

	// onceAgain reads the runs that the same request has taken before, if onceTake has changed nothing.
	onceAgain     = claimed + `SELECT ` + claimColumns + onceFound
	onceAgainBare = claimed + `SELECT ` + bareColumns + `, parts, due_at` + onceFound
	onceFound     = ` FROM runs WHERE (SELECT changes())=0 AND id IN (SELECT id FROM mine)`
	// onceSome fails if there are none.
	onceSome = claimed + `SELECT CASE WHEN EXISTS (SELECT 1 FROM mine) THEN 1 ELSE json('none') END`

	// oncePlan follows onceTake and tells the plans of others that permits were taken: ?1 namespace, ?2 a stamp.
	oncePlan = `INSERT INTO limit_plans (namespace, version, stamp) SELECT ?1, 1, ?2 WHERE changes()>0
		ON CONFLICT DO UPDATE SET version=version+1, stamp=excluded.stamp`
	// onceKeys follows oncePlan and counts the permits. Parameters of claimed.
	onceKeys = claimed + `INSERT INTO limit_keys (namespace, name, key, held) SELECT ?2, u.value->>0, u.value->>1, sum(n)
		FROM (SELECT r.under, count(*) AS n FROM mine CROSS JOIN runs r ON r.id=mine.id GROUP BY 1) lists CROSS JOIN json_each(lists.under) u WHERE changes()>0 GROUP BY 2, 3 ON CONFLICT DO UPDATE SET held=held+excluded.held`
	// onceGone and onceHeads correct the flows of which runs are taken: ?1 the lanes, ?2 namespace.
	onceGone  = laneTable + onceRows + ` DELETE FROM limit_flows AS f WHERE id IN (SELECT id FROM flows) AND NOT EXISTS (SELECT 1 FROM ` + runsOfFlow + `)`
	onceHeads = laneTable + onceRows + ` UPDATE limit_flows AS f SET (head_at, head_id)=(SELECT r.visible_at, r.id FROM ` + runsOfFlow + ` ORDER BY r.visible_at, r.id LIMIT 1)
		WHERE id IN (SELECT id FROM flows) AND EXISTS (SELECT 1 FROM ` + runsOfFlow + `)`
	// onceNext is claimNext without the runs that wait under limits.
	onceNext = strings.Replace(claimNext, soon, `NULL`, 1)
	// onceRest returns the lanes of the runs that wait under limits, with whether these permit one of them, and the
	// earliest time of those. Of the fresh runs of a list it looks at 20, and counts the last of these as permitted. ?1 the
	// lanes, ?2 namespace.
	onceRest = laneTable + freshTable + onceRows + `,
	early(queue, workflow, at, open, nth) AS (SELECT x.queue, x.workflow, x.visible_at, NOT ` + onceFull(`x.under`) + `, row_number() OVER (PARTITION BY x.queue, x.workflow, x.pin, x.priority ORDER BY x.visible_at)
		FROM fresh CROSS JOIN runs x ON x.id IN (SELECT r.id FROM runs r WHERE r.namespace=?2 AND r.queue=fresh.queue AND r.workflow=fresh.workflow AND r.pin=fresh.pin AND r.priority=fresh.priority
			AND r.fresh=1 ORDER BY r.visible_at, r.id LIMIT 20) WHERE fresh.priority IS NOT NULL),
	rest(queue, workflow, at, open) AS (
		SELECT queue, workflow, head_at, NOT ` + onceFull(`json_extract(flow, '$[0]')`) + ` FROM flows
		UNION ALL SELECT queue, workflow, at, open OR nth=20 FROM early)
	SELECT queue, workflow, open, min(at) FROM rest WHERE at IS NOT NULL GROUP BY 1, 2, 3`
)

// onceFull says whether a key of a list, in JSON, permits no more.
func onceFull(list string) string {
	return `EXISTS (SELECT 1 FROM json_each(` + list + `) u CROSS JOIN limits l ON l.namespace=?2 AND l.name=u.value->>0
			CROSS JOIN limit_keys k ON k.namespace=?2 AND k.name=l.name AND k.key=u.value->>1 WHERE k.held>=` + keyRule + `->>'c')`
}

// attempts says when to try a claim at once in a namespace. After a try that failed, a number of claims plan without trying:
// one, and after each further failure twice as many and one.
type attempts struct{ skip, skipped, failures int }

const (
	maxSkips      = 63   // claims that plan without trying
	maxNamespaces = 1024 // whose attempts are remembered
)

// attempts returns those of a namespace. The caller holds planning.
func (c *Core) attempts(namespace string) *attempts {
	a := c.once[namespace]
	if a == nil {
		if len(c.once) >= maxNamespaces {
			clear(c.once)
		}
		a = &attempts{}
		c.once[namespace] = a
	}
	return a
}

// due reports whether to try.
func (a *attempts) due() bool {
	if a.skipped < a.skip {
		a.skipped++
		return false
	}
	a.skipped = 0
	return true
}

func (a *attempts) succeeded() { *a = attempts{} }

// failed notes that limits held runs back.
func (a *attempts) failed() {
	a.skip = min(2*a.skip+1, maxSkips)
	a.failures++
}

// spared notes that a plan has parked nothing for the sake of the next claim, which is to try. If that was in vain, the
// next plan that does so changes nothing.
func (a *attempts) spared() {
	if a.failures <= 1 {
		a.skipped = a.skip
	}
}

// atOnce claims at once. If it takes no run, a plan has to decide.
func (l *limitedClaim) atOnce(ctx context.Context) error {
	t := &taking{byID: map[store.ID]*sqlkit.Taken{}}
	take, again := onceTake, onceAgain
	if l.Bare {
		take, again = onceBare, onceAgainBare
	}
	lanes := sqlkit.JSON(l.lanes)
	mine := []any{lanes, l.Namespace, l.stamp, l.until}
	reply := *l.out
	fresh := true // onceTake took the runs
	held := false // limits hold others back
	none := func() bool { return len(t.runs) == 0 }
	counted := func() bool { return none() || !fresh }
	stmts := append([]Stmt{
		{SQL: take, Args: []any{lanes, l.Namespace, l.now, int64(l.left), l.stamp, l.Worker, l.until, l.Build, l.bytes}, Rows: t.run},
		{SQL: again, Args: mine, Unneeded: func() bool { return !none() }, Rows: func(scan func(...any) error) error {
			fresh = false
			return t.run(scan)
		}},
		{SQL: onceSome, Args: mine, Gate: true},
		{SQL: oncePlan, Args: []any{l.Namespace, sqlkit.NewStamp()}, Unneeded: counted},
		{SQL: onceKeys, Args: mine, Unneeded: counted},
		{SQL: onceGone, Args: mine[:2], Unneeded: counted},
		{SQL: onceHeads, Args: mine[:2], Unneeded: counted},
		l.nextBy(onceNext, l.core.nextOnce, &reply),
		{SQL: onceRest, Args: mine[:2], Rows: l.restRow(&reply, &held), Unneeded: none},
		{SQL: claimedParts, Args: mine, Gate: true},
	}, t.replay(mine, l.bytes, l.Bare, l.core.config.InTurn)...)
	if err := l.core.runner.Write(ctx, stmts); err != nil || none() {
		return err
	}
	*l.out = reply
	l.took(t.runs)
	if held {
		for _, r := range t.runs {
			for _, u := range r.Run.Under {
				l.core.permits.Wait(u.Limit, u.Key)
			}
		}
	}
	return nil
}

// restRow reads what is left under limits. held receives whether limits hold some of it back.
func (l *limitedClaim) restRow(out *store.Claimed, held *bool) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var queue, workflow string
		var open bool
		var at int64
		err := scan(&queue, &workflow, &open, &at)
		switch {
		case !open:
			*held = *held || at <= l.now
			return err
		case at <= l.now && l.Wanted() > 0:
			out.Waiting = store.Waits(out.Waiting, queue, workflow, sqlkit.Micro(at))
		}
		out.NextDue = earlier(out.NextDue, at)
		return err
	}
}
