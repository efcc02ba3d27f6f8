package publicapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawlhq/pawl"

// A pkg is a public package of the module: its syntax and its types.
type pkg struct {
	path  string
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// position returns file and line, the file relative to the module.
func (p *pkg) position(pos token.Pos) string {
	at := p.fset.Position(pos)
	return fmt.Sprintf("%s/%s:%d", strings.TrimPrefix(p.path, module+"/"), filepath.Base(at.Filename), at.Line)
}

// internal reports whether users cannot import the package.
func internal(path string) bool {
	return slices.Contains(strings.Split(path, "/"), "internal") && (path == module || strings.HasPrefix(path, module+"/"))
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Name, Export string
	GoFiles                       []string
}

// loaded are the public packages, once a test has loaded them.
var loaded []*pkg

// load type-checks the public packages of the module. Their dependencies come from the
// compiler's export data.
func load(t *testing.T) []*pkg {
	t.Helper()
	if loaded != nil {
		return loaded
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	touch(t, root)
	var public []listed
	var paths []string
	for _, l := range list(t, root, "./...") {
		if l.Name != "main" && !internal(l.ImportPath) && !strings.HasPrefix(l.ImportPath, module+"/examples/") {
			public, paths = append(public, l), append(paths, l.ImportPath)
		}
	}
	exports := make(map[string]string)
	for _, l := range list(t, root, append([]string{"-deps", "-export"}, paths...)...) {
		exports[l.ImportPath] = l.Export
	}
	open := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	}
	for _, l := range public {
		fset := token.NewFileSet()
		p, err := check(l.ImportPath, fset, importer.ForCompiler(fset, "gc", open), parse(t, fset, l))
		if err != nil {
			t.Fatalf("%s: %v", l.ImportPath, err)
		}
		loaded = append(loaded, p)
	}
	return loaded
}

func list(t *testing.T, root string, args ...string) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Name,Export,GoFiles"}, args...)...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, l)
	}
}

func parse(t *testing.T, fset *token.FileSet, l listed) (files []*ast.File) {
	t.Helper()
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func check(path string, fset *token.FileSet, imp types.Importer, files []*ast.File) (*pkg, error) {
	p := &pkg{path: path, fset: fset, files: files, info: &types.Info{Uses: make(map[*ast.Ident]types.Object)}}
	conf := types.Config{Importer: imp}
	var err error
	p.types, err = conf.Check(path, fset, files, p.info)
	return p, err
}

// touch reads the module's directories. The go command reuses the result of a passed test
// until a file or a directory changes that the test itself has opened; it does not see what
// go list opens.
func touch(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a file that another test has just removed
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
