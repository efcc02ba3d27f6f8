package patterns

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflowtest"
)

func TestDigest(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		var all kept[[]string]
		digest := Digest(func(_ context.Context, _, to string, notes []string) error {
			all.add(append([]string{to}, notes...))
			return nil
		}, 3, time.Hour)
		env.Register(digest)
		notify := func(to string, notes ...string) {
			for _, n := range notes {
				env.NoError(Notify(env.Context(), env.Engine(), digest, to, to+n, n))
			}
		}
		notify("ann", "a", "b")
		notify("bob", "x")
		notify("ann", "b", "c", "d") // b is sent again
		env.Advance(time.Minute)
		require.Equal(t, [][]string{{"ann", "a", "b", "c"}}, all.list())
		env.Advance(time.Hour)
		require.ElementsMatch(t, [][]string{{"ann", "a", "b", "c"}, {"ann", "d"}, {"bob", "x"}}, all.list())
		notify("bob", "x", "y")
		env.Advance(2 * time.Hour)
		require.Contains(t, all.list(), []string{"bob", "y"})
	})
}

func TestSpend(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		account := Account(&ledger{}, time.Hour)
		env.Register(account)
		_, err := Spend(env.Context(), env.Engine(), account, "ann", "1", 10)
		require.ErrorIs(t, err, ErrOverdrawn)
		balance, err := Spend(env.Context(), env.Engine(), account, "ann", "refund", -30)
		env.NoError(err)
		require.EqualValues(t, 30, balance)
		balance, err = Spend(env.Context(), env.Engine(), account, "ann", "2", 10)
		env.NoError(err)
		require.EqualValues(t, 20, balance)
	})
}
