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
}

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
