package workflowtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

type decision struct{ Yes bool }

var decided = workflow.NewSignal[decision]("decided")

// approval waits for thirty days, reminding every day.
var approval = workflow.New("approval", func(ctx workflow.Context, who string) (string, error) {
	for day := range 30 {
		d, err := decided.ReceiveTimeout(ctx, 24*time.Hour)
		if err == nil {
			return fmt.Sprintf("%s decided %v on day %d", who, d.Yes, day), nil
		}
		if !errors.Is(err, workflow.ErrTimeout) {
			return "", err
		}
		if err := workflow.Do(ctx, "remind", func(context.Context) error { return errors.New("no mail in tests") }); err != nil {
			return "", err
		}
	}
	return who + " never decided", nil
})

func TestThirtyDays(t *testing.T) {
	reminders := 0
	workflowtest.Run(t, func(env *workflowtest.Env) {
		workflowtest.StubDo(env, "remind", func(context.Context) error { reminders++; return nil })
		run := workflowtest.Start(env, approval, "ann")
		env.Advance(12*24*time.Hour + time.Hour)
		require.Equal(env, store.Sleeping, run.Status())
		require.Equal(env, 12, reminders)
		env.NoError(decided.Send(env.Context(), env.Engine(), run.ID(), decision{Yes: true}))
		require.Equal(env, "ann decided true on day 12", run.Result())

		reminders = 0
		require.Equal(env, "bob never decided", workflowtest.Start(env, approval, "bob").Result())
		require.Equal(env, 30, reminders)
	})
}

func TestSteps(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		workflowtest.StubDo(env, "remind", func(context.Context) error { return errors.New("mail is down") })
		run := workflowtest.Start(env, approval, "ann")
		_, err := run.Wait()
		require.ErrorContains(env, err, "mail is down")
		steps := run.Steps()
		require.Len(env, steps, 2)
		require.Equal(env, 5, steps[1].Attempt)
	})
}

// ledger is a world outside: idempotent by key, or not.
type ledger struct {
	keys    map[string]int
	charges int
}

func transfer(l *ledger, careful bool) *workflow.Workflow[int, int] {
	return workflow.New("transfer", func(ctx workflow.Context, cents int) (int, error) {
		for _, name := range []string{"debit", "credit"} {
			if err := workflow.Do(ctx, name, func(ctx context.Context) error {
				if careful && l.keys[workflow.IdempotencyKey(ctx)] > 0 {
					return nil
				}
				l.keys[workflow.IdempotencyKey(ctx)]++
				l.charges += cents
				return nil
			}); err != nil {
				return 0, err
			}
			if err := workflow.Sleep(ctx, "settle", time.Hour); err != nil {
				return 0, err
			}
		}
		return 2 * cents, nil
	})
}

func TestCrashEverywhere(t *testing.T) {
	l := &ledger{}
	workflowtest.CrashEverywhere(t, transfer(l, true), 50,
		workflowtest.Reset(func() { *l = ledger{keys: map[string]int{}} }),
		workflowtest.Observe(func() any { return l.charges }))
}

// A step that is not idempotent is found out.
func TestCrashEverywhereFinds(t *testing.T) {
	l := &ledger{}
	var found []string
	workflowtest.CrashWith(t, func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }, transfer(l, false), 50,
		workflowtest.Reset(func() { *l = ledger{keys: map[string]int{}} }),
		workflowtest.Observe(func() any { return l.charges }))
	require.Len(t, found, 2, "one before the record of each step")
	assert.Contains(t, found[0], "a crash before call 2")
	assert.Contains(t, found[0], "debit (completed)")
	assert.Contains(t, found[1], "credit (completed)")
}

func TestReplay(t *testing.T) {
	version := func(names ...string) *workflow.Workflow[int, int] {
		return workflow.New("ship", func(ctx workflow.Context, n int) (int, error) {
			for _, name := range names {
				if err := workflow.Do(ctx, name, func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
				if err := workflow.Sleep(ctx, "rest", time.Hour); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
	}
	var finished, halfway workflowtest.History
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, version("pack", "send"), 3)
		env.Advance(time.Minute)
		var err error
		halfway, err = workflowtest.Record(env.Context(), env.Engine(), run.ID())
		env.NoError(err)
		run.Result()
		finished, err = workflowtest.Record(env.Context(), env.Engine(), run.ID())
		env.NoError(err)
	})
	var file bytes.Buffer
	require.NoError(t, finished.Save(&file))
	loaded, err := workflowtest.Load(&file)
	require.NoError(t, err)

	workflowtest.Replay(t, version("pack", "send"), loaded)
	workflowtest.Replay(t, version("pack", "send"), halfway)
	workflowtest.Replay(t, version("pack", "label"), halfway) // it has not come to that yet
	for _, c := range []struct {
		h     workflowtest.History
		steps []string
		want  string
	}{
		{loaded, []string{"pack", "label"}, `recorded as function "send", but the code now asks for function "label"`},
		{loaded, []string{"pack"}, "the history continues with send"},
		{loaded, []string{"pack", "send", "bill"}, "now continues with"},
		{halfway, []string{"wrap"}, `recorded as function "pack"`},
	} {
		require.ErrorContains(t, workflowtest.Check(version(c.steps...), c.h), c.want)
	}
	_, err = workflowtest.Load(bytes.NewBufferString(`{"Runs":1}`))
	require.ErrorContains(t, err, "not a saved history")
}
