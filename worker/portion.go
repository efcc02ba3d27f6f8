package worker

import "github.com/pawlhq/pawl/store"

// portion limits what a claim asks for. A claim that fails is not repeated unchanged: the
// next one asks for fewer runs and less of their content, and finally for one run without
// content.
type portion int // failed claims in a row

// After bareAfter failed claims, every other claim asks for a run without its content.
const bareAfter = 5

func (p *portion) failed() { *p++ }

func (p *portion) succeeded() { *p = *p / 2 }

// runs returns the maximum number of runs of the next claim.
func (p portion) runs(most int) int {
	if p.bare() {
		return 1
	}
	return max(1, most>>min(2*p, 32))
}

// bytes limits their content, for a worker that has room for n bytes.
func (p portion) bytes(left int) int {
	return max(1, min(left, store.DefaultClaimBytes)>>min(2*p, 32))
}

// bare reports whether the run is claimed without its content.
func (p portion) bare() bool { return p >= bareAfter && p%2 == 1 }
