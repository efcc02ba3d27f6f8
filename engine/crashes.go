package engine

import (
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Crashes tells how many leases of a run have run out in a row, without any progress.
// [store.Run.Crashes] may have more: a worker notes there that it executes the run alone.
func Crashes(r *store.Run) int {
	n, _ := exec.Crashes(r)
	return n
}
