package patterns

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflowtest"
)

func TestLoad(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		failed := false
		load := Load(func(_ context.Context, from int) (int, error) {
			if from == 20 && !failed {
				failed = true
				return 10, errors.New("the source is busy")
			}
			return 10, nil
		})
		run := workflowtest.Start(env, load, 40)
		env.Advance(time.Hour)
		require.Equal(t, 40, run.Result())
		percent, err := Percent(env.Context(), env.Engine(), run.ID())
		env.NoError(err)
		require.Equal(t, 100, percent)
		var last Loaded
		env.NoError(Follow(env.Context(), env.Engine(), run.ID(), func(l Loaded) { last = l }))
		require.Equal(t, Loaded{40, 40}, last)
	})
}
