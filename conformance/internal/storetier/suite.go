// Package storetier is the store tier of the conformance suite: cases that each check one
// sentence of the contract of package store.
package storetier

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/conformance/internal/report"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/store"
)

// suite is a run of the store tier: the harness, and what its cases share.
type suite struct {
	harness.Harness
	costs     *costs // nil: each case measures for itself
	apart     *apart // nil: nobody else writes to the case's store
	simulated bool   // the case itself runs in a bubble
}

// probed returns the suite with stores that record which verbs return [errors.ErrUnsupported].
func (h suite) probed(m *harness.Met) suite {
	h.Harness = h.Harness.Probed(m)
	return h
}

// Case is one test of the contract.
type Case struct {
	Name    string // noun/what: "commit/repeat"
	Promise string // "P4"; empty: only the method's own description
	Rule    string // the sentence of the contract that a failure prints
	Run     func(c *C)
}

// Cases lists the cases of the store tier.
func Cases() []Case {
	return slices.Concat(
		createCases, signalStartCases, reuseCases, debounceCases, exportCases, getCases, claimCases, boundCases, orderCases, extendCases, commitCases, atomicCases, stepCases, sleepCases,
		childrenCases, signalCases, answerCases, tagCases, streamCases, treeCases, stateCases, cancelCases, pauseCases, restartCases, listCases, journalCases, auditCases, outboxCases, purgeCases,
		scheduleCases, fireCases, registryCases, buildCases, lockCases, payloadCases, timeCases, namespaceCases, errorCases,
		permitCases, endCases(), passOnCases, rateCases, fairCases, stepLimitCases, hintCases, importCases, diagnoseCases, counterCases, closeCases,
		clockCases, ruleCases, againCases, nameCases, sizeCases, durableCases, wholeCases, collisionCases, faultCases, txCases, costCases(), hintRowCases(),
	)
}

// Run is conformance.Run.
func Run(t *testing.T, given harness.Harness) {
	checkExceptions(t, given)
	h := suite{Harness: given, costs: &costs{t: t}, apart: &apart{t: t}}
	if kit.Race {
		h.Unmeasured = cmp.Or(h.Unmeasured, "the race detector changes nothing but the time")
	}
	s := h.New(t)
	harness.CheckAbilities(t, h.Harness, s)
	s2 := s
	if h.Reopen != nil {
		s2 = h.Reopen(t, s)
	}
	h.Progress = h.Progress || report.Progress()
	h.Tier = report.Begin(t, "store", s)
	t.Cleanup(func() { h.Tier.End(t, h.Progress) })
	if h.Bubble {
		t.Run("bubble", func(t *testing.T) {
			t.Parallel()
			runClockInBubbles(t, h)
		})
	}
	run := func(t testing.TB, cs Case) { runCase(t, h, s, s2, cs) }
	if kit.Race && !report.Serial() {
		runRaced(t, h, run)
		return
	}
	eachCase(t, func(t *testing.T, cs Case) {
		report.Parallel(t)
		countCase(t, h.Tier, cs, run)
	})
}

// runRaced runs the cases under the race detector.
func runRaced(t *testing.T, h suite, run func(testing.TB, Case)) {
	var all runner.Together
	var list []Case
	eachCase(t, func(t *testing.T, cs Case) {
		list = append(list, cs)
		all.StandBy(t, func(t testing.TB) { countCase(t, h.Tier, cs, run) })
	})
	all.RunTogether(t, runner.AtATime(), func(t *testing.T, i int) {
		t.Run(list[i].Name, func(t *testing.T) {
			fresh := h
			fresh.Tier = nil
			s := h.New(t)
			s2 := s
			if h.Reopen != nil {
				s2 = h.Reopen(t, s)
			}
			runner.Supervised(t, list[i].Name, runner.Broken(list[i].Name, list[i].Promise, list[i].Rule), list[i].timeout()+runner.Hangs, func(t testing.TB) { runCase(t, fresh, s, s2, list[i]) })
		})
	})
}

// eachCase makes a subtest for each case, grouped by noun.
func eachCase(t *testing.T, run func(t *testing.T, cs Case)) {
	var nouns []string
	byNoun := map[string][]Case{}
	for i, cs := range Cases() {
		if !report.Chosen(cs.Promise) || !report.Share(t, i) {
			continue
		}
		noun, _, _ := strings.Cut(cs.Name, "/")
		if byNoun[noun] == nil {
			nouns = append(nouns, noun)
		}
		byNoun[noun] = append(byNoun[noun], cs)
	}
	for _, noun := range nouns {
		t.Run(noun, func(t *testing.T) {
			for _, cs := range byNoun[noun] {
				t.Run(strings.TrimPrefix(cs.Name, noun+"/"), func(t *testing.T) { run(t, cs) })
			}
			report.Parallel(t) // the other nouns begin before the cases of this one continue
		})
	}
}

func checkExceptions(t testing.TB, h harness.Harness) {
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

// runCase runs a case or, if it is excepted, checks that it fails. A case that needs an ability
// that the backend lacks is left out.
func runCase(t testing.TB, h suite, s, s2 store.Store, cs Case) {
	reason, excepted := h.Exceptions[cs.Name]
	if why := h.WhyNot(s, cs.Needs()); why != "" {
		if excepted {
			t.Errorf("%s is excepted (%s) but does not apply to this backend (%s): remove the exception", cs.Name, reason, why)
			return
		}
		h.Tier.LeaveOut(cs.Name, why)
		t.Skip("left out: " + why) // the backend declares that it lacks what the case tests; TestNeeds checks that it does
	}
	if h.Progress {
		harness.InProgress(t, h.Harness, cs.Name, excepted, func(rec testing.TB, m *harness.Met) {
			p := h.probed(m)
			a := store.Store(harness.NewVerbProbe(s, m))
			b := a
			if s2 != s {
				b = harness.NewVerbProbe(s2, m)
			}
			cs.Run(newC(rec, t, p, a, b, cs))
		})
		return
	}
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
	rec := &runner.Recorder{TB: t}
	rec.Do(func() { cs.Run(newC(rec, t, h, s, s2, cs)) })
	harness.MustFail(t, h.Harness, rec, cs.Name)
}

// caseTimeout limits a case that hangs. None needs to wait for long, but a busy machine may take twenty times as long
// as an idle one.
const caseTimeout = 5 * time.Minute

// timeout returns the case's timeout. Cases of costs wait until the first of them has filled a
// store and measured all, and others make thousands of items or calls; the race detector slows all
// of them down.
func (cs Case) timeout() time.Duration {
	noun, _, _ := strings.Cut(cs.Name, "/")
	if kit.Race || slices.Contains([]string{"cost", "sizes", "names", "faults"}, noun) {
		return 3 * caseTimeout
	}
	return caseTimeout
}

// C is what a case works with: the test, two handles, a namespace of its own,
// and a clock that only the case moves.
type C struct {
	testing.TB
	s, s2 store.Store // two handles to one store
	ns    string
	now   time.Time
	ctx   context.Context

	h    suite
	host testing.TB // the real test, for stores of the case's own
	cs   Case
	seqs map[store.Lease]int64

	anchor store.Store // the first store of a case that restarts by Reopen
	held   *held       // the request that this round of a race holds; nil: none

	mu     sync.Mutex
	headed bool
}

func newC(t, host testing.TB, h suite, s, s2 store.Store, cs Case) *C {
	ctx, cancel := context.WithTimeout(context.Background(), cs.timeout())
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
	return runner.Broken(c.cs.Name, c.cs.Promise, c.cs.Rule) + "\n"
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

// CheckPromise refuses an unknown promise, because no case would run.
func CheckPromise(t testing.TB) {
	t.Helper()
	if report.Promise() == "" {
		return
	}
	for _, cs := range Cases() {
		if cs.Promise == report.Promise() {
			return
		}
	}
	t.Fatalf("-conformance.promise=%s: there is no such promise; expected P1 to P18, as in the comment of package store", report.Promise())
}

// countCase runs a case and counts it in a tier.
func countCase(t testing.TB, r *report.Tier, cs Case, run func(t testing.TB, cs Case)) {
	t.Helper()
	g := runner.Supervised(t, cs.Name, runner.Broken(cs.Name, cs.Promise, cs.Rule), cs.timeout()+runner.Hangs, func(t testing.TB) { run(t, cs) })
	r.Ended(g, cs.Name, cs.Promise)
}
