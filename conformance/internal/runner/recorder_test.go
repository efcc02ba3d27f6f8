package runner

import (
	"strings"
	"testing"
	"time"
)

func TestRecorder(t *testing.T) {
	for name, tt := range map[string]struct {
		do              func(tb testing.TB)
		failed, skipped bool
		output          string
	}{
		"nothing": {func(testing.TB) {}, false, false, ""},
		"log":     {func(tb testing.TB) { tb.Log("a", 1) }, false, false, "a 1\n"},
		"error":   {func(tb testing.TB) { tb.Error("a"); tb.Log("b") }, true, false, "a\nb\n"},
		"fatal":   {func(tb testing.TB) { tb.Fatalf("a%d", 1); tb.Log("b") }, true, false, "a1\n"},
		"skip":    {func(tb testing.TB) { tb.Skip("a"); tb.Fail() }, false, true, "a\n"},
		"panic":   {func(testing.TB) { panic("a") }, true, false, "panic: a"},
	} {
		rec := &Recorder{TB: t}
		rec.Do(func() { tt.do(rec) })
		if rec.Failed() != tt.failed || rec.Skipped() != tt.skipped || !strings.HasPrefix(rec.Text(), tt.output) {
			t.Errorf("%s: saw failed %v, skipped %v, output %q", name, rec.Failed(), rec.Skipped(), rec.Text())
		}
	}
}

// What a case registers is cleaned up at its end, the last one first, also when it fails.
func TestCleanupOfACase(t *testing.T) {
	var order []int
	rec := &Recorder{TB: t}
	g := Supervised(rec, "a", "rule", time.Minute, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, 1) })
		t.Cleanup(func() { order = append(order, 2); t.FailNow() })
		t.Fatal("seen")
	})
	if len(order) != 2 || order[0] != 2 || !g.Failed() || !rec.Failed() {
		t.Errorf("saw the cleanups %v, failed %v and %v; expected 2 and 1, and a failure", order, g.Failed(), rec.Failed())
	}
}
