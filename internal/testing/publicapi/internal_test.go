package publicapi

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// TestNoInternalTypes checks that users can name everything that a public package exposes: no type
// of an internal package occurs in an exported signature, field, alias, constraint or embedded
// type, and no exported variable or constant is defined by one. Unexported fields and unexported
// methods do not count.
func TestNoInternalTypes(t *testing.T) {
	pkgs := load(t)
	if !slices.ContainsFunc(pkgs, func(p *pkg) bool { return p.path == module+"/workflow" }) {
		t.Fatalf("go list found no package %s/workflow", module)
	}
	for _, p := range pkgs {
		for _, o := range offences(p) {
			t.Errorf("%s", o)
		}
	}
}

// A finder looks for internal types in what a package exports.
type finder struct {
	pkg   *pkg
	seen  map[types.Type]bool
	found []string
}

// offences lists everything from an internal package that a package exports, with file and line.
func offences(p *pkg) []string {
	f := &finder{pkg: p, seen: make(map[types.Type]bool)}
	scope := p.types.Scope()
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			f.object(o)
		}
	}
	f.initializers()
	slices.Sort(f.found)
	return slices.Compact(f.found)
}

// object checks an exported object of the package.
func (f *finder) object(o types.Object) {
	tn, ok := o.(*types.TypeName)
	switch {
	case !ok:
		f.typ(o.Type(), o.Name(), o.Pos())
	case tn.IsAlias():
		f.typ(types.Unalias(tn.Type()), tn.Name(), tn.Pos())
		if a, ok := tn.Type().(*types.Alias); ok {
			f.typ(a.Rhs(), tn.Name(), tn.Pos())
		}
	default:
		f.typ(tn.Type(), tn.Name(), tn.Pos())
	}
}

// typ checks a type that is exposed; where names its place.
func (f *finder) typ(t types.Type, where string, pos token.Pos) {
	switch t := t.(type) {
	case *types.Named:
		f.named(t, where, pos)
	case *types.Alias:
		f.name(t.Obj(), where, pos)
		for a := range t.TypeArgs().Types() {
			f.typ(a, where, pos)
		}
		if o := t.Obj(); o.Pkg() == f.pkg.types && !o.Exported() {
			f.typ(t.Rhs(), where, pos)
		}
	case *types.TypeParam:
		f.once(t, func() { f.typ(t.Constraint(), where, pos) })
	case *types.Pointer:
		f.typ(t.Elem(), where, pos)
	case *types.Slice:
		f.typ(t.Elem(), where, pos)
	case *types.Array:
		f.typ(t.Elem(), where, pos)
	case *types.Chan:
		f.typ(t.Elem(), where, pos)
	case *types.Map:
		f.typ(t.Key(), where, pos)
		f.typ(t.Elem(), where, pos)
	case *types.Signature:
		f.signature(t, where, pos)
	case *types.Union:
		for term := range t.Terms() {
			f.typ(term.Type(), where, pos)
		}
	case *types.Struct:
		for v := range t.Fields() {
			switch {
			case v.Exported():
				f.typ(v.Type(), where+"."+v.Name(), v.Pos())
			case v.Embedded():
				f.promoted(v.Type(), where, v.Pos())
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if m.Exported() {
				f.typ(m.Type(), where+"."+m.Name(), m.Pos())
			}
		}
		for e := range t.EmbeddedTypes() {
			f.typ(e, where, pos)
		}
	}
}

func (f *finder) signature(s *types.Signature, where string, pos token.Pos) {
	for p := range s.TypeParams().TypeParams() {
		f.typ(p.Constraint(), where, pos)
	}
	for v := range s.Params().Variables() {
		if !f.opaque(v.Type()) {
			f.typ(v.Type(), where, pos)
		}
	}
	for v := range s.Results().Variables() {
		f.typ(v.Type(), where, pos)
	}
}

// opaque reports whether a parameter is of an unexported type of the package, or a pointer
// to one. Users can neither name it nor look into it.
func (f *finder) opaque(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && n.Obj().Pkg() == f.pkg.types && !n.Obj().Exported()
}

// named checks the name of a type, its arguments and, if the package under test declares it, its
// definition. The other public packages are checked separately.
func (f *finder) named(t *types.Named, where string, pos token.Pos) {
	f.name(t.Obj(), where, pos)
	for a := range t.TypeArgs().Types() {
		f.typ(a, where, pos)
	}
	t = t.Origin()
	if t.Obj().Pkg() != f.pkg.types {
		return
	}
	f.once(t, func() {
		name := t.Obj().Name()
		for p := range t.TypeParams().TypeParams() {
			f.typ(p.Constraint(), name, pos)
		}
		for m := range t.Methods() {
			if m.Exported() {
				f.typ(m.Type(), name+"."+m.Name(), m.Pos())
			}
		}
		f.typ(t.Underlying(), name, t.Obj().Pos())
	})
}

// promoted checks what an embedded type, whose own name is not exported, adds to a struct.
func (f *finder) promoted(t types.Type, where string, pos token.Pos) {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	all := types.Type(types.NewPointer(t))
	if types.IsInterface(t) {
		all = t
	}
	for m := range types.NewMethodSet(all).Methods() {
		if o := m.Obj(); o.Exported() {
			f.typ(o.Type(), where+"."+o.Name(), pos)
		}
	}
	if s, ok := t.Underlying().(*types.Struct); ok {
		f.typ(s, where, pos)
	}
}

func (f *finder) once(t types.Type, look func()) {
	if !f.seen[t] {
		f.seen[t] = true
		look()
	}
}

func (f *finder) name(o *types.TypeName, where string, pos token.Pos) {
	if o.Pkg() != nil && internal(o.Pkg().Path()) {
		f.add(pos, where, o.Pkg(), o.Name())
	}
}

func (f *finder) add(pos token.Pos, where string, p *types.Package, name string) {
	f.found = append(f.found, fmt.Sprintf("%s: %s shows users %s.%s of an internal package", f.pkg.position(pos), where, p.Name(), name))
}

// initializers checks the definitions of exported variables and constants, because their
// documentation shows them.
func (f *finder) initializers() {
	for _, file := range f.pkg.files {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR && g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if name.IsExported() && i < len(v.Values) {
						f.value(name.Name, v.Values[i])
					}
				}
			}
		}
	}
}

func (f *finder) value(where string, value ast.Expr) {
	ast.Inspect(value, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if o := f.pkg.info.Uses[id]; o != nil && o.Pkg() != nil && internal(o.Pkg().Path()) {
				if _, name := o.(*types.PkgName); !name {
					f.add(id.Pos(), where, o.Pkg(), o.Name())
				}
			}
		}
		_, body := n.(*ast.FuncLit)
		return !body
	})
}

// TestFinderFinds shows that each kind of offence is found, and nothing else.
func TestFinderFinds(t *testing.T) {
	const hidden = `package exec
type Error struct{ Text string }
type Policy interface{ Wait() }
type Options struct{ N int }
type Base struct{}
func (*Base) M() (e Error) { return }
type Hidden struct{}
func (*Hidden) M() {}
const Code = "code"
var Err error
func Make() *Options { return nil }`
	for _, c := range []struct{ name, source, want string }{
		{"an alias", "type E = exec.Error", "E shows users exec.Error"},
		{"an alias by way of another", "type e = exec.Error; type E = e", "E shows users exec.Error"},
		{"an exported field", "type T struct{ E *exec.Error }", "T.E shows users exec.Error"},
		{"an embedded type", "type T struct{ exec.Error }", "T.Error shows users exec.Error"},
		{"an embedded interface", "type I interface{ exec.Policy }", "I shows users exec.Policy"},
		{"a method", "type T struct{}; func (T) M(map[string][]exec.Error) {}", "T.M shows users exec.Error"},
		{"a method of an interface", "type I interface{ M() chan exec.Error }", "I.M shows users exec.Error"},
		{"a function type", "type Option func(*exec.Options)", "Option shows users exec.Options"},
		{"a result", "func F() (n int, err *exec.Error) { return }", "F shows users exec.Error"},
		{"a constraint", "func F[P exec.Policy]() {}", "F shows users exec.Policy"},
		{"a type argument", "type G[T any] struct{}; var V G[exec.Error]", "V shows users exec.Error"},
		{"an unexported type that is exported through another", "type t struct{ E exec.Error }; func F() (v t) { return }", "t.E shows users exec.Error"},
		{"a variable's type", "var V = exec.Make()", "V shows users exec.Make,V shows users exec.Options"},
		{"an error's definition", "var ErrX = exec.Err", "ErrX shows users exec.Err"},
		{"a constant's definition", "const CodeX = exec.Code", "CodeX shows users exec.Code"},
		{"a method of an embedded type", "type base = exec.Base; type T struct{ base }", "T.M shows users exec.Error"},
		{"a field of an embedded type", "type base struct{ E exec.Error }; type T struct{ *base }", "T.E shows users exec.Error"},
		{"what is unexported", `type options exec.Options
			type hidden = exec.Hidden
			type T struct{ e exec.Error; *hidden }
			type Option func(*options)
			type scope struct{ E exec.Error }
			func F(*scope) {}
			type I interface{ apply(*exec.Options) }
			func (T) m(exec.Error) {}
			var v = exec.Err
			var ErrX = err()
			func err() error { return exec.Err }`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fset := token.NewFileSet()
			inner, err := check(module+"/internal/exec", fset, nil, parseText(t, fset, hidden))
			if err != nil {
				t.Fatal(err)
			}
			p, err := check(module+"/workflow", fset, only{inner.types}, parseText(t, fset, "package workflow\nimport \""+module+"/internal/exec\"\n"+c.source))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range offences(p) {
				_, what, _ := strings.Cut(o, ": ")
				got = append(got, strings.TrimSuffix(what, " of an internal package"))
			}
			if s := strings.Join(got, ","); s != c.want {
				t.Errorf("found %q, want %q", s, c.want)
			}
		})
	}
}
