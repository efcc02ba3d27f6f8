package backends_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
)

// The database is part of the program's configuration: a URL, whose scheme selects the backend.
func Example() {
	ctx := context.Background()
	url := "sqlite::memory:" // or postgres://user:password@host:5432/database
	st, err := backends.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	fmt.Println(st.Features().Name)
	// Output:
	// sqlite
}

// A deployment that migrates the schema in a separate step checks the schema first.
func ExampleSchemaOf() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	url := "sqlite:" + filepath.Join(dir, "pawl.db")

	_, err = backends.Open(ctx, url, backends.WithoutMigration())
	fmt.Println("as it is:", err == nil)

	st, err := backends.Open(ctx, url) // applies the missing migrations
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	schema, err := backends.SchemaOf(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("missing:", schema.Newest-schema.Version)
	// Output:
	// as it is: false
	// missing: 0
}

// ExampleSchemaSQL prints the SQL that a database administrator applies, instead of the program.
func ExampleSchemaSQL() {
	sql, err := backends.SchemaSQL("postgres://localhost/app", 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(sql, "CREATE TABLE"))
	// Output:
	// true
}
