package workflow_test

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

// Pay moves money. The booking and the record of the step are one transaction: wherever a process
// is killed, the money moves once. On PostgreSQL the type would be pgx.Tx.
var Pay = workflow.New("pay", func(ctx workflow.Context, cents int) (int, error) {
	return workflow.StepTx(ctx, "book", func(ctx context.Context, tx *sql.Tx) (balance int, err error) {
		err = tx.QueryRowContext(ctx, "UPDATE account SET cents = cents - ? RETURNING cents", cents).Scan(&balance)
		return balance, err
	})
})

// A step in a transaction on the database that holds Pawl's tables and the program's own.
func ExampleStepTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bank.db")

	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	st, err := sqlite.Open(ctx, file)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	if _, err := db.Exec("CREATE TABLE account (cents INTEGER); INSERT INTO account VALUES (100)"); err != nil {
		log.Fatal(err)
	}

	eng := engine.New(st)
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(Pay); err != nil {
		log.Fatal(err)
	}
	h, err := Pay.Start(ctx, eng, 30)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// 70 <nil>
}
