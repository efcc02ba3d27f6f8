package workflowtest_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// booking books twice, each time in a transaction.
var booking = workflow.New("booking", func(ctx workflow.Context, cents int) (int, error) {
	if err := workflow.DoTx(ctx, "book", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET cents=cents+?", cents)
		return err
	}); err != nil {
		return 0, err
	}
	return workflow.StepTx(ctx, "fee", func(ctx context.Context, tx *sql.Tx) (sum int, err error) {
		err = tx.QueryRowContext(ctx, "UPDATE account SET cents=cents-1 RETURNING cents").Scan(&sum)
		return sum, err
	})
})

func account(env *workflowtest.Env) {
	env.Tx(func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TABLE account (cents INTEGER); INSERT INTO account VALUES (100)")
		return err
	})
}

func TestStepTx(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		account(env)
		require.Equal(env, 149, workflowtest.Start(env, booking, 50).Result())
		cents := 0
		env.Tx(func(tx *sql.Tx) error { return tx.QueryRow("SELECT cents FROM account").Scan(&cents) })
		require.Equal(env, 149, cents)
	})
}

func TestStepTxIsUndone(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		account(env)
		workflowtest.Stub(env, "fee", func(context.Context) (int, error) { return 0, workflow.Permanent(errors.New("no fee")) })
		failing := workflow.New("failing", func(ctx workflow.Context, _ int) (int, error) {
			return 0, workflow.DoTx(ctx, "book", func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE account SET cents=0")
				return errors.Join(err, workflow.Permanent(errors.New("no")))
			})
		})
		_, err := workflowtest.Start(env, failing, 0).Wait()
		require.ErrorContains(env, err, "no")
		_, err = workflowtest.Start(env, booking, 50).Wait()
		require.ErrorContains(env, err, "no fee")
		cents := 0
		env.Tx(func(tx *sql.Tx) error { return tx.QueryRow("SELECT cents FROM account").Scan(&cents) })
		require.Equal(env, 150, cents)
	})
}

// A transaction and its record are one: no crash books twice.
func TestStepTxCrashes(t *testing.T) {
	cents := 0
	workflowtest.CrashEverywhere(t, booking, 50,
		workflowtest.Prepare(account),
		workflowtest.Finish(func(e *workflowtest.Env) {
			e.Tx(func(tx *sql.Tx) error { return tx.QueryRow("SELECT cents FROM account").Scan(&cents) })
		}),
		workflowtest.Observe(func() any { return cents }))
	require.Equal(t, 149, cents)
}

// postgresTx stands for a transaction of another database.
type postgresTx interface{ Exec(string) error }

func TestStepTxOfAnotherDatabase(t *testing.T) {
	pay := workflow.New("pay", func(ctx workflow.Context, n int) (int, error) {
		return workflow.StepTx(ctx, "pay", func(ctx context.Context, tx postgresTx) (int, error) { return n, tx.Exec("UPDATE ...") })
	})
	workflowtest.Run(t, func(env *workflowtest.Env) {
		_, err := workflowtest.Start(env, pay, 1).Wait()
		for _, word := range []string{`"pay"`, "postgresTx", "workflowtest.Stub"} {
			require.True(env, err != nil && strings.Contains(err.Error(), word), "%v does not say %s", err, word)
		}
		workflowtest.Stub(env, "pay", func(context.Context) (int, error) { return 7, nil })
		require.Equal(env, 7, workflowtest.Start(env, pay, 1).Result())
	})
}
