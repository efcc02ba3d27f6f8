package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// switched is the environment variable with the number of the mutation in a common build.
const switched = "PAWL_MUTATION"

// helper is the file that is added to a package for its switched mutations.
const helper = `package %s

import (
	"os"
	"strconv"
)

type mutationChange struct {
	id, from, to int
	text         string
}

var mutationSelected, _ = strconv.Atoi(os.Getenv("` + switched + `"))

// mutationOn tells whether a mutation is selected.
func mutationOn(id int) bool { return mutationSelected == id }

// mutationText is text with the change that is selected.
func mutationText(text string, changes ...mutationChange) string {
	for i := range changes {
		if c := &changes[i]; c.id == mutationSelected {
			return text[:c.from] + c.text + text[c.to:]
		}
	}
	return text
}
`

// wrap is how a mutation of Go is written in a common build: text around a piece of the source.
// %d is the mutation's number.
type wrap struct {
	from, to      int
	before, after string
}

// insertion is text that is put into a source. Those of one place come in the order in which
// their pieces end and begin.
type insertion struct {
	at    int
	opens bool
	size  int // of the piece
	text  string
}

// schema makes one build of many mutations: those inside a string literal become a call that
// changes the text when the program runs, and those of Go that have a [wrap] become a condition. It
// numbers them and returns the files of the build, by path from the module's root. Other mutations
// keep the number 0 and a build of their own.
func schema(root string, list []Mutation, read func(string) ([]byte, error)) (map[string][]byte, error) {
	byFile := map[string][]*Mutation{}
	for i := range list {
		list[i].id = 0
		byFile[list[i].File] = append(byFile[list[i].File], &list[i])
	}
	files, n := map[string][]byte{}, 0
	for name, mutations := range byFile {
		if filepath.Ext(name) != ".go" {
			continue // a migration is embedded in a build of its own
		}
		src, err := read(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		var all []insertion
		for _, lit := range switchable(f) {
			from, to := fset.Position(lit.Pos()).Offset, fset.Position(lit.End()).Offset
			all = append(all, inLiteral(from, to, mutations, &n)...)
		}
		for _, m := range mutations {
			if w := m.wrap; w != nil && m.id == 0 {
				n++
				m.id = n
				all = append(all,
					insertion{w.from, true, w.to - w.from, fmt.Sprintf(w.before, n)},
					insertion{w.to, false, w.to - w.from, w.after})
			}
		}
		if len(all) > 0 {
			files[name] = inserted(src, all)
			files[filepath.ToSlash(filepath.Join(filepath.Dir(name), "mutation_helper.go"))] = fmt.Appendf(nil, helper, f.Name.Name)
		}
	}
	return files, nil
}

// inLiteral numbers the mutations inside the string literal at src[from:to].
func inLiteral(from, to int, mutations []*Mutation, n *int) []insertion {
	var call strings.Builder
	for _, m := range mutations {
		if m.id > 0 || m.At <= from || m.At+len(m.Old) >= to || strings.ContainsAny(m.New, "`\r") {
			continue
		}
		*n++
		m.id = *n
		fmt.Fprintf(&call, ", mutationChange{%d, %d, %d, %s}", *n, m.At-from-1, m.At-from-1+len(m.Old), strconv.Quote(m.New))
	}
	if call.Len() == 0 {
		return nil
	}
	return []insertion{{from, true, to - from, "mutationText("}, {to, false, to - from, call.String() + ")"}}
}

// inserted returns src with the insertions. It adds no lines, so that an error of the compiler
// tells where it is in src.
func inserted(src []byte, all []insertion) []byte {
	slices.SortStableFunc(all, func(a, b insertion) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.opens != b.opens: // what ends comes before what begins
			if b.opens {
				return -1
			}
			return 1
		case a.opens: // the larger piece begins first
			return cmp.Compare(b.size, a.size)
		}
		return cmp.Compare(a.size, b.size)
	})
	// Of several wraps around one piece, the last to begin is the first to end.
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].at == all[i].at && all[j].size == all[i].size && all[j].opens == all[i].opens {
			j++
		}
		if all[i].opens {
			slices.Reverse(all[i:j])
		}
		i = j
	}
	var out []byte
	at := 0
	for _, i := range all {
		out = append(append(out, src[at:i.at]...), i.text...)
		at = i.at
	}
	return append(out, src[at:]...)
}

// switchable lists the string literals whose text may be the result of a call: not those of
// constants, imports, tags and cases, and none in which a place in the source is not one
// in the text.
func switchable(f *ast.File) []*ast.BasicLit {
	var out []*ast.BasicLit
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.StructType:
			return false
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.BasicLit:
			if n.Kind == token.STRING && !strings.ContainsAny(n.Value, "\\\r") {
				out = append(out, n)
			}
		}
		return true
	})
	return out
}
