package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// caseLabel marks a case's goroutines, so that those that hang are found.
const caseLabel = "conformance.case"

// Hangs is how long a case may go on after its context has ended: a store that hangs then
// does not heed it.
const Hangs = 10 * time.Second

// labeled runs f, and what f starts, under the case's name.
func labeled(name string, f func()) {
	pprof.Do(context.Background(), pprof.Labels(caseLabel, name), func(context.Context) { f() })
}

// Supervised runs a case to its end, or fails it when it does not end.
func Supervised(t testing.TB, name, rule string, limit time.Duration, run func(t testing.TB)) *guard {
	t.Helper()
	g := &guard{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer g.cleanup()
		labeled(name, func() { run(g) })
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		g.failed.Store(true)
		g.over.Store(true)
		t.Errorf("%s", hanging(name, rule, limit))
	}
	return g
}

// Warned runs a case in this goroutine and says on standard error when it does not end:
// that of a bubble, in which time stands still while a goroutine is busy or waits for a
// lock, is ended by the test's timeout alone.
func Warned(name, rule string, limit time.Duration, run func()) {
	timer := time.AfterFunc(limit, func() { fmt.Fprintln(os.Stderr, hanging(name, rule, limit)) })
	defer timer.Stop()
	labeled(name, run)
}

// guard is the test of a case. Once the case is over, what still runs of it reaches the
// test no more and ends.
type guard struct {
	testing.TB
	over   atomic.Bool
	failed atomic.Bool

	mu   sync.Mutex
	last []func() // what is to be cleaned up when the case is over
}

// Cleanup registers what is done when the case is over, which may be long before its test
// is.
func (g *guard) Cleanup(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = append(g.last, f)
}

func (g *guard) cleanup() {
	g.mu.Lock()
	n := len(g.last)
	if n == 0 {
		g.mu.Unlock()
		return
	}
	f := g.last[n-1]
	g.last = g.last[:n-1]
	g.mu.Unlock()
	defer g.cleanup()
	f()
}

// TempDir is empty again when the case is over.
func (g *guard) TempDir() string {
	dir := g.TB.TempDir()
	g.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Failed tells of the case alone. That of a test looks for data races as well, also those
// of other cases.
func (g *guard) Failed() bool { return g.failed.Load() }

func (g *guard) fails() {
	g.alive()
	g.failed.Store(true)
}

func (g *guard) alive() {
	if g.over.Load() {
		runtime.Goexit()
	}
}

func (g *guard) Log(args ...any)              { g.TB.Helper(); g.alive(); g.TB.Log(args...) }
func (g *guard) Logf(f string, args ...any)   { g.TB.Helper(); g.alive(); g.TB.Logf(f, args...) }
func (g *guard) Error(args ...any)            { g.TB.Helper(); g.fails(); g.TB.Error(args...) }
func (g *guard) Errorf(f string, args ...any) { g.TB.Helper(); g.fails(); g.TB.Errorf(f, args...) }
func (g *guard) Fatal(args ...any)            { g.TB.Helper(); g.fails(); g.TB.Fatal(args...) }
func (g *guard) Fatalf(f string, args ...any) { g.TB.Helper(); g.fails(); g.TB.Fatalf(f, args...) }
func (g *guard) Skip(args ...any)             { g.TB.Helper(); g.alive(); g.TB.Skip(args...) }
func (g *guard) Skipf(f string, args ...any)  { g.TB.Helper(); g.alive(); g.TB.Skipf(f, args...) }
func (g *guard) Fail()                        { g.fails(); g.TB.Fail() }
func (g *guard) FailNow()                     { g.fails(); g.TB.FailNow() }
func (g *guard) SkipNow()                     { g.alive(); g.TB.SkipNow() }

// hanging says which rule a case that does not end is about, and what it waits for.
func hanging(name, rule string, limit time.Duration) string {
	stacks := goroutines(name)
	verbs := "no verb of the store"
	if in := verbsIn(stacks); len(in) > 0 {
		verbs = strings.Join(in, ", ")
	}
	return fmt.Sprintf("%s hangs: after %v it is in %s\n%s\nits goroutines:\n%s", name, limit, verbs, rule, stacks)
}

// goroutines writes the stacks of a case's goroutines.
func goroutines(name string) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	var out []string
	for block := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(block, fmt.Sprintf("%q:%q", caseLabel, name)) {
			out = append(out, block)
		}
	}
	return strings.Join(out, "\n\n")
}

// verbFrame is a method of the store's on a stack.
var verbFrame = regexp.MustCompile(`\.(Create|Get|Find|List|Count|Children|Steps|Cancel|Pause|Restart|Fork|Purge|Claim|Extend|Commit|Signal|SetState|GetState|Inbox|` +
	`PutWorker|RemoveWorker|ListWorkers|AskWorkers|PutWorkflows|ListWorkflows|PauseTarget|ListPaused|Lock|PutSchedule|DeleteSchedule|ListSchedules|Fire|ListFirings|PutLimits|SetLimit|ListLimits|LimitKeys|SetWeight|` +
	`Clock|Close|Hints|Record|ListActions|Import|Sent|Ahead|Tree|PutSubscription|DeleteSubscription|ListSubscriptions|Changes|Settle|DropChanges|Append|ReadStream|Diagnose|Join|Begin|Recorded)\+0x`)

// verbsIn names, of each goroutine, the verb that the case has called: the outermost one.
func verbsIn(stacks string) []string {
	var out []string
	for block := range strings.SplitSeq(stacks, "\n\n") {
		verb := ""
		for line := range strings.SplitSeq(block, "\n") {
			if strings.Contains(line, "storetier.(*C).") || strings.Contains(line, "sync.") {
				continue
			}
			if m := verbFrame.FindStringSubmatch(line); m != nil {
				verb = m[1]
			}
		}
		if verb != "" && !slices.Contains(out, verb) {
			out = append(out, verb)
		}
	}
	return out
}
