package main

import "strings"

const (
	pg    = "backends/postgres/"
	marks = "migrations/postgres/00022_marks.sql"
)

// postgresPatches are planted in the backend for PostgreSQL. Faults of locks and of what two
// transactions see of each other are here; SQLite has one writer.
var postgresPatches = []Patch{
	// Claims.
	{"claim-waits-for-others", "lock", pg + "claim.go", `LIMIT share.runs FOR NO KEY UPDATE SKIP LOCKED`, `LIMIT share.runs FOR NO KEY UPDATE`, "tx/claim-waits-for-none"},
	{"claim-beyond-its-bytes", "bound", pg + "claim.go", `WHERE d.nth=1 OR d.total<=$14::bigint`, `WHERE d.nth>=1 OR d.total<=$14::bigint`, "claim/inputs-bounded-in-bytes"},
	{"claim-of-one-at-least-is-none", "bound", pg + "claim.go", `WHERE d.nth=1 OR d.total<=$14::bigint`, `WHERE d.total<=$14::bigint`, "claim/inputs-bounded-in-bytes"},
	{"claim-id-of-any-worker", "condition", "backends/internal/sqlkit/stamp.go", `h.Write([]byte(p.Worker))`, `h.Write([]byte(p.Namespace))`, "claim/id-of-two-workers"},
	{"claim-beyond-a-demand", "bound", pg + "claim.go", `least(busy.n, $7::bigint)`, `$7::bigint`, "claim/never-more-than-asked"},
	{"skipped-run-fills-its-key", "condition", pg + "limitsql.go", `WHEN skips.some THEN 1 ELSE h.state END`, `ELSE h.state END`, "tx/claim-under-limits-beside-an-open-one"},
	{"claim-of-its-share-only", "condition", pg + "claim.go", `c.statements(wait >= brief)`, `c.statements(wait > patience)`, "tx/claim-waits-for-none"},
	{"claim-of-lanes-in-turn", "order", pg + "claim.go", `ORDER BY head.priority DESC, head.visible_at, head.id LIMIT`, `ORDER BY head.place LIMIT`, "claim/order-over-demands"},
	{"claim-without-its-history", "condition", pg + "claim.go", `past.parts & {partsToReplay} <> 0)`, `past.parts & {partsToReplay} < 0)`, "claim/brings-replay"},
	{"claim-again-of-another-claim", "condition", pg + "claim.go", `AND r.stamp=$8::bigint AND r.leased`, `AND $8::bigint IS NOT NULL AND r.leased`, "claim/again-of-its-own"},
	{"claim-brings-read-signals", "condition", pg + "claim.go", "` AND NOT x.consumed`, `pos`", "``, `pos`", "signal/consumed-once"},
	{"claim-brings-no-second-group", "bound", pg + "claim.go", `ORDER BY x.name LIMIT 1001) s ORDER BY m.place`, `ORDER BY x.name LIMIT 1) s ORDER BY m.place`, "sizes/pages-of-groups"},
	{"claim-says-nothing-of-being-asked", "condition", pg + "claim.go", `w.id=$11::text AND w.asked_at IS NOT NULL)`, `w.id=$11::text AND false)`, "workers/asked-is-told"},

	// Extensions.
	{"extend-ignores-the-epoch", "condition", pg + "extend.go", `AND r.epoch=l.epoch AND r.leased`, `AND r.leased`, "extend/lost-after-takeover"},
	{"extend-of-what-is-finished", "condition", pg + "extend.go", `AND r.epoch=l.epoch AND r.leased`, `AND r.epoch=l.epoch`, "extend/lost-after-finish"},
	{"extend-ignores-the-worker", "condition", pg + "extend.go", `AND r.worker=$6::text AND r.epoch=l.epoch`, `AND $6::text IS NOT NULL AND r.epoch=l.epoch`, "extend/lost-of-others"},
	{"extend-in-any-namespace", "name", pg + "extend.go", `AND r.namespace=$5::text AND r.worker`, `AND $5::text<>'' AND r.worker`, "namespaces/leases"},
	{"extend-hides-a-cancel", "condition", pg + "extend.go", `RETURNING r.id, r.epoch, r.status={canceling}`, `RETURNING r.id, r.epoch, r.status=9`, "extend/tells-canceling"},

	// Commits.
	{"commit-plain-ignores-the-epoch", "condition", pg + "commit.go", `AND r.epoch=coalesce(c.epoch, 1) AND r.seq=c.seq-1 AND r.leased`, `AND r.epoch>=coalesce(c.epoch, 1) AND r.seq=c.seq-1 AND r.leased`, "commit/old-epoch-of-any-kind"},
	{"commit-plain-ignores-the-worker", "condition", pg + "commit.go", `AND r.worker=coalesce(c.worker, $29::text)`, `AND coalesce(c.worker, $29::text)<>''`, "commit/other-worker-of-any-kind"},
	{"commit-plain-skips-numbers", "condition", pg + "commit.go", `AND r.seq=c.seq-1 AND r.leased`, `AND r.seq<c.seq AND r.leased`, "commit/gap-of-any-kind"},
	{"commit-plain-over-an-event", "condition", pg + "commit.go", `AND r.status={running} AND r.events=coalesce(c.seen, 0)` + "`", `AND r.status={running} AND r.events>=coalesce(c.seen, 0)` + "`", "commit/tells-events"},
	{"commit-plain-hides-a-pause", "condition", pg + "commit.go", `(c.status>{running} OR NOT r.pausing)`, `true`, "pause/running-at-next-transition"},
	{"commit-plain-ends-what-runs-on", "bound", pg + "commit.go", `finished_at=CASE WHEN c.status>{running} THEN`, `finished_at=CASE WHEN c.status>={running} THEN`, "commit/leaves-the-run-running"},
	{"commit-plain-end-counts-no-child", "condition", pg + "commit.go", `($28::bool OR r.parent IS NULL AND (r.parts & {partChildren})=0)`, `($28::bool OR (r.parts & {partChildren})=0)`, "children/last-one-wakes"},
	{"commit-plain-end-leaves-children", "condition", pg + "commit.go", `($28::bool OR r.parent IS NULL AND (r.parts & {partChildren})=0)`, `($28::bool OR r.parent IS NULL)`, "children/follow-a-final-parent"},
	{"commit-plain-counts-no-writes", "condition", pg + "commit.go", "`SET seq=c.seq, events=r.events+coalesce(c.writes, 0), `", "`SET seq=c.seq, `", "state/by-commits-together"},
	{"commit-plain-writes-for-all", "condition", pg + "commit.go", "WHERE w.run_id IN (SELECT u.id FROM u)", "WHERE true", "state/by-commits-together"},
	{"commit-plain-keeps-the-version", "condition", pg + "commit.go", "append(versions, b.Seen+int64(k)+1)", "append(versions, b.Seen+1)", "state/by-commits-together"},
	{"commit-ignores-the-epoch", "condition", pg + "commit.go", `AND epoch=$9::bigint AND seq=$1::bigint-1 AND leased`, `AND epoch>=$9::bigint AND seq=$1::bigint-1 AND leased`, "commit/old-epoch-of-any-kind"},
	{"commit-of-a-transition-ignores-the-epoch", "condition", pg + "commit.go", `AND epoch=$10::bigint AND seq=$2::bigint-1 AND leased`, `AND epoch>=$10::bigint AND seq=$2::bigint-1 AND leased`, "commit/old-epoch"},
	{"commit-of-a-transition-skips-numbers", "condition", pg + "commit.go", `AND epoch=$10::bigint AND seq=$2::bigint-1 AND leased`, `AND epoch=$10::bigint AND seq<$2::bigint AND leased`, "commit/gap-of-any-kind"},
	{"commit-sleeps-over-an-event", "condition", pg + "commit.go", `WHEN events>$16::bigint THEN`, `WHEN events>$16::bigint+1000000 THEN`, "sleep/unseen-event"},
	{"commit-sleeps-past-the-deadline", "condition", pg + "commit.go", `ELSE least(` + "` + now + `" + `+$17::bigint, $18::bigint, deadline) END`, `ELSE least(` + "` + now + `" + `+$17::bigint, $18::bigint) END`, "sleep/deadline"},
	{"commit-of-a-canceling-run-sleeps", "condition", pg + "commit.go", `status=CASE WHEN status={canceling} THEN {canceling} WHEN pausing THEN {paused} ELSE $12`, `status=CASE WHEN pausing THEN 4 ELSE $12`, "sleep/canceling"},
	{"commit-keeps-the-generation", "condition", pg + "commit.go", `generation=generation+1`, `generation=generation`, "commit/continue-as-new"},
	{"commit-replaces-final-steps", "condition", pg + "commit.go", `WHERE steps.status<{stepFinal}`, `WHERE steps.status<9`, "steps/later-record-replaces"},
	{"answer-replaces-the-first", "condition", pg + "answers.go", ` AND s.consumed AND s.answered_at IS NULL AND`, ` AND s.consumed AND`, "answer/first-stays"},
	{"answer-of-an-unread-signal", "condition", pg + "answers.go", ` AND s.consumed AND s.answered_at IS NULL AND`, ` AND s.answered_at IS NULL AND`, "answer/not-consumed"},
	{"append-of-a-zombie", "condition", pg + "streams.go", ` AND r.epoch=$14::bigint AND r.leased`, ` AND r.epoch>=$14::bigint`, "stream/fenced"},
	{"append-without-the-lock", "lock", pg + "streams.go", `r.id=$1::uuid FOR NO KEY UPDATE`, `r.id=$1::uuid`, "stream/takeover-race"},
	{"items-without-reset", "condition", pg + "streams.go", `j.k=1 AND c.freed>0`, `j.k=1 AND c.freed<0`, "stream/superseded"},
	{"items-are-not-superseded", "condition", pg + "streams.go", `AND (s.epoch, s.attempt)<(c.epoch, $6::bigint))`, `AND (s.epoch, s.attempt)<(0, $6::bigint))`, "stream/superseded"},
	{"items-of-the-next-generation", "condition", pg + "streams.go", "`r.generation-$13::bigint`", "`r.generation-$13::bigint*0`", "stream/generations"},
	{"purge-leaves-items", "condition", pg + "control.go", `d7 AS (DELETE FROM pawl.stream_items WHERE run_id=ANY(ARRAY(SELECT id FROM v)))`, `d7 AS (DELETE FROM pawl.stream_items WHERE run_id=ANY(ARRAY(SELECT id FROM v)) AND false)`, "stream/purged"},
	{"answers-of-any-namespace", "name", pg + "answers.go", ` AND r.namespace=$3::text`, ` AND $3::text<>''`, "answer/other-namespace"},
	{"answers-beyond-their-bytes", "bound", pg + "answers.go", `OVER w<=1 AS fits`, `OVER w>=1 AS fits`, "answer/bounded"},
	{"commit-leaves-signals-unread", "condition", pg + "commit.go", `SET consumed=true, payload=NULL`, `SET consumed=false, payload=NULL`, "signal/consumed-once"},
	{"commit-opens-one-child-more", "condition", pg + "commit.go", `total=g.total+excluded.total, open=g.open+excluded.open`, `total=g.total+excluded.total, open=g.open+excluded.open+1`, "children/spawned-by-two-commits"},
	{"commit-sleeps-on-a-met-await", "condition", pg + "commit.go", `WHERE r.id=$2::uuid AND r.stamp=$3::bigint AND r.status IN ({sleeping},{paused})`, `WHERE r.id=$2::uuid AND r.stamp=$3::bigint AND r.status IN (4)`, "children/finished-before-sleep"},
	{"commit-misses-that-one-has-failed", "bound", pg + "commit.go", `NOT ($6::bigint>0 AND g.failed+g.canceled>=$6::bigint)`, `NOT ($6::bigint>1 AND g.failed+g.canceled>=$6::bigint)`, "children/failures-already-met"},

	// Children and parents.
	{"children-canceled-do-not-count", "condition", pg + "children.go", `SET open=g.open-t.n, canceled=g.canceled+t.n`, `SET canceled=g.canceled+t.n`, "children/canceled-counts"},
	{"children-wake-an-older-sleep", "condition", pg + "children.go", `g.run_id=r.id AND g.armed=r.epoch`, `g.run_id=r.id AND g.armed>0`, "children/earlier-await-of-another-group"},
	{"children-failures-never-wake", "condition", pg + "children.go", `OR g.wake_failures>0 AND g.failed+g.canceled>=g.wake_failures))`, `))`, "children/failures-wake"},
	{"children-recorded-end-at-once", "condition", pg + "children.go", "AND (EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)", "AND (false", "cancel/recorded-is-canceling"},
	{"children-abandoned-are-canceled", "condition", pg + "children.go", `AND x.parent IS NOT NULL AND x.on_close={closeCancel} AND x.status<{final} AND x.status<>{canceling} OFFSET 0) c` + "`)\n\n\tfamily", `AND x.parent IS NOT NULL AND x.status<{final} AND x.status<>{canceling} OFFSET 0) c` + "`)\n\n\tfamily", "cancel/abandoned-child-lives"},
	{"children-that-end-together-wake-nobody", "condition", pg + "children.go", `AND y.status>={final} AND y.parent IS NOT NULL OFFSET 0`, `AND y.status>={final} AND y.parent IS NOT NULL OFFSET 1`, "children/ends-in-one-batch"},

	// Control.
	{"pause-loses-the-status", "condition", pg + "control.go", `SET paused_from=CASE status WHEN {running} THEN paused_from ELSE status END`, `SET paused_from=1`, "pause/resume-keeps-time"},
	{"resume-leaves-the-mark", "condition", pg + "control.go", `AND (status={paused} OR pausing) AND`, `AND status={paused} AND`, "pause/unmark"},
	{"restart-keeps-the-epoch", "condition", pg + "control.go", `attempt=1, epoch=epoch+1, seq=0, worker=NULL`, `attempt=1, seq=0, worker=NULL`, "restart/zombie"},
	{"restart-counts-a-child-twice", "condition", pg + "control.go", `finished_at=NULL, grp=NULL, ordinal=0`, `finished_at=NULL, ordinal=0`, "restart/child-counts-once"},
	{"fork-copies-the-named-step", "bound", pg + "control.go", `OR s.position<(SELECT b.position`, `OR s.position<=(SELECT b.position`, "fork/keeps-steps-before"},
	{"purge-of-what-is-young", "condition", pg + "control.go", "r.finished_at<=` + now + `-$3::bigint", "r.finished_at<=` + now + `-0*$3::bigint", "purge/only-final-and-old"},
	{"purge-of-children-whose-parent-lives", "condition", pg + "control.go", `WHERE p.id=r.parent), {canceled})>={final}`, `WHERE p.id=r.parent), 8)>=0`, "purge/keeps-children-of-live-parents"},
	{"purge-leaves-signals", "condition", pg + "control.go", `DELETE FROM pawl.signals WHERE run_id=ANY(ARRAY(SELECT id FROM v))`, `DELETE FROM pawl.signals WHERE run_id=ANY(ARRAY(SELECT id FROM v)) AND false`, "purge/with-all-that-belongs"},

	// Coordination.
	{"signal-without-a-lock", "lock", pg + "signals.go", `WHERE id=$6::uuid AND namespace=$2::text AND status<{final} FOR NO KEY UPDATE)`, `WHERE id=$6::uuid AND namespace=$2::text AND status<9)`, "signal/finished"},
	{"start-signal-repeated-to-the-next-run", "condition", pg + "signalstart.go", `AND s.id=t.signal))`, `AND s.id=t.signal AND false))`, "create/signal-repeat-after-finish"},
	{"start-signal-to-any-workflow", "name", pg + "signalstart.go", `AND workflow=$8::text AND`, `AND $8::text<>'' AND`, "create/signal-of-another-workflow"},
	{"start-signal-undone-without-its-stamp", "condition", pg + "signalstart.go", `AND r.stamp=$4::bigint`, `AND $4::bigint IS NOT NULL`, "create/signal-repeat-after-finish"},
	{"start-signal-unhinted", "hint", pg + "signalstart.go", `h.Event(d.run, !woken)`, `_ = h`, "hints/of-start-signal"},
	{"signal-wakes-nobody", "condition", pg + "signals.go", `WHEN r.status IN ({sleeping},{paused}) AND r.wakes & {wakeSignal} <> 0`, `WHEN r.status IN (5) AND r.wakes & {wakeSignal} <> 0`, "signal/wakes-sleeper"},
	{"signal-wakes-who-does-not-ask", "condition", pg + "signals.go", `WHEN r.status IN ({sleeping},{paused}) AND r.wakes & {wakeSignal} <> 0`, `WHEN r.status IN ({sleeping},{paused})`, "signal/no-wake-unasked"},
	{"signal-to-the-next-run-again", "condition", pg + "signals.go", `s.run_id=p.id AND s.id=$3::uuid))`, `s.run_id=p.id AND s.id=$3::uuid AND false))`, "signal/repeat-to-the-next-run"},
	{"state-ignores-versions", "condition", pg + "state.go", `, 0)<>w.version)`, `, 0)<>w.version AND false)`, "state/compare-and-set"},
	{"state-of-what-is-final", "condition", pg + "state.go", `AND r.status<{final} AND NOT EXISTS`, `AND r.status<9 AND NOT EXISTS`, "state/finished"},

	// Schedules, registry, locks.
	{"fire-early", "condition", pg + "schedules.go", "AND $4::bigint<=` + now + `", "AND $4::bigint<=` + now + `+999999999", "fire/not-early"},
	{"fire-of-an-edited-schedule", "condition", pg + "schedules.go", `AND ($6::bigint IS NULL OR s.updated_at=$6::bigint)`, `AND ($6::bigint IS NULL OR true)`, "fire/put-meanwhile"},
	{"fire-of-another-time-advances", "condition", pg + "schedules.go", `s.name=$2::text AND s.next_at=$3::bigint AND ($5::bigint IS NULL`, `s.name=$2::text AND (s.next_at=$3::bigint OR true) AND ($5::bigint IS NULL`, "fire/other-time-than-put-back"},
	{"fire-again-names-another-run", "condition", pg + "schedules.go", `AND f.at=$3::bigint AND f.xmin=pg_current_xact_id_if_assigned()::xid
			AND NOT EXISTS`, `AND f.at=$3::bigint
			AND NOT EXISTS`, "fire/keeps-its-run"},
	{"fire-reads-the-firing-of-another-schedule", "condition", pg + "schedules.go", `ON f.namespace=s.namespace AND f.schedule=s.name AND f.at=$4::bigint`, `ON f.namespace=s.namespace AND f.at=$4::bigint`, "fire/schedules-apart"},
	{"fire-of-a-foreign-run-never-ends", "condition", pg + "schedules.go", `if errors.Is(err, store.ErrAlreadyExists) && !foreign {`, `if errors.Is(err, store.ErrAlreadyExists) {`, "fire/run-of-another-namespace"},
	{"claim-leaves-the-highest-priority", "order", pg + "claim.go", `WINDOW place AS (ORDER BY due.priority DESC, due.visible_at, due.id ROWS`, `WINDOW place AS (ORDER BY due.priority ASC, due.visible_at, due.id ROWS`, "claim/bytes-by-priority"},
	{"lost-lane-of-what-sleeps", "condition", pg + "create.go", `x.status<>{paused} AND (x.flow IS NULL OR x.leased) ORDER BY x.priority DESC LIMIT 1) AS priority FROM pair p`, `x.status<>{sleeping} AND (x.flow IS NULL OR x.leased) ORDER BY x.priority DESC LIMIT 1) AS priority FROM pair p`, "TestLostLanes"},
	{"lost-lane-beside-another", "condition", pg + "create.go", `AND x.workflow=l.workflow AND x.priority=l.priority)`, `AND x.workflow=l.workflow)`, "TestLostLanes"},
	{"signal-meets-one-of-another-namespace", "name", pg + "signals.go", `WHERE r.namespace=$2::text AND r.external_id=$3::text AND r.suffix=$4::text AND r.external_id IS NOT NULL AND r.status>={final} AND r.reuse={reuseAfterEnd}) q`,
		`WHERE $2::text<>'' AND r.external_id=$3::text AND r.suffix=$4::text AND r.external_id IS NOT NULL AND r.status>={final} AND r.reuse={reuseAfterEnd}) q`, "namespaces/signal-ids"},
	{"claim-of-what-others-leave-by-the-lowest-priority", "order", pg + "claim.go", `row_number() OVER (PARTITION BY head.d ORDER BY head.priority DESC, head.visible_at, head.id) AS nth FROM head) h`, `row_number() OVER (PARTITION BY head.d ORDER BY head.priority, head.visible_at, head.id) AS nth FROM head) h`, "tx/claim-in-order-beside-an-open-one"},
	{"cancel-of-the-unrecorded-beside-a-recorded-one", "condition", pg + "children.go", `AND (EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id)`, `AND (EXISTS (SELECT 1 FROM pawl.steps s WHERE s.run_id=r.id OR true)`, "cancel/unrecorded-is-final"},
	{"state-wakes-no-paused-run", "condition", pg + "state.go", `WHEN r.status IN ({sleeping},{paused}) AND r.wakes & $6`, `WHEN r.status IN ({sleeping}) AND r.wakes & $6`, "pause/event-while-paused"},
	{"list-by-external-id-leaves-out-what-is-canceling", "condition", sqlKit + "select.go", `r.external_id IS NOT NULL AND (r.status<{final} OR r.reuse={reuseNever})`, `r.external_id IS NOT NULL AND (r.status<{canceling} OR r.reuse={reuseNever})`, "list/by-external-id"},
	{"limit-mark-missing-for-an-earlier-run", "condition", marks, `(NEW.visible_at, NEW.id) > (substr(last, 74, 20)::bigint, substr(last, 38, 36)::uuid)`, `true`, "limit/started-in-any-order"},
	{"limit-mark-missing-for-another-key", "condition", marks, `left(last, 37) = '+' || NEW.flow AND`, `left(last, 1) = '+' AND`, "limit/started-in-one-call"},
	{"limit-mark-missing-for-those-left-behind", "condition", marks, `IF NOT OLD.leased AND OLD.flow IS NOT NULL THEN`, `IF false THEN`, "limit/first-leaves"},
	{"limit-mark-of-who-leaves-too", "condition", marks, `CROSS JOIN LATERAL (VALUES (x.id), ('ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)) m(id)`, `CROSS JOIN LATERAL (VALUES (x.id)) m(id)`, "tx/starts-and-cancels-under-limits"},
	{"limit-mark-kept-when-its-run-leaves", "condition", marks, "    PERFORM set_config('pawl_tx.flow', flow, true)", "    PERFORM set_config('pawl_tx.left', flow, true)", "tx/starts-and-cancels-under-limits"},
	{"limit-claims-past-marks-unread", "bound", pg + "limitclaim.go", `n < foldsAtOnce; n++ {`, `n < 1; n++ {`, "sizes/keys"},
	{"limit-folds-more-and-wakes-nobody", "order", pg + "limitclaim.go", `append(l.room(nil, nil), l.fold())...`, `l.fold()`, "sizes/keys"},
	{"limit-claims-past-flows-unread", "order", pg + "limitplan.go", `case best == nil || b.head.before(best):`, `case best == nil:`, "limit/crowd-at-a-full-key"},
	{"limit-claims-past-timed-flows-unread", "order", pg + "limitplan.go", "case b.state == flowTimed:\n\t\t\treturn true", "case b.state == flowTimed:", "limit/crowd-at-a-full-key"},
	{"limit-claims-past-turns-unread", "order", pg + "limitplan.go", `f == nil || max(b.turn, rule.clock) < f.fair.starts()`, `f == nil && best == nil`, "fair/behind-keys-that-wait"},
	{"outbox-counts-in-all-namespaces", "name", sqlKit + "outbox.go", `(SELECT count(*) FROM gone) WHERE namespace=:namespace AND name=:name AND`, `(SELECT count(*) FROM gone) WHERE name=:name AND`, "outbox/namespaces"},
	{"claim-under-limits-of-other-lanes", "condition", pg + "limitsql.go", `AND f.lane=named.name AND f.state=3 AND f.at<=`, `AND (f.lane=named.name OR true) AND f.state=3 AND f.at<=`, "limit/demands-alone"},
	{"signal-of-a-transaction-that-failed", "transaction", pg + "signals.go", `		clear(stored)
`, "", "TestSignalInASecondTransaction"},
	{"commit-two-steps-at-one-position", "condition", "store/validate.go", `if c.Steps[j].Position == c.Steps[i].Position {`, `if c.Steps[j].Position == c.Steps[i].Position && l.Payload < 0 {`, "steps/one-position"},
	{"fire-makes-its-run-twice", "transaction", pg + "schedules.go", `AND f.at=$22::bigint AND f.xmin=pg_current_xact_id_if_assigned()::xid)`, `AND f.at=$22::bigint)`, "fire/not-again-after-a-purge"},
	{"fire-does-not-advance", "condition", pg + "schedules.go", `SET next_at=$4::bigint, last_at=s.next_at`, `SET next_at=s.next_at, last_at=coalesce(s.next_at, $4::bigint)`, "fire/advances"},
	{"schedules-due-when-paused", "condition", sqlKit + "schedules.go", `{unpaused} AND s.next_at IS NOT NULL AND NOT s.name`, `s.next_at IS NOT NULL AND NOT s.name`, "schedules/due"},
	{"workers-asked-while-they-speak", "condition", sqlKit + "registry.go", `AND w.seen_at<=:now-:silent`, `AND w.seen_at<=:now-0*:silent`, "workers/asked-whom"},
	{"workers-asked-twice", "condition", sqlKit + "registry.go", askedOnce, strings.NewReplacer(" AND w.asked_at IS NULL", "", " AND asked_at IS NULL", "").Replace(askedOnce), "workers/asked-once"},
}
