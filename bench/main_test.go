package main

import "testing"

// Every phase runs, at a size that measures nothing.
func TestPhases(t *testing.T) {
	b := bench{runs: 200, reps: 1, dir: t.TempDir()}
	if err := b.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.rows {
		if len(r.Pawl) != 1 || r.Pawl[0] <= 0 {
			t.Errorf("%s: %v", r.Name, r.Pawl)
		}
	}
}
