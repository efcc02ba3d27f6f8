// Package turso is Pawl's backend for Turso and other servers of libSQL (sqld), which speak
// SQLite's dialect over HTTP. Any number of processes may work on the same database, from
// anywhere.
//
//	st, err := turso.Open(ctx, "libsql://name-org.turso.io", turso.WithToken(token))
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//	eng := engine.New(st)
//
// Every call is one round trip. When the answer to a write is lost, the outcome is unknown, and the
// error says so. The server applies a write within [WithTimeout] or not at all. A read whose answer is
// lost, or has not come after a quarter of that time, is sent again.
//
// # What to use
//
//   - [Open] opens a [Store] and brings its schema up to date.
//   - [WithToken] and [WithTokenSource] set the token that the server requires.
//   - [WithMaxSleep] sets how often an idle store looks for the writes of other processes.
//   - [Store.Counters] counts round trips and rows, which are what Turso bills.
//   - [WithTransport] replaces the client; package backends/turso/libsqlclient provides one that
//     uses Turso's driver.
//
// The backend does not support transactions that are shared with programs or steps: workflow.StepTx
// and engine.Engine.InTx fail with store.ErrUnsupported.
//
// The section on Turso in docs/architecture.md explains how it works.
package turso
