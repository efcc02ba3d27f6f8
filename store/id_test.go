package store_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/store"
)

// The IDs of a sequence differ by parent, key and place, and those of neighbors are adjacent.
func TestDeriveIDAt(t *testing.T) {
	parent, other := store.NewID(), store.NewID()
	seen := map[store.ID]string{}
	var last store.ID
	for _, p := range []store.ID{parent, other} {
		for _, group := range []string{"a", "b"} {
			for place := int64(1); place < 3*64*4096; place += 61 {
				id := store.DeriveIDAt(p, fmt.Sprint(group, place), place)
				what := fmt.Sprint(p, group, place)
				if before, ok := seen[id]; ok {
					t.Fatalf("%s and %s both have %v", before, what, id)
				}
				seen[id] = what
				if !bytes.Equal(id[:6], p[:6]) {
					t.Fatalf("%s: %v does not begin with its parent's time", what, id)
				}
				if place > 64 && place < 64*4096 && place/64 != (place-61)/64 && bytes.Compare(id[:], last[:]) <= 0 {
					t.Fatalf("%s: %v comes before its predecessor %v", what, id, last)
				}
				if id != store.DeriveIDAt(p, fmt.Sprint(group, place), place) {
					t.Fatalf("%s has two IDs", what)
				}
				last = id
			}
		}
	}
}
