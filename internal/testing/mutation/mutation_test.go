package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each planted fault matches exactly one place in the source, and a changed Go file is valid Go.
func TestPatchesApply(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	for name, b := range backends {
		list, err := planted(root, b.patches)
		require.NoError(t, err, name)
		seen := map[string]bool{}
		for _, m := range list {
			assert.False(t, seen[m.Name], "two faults of %s are %s", name, m.Name)
			seen[m.Name] = true
			assert.NotEqual(t, m.Old, m.New, m.Name)
			assert.Regexp(t, `^([a-z]+/[a-z-]+|Test[A-Za-z0-9]+)$`, m.Case, m.Name)
			if filepath.Ext(m.File) == ".go" {
				_, err := parser.ParseFile(token.NewFileSet(), m.File, m.content, 0)
				assert.NoError(t, err, m.Name)
			}
		}
	}
}

func TestPatchWithoutItsPlaceIsAnError(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	_, err = planted(root, []Patch{{Name: "none", File: "go.mod", Old: "no such text"}})
	require.ErrorContains(t, err, `none: go.mod has 0 places "no such text", want one`)
}

const sample = "package p\n\nfunc f(a, b int) error {\n\tif a < b && b > 7 {\n\t\tg()\n\t}\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn run(`" +
	"UPDATE runs SET crashes=0, n=n+1, status={running} WHERE id=$1 AND seq<=$2 AND (a IS NULL OR b > 1) ORDER BY at DESC LIMIT 10 FOR UPDATE SKIP LOCKED`)\n}\n"

func TestGeneratedMutations(t *testing.T) {
	list, err := ofFile("p.go", []byte(sample))
	require.NoError(t, err)
	got := map[string][]string{}
	for _, m := range list {
		got[m.Kind] = append(got[m.Kind], m.Old+" -> "+m.New)
		_, err := parser.ParseFile(token.NewFileSet(), "p.go", m.content, 0)
		assert.NoError(t, err, "%s: %s", m.Kind, m.New)
	}
	assert.Equal(t, map[string][]string{
		"go: condition negated":   {"a < b && b > 7 -> !(a < b && b > 7)"},
		"go: condition dropped":   {"a < b && b > 7 -> a < b", "a < b && b > 7 -> b > 7"},
		"go: bound moved":         {"< -> <=", "> -> >="},
		"go: number halved":       {"7 -> 3"},
		"go: statement removed":   {"g() -> "},
		"sql: lock removed":       {" FOR UPDATE SKIP LOCKED -> "},
		"sql: lock that waits":    {" SKIP LOCKED -> "},
		"sql: bound moved":        {"<= -> <", "> -> >="},
		"sql: status changed":     {"{running} -> {pending}"},
		"sql: number changed":     {"0 -> 1", "1 -> 0", "1 -> 0", "10 -> 5"},
		"sql: order reversed":     {"DESC -> ASC"},
		"sql: order dropped":      {" ORDER BY at DESC -> "},
		"sql: null reversed":      {"IS NULL -> IS NOT NULL"},
		"sql: logic reversed":     {"OR -> AND"},
		"sql: assignment dropped": {"crashes=0,  -> "},
		"sql: increment dropped":  {"+1 -> "},
		"sql: condition dropped":  {"id=$1 -> true", " AND seq<=$2 -> ", " AND (a IS NULL OR b > 1) -> "},
	}, got)
}

// The tool distinguishes a fault that its case finds from a change that nothing can detect, and
// from one that does not compile.
func TestOutcomes(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	r := &runner{root: root, dir: t.TempDir(), backend: backends["sqlite"], count: 1}
	const file, old, finds = sqliteCore + "control.go", `pausing=status={running}`, "pause/running-at-next-transition"
	list, err := planted(root, []Patch{
		{"mark", "condition", file, old, `pausing=0`, finds},
		{"nothing", "condition", file, old, `pausing=(status={running})`, finds},
		{"broken", "condition", file, `package sqlitecore`, `package other`, finds},
	})
	require.NoError(t, err)
	require.NoError(t, r.baseline(t.Context(), list, nil))
	assert.Equal(t, []bool{true, true, false}, []bool{list[0].id > 0, list[1].id > 0, list[2].id > 0}, "those in strings share a build")
	rep := &report{}
	var outcomes []string
	for _, m := range list {
		res := r.try(t.Context(), m, Result{})
		rep.add(res)
		outcomes = append(outcomes, res.Outcome)
	}
	assert.Equal(t, []string{killed, survived, invalid}, outcomes)
	var out strings.Builder
	rep.print(&out, 3)
	assert.Contains(t, out.String(), "50%")
	assert.Contains(t, out.String(), "3 more were not tried")
}
