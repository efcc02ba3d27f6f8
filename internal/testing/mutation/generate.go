package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// place is a part of a file: the declarations of these names, or all of it.
type place struct {
	file  string
	decls []string
}

// generated lists every mutation of the sources of a backend.
func generated(root string, b *backend) ([]Mutation, error) {
	var out []Mutation
	for _, pattern := range b.sources {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			name := filepath.ToSlash(rel)
			list, err := ofPlace(root, place{file: name})
			for _, p := range b.unused {
				if p.file == name && err == nil {
					list, err = outside(root, p, list)
				}
			}
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
		}
	}
	for _, p := range b.parts {
		list, err := ofPlace(root, p)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// outside lists those of the mutations of a file that are not in a part of it.
func outside(root string, p place, list []Mutation) ([]Mutation, error) {
	inside, err := ofPlace(root, p)
	if err != nil {
		return nil, err
	}
	in := map[key]bool{}
	for _, m := range inside {
		in[keyOf(m)] = true
	}
	return slices.DeleteFunc(list, func(m Mutation) bool { return in[keyOf(m)] }), nil
}

// ofPlace lists the mutations of a part of a file.
func ofPlace(root string, p place) ([]Mutation, error) {
	src, err := os.ReadFile(filepath.Join(root, p.file))
	if err != nil {
		return nil, err
	}
	return ofFile(p.file, src, p.decls...)
}

// ofFile lists the mutations of one file of Go, or of some declarations in it, SQL in its string
// literals included.
func ofFile(name string, src []byte, decls ...string) ([]Mutation, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	g := &generator{name: name, src: src, offset: func(p token.Pos) int { return fset.Position(p).Offset }}
	if len(decls) == 0 {
		ast.Inspect(f, g.visit)
	}
	for _, decl := range decls {
		found := false
		ast.Inspect(f, func(n ast.Node) bool {
			if declares(n, decl) {
				found = true
				ast.Inspect(n, g.visit)
			}
			return true
		})
		if !found {
			return nil, fmt.Errorf("%s declares no %s", name, decl)
		}
	}
	g.inConstants(f)
	return g.out, nil
}

// declares tells whether a node is the declaration of a function or a variable of the package.
func declares(n ast.Node, name string) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Name.Name == name
	case *ast.ValueSpec:
		return n.Names[0].Name == name
	}
	return false
}

// inConstants takes from the mutations of constants, which cannot depend on a variable, their wraps.
func (g *generator) inConstants(f *ast.File) {
	for _, d := range f.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for i := range g.out {
				if m := &g.out[i]; m.At >= g.offset(d.Pos()) && m.At < g.offset(d.End()) {
					m.wrap = nil
				}
			}
		}
	}
}

type generator struct {
	name   string
	src    []byte
	offset func(token.Pos) int
	out    []Mutation
}

func (g *generator) replace(kind string, from, to token.Pos, text string) {
	g.put(kind, g.offset(from), g.offset(to), text)
}

// wrapped is how a common build contains the last mutation.
func (g *generator) wrapped(n ast.Node, before, after string) {
	g.out[len(g.out)-1].wrap = &wrap{g.offset(n.Pos()), g.offset(n.End()), before, after}
}

func (g *generator) put(kind string, from, to int, text string) {
	m := replaced(g.name, g.src, from, to, text)
	m.Kind = kind
	g.out = append(g.out, m)
}

func (g *generator) text(n ast.Node) string {
	return string(g.src[g.offset(n.Pos()):g.offset(n.End())])
}

// neighbors are the comparisons to which a comparison is weakened or strengthened.
var neighbors = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

func (g *generator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.IfStmt:
		if !aboutError(g.text(n.Cond)) {
			g.replace("go: condition negated", n.Cond.Pos(), n.Cond.End(), "!("+g.text(n.Cond)+")")
			g.wrapped(n.Cond, "mutationOn(%d) != (", ")")
		}
	case *ast.BinaryExpr:
		if to, ok := neighbors[n.Op]; ok {
			g.replace("go: bound moved", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to)
			equal := "(" + g.text(n.X) + ") == (" + g.text(n.Y) + ")"
			if strings.HasSuffix(to, "=") {
				g.wrapped(n, "(mutationOn(%d) && "+strings.ReplaceAll(equal, "%", "%%")+" || ", ")")
			} else {
				g.wrapped(n, "(!(mutationOn(%d) && "+strings.ReplaceAll(equal, "%", "%%")+") && ", ")")
			}
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			before := "(mutationOn(%d) || "
			if n.Op == token.LOR {
				before = "(!mutationOn(%d) && "
			}
			g.replace("go: condition dropped", n.Pos(), n.End(), g.text(n.X))
			g.wrapped(n.Y, before+"(", "))")
			g.replace("go: condition dropped", n.Pos(), n.End(), g.text(n.Y))
			g.wrapped(n.X, before+"(", "))")
		}
	case *ast.BasicLit:
		g.literal(n)
	case *ast.BlockStmt:
		for _, s := range n.List {
			if g.removable(s) {
				g.replace("go: statement removed", s.Pos(), s.End(), "")
				g.wrapped(s, "if !mutationOn(%d) { ", " }")
			}
		}
	}
	return true
}

// aboutError recognizes conditions on errors: negating one breaks everything and shows nothing.
func aboutError(cond string) bool {
	return strings.Contains(cond, "err ") || strings.Contains(cond, "err)")
}

// removable recognizes statements without which the function usually still compiles.
func (g *generator) removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.IncDecStmt:
		return true
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.Ident)
		return !ok || f.Name != "panic" // which may be what ends a function
	}
	return false
}

func (g *generator) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil && v > 1 {
			g.replace("go: number halved", n.Pos(), n.End(), strconv.FormatInt(v/2, 10))
		}
	case token.STRING:
		if !looksLikeSQL(n.Value) {
			return
		}
		at := g.offset(n.Pos())
		for _, c := range sqlChanges(n.Value) {
			g.put(c.kind, at+c.from, at+c.to, c.text)
		}
	}
}
