package storetier

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// counting counts one read for each call. A claim that reads everything counts as many reads as
// runs were created.
type counting struct {
	*model.Store
	all   bool
	runs  int64
	reads atomic.Int64
}

func (s *counting) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	s.runs += int64(len(p.Runs))
	s.reads.Add(1)
	return s.Store.Create(ctx, p)
}

func (s *counting) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	if s.all {
		s.reads.Add(s.runs)
	}
	s.reads.Add(1)
	return s.Store.Claim(ctx, p)
}

func (s *counting) meter() harness.Meter { return harness.Meter{Store: s, Reads: s.reads.Load} }

// A claim that reads everything fails its case, and a claim that does not passes.
func TestCostIsCounted(t *testing.T) {
	for _, all := range []bool{false, true} {
		h := harness.Harness{New: suitetest.NewModel, Meter: func(testing.TB) harness.Meter {
			return (&counting{Store: model.New(model.Options{}), all: all}).meter()
		}}
		if rec := try(t, h, suitetest.NewModel(t), "cost/claim"); all {
			suitetest.WantReport(t, rec, "cost/claim breaks P18", "it reads what it is not about")
		} else if rec.Failed() {
			t.Errorf("a claim that reads one row: %s", rec.Text())
		}
	}
}

// A meter that does not count is detected.
func TestMeterThatStandsStill(t *testing.T) {
	h := harness.Harness{New: suitetest.NewModel, Meter: func(testing.TB) harness.Meter {
		return harness.Meter{Store: suitetest.NewModel(t), Reads: func() int64 { return 7 }}
	}}
	suitetest.WantReport(t, try(t, h, suitetest.NewModel(t), "cost/get"), "the meter does not count")
}

// Without a meter, times are compared, with a margin for a busy machine.
func TestCostByTime(t *testing.T) {
	m := &metered{much: manyMoreAside}
	for _, tt := range []struct {
		few, many time.Duration
		wrong     bool
	}{
		{time.Millisecond, 7 * time.Millisecond, false},
		{time.Millisecond, 19 * time.Millisecond, false},
		{10 * time.Millisecond, 80 * time.Millisecond, false},
		{3 * time.Millisecond, 25 * time.Millisecond, true},
		{time.Millisecond, 50 * time.Millisecond, true},
	} {
		if wrong := m.wrong(cost{time: tt.few}, cost{time: tt.many}, m.ofMany()); (wrong != "") != tt.wrong {
			t.Errorf("%v beside few runs and %v beside many: saw %q", tt.few, tt.many, wrong)
		}
	}
}
