package turso_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/engine"
)

// The token of a database comes from where the program keeps its secrets. The writes of other
// processes are noticed within max_sleep.
func ExampleOpen() {
	ctx := context.Background()
	st, err := turso.Open(ctx, "libsql://shop-acme.turso.io",
		turso.WithToken(os.Getenv("TURSO_AUTH_TOKEN")),
		turso.WithMaxSleep(500*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
}

// ExampleSchemaSQL returns the schema, for users who apply it themselves and open the store with
// WithoutMigration.
func ExampleSchemaSQL() {
	sql, err := turso.SchemaSQL(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(sql, "CREATE TABLE"))
	// Output:
	// true
}
