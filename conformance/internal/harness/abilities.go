package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/store"
)

// Needed lists the abilities under which a table has a case. A name of the table that ends
// with a slash or a hyphen stands for all that begin with it.
func Needed(table map[store.Ability][]string, name string) []store.Ability {
	var out []store.Ability
	for _, a := range store.Abilities() {
		if slices.ContainsFunc(table[a], func(s string) bool {
			return s == name || strings.HasPrefix(name, s) && strings.ContainsAny(s[len(s)-1:], "/-")
		}) {
			out = append(out, a)
		}
	}
	return out
}

// WhyNot says why a store is not put to a case with these needs; empty: it is.
func (h Harness) WhyNot(s store.Store, needs []store.Ability) string {
	for _, a := range needs {
		if reason, declared := h.Lacks[a]; declared {
			return fmt.Sprintf("it needs %s, which the backend lacks: %s", a, reason)
		}
		if !h.has(s, a) {
			return fmt.Sprintf("it needs %s, which the backend does not have", a)
		}
	}
	return ""
}

// has tells whether a store has an ability, as far as the harness shows it.
func (h Harness) has(s store.Store, a store.Ability) bool {
	switch {
	case a == store.Processes:
		return h.Reopen != nil
	case h.Progress && a != store.Hints && a != store.Transactions:
		return true // the interface may not be written yet
	}
	return store.Able(s, a)
}

// CheckAbilities compares what the harness declares with what the store says and does.
// What a store simply does not have, without a gap, is noted.
func CheckAbilities(t testing.TB, h Harness, s store.Store) {
	t.Helper()
	gaps := map[store.Ability]string{}
	for _, g := range s.Features().Gaps {
		gaps[g.Ability] = g.Reason
		if !slices.Contains(store.Abilities(), g.Ability) {
			t.Errorf("Features().Gaps: saw the ability %q, expected one of %v", g.Ability, store.Abilities())
		} else if _, declared := h.Lacks[g.Ability]; !declared {
			t.Errorf("Features().Gaps has %s (%s), which the harness does not declare: add it to Lacks", g.Ability, g.Reason)
		}
	}
	f := s.Features()
	says := map[store.Ability]bool{store.Hints: f.Hints, store.Processes: f.Processes, store.Transactions: f.Transactions}
	for _, a := range slices.Sorted(maps.Keys(h.Lacks)) {
		_, isGap := gaps[a]
		switch {
		case !slices.Contains(store.Abilities(), a):
			t.Errorf("the harness lacks %q, which is no ability: expected one of %v", a, store.Abilities())
		case h.Lacks[a] == "":
			t.Errorf("the harness lacks %s without a reason", a)
		case !isGap:
			t.Errorf("the harness lacks %s (%s), which is not in Features().Gaps: tell users so, or remove it", a, h.Lacks[a])
		case says[a]:
			t.Errorf("the harness and Features().Gaps lack %s, which Features says that the backend has: clear its field, or remove the gap", a)
		}
	}
	for _, a := range store.Abilities() {
		if _, declared := h.Lacks[a]; !declared && !h.has(s, a) {
			t.Logf("the backend does not have %s; cases that need it are left out. Declare it in Features().Gaps and in Lacks, with the reason", a)
		}
	}
}
