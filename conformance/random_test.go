package conformance

import (
	"testing"

	"github.com/pawlhq/pawl/store"
)

func TestRandomOnTheModel(t *testing.T) {
	RunRandom(t, Harness{New: newModel})
}

// Random sequences find faults, and a sequence that has found one is reduced to
// few operations.
func TestRandomFindsFaults(t *testing.T) {
	for name, fault := range map[string]func(store.Store) store.Store{
		"commit of any epoch":       func(s store.Store) store.Store { return anyEpoch{s} },
		"signals never repeated":    func(s store.Store) store.Store { return freshSignals{s} },
		"sleep that overlooks":      func(s store.Store) store.Store { return blindSleep{s} },
		"claim before its time":     func(s store.Store) store.Store { return fastClock{s} },
		"empty bytes read as nil":   func(s store.Store) store.Store { return emptyIsNil{s} },
		"commit without transition": func(s store.Store) store.Store { return forgetful{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fault(newModel(t))
			r := &random{ctx: t.Context(), handles: [2]store.Store{s, s}, limits: s.Limits(), reached: map[string]int{}}
			sequences := r.drawn()
			for seed := range 200 {
				q := sequences.Example(seed)
				if q.difference == "" {
					continue
				}
				q = q.reduce()
				t.Logf("sequence %d:%#v\n%s", seed, q, q.difference)
				if q.difference == "" || len(q.ops) > 5 {
					t.Errorf("saw %d operations left, expected no more than 5", len(q.ops))
				}
				return
			}
			t.Error("saw no difference, expected one")
		})
	}
}
