package sqlitecore

import (
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
)

// flowLanes finds the flows that a plan looks at. Of the candidates of a lane, those under no fair limit
// are read by priority and then by their first run, those of each fair limit by turn. Parked flows are read
// where their key may permit more: limit_parks says so. Each list begins with one seek.
//
// Parameters: ?1 the lanes, ?2 the namespace, ?3 now, ?4 how many flows of each list, ?5 how many runs over
// all flows, ?6 how many runs of a flow, ?7 how many parks, and flows that were not due before.
var flowLanes = sqlkit.Text(laneTable + `,
	level(queue, workflow, pin, priority) AS (
		SELECT queue, workflow, pin, (SELECT max(f.priority) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=lane.queue AND f.workflow=lane.workflow AND f.pin=lane.pin
			AND f.fair='' AND f.turn=0 AND f.fair_key='' AND f.state=0) FROM lane
		UNION ALL SELECT queue, workflow, pin, (SELECT max(f.priority) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=level.queue AND f.workflow=level.workflow AND f.pin=level.pin
			AND f.fair='' AND f.turn=0 AND f.fair_key='' AND f.priority<level.priority AND f.state=0) FROM level WHERE priority IS NOT NULL),
	turns(queue, workflow, pin, fair) AS (
		SELECT queue, workflow, pin, (SELECT min(f.fair) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=lane.queue AND f.workflow=lane.workflow AND f.pin=lane.pin
			AND f.fair>'' AND f.state=0) FROM lane
		UNION ALL SELECT queue, workflow, pin, (SELECT min(f.fair) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=turns.queue AND f.workflow=turns.workflow AND f.pin=turns.pin
			AND f.fair>turns.fair AND f.state=0) FROM turns WHERE fair IS NOT NULL),
	awake(name, key, tokens, queue, workflow, pin) AS MATERIALIZED (
		SELECT p.name, p.key, p.tokens, p.queue, p.workflow, p.pin FROM lane CROSS JOIN limit_parks p ON p.namespace=?2 AND p.queue=lane.queue AND p.workflow=lane.workflow AND p.pin=lane.pin
			AND p.wake_at IS NOT NULL AND p.wake_at<=?3 LIMIT ?7+0),
	each(n) AS MATERIALIZED (SELECT max(2, min(?4, 200/(1+count(*)))) FROM awake),
	cand(id) AS MATERIALIZED (
		SELECT f.id FROM level CROSS JOIN limit_flows f ON f.id IN (SELECT x.id FROM limit_flows x WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow AND x.pin=level.pin
			AND x.fair='' AND x.turn=0 AND x.fair_key='' AND x.priority=level.priority AND x.head_at<=?3 AND x.state=0 ORDER BY x.head_at, x.head_id LIMIT ?4+0)
			WHERE level.priority IS NOT NULL
		UNION ALL SELECT f.id FROM turns CROSS JOIN limit_flows f ON f.id IN (SELECT x.id FROM limit_flows x WHERE x.namespace=?2 AND x.queue=turns.queue AND x.workflow=turns.workflow
			AND x.pin=turns.pin AND x.fair=turns.fair AND x.state=0 ORDER BY x.turn, x.fair_key LIMIT ?4+0) WHERE turns.fair IS NOT NULL
		UNION ALL SELECT f.id FROM lane CROSS JOIN limit_flows f ON f.id IN (SELECT x.id FROM limit_flows x WHERE x.namespace=?2 AND x.queue=lane.queue AND x.workflow=lane.workflow
			AND x.pin=lane.pin AND x.head_at<=?3 AND x.state=1 ORDER BY x.head_at LIMIT ?7+0)
		UNION ALL SELECT f.id FROM awake a CROSS JOIN limit_flows f ON f.id IN (SELECT x.id FROM limit_flows x WHERE x.namespace=?2 AND x.park_name=a.name AND x.park_key=a.key
			AND x.park_tokens=a.tokens AND x.queue=a.queue AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair='' AND x.turn=0 AND x.fair_key=''
			ORDER BY x.priority DESC, x.head_at, x.head_id LIMIT (SELECT n FROM each))
		UNION ALL SELECT f.id FROM awake a CROSS JOIN limit_flows f ON f.id IN (SELECT x.id FROM limit_flows x WHERE x.namespace=?2 AND x.park_name=a.name AND x.park_key=a.key
			AND x.park_tokens=a.tokens AND x.queue=a.queue AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair>''
			ORDER BY x.fair, x.turn, x.fair_key, x.priority DESC, x.head_at, x.head_id LIMIT (SELECT n FROM each)))`)

var (
	// planFlows returns the flows with their first due runs, and with what is known of their keys.
	planFlows     = flowsWith(inputLength + `+` + metaLength + `+` + failureLength)
	planFlowsBare = flowsWith(`0`)

	// planFresh returns the first fresh runs that are due, in no order, with what is known of their keys: ?1 to ?4.
	planFresh     = freshWith(inputLength + `+` + metaLength + `+` + failureLength)
	planFreshBare = freshWith(`0`)

	// planParks returns the parks that the plan looks at.
	planParks = flowLanes + ` SELECT name, key, tokens, queue, workflow, pin, (SELECT n FROM each) FROM awake`

	// planBegin returns the version of the plans, and whether there are flows with rows, or parks: ?1 namespace. planRows
	// fails if there are none.
	planVersion = `SELECT coalesce((SELECT version FROM limit_plans WHERE namespace=?1), 0)`
	planBegin   = planVersion + `, ` + someRows
	planRows    = `SELECT CASE WHEN ` + someRows + ` THEN 1 ELSE json('none') END`
	someRows    = `EXISTS (SELECT 1 FROM limit_flows WHERE namespace=?1) OR EXISTS (SELECT 1 FROM limit_parks WHERE namespace=?1)`

	planRules = `SELECT name, coalesce(set_rule, rule), clock FROM limits WHERE namespace=?1`

	// planFree selects the runs that need no permit: ?1 to ?3, ?4 how many.
	planFree     = freeWith(inputLength + `+` + metaLength + `+` + failureLength)
	planFreeBare = freeWith(`0`)
)

func flowsWith(size string) string {
	return flowLanes + sqlkit.Text(`,
	per(n) AS MATERIALIZED (SELECT max(2, min(?6, ?5/max(1, count(*)))) FROM cand)
	SELECT f.id, f.queue, f.workflow, f.pin, f.priority, f.flow, f.head_at, f.head_id, f.fair, f.fair_key, f.turn, f.state, f.park_name, f.park_key, f.park_tokens, (SELECT n FROM per),
		(SELECT json_group_array(json_array(hex(h.id), h.visible_at, h.size)) FROM (SELECT r.id, r.visible_at, `+size+` AS size FROM runs r INDEXED BY runs_flow
			WHERE r.namespace=?2 AND r.queue=f.queue AND r.workflow=f.workflow AND r.pin=f.pin AND r.priority=f.priority AND r.flow=f.flow
			AND r.visible_at<=?3 AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=1 ORDER BY r.visible_at, r.id LIMIT (SELECT n+1 FROM per)) h),
		(SELECT json_group_array(json_array(k.name, k.key, k.held, k.tat, k.vtime, k.weight)) FROM (SELECT value->>0 AS name, value->>1 AS key FROM json_each(f.flow, '$[0]')
			UNION ALL SELECT value->>0, value->>1 FROM json_each(f.flow, '$[1]')) u CROSS JOIN limit_keys k ON k.namespace=?2 AND k.name=u.name AND k.key=u.key)
	FROM limit_flows f WHERE f.id IN (SELECT id FROM cand)`)
}

func freshWith(size string) string {
	return laneTable + freshTable + `
	SELECT r.id, r.queue, r.workflow, r.pin, r.priority, r.under, r.visible_at, ` + size + `,
		(SELECT json_group_array(json_array(k.name, k.key, k.held, k.tat, k.vtime, k.weight)) FROM json_each(r.under) u
			CROSS JOIN limit_keys k ON k.namespace=?2 AND k.name=u.value->>0 AND k.key=u.value->>1)
	FROM fresh CROSS JOIN runs r ON r.id IN (SELECT x.id FROM runs x WHERE x.namespace=?2 AND x.queue=fresh.queue AND x.workflow=fresh.workflow AND x.pin=fresh.pin
		AND x.priority=fresh.priority AND x.fresh=1 AND x.visible_at<=?3 ORDER BY x.visible_at, x.id LIMIT ?4+0) WHERE fresh.priority IS NOT NULL`
}

func freeWith(size string) string {
	return sqlkit.Text(claimLevels + `,
	due AS (
		SELECT r.id, r.priority, r.visible_at, level.d, level.queue, level.workflow,
			row_number() OVER (PARTITION BY level.d ORDER BY r.priority DESC, r.visible_at, r.id) AS place, level.n
		FROM level CROSS JOIN runs r ON r.id IN (SELECT x.id FROM runs x
			WHERE x.namespace=?2 AND x.queue=level.queue AND x.workflow=level.workflow AND x.pin=level.pin AND x.priority=level.priority
			AND x.visible_at<=?3 AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0 ORDER BY x.visible_at, x.id LIMIT ?4+0)
		WHERE level.priority IS NOT NULL),
	wanted AS MATERIALIZED (SELECT * FROM due WHERE place<=n ORDER BY priority DESC, visible_at, id LIMIT ?4+0)
	SELECT w.id, w.priority, w.visible_at, w.d, w.queue, w.workflow, ` + size + ` FROM wanted w CROSS JOIN runs r ON r.id=w.id ORDER BY w.priority DESC, w.visible_at, w.id`)
}

// runsOfFlow are the runs, r, that wait in a flow, f.
var runsOfFlow = sqlkit.Text(`runs r INDEXED BY runs_flow WHERE r.namespace=f.namespace AND r.queue=f.queue AND r.workflow=f.workflow AND r.pin=f.pin AND r.priority=f.priority
	AND r.flow=f.flow AND r.visible_at IS NOT NULL AND r.status<>{paused} AND r.limited=1`)

// A plan is applied by a list of statements, of which the first decides: nobody else has applied a plan in
// the namespace since this one was made, and the runs that need permits are as they were. What came between
// otherwise only gives room back.
var (
	// planGuard: ?1 namespace, ?2 stamp of the plan, ?3 version, ?4 runs that need permits, with their times and whether they are fresh, ?5 how many.
	planGuard = sqlkit.Text(`INSERT INTO limit_plans (namespace, version, stamp) SELECT ?1, 1, ?2 WHERE ?5=(SELECT count(*) FROM json_each(?4) j CROSS JOIN runs r ON r.id=unhex(j.value->>0)
		WHERE r.namespace=?1 AND r.visible_at=j.value->>1 AND r.fresh=j.value->>2 AND r.limited=1 AND r.status<>{paused} AND NOT EXISTS (SELECT 1 FROM paused p WHERE p.namespace=?1
			AND (p.queue=r.queue AND p.workflow='' OR p.queue='' AND p.workflow=r.workflow)))
		ON CONFLICT DO UPDATE SET version=version+1, stamp=excluded.stamp WHERE version=?3`)
	// planned says whether the plan was applied: ?1 namespace, ?2 its stamp, ?3 the version before.
	planned     = ` EXISTS (SELECT 1 FROM limit_plans WHERE namespace=?1 AND stamp=?2 AND version=?3+1)`
	planApplied = `SELECT` + planned

	// planLease takes the runs: parameters of claimSet, ?1 namespace, ?2 the ids, ?4 the version before, ?9 the stamp of the plan.
	planLease = sqlkit.Text(claimSet + `(SELECT unhex(value) FROM json_each(?2)) AND (stamp=?5 AND visible_at=?7 OR visible_at<=?3 AND visible_at IS NOT NULL AND status<>{paused}
			AND EXISTS (SELECT 1 FROM limit_plans WHERE namespace=?1 AND stamp=?9 AND version=?4+1) AND NOT EXISTS (SELECT 1 FROM paused p WHERE p.namespace=?1
			AND (p.queue=runs.queue AND p.workflow='' OR p.queue='' AND p.workflow=runs.workflow)))
	RETURNING `)
	planTake = strings.Replace(planLease, `leased=1,`, `leased=1, limited=0, fresh=0, drawn=under IS NOT NULL,`, 1)

	// The rest: ?4 is a list. planKeys counts the permits.
	planKeys = `INSERT INTO limit_keys (namespace, name, key, held, tat, vtime) SELECT ?1, j.value->>0, j.value->>1, j.value->>2, j.value->>3, j.value->>4 FROM json_each(?4) j
		WHERE` + planned + ` ON CONFLICT DO UPDATE SET held=held+excluded.held, tat=excluded.tat, vtime=excluded.vtime`
	// planGone and planHeads correct the flows of which runs are taken.
	planGone  = `DELETE FROM limit_flows AS f WHERE id IN (SELECT value FROM json_each(?4)) AND` + planned + ` AND NOT EXISTS (SELECT 1 FROM ` + runsOfFlow + `)`
	planHeads = `UPDATE limit_flows AS f SET (head_at, head_id)=(SELECT r.visible_at, r.id FROM ` + runsOfFlow + ` ORDER BY r.visible_at, r.id LIMIT 1)
		WHERE id IN (SELECT value FROM json_each(?4)) AND` + planned
	planClocks = `UPDATE limits SET clock=j.value->>1 FROM json_each(?4) j WHERE limits.namespace=?1 AND limits.name=j.value->>0 AND` + planned
	// planTurns follows planKeys.
	planTurns = `UPDATE limit_flows SET turn=(SELECT vtime FROM limit_keys k WHERE k.namespace=?1 AND k.name=fair AND k.key=fair_key) WHERE id IN (SELECT f.id FROM json_each(?4) j
		CROSS JOIN limit_flows f INDEXED BY limit_flows_turn ON f.namespace=?1 AND f.fair=j.value->>0 AND f.fair_key=j.value->>1 AND f.fair<>'') AND` + planned
	// A flow is found by its text as well, because its id may be that of a new one by now.
	planStates = `UPDATE limit_flows SET state=j.value->>2, park_name=j.value->>3, park_key=j.value->>4, park_tokens=j.value->>5 FROM json_each(?4) j
		WHERE limit_flows.id=j.value->>0 AND flow=j.value->>1 AND` + planned
	// planFlow gives the flows of fresh runs that have to wait their rows, planFlowed says so of the runs, and planFlowPark
	// parks them.
	planFlow = `INSERT INTO limit_flows (namespace, queue, workflow, pin, priority, flow, head_at, head_id, state, park_name, park_key, park_tokens)
		SELECT f.namespace, f.queue, f.workflow, f.pin, f.priority, f.flow, h.visible_at, h.id, 2, j.value->>1, j.value->>2, j.value->>3
		FROM json_each(?4) j CROSS JOIN runs f ON f.id=unhex(j.value->>0) AND f.fresh=1 CROSS JOIN runs h ON h.id=(SELECT r.id FROM ` + runsOfFlow + ` ORDER BY r.visible_at, r.id LIMIT 1)
		WHERE` + planned
	planFlowed   = `UPDATE runs SET fresh=0 WHERE id IN (SELECT r.id FROM json_each(?4) j CROSS JOIN runs f ON f.id=unhex(j.value->>0) CROSS JOIN ` + runsOfFlow + `) AND fresh=1 AND` + planned
	planFlowPark = `INSERT INTO limit_parks (namespace, name, key, tokens, queue, workflow, pin, wake_at)
		SELECT f.namespace, f.park_name, f.park_key, f.park_tokens, f.queue, f.workflow, f.pin, j.value->>4 FROM json_each(?4) j CROSS JOIN runs r ON r.id=unhex(j.value->>0)
			CROSS JOIN limit_flows f ON f.namespace=r.namespace AND f.queue=r.queue AND f.workflow=r.workflow AND f.pin=r.pin AND f.priority=r.priority AND f.flow=r.flow
		WHERE f.state=2 AND` + planned + ` ON CONFLICT DO UPDATE SET wake_at=coalesce(excluded.wake_at, wake_at)`
	planAwake = `INSERT INTO limit_parks (namespace, name, key, tokens, queue, workflow, pin, wake_at)
		SELECT ?1, j.value->>0, j.value->>1, j.value->>2, j.value->>3, j.value->>4, j.value->>5, j.value->>6 FROM json_each(?4) j WHERE` + planned + `
		ON CONFLICT DO UPDATE SET wake_at=excluded.wake_at`
	planEmpty = `DELETE FROM limit_parks WHERE namespace=?1 AND (name, key, tokens, queue, workflow, pin) IN (
		SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5 FROM json_each(?4)) AND` + planned
	planParked = `INSERT INTO limit_parks (namespace, name, key, tokens, queue, workflow, pin, wake_at)
		SELECT f.namespace, f.park_name, f.park_key, f.park_tokens, f.queue, f.workflow, f.pin, j.value->>1 FROM json_each(?4) j CROSS JOIN limit_flows f ON f.id=j.value->>0
		WHERE f.state=2 AND` + planned + ` ON CONFLICT DO UPDATE SET wake_at=coalesce(excluded.wake_at, wake_at)`
	// planWake wakes those who wait for a key that has room.
	planWake = `UPDATE limit_parks SET wake_at=0 WHERE namespace=?1 AND (wake_at IS NULL OR wake_at>0) AND (name, key) IN (SELECT value->>0, value->>1 FROM json_each(?4)) AND` + planned
	// planFreed does so for keys of which fewer permits are held than the plan knew.
	planFreed = `UPDATE limit_parks SET wake_at=-1 WHERE namespace=?1 AND (wake_at IS NULL OR wake_at>0) AND (name, key) IN (SELECT j.value->>0, j.value->>1 FROM json_each(?4) j
		WHERE j.value->>2>coalesce((SELECT held FROM limit_keys k WHERE k.namespace=?1 AND k.name=j.value->>0 AND k.key=j.value->>1), 0)) AND` + planned
	// planForget and planForgetFair delete a few keys that are as if they had never been used: ?1 namespace, ?2 now,
	// ?3 the names of fair limits.
	planForget = `DELETE FROM limit_keys WHERE namespace=?1 AND (name, key) IN (
		SELECT name, key FROM limit_keys INDEXED BY limit_keys_rates WHERE namespace=?1 AND held=0 AND weight=1 AND vtime=0 AND tat<=?2 ORDER BY tat LIMIT 8)`
	planForgetFair = `DELETE FROM limit_keys WHERE namespace=?1 AND (name, key) IN (
		SELECT k.name, k.key FROM json_each(?3) j CROSS JOIN limits l ON l.namespace=?1 AND l.name=j.value CROSS JOIN limit_keys k INDEXED BY limit_keys_turns ON k.namespace=?1 AND k.name=l.name
			AND k.held=0 AND k.weight=1 AND k.vtime>0 AND k.vtime<=l.clock AND k.tat<=?2 LIMIT 8)`

	// planTold returns the queues in which runs may go that could not before.
	planTold = `UPDATE limit_parks INDEXED BY limit_parks_told SET wake_at=0 WHERE namespace=?1 AND wake_at=-1 AND` + planned + ` RETURNING queue`
)
