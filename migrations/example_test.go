package migrations_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/migrations"
)

// A program that has migrations of its own applies Pawl's in the same way, and opens the
// store without.
func ExampleSQLite() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "pawl.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations.SQLite())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := provider.Up(ctx); err != nil {
		log.Fatal(err)
	}

	st, err := sqlite.Open(ctx, file, sqlite.WithoutMigration())
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	fmt.Println(st.Features().Name)
	// Output:
	// sqlite
}

// The files, in the order in which they are applied.
func ExamplePostgres() {
	names, err := fs.Glob(migrations.Postgres(), "*.sql")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names[0])
	// Output:
	// 00001_init.sql
}
