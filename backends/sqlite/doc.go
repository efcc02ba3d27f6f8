// Package sqlite is Pawl's backend for SQLite: one file, without a server. Several
// processes of one machine may share the file.
//
//	st, err := sqlite.Open(ctx, "pawl.db")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//	eng := engine.New(st)
//
// A store in memory, for tests and experiments, has the location ":memory:".
//
// The driver is modernc.org/sqlite, which needs no C compiler.
//
// # What to use
//
//   - [Open] opens a [Store], creates the file if need be, and brings its schema up to date.
//   - [WithSynchronous] sets whether a commit waits for the disk. By default it does.
//   - [InTx] lets the program write to its own tables and start runs in one transaction.
//     The other direction, a step whose work is a transaction, is workflow.StepTx with
//     *sql.Tx.
//   - [SchemaOf] and [SchemaSQL] are for deployments that migrate in a step of their own.
//
// docs/transactions.md describes how to share the file with the program's own tables.
package sqlite
