package main

import (
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

import "os"

type mutationChange struct {
	id       string
	from, to int
	text     string
}

// mutationText is text with the change that is selected.
func mutationText(text string, changes ...mutationChange) string {
	for id, i := os.Getenv("` + switched + `"), 0; i < len(changes); i++ {
		if c := changes[i]; c.id == id {
			return text[:c.from] + c.text + text[c.to:]
		}
	}
	return text
}
`

// schema makes one build of many mutations: those inside a string literal become a call that
// changes the text when the program runs. It numbers them and returns the files of
// the build, by path from the module's root. Other mutations keep the number 0 and a
// build of their own.
func schema(root string, list []Mutation, read func(string) ([]byte, error)) (map[string][]byte, error) {
	byFile := map[string][]*Mutation{}
	for i := range list {
		byFile[list[i].File] = append(byFile[list[i].File], &list[i])
	}
	files, n := map[string][]byte{}, 0
	for name, mutations := range byFile {
		src, err := read(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		out, used := src, false
		literals := switchable(f)
		slices.Reverse(literals) // later ones are replaced first, so that earlier places stay valid
		for _, lit := range literals {
			from, to := fset.Position(lit.Pos()).Offset, fset.Position(lit.End()).Offset
			var call strings.Builder
			for _, m := range mutations {
				if m.id > 0 || m.at <= from || m.at+len(m.Old) >= to || strings.ContainsAny(m.New, "`\r") {
					continue
				}
				n++
				m.id = n
				fmt.Fprintf(&call, ", mutationChange{\"%d\", %d, %d, %s}", n, m.at-from-1, m.at-from-1+len(m.Old), strconv.Quote(m.New))
			}
			if call.Len() > 0 {
				used = true
				out = []byte(string(out[:from]) + "mutationText(" + string(src[from:to]) + call.String() + ")" + string(out[to:]))
			}
		}
		if used {
			files[name] = out
			files[filepath.ToSlash(filepath.Join(filepath.Dir(name), "mutation_helper.go"))] = fmt.Appendf(nil, helper, f.Name.Name)
		}
	}
	return files, nil
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
