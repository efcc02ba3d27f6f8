package postgres

import (
	"testing"
	"time"
)

// LittleIsMuch lets the doctor find what is small and young.
func LittleIsMuch(t testing.TB) {
	usual := much
	much.transaction, much.dead, much.index = 100*time.Millisecond, 1000, 1<<20
	t.Cleanup(func() { much = usual })
}
