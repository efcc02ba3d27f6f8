package worker

import "github.com/pawlhq/pawl/store"

// portion says how much a claim asks for. A claim that fails is not made again as it
// was: the next one asks for fewer runs and less of their content, in the end for one run
// and nothing of it.
type portion int // claims that have failed in a row

// bareAfter claims have failed, every other one asks for a run alone.
const bareAfter = 5

func (p *portion) failed() { *p++ }

func (p *portion) succeeded() { *p = *p / 2 }

// runs bounds the runs of the next claim.
func (p portion) runs(most int) int {
	if p.bare() {
		return 1
	}
	return max(1, most>>min(2*p, 32))
}

// bytes bounds what they bring, in a worker that has room for so many.
func (p portion) bytes(left int) int {
	return max(1, min(left, store.DefaultClaimBytes)>>min(2*p, 32))
}

// bare: the run comes without its content.
func (p portion) bare() bool { return p >= bareAfter && p%2 == 1 }
