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
