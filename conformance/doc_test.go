package conformance

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	caseList  = regexp.MustCompile(`\b[Cc]ases?:?\s+((?:[a-z]+/[a-z0-9-]+,?\s*)+)`)
	caseName  = regexp.MustCompile(`[a-z]+/[a-z0-9-]+`)
	promiseOf = regexp.MustCompile(`\bP\d+:`)
)

// mention is a case's name in a doc comment of package store.
type mention struct {
	name    string
	promise string // "P4", when it stands behind "P4:" in its paragraph
	pos     token.Position
}

// mentions finds the lists that follow "Cases:" or "case" in the comments.
func mentions(t *testing.T) []mention {
	t.Helper()
	files, err := filepath.Glob("../store/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of package store: %v", err)
	}
	var all []mention
	for _, file := range files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, par := range strings.Split(group.Text(), "\n\n") {
				for _, list := range caseList.FindAllStringSubmatchIndex(par, -1) {
					promise := ""
					if p := promiseOf.FindAllString(par[:list[0]], -1); p != nil {
						promise = strings.TrimSuffix(p[len(p)-1], ":")
					}
					for _, name := range caseName.FindAllString(par[list[2]:list[3]], -1) {
						all = append(all, mention{name, promise, fset.Position(group.Pos())})
					}
				}
			}
		}
	}
	return all
}

// The doc comments of package store and the cases name each other: no case is
// mentioned that does not exist, none exists that is not mentioned, once, and
// a list behind "P4:" names cases of P4.
func TestCasesAreInTheContract(t *testing.T) {
	cases, seen := map[string]Case{}, map[string]int{}
	for _, cs := range Cases() {
		cases[cs.Name] = cs
	}
	for _, m := range mentions(t) {
		seen[m.name]++
		cs, ok := cases[m.name]
		switch {
		case !ok:
			t.Errorf("%s: the comment mentions the case %s, which does not exist", m.pos, m.name)
		case m.promise != "" && m.promise != cs.Promise:
			t.Errorf("%s: the comment mentions the case %s (%s) among those of %s", m.pos, m.name, cs.Promise, m.promise)
		}
	}
	for _, cs := range Cases() {
		if seen[cs.Name] != 1 {
			t.Errorf("case %s (%s) is mentioned %d times in the comments of package store, expected once", cs.Name, cs.Promise, seen[cs.Name])
		}
	}
}

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
		if cs.Promise != "" && !regexp.MustCompile(`^P([1-9]|1[0-8])$`).MatchString(cs.Promise) {
			t.Errorf("case %s: %q is no promise", cs.Name, cs.Promise)
		}
	}
	for _, p := range strings.Fields("P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P13 P14 P15 P16 P17 P18") {
		if promises[p] < 3 {
			t.Errorf("%s has %d cases, expected at least 3", p, promises[p])
		}
	}
	t.Logf("%d cases: %v", len(names), promises)
}
