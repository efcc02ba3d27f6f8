package funclen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxLines is how long a function may be.
const maxLines = 80

// root is the directory of the repository. Its other modules are below it.
const root = "../../.."

// A function is a declared function, or one in a table. Its lines are those from its first to its
// last, without those of the tables in it: a table is read row by row.
type function struct {
	name  string
	at    token.Position
	lines int
}

// functions returns the functions of a file.
func functions(files *token.FileSet, file *ast.File) []function {
	var found []function
	for _, decl := range file.Decls {
		name := "a function of a table"
		if f, ok := decl.(*ast.FuncDecl); ok {
			name = f.Name.Name
			found = append(found, measure(files, name, f))
		}
		found = append(found, inTables(files, name, decl, false)...)
	}
	return found
}

// inTables returns the functions in the tables of a node, or in the node if it is part of a table.
func inTables(files *token.FileSet, name string, node ast.Node, table bool) []function {
	var found []function
	ast.Inspect(node, func(n ast.Node) bool {
		switch f, ok := n.(*ast.FuncLit); {
		case n == node:
			return true
		case ok && table:
			found = append(found, measure(files, name, f))
			found = append(found, inTables(files, name, f, false)...)
			return false
		case !table && isTable(n):
			found = append(found, inTables(files, name, n, true)...)
			return false
		}
		return true
	})
	return found
}

// measure counts the lines of a function.
func measure(files *token.FileSet, name string, node ast.Node) function {
	line := func(p token.Pos) int { return files.Position(p).Line }
	f := function{name: name, at: files.Position(node.Pos()), lines: line(node.End()) - line(node.Pos()) + 1}
	ast.Inspect(node, func(n ast.Node) bool {
		if isTable(n) {
			f.lines -= line(n.End()) - line(n.Pos())
			return false
		}
		return true
	})
	return f
}

// isTable reports whether a node is the literal of an array, a slice or a map.
func isTable(n ast.Node) bool {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return false
	}
	switch lit.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		return true
	}
	return false
}

// No function is longer than maxLines, in any module, in code and in tests.
func TestNoFunctionIsLong(t *testing.T) {
	var all []function
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err == nil {
			all = append(all, functions(files, file)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5000 {
		t.Fatalf("found %d functions; the repository has more", len(all))
	}
	for _, f := range all {
		if f.lines > maxLines {
			t.Errorf("%s: %s has %d lines without its tables; split it, at most %d are allowed", f.at, f.name, f.lines, maxLines)
		}
	}
}

// The lines of tables do not count, and functions in tables count on their own.
func TestMeasure(t *testing.T) {
	const src = `package p

var cases = []struct{ run func() }{
	{func() {
		one()
	}},
}

func f() {
	for _, n := range []int{
		1,
		2,
	} {
		do(func() {
			use(n)
		})
	}
	rows := map[string]func(){
		"a": func() {
			a()
		},
	}
	use(rows, point{
		x: 1,
	})
}
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range functions(files, file) {
		got = append(got, fmt.Sprintf("%d %s %d", f.at.Line, f.name, f.lines))
	}
	want := []string{"4 a function of a table 3", "9 f 11", "19 f 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
