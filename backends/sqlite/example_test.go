package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
)

// A store in a file. By default, commits wait for the disk and survive a power failure; the option
// here trades that for speed.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	st, err := sqlite.Open(ctx, filepath.Join(dir, "pawl.db"), sqlite.WithSynchronous(sqlite.Normal))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	health, err := eng.Health(ctx)
	fmt.Println(health.Backend, err)
	// Output:
	// sqlite <nil>
}

// The program's own tables are in the same file. Its own writes and the start of the run are one
// transaction, which is rolled back here.
func ExampleInTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.db")
	st, err := sqlite.Open(ctx, file)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	defer eng.Close()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	ship := workflow.Ref[int, string]("ship")
	h, err := ship.Start(ctx, eng.InTx(sqlite.InTx(tx)), 42)
	if err != nil {
		log.Fatal(err)
	}
	run, err := eng.InTx(sqlite.InTx(tx)).Get(ctx, h.ID())
	fmt.Println("in the transaction:", run.Status, err)
	if err := tx.Rollback(); err != nil {
		log.Fatal(err)
	}
	_, err = eng.Get(ctx, h.ID())
	fmt.Println("afterwards:", err != nil)
	// Output:
	// in the transaction: pending <nil>
	// afterwards: true
}
