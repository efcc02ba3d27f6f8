// Package examples checks that each public package has examples, and that pkg.go.dev shows them as
// whole programs.
package examples

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serverless are the packages whose examples may all lack output, because they need a server.
var serverless = []string{"backends/postgres", "backends/turso/libsqlclient"}

// An example that uses declarations of another file is shown without them, so nobody can copy and
// run it.
func TestExamples(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	packages := public(t, root)
	if !slices.Contains(packages, "workflow") {
		t.Fatalf("no package workflow among %v", packages)
	}
	total := 0
	for _, path := range packages {
		examples := examplesOf(t, filepath.Join(root, path))
		output := 0
		for _, e := range examples {
			if e.Play == nil {
				t.Errorf("%s: Example%s is not whole: declare what it uses in its own file", path, e.Name)
			}
			if e.Output != "" || e.EmptyOutput {
				output++
			}
		}
		if output == 0 && (len(examples) == 0 || !slices.Contains(serverless, path)) {
			t.Errorf("%s: no example with an output", path)
		}
		total += output
	}
	if total < 40 {
		t.Errorf("saw %d examples with an output, expected 40 at least", total)
	}
}

// public lists the public packages of the module, by their folders.
func public(t *testing.T, root string) (packages []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		switch name := d.Name(); {
		case name == "internal", name == "examples", name == "testdata", strings.HasPrefix(name, "."):
			return filepath.SkipDir
		case exists(filepath.Join(path, "go.mod")):
			return filepath.SkipDir
		}
		sources, err := filepath.Glob(filepath.Join(path, "*.go"))
		// A command is not a package that programs import.
		if !exists(filepath.Join(path, "main.go")) && slices.ContainsFunc(sources, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
			rel, _ := filepath.Rel(root, path)
			packages = append(packages, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func examplesOf(t *testing.T, dir string) []*doc.Example {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	fset := token.NewFileSet()
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return doc.Examples(files...)
}
