package postgres

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// Limits are stored as follows. A run that waits under limits is in a flow: the runs of one lane that need
// the same permits. The row of a run names its flow, and an index lists the waiting runs of a flow. Flows and
// keys have rows of their own, which only a transaction with the lock of the namespace's limits writes: claims,
// for the most part. Everything else that ends a lease, or lets a run wait, leaves a mark and waits for nobody. A
// trigger inserts it, unless the statement does so for all of its runs: see telling and tellingStarts. A claim first
// folds the marks into the rows of flows and keys.
//
// A flow whose key is full is parked at that key. A claim looks only at the flows that are ready, and at those
// parked at keys that have got room. If a key has room, and flows are parked at it, then at least one of them
// in each lane is ready, or waits for the time at which the rate permits it.

// flowOf is the flow of a run, a row, given expressions of some of its columns.
func flowOf(row, under, step, taken string) string {
	return hashOf(row+`namespace, `+row+`queue, `+row+`workflow, `+row+`priority`, under, step, taken)
}

// hashOf is the flow of a run in a lane.
func hashOf(lane, under, step, taken string) string {
	return `CASE WHEN coalesce(` + under + `, ` + step + `) IS NOT NULL THEN encode(substr(sha256(convert_to(concat_ws(E'\n', ` + lane + `,
		coalesce(` + under + `, ''), coalesce(` + step + `, ''), ` + taken + `), 'UTF8')), 1, 16), 'hex')::uuid END`
}

// flowID is hashOf in Go.
func flowID(namespace, queue, workflow string, priority int, under, step string, taken bool) store.ID {
	flag := "f"
	if taken {
		flag = "t"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{namespace, queue, workflow, strconv.Itoa(priority), under, step, flag}, "\n")))
	return store.ID(sum[:len(store.ID{})])
}

// laneName is the name of a lane in limit_flows.
func laneName(lane string) string {
	return strings.ReplaceAll(`l.queue || E'\n' || l.workflow || E'\n' || l.pin || E'\n' || l.priority`, `l.`, lane+`.`)
}

// usesOf expands the limits that two columns name.
func usesOf(under, step string) string {
	return `jsonb_array_elements(coalesce(` + under + `::jsonb, '[]') || coalesce(` + step + `::jsonb, '[]'))`
}

// someParked says whether a flow of the namespace ($2) is parked, or was.
const someParked = `EXISTS (SELECT 1 FROM pawl.limit_flows p WHERE p.namespace=$2::text AND p.limit_name IS NOT NULL)`

// flowRuns selects the waiting runs of a flow, f, that are not paused.
const flowRuns = `x.flow=f.flow AND x.flow IS NOT NULL AND x.pin=f.pin AND NOT x.leased AND x.visible_at IS NOT NULL AND x.status<>{paused}`

// limitLanes is lanesOf with the floors in $8 and the pins in $9, and the names of the lanes.
var limitLanes = strings.ReplaceAll(lanesOf(`$8`), `$12`, `$9`) + `, named AS MATERIALIZED (SELECT lane.*, ` + laneName(`lane`) + ` AS name FROM lane)`

var (
	// limitLock waits for the lock of the limits of a namespace ($1).
	limitLock = `SELECT pg_advisory_xact_lock(hashtextextended('pawl.' || $1::text, 7))`
	// limitLockSoon waits for it for a second. The timeout ends with the transaction.
	limitLockSoon = `SELECT pg_advisory_xact_lock(hashtextextended(CASE WHEN set_config('lock_timeout', '1s', true) <> '' THEN 'pawl.' END || $1::text, 7))`

	// unused says that the row of a key, k, would say no more than none after a number of leases, f.n, have ended.
	unused = `k.held=f.n AND k.weight=1 AND k.tat<=` + now + ` AND k.vtime<=coalesce((SELECT l.clock FROM pawl.limits l WHERE l.namespace=$2::text AND l.name=k.name), 0)`

	// foldMarks deletes the marks of namespace $2 from $3 on, at most $4, and enters them into the rows of
	// keys and flows. A run that has come since the transaction began is ready by the next claim, not by this one.
	// The statement finds each row once and changes it by its ctid. The ctid stays valid, because only transactions
	// with the lock write these rows. The statement keeps the keys that got room in a setting of the transaction. It
	// returns whether there were some, the number of the last mark, and how many marks there were.
	foldMarks = `WITH gone AS MATERIALIZED (DELETE FROM pawl.limit_marks m WHERE m.namespace=$2::text AND m.seq>=$3::bigint AND m.seq<=(
			SELECT max(s.seq) FROM (SELECT x.seq FROM pawl.limit_marks x WHERE x.namespace=$2::text AND x.seq>=$3::bigint ORDER BY x.seq LIMIT $4::bigint) s) RETURNING m.*),
		freed AS MATERIALIZED (SELECT $2::text AS namespace, e.value->>0 AS name, e.value->>1 AS key, sum(g.n)::bigint AS n
			FROM (SELECT freed, freed_step, count(*) AS n FROM gone WHERE coalesce(freed, freed_step) IS NOT NULL GROUP BY 1, 2) g
			CROSS JOIN LATERAL ` + usesOf(`g.freed`, `g.freed_step`) + ` e(value) GROUP BY 2, 3),
		held AS MATERIALIZED (SELECT k.ctid AS place, k.name, k.key, f.n, ` + unused + ` AS spent FROM freed f JOIN pawl.limit_keys k
			ON k.namespace=ANY(ARRAY[f.namespace]) AND k.name=ANY(ARRAY[f.name]) AND k.key=ANY(ARRAY[f.key])),
		kept AS (UPDATE pawl.limit_keys k SET held=k.held-h.n FROM held h WHERE k.ctid=h.place AND NOT h.spent),
		dropped AS (DELETE FROM pawl.limit_keys k USING held h WHERE k.ctid=h.place AND h.spent),
		gone_runs AS MATERIALIZED (SELECT g.left_flow, g.pin, g.run, g.seq FROM gone g WHERE g.left_flow IS NOT NULL),
		came AS MATERIALIZED (SELECT c.*, f.* FROM (SELECT DISTINCT ON (g.flow, g.pin) g.* FROM gone g WHERE g.flow IS NOT NULL
				AND NOT EXISTS (SELECT 1 FROM gone_runs x WHERE x.left_flow=g.flow AND x.run=g.run AND x.seq>g.seq) ORDER BY g.flow, g.pin, g.at, g.run) c
			LEFT JOIN LATERAL (SELECT f.ctid AS place, f.head_at, f.head_id, f.at AS due, f.state=3 AND f.limit_name IS NULL AS sleeps FROM pawl.limit_flows f WHERE f.flow=c.flow AND f.pin=c.pin OFFSET 0) f ON true),
		known AS (UPDATE pawl.limit_flows f SET head_at=least(f.head_at, c.at), head_id=CASE WHEN (c.at, c.run)<(f.head_at, f.head_id) THEN c.run ELSE f.head_id END,
				at=CASE WHEN c.sleeps THEN least(f.at, c.at) ELSE f.at END
			FROM came c WHERE f.ctid=c.place AND ((c.at, c.run)<(c.head_at, c.head_id) OR c.sleeps AND c.at<c.due)
				AND NOT EXISTS (SELECT 1 FROM gone_runs g WHERE g.left_flow=c.flow AND g.run=c.head_id)),
		behind AS MATERIALIZED (SELECT g.left_flow AS flow, g.pin, g.run, c.at, c.run AS came FROM gone_runs g LEFT JOIN came c ON c.flow=g.left_flow AND c.pin=g.pin),
		left_behind AS (UPDATE pawl.limit_flows f SET state=1, head_at=least(f.head_at, b.at), head_id=CASE WHEN (b.at, b.came)<(f.head_at, f.head_id) THEN b.came ELSE f.head_id END
			FROM behind b WHERE f.flow=ANY(ARRAY[b.flow]) AND f.pin=ANY(ARRAY[b.pin]) AND f.head_id=b.run),
		fairs AS MATERIALIZED (SELECT l.name, l.clock FROM pawl.limits l WHERE l.namespace=$2::text AND l.fair),
		fresh AS (INSERT INTO pawl.limit_flows (flow, pin, namespace, lane, queue, under, step_under, taken, names, keys, head_at, head_id, state, at, fair, turn)
			SELECT c.flow, c.pin, c.namespace, ` + laneName(`c`) + `, c.queue, c.under, c.step_under, c.taken, u.names, u.keys, c.at, c.run,
				CASE WHEN c.at<=coalesce($1::bigint, (date_part('epoch', clock_timestamp())*1000000)::bigint) THEN 1 ELSE 3 END, c.at, coalesce(t.fair, ''), CASE WHEN t.fair IS NULL THEN 0 ELSE greatest(t.clock, (SELECT k.vtime FROM pawl.limit_keys k
					WHERE k.namespace=$2::text AND k.name=t.fair AND k.key=t.fair_key)) END
			FROM came c CROSS JOIN LATERAL (SELECT array_agg(e.value->>0) AS names, array_agg(e.value->>1) AS keys FROM ` + usesOf(`c.under`, `c.step_under`) + ` e(value)) u
				CROSS JOIN LATERAL (SELECT ` + fairOf(`e.key`) + ` FROM unnest(u.names, u.keys) e(name, key) JOIN fairs l ON l.name=e.name WHERE EXISTS (TABLE fairs)) t
			WHERE c.place IS NULL)
		SELECT set_config('pawl_tx.leased', '', true) || set_config('pawl_tx.freed', (SELECT coalesce(json_agg(json_build_array(h.name, h.key)), '[]')::text FROM held h), true) <> '[]',
			coalesce(max(g.seq), 0), count(*) FROM gone g`

	// loadLimits reads what decides on a claim: rows of several kinds, in one form. Parameters: those of
	// limitLanes, $7 the maximum number of runs, $10 how many flows of each list.
	loadLimits = sqlkit.Text(limitLanes + `,
		rule AS MATERIALIZED (SELECT * FROM pawl.limits l WHERE l.namespace=$2::text),
		timed AS MATERIALIZED (SELECT named.d, named.pair, named.priority, x.* FROM named CROSS JOIN LATERAL (SELECT f.* FROM pawl.limit_flows f
			WHERE f.namespace=$2::text AND f.lane=named.name AND f.state=3 AND f.at<=` + now + ` ORDER BY f.at LIMIT $10::bigint) x),
		ready AS MATERIALIZED (SELECT named.d, named.pair, named.priority, x.* FROM named CROSS JOIN (SELECT '' AS fair UNION ALL SELECT rule.name FROM rule WHERE rule.fair) r
				CROSS JOIN LATERAL (SELECT f.* FROM pawl.limit_flows f WHERE f.namespace=$2::text AND f.lane=named.name AND f.fair=r.fair AND f.state=1 AND f.head_at<=` + now + `
					ORDER BY f.turn, f.head_at, f.head_id LIMIT $10::bigint) x),
		woken AS MATERIALIZED (SELECT e.value->>0 AS name, e.value->>1 AS key FROM json_array_elements(current_setting('pawl_tx.freed')::json) e(value) WHERE ` + someParked + `
			UNION SELECT t.limit_name, t.limit_key FROM timed t WHERE t.limit_name IS NOT NULL
			UNION SELECT t.limit_name, t.limit_key FROM ready t WHERE t.limit_name IS NOT NULL),
		f AS MATERIALIZED (SELECT * FROM timed
			UNION ALL SELECT * FROM ready
			UNION ALL SELECT named.d, named.pair, named.priority, x.* FROM woken w
				CROSS JOIN LATERAL (SELECT FROM pawl.limit_flows p WHERE p.namespace=$2::text AND p.limit_name=w.name AND p.limit_key=w.key AND p.state IN (2, 4) LIMIT 1) one
				CROSS JOIN named CROSS JOIN (VALUES (2), (4)) s(state)
				CROSS JOIN LATERAL (SELECT f.* FROM pawl.limit_flows f WHERE f.namespace=$2::text AND f.limit_name=w.name AND f.limit_key=w.key AND f.lane=named.name AND f.state=s.state
					ORDER BY f.turn, f.head_at, f.head_id LIMIT $10::bigint) x),
		u AS MATERIALIZED (SELECT f.flow, f.pair, u.name, u.key, k.held, k.tat, k.vtime, k.weight,
				CASE WHEN rule.concurrency>0 THEN rule.concurrency-coalesce(k.held, 0) END AS room
			FROM f CROSS JOIN LATERAL unnest(f.names, f.keys) u(name, key) LEFT JOIN rule ON rule.name=u.name
			LEFT JOIN LATERAL (SELECT * FROM pawl.limit_keys k WHERE k.namespace=$2::text AND k.name=u.name AND k.key=u.key OFFSET 0) k ON true),
		room AS MATERIALIZED (SELECT u.flow, u.pair, min(u.room) AS room FROM u GROUP BY 1, 2)
		SELECT 0, NULL::uuid, NULL::uuid, '', '', '', '', ` + now + `, 0, 0, 0, 0, false, '', 0
		UNION ALL SELECT 1, NULL, NULL, rule.name, '', '', '', rule.concurrency, rule.every, rule.burst, rule.clock, 0, rule.fair, '', 0 FROM rule
		UNION ALL SELECT 2, f.flow, f.head_id, coalesce(f.under, ''), coalesce(f.step_under, ''), coalesce(f.limit_name, ''), coalesce(f.limit_key, ''), f.pair, f.priority, f.d, f.state,
			f.head_at, f.taken, f.fair, f.turn FROM f
		UNION ALL SELECT 3, u.flow, NULL, u.name, u.key, '', '', u.pair, u.held, u.tat, u.vtime, u.weight, false, '', 0 FROM u WHERE u.held IS NOT NULL
		UNION ALL SELECT 4, f.flow, c.id, c.past, '', '', '', f.pair, f.priority, f.d, c.visible_at, c.size, false, '', 0 FROM f JOIN room USING (flow, pair) CROSS JOIN LATERAL (
			SELECT x.id, x.visible_at, ` + past(`x`) + `, ` + lengths(`x`) + ` AS size FROM pawl.runs x WHERE ` + flowRuns + ` AND x.visible_at<=` + now + `
			ORDER BY x.visible_at, x.id LIMIT greatest(1, least($7::bigint, room.room))) c
		UNION ALL SELECT 5, NULL, c.id, c.past, '', '', '', lane.pair, lane.priority, lane.d, c.visible_at, c.size, c.leased, '', 0 FROM lane CROSS JOIN LATERAL (
			SELECT r.id, r.visible_at, r.leased, ` + past(`r`) + `, ` + lengths(`r`) + ` AS size FROM pawl.runs r WHERE ` + dueInLane + ` ORDER BY r.visible_at, r.id LIMIT $7::bigint) c`)

	// takeLimited takes runs: $2 namespace, $3 ids, $4 flows, $5 whether their leases have expired, $10 pins,
	// $11 flows with their tokens taken, $12 whether statements that read histories follow, and the parameters of
	// claimSet as in limitedSet. Without these statements it leaves out a run that has got a history in the meantime.
	takeLimited = sqlkit.Text(`WITH fit AS MATERIALIZED (SELECT r.id, r.visible_at, r.parts, r.priority, t.becomes FROM unnest($3::uuid[], $4::uuid[], $5::bool[], $10::text[], $11::uuid[]) t(id, flow, expired, pin, becomes)
			CROSS JOIN LATERAL (SELECT x.id, x.visible_at, x.parts, x.priority FROM pawl.runs x WHERE x.id=ANY(ARRAY[t.id]) AND x.namespace=$2::text AND x.leased=t.expired
				AND x.visible_at IS NOT NULL AND x.visible_at<=` + now + ` AND x.status<>{paused} AND x.pin=t.pin AND (t.expired OR x.flow IS NOT DISTINCT FROM t.flow)
				AND ($12::bool OR x.parts & {partsToReplay} = 0) FOR NO KEY UPDATE SKIP LOCKED) r),
		left_behind AS MATERIALIZED (SELECT set_config('pawl_tx.claimed', coalesce(
				string_agg(id::text, ',' ORDER BY priority DESC, visible_at, id) FILTER (WHERE parts & {partsToReplay} <> 0), ''), true),
			set_config('pawl_tx.leased', coalesce(string_agg(id::text, ','), ''), true) FROM fit)` + limitedSet + `fit CROSS JOIN left_behind WHERE r.id=ANY(ARRAY[fit.id])
		RETURNING `)
	limitedSet      = strings.NewReplacer(`SET status=`, `SET taken=r.taken OR r.flow IS NOT NULL AND NOT r.leased, flow=coalesce(fit.becomes, r.flow), status=`, `$13`, `$9`, `$10`, `$8`, `$9`, `$7`, `$8`, `$6`).Replace(claimSet)
	takeLimitedRuns = takeLimited + cols(`r.input,r.meta,NULL::bytea`) + `, r.due_at, false`
	takeLimitedBare = sqlkit.Text(takeLimited + bareColumns + `, r.due_at, r.parts & {partSteps} <> 0 AND EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)`)

	// chargeKeys counts the permits and tokens of the runs that were really taken: $2 namespace, then for
	// each permit $3 its run, $4 limit, $5 key, $6 microseconds of the rate, $7 virtual time of the key
	// afterwards.
	chargeKeys = `INSERT INTO pawl.limit_keys AS k (namespace, name, key, held, tat, vtime)
		SELECT $2::text, t.name, t.key, count(*), ` + now + `+sum(t.cost), max(t.vtime) FROM unnest($3::uuid[], $4::text[], $5::text[], $6::bigint[], $7::bigint[]) t(id, name, key, cost, vtime)
			JOIN unnest(string_to_array(nullif(current_setting('pawl_tx.leased'), ''), ',')::uuid[]) m(id) ON m.id=t.id GROUP BY 2, 3 ORDER BY 2, 3
		ON CONFLICT (namespace, name, key) DO UPDATE SET held=k.held+excluded.held, vtime=greatest(k.vtime, excluded.vtime),
			tat=CASE WHEN excluded.tat=` + now + ` THEN k.tat ELSE greatest(k.tat, ` + now + `)+excluded.tat-` + now + ` END`
	// setClocks: $1 namespace, $2 limits, $3 their clocks.
	setClocks = `UPDATE pawl.limits l SET clock=greatest(l.clock, t.clock) FROM unnest($2::text[], $3::bigint[]) t(name, clock) WHERE l.namespace=$1::text AND l.name=ANY(ARRAY[t.name])`

	// settleFlows records where flows wait, given by $2 ids, $3 pins, $4 states, $5 times, $6 limits, $7 keys,
	// $8 turns. It looks for the first run of each, and deletes flows without one. If fewer runs were taken than the
	// $9 that were to be, because others have locked them, the states and turns of the plan are not what is: then
	// all of these flows are ready, and the next claim decides.
	settleFlows = sqlkit.Text(`WITH h AS MATERIALIZED (SELECT f.*, c.id, c.visible_at FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::bigint[])
				f(flow, pin, state, at, name, key, turn)
			LEFT JOIN LATERAL (SELECT x.id, x.visible_at FROM pawl.runs x WHERE ` + flowRuns + ` ORDER BY x.visible_at, x.id LIMIT 1) c ON true),
		empty AS (DELETE FROM pawl.limit_flows f USING h WHERE f.flow=ANY(ARRAY[h.flow]) AND f.pin=h.pin AND h.id IS NULL),
		skips AS MATERIALIZED (SELECT $9::bigint>coalesce(array_length(string_to_array(nullif(current_setting('pawl_tx.leased'), ''), ','), 1), 0) AS some)
		UPDATE pawl.limit_flows f SET head_at=h.visible_at, head_id=h.id, state=CASE WHEN h.visible_at>` + now + ` THEN 3 WHEN skips.some THEN 1 ELSE h.state END,
			turn=CASE WHEN skips.some AND f.fair<>'' THEN greatest((SELECT l.clock FROM pawl.limits l WHERE l.namespace=f.namespace AND l.name=f.fair), (SELECT k.vtime FROM pawl.limit_keys k
				WHERE k.namespace=f.namespace AND k.name=f.fair AND k.key=f.keys[array_position(f.names, f.fair)]), 0) ELSE h.turn END,
			at=CASE WHEN h.visible_at>` + now + ` THEN h.visible_at ELSE h.at END,
			limit_name=CASE WHEN h.visible_at<=` + now + ` THEN nullif(h.name, '') END, limit_key=CASE WHEN h.visible_at<=` + now + ` AND h.name<>'' THEN h.key END
		FROM h CROSS JOIN skips WHERE f.flow=ANY(ARRAY[h.flow]) AND f.pin=h.pin AND h.id IS NOT NULL`)

	// unpark makes flows ready that are parked at keys with room: those of $3 limits and $4 keys, and those
	// that the fold has found. In each lane there are then as many as the key has permits for, or tokens.
	unpark = `WITH RECURSIVE k AS MATERIALIZED (SELECT t.name, t.key, least(coalesce(nullif(l.concurrency, 0)-k.held, 100), 100) AS room,
				CASE WHEN l.every>0 THEN greatest(1, (` + now + `+l.every*l.burst-greatest(k.tat, ` + now + `))/l.every) ELSE 100 END AS tokens
			FROM (SELECT * FROM unnest($3::text[], $4::text[]) t(name, key) UNION SELECT e.value->>0, e.value->>1 FROM json_array_elements(current_setting('pawl_tx.freed')::json) e(value)) t
			LEFT JOIN pawl.limits l ON l.namespace=$2::text AND l.name=t.name
			CROSS JOIN LATERAL (SELECT coalesce(max(k.held), 0) AS held, coalesce(max(k.tat), 0) AS tat FROM pawl.limit_keys k WHERE k.namespace=$2::text AND k.name=t.name AND k.key=t.key) k
			CROSS JOIN LATERAL (SELECT FROM pawl.limit_flows p WHERE p.namespace=$2::text AND p.limit_name=t.name AND p.limit_key=t.key AND p.state IN (2, 4) LIMIT 1) one
			WHERE ` + someParked + `),
		lane AS (SELECT k.*, (SELECT min(p.lane) FROM pawl.limit_flows p WHERE p.namespace=$2::text AND p.limit_name=k.name AND p.limit_key=k.key) AS lane FROM k WHERE k.room>0
			UNION ALL SELECT l.name, l.key, l.room, l.tokens, (SELECT min(p.lane) FROM pawl.limit_flows p WHERE p.namespace=$2::text AND p.limit_name=l.name AND p.limit_key=l.key AND p.lane>l.lane)
				FROM lane l WHERE l.lane IS NOT NULL),
		up AS MATERIALIZED (SELECT p.flow, p.pin FROM lane CROSS JOIN (VALUES (2), (4)) s(state) CROSS JOIN LATERAL (SELECT f.flow, f.pin FROM pawl.limit_flows f
				WHERE f.namespace=$2::text AND f.limit_name=lane.name AND f.limit_key=lane.key AND f.lane=lane.lane AND f.state=s.state ORDER BY f.turn, f.head_at, f.head_id
				LIMIT greatest(0, CASE s.state WHEN 2 THEN lane.room ELSE least(lane.room, lane.tokens) END-(SELECT count(*) FROM (SELECT 1 FROM pawl.limit_flows a WHERE a.namespace=$2::text AND a.limit_name=lane.name AND a.limit_key=lane.key AND a.lane=lane.lane
					AND (a.state=1 OR a.state=3 AND s.state=4) LIMIT 100) a))) p WHERE lane.lane IS NOT NULL)
		UPDATE pawl.limit_flows f SET state=1 FROM up WHERE f.flow=ANY(ARRAY[up.flow]) AND f.pin=up.pin RETURNING f.queue`

	// limitNext returns the lanes in which flows are ready, or will be, with the earliest time, and whether
	// a run waits there now.
	limitNext = limitLanes + ` SELECT lane.pair, c.due, c.due<=` + now + ` AND c.waits AND $7::bigint>0 FROM named lane CROSS JOIN LATERAL (
			SELECT min(x.head_at) AS due, true AS waits FROM (SELECT f.head_at FROM pawl.limit_flows f WHERE f.namespace=$2::text AND f.lane=lane.name AND f.state=1
				ORDER BY f.fair, f.turn, f.head_at LIMIT 100) x
			UNION ALL SELECT x.at, x.limit_name IS NULL FROM (SELECT f.at, f.limit_name FROM pawl.limit_flows f WHERE f.namespace=$2::text AND f.lane=lane.name AND f.state=3
				ORDER BY f.at LIMIT 1) x) c WHERE c.due IS NOT NULL`

	// firstMark returns the number of the first mark, and whether it says only that permits ended: $1 namespace.
	firstMark = `SELECT m.seq, m.flow IS NULL FROM pawl.limit_marks m WHERE m.namespace=$1::text ORDER BY m.seq LIMIT 1`
	// someLimits says whether a run of a namespace ($1) was ever under a limit.
	someLimits = `EXISTS (SELECT 1 FROM pawl.limit_spaces s WHERE s.namespace=$2::text)`
)

// fairOf aggregates uses, e, joined with their limits as far as they are fair, l: the first of these.
func fairOf(key string) string {
	return `min(l.name) AS fair, (array_agg(` + key + ` ORDER BY l.name) FILTER (WHERE l.name IS NOT NULL))[1] AS fair_key,
		coalesce((array_agg(l.clock ORDER BY l.name) FILTER (WHERE l.name IS NOT NULL))[1], 0) AS clock`
}

// past says whether a run has a history: the text is empty if it has none.
func past(run string) string {
	return `CASE WHEN ` + run + `.parts & {partsToReplay} <> 0 THEN 'past' ELSE '' END AS past`
}

// lengths is the length of what comes with a run.
func lengths(run string) string {
	return strings.ReplaceAll(inputLength+failureLength, `r.`, run+`.`)
}
