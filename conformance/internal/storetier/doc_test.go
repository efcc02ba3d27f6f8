package storetier

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var caseName = regexp.MustCompile(`[a-z]+/[a-z0-9-]+`)

func TestCasesAreWellFormed(t *testing.T) {
	promises, names := map[string]int{}, map[string]bool{}
	for _, cs := range Cases() {
		if names[cs.Name] {
			t.Errorf("two cases are called %s", cs.Name)
		}
		names[cs.Name] = true
		promises[cs.Promise]++
		if cs.Rule == "" || cs.Run == nil || caseName.FindString(cs.Name) != cs.Name {
			t.Errorf("case %q needs a name such as noun/what, a rule and something to run", cs.Name)
		}
		if cs.Promise != "" && !regexp.MustCompile(`^P([1-9]|1[0-9]|2[0-9]|3[01])$`).MatchString(cs.Promise) {
			t.Errorf("case %s: %q is no promise", cs.Name, cs.Promise)
		}
	}
	for _, p := range strings.Fields("P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P13 P14 P15 P16 P17 P18 P19 P20 P21 P22 P23 P24 P25 P26 P27 P28 P29 P30 P31") {
		if promises[p] < 3 {
			t.Errorf("%s has %d cases, expected at least 3", p, promises[p])
		}
	}
	t.Logf("%d cases: %v", len(names), promises)
}

// The table at store.HintKind has the rows from which the cases are made, in the same order.
func TestHintTableIsInTheContract(t *testing.T) {
	source, err := os.ReadFile("../../../store/hint.go")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, row := range hintRows {
		fmt.Fprintf(&want, "//\t%-56s %s\n", row.write, row.tells)
	}
	if !strings.Contains(string(source), "//\n"+want.String()+"//\n") {
		t.Errorf("the comment of store.HintKind does not have this table:\n%s", want.String())
	}
}
