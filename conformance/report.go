package conformance

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// Report is the result of a run of the suite, for authors to publish. The flag
// -conformance.report=file writes it as JSON. Fields are never renamed; Format increases if the
// meaning of one changes.
type Report struct {
	Format   int          `json:"format"`            // 1
	Backend  string       `json:"backend"`           // Features().Name
	Version  string       `json:"version,omitempty"` // Features().Version
	Contract int          `json:"contract"`          // store.ContractVersion, of the contract that the suite checks
	Pawl     string       `json:"pawl"`              // the version of the suite
	Go       string       `json:"go"`
	Platform string       `json:"platform"`          // "linux/amd64"
	Race     bool         `json:"race"`              // with the race detector
	Promise  string       `json:"promise,omitempty"` // of -conformance.promise; empty: of all promises
	Share    string       `json:"share,omitempty"`   // of -conformance.share, such as "2/3"; empty: all cases
	Began    time.Time    `json:"began"`             // in UTC, in whole seconds
	Seconds  float64      `json:"seconds"`           // from the beginning of the first tier to the end of the last
	Passed   bool         `json:"passed"`            // nothing failed, and nothing waits
	Tiers    []TierReport `json:"tiers"`             // in the order in which they ended
}

// TierReport is the result of one tier with one harness.
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
	Waiting    map[string][]string      `json:"waiting,omitempty"`    // name: methods that are not written
	Gaps       map[store.Ability]string `json:"gaps,omitempty"`       // ability: reason
	Lacks      []store.Ability          `json:"lacks,omitempty"`      // abilities that it does not have
}

// Tally counts cases by their outcomes. A tier without cases, such as "random", counts as one case.
type Tally struct {
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	Excepted int `json:"excepted"` // failed, as the harness said
	LeftOut  int `json:"left_out"` // not run: the backend lacks an ability, or the case does not apply to it
	Waiting  int `json:"waiting"`  // they wait for a method that is not written: see [Harness].Progress
}
