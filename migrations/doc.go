// Package migrations holds the schemas of the backends as migrations for goose
// (github.com/pressly/goose).
//
// A backend applies them by itself when a store is opened. This package is for programs
// that apply them together with their own, and open the store without:
//
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations.SQLite())
//	if err != nil {
//		return err
//	}
//	if _, err := provider.Up(ctx); err != nil {
//		return err
//	}
//	st, err := sqlite.Open(ctx, "pawl.db", sqlite.WithoutMigration())
//
// [SQLite] is for SQLite and Turso, [Postgres] for PostgreSQL. To read the SQL, or to apply
// it by hand, use the SchemaSQL functions of the backends.
package migrations
