package indexer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func TestProgressPlain(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, false, 1000)
	p.Update(after(0), 200) // taken up where an earlier process left it
	p.Update(after(time.Second), 210)
	p.Update(after(2*time.Second), 299)
	p.Update(after(3*time.Second), 305) // another tenth
	p.Update(after(4*time.Second), 305)
	p.Update(after(7*time.Second), 390)
	p.Update(after(8*time.Second), 399) // five seconds since the last line
	p.Update(after(30*time.Second), 399)
	p.Update(after(40*time.Second), 1000)
	p.Update(after(41*time.Second), 1000)
	p.Finish(after(41 * time.Second))
	want := `200 of 1000 files, 20%
305 of 1000 files, 30%, 35/s, 20s left
399 of 1000 files, 39%, 25/s, 25s left
1000 of 1000 files, 100%, 20/s
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestProgressTerminal(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, true, 100)
	p.Update(after(0), 0)
	p.Update(after(50*time.Millisecond), 1) // too soon
	p.Update(after(time.Second), 50)
	p.Update(after(1050*time.Millisecond), 100)
	p.Finish(after(2 * time.Second))
	want := "\r0 of 100 files, 0%\x1b[K" +
		"\r50 of 100 files, 50%, 50/s, 1s left\x1b[K" +
		"\r100 of 100 files, 100%, 50/s\x1b[K\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestProgressFinishShowsTheLastState(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, false, 100)
	p.Finish(after(0)) // nothing has begun
	p.Update(after(0), 0)
	p.Update(after(time.Second), 5)
	p.Update(after(time.Second), 4) // a late report
	p.Finish(after(time.Second))
	if want := "0 of 100 files, 0%\n5 of 100 files, 5%, 5.0/s, 19s left\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestProgressOfUnknownTotal(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, false, 0)
	p.Update(after(0), 0)
	p.Update(after(time.Second), 70)
	p.Update(after(5*time.Second), 100)
	if want := "0 files\n100 files, 20/s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestProgressConcurrently(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, false, 1000)
	p.Update(after(0), 0)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for j := range 100 {
				p.Update(after(time.Second), int64(i*100+j+1))
			}
		})
	}
	wg.Wait()
	p.Finish(after(time.Second))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := lines[len(lines)-1], "1000 of 1000 files, 100%, 1000/s"; got != want {
		t.Errorf("the last line is %q, want %q", got, want)
	}
}

func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		pieces int64
		rate   float64
		want   string
	}{
		{1, 100, "1s"},
		{59, 1, "59s"},
		{60, 1, "1m0s"},
		{200, 1, "3m20s"},
		{3600, 1, "1h0m"},
		{7500, 1, "2h5m"},
		{1_000_000, 0.001, "over 100h"},
	} {
		if got := remaining(c.pieces, c.rate); got != c.want {
			t.Errorf("%d at %g a second: got %s, want %s", c.pieces, c.rate, got, c.want)
		}
	}
}

func TestRate(t *testing.T) {
	if got := rate(10, 0); got != 0 {
		t.Errorf("no time has passed: got %g", got)
	}
	if got := rate(0, time.Second); got != 0 {
		t.Errorf("nothing was done: got %g", got)
	}
	if got := rate(50, 2*time.Second); got != 25 {
		t.Errorf("got %g, want 25", got)
	}
}

func TestIsTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if IsTerminal(f) {
		t.Error("a file was taken for a terminal")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if IsTerminal(f) {
		t.Error("a closed file was taken for a terminal")
	}
	if null, err := os.Open(os.DevNull); err == nil {
		defer null.Close()
		t.Setenv("TERM", "dumb")
		if IsTerminal(null) {
			t.Error("a dumb terminal cannot rewrite its line")
		}
	}
}
