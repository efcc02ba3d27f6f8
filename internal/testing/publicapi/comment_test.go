package publicapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// TestEveryNameHasAComment checks that go doc has something to say about every exported
// type, function, method, variable and constant.
func TestEveryNameHasAComment(t *testing.T) {
	for _, p := range load(t) {
		for _, m := range uncommented(p) {
			t.Errorf("%s", m)
		}
	}
}

// understood are methods of standard library interfaces, whose names say what they do.
var understood = []string{"Error", "String", "Is", "As", "Unwrap"}

// uncommented lists exported names without a comment, with file and line.
func uncommented(p *pkg) (missing []string) {
	miss := func(pos token.Pos, name string) {
		missing = append(missing, fmt.Sprintf("%s: %s has no doc comment", p.position(pos), name))
	}
	documented := false
	for _, file := range p.files {
		documented = documented || file.Doc != nil
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				of := receiver(d)
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(of) && !slices.Contains(understood, d.Name.Name)) {
					miss(d.Pos(), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					p.spec(d, s, miss)
				}
			}
		}
	}
	if !documented {
		miss(p.files[0].Pos(), "package "+p.types.Name())
	}
	return missing
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// spec checks a declaration of types, variables or constants. A group's comment counts for all of
// its constants or variables; a type needs its own.
func (p *pkg) spec(d *ast.GenDecl, s ast.Spec, miss func(token.Pos, string)) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				miss(n.Pos(), n.Name)
			}
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		if s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			miss(s.Pos(), s.Name.Name)
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok {
			for _, m := range i.Methods.List {
				if len(m.Names) > 0 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
					miss(m.Pos(), s.Name.Name+"."+m.Names[0].Name)
				}
			}
		}
	}
}

type only struct{ pkg *types.Package }

func (o only) Import(string) (*types.Package, error) { return o.pkg, nil }

func parseText(t *testing.T, fset *token.FileSet, source string) []*ast.File {
	t.Helper()
	f, err := parser.ParseFile(fset, "x.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return []*ast.File{f}
}
