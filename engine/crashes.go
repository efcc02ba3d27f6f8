package engine

import (
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Crashes returns how many leases of a run have run out in a row, without any progress of
// the run. [store.Run.Crashes] may be a larger number: a worker also notes there that it
// executes the run alone.
func Crashes(r *store.Run) int {
	n, _ := exec.Crashes(r)
	return n
}
