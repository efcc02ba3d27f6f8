package workflow

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCodesAreExported checks that every failure code that is recorded has a constant of the same
// name and value in this package.
func TestCodesAreExported(t *testing.T) {
	t.Parallel()
	recorded, exported := codesOf(t, filepath.Join("..", "internal", "exec")), codesOf(t, ".")
	require.Contains(t, recorded, "CodeError")
	for name, value := range recorded {
		require.Contains(t, exported, name)
		if value != "" { // of a literal
			require.Equal(t, value, exported[name], name)
		}
	}
}

// codesOf reads the constants of a package's source whose names begin with Code. The value
// of one that is not a literal is empty.
func codesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	codes := map[string]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if !strings.HasPrefix(name.Name, "Code") {
						continue
					}
					codes[name.Name] = ""
					if lit, ok := v.Values[i].(*ast.BasicLit); ok {
						codes[name.Name] = lit.Value
					}
				}
			}
		}
	}
	return codes
}
