package conformance

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run "TestPromisesAreListed|TestReportsAreListed" -update .

const (
	contractFiles = "../store/*.go"
	promisesPage  = "../docs/promises.md"
)

var updateFlag = flag.Bool("update", false, "write docs/promises.md")

// contract is what the comments of package store say.
type contract struct {
	promises []promise
	methods  []method // in the order of the interfaces in Store, then of the optional ones by name
	comments []comment
}

// promise is a line of the list in the package comment.
type promise struct{ name, sentence string }

// method is one of an interface: "Leases.Claim".
type method struct{ iface, name, doc string }

func (m method) String() string { return m.iface + "." + m.name }

type comment struct {
	text string
	pos  token.Position
}

var promiseLine = regexp.MustCompile(`(?m)^\t(P[0-9]+) +(.+)$`)

// readContract parses package store.
func readContract(t *testing.T) contract {
	t.Helper()
	paths, err := filepath.Glob(contractFiles)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files of package store: %v", err)
	}
	var c contract
	ifaces, order := map[string][]method{}, []string{}
	for _, path := range paths {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			c.comments = append(c.comments, comment{group.Text(), fset.Position(group.Pos())})
		}
		for _, p := range promiseLine.FindAllStringSubmatch(f.Doc.Text(), -1) {
			c.promises = append(c.promises, promise{p[1], p[2]})
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if it, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
				own, embedded := methodsIn(spec.Name.Name, it)
				ifaces[spec.Name.Name] = own
				if spec.Name.Name == "Store" {
					order = append(embedded, "Store")
				}
			}
			return false
		})
	}
	var optional []string
	for name := range ifaces {
		if !slices.Contains(order, name) {
			optional = append(optional, name)
		}
	}
	slices.Sort(optional)
	for _, name := range append(order, optional...) {
		c.methods = append(c.methods, ifaces[name]...)
	}
	return c
}

// methodsIn lists an interface's own methods and the names of those that it embeds.
func methodsIn(name string, it *ast.InterfaceType) (own []method, embedded []string) {
	for _, f := range it.Methods.List {
		if len(f.Names) == 0 {
			if id, ok := f.Type.(*ast.Ident); ok {
				embedded = append(embedded, id.Name)
			}
			continue
		}
		own = append(own, method{name, f.Names[0].Name, f.Doc.Text()})
	}
	return own, embedded
}

// Each method of the contract has a comment that begins with its name, and no comment names
// a case: docs/promises.md does.
func TestContractIsOnItsMethods(t *testing.T) {
	c := readContract(t)
	for _, m := range c.methods {
		if !strings.HasPrefix(m.doc, m.name+" ") {
			t.Errorf("store.%v: its comment does not begin with %q", m, m.name)
		}
	}
	for _, cm := range c.comments {
		for _, cs := range Cases() {
			if strings.Contains(cm.text, cs.Name) {
				t.Errorf("%v: the comment names the case %s, which docs/promises.md lists", cm.pos, cs.Name)
			}
		}
	}
}

// Each case names a method or an interface of the contract, and each method and each promise
// has a case.
func TestEveryMethodHasACase(t *testing.T) {
	c, ofMethod, ofPromise := readContract(t), map[string]int{}, map[string]int{}
	for _, m := range c.methods {
		ofMethod[m.String()], ofMethod[m.iface] = 0, 0
	}
	for _, cs := range Cases() {
		ofPromise[cs.Promise]++
		if len(cs.Methods()) == 0 {
			t.Errorf("case %s names no method: add it to the table in methods.go", cs.Name)
		}
		for _, m := range cs.Methods() {
			if _, ok := ofMethod[m]; !ok {
				t.Errorf("case %s is about store.%s, which is neither a method nor an interface of the contract", cs.Name, m)
			}
			ofMethod[m]++
		}
	}
	for _, m := range c.methods {
		if ofMethod[m.String()] == 0 {
			t.Errorf("store.%v has no case of its own", m)
		}
	}
	for _, p := range c.promises {
		if ofPromise[p.name] == 0 {
			t.Errorf("%s has no case", p.name)
		}
		delete(ofPromise, p.name)
	}
	delete(ofPromise, "") // of the method's own description
	for name := range ofPromise {
		t.Errorf("cases cite %s, which the package comment of store does not list", name)
	}
	for key := range methods {
		if !slices.ContainsFunc(Cases(), func(cs Case) bool { return cs.Name == key || strings.HasPrefix(cs.Name, key) }) {
			t.Errorf("the table in methods.go has %q, which is no case", key)
		}
	}
}

// docs/promises.md is what the suite says. With -update it is written.
func TestPromisesAreListed(t *testing.T) {
	want := promisesTable(readContract(t), Cases())
	if *updateFlag {
		if err := os.WriteFile(promisesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(promisesPage)
	if err != nil || string(got) != want {
		t.Errorf("docs/promises.md is not what the suite says (%v); run go generate ./conformance", err)
	}
}

// promisesTable writes the page: each promise, its methods, their cases.
func promisesTable(c contract, cases []Case) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Promises, methods and cases

The contract of a backend is in the doc comments of package `+"`store`"+`. This page lists what proves it: the %d cases of the store
tier, by promise and by method. A case about a rule of several methods stands at their interface; `+"`Store`"+` stands for all
methods. `+"`go generate ./conformance`"+` writes this page from the suite, and a test compares the two.

To run one case: `+"`go test ./backends/sqlite -run 'TestConformance/commit/repeat$'`"+`. To run the cases of one promise: `+"`-conformance.promise=P9`"+`.

`, len(cases))
	all := append(slices.Clone(c.promises), promise{"", "Rules of the methods' own, without a number"})
	b.WriteString("| promise | | cases |\n|---|---|---|\n")
	for _, p := range all {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", cmp.Or(p.name, "none"), p.sentence, len(ofPromise(cases, p.name)))
	}
	for _, p := range all {
		fmt.Fprintf(&b, "\n## %s\n\n| method | case | rule |\n|---|---|---|\n", strings.TrimSpace(p.name+" "+p.sentence))
		rows := ofPromise(cases, p.name)
		for _, subject := range c.subjects() {
			for _, cs := range rows {
				if slices.Contains(cs.Methods(), subject) {
					fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", subject, cs.Name, strings.ReplaceAll(cs.Rule, "|", `\|`))
				}
			}
		}
	}
	b.WriteString("\n## By method\n\n| method | promises with cases of its own | cases |\n|---|---|---|\n")
	for _, m := range c.methods {
		var names []string
		n := 0
		for _, p := range all {
			for _, cs := range ofPromise(cases, p.name) {
				if slices.Contains(cs.Methods(), m.String()) {
					n++
					if p.name != "" && !slices.Contains(names, p.name) {
						names = append(names, p.name)
					}
				}
			}
		}
		fmt.Fprintf(&b, "| `%v` | %s | %d |\n", m, strings.Join(names, " "), n)
	}
	return b.String()
}

// subjects lists what cases are about: Store for all methods, then each interface and its
// methods.
func (c contract) subjects() []string {
	list := []string{"Store"}
	for _, m := range c.methods {
		if !slices.Contains(list, m.iface) {
			list = append(list, m.iface)
		}
		list = append(list, m.String())
	}
	return list
}

// ofPromise lists the cases of a promise, in the order of the suite.
func ofPromise(cases []Case, promise string) []Case {
	return slices.DeleteFunc(slices.Clone(cases), func(cs Case) bool { return cs.Promise != promise })
}
