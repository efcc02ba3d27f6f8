package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Pay moves money. The booking and the record of the step are one transaction: wherever a process
// is killed, the money moves once.
var Pay = workflow.New("pay", func(ctx workflow.Context, cents int) (int, error) {
	return workflow.StepTx(ctx, "book", func(ctx context.Context, tx pgx.Tx) (balance int, err error) {
		err = tx.QueryRow(ctx, "UPDATE account SET cents = cents - $1 RETURNING cents", cents).Scan(&balance)
		return balance, err
	})
})

// ExampleOpen opens a store in a schema of its own, in the program's database.
func ExampleOpen() {
	ctx := context.Background()
	st, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.WithSchema("jobs"))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	fmt.Println(st.Features().Name)
	// It prints:
	// postgres
}

// Pawl uses the program's own pool. An order and the run that pays for it are created in one
// transaction: both exist, or neither does.
func ExampleInTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE TABLE account (cents integer); INSERT INTO account VALUES (100); CREATE TABLE orders (cents integer)"); err != nil {
		log.Fatal(err)
	}
	st, err := postgres.New(ctx, pool)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(Pay); err != nil {
		log.Fatal(err)
	}

	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES (30)"); err != nil {
		log.Fatal(err)
	}
	h, err := Pay.Start(ctx, eng.InTx(postgres.InTx(tx)), 30)
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		log.Fatal(err)
	}

	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// It prints:
	// 70 <nil>
}
