package arrows

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawlhq/pawl"

// A pattern names packages. "./x" is a package of this module, "./x/..." also those below it, "std"
// is the standard library, "third-party" everything else; any other text is an import path, again
// with "/..." for the packages below.
type patterns []string

var (
	drivers = patterns{"modernc.org/sqlite/...", "github.com/jackc/pgx/...", "github.com/lib/pq/...", "github.com/tursodatabase/...", "github.com/mattn/go-sqlite3/..."}
	// The tiers of the conformance suite, and the packages that they share.
	tiers  = patterns{"./conformance/internal/storetier", "./conformance/internal/enginetier", "./conformance/internal/random", "./conformance/internal/linearizable", "./conformance/internal/durable", "./conformance/internal/sim"}
	shared = patterns{"./conformance/internal/kit", "./conformance/internal/runner", "./conformance/internal/report", "./conformance/internal/harness", "./conformance/internal/faults", "./conformance/internal/ops", "./conformance/internal/model", "./conformance/internal/relay"}

	testCode = patterns{"testing/...", "github.com/stretchr/testify/...", "github.com/chromedp/...", "pgregory.net/rapid/...", "./conformance/...", "./workflowtest/...", "./internal/testing/..."}
)

// A rule applies to the packages in of, except those in except. It does not apply to test files.
type rule struct {
	says   string   // printed when the rule is broken
	of     patterns // the packages to which it applies
	except patterns
	own    patterns // the only packages of this module that may be imported; nil: any
	never  patterns // what must not be imported
	reach  bool     // never applies to everything in the program, not only to direct imports
}

var rules = slices.Concat(moduleRules, tierRules())

// tierRules keeps the tiers of the conformance suite apart.
func tierRules() []rule {
	var rs []rule
	for _, tier := range tiers {
		others := slices.DeleteFunc(slices.Clone(tiers), func(p string) bool { return p == tier })
		rs = append(rs, rule{says: "a tier of the conformance suite imports no other tier", of: patterns{tier}, never: others, reach: true})
	}
	return rs
}

var moduleRules = []rule{
	// Which package may import which.
	{says: "store imports only the standard library",
		of: patterns{"./store/..."}, own: patterns{"./store/..."}, never: patterns{"third-party"}},
	{says: "a backend knows the store and nothing above it",
		of: patterns{"./backends/..."}, never: patterns{"./engine/...", "./workflow/...", "./worker/...", "./flow/...", "./cmd/...", "./examples/..."}, reach: true},
	{says: "migrations are SQL; they know nobody",
		of: patterns{"./migrations/..."}, own: patterns{"./migrations/...", "./internal/..."}},
	{says: "engine imports store and internal packages",
		of: patterns{"./engine/..."}, own: patterns{"./engine/...", "./store/...", "./internal/..."}},
	{says: "nothing that engine is made of knows workflow, worker, flow or a backend",
		of: patterns{"./engine/..."}, never: patterns{"./workflow/...", "./worker/...", "./flow/...", "./backends/..."}, reach: true},
	{says: "limit knows the store and nothing above it",
		of: patterns{"./limit/..."}, own: patterns{"./limit/...", "./store/..."}},
	{says: "workflow imports engine, store, limit and internal packages",
		of: patterns{"./workflow/..."}, except: patterns{"./workflowtest/..."},
		own: patterns{"./workflow/...", "./limit", "./engine/...", "./store/...", "./internal/..."}},
	{says: "nothing that workflow is made of knows worker, flow or a backend",
		of: patterns{"./workflow/..."}, except: patterns{"./workflowtest/..."},
		never: patterns{"./worker/...", "./flow/...", "./backends/..."}, reach: true},
	{says: "flow is built from workflow alone",
		of: patterns{"./flow/..."}, own: patterns{"./flow/...", "./workflow/...", "./engine/...", "./store/...", "./internal/..."}},
	{says: "worker imports workflow, engine, store and internal packages",
		of: patterns{"./worker/..."}, own: patterns{"./worker/...", "./workflow/...", "./engine/...", "./store/...", "./internal/..."}},
	{says: "nothing that worker is made of knows flow or a backend",
		of: patterns{"./worker/..."}, never: patterns{"./flow/...", "./backends/..."}, reach: true},
	{says: "conformance is given its backend; it imports none",
		of: patterns{"./conformance/..."}, never: patterns{"./backends/..."}, reach: true},
	{says: "the face of conformance hands over to its tiers; it imports them, what they share, and the store",
		of: patterns{"./conformance"}, own: patterns{"./conformance/internal/...", "./store/..."}},
	{says: "the tiers of conformance do not know its face",
		of: patterns{"./conformance/internal/..."}, never: patterns{"./conformance"}, reach: true},
	{says: "what the tiers of conformance share knows no tier",
		of: shared, never: tiers, reach: true},
	{says: "what the tiers of conformance share knows the store and nothing above it",
		of: shared, never: patterns{"./engine/...", "./workflow/...", "./worker/...", "./flow/..."}, reach: true},

	{says: "webhook imports engine and store: who delivers changes otherwise can do what it does",
		of: patterns{"./webhook/..."}, own: patterns{"./webhook/...", "./engine/...", "./store/..."}, never: patterns{"third-party"}},
	{says: "nothing that webhook is made of knows workflow, worker, flow or a backend",
		of: patterns{"./webhook/..."}, never: patterns{"./workflow/...", "./worker/...", "./flow/...", "./backends/..."}, reach: true},

	{says: "the API imports engine, store and its own: it knows no backend, and what it does, programs can do",
		of: patterns{"./api/..."}, own: patterns{"./api/...", "./engine/...", "./store/..."}},
	{says: "nothing that the API is made of knows workflow, worker, flow or a backend",
		of: patterns{"./api/..."}, never: patterns{"./workflow/...", "./worker/...", "./flow/...", "./backends/..."}, reach: true},
	{says: "the documents of the API are plain Go",
		of: patterns{"./api/wire"}, own: patterns{"./api/wire"}, never: patterns{"third-party"}},
	{says: "the client of the API carries no engine",
		of: patterns{"./api/client", "./api/mcp"}, never: patterns{"./engine/...", "./api"}, reach: true},
	{says: "only the package for assistants and the command line carry the library of their protocol",
		of: patterns{"./..."}, except: patterns{"./api/mcp", "./cmd/..."}, never: patterns{"github.com/modelcontextprotocol/..."}, reach: true},

	{says: "the command line imports backends, migrations, engine, store, flow for its pictures, api, console, webhook, and its own: what it does, programs can do",
		of: patterns{"./cmd/..."}, own: patterns{"./cmd/...", "./backends", "./migrations", "./engine/...", "./store/...", "./flow", "./api/...", "./console", "./webhook"}},
	{says: "the console imports the client of the API and its documents: what it shows and does, other programs can",
		of: patterns{"./console/..."}, own: patterns{"./console/...", "./api/client", "./api/wire"}, never: patterns{"third-party"}},
	{says: "nothing that the console is made of knows the API's server, the engine or a backend",
		of: patterns{"./console/..."}, never: patterns{"./api", "./engine/...", "./backends/...", "./workflow/...", "./worker/...", "./flow/..."}, reach: true},
	{says: "only the command line carries the console and the API",
		of: patterns{"./..."}, except: patterns{"./cmd/...", "./console/...", "./api/...", "./internal/testing/..."}, never: patterns{"./console/...", "./api/..."}, reach: true},
	{says: "the library carries nothing of the command line's",
		of: patterns{"./..."}, except: patterns{"./cmd/..."}, never: patterns{"./cmd/...", "github.com/spf13/...", "golang.org/x/term/..."}, reach: true},
	{says: "the bridge joins the packages that run workflows; nobody else needs it",
		of: patterns{"./..."}, except: patterns{"./engine", "./workflow", "./workflowtest", "./worker", "./flow", "./conformance/...", "./internal/testing/..."}, never: patterns{"./internal/bridge"}},

	// Where a database driver may be imported.
	{says: "a database driver is imported by its backend, migrations, examples, cmd and the test harness alone",
		of: patterns{"./..."}, except: patterns{"./backends/...", "./migrations/...", "./examples/...", "./cmd/...", "./internal/testing/..."}, never: drivers},
	{says: "the library carries no database driver",
		of: patterns{"./store/...", "./engine/...", "./workflow/...", "./flow/...", "./worker/...", "./conformance/...", "./api/...", "./console/..."}, except: patterns{"./workflowtest/..."},
		never: drivers, reach: true},
	{says: "what backends share carries no driver of any",
		of: patterns{"./backends/internal/..."}, never: drivers, reach: true},
	{says: "the SQLite backend carries no other backend's driver",
		of: patterns{"./backends/sqlite/..."}, never: patterns{"github.com/jackc/pgx/...", "github.com/tursodatabase/...", "./backends/postgres/...", "./backends/turso/..."}, reach: true},
	{says: "the Postgres backend carries no other backend's driver",
		of: patterns{"./backends/postgres/..."}, never: patterns{"modernc.org/sqlite/...", "github.com/tursodatabase/...", "./backends/sqlite/...", "./backends/turso/..."}, reach: true},
	{says: "the Turso backend carries no other backend's driver",
		of: patterns{"./backends/turso/..."}, never: patterns{"modernc.org/sqlite/...", "github.com/jackc/pgx/...", "./backends/sqlite/...", "./backends/postgres/..."}, reach: true},

	// Where code for tests may be imported.
	{says: "only conformance, workflowtest and the harnesses import testing code",
		of: patterns{"./..."}, except: patterns{"./conformance/...", "./workflowtest/...", "./internal/testing/..."}, never: testCode},
	{says: "users' programs carry no test code",
		of: patterns{"./store/...", "./backends/...", "./migrations/...", "./engine/...", "./workflow/...", "./flow/...", "./worker/...", "./examples/...", "./cmd/...", "./api/...", "./console/..."}, except: patterns{"./workflowtest/..."},
		never: testCode, reach: true},
}

func TestArrows(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	touch(t, root)
	g, err := list(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/store", "/cmd/pawl"} {
		if !slices.Contains(g.own(), module+p) {
			t.Fatalf("go list found no %s%s: the rules would not hold of it; packages: %v", module, p, g.own())
		}
	}
	for _, b := range check(g, rules) {
		t.Error(b)
	}
}

// touch reads the module's directories. go test caches a passed result until a file or directory
// changes that the test itself has opened; it does not notice what the go list command opens.
func touch(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // a file that some other test has just removed
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pkg is a package as go list describes it. Its Imports are those of its non-test files.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

type graph map[string]pkg

// own lists the packages of this module in order.
func (g graph) own() []string {
	var paths []string
	for path, p := range g {
		if !p.Standard && inModule(path) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func list(dir string) (graph, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports", "./...")
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	g := graph{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			return g, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		g[p.ImportPath] = p
	}
}

// breach is one forbidden import. Chain leads from the package to the forbidden one.
type breach struct {
	chain []string
	says  string
}

func (b breach) String() string {
	from, to := b.chain[0], b.chain[len(b.chain)-1]
	verb := "imports"
	how := ""
	if len(b.chain) > 2 {
		verb = "carries"
		how = " (" + strings.Join(b.chain, " -> ") + ")"
	}
	return fmt.Sprintf("%s %s %s%s, against the rule: %s", from, verb, to, how, b.says)
}

// check applies the rules to the packages of this module, in the order of the packages, then of the
// rules. Of packages that are reached indirectly, it reports the first forbidden package on each
// path and not the packages behind it.
func check(g graph, rules []rule) []breach {
	var found []breach
	for _, from := range g.own() {
		for _, r := range rules {
			if !g.match(r.of, from) || g.match(r.except, from) {
				continue
			}
			for _, to := range g[from].Imports {
				foreign := r.own != nil && inModule(to) && !g.match(r.own, to)
				if foreign || !r.reach && g.match(r.never, to) {
					found = append(found, breach{[]string{from, to}, r.says})
				}
			}
			if r.reach {
				for _, chain := range g.reaches(from, r.never) {
					found = append(found, breach{chain, r.says})
				}
			}
		}
	}
	return found
}

// reaches returns a shortest chain of imports from from to each forbidden package. It does not
// follow the standard library, which imports nothing else.
func (g graph) reaches(from string, never patterns) [][]string {
	var chains [][]string
	seen := map[string]bool{from: true}
	for queue := [][]string{{from}}; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		for _, to := range g[chain[len(chain)-1]].Imports {
			if seen[to] {
				continue
			}
			seen[to] = true
			next := append(slices.Clone(chain), to)
			switch {
			case g.match(never, to):
				chains = append(chains, next)
			case !g[to].Standard:
				queue = append(queue, next)
			}
		}
	}
	return chains
}

func (g graph) match(ps patterns, path string) bool {
	for _, p := range ps {
		switch p {
		case "std":
			if g[path].Standard {
				return true
			}
			continue
		case "third-party":
			if !g[path].Standard && !inModule(path) && path != "C" && path != "unsafe" {
				return true
			}
			continue
		}
		if rest, ok := strings.CutPrefix(p, "./"); ok {
			if p = module + "/" + rest; rest == "..." && inModule(path) {
				return true
			}
		}
		base, below := strings.CutSuffix(p, "/...")
		if path == base || below && strings.HasPrefix(path, base+"/") {
			return true
		}
	}
	return false
}

func inModule(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// fake makes a graph in the form of go list: "./" stands for this module, and paths without a dot
// in the first element belong to the standard library.
func fake(imports map[string][]string) graph {
	full := func(p string) string {
		if rest, ok := strings.CutPrefix(p, "./"); ok {
			return module + "/" + rest
		}
		return p
	}
	g := graph{}
	add := func(path string, imports []string) {
		host, _, _ := strings.Cut(path, "/")
		p := g[path]
		p.ImportPath, p.Standard = path, !strings.Contains(host, ".")
		p.Imports = append(p.Imports, imports...)
		g[path] = p
	}
	for from, tos := range imports {
		add(full(from), nil)
		for _, to := range tos {
			add(full(to), nil)
			add(full(from), []string{full(to)})
		}
	}
	return g
}

func TestCheckFindsBreaches(t *testing.T) {
	for _, c := range []struct {
		name    string
		imports map[string][]string
		want    []string // each a part of one message, in order; empty: no breach
	}{
		{name: "the design as it is", imports: map[string][]string{
			"./store":                           {"context", "encoding/json"},
			"./migrations":                      {"embed"},
			"./backends":                        {"./backends/sqlite", "./backends/postgres", "./store"},
			"./backends/internal/sqlcore":       {"database/sql", "./store"},
			"./backends/sqlite":                 {"./store", "./migrations", "./backends/internal/sqlcore", "modernc.org/sqlite", "github.com/jmoiron/sqlx"},
			"./backends/postgres":               {"./store", "./migrations", "github.com/jackc/pgx/v5/pgxpool"},
			"./internal/group":                  {"sync"},
			"./engine":                          {"./store", "./internal/group", "log/slog"},
			"./workflow":                        {"./engine", "./store"},
			"./flow":                            {"./workflow"},
			"./worker":                          {"./workflow", "./engine", "./store"},
			"./conformance":                     {"testing", "./conformance/internal/enginetier", "./conformance/internal/harness", "./store"},
			"./conformance/internal/enginetier": {"testing", "./engine", "./worker", "./conformance/internal/harness", "github.com/stretchr/testify/require"},
			"./conformance/internal/harness":    {"testing", "./store"},
			"./workflowtest":                    {"testing", "./worker", "./backends/sqlite"},
			"./examples/quickstart":             {"./backends", "./worker", "./workflow"},
			"./cmd/pawl":                        {"./backends", "./engine"},
			"github.com/jmoiron/sqlx":           {"database/sql"},
			"modernc.org/sqlite":                {"modernc.org/sqlite/lib", "database/sql/driver"},
			"modernc.org/sqlite/lib":            {"unsafe"},
			"database/sql":                      {"database/sql/driver"},
		}},
		{name: "store takes a dependency",
			imports: map[string][]string{"./store": {"github.com/google/uuid"}},
			want:    []string{module + "/store imports github.com/google/uuid, against the rule: store imports only the standard library"}},
		{name: "store looks up",
			imports: map[string][]string{"./store": {"./engine"}},
			want:    []string{"/store imports " + module + "/engine, against the rule: store imports only"}},
		{name: "a backend knows the engine",
			imports: map[string][]string{"./backends/sqlite": {"./engine"}},
			want:    []string{"/backends/sqlite imports " + module + "/engine, against the rule: a backend knows the store"}},
		{name: "a backend knows the worker through another package",
			imports: map[string][]string{"./backends/sqlite": {"./internal/x"}, "./internal/x": {"./worker"}},
			want: []string{"/backends/sqlite carries " + module + "/worker (" + module + "/backends/sqlite -> " + module + "/internal/x -> " + module +
				"/worker), against the rule: a backend knows"}},
		{name: "engine knows workflow: directly and by what it is made of",
			imports: map[string][]string{"./engine": {"./workflow"}},
			want:    []string{"engine imports store and internal packages", "nothing that engine is made of"}},
		{name: "engine reaches a backend through an internal package",
			imports: map[string][]string{"./engine": {"./internal/x"}, "./internal/x": {"./backends/sqlite"}},
			want:    []string{"-> " + module + "/internal/x -> " + module + "/backends/sqlite"}},
		{name: "workflow knows worker",
			imports: map[string][]string{"./workflow": {"./worker"}},
			want:    []string{"workflow imports engine, store", "nothing that workflow is made of"}},
		{name: "flow knows worker",
			imports: map[string][]string{"./flow": {"./worker"}},
			want:    []string{"/flow imports " + module + "/worker, against the rule: flow is built"}},
		{name: "worker knows flow",
			imports: map[string][]string{"./worker": {"./flow"}},
			want:    []string{"worker imports workflow, engine", "nothing that worker is made of"}},
		{name: "the command line works round the engine",
			imports: map[string][]string{"./cmd/pawl": {"./backends/postgres", "./worker"}},
			want:    []string{"/cmd/pawl imports " + module + "/backends/postgres, against the rule: the command line", "/cmd/pawl imports " + module + "/worker"}},
		{name: "the console works round the API",
			imports: map[string][]string{"./console": {"./engine", "./api/client"}},
			want:    []string{"/console imports " + module + "/engine, against the rule: the console imports the client", "nothing that the console is made of"}},
		{name: "the worker serves pages",
			imports: map[string][]string{"./worker": {"./console"}},
			want:    []string{"worker imports workflow, engine", "only the command line carries the console"}},
		{name: "the engine takes the command line's library",
			imports: map[string][]string{"./engine": {"github.com/spf13/pflag"}},
			want:    []string{"/engine imports github.com/spf13/pflag, against the rule: the library carries nothing of the command line's"}},
		{name: "migrations know a backend",
			imports: map[string][]string{"./migrations": {"./backends/sqlite"}},
			want:    []string{"migrations are SQL"}},
		{name: "conformance picks a backend",
			imports: map[string][]string{"./conformance": {"./backends/sqlite"}},
			want:    []string{"conformance is given its backend", "the face of conformance hands over"}},
		{name: "the face of conformance works itself",
			imports: map[string][]string{"./conformance": {"./engine"}},
			want:    []string{"/conformance imports " + module + "/engine, against the rule: the face of conformance"}},
		{name: "a tier knows another, and the face",
			imports: map[string][]string{"./conformance/internal/random": {"./conformance/internal/storetier", "./conformance"}},
			want:    []string{"the tiers of conformance do not know its face", "a tier of the conformance suite imports no other tier"}},
		{name: "what tiers share knows a tier",
			imports: map[string][]string{"./conformance/internal/harness": {"./conformance/internal/kit"}, "./conformance/internal/kit": {"./conformance/internal/storetier"}},
			want:    []string{"what the tiers of conformance share knows no tier", "what the tiers of conformance share knows no tier"}},
		{name: "what tiers share knows the engine",
			imports: map[string][]string{"./conformance/internal/kit": {"./engine"}},
			want:    []string{"what the tiers of conformance share knows the store"}},
		{name: "a driver in the worker breaks both driver rules",
			imports: map[string][]string{"./worker": {"github.com/jackc/pgx/v5"}},
			want:    []string{"a database driver is imported by its backend", "the library carries no database driver"}},
		{name: "a driver that the worker only reaches",
			imports: map[string][]string{"./worker": {"example.com/x"}, "example.com/x": {"modernc.org/sqlite"}},
			want:    []string{"-> example.com/x -> modernc.org/sqlite), against the rule: the library carries"}},
		{name: "what backends share takes a driver",
			imports: map[string][]string{"./backends/internal/sqlcore": {"modernc.org/sqlite/lib"}},
			want:    []string{"what backends share"}},
		{name: "one backend carries another's driver",
			imports: map[string][]string{"./backends/turso": {"modernc.org/sqlite"}, "./backends/sqlite": {"./backends/postgres"}},
			want:    []string{"the SQLite backend carries", "the Turso backend carries"}},
		{name: "testing in the engine",
			imports: map[string][]string{"./engine": {"testing"}},
			want:    []string{"only conformance, workflowtest and the harnesses", "users' programs carry no test code"}},
		{name: "a package below testing in an internal package that a worker uses",
			imports: map[string][]string{"./worker": {"./internal/x"}, "./internal/x": {"testing/synctest"}},
			want:    []string{"/internal/x imports testing/synctest", "/worker carries testing/synctest"}},
		{name: "testify by way of a dependency",
			imports: map[string][]string{"./workflow": {"example.com/x"}, "example.com/x": {"github.com/stretchr/testify/assert"}},
			want:    []string{"-> example.com/x -> github.com/stretchr/testify/assert), against the rule: users' programs"}},
		{name: "a name that only begins alike is not forbidden",
			imports: map[string][]string{"./engine": {"github.com/jackc/pgxfoo", "testingx.dev/y", "./store"}, "./storefront": {"./worker"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := check(fake(c.imports), rules)
			for i := range max(len(got), len(c.want)) {
				switch {
				case i >= len(c.want):
					t.Errorf("unexpected: %v", got[i])
				case i >= len(got):
					t.Errorf("not found: %s", c.want[i])
				case !strings.Contains(got[i].String(), c.want[i]):
					t.Errorf("breach %d is\n  %v\nwant one with\n  %s", i, got[i], c.want[i])
				}
			}
		})
	}
}

// TestEveryRuleCanBreak checks the table itself: a rule that applies to no package or forbids
// nothing could never fail.
func TestEveryRuleCanBreak(t *testing.T) {
	for _, r := range rules {
		if r.says == "" || len(r.of) == 0 || r.own == nil && len(r.never) == 0 {
			t.Errorf("rule %q does not say whom it binds or what it forbids", r.says)
		}
	}
}

// TestInstallable keeps "go install .../cmd/pawl@version" working: it refuses
// a module whose go.mod replaces or excludes another.
func TestInstallable(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", filepath.Join("..", "..", "..", "go.mod")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Module  struct{ Path string }
		Replace []struct{ Old struct{ Path string } }
		Exclude []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if mod.Module.Path != module {
		t.Fatalf("go.mod is of module %q, want %q", mod.Module.Path, module)
	}
	if len(mod.Replace) > 0 || len(mod.Exclude) > 0 {
		t.Errorf("go.mod has replace %v and exclude %v; go install of the command with a version needs neither", mod.Replace, mod.Exclude)
	}
	if _, err := os.Stat(filepath.Join("..", "..", "..", "cmd", "pawl", "go.mod")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("cmd/pawl/go.mod: %v; the command is part of the root module", err)
	}
}
