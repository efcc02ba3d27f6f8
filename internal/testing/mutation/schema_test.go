package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A common build contains changes of Go as conditions, one within another, and stays valid Go.
func TestSwitchedGo(t *testing.T) {
	const src = "package p\n\nconst most = 4 > 3 && true\n\nfunc f(a, b int) {\n\tif a < b && b >= 7 || g() {\n\t\tb++\n\t\trun(`x AND y=1 AND z`)\n\t}\n}\n"
	list, err := ofFile("p.go", []byte(src))
	require.NoError(t, err)
	files, err := schema("root", list, func(name string) ([]byte, error) {
		assert.Equal(t, filepath.Join("root", "p.go"), name)
		return []byte(src), nil
	})
	require.NoError(t, err)
	const want = `package p

const most = 4 > 3 && true

func f(a, b int) {
	if mutationOn(3) != ((!mutationOn(5) && ((mutationOn(8) && (a) == (b) || (mutationOn(7) || (a < b))) && (!(mutationOn(9) && (b) == (7)) && (mutationOn(6) || (b >= 7))))) || (!mutationOn(4) && (g()))) {
		if !mutationOn(10) { b++ }
		if !mutationOn(11) { run(mutationText(` + "`x AND y=1 AND z`" + `, mutationChange{1, 8, 9, "0"}, mutationChange{2, 1, 9, ""})) }
	}
}
`
	assert.Equal(t, want, string(files["p.go"]))
	for name, src := range files {
		_, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		assert.NoError(t, err, name)
	}
	alone := 0
	for _, m := range list {
		if m.id == 0 {
			alone++
			assert.True(t, m.Line == 3 || m.Kind == "go: number halved", "%s needs a build of its own: %s -> %s", m.Name, m.Old, m.New)
		}
	}
	assert.Equal(t, 6, alone, "those of the constant, and a number in Go")
}

// A later run goes on where an earlier one stopped: it takes survivors through the tiers that they
// have not seen, and tries what has no result yet.
func TestHistory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results")
	a, b, c, d := Mutation{File: "a"}, Mutation{File: "b"}, Mutation{File: "c"}, Mutation{File: "d", Excuse: "same: it is"}
	h, err := openHistory(name)
	require.NoError(t, err)
	require.NoError(t, h.add(Result{Mutation: a, Outcome: survived, Tiers: 1}))
	require.NoError(t, h.add(Result{Mutation: b, Outcome: killed, Tiers: 1}))
	require.NoError(t, h.file.Close())
	h, err = openHistory(name)
	require.NoError(t, err)
	all := []Mutation{a, b, c, d}
	assert.Equal(t, []Mutation{c}, h.pending(all, 1))
	assert.Equal(t, []Mutation{a, c}, h.pending(all, 2))
	require.NoError(t, h.add(Result{Mutation: a, Outcome: killed, Tiers: 2}))
	assert.Equal(t, []Mutation{c}, h.pending(all, 2))
	assert.Equal(t, map[string]map[string]int{"a": {killed: 1}, "b": {killed: 1}, "d": {excluded: 1}}, h.report(all).files)
	require.NoError(t, h.file.Close())
}

// An excuse names a place that exists and a change that is generated there.
func TestExcuses(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	var list []Mutation
	for _, b := range backends {
		more, err := generated(root, b)
		require.NoError(t, err)
		list = append(list, more...)
	}
	idle, err := excused(root, list, equivalents)
	require.NoError(t, err)
	assert.Empty(t, idle)
	_, err = excused(root, list, []Equivalent{{File: "go.mod", In: "no such text"}})
	require.ErrorContains(t, err, "has 0 places")
	idle, err = excused(root, list, []Equivalent{{File: "go.mod", In: "module "}})
	require.NoError(t, err)
	assert.Len(t, idle, 1)
}

// The cases that found most faults in a file run first.
func TestQuick(t *testing.T) {
	q := newQuick(&backend{store: "TestStore", patches: []Patch{{File: "a.go", Case: "claim/fifo"}, {File: "a.go", Case: "TestOpen"}}})
	_, ok := q.tier("b.go")
	assert.False(t, ok)
	q.learn("b.go", "TestStore/commit/gap/deeper")
	q.learn("b.go", "TestOther/commit/gap")
	first, ok := q.tier("b.go")
	assert.True(t, ok)
	assert.Equal(t, tier{"^TestStore$/^(commit)$/^(gap)$", ""}, first)
	first, _ = q.tier("a.go")
	assert.Equal(t, tier{"^TestStore$/^(claim)$/^(fifo)$", ""}, first)
}
