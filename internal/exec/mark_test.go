package exec_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

func marked(name string, index int) store.Step {
	s := completed(name, index)
	s.Kind, s.Output = store.KindMark, nil
	return s
}

func in(branch string, s store.Step, position int64) store.Step {
	s.Branch, s.Position = branch, position
	return s
}

// fraudCheck is the changed code: a, then new behind the mark or old, then c.
func (tr *trace) fraudCheck(b *exec.Branch) error {
	if err := tr.step(b, "a"); err != nil {
		return err
	}
	if b.Changed("m") {
		if err := tr.step(b, "new"); err != nil {
			return err
		}
	} else if err := tr.step(b, "old"); err != nil {
		return err
	}
	return tr.step(b, "c")
}

func TestChangedIsAnsweredByTheHistory(t *testing.T) {
	for name, tt := range map[string]struct {
		history []store.Step
		want    []string
	}{
		"a run that begins": {nil, []string{
			"call a", "commit 1, a completed, changed m completed", "call new", "commit 2, new completed", "call c", "commit 3, c completed, and complete"}},
		"a run that has just come to it": {[]store.Step{completed("a", 0)}, []string{
			"commit 1, changed m completed", "call new", "commit 2, new completed", "call c", "commit 3, c completed, and complete"}},
		"a run that is past it": {[]store.Step{completed("a", 0), completed("old", 1)}, []string{
			"call c", "commit 1, c completed, and complete"}},
		"a run that was told true": {[]store.Step{completed("a", 0), marked("changed m", 1)}, []string{
			"call new", "commit 1, new completed", "call c", "commit 2, c completed, and complete"}},
		"a run of code that has the new path alone": {[]store.Step{completed("a", 0), marked("deprecated m", 1), completed("new", 2)}, []string{
			"call c", "commit 1, c completed, and complete"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrace()
			tr.execute(tt.history, tr.fraudCheck)
			require.Equal(t, tt.want, tr.lines)
		})
	}
}

// A mark has nothing recorded behind it in its own branch, but the history is past it when
// it has a branch that the code forks only later.
func TestChangedSeesTheBranchesBehindIt(t *testing.T) {
	for name, tt := range map[string]struct {
		history []store.Step
		want    bool
	}{
		"no branch":                      {nil, true},
		"a branch that is forked before": {[]store.Step{in("early", completed("s", 0), 1)}, true},
		"a branch that is forked behind": {[]store.Step{in("early", completed("s", 0), 1), in("late", completed("s", 0), 2)}, false},
		"a branch below that one":        {[]store.Step{in("early", completed("s", 0), 1), in("late/below", completed("s", 0), 2)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrace()
			tr.execute(tt.history, func(b *exec.Branch) error {
				one := func(b *exec.Branch) (any, error) { return nil, tr.step(b, "s") }
				early, _ := b.Fork("early", one)
				_, _ = b.Join(early)
				assert.Equal(t, tt.want, b.Changed("m"))
				late, _ := b.Fork("late", func(b *exec.Branch) (any, error) {
					below, _ := b.Fork("below", one)
					_, _ = b.Join(below)
					return one(b)
				})
				_, err := b.Join(late)
				return err
			})
		})
	}
}

func TestDeprecatedMarkMayBeLeftOut(t *testing.T) {
	deprecated := func(tr *trace) func(b *exec.Branch) error {
		return func(b *exec.Branch) error {
			_ = tr.step(b, "a")
			b.Deprecated("m")
			_ = tr.step(b, "new")
			return tr.step(b, "c")
		}
	}
	without := func(tr *trace) func(b *exec.Branch) error {
		return func(b *exec.Branch) error {
			_ = tr.step(b, "a")
			_ = tr.step(b, "new")
			return tr.step(b, "c")
		}
	}
	onlyA := func(tr *trace) func(b *exec.Branch) error {
		return func(b *exec.Branch) error { return tr.step(b, "a") }
	}
	for name, tt := range map[string]struct {
		history []store.Step
		code    func(tr *trace) func(b *exec.Branch) error
		want    []string
	}{
		"a new run records it": {nil, deprecated, []string{
			"call a", "commit 1, a completed, deprecated m completed", "call new", "commit 2, new completed", "call c", "commit 3, c completed, and complete"}},
		"it reads a run that was told true": {[]store.Step{completed("a", 0), marked("changed m", 1), completed("new", 2)}, deprecated, []string{
			"call c", "commit 1, c completed, and complete"}},
		"it reads a run of code without it": {[]store.Step{completed("a", 0), completed("new", 1)}, deprecated, []string{
			"call c", "commit 1, c completed, and complete"}},
		"code without it reads its record": {[]store.Step{completed("a", 0), marked("deprecated m", 1), completed("new", 2)}, without, []string{
			"call c", "commit 1, c completed, and complete"}},
		"code that ends there does, too": {[]store.Step{completed("a", 0), marked("deprecated m", 1)}, onlyA, []string{"commit 1, and complete"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrace()
			tr.execute(tt.history, tt.code(tr))
			require.Equal(t, tt.want, tr.lines)
		})
	}
}

// A mark that was skipped is recorded already: a second record would have its key.
func TestMarkThatWasSkippedIsNotRecordedAgain(t *testing.T) {
	tr := newTrace()
	tr.execute([]store.Step{completed("a", 0), marked("deprecated m", 1)}, func(b *exec.Branch) error {
		_ = tr.step(b, "a")
		assert.True(t, b.Changed("earlier"))
		b.Deprecated("m")
		return tr.step(b, "c")
	})
	require.Equal(t, []string{"commit 1, changed earlier completed", "call c", "commit 2, c completed, and complete"}, tr.lines)
}

func TestMismatchAtAMarkSaysWhatToDo(t *testing.T) {
	for name, tt := range map[string]struct {
		history []store.Step
		code    func(tr *trace, b *exec.Branch) error
		says    string
	}{
		"the mark is gone": {
			[]store.Step{marked("changed m", 0), completed("new", 1)},
			func(tr *trace, b *exec.Branch) error { return tr.step(b, "new") }, `keep workflow.Changed(ctx, "m"), or workflow.Deprecated(ctx, "m") in place of it`,
		},
		"the old path is gone": {
			[]store.Step{completed("old", 0)},
			func(tr *trace, b *exec.Branch) error { b.Deprecated("m"); return tr.step(b, "new") }, `the run follows the code from before mark "m", which is deleted`,
		},
		"the code returns before the mark": {
			[]store.Step{completed("a", 0), marked("changed m", 1)},
			func(tr *trace, b *exec.Branch) error { return tr.step(b, "a") }, `the history continues with changed m`,
		},
		"a step is new in front of a branch": {
			[]store.Step{in("late", completed("s", 0), 1)},
			func(tr *trace, b *exec.Branch) error { return tr.step(b, "new") }, "and the history has late/s before it",
		},
		"a branch is gone": {
			[]store.Step{completed("a", 0), in("late", completed("s", 0), 2)},
			func(tr *trace, b *exec.Branch) error { return tr.step(b, "a") }, "the code returned, but the history continues with late/s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrace()
			tr.execute(tt.history, func(b *exec.Branch) error { return tt.code(tr, b) })
			f := tr.end.Transition.Failure
			require.NotNil(t, f)
			assert.Equal(t, exec.CodeNondeterministic, f.Code)
			assert.Contains(t, f.Message, tt.says)
			assert.NotContains(t, tr.lines, "call new")
		})
	}
}

func TestMisusedMarkFailsTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		code func(b *exec.Branch)
		says string
	}{
		"twice":          {func(b *exec.Branch) { b.Changed("m"); b.Changed("m") }, `asks twice for mark "m" in the main branch`},
		"in a loop":      {func(b *exec.Branch) { b.Changed("m"); _ = b.Sleep("nap", 0, b.Now()); b.Changed("m") }, "call workflow.Changed before the loop"},
		"also as old":    {func(b *exec.Branch) { b.Changed("m"); b.Deprecated("m") }, `asks twice for mark "m"`},
		"without a name": {func(b *exec.Branch) { b.Changed("") }, "it has no name"},
		"inside a step": {func(b *exec.Branch) {
			_, _ = b.Step("s", exec.StepOptions{}, nil, func(context.Context) ([]byte, error) { b.Changed("m"); return nil, nil })
		}, `step "m" began in the main branch while "s" was still running`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrace()
				tr.execute(nil, func(b *exec.Branch) error { tt.code(b); return nil })
				f := tr.end.Transition.Failure
				require.NotNil(t, f)
				assert.Equal(t, exec.CodeMark, f.Code)
				assert.Contains(t, f.Message, tt.says)
			})
		})
	}
}

// Each branch decides its own marks.
func TestBranchesDecideTheirOwnMarks(t *testing.T) {
	tr := newTrace()
	got := map[string]bool{}
	tr.execute([]store.Step{in("x", completed("s", 0), 1)}, func(b *exec.Branch) error {
		for _, name := range []string{"x", "y"} {
			child, _ := b.Fork(name, func(b *exec.Branch) (any, error) {
				got[name] = b.Changed("m")
				return nil, tr.step(b, "s")
			})
			if _, err := b.Join(child); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, map[string]bool{"x": false, "y": true}, got)
}
