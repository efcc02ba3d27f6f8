package indexer

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// How often progress is shown: on a terminal often enough to look alive,
// elsewhere at each tenth of the work and at least every few seconds.
const (
	terminalEvery = 100 * time.Millisecond
	plainEvery    = 5 * time.Second
)

// Progress shows how far a number of equal pieces of work has come: on a
// terminal as one line that changes, elsewhere as plain lines. It is safe for
// use by many goroutines.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	total    int64 // 0: not known

	begun     bool
	startAt   time.Time
	startDone int64 // done before this process began: not counted in the rate
	done      int64
	shownAt   time.Time
	shownDone int64
}

// NewProgress makes a progress over total pieces; 0 when their number is not
// known.
func NewProgress(w io.Writer, terminal bool, total int64) *Progress {
	return &Progress{w: w, terminal: terminal, total: total}
}

// IsTerminal reports whether f is a terminal that can rewrite its line.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// Update tells that at now, done pieces are finished in all. The first call
// says where the work stood when this process took it up. What is shown is
// thinned out; done never goes backwards.
func (p *Progress) Update(now time.Time, done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.begun
	if first {
		p.begun, p.startAt, p.startDone = true, now, done
	}
	p.done = max(p.done, done)
	if first || due(p.terminal, p.total, p.shownDone, p.done, now.Sub(p.shownAt)) {
		p.show(now)
	}
}

// Finish shows the last state, if it was not shown yet, and ends the line.
func (p *Progress) Finish(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		return
	}
	if p.terminal || p.done != p.shownDone {
		p.show(now)
	}
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}

func (p *Progress) show(now time.Time) {
	text := line(p.done, p.total, rate(p.done-p.startDone, now.Sub(p.startAt)))
	if p.terminal {
		// Back to the line's beginning, and clear what a longer one left behind.
		fmt.Fprintf(p.w, "\r%s\x1b[K", text)
	} else {
		fmt.Fprintln(p.w, text)
	}
	p.shownAt, p.shownDone = now, p.done
}

// due decides whether to show done, when shown was last shown that long ago.
func due(terminal bool, total, shown, done int64, ago time.Duration) bool {
	if terminal {
		return ago >= terminalEvery
	}
	if done == shown {
		return false
	}
	return ago >= plainEvery || total > 0 && done*10/total > shown*10/total
}

// rate is pieces a second, 0 when nothing can be said.
func rate(done int64, took time.Duration) float64 {
	if done <= 0 || took <= 0 {
		return 0
	}
	return float64(done) / took.Seconds()
}

// line is the text of a state: "1200 of 11478 files, 10%, 873/s, 12s left".
func line(done, total int64, rate float64) string {
	var b strings.Builder
	if total > 0 {
		fmt.Fprintf(&b, "%d of %d files, %d%%", done, total, min(done*100/total, 100))
	} else {
		fmt.Fprintf(&b, "%d files", done)
	}
	if rate > 0 {
		if rate < 10 {
			fmt.Fprintf(&b, ", %.1f/s", rate)
		} else {
			fmt.Fprintf(&b, ", %.0f/s", rate)
		}
		if total > done {
			fmt.Fprintf(&b, ", %s left", remaining(total-done, rate))
		}
	}
	return b.String()
}

// remaining is the time that so many pieces take, rounded up and as short as it
// can be said: "12s", "3m20s", "2h5m", "over 100h".
func remaining(pieces int64, rate float64) string {
	seconds := float64(pieces) / rate
	if seconds > 100*3600 {
		return "over 100h"
	}
	s := int64(seconds)
	if float64(s) < seconds {
		s++
	}
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%dm", s/3600, s%3600/60)
}
