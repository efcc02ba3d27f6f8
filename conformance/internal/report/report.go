// Package report has the flags of the conformance suite, and counts and writes down what its
// tiers find.
package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/store"
)

var (
	promiseFlag  = flag.String("conformance.promise", "", "run the cases of this promise alone: P9")
	shareFlag    = flag.String("conformance.share", "", "run a share of the cases of the store tier and the engine tier: 2/3 runs every third one, beginning with the second")
	progressFlag = flag.Bool("conformance.progress", false, "a case in which a verb answers with store.ErrUnsupported waits for it instead of failing")
	reportFlag   = flag.String("conformance.report", "", "write what the suite found to this file, as JSON (conformance.Report)")
	serialFlag   = flag.Bool("conformance.serial", false, "run one case after the other, so that the race detector names the case that it has found a race in")
)

// Promise is the promise whose cases are to run; empty: all are.
func Promise() string { return *promiseFlag }

// Progress tells whether the flag says that the backend is being written.
func Progress() bool { return *progressFlag }

// Serial tells whether cases are to run one after the other.
func Serial() bool { return *serialFlag }

// Parallel lets a test run beside others, unless cases are to run one after the other.
func Parallel(t *testing.T) {
	if !*serialFlag {
		t.Parallel()
	}
}

// Chosen tells whether cases of a promise are to run.
func Chosen(promise string) bool { return *promiseFlag == "" || *promiseFlag == promise }

// Share tells whether the i-th case of a list is in the share of the cases that is to run.
func Share(t testing.TB, i int) bool {
	t.Helper()
	if *shareFlag == "" {
		return true
	}
	var part, parts int
	if n, err := fmt.Sscanf(*shareFlag+"\n", "%d/%d\n", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
		t.Fatalf("-conformance.share=%s: expected a number, a slash, and a number that is not lower, such as 2/3", *shareFlag)
	}
	return i%parts == part-1
}

// Wholly tells whether a tier that is about all promises at once is to run.
func Wholly(t testing.TB) bool {
	t.Helper()
	if *promiseFlag != "" {
		t.Logf("left out: it is about all promises at once, and -conformance.promise=%s asks for one", *promiseFlag)
	}
	return *promiseFlag == ""
}

// Report is what a run of the suite found: the file of -conformance.report, for authors to
// publish. A field is never renamed; Format counts up if one must change its meaning.
type Report struct {
	Format   int          `json:"format"`            // 1
	Backend  string       `json:"backend"`           // Features().Name
	Version  string       `json:"version,omitempty"` // Features().Version
	Contract int          `json:"contract"`          // store.ContractVersion, of the contract that the suite checks
	Pawl     string       `json:"pawl"`              // the version of the suite
	Go       string       `json:"go"`
	Platform string       `json:"platform"` // "linux/amd64"
	Race     bool         `json:"race"`     // with the race detector
	Promise  string       `json:"promise,omitempty"`
	Share    string       `json:"share,omitempty"`
	Began    time.Time    `json:"began"`
	Seconds  float64      `json:"seconds"` // from the beginning of the first tier to the end of the last
	Passed   bool         `json:"passed"`  // nothing failed, and nothing waits
	Tiers    []TierReport `json:"tiers"`   // in the order in which they ended
}

// TierReport is one tier on one harness.
type TierReport struct {
	Tier       string                   `json:"tier"` // "store", "random", "linearizable", "engine" or "simulation"
	Test       string                   `json:"test"` // the Go test that ran it
	Backend    string                   `json:"backend"`
	Passed     bool                     `json:"passed"`
	Seconds    float64                  `json:"seconds"`
	Cases      Tally                    `json:"cases"`
	Promises   map[string]Tally         `json:"promises,omitempty"`   // "": of no numbered promise
	Failures   []string                 `json:"failures,omitempty"`   // the names of cases
	Exceptions map[string]string        `json:"exceptions,omitempty"` // name: reason
	LeftOut    map[string]string        `json:"left_out,omitempty"`   // name: reason
	Waiting    map[string][]string      `json:"waiting,omitempty"`    // name: verbs that are not written
	Gaps       map[store.Ability]string `json:"gaps,omitempty"`       // ability: reason
	Lacks      []store.Ability          `json:"lacks,omitempty"`      // abilities that it does not have
}

// Tally counts cases. A tier of random work counts as one case.
type Tally struct {
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	Excepted int `json:"excepted"` // failed, as the harness said
	LeftOut  int `json:"left_out"` // not run for an ability that the backend lacks
	Waiting  int `json:"waiting"`  // not run for a verb that is not written
}

func (n *Tally) add(o outcome) {
	switch o {
	case casePassed:
		n.Passed++
	case caseFailed:
		n.Failed++
	case caseExcepted:
		n.Excepted++
	case caseLeftOut:
		n.LeftOut++
	case caseWaits:
		n.Waiting++
	}
}

type outcome uint8

const (
	casePassed outcome = iota
	caseFailed
	caseExcepted
	caseLeftOut
	caseWaits
)

// reports is what the tiers of this process have found.
var reports struct {
	sync.Mutex
	Report
}

// Tier is one under way.
type Tier struct {
	began time.Time
	mu    sync.Mutex
	rep   TierReport
	nouns map[string]*Tally
	order []string // of nouns
}

// Begin begins a tier; its end comes with that of t.
func Begin(t *testing.T, name string, s store.Store) *Tier {
	r := &Tier{began: time.Now(), nouns: map[string]*Tally{}, rep: TierReport{
		Tier: name, Test: t.Name(), Backend: s.Features().Name,
		Promises: map[string]Tally{}, Exceptions: map[string]string{}, LeftOut: map[string]string{}, Waiting: map[string][]string{}, Gaps: map[store.Ability]string{},
	}}
	for _, g := range s.Features().Gaps {
		r.rep.Gaps[g.Ability] = g.Reason
	}
	for _, a := range store.Abilities() {
		if !store.Able(s, a) {
			r.rep.Lacks = append(r.rep.Lacks, a)
		}
	}
	reports.Lock()
	defer reports.Unlock()
	if reports.Format == 0 {
		f := s.Features()
		reports.Report = Report{
			Format: 1, Backend: f.Name, Version: f.Version, Contract: store.ContractVersion, Pawl: pawlVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			Race: kit.Race, Promise: *promiseFlag, Share: *shareFlag, Began: r.began.UTC().Truncate(time.Second), Passed: true,
		}
	}
	return r
}

// LeaveOut remembers why a case is not run.
func (r *Tier) LeaveOut(name, reason string) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rep.LeftOut[name] = reason
	}
}

// Except remembers why a case fails as declared.
func (r *Tier) Except(name, reason string) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rep.Exceptions[name] = reason
	}
}

// Wait remembers for which verbs a case waits.
func (r *Tier) Wait(name string, verbs []string) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rep.Waiting[name] = verbs
	}
}

// Ended counts a case by what became of its test.
func (r *Tier) Ended(t testing.TB, name, promise string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := casePassed
	switch {
	case t.Failed():
		o = caseFailed
		r.rep.Failures = append(r.rep.Failures, name)
	case r.rep.Waiting[name] != nil:
		o = caseWaits
	case r.rep.Exceptions[name] != "":
		o = caseExcepted
	case t.Skipped() || r.rep.LeftOut[name] != "":
		o = caseLeftOut
		if r.rep.LeftOut[name] == "" {
			r.rep.LeftOut[name] = "the case does not apply to the backend"
		}
	}
	r.rep.Cases.add(o)
	p := r.rep.Promises[promise]
	p.add(o)
	r.rep.Promises[promise] = p
	noun, _, _ := strings.Cut(name, "/")
	if r.nouns[noun] == nil {
		r.nouns[noun] = &Tally{}
		r.order = append(r.order, noun)
	}
	r.nouns[noun].add(o)
}

// End writes the summary of a backend that is being written, and the report.
func (r *Tier) End(t testing.TB, progress bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Seconds = time.Since(r.began).Seconds()
	r.rep.Passed = !t.Failed() && r.rep.Cases.Waiting == 0
	if progress {
		t.Log(r.summary())
	}
	reports.Lock()
	defer reports.Unlock()
	reports.Tiers = append(reports.Tiers, r.rep)
	reports.Passed = reports.Passed && r.rep.Passed
	reports.Seconds = time.Since(reports.Began).Seconds()
	if *reportFlag == "" {
		return
	}
	text, err := json.MarshalIndent(reports.Report, "", "  ")
	if err == nil {
		err = os.WriteFile(*reportFlag, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Errorf("the report could not be written: %v", err)
	}
}

// Of returns the last report of a tier that the test of that name ran.
func Of(test string) (r TierReport, ok bool) {
	reports.Lock()
	defer reports.Unlock()
	for _, tier := range slices.Backward(reports.Tiers) {
		if tier.Test == test {
			return tier, true
		}
	}
	return r, false
}

// summary says how far the backend is: of each noun the cases that passed, and for which
// verbs the others wait.
func (r *Tier) summary() string {
	var parts []string
	for _, noun := range r.order {
		n := *r.nouns[noun]
		parts = append(parts, fmt.Sprintf("%s %d/%d", noun, n.Passed+n.Excepted, n.Passed+n.Failed+n.Excepted+n.Waiting))
	}
	verbs := map[string]int{}
	for _, list := range r.rep.Waiting {
		for _, v := range list {
			verbs[v]++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %d cases wait", strings.Join(parts, ", "), r.rep.Cases.Waiting)
	for i, v := range mostFirst(verbs) {
		sep := ", "
		if i == 0 {
			sep = " for "
		}
		fmt.Fprintf(&b, "%s%s (%d)", sep, v, verbs[v])
	}
	if n := r.rep.Cases.LeftOut; n > 0 {
		fmt.Fprintf(&b, "; %d are left out", n)
	}
	if n := r.rep.Cases.Failed; n > 0 {
		fmt.Fprintf(&b, "; %d failed", n)
	}
	return b.String()
}

// mostFirst lists the keys of the highest counts first.
func mostFirst(counts map[string]int) []string {
	keys := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(keys, func(a, b string) int { return counts[b] - counts[a] })
	return keys
}

// pawlVersion is the version of the module that holds this suite.
func pawlVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/pawlhq/pawl" && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}
