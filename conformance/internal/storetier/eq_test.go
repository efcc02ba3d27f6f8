package storetier

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// A difference in a large value is reported by its field, in a short message.
func TestLargeDifferenceIsShort(t *testing.T) {
	a := store.Run{Workflow: "wf", Input: bytes.Repeat([]byte("x"), 9104), Attempt: 1}
	b := a
	b.Input, b.Attempt = slices.Clone(a.Input), 2
	b.Input[5000] = 'y'
	rec := &runner.Recorder{TB: t}
	c := &C{TB: rec, cs: Case{Name: "a/b", Promise: "P12", Rule: "rule"}}
	c.eq("the run", a, b)
	suitetest.WantReport(t, rec, "a/b breaks P12: rule", "the run differs", "Input: saw 9104 bytes", "Attempt: saw 1, expected 2")
	require.Less(t, len(rec.Text()), 1000, "the message is short")
}
