package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Ship ships an order.
var Ship = workflow.New("ship", func(ctx workflow.Context, order int64) (string, error) {
	return fmt.Sprintf("order %d is shipped", order), nil
})

// The order and the run that ships it are written in one transaction: both exist, or
// neither does.
func ExampleEngine_InTx() {
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
	eng := engine.New(st)
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(Ship); err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE orders (item TEXT)"); err != nil {
		log.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	res, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('lamp')")
	if err != nil {
		log.Fatal(err)
	}
	order, err := res.LastInsertId()
	if err != nil {
		log.Fatal(err)
	}
	h, err := Ship.Start(ctx, eng.InTx(sqlite.InTx(tx)), order)
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}

	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// order 1 is shipped <nil>
}
