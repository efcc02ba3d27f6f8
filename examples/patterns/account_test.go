package patterns

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

type ledger struct{ lines sync.Map }

func (l *ledger) Write(_ context.Context, key string, a Amount) error {
	l.lines.Store(key, a)
	return nil
}

func TestAccount(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		lines := &ledger{}
		run := workflowtest.Start(env, Account(lines, 24*time.Hour), int64(1000))
		account := workflow.ToRun(env.Engine(), run.ID())
		for range 2 { // the second one is the same order
			balance, err := Pay(env.Context(), account, "lamp", 300)
			env.NoError(err)
			require.EqualValues(t, 700, balance)
		}
		_, err := Pay(env.Context(), account, "house", 100_000)
		require.ErrorIs(t, err, ErrOverdrawn)
		_, err = Transfer.Ask(env.Context(), account, Amount{Cents: 5})
		require.Equal(t, workflow.CodeRefused, workflow.ErrorCode(err))
		require.EqualValues(t, 700, run.Result())
		n := 0
		lines.lines.Range(func(any, any) bool { n++; return true })
		require.Equal(t, 1, n, "lines of the ledger")
	})
}
