package storetier

import (
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
)

// An unknown promise is refused, because no case would run.
func TestUnknownPromise(t *testing.T) {
	suitetest.SetFlag(t, "conformance.promise", "P99")
	rec := &runner.Recorder{TB: t}
	rec.Do(func() { CheckPromise(rec) })
	suitetest.WantReport(t, rec, "-conformance.promise=P99: there is no such promise")
}
