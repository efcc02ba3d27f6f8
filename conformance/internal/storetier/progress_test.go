package storetier

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// wrongToo claims early, and does not implement a verb.
type wrongToo struct{ store.Store }

func (s wrongToo) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Now = p.Now.Add(time.Millisecond)
	return s.Store.Claim(ctx, p)
}

// A verb that is not written yet hides no fault: a fault that occurs before it fails the case, and
// so does a fault in a case that needs nothing else.
func TestProgressShowsFaults(t *testing.T) {
	h := harness.Harness{New: newHalfWritten, Progress: true}
	suitetest.WantReport(t, try(t, h, wrongToo{newHalfWritten(t)}, "claim/not-early"), "claim/not-early breaks P13")

	rec := &runner.Recorder{TB: t}
	m := &harness.Met{Rec: rec}
	rec.Errorf("seen")
	m.Note("Fork", store.ErrUnsupported)
	require.Empty(t, m.Waits(), "a case that had failed before does not wait")
	m = &harness.Met{Rec: &runner.Recorder{TB: t}}
	m.Note("Fork", errors.New("another error"))
	require.Empty(t, m.Waits())
	m.Note("Fork", store.ErrUnsupported)
	require.Equal(t, []string{"Fork"}, m.Waits())
}

// Without progress mode, a verb that is not written yet fails its cases.
func TestUnwrittenFailsWithoutProgress(t *testing.T) {
	suitetest.WantReport(t, try(t, harness.Harness{New: newHalfWritten}, newHalfWritten(t), "commit/repeat"), "commit/repeat breaks P4", "unsupported")
}

// newHalfWritten is a backend that creates, gets and claims runs; its other verbs are not
// implemented.
func newHalfWritten(testing.TB) store.Store {
	var lacks []string
	for m := range reflect.TypeFor[*harness.VerbProbe]().Methods() {
		if !slices.Contains([]string{"Create", "Get", "Claim", "Clock", "Close", "Features", "Limits"}, m.Name) {
			lacks = append(lacks, m.Name)
		}
	}
	return halfWritten{harness.NewVerbProbe(model.New(model.Options{}), &harness.Met{}, lacks...)}
}

type halfWritten struct{ store.Store }

func (halfWritten) Features() store.Features {
	return store.Features{Name: "begun", Durability: store.Volatile}
}
