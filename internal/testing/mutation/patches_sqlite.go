package main

import "strings"

const (
	sqliteCore  = "backends/internal/sqlitecore/"
	keyTriggers = "migrations/sqlite/00020_limit_triggers.sql"
	runTriggers = "migrations/sqlite/00021_told.sql"
	sqlKit      = "backends/internal/sqlkit/" // shared with PostgreSQL
)

// sqlitePatches are planted in the code that SQLite and Turso share, and in SQLite's own.
var sqlitePatches = []Patch{
	// Claims.
	{"claim-takes-of-a-paused-queue", "condition", sqliteCore + "claim.go", ` WHERE namespace=?2 AND queue=j.value->>'q' AND workflow='')`, ` WHERE namespace=?2 AND queue=j.value->>'q' AND workflow='' AND false)`, "pause/queue"},
	{"claim-takes-of-a-paused-workflow", "condition", sqliteCore + "claim.go", ` WHERE namespace=?2 AND queue='' AND workflow=j.value->>'w')`, ` WHERE namespace=?2 AND queue='' AND workflow=j.value->>'w' AND false)`, "pause/workflow"},
	{"claim-of-the-highest-priority-alone", "condition", sqliteCore + "claim.go", `AND x.workflow=level.workflow AND x.pin=level.pin AND x.priority<level.priority`, `AND x.workflow=level.workflow AND x.priority<level.priority-1000000`, "claim/priority-first"},
	{"claim-in-the-order-of-ids", "order", sqliteCore + "claim.go", `ORDER BY x.visible_at, x.id LIMIT ?4+0)
		WHERE`, `ORDER BY x.id LIMIT ?4+0)
		WHERE`, "claim/due-time-next"},
	{"claim-with-the-lowest-priority-first", "order", sqliteCore + "claim.go", `WHERE place<=n ORDER BY priority DESC, visible_at, id`, `WHERE place<=n ORDER BY priority, visible_at, id`, "claim/order-over-demands"},
	{"claim-beyond-a-demand", "bound", sqliteCore + "claim.go", `WHERE place<=n ORDER`, `WHERE place<=n+1 ORDER`, "claim/never-more-than-asked"},
	{"claim-early", "condition", sqliteCore + "claim.go", `AND x.visible_at<=?3 AND x.visible_at IS NOT NULL`, `AND x.visible_at<=?3+1 AND x.visible_at IS NOT NULL`, "claim/not-early"},
	{"claim-a-microsecond-late", "condition", sqliteCore + "claim.go", `AND x.visible_at<=?3 AND x.visible_at IS NOT NULL`, `AND x.visible_at<?3 AND x.visible_at IS NOT NULL`, "claim/not-early"},
	{"claim-runs-a-canceling-run-as-usual", "condition", sqliteCore + "claim.go", `SET status=CASE status WHEN {canceling} THEN {canceling} ELSE {running} END`, `SET status={running}`, "cancel/holder-crashes"},
	{"claim-keeps-the-epoch", "condition", sqliteCore + "claim.go", `epoch=epoch+(visible_at<>?7), seq=0`, `epoch=max(epoch, 1), seq=0`, "claim/epoch-grows"},
	{"claim-id-of-any-worker", "condition", "backends/internal/sqlkit/stamp.go", `h.Write([]byte(p.Worker))`, `h.Write([]byte(p.Namespace))`, "claim/id-of-two-workers"},
	{"claim-keeps-the-epoch-of-an-id-used-again", "condition", sqliteCore + "claim.go", `epoch=epoch+(visible_at<>?7), seq=0`, `epoch=epoch+(stamp<>?5), seq=0`, "claim/id-of-two-workers"},
	{"claim-keeps-seq", "condition", sqliteCore + "claim.go", `epoch=epoch+(visible_at<>?7), seq=0,`, `epoch=epoch+(visible_at<>?7),`, "commit/seq-begins-anew"},
	{"claim-counts-each-claim-as-a-crash", "condition", sqliteCore + "claim.go", `crashes=crashes+(leased AND visible_at<>?7)`, `crashes=crashes+1`, "claim/crashes-counted"},
	{"claim-counts-no-crash", "condition", sqliteCore + "claim.go", `crashes=crashes+(leased AND visible_at<>?7)`, `crashes=crashes`, "claim/crashes-counted"},
	{"claim-resets-the-start", "condition", sqliteCore + "claim.go", `started_at=coalesce(started_at, ?3)`, `started_at=?3`, "claim/takeover-after-expiry"},
	{"claim-beyond-its-bytes", "bound", sqliteCore + "claim.go", `WHERE nth=1 OR total<=?9`, `WHERE nth>=1 OR total<=?9`, "claim/inputs-bounded-in-bytes"},
	{"claim-of-one-at-least-is-none", "bound", sqliteCore + "claim.go", `WHERE nth=1 OR total<=?9`, `WHERE total<=?9`, "claim/inputs-bounded-in-bytes"},
	{"claim-misses-what-is-next", "condition", sqliteCore + "claim.go", `AND x.stamp<>?4 ORDER BY x.visible_at LIMIT 1)`, `AND x.stamp<>?4 ORDER BY x.visible_at DESC LIMIT 1)`, "claim/next-due-of-the-rest"},
	{"claim-brings-read-signals", "condition", sqliteCore + "claim.go", "` AND s.consumed=0\n\t\t\tAND s.pos IN (SELECT x.pos FROM signals x WHERE x.run_id=mine.id AND x.consumed=0 ORDER", "` AND s.consumed>=0\n\t\t\tAND s.pos IN (SELECT x.pos FROM signals x WHERE x.run_id=mine.id ORDER", "signal/consumed-once"},
	{"claim-brings-two-groups", "bound", sqliteCore + "claim.go", `ORDER BY x.name LIMIT 1001+0) ORDER BY mine.id, g.name`, `ORDER BY x.name LIMIT 2) ORDER BY mine.id, g.name`, "sizes/pages-of-groups"},
	{"claim-leaves-out-large-inputs", "condition", sqliteCore + "claim.go", `mine CROSS JOIN large_inputs l ON l.run_id=mine.id`, `mine CROSS JOIN large_inputs l ON l.run_id=mine.id AND false`, "payload/at-the-limit"},

	// Extensions.
	{"extend-ignores-the-epoch", "condition", sqliteCore + "extend.go", `AND worker=? AND epoch=? AND leased=1`, `AND worker=? AND epoch>=? AND leased=1`, "extend/lost-after-takeover"},
	{"extend-of-what-is-finished", "condition", sqliteCore + "extend.go", `AND epoch=? AND leased=1`, `AND epoch=?`, "extend/lost-after-finish"},
	{"extend-in-any-namespace", "name", sqliteCore + "extend.go", `WHERE id=? AND namespace=? AND worker=?`, `WHERE id=? AND ?<>'' AND worker=?`, "namespaces/leases"},
	{"extend-hides-a-cancel", "condition", sqliteCore + "extend.go", `RETURNING status={canceling}, pausing`, `RETURNING status=9, pausing`, "extend/tells-canceling"},
	{"extend-is-no-heartbeat", "condition", sqliteCore + "extend.go", `SET seen_at=?, asked_at=NULL`, `SET host=coalesce(host, ?), asked_at=NULL`, "extend/heartbeat"},

	// Commits.
	{"commit-ignores-the-epoch", "condition", sqliteCore + "commit.go", "AND epoch=? AND seq=?-1 AND leased=1\n\t\tRETURNING", "AND epoch>=? AND seq=?-1 AND leased=1\n\t\tRETURNING", "commit/old-epoch"},
	{"commit-ignores-the-worker", "condition", sqliteCore + "commit.go", "` WHERE id=? AND namespace=? AND worker=? AND epoch=? AND seq=?-1 AND leased=1\n\t\tRETURNING", "` WHERE id=? AND namespace=? AND ?<>'' AND epoch=? AND seq=?-1 AND leased=1\n\t\tRETURNING", "commit/other-worker"},
	{"commit-plain-ignores-the-epoch", "condition", sqliteCore + "commit.go", `AND epoch=? AND seq=?-1 AND leased=1 AND status={running} AND pausing=0 AND events=?`, `AND epoch>=? AND seq=?-1 AND leased=1 AND status={running} AND pausing=0 AND events=?`, "commit/old-epoch-of-any-kind"},
	{"commit-plain-end-ignores-the-epoch", "condition", sqliteCore + "commit.go", `AND epoch=? AND seq=?-1 AND leased=1 AND status={running} AND events=? AND grp IS NULL AND parts & {partChildren} = 0`, `AND epoch>=? AND seq=?-1 AND leased=1 AND status={running} AND events=? AND grp IS NULL AND parts & {partChildren} = 0`, "commit/old-epoch-of-any-kind"},
	{"commit-plain-skips-numbers", "condition", sqliteCore + "commit.go", `AND seq=?-1 AND leased=1 AND status={running} AND pausing=0 AND events=?`, `AND seq<=?-1 AND leased=1 AND status={running} AND pausing=0 AND events=?`, "commit/gap-of-any-kind"},
	{"commit-skips-numbers", "condition", sqliteCore + "commit.go", "AND seq=?-1 AND leased=1\n\t\tRETURNING", "AND seq<=?-1 AND leased=1\n\t\tRETURNING", "commit/gap-of-any-kind"},
	{"commit-plain-keeps-crashes", "condition", sqliteCore + "commit.go", "plainKeep = sqlkit.Text(`UPDATE runs SET seq=?, stamp=?, crashes=0,", "plainKeep = sqlkit.Text(`UPDATE runs SET seq=?, stamp=?,", "claim/crashes-reset-by-commit"},
	{"commit-plain-hides-a-pause", "condition", sqliteCore + "commit.go", `AND status={running} AND pausing=0 AND events=?`, `AND status={running} AND events=?`, "pause/running-at-next-transition"},
	{"commit-plain-ends-what-runs-on", "condition", sqliteCore + "commit.go", "stamp=?, crashes=0, parts=parts | ?\n", "stamp=?, crashes=0, finished_at=visible_at, parts=parts | ?\n", "commit/leaves-the-run-running"},
	{"commit-plain-end-counts-no-child", "condition", sqliteCore + "commit.go", `AND events=? AND grp IS NULL AND parts & {partChildren} = 0`, `AND events=? AND parts & {partChildren} = 0`, "children/last-one-wakes"},
	{"commit-plain-end-leaves-children", "condition", sqliteCore + "commit.go", `AND grp IS NULL AND parts & {partChildren} = 0`, `AND grp IS NULL`, "children/follow-a-final-parent"},
	{"commit-sleeps-over-an-event", "condition", sqliteCore + "commit.go", `WHEN events>? THEN min(coalesce(?, ?), ?, coalesce(deadline, ?))`, `WHEN events>?+1000000 THEN min(coalesce(?, ?), ?, coalesce(deadline, ?))`, "sleep/unseen-event"},
	{"commit-sleeps-past-the-deadline", "condition", sqliteCore + "commit.go", `ELSE coalesce(min(?, deadline), ?, deadline) END`, `ELSE coalesce(?, ?) END`, "sleep/deadline"},
	{"commit-of-a-canceling-run-sleeps", "condition", sqliteCore + "commit.go", `status=CASE WHEN status={canceling} THEN {canceling} WHEN pausing=1 THEN {paused} ELSE ? END`, `status=CASE WHEN pausing=1 THEN 4 ELSE ? END`, "sleep/canceling"},
	{"commit-forgets-a-pause", "condition", sqliteCore + "commit.go", `WHEN pausing=1 THEN {paused} ELSE ? END`, `WHEN pausing=2 THEN 4 ELSE ? END`, "pause/running-at-next-transition"},
	{"commit-keeps-the-generation", "condition", sqliteCore + "commit.go", `generation=generation+1`, `generation=generation`, "commit/continue-as-new"},
	{"commit-replaces-final-steps", "condition", sqliteCore + "commit.go", `WHERE steps.status<{stepFinal}`, `WHERE steps.status<9`, "steps/later-record-replaces"},
	{"commit-never-replaces-steps", "condition", sqliteCore + "commit.go", `WHERE steps.status<{stepFinal}`, `WHERE steps.status<0`, "steps/later-record-replaces"},
	{"answer-replaces-the-first", "condition", sqliteCore + "answers.go", ` AND consumed=1 AND answered_at IS NULL AND`, ` AND consumed=1 AND`, "answer/first-stays"},
	{"answer-of-an-unread-signal", "condition", sqliteCore + "answers.go", ` AND consumed=1 AND answered_at IS NULL AND`, ` AND answered_at IS NULL AND`, "answer/not-consumed"},
	{"answers-of-any-namespace", "name", sqliteCore + "answers.go", ` AND r.namespace=?2`, ` AND ?2<>''`, "answer/other-namespace"},
	{"answers-beyond-their-bytes", "bound", sqliteCore + "answers.go", `OVER w<=1 AS fits`, `OVER w>=1 AS fits`, "answer/bounded"},
	{"commit-leaves-signals-unread", "condition", sqliteCore + "commit.go", `SET consumed=1, payload=NULL`, `SET consumed=0, payload=NULL`, "signal/consumed-once"},
	{"commit-counts-children-twice", "condition", sqliteCore + "commit.go", `SET total=total+1, open=open+1`, `SET total=total+1, open=open+2`, "children/last-one-wakes"},
	{"commit-awaits-at-any-epoch", "condition", sqliteCore + "commit.go", `armGroup = ` + "`" + `UPDATE groups SET armed=?, wake_open`, `armGroup = ` + "`" + `UPDATE groups SET armed=?+1, wake_open`, "children/last-one-wakes"},
	{"commit-sleeps-on-a-met-await", "condition", sqliteCore + "commit.go", `WHERE id=? AND stamp=? AND status IN ({sleeping},{paused})`, `WHERE id=? AND stamp=? AND status IN (4)`, "children/finished-before-sleep"},
	{"commit-misses-that-one-has-failed", "bound", sqliteCore + "commit.go", `NOT (?>0 AND failed+canceled>=?)`, `NOT (?>1 AND failed+canceled>=?)`, "children/failures-already-met"},
	{"commit-retry-keeps-failed-steps", "condition", sqliteCore + "commit.go", `AND f.status={stepFailed} AND f.position<=s.position`, `AND f.status={canceling} AND f.position<=s.position`, "commit/retry-forgets-failed-steps"},
	{"commit-retry-forgets-what-came-before", "condition", sqliteCore + "commit.go", `AND f.status={stepFailed} AND f.position<=s.position`, `AND f.status={stepFailed}`, "commit/retry-forgets-failed-steps"},
	{"commit-retry-forgets-other-branches", "condition", sqliteCore + "commit.go", `AND (f.branch='' OR s.branch='' OR`, `AND (true OR f.branch='' OR s.branch='' OR`, "commit/retry-forgets-failed-steps"},
	{"commit-continue-keeps-groups", "condition", sqliteCore + "commit.go", `SET grp=NULL, ordinal=0 WHERE parent=? AND grp IS NOT NULL`, `SET ordinal=0 WHERE parent=? AND grp IS NOT NULL`, "children/continue-keeps-them-running"},
	{"commit-repeat-is-lost", "condition", sqlKit + "commit.go", `case f.Seq >= c.Seq:`, `case f.Seq > c.Seq:`, "commit/repeat"},
	{"commit-repeat-of-another-worker", "condition", sqlKit + "commit.go", `case f.Epoch != c.Lease.Epoch || f.Worker != c.Lease.Worker:`, `case f.Epoch != c.Lease.Epoch:`, "commit/repeat-by-another-worker"},
	{"commit-truncates-due-times", "bound", sqliteCore + "commit.go", `due = b.after(s.DueIn)`, `due = b.after(s.DueIn.Truncate(time.Millisecond))`, "steps/due-in-goes-first"},
	{"commit-keeps-the-later-of-two-times", "bound", sqliteCore + "commit.go", `At.UnixMicro() < due.(int64))`, `At.UnixMicro() > due.(int64))`, "sleep/earlier-of-both"},

	// Children and parents.
	{"children-canceled-do-not-count", "condition", sqliteCore + "children.go", `SET open=open-t.n, canceled=canceled+t.n`, `SET canceled=canceled+t.n`, "children/canceled-counts"},
	{"children-wake-an-older-sleep", "condition", sqliteCore + "children.go", `g.run_id=runs.id AND g.armed=runs.epoch`, `g.run_id=runs.id AND g.armed>0`, "children/earlier-await-of-another-group"},
	{"children-failures-never-wake", "condition", sqliteCore + "children.go", `OR g.wake_failures>0 AND g.failed+g.canceled>=g.wake_failures`, ``, "children/failures-wake"},
	{"children-failures-always-wake", "condition", sqliteCore + "children.go", `g.wake_failures>0 AND g.failed+g.canceled`, `g.failed+g.canceled`, "children/failures-do-not-matter"},
	{"children-abandoned-are-canceled", "condition", sqliteCore + "children.go", `c.parent=tree.id WHERE c.parent IS NOT NULL AND c.on_close={closeCancel} AND`, `c.parent=tree.id WHERE c.parent IS NOT NULL AND c.on_close>=0 AND`, "cancel/abandoned-child-lives"},
	{"children-final-ones-are-canceled", "condition", sqliteCore + "children.go", `WHERE id=?1 AND namespace=?2 AND status<{final} AND status<>{canceling}`, `WHERE id=?1 AND namespace=?2 AND status<=6 AND status<>{canceling}`, "cancel/finished"},
	{"children-of-any-namespace-are-canceled", "name", sqliteCore + "children.go", `WHERE id=?1 AND namespace=?2 AND status<{final}`, `WHERE id=?1 AND ?2<>'' AND status<{final}`, "namespaces/runs"},
	{"children-recorded-end-at-once", "condition", sqliteCore + "children.go", `AND EXISTS (SELECT 1 FROM steps WHERE run_id=runs.id)`, `AND false`, "cancel/recorded-is-canceling"},

	// Control.
	{"pause-loses-the-status", "condition", sqliteCore + "control.go", `SET told=NULL, paused_from=iif(status={running}, paused_from, status)`, `SET told=NULL, paused_from=1`, "pause/resume-keeps-time"},
	{"pause-does-not-mark-a-running-run", "condition", sqliteCore + "control.go", `pausing=status={running}`, `pausing=0`, "pause/running-at-next-transition"},
	{"resume-leaves-the-mark", "condition", sqliteCore + "control.go", `WHERE id=? AND namespace=? AND (status={paused} OR pausing=1)`, `WHERE id=? AND namespace=? AND status={paused}`, "pause/unmark"},
	{"restart-keeps-the-epoch", "condition", sqliteCore + "control.go", `attempt=1, epoch=epoch+1, seq=0, worker=NULL`, `attempt=1, seq=0, worker=NULL`, "restart/zombie"},
	{"restart-of-what-completed", "condition", sqliteCore + "control.go", `status IN ({failed},{canceled}) AND NOT EXISTS`, `status IN (6,7,8) AND NOT EXISTS`, "restart/not-finished"},
	{"restart-takes-a-held-id", "condition", sqliteCore + "control.go", `AND (o.status<{final} OR o.reuse={reuseNever}) AND o.id<>runs.id)`, `AND o.status<0 AND o.id<>runs.id)`, "restart/external-id-taken"},
	{"restart-counts-a-child-twice", "condition", sqliteCore + "control.go", `finished_at=NULL, grp=NULL, ordinal=0`, `finished_at=NULL, ordinal=0`, "restart/child-counts-once"},
	{"fork-copies-the-named-step", "bound", sqliteCore + "control.go", `AND (? OR position<(SELECT position`, `AND (? OR position<=(SELECT position`, "fork/keeps-steps-before"},
	{"fork-copies-unfinished-steps", "condition", sqliteCore + "control.go", `FROM steps WHERE run_id=? AND status={stepCompleted}`, `FROM steps WHERE run_id=? AND status>0`, "fork/keeps-all"},
	{"purge-of-what-is-young", "condition", sqliteCore + "control.go", `AND finished_at<=? AND finished_at IS NOT NULL`, `AND finished_at<=?+3600000000 AND finished_at IS NOT NULL`, "purge/only-final-and-old"},
	{"purge-of-children-whose-parent-lives", "condition", sqliteCore + "control.go", `WHERE p.id=runs.parent AND p.status<{final})`, `WHERE p.id=runs.parent AND p.status<0)`, "purge/keeps-children-of-live-parents"},
	{"purge-leaves-large-inputs", "condition", sqliteCore + "control.go", `"signals", "large_inputs",`, `"signals",`, "purge/with-all-that-belongs"},
	{"purge-leaves-items", "condition", sqliteCore + "control.go", `"large_inputs", "stream_items",`, `"large_inputs",`, "stream/purged"},
	{"append-of-a-zombie", "condition", sqliteCore + "streams.go", ` AND r.worker=?14 AND r.epoch=?15 AND r.leased=1`, ` AND r.worker<>?14||?15`, "stream/fenced"},
	{"items-without-reset", "condition", sqliteCore + "streams.go", `j.key=0 AND c.freed>0`, `j.key=0 AND c.freed<0`, "stream/superseded"},
	{"items-are-not-superseded", "condition", sqliteCore + "streams.go", `AND (s.epoch, s.attempt)<(r.epoch, ?8) WHERE`, `AND (s.epoch, s.attempt)<(0, ?8) WHERE`, "stream/superseded"},
	{"items-of-the-next-generation", "condition", sqliteCore + "streams.go", "`r.generation-?14`", "`r.generation-?14*0`", "stream/generations"},

	// Debounce.
	{"debounce-replaces-what-has-begun", "condition", sqliteCore + "debounce.go", `AND epoch=0 AND status IN`, `AND leased=0 AND status IN`, "debounce/begun"},
	{"debounce-ignores-paused-runs", "condition", sqliteCore + "debounce.go", `AND status IN ({pending}, {paused})
			AND NOT EXISTS`, `AND status={pending}
			AND NOT EXISTS`, "debounce/paused"},
	{"debounce-replaces-again", "condition", sqliteCore + "debounce.go", `FROM runs x WHERE x.id=?14) AND NOT EXISTS (SELECT 1 FROM debounced_starts WHERE namespace=?11 AND id=?14 AND at>?15)`, `FROM runs x WHERE x.id=?14) AND ?15 IS NOT NULL`, "debounce/repeated"},
	{"debounce-by-its-own-first-start", "condition", sqliteCore + "debounce.go", `AND NOT EXISTS (SELECT 1 FROM runs x WHERE x.id=?14) AND`, `AND`, "debounce/first-repeated"},
	{"debounce-without-its-limit", "bound", sqliteCore + "debounce.go", `coalesce(created_at+?9, ?8)`, `coalesce(?8+?9, ?8)`, "debounce/at-most"},
	{"debounce-keeps-large-inputs", "condition", sqliteCore + "debounce.go", `FROM large_inputs WHERE run_id IN (SELECT r.id`, `FROM large_inputs WHERE run_id IN (SELECT NULL`, "debounce/payloads"},
	{"debounce-knows-for-ever", "bound", sqliteCore + "debounce.go", `AND s.id=?2 AND s.at>?3`, `AND s.id=?2 AND s.at<>?3`, "debounce/known-for-a-time"},

	// Coordination.
	{"signal-to-what-is-final", "condition", sqliteCore + "signals.go", `FROM runs r WHERE r.status<{final} AND r.namespace=?`, `FROM runs r WHERE r.status<9 AND r.namespace=?`, "signal/finished"},
	{"signal-wakes-nobody", "condition", sqliteCore + "signals.go", `WHEN status IN ({sleeping},{paused}) AND wakes & ? THEN min(`, `WHEN status IN (5) AND wakes & ? THEN min(`, "signal/wakes-sleeper"},
	{"signal-wakes-who-does-not-ask", "condition", sqliteCore + "signals.go", `WHEN status IN ({sleeping},{paused}) AND wakes & ? THEN min(`, `WHEN status IN ({sleeping},{paused}) AND (wakes & ? OR true) THEN min(`, "signal/no-wake-unasked"},
	{"signal-to-the-next-run-again", "condition", sqliteCore + "signals.go", `s.run_id=p.id AND s.id=?))`, `s.run_id=p.id AND s.id=? AND false))`, "signal/repeat-to-the-next-run"},
	{"start-signal-heard-by-nobody", "condition", sqliteCore + "signalstart.go", "` WHERE true` + unheard + `", "` WHERE ?=? AND ?=? IS NOT NULL OR true`+`", "create/signal-repeat-after-finish"},
	{"start-signal-to-any-workflow", "name", sqliteCore + "signalstart.go", `status<{final} AND workflow=?)`, `status<{final} AND ? IS NOT NULL)`, "create/signal-of-another-workflow"},
	{"start-signal-to-a-former-holder", "condition", sqliteCore + "signalstart.go", `startMet(` + "`0`" + `, ` + "`namespace=? AND external_id=? AND suffix=? AND `+held", `startMet(` + "`2`" + `, ` + "`namespace=? AND external_id=? AND suffix=? AND `+held", "create/signal-repeat-after-finish"},
	{"start-signal-unhinted", "hint", sqliteCore + "signalstart.go", `err := h.WokenRow(scan, &id)`, `var queue string; var due bool; err := scan(sqlkit.ID(&id), &queue, &due)`, "hints/of-start-signal"},
	{"signal-out-of-order", "order", sqliteCore + "signals.go", `SELECT r.id, ?, r.events+1, ?`, `SELECT r.id, ?, -r.events-1, ?`, "signal/order"},
	{"state-of-what-is-final", "condition", sqliteCore + "state.go", `AND status<{final} AND NOT EXISTS`, `AND status<9 AND NOT EXISTS`, "state/finished"},
	{"state-ignores-versions", "condition", sqliteCore + "state.go", `, 0)<>j.value->>'v')`, `, 0)<>j.value->>'v' AND false)`, "state/compare-and-set"},
	{"state-versions-of-one-call-are-one", "condition", sqliteCore + "state.go", `SELECT r.id, ?, ?, r.events-?, ?`, `SELECT r.id, ?, ?, r.events-0*?, ?`, "state/set-and-get"},

	// Creation.
	{"create-eager-on-a-paused-queue", "condition", sqliteCore + "create.go", `WHERE namespace=? AND (queue=? AND workflow='' OR queue='' AND workflow=?)) ON CONFLICT`, `WHERE namespace=? AND (queue=? AND workflow='' OR queue='' AND workflow=?) AND false) ON CONFLICT`, "create/eager-on-paused-queue"},
	{"create-with-the-earlier-of-delay-and-time", "bound", sqliteCore + "create.go", `return max(m.after(r.After), r.At.UnixMicro())`, `return min(m.after(r.After), r.At.UnixMicro())`, "create/later-of-delay-and-time"},
	{"create-is-not-due-at-its-deadline", "condition", sqliteCore + "create.go", `deadline, visible = d, min(visible, d)`, `deadline = d`, "create/deadline-makes-claimable"},
	{"create-forgets-the-priority", "condition", sqliteCore + "create.go", `r.Queue, int64(r.Priority), visible`, `r.Queue, int64(0), visible`, "claim/priority-first"},

	// Schedules, registry, locks.
	{"fire-early", "condition", sqliteCore + "schedules.go", `AND next_at=?3 AND ?3<=?4`, `AND next_at=?3`, "fire/not-early"},
	{"fire-of-an-edited-schedule", "condition", sqliteCore + "schedules.go", `AND ?3<=?4 AND (?8 IS NULL OR updated_at=?8)`, `AND ?3<=?4`, "fire/put-meanwhile"},
	{"fire-does-not-advance", "condition", sqliteCore + "schedules.go", `UPDATE schedules SET next_at=?1, last_at=next_at`, `UPDATE schedules SET next_at=next_at, last_at=coalesce(next_at, ?1)`, "fire/advances"},
	{"fire-of-another-time-advances", "condition", sqliteCore + "schedules.go", `AND name=?3 AND next_at=?4`, `AND name=?3 AND (next_at=?4 OR true)`, "fire/other-time-than-put-back"},
	{"fire-loses-a-large-input", "condition", sqliteCore + "schedules.go", `if len(p.Run.Input) > inlineInput {`, `if len(p.Run.Input) > inlineInput && p.At.IsZero() {`, "fire/large-input"},
	{"fire-that-fails-forgets", "name", sqliteCore + "schedules.go", `AND EXISTS (SELECT 1 FROM firings WHERE namespace=?1 AND schedule=?2 AND at=?3)`, `AND EXISTS (SELECT 1 FROM firings WHERE ?1<>'' AND schedule=?2 AND at=?3)`, "fire/forgets"},
	{"fork-before-a-step-of-another-run", "condition", sqliteCore + "control.go", `(? OR EXISTS (SELECT 1 FROM steps WHERE run_id=runs.id AND branch=?`, `(? OR EXISTS (SELECT 1 FROM steps WHERE true AND branch=?`, "fork/unknown-step"},
	{"fire-forgets-nothing", "condition", sqliteCore + "schedules.go", `AND at<?4 ORDER BY at LIMIT ?5+0)`, `AND at<?4 AND false ORDER BY at LIMIT ?5+0)`, "fire/forgets"},
	{"schedules-due-when-paused", "condition", sqlKit + "schedules.go", `{unpaused} AND s.next_at IS NOT NULL AND NOT s.name`, `s.next_at IS NOT NULL AND NOT s.name`, "schedules/due"},
	{"schedules-delete-leaves-firings", "condition", sqlKit + "schedules.go", `DELETE FROM pawl.firings WHERE namespace=:namespace AND schedule=:schedule`, `DELETE FROM pawl.firings WHERE namespace=:namespace AND schedule=:schedule AND false`, "schedules/delete"},
	{"lock-of-another-is-taken", "condition", sqlKit + "registry.go", `WHERE l.until<=:now OR l.owner=excluded.owner`, `WHERE l.until<=:now OR true`, "lock/one-owner"},
	{"lock-never-expires", "condition", sqlKit + "registry.go", `WHERE l.until<=:now OR l.owner=excluded.owner`, `WHERE l.until<=:now-1000000000000 OR l.owner=excluded.owner`, "lock/expires"},
	{"lock-released-by-anyone", "condition", sqlKit + "registry.go", `DELETE FROM pawl.locks WHERE namespace=:namespace AND name=:name AND owner=:owner`, `DELETE FROM pawl.locks WHERE namespace=:namespace AND name=:name AND owner<>''`, "lock/release"},
	{"lock-of-any-namespace-is-released", "name", sqlKit + "registry.go", `DELETE FROM pawl.locks WHERE namespace=:namespace AND name=:name`, `DELETE FROM pawl.locks WHERE namespace<>'' AND name=:name`, "namespaces/locks"},
	{"workers-never-offline", "condition", sqlKit + "registry.go", `s.seen_at+s.ttl<=:now OR`, `s.seen_at+1000*s.ttl<=:now OR`, "workers/offline-after-ttl"},
	{"workers-asked-while-they-speak", "condition", sqlKit + "registry.go", `AND w.seen_at<=:now-:silent`, `AND w.seen_at<=:now-0*:silent`, "workers/asked-whom"},
	{"workers-asked-twice", "condition", sqlKit + "registry.go", askedOnce, strings.NewReplacer(" AND w.asked_at IS NULL", "", " AND asked_at IS NULL", "").Replace(askedOnce), "workers/asked-once"},
	{"workflows-updated-in-part", "condition", sqlKit + "registry.go", `SET queue=excluded.queue, meta=excluded.meta`, `SET meta=excluded.meta`, "workflows/replace"},

	// What generated mutations broke unseen.
	{"commit-number-is-the-count-of-events", "condition", sqliteCore + "commit.go", `AND seq=?-1 AND leased=1 AND status={running} AND pausing=0 AND events=?`, `AND (seq=?-1 OR events>0) AND leased=1 AND status={running} AND pausing=0 AND events=?`, "commit/gap-of-any-kind"},
	{"commit-two-steps-at-one-position", "condition", "store/validate.go", `if c.Steps[j].Position == c.Steps[i].Position {`, `if c.Steps[j].Position == c.Steps[i].Position && l.Payload < 0 {`, "steps/one-position"},
	{"sent-signals-of-every-run", "condition", sqlKit + "reads.go", `FROM pawl.signals s WHERE s.run_id=:run AND s.pos>:position ORDER`, `FROM pawl.signals s WHERE (s.run_id=:run OR true) AND s.pos>:position ORDER`, "export/sent"},
	{"get-bounded-in-any-namespace", "name", sqliteCore + "runs.go", `ON r.id=unhex(j.value) AND r.namespace=?2 AND`, `ON r.id=unhex(j.value) AND ?2<>'' AND`, "namespaces/get-in-every-form"},
	{"list-by-external-id-leaves-out-what-is-canceling", "condition", sqlKit + "select.go", `r.external_id IS NOT NULL AND (r.status<{final} OR r.reuse={reuseNever})`, `r.external_id IS NOT NULL AND (r.status<{canceling} OR r.reuse={reuseNever})`, "list/by-external-id"},
	{"limit-step-permit-outlives-free", "condition", runTriggers, `OF told ON runs WHEN OLD.leased = 1 AND OLD.step_under IS NOT NULL AND (NEW.leased = 0 OR NEW.step_under IS NULL) BEGIN`, `OF told ON runs WHEN OLD.leased = 1 AND OLD.step_under IS NOT NULL AND NEW.leased = 0 BEGIN`, "limit/step-free"},
	{"limit-step-takes-no-permit", "condition", runTriggers, `OF told ON runs WHEN NEW.leased = 1 AND OLD.leased = 0 AND NEW.step_under IS NOT NULL BEGIN`, `OF told ON runs WHEN NEW.leased = 1 AND OLD.leased = 1 AND NEW.step_under IS NOT NULL BEGIN`, "limit/step"},
	{"limit-end-wakes-nobody", "condition", keyTriggers, `WHEN NEW.held < OLD.held`, `WHEN NEW.held > OLD.held`, "limit/concurrency"},
	{"limit-key-in-use-is-forgotten", "condition", keyTriggers, `WHEN NEW.held = 0 AND NEW.tat = 0`, `WHEN NEW.held <= 1 AND NEW.tat = 0`, "limit/lowered"},
	{"limit-key-with-a-weight-is-forgotten", "condition", keyTriggers, `AND NEW.vtime = 0 AND NEW.weight = 1 BEGIN`, `AND NEW.vtime = 0 BEGIN`, "fair/weight-stays"},
	{"limit-plain-end-tells-no-queue", "order", sqliteCore + "commit.go", `frees(b.hints, b.queue)`, `_ = b.queue`, "hints/of-complete-under-limit"},
	{"limit-plain-end-remembers-another-queue", "name", sqlKit + "permits.go", `permit{r.Queue, r.Under}`, `permit{r.Workflow, r.Under}`, "hints/of-complete-under-limit"},
	{"limit-keys-wait-in-any-namespace", "name", sqliteCore + "limitverbs.go", `INDEXED BY runs_flow WHERE r.namespace=?1 AND`, `INDEXED BY runs_flow WHERE r.namespace>='' AND`, "limit/namespaces"},
	{"claim-beside-limits-takes-what-is-paused", "condition", sqliteCore + "limitsql.go", "AND x.status<>{paused} AND x.limited=0 ORDER BY x.visible_at, x.id LIMIT ?4+0)\n\t\tWHERE level.priority IS NOT NULL),\n\twanted", "AND x.status<>{sleeping} AND x.limited=0 ORDER BY x.visible_at, x.id LIMIT ?4+0)\n\t\tWHERE level.priority IS NOT NULL),\n\twanted", "limit/beside-free-runs"},
	{"limit-bytes-count-anew", "condition", sqliteCore + "limitplan.go", `(p.begun || len(p.picks) > 0)`, `len(p.picks) > 0`, "limit/bytes-of-many"},
	{"limit-park-at-a-deleted-key-sleeps", "number", sqliteCore + "limitsql.go", `AND k.key=j.value->>1), 0)) AND`, `AND k.key=j.value->>1), 1)) AND`, "limit/freed-meanwhile"},
	{"limit-fair-again-forgets-turns", "condition", sqliteCore + "limitverbs.go", `max(l.clock, coalesce((SELECT vtime`, `min(l.clock, coalesce((SELECT vtime`, "fair/live-turns"},
	{"limit-one-priority-a-claim", "number", sqliteCore + "limitsql.go", `UNION ALL SELECT queue, workflow, pin, (SELECT max(f.priority) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=level.queue`, `UNION ALL SELECT queue, workflow, pin, (SELECT max(f.priority) FROM limit_flows f WHERE f.namespace=?1 AND f.queue=level.queue`, "limit/priorities"},
	{"limit-since-of-the-last-flow", "extreme", sqliteCore + "limitverbs.go", `(SELECT min(head_at) FROM used u`, `(SELECT max(head_at) FROM used u`, "limit/since"},
	{"limit-waiting-runs-count-twice", "condition", sqliteCore + "limitverbs.go", `AND r.pin=u.pin AND r.priority=u.priority AND r.flow=u.flow`, `AND r.pin=u.pin AND r.flow=u.flow`, "limit/since"},
	{"limit-waiting-runs-are-not-due", "condition", sqliteCore + "limitverbs.go", `AND r.flow=u.flow AND r.visible_at<=?6 AND`, `AND r.flow=u.flow AND`, "limit/since"},
	{"limit-fair-queues-in-any-order", "bound", sqliteCore + "limitplan.go", `if d < 0 || d == 0 &&`, `if d <= 0 || d == 0 &&`, "fair/queues-of-a-key"},
	{"limit-fair-takes-the-next-key-early", "condition", sqliteCore + "limitplan.go", `(c == nil || p.start(f) <= p.start(c))`, `(c == nil && p.start(f) < 0)`, "fair/weights-in-one-claim"},
	{"limit-fair-again-forgets-steps", "number", sqliteCore + "limitverbs.go", `json(x.flow->'$[0]'), json(x.flow->'$[1]')`, `json(x.flow->'$[0]'), json(x.flow->'$[0]')`, "fair/live-steps"},
	{"limit-fair-only-the-last-limit", "extreme", sqliteCore + "limitsql.go", `SELECT queue, workflow, pin, (SELECT min(f.fair) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=lane.queue`, `SELECT queue, workflow, pin, (SELECT max(f.fair) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=lane.queue`, "fair/several-limits"},
	{"limit-forgets-keys-elsewhere", "name", sqliteCore + "limitsql.go", "planForgetFair = `DELETE FROM limit_keys WHERE namespace=?1 AND", "planForgetFair = `DELETE FROM limit_keys WHERE ?1<>'' AND", "limit/namespaces-forgotten"},
	{"limit-forgets-parks-elsewhere", "name", sqliteCore + "limitsql.go", "planEmpty = `DELETE FROM limit_parks WHERE namespace=?1 AND", "planEmpty = `DELETE FROM limit_parks WHERE ?1<>'' AND", "limit/namespaces-parked"},
	{"limit-reads-runs-elsewhere", "name", sqliteCore + "limitsql.go", "FROM runs r INDEXED BY runs_flow\n\t\t\tWHERE r.namespace=?2 AND", "FROM runs r INDEXED BY runs_flow\n\t\t\tWHERE r.namespace>'' AND", "limit/namespaces-alike"},
	{"limit-fair-wakes-another-build", "condition", sqliteCore + "limitsql.go", `AND x.pin=a.pin AND x.state=2 AND x.fair>''`, `AND x.state=2 AND x.fair>''`, "limit/pins-of-a-key"},
	{"limit-fair-wakes-another-queue", "condition", sqliteCore + "limitsql.go", `AND x.park_tokens=a.tokens AND x.queue=a.queue AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair>''`, `AND x.park_tokens=a.tokens AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair>''`, "limit/workflows-of-a-key"},
	{"limit-later-of-another-workflow", "condition", sqliteCore + "limitsql.go", "AND x.workflow=lane.workflow\n\t\t\tAND x.pin=lane.pin AND x.head_at<=?3 AND x.state=1", "\n\t\t\tAND x.pin=lane.pin AND x.head_at<=?3 AND x.state=1", "fair/due-later"},
	{"limit-plans-on-for-a-full-demand", "bound", sqliteCore + "limitplan.go", `if p.room[b.demand] <= 0 || b.at != nil`, `if p.room[b.demand] < 0 || b.at != nil`, "limit/demands-of-many-keys"},
	{"limit-reads-parked-flows-again", "condition", sqliteCore + "limitsql.go", "AND x.head_at<=?3 AND x.state=0 ORDER BY x.head_at, x.head_id", "AND x.head_at<=?3 ORDER BY x.head_at, x.head_id", "limit/crowd-at-a-full-key"},
	{"limit-wakes-another-limit", "condition", sqliteCore + "limitsql.go", "x.park_name=a.name AND x.park_key=a.key\n\t\t\tAND x.park_tokens=a.tokens AND x.queue=a.queue AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair=''", "x.park_key=a.key\n\t\t\tAND x.park_tokens=a.tokens AND x.queue=a.queue AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair=''", "limit/crowd-at-another-limit"},
	{"limit-fair-wakes-another-limit", "condition", sqliteCore + "limitsql.go", "x.park_name=a.name AND x.park_key=a.key\n\t\t\tAND x.park_tokens=a.tokens AND x.queue=a.queue AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair>''", "x.park_key=a.key\n\t\t\tAND x.park_tokens=a.tokens AND x.queue=a.queue AND x.workflow=a.workflow AND x.pin=a.pin AND x.state=2 AND x.fair>''", "limit/crowd-at-another-limit"},
	{"limit-forgets-what-a-park-has-more", "bound", sqliteCore + "limitclaim.go", "a.cut = n[true] >= most || n[false] >= most", "a.cut = n[true] > most || n[false] > most", "limit/crowd-behind-another-key"},
	{"limit-claims-past-flows-that-became-due", "bound", sqliteCore + "limitclaim.go", `later[k]++; later[k] == l.loose`, `later[k]++; later[k] > l.loose`, "limit/crowd-at-a-full-key"},
	{"limit-claims-past-keys-unread", "bound", sqliteCore + "limitclaim.go", `for demand := range l.Demands {`, `for demand := range l.Demands[:0] {`, "limit/crowd-of-free-keys"},
	{"limit-claims-past-what-is-unread", "order", sqliteCore + "limitplan.go", "if b.unordered {\n\t\t\treturn true", "if b.unordered {\n\t\t\tcontinue", "sizes/keys"},
	{"limit-chooses-a-key-without-runs", "condition", sqliteCore + "limitplan.go", `if f.first() == nil || !p.open(f) {`, `if !p.open(f) {`, "fair/key-without-more-runs"},
	{"limit-judges-keys-alone", "condition", sqliteCore + "limitverbs.go", `(fair<>coalesce(j.name, '') OR`, `(fair=coalesce(j.name, '') OR`, "fair/another-limit-decides"},
	{"limit-claims-what-is-paused-meanwhile", "condition", sqliteCore + "limitsql.go", "visible_at IS NOT NULL AND status<>{paused}\n\t\t\tAND EXISTS", "visible_at IS NOT NULL\n\t\t\tAND EXISTS", "limit/paused-meanwhile"},
	{"limit-lists-full-buckets", "condition", sqliteCore + "limitverbs.go", `OR ?8 AND tat-?9>?6)`, `OR ?8)`, "rate/key-full-again"},
	{"limit-counts-other-queues", "condition", sqliteCore + "limitverbs.go", "WHERE r.namespace=?1 AND r.queue=u.queue\n\t\t\tAND", "WHERE r.namespace=?1\n\t\t\tAND", "limit/waiting-of-a-key"},
	{"limit-counts-what-is-due-later", "condition", sqliteCore + "limitverbs.go", `AND r.visible_at<=?6 AND r.visible_at IS NOT NULL`, `AND r.visible_at IS NOT NULL`, "limit/waiting-of-a-key"},
	{"limit-set-again-for-another-rule", "condition", sqliteCore + "limitverbs.go", `AND name=?4 AND set_rule=?5)`, `AND name=?4 AND set_rule IS NOT NULL)`, "audit/effect"},
	{"outbox-counts-in-all-namespaces", "name", sqlKit + "outbox.go", `dropped=dropped+changes() WHERE namespace=:namespace AND name=:name AND`, `dropped=dropped+changes() WHERE name=:name AND`, "outbox/namespaces"},
	{"outbox-next-is-the-last", "order", sqlKit + "outbox.go", `SELECT min(w.due_at) FROM`, `SELECT max(w.due_at) FROM`, "outbox/next-at"},
	{"outbox-delete-drops-elsewhere", "name", sqlKit + "outbox.go", "SQLite: `DELETE FROM changes WHERE seq IN (SELECT w.seq FROM changes w WHERE w.namespace=:namespace AND", "SQLite: `DELETE FROM changes WHERE seq IN (SELECT w.seq FROM changes w WHERE :namespace<>'' AND", "outbox/namespaces"},

	// What the triggers of limits and changes are not told.
	{"told-not-of-a-claim", "condition", sqliteCore + "limitsql.go", `leased=1, told=NULL, limited=0`, `leased=1, limited=0`, "limit/concurrency"},
	{"told-not-of-an-end", "condition", sqliteCore + "commit.go", `plainTold  = tells(plainEnd)`, `plainTold  = plainEnd`, "limit/concurrency"},
	{"told-not-of-an-end-with-records", "condition", sqliteCore + "commit.go", `, told=NULL, status=?, output=?`, `, status=?, output=?`, "limit/ends-when-run-is-canceled-and-cleans-up"},
	{"told-not-of-a-yield", "condition", sqliteCore + "commit.go", `, told=NULL, step_under=?, limited=`, `, step_under=?, limited=`, "limit/ends-when-run-sleeps"},
	{"told-not-of-a-free-step", "condition", sqliteCore + "commit.go", `UPDATE runs SET told=NULL, step_under=NULL`, `UPDATE runs SET step_under=NULL`, "limit/step-free"},
	{"told-not-of-a-pin", "condition", sqliteCore + "commit.go", `UPDATE runs SET told=NULL, pin=?`, `UPDATE runs SET pin=?`, "limit/pinned"},
	{"told-not-of-an-await-that-is-met", "condition", sqliteCore + "commit.go", `UPDATE runs SET told=NULL, visible_at=min`, `UPDATE runs SET visible_at=min`, "limit/awaits"},
	{"told-not-of-a-child's-end", "condition", sqliteCore + "children.go", "UPDATE runs SET told=NULL, events=events+1, wakes=wakes & ~{wakeChildren}, visible_at=min(coalesce(visible_at, ?), ?)", "UPDATE runs SET events=events+1, wakes=wakes & ~{wakeChildren}, visible_at=min(coalesce(visible_at, ?), ?)", "limit/awaits"},
	{"told-not-of-a-tree's-end", "condition", sqliteCore + "children.go", `stamp=?7, told=NULL, step_under`, `stamp=?7, step_under`, "outbox/deleted"},
	{"told-not-of-a-lease-that-is-taken", "condition", sqliteCore + "control.go", `UPDATE runs SET told=NULL, status={pending}, leased=0`, `UPDATE runs SET status={pending}, leased=0`, "limit/ends-when-run-is-ended-by-force"},
	{"told-not-of-a-pause", "condition", sqliteCore + "control.go", `UPDATE runs SET told=NULL, paused_from`, `UPDATE runs SET paused_from`, "outbox/kinds"},
	{"told-not-of-a-resume", "condition", sqliteCore + "control.go", `UPDATE runs SET told=NULL, status=CASE`, `UPDATE runs SET status=CASE`, "limit/paused"},
	{"told-not-of-an-unpin", "condition", sqliteCore + "control.go", `UPDATE runs SET told=NULL, pin=''`, `UPDATE runs SET pin=''`, "limit/unpinned"},
	{"told-not-of-a-restart", "condition", sqliteCore + "control.go", `UPDATE runs SET told=NULL, status={pending}, attempt=1`, `UPDATE runs SET status={pending}, attempt=1`, "limit/restart"},
	{"told-not-of-a-replaced-start", "condition", sqliteCore + "debounce.go", `UPDATE runs SET told=NULL, input=?1`, `UPDATE runs SET input=?1`, "debounce/replaces"},
	{"told-not-of-a-signal", "condition", sqliteCore + "signals.go", `told=NULL, visible_at=CASE`, `visible_at=CASE`, "limit/woken"},
	{"told-of-no-permit", "condition", sqliteCore + "permits.go", `AND under IS NULL AND step_under IS NULL AND NOT`, `AND step_under IS NULL AND NOT`, "limit/ends-by-another-handle"},
	{"told-of-no-permit-of-a-step", "condition", sqliteCore + "permits.go", `AND under IS NULL AND step_under IS NULL AND NOT`, `AND under IS NULL AND NOT`, "limit/step-ends-by-another-handle"},
	{"told-of-no-subscription", "condition", sqliteCore + "permits.go", ` AND NOT EXISTS (SELECT 1 FROM subscriptions n WHERE n.namespace=runs.namespace)`, ``, "outbox/kinds"},
	{"a-lost-transaction-leaves-calls-waiting", "condition", "backends/sqlite/runner.go", `finish(other, other.err)`, `if other == j { finish(other, other.err) }`, "TestSharedTransactionEnds"},

	// Pages.
	{"bounds-ignore-bytes", "bound", sqliteCore + "bounds.go", `OR before+size<=`, `OR 0*before+0*size<=`, "claim/bounded-in-bytes"},
	{"bounds-of-half-a-page", "bound", sqlKit + "page.go", "fits {\n\t\t*list", "fits && len(*list) < 400 {\n\t\t*list", "inbox/pages-of-signals"},
}

// askedOnce is the text of two statements, each of which would suffice to ask a worker once.
const askedOnce = `AND w.answers>0 AND w.asked_at IS NULL
	AND w.seen_at<=:now-:silent AND w.seen_at+w.ttl>:now` + "`" + `

var (
	someAskable = NewQuery("some workers to ask", ` + "`" + `SELECT EXISTS (SELECT 1` + "`" + `+askable+` + "`" + `)` + "`" + `)
	// It locks the workers in the order of their ids, as every statement does that locks several.
	askWorkers = NewQuery("ask workers", ` + "`" + `UPDATE pawl.workers SET asked_at=:late WHERE namespace=:namespace AND asked_at IS NULL`
