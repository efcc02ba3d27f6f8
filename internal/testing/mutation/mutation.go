package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutation is a change of one place of a source file.
type Mutation struct {
	Name    string // of a planted fault; for a generated one, its place
	Kind    string // the class of a planted fault; the operator of a generated one
	File    string // from the module's root
	Line    int
	Old     string
	New     string
	At      int    // where Old begins in the file
	Case    string `json:",omitempty"` // the case that must find a planted fault
	Excuse  string `json:",omitempty"` // why no test can find a generated one
	content []byte // of the changed file
	wrap    *wrap  // how a common build contains it; nil: it cannot, unless it is inside a string
	id      int    // its number in the common build; 0: it needs a build of its own
}

// Patch is a planted fault. Old occurs once in the file; New takes its place.
type Patch struct {
	Name string // what goes wrong: "claim takes what is paused"
	Kind string // the class of fault: "condition", "bound", "order", "lock", "transaction", "hint", "name"
	File string
	Old  string
	New  string
	Case string // of the store tier, as "claim/paused"; or a test of the backend's package, as "TestOpen"
}

// planted applies patches.
func planted(root string, patches []Patch) ([]Mutation, error) {
	var out []Mutation
	for _, p := range patches {
		src, err := os.ReadFile(filepath.Join(root, p.File))
		if err != nil {
			return nil, err
		}
		at := strings.Index(string(src), p.Old)
		if n := strings.Count(string(src), p.Old); n != 1 {
			return nil, fmt.Errorf("%s: %s has %d places %q, want one", p.Name, p.File, n, p.Old)
		}
		m := replaced(p.File, src, at, at+len(p.Old), p.New)
		m.Name, m.Kind, m.Case = p.Name, p.Kind, p.Case
		out = append(out, m)
	}
	return out, nil
}

// replaced returns the mutation that replaces src[from:to] with text.
func replaced(file string, src []byte, from, to int, text string) Mutation {
	line := 1 + strings.Count(string(src[:from]), "\n")
	content := make([]byte, 0, len(src)+len(text))
	content = append(append(append(content, src[:from]...), text...), src[to:]...)
	return Mutation{
		Name: fmt.Sprintf("%s:%d", file, line), File: file, Line: line,
		Old: string(src[from:to]), New: text, content: content, At: from,
	}
}
