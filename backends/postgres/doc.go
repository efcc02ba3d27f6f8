// Package postgres is Pawl's backend for PostgreSQL 15 and later, on pgx. Any number of
// processes may work on the same schema.
//
//	st, err := postgres.Open(ctx, "postgres://user:password@host:5432/database")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//	eng := engine.New(st)
//
// # What to use
//
//   - [Open] opens a [Store] with a pool of its own, and [New] one on the program's pool.
//     Both bring the schema up to date.
//   - [WithSchema] puts Pawl's tables into another schema than the default one.
//   - [InTx] and [InSQLTx] let the program write to its own tables and start runs in one
//     transaction. The other direction, a step whose work is a transaction, is
//     workflow.StepTx with pgx.Tx or *sql.Tx.
//   - [WithListenURL] and [WithPreparedStatements] are for servers behind a pooler.
//   - [SchemaOf] and [SchemaSQL] are for deployments that migrate in a step of their own.
//
// # Further reading
//
// docs/postgres.md describes poolers, privileges and the tables; docs/transactions.md describes
// transactions.
package postgres
