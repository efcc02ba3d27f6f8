package storetier

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// stuck never answers a commit, whatever its context says.
type stuck struct {
	store.Store
	until chan struct{}
}

func (s stuck) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	<-s.until
	return nil, store.ErrUnavailable
}

// A case that hangs names its rule and the verb, and anything that it does later is discarded.
func TestHangNamesTheRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{suitetest.NewModel(t), make(chan struct{})}
		cs := caseOf(t, "commit/all-or-nothing")
		rec := &runner.Recorder{TB: t}
		cleaned := false
		runner.Supervised(rec, cs.Name, runner.Broken(cs.Name, cs.Promise, cs.Rule), caseTimeout+runner.Hangs, func(t testing.TB) {
			t.Cleanup(func() { cleaned = true })
			runCase(t, suite{Harness: harness.Harness{New: suitetest.NewModel}}, s, s, cs)
		})
		suitetest.WantReport(t, rec, fmt.Sprintf("%s hangs: after %v it is in Commit", cs.Name, caseTimeout+runner.Hangs), cs.Name+" breaks "+cs.Promise+": "+cs.Rule, "stuck.Commit")
		before := rec.Text()
		close(s.until)
		synctest.Wait()
		if after := rec.Text(); after != before {
			t.Errorf("after its end the case still reported %q", after[len(before):])
		}
		if !cleaned {
			t.Error("nothing was cleaned up when the case had ended after all")
		}
	})
}

func caseOf(t *testing.T, name string) Case {
	t.Helper()
	for _, cs := range Cases() {
		if cs.Name == name {
			return cs
		}
	}
	t.Fatalf("there is no case %s", name)
	return Case{}
}
