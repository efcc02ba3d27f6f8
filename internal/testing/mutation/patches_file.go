package main

// sqliteRunner contains the transactions of SQLite.
const sqliteRunner = "backends/sqlite/runner.go"

// filePatches are planted in how SQLite uses transactions. A database in memory has one connection,
// which shows none of these faults; in a file, a case holds each statement of a call until another
// call has ended.
var filePatches = []Patch{
	{"read-of-several-moments", "transaction", sqliteRunner, snapshot, severalMoments, "commit/consumed-seen-whole"},
	{"find-of-several-moments", "transaction", sqliteRunner, snapshot, severalMoments, "get/find-of-one-moment"},
	{"fork-statement-by-statement", "transaction", sqliteRunner, oneTransaction, severalTransactions, "fork/seen-whole"},
	{"import-statement-by-statement", "transaction", sqliteRunner, oneTransaction, severalTransactions, "import/seen-whole"},
	{"purge-statement-by-statement", "transaction", sqliteRunner, oneTransaction, severalTransactions, "purge/seen-whole"},
	{"fire-statement-by-statement", "transaction", sqliteRunner, oneTransaction, severalTransactions, "fire/seen-whole"},
	{"children-spawn-statement-by-statement", "transaction", sqliteRunner, oneTransaction, severalTransactions, "children/spawn-seen-whole"},
	{"children-close-statement-by-statement", "transaction", sqliteRunner, oneTransaction, severalTransactions, "children/close-seen-whole"},
	{"state-statement-by-statement", "transaction", sqliteRunner, oneTransaction, severalTransactions, "state/seen-whole"},

	// What only shows where flows have rows.
	{"limit-claim-leaves-the-old-head", "order", sqliteCore + "limitclaim.go", `add(planHeads, w.heads, nil)`, `add(planHeads, nil, nil)`, "limit/due-later"},
	{"limit-one-priority-a-claim", "number", sqliteCore + "limitsql.go", `UNION ALL SELECT queue, workflow, pin, (SELECT max(f.priority) FROM limit_flows f WHERE f.namespace=?2 AND f.queue=level.queue`, `UNION ALL SELECT queue, workflow, pin, (SELECT max(f.priority) FROM limit_flows f WHERE f.namespace=?1 AND f.queue=level.queue`, "limit/priorities"},
	{"limit-reads-runs-elsewhere", "name", sqliteCore + "limitsql.go", "FROM runs r INDEXED BY runs_flow\n\t\t\tWHERE r.namespace=?2 AND", "FROM runs r INDEXED BY runs_flow\n\t\t\tWHERE r.namespace>'' AND", "limit/namespaces-alike"},

	// Claims at once.
	{"once-takes-more-if-sent-again", "condition", sqliteOnce, `SELECT NOT EXISTS (SELECT 1 FROM mine) AND NOT`, `SELECT NOT`, "TestClaimIsSentAgain"},
	{"once-counts-again", "condition", sqliteOnce, `u WHERE changes()>0 GROUP`, `u WHERE true GROUP`, "TestClaimIsSentAgain"},
	{"once-finds-nothing-again", "condition", sqliteOnce, `WHERE (SELECT changes())=0 AND`, `WHERE (SELECT changes())<0 AND`, "TestClaimIsSentAgain"},
	{"once-tells-nobody-of-permits", "condition", sqliteOnce, `AND NOT EXISTS (SELECT 1 FROM limit_parks WHERE namespace=?2 AND wake_at=-1)`, ``, "TestClaimTellsOtherQueues"},
	{"once-under-a-fair-limit", "condition", sqliteOnce, `WHERE fair<>'' OR state=2`, `WHERE state=2`, "fair/turns"},
	{"once-past-flows-unread", "bound", sqliteOnce, `AND (SELECT count(*) FROM flows)<=`, `AND (SELECT count(*) FROM flows)<=1+`, "limit/order-of-keys"},
	{"once-without-the-permit-of-a-step", "condition", sqliteOnce, ` OR substr(flow, -6)<>',[],0]'`, ``, "limit/step-ends-together"},
	{"once-counts-a-takeover", "condition", sqliteOnce, `iif(r.under IS NULL, '[]', NULL) AS under`, `'[]' AS under`, "limit/takeover-beside-a-new-one"},
	{"once-beyond-its-bytes", "bound", sqliteOnce, " AND sum(` + size + `)<=?9", "", "limit/bytes"},
	{"once-without-tokens", "condition", sqliteOnce, `->>'t'>0, 0, max(`, `->>'t'<0, 0, max(`, "rate/burst-then-even"},
	{"once-forgets-what-is-held", "condition", sqliteOnce, `->>'c'-coalesce(k.held, 0)))`, `->>'c'-0*coalesce(k.held, 0)))`, "limit/concurrency"},
	{"once-counts-no-permits", "condition", sqliteOnce, `ON CONFLICT DO UPDATE SET held=held+excluded.held`, `ON CONFLICT DO UPDATE SET held=held`, "limit/concurrency"},
	{"once-tells-no-plan", "order", sqliteOnce, `SET version=version+1, stamp=excluded.stamp`, `SET version=version, stamp=excluded.stamp`, "TestPlanNoticesClaimAtOnce"},
	{"once-leaves-the-old-head", "order", sqliteOnce, `{SQL: onceHeads, Args: mine[:2], Unneeded: counted}`, `{SQL: onceHeads, Args: mine[:2], Unneeded: func() bool { return true }}`, "limit/due-later"},
	{"once-leaves-an-empty-flow", "order", sqliteOnce, `{SQL: onceGone, Args: mine[:2], Unneeded: counted}`, `{SQL: onceGone, Args: mine[:2], Unneeded: func() bool { return true }}`, "limit/first-leaves"},
	{"once-says-that-full-keys-are-due", "condition", sqliteOnce, `WHERE k.held>=`, `WHERE k.held>9+`, "limit/next-due"},
	{"once-takes-some-of-different-keys", "condition", sqliteOnce, `iif(alike, min(left), 0)`, `min(left)`, "limit/order"},
	{"once-in-the-order-of-ids", "order", sqliteOnce, `AND x.visible_at<=?3 AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=1 ORDER BY x.visible_at, x.id LIMIT ?4+0)`, `AND x.visible_at<=?3 AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=1 ORDER BY x.id LIMIT ?4+0)`, "limit/pass-on-history-together"},
	{"once-in-any-order", "order", sqliteOnce, `place<=n ORDER BY priority DESC, visible_at, id LIMIT`, `place<=n ORDER BY id LIMIT`, "limit/order-of-times"},
	{"once-beyond-a-demand", "bound", sqliteOnce, `FROM placed WHERE place<=n ORDER`, `FROM placed WHERE place<=n+1 ORDER`, "limit/demands"},
	{"once-of-the-lowest-priority", "order", sqliteOnce, `(PARTITION BY d ORDER BY priority DESC, visible_at, id)`, `(PARTITION BY d ORDER BY priority, visible_at, id)`, "limit/priorities"},
	{"once-takes-one-more", "bound", sqliteOnce, `i.key<room.n`, `i.key<=room.n`, "limit/concurrency"},
	{"once-counts-each-list-once", "condition", sqliteOnce, `sum(same.n) AS n`, `count(*) AS n`, "limit/concurrency"},
	{"once-without-a-look-at-flows", "condition", sqliteOnce, `(SELECT yes FROM plain) AND NOT max`, `NOT max`, "fair/turns"},
	{"once-takes-what-has-its-permit", "condition", sqliteOnce, ` AND NOT max(w.under IS NULL)`, ``, "limit/takeover-beside-a-new-one"},
	{"once-early", "condition", sqliteOnce, `AND x.priority=flows.priority AND x.flow=flows.flow AND x.visible_at<=?3`, `AND x.priority=flows.priority AND x.flow=flows.flow AND x.visible_at<=?3+60000000`, "limit/due-later"},
}

const sqliteOnce = sqliteCore + "limitonce.go"

const (
	snapshot       = "if len(stmts) == 1 { // a snapshot"
	severalMoments = "if len(stmts) >= 1 { // a snapshot"

	oneTransaction      = "\tif first.err = c.run(first.ctx, first.stmts); first.err != nil {\n"
	severalTransactions = `	for i := range first.stmts {
		if first.err == nil && i > 0 {
			_ = c.exec("COMMIT")
			first.err = c.begin(first.ctx)
		}
		if first.err == nil {
			first.err = c.run(first.ctx, first.stmts[i:i+1])
		}
	}
	if first.err != nil {
`
)
