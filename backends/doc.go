// Package backends opens a store by its URL. The URL's scheme selects the backend:
//
//	st, err := backends.Open(ctx, "postgres://user:password@host:5432/database")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//	eng := engine.New(st)
//
// The backends that come with Pawl are in packages backends/sqlite (a file, or memory),
// backends/postgres and backends/turso (Turso and other servers of libSQL). This package imports
// all of them. A program that uses a single database should import that package instead: it then
// contains no other driver, and can use the options that only that backend has.
//
// # What to use
//
//   - [Open] opens a store and brings its schema up to date, unless [WithoutMigration] says
//     otherwise.
//   - [SchemaOf] reports which migrations a database has had, and [SchemaSQL] returns the SQL of
//     those that are missing, for deployments that migrate in a step of their own.
//   - [Register] adds a backend of your own.
//
// # Further reading
//
// docs/backends.md lists known backends and what each can do. docs/new-backend.md is a
// guide to writing one.
package backends
