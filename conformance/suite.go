// Package conformance proves that a backend keeps the contract of package store.
//
// A backend's test calls [Run] with a [Harness]. Each [Case] checks one sentence
// of the contract; a failure prints the case's name, the promise that it belongs
// to (P1 to P18, listed in package store), that sentence, and what was seen
// against what was expected. Nothing here sleeps: every call names its own Now,
// and goroutines meet at barriers.
//
// See docs/new-backend.md for how to write a backend and put it to this proof.
package conformance

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Harness tells the suite how to reach a backend.
type Harness struct {
	// New opens a store on fresh, empty data and cleans it up with t. The suite
	// calls it once for all cases, which keep apart by namespaces and run in
	// parallel, and once more for the few cases that close their store. Those
	// close it before New's cleanup does, so closing again must be harmless.
	New func(t testing.TB) store.Store
	// Reopen opens a second handle to the same data, as another process would:
	// its own connections, its own memory. Cases that race use both handles. Nil
	// stands for a backend whose data lives in one handle: then that handle plays
	// both parts, and the few cases about a second handle are skipped.
	Reopen func(t testing.TB, s store.Store) store.Store
	// Rewind, when set, remembers all that the store's database holds; the function
	// that it returns puts it back in one transaction, as a failover to a replica that
	// lagged does. The engine cases about that are left out without it.
	Rewind func(t testing.TB, s store.Store) (back func())
	// Exceptions names the cases that this backend cannot pass, each with its
	// reason. An excepted case is run all the same and must fail: an exception
	// that passes fails the suite, and so does a name that is no case.
	Exceptions map[string]string
	// Bubble says that New works inside a testing/synctest bubble: nothing of the
	// store's blocks outside it, and its clock is time.Now. The engine tier then
	// runs in no time.
	Bubble bool
}

// Case is one proof.
type Case struct {
	Name    string // noun/what: "commit/repeat"
	Promise string // "P4"; empty: of the method's own description alone
	Rule    string // the sentence of the contract that a failure prints
	Run     func(c *C)
}

// Cases lists the cases of the store tier.
func Cases() []Case {
	return slices.Concat(
		createCases, reuseCases, exportCases, getCases, claimCases, boundCases, orderCases, extendCases, commitCases, atomicCases, stepCases, sleepCases,
		childrenCases, signalCases, stateCases, cancelCases, pauseCases, restartCases, listCases, journalCases, purgeCases,
		scheduleCases, fireCases, registryCases, lockCases, payloadCases, timeCases, namespaceCases, errorCases,
		hintCases, importCases, diagnoseCases, closeCases,
	)
}

// Run puts a backend through the store tier. One case is run alone by
// -run 'TestName/commit/repeat$'.
func Run(t *testing.T, h Harness) {
	checkExceptions(t, h)
	s := h.New(t)
	s2 := s
	if h.Reopen != nil {
		s2 = h.Reopen(t, s)
	}
	var nouns []string
	byNoun := map[string][]Case{}
	for _, cs := range Cases() {
		noun, _, _ := strings.Cut(cs.Name, "/")
		if byNoun[noun] == nil {
			nouns = append(nouns, noun)
		}
		byNoun[noun] = append(byNoun[noun], cs)
	}
	for _, noun := range nouns {
		t.Run(noun, func(t *testing.T) {
			t.Parallel()
			for _, cs := range byNoun[noun] {
				t.Run(strings.TrimPrefix(cs.Name, noun+"/"), func(t *testing.T) {
					t.Parallel()
					runCase(t, h, s, s2, cs)
				})
			}
		})
	}
}

func checkExceptions(t testing.TB, h Harness) {
	t.Helper()
	known := map[string]bool{}
	for _, cs := range Cases() {
		known[cs.Name] = true
	}
	for name, reason := range h.Exceptions {
		if !known[name] {
			t.Errorf("the harness excepts %q, which is no case of this suite", name)
		}
		if reason == "" {
			t.Errorf("the harness excepts %q without a reason", name)
		}
	}
}

// runCase runs a case, or, when it is excepted, makes sure that it fails.
func runCase(t testing.TB, h Harness, s, s2 store.Store, cs Case) {
	reason, excepted := h.Exceptions[cs.Name]
	if !excepted {
		c := newC(t, t, h, s, s2, cs)
		defer func() {
			if v := recover(); v != nil {
				c.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		cs.Run(c)
		return
	}
	rec := &recorder{TB: t}
	rec.do(func() { cs.Run(newC(rec, t, h, s, s2, cs)) })
	switch {
	case rec.Skipped():
		t.Errorf("%s is excepted (%s) but does not apply to this backend: remove the exception", cs.Name, reason)
	case !rec.Failed():
		t.Errorf("%s is excepted (%s) but passes: remove the exception", cs.Name, reason)
	default:
		t.Logf("%s fails as declared (%s):\n%s", cs.Name, reason, rec.output())
	}
}

// recorder is a TB whose failure is observed instead of reported. Cleanups and
// directories are those of the test that it runs in.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	failed  bool
	skipped bool
	log     strings.Builder
}

// do runs f to its end, be that a return, FailNow, SkipNow or a panic.
func (r *recorder) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				r.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (r *recorder) Helper()         {}
func (r *recorder) Log(args ...any) { r.write(fmt.Sprintln(args...)) }
func (r *recorder) Logf(format string, args ...any) {
	r.write(fmt.Sprintf(format, args...) + "\n")
}
func (r *recorder) Error(args ...any) { r.Log(args...); r.Fail() }
func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.Fail()
}
func (r *recorder) Fatal(args ...any) { r.Log(args...); r.FailNow() }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Logf(format, args...)
	r.FailNow()
}
func (r *recorder) Skip(args ...any) { r.Log(args...); r.SkipNow() }
func (r *recorder) Skipf(format string, args ...any) {
	r.Logf(format, args...)
	r.SkipNow()
}
func (r *recorder) Fail()         { r.set(&r.failed) }
func (r *recorder) FailNow()      { r.Fail(); runtime.Goexit() }
func (r *recorder) SkipNow()      { r.set(&r.skipped); runtime.Goexit() }
func (r *recorder) Failed() bool  { return r.is(&r.failed) }
func (r *recorder) Skipped() bool { return r.is(&r.skipped) }

func (r *recorder) write(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.WriteString(s)
}

func (r *recorder) set(b *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*b = true
}

func (r *recorder) is(b *bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *b
}

func (r *recorder) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// caseTimeout bounds a case that hangs; no case waits for time to pass.
const caseTimeout = 2 * time.Minute

// began is where every case's clock starts: far from any real clock, so that a
// backend that ignores Now is found out, and with microseconds.
var began = time.Date(2031, 5, 6, 7, 8, 9, 123457000, time.UTC)

// C is what a case works with: the test, two handles, a namespace of its own,
// and a clock that only the case moves.
type C struct {
	testing.TB
	s, s2 store.Store // two handles to one store
	ns    string
	now   time.Time
	ctx   context.Context

	h    Harness
	host testing.TB // the real test, for stores of the case's own
	cs   Case
	seqs map[store.Lease]int64

	mu     sync.Mutex
	headed bool
}

func newC(t, host testing.TB, h Harness, s, s2 store.Store, cs Case) *C {
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	host.Cleanup(cancel)
	return &C{TB: t, s: s, s2: s2, ns: cs.Name, now: began, ctx: ctx, h: h, host: host, cs: cs, seqs: map[store.Lease]int64{}}
}

// advance moves the case's clock.
func (c *C) advance(d time.Duration) { c.now = c.now.Add(d) }

// header is printed before a case's first failure.
func (c *C) header() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headed {
		return ""
	}
	c.headed = true
	if c.cs.Promise == "" {
		return fmt.Sprintf("%s is broken: %s\n", c.cs.Name, c.cs.Rule)
	}
	return fmt.Sprintf("%s breaks %s: %s\n", c.cs.Name, c.cs.Promise, c.cs.Rule)
}

// Errorf reports a failure beneath the case's rule.
func (c *C) Errorf(format string, args ...any) {
	c.Helper()
	c.TB.Errorf("%s%s", c.header(), fmt.Sprintf(format, args...))
}

// Fatalf reports a failure beneath the case's rule and ends the case.
func (c *C) Fatalf(format string, args ...any) {
	c.Helper()
	c.TB.Fatalf("%s%s", c.header(), fmt.Sprintf(format, args...))
}

// Error is Errorf without a format.
func (c *C) Error(args ...any) {
	c.Helper()
	c.Errorf("%s", fmt.Sprint(args...))
}

// Fatal is Fatalf without a format.
func (c *C) Fatal(args ...any) {
	c.Helper()
	c.Fatalf("%s", fmt.Sprint(args...))
}
