package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflowtest"
)

func TestFulfill(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		calls.Store(0)
		run := workflowtest.Start(env, Fulfill, Order{Item: "a lamp"})
		env.Advance(10 * time.Second)
		require.EqualValues(t, 3, calls.Load(), "two attempts fail, the third succeeds")
		env.Advance(time.Minute)
		require.Equal(t, store.Sleeping, run.Status(), "the run waits for the approval")
		env.NoError(Approved.Send(env.Context(), env.Engine(), run.ID(), Approval{By: "ada"}))
		require.Equal(t, "a lamp shipped, paid by charge-1, approved by ada", run.Result())
		require.EqualValues(t, 3, calls.Load())
	})
}

// A crash at any point changes nothing about the result.
func TestFulfillSurvivesCrashes(t *testing.T) {
	workflowtest.CrashEverywhere(t, Fulfill, Order{Item: "a lamp"},
		workflowtest.Reset(func() { calls.Store(2) }),
		workflowtest.Script(func(env *workflowtest.Env, run store.ID) {
			env.NoError(Approved.Send(env.Context(), env.Engine(), run, Approval{By: "ada"}))
		}))
}

// The tutorial shows this program whole, and this test's first function.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorial.md")
	require.NoError(t, err)
	code, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(page), "```go\n"+string(code)+"```"), "docs/tutorial.md shows another program than main.go: copy it again")
	test, err := os.ReadFile("main_test.go")
	require.NoError(t, err)
	_, from, _ := strings.Cut(string(test), "\nfunc TestFulfill(")
	function, _, _ := strings.Cut("func TestFulfill("+from, "\n}\n")
	require.True(t, strings.Contains(string(page), "```go\n"+function+"\n}\n```"), "docs/tutorial.md shows another TestFulfill than main_test.go: copy it again")
}
