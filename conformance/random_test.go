package conformance

import (
	"testing"

	"github.com/pawlhq/pawl/store"
)

func TestRandomOnTheModel(t *testing.T) {
	RunRandom(t, Harness{New: newModel})
}

// Random sequences find faults, and one of the first three that have found one is reduced
// to few operations. (Where leases name later epochs, the claims before them cannot go.)
func TestRandomFindsFaults(t *testing.T) {
	for name, fault := range map[string]func(store.Store) store.Store{
		"commit of any epoch":       func(s store.Store) store.Store { return anyEpoch{s} },
		"signals never repeated":    func(s store.Store) store.Store { return freshSignals{s} },
		"sleep that overlooks":      func(s store.Store) store.Store { return blindSleep{s} },
		"claim before its time":     func(s store.Store) store.Store { return fastClock{s} },
		"empty bytes read as nil":   func(s store.Store) store.Store { return emptyIsNil{s} },
		"commit without transition": func(s store.Store) store.Store { return forgetful{s} },
		"cancel without a cleanup":  func(s store.Store) store.Store { return abrupt{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fault(newModel(t))
			r := &random{ctx: t.Context(), handles: [2]store.Store{s, s}, limits: s.Limits(), reached: map[string]int{}}
			sequences := r.drawn()
			found, few := 0, 5
			if name == "sleep that overlooks" {
				few = 30 // it takes a commit, whose lease names an epoch: the claims before it stay
			}
			if name == "cancel without a cleanup" {
				few = 30 // so does this
			}
			for seed := 0; seed < 200 && found < 3; seed++ {
				q := sequences.Example(seed)
				if q.difference == "" {
					continue
				}
				found++
				if q = q.reduce(); q.difference == "" {
					t.Errorf("sequence %d: reduced it shows no difference any more", seed)
				}
				t.Logf("sequence %d:%#v\n%s", seed, q, q.difference)
				if len(q.ops) <= few {
					return
				}
			}
			t.Errorf("saw %d sequences with a difference, none of which was reduced to %d operations; expected one", found, few)
		})
	}
}
