package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// trace writes down what happens to a run: the calls of its steps, and its commits.
type trace struct {
	host
	lines []string
}

func newTrace() *trace {
	tr := &trace{}
	tr.told = func(c store.Commit) { tr.add("commit %s", describe(c)) }
	return tr
}

func (tr *trace) add(format string, args ...any) {
	tr.lines = append(tr.lines, fmt.Sprintf(format, args...))
}

func describe(c store.Commit) string {
	parts := []string{fmt.Sprint(c.Seq)}
	for _, s := range c.Steps {
		parts = append(parts, s.Name+" "+s.Status.String())
	}
	if c.Transition != nil {
		parts = append(parts, "and "+c.Transition.Kind.String())
	}
	return strings.Join(parts, ", ")
}

// step is a function step that succeeds.
func (tr *trace) step(b *exec.Branch, name string) error {
	_, err := b.Step(name, exec.StepOptions{}, nil, func(context.Context) ([]byte, error) {
		tr.add("call %s", name)
		return []byte("output of " + name), nil
	})
	return err
}

func completed(name string, index int) store.Step {
	return store.Step{
		StepKey: store.StepKey{Name: name, Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
		Index: index, Position: int64(index + 1), Attempt: 1, Output: []byte("output of " + name),
	}
}

// The side effects of a step begin when everything before it is durable. The record of the
// last step travels with the run's completion.
func TestStepsAreCommittedBeforeTheNextOneBegins(t *testing.T) {
	tr := newTrace()
	tr.execute(nil, func(b *exec.Branch) error { return errors.Join(tr.step(b, "a"), tr.step(b, "b")) })
	require.Equal(t, []string{"call a", "commit 1, a completed", "call b", "commit 2, b completed, and complete"}, tr.lines)
}

func TestRecordedStepIsNotCalled(t *testing.T) {
	tr := newTrace()
	tr.execute([]store.Step{completed("a", 0)}, func(b *exec.Branch) error {
		out, err := b.Step("a", exec.StepOptions{}, nil, func(context.Context) ([]byte, error) { return nil, errors.New("called again") })
		assert.Equal(t, "output of a", string(out))
		return errors.Join(err, tr.step(b, "b"))
	})
	require.Equal(t, []string{"call b", "commit 1, b completed, and complete"}, tr.lines)
}

// What has no side effect needs no commit of its own.
func TestValuesShareACommit(t *testing.T) {
	tr := newTrace()
	tr.execute(nil, func(b *exec.Branch) error {
		for _, name := range []string{"a", "b"} {
			if _, err := b.Value(name, func() ([]byte, error) { return nil, nil }); err != nil {
				return err
			}
		}
		return tr.step(b, "c")
	})
	require.Equal(t, []string{"commit 1, a completed, b completed", "call c", "commit 2, c completed, and complete"}, tr.lines)
}

func TestHistoryThatDoesNotFitFailsTheRun(t *testing.T) {
	t.Run("the code asks for another step", func(t *testing.T) {
		tr := newTrace()
		tr.execute([]store.Step{completed("a", 0)}, func(b *exec.Branch) error { return tr.step(b, "b") })
		require.Equal(t, []string{"commit 1, and fail"}, tr.lines)
		require.Equal(t, exec.CodeNondeterministic, tr.end.Transition.Failure.Code)
	})
	t.Run("the code returns too early", func(t *testing.T) {
		tr := newTrace()
		tr.execute([]store.Step{completed("a", 0)}, func(*exec.Branch) error { return nil })
		require.Contains(t, tr.end.Transition.Failure.Message, "the code returned, but the history continues with a")
	})
}

// The goroutine of a suspended run ends in the middle of its operation; only deferred
// functions run after that.
func TestSleepSuspendsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrace()
		tr.execute(nil, func(b *exec.Branch) error {
			defer tr.add("deferred")
			err := b.Sleep("nap", time.Hour, time.Time{})
			tr.add("awake")
			return err
		})
		require.Equal(t, []string{"deferred", "commit 1, nap running, and sleep"}, tr.lines)
		require.Equal(t, time.Hour, tr.end.Transition.After)
	})
}

// A wait that is over within the time that a run stays in memory does not suspend it.
func TestShortSleepDoesNotSuspendTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrace()
		tr.parkFor = time.Second
		tr.execute(nil, func(b *exec.Branch) error { return b.Sleep("nap", time.Second, time.Time{}) })
		require.Equal(t, []string{"commit 1, nap completed, and complete"}, tr.lines)
	})
}

func TestFailedAttemptIsRecordedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrace()
		tr.parkFor = time.Minute
		calls := 0
		tr.execute(nil, func(b *exec.Branch) error {
			_, err := b.Step("a", exec.StepOptions{Retry: exec.Policy{Attempts: 2, Initial: time.Second, Factor: 1}}, nil, func(context.Context) ([]byte, error) {
				calls++
				return nil, fmt.Errorf("attempt %d", calls)
			})
			var failed *exec.FailedStep
			assert.ErrorAs(t, err, &failed)
			assert.Equal(t, 2, failed.Attempts)
			return nil // the code has handled the failure
		})
		require.Equal(t, []string{"commit 1, a pending", "commit 2, a failed, and complete"}, tr.lines)
	})
}

// Once the lease is lost, nothing that the code does can be recorded: its next operation
// ends its goroutine.
func TestLostLeaseEndsTheCode(t *testing.T) {
	tr := newTrace()
	tr.refuse = store.ErrLeaseLost
	tr.execute(nil, func(b *exec.Branch) error {
		defer tr.add("deferred")
		return errors.Join(tr.step(b, "a"), tr.step(b, "b"))
	})
	require.Equal(t, []string{"call a", "commit 1, a completed", "deferred"}, tr.lines)
	require.ErrorIs(t, tr.end.Err, exec.ErrLeaseLost)
}

func TestOperationsOfOneBranchMustNotOverlap(t *testing.T) {
	tr := newTrace()
	tr.execute(nil, func(b *exec.Branch) error {
		_, err := b.Step("outer", exec.StepOptions{}, nil, func(context.Context) ([]byte, error) {
			err := tr.step(b, "inner")
			assert.ErrorIs(t, err, exec.ErrConcurrent)
			return nil, nil
		})
		return err
	})
	require.Equal(t, []string{"commit 1, outer completed, and complete"}, tr.lines)
}

// Branches have step keys of their own, so that the order in which they get on does not
// matter to the replay.
func TestBranchesRunSideBySide(t *testing.T) {
	tr := newTrace()
	tr.execute(nil, func(b *exec.Branch) error {
		started := make(chan struct{})
		left, err := b.Fork("left", func(b *exec.Branch) (any, error) {
			_, err := b.Step("wait", exec.StepOptions{}, nil, func(context.Context) ([]byte, error) {
				<-started
				return nil, nil
			})
			return "left is done", err
		})
		assert.NoError(t, err)
		_, err = b.Step("start", exec.StepOptions{}, nil, func(context.Context) ([]byte, error) {
			close(started)
			return nil, nil
		})
		assert.NoError(t, err)
		v, err := b.Join(left)
		assert.Equal(t, "left is done", v)
		return err
	})
	require.Equal(t, store.CompleteRun, tr.end.Transition.Kind)
}

func TestBranchesThatWaitForEachOtherFailTheRun(t *testing.T) {
	tr := newTrace()
	tr.execute(nil, func(b *exec.Branch) error {
		_, err := b.Join(b.Promise())
		return err
	})
	require.Equal(t, exec.CodeDeadlock, tr.end.Transition.Failure.Code)
}
