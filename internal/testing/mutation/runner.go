package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

// backend lists the sources of mutations, and the tests that are to find them.
type backend struct {
	pkg     string   // of the tests
	sources []string // files, as patterns from the module's root
	store   string   // the test that runs the store tier
	tiers   []string // tests, the quickest first
	patches []Patch
}

var backends = map[string]*backend{
	"sqlite": {
		pkg: "./backends/sqlite", sources: []string{"backends/internal/sqlitecore/*.go", "backends/internal/sqlkit/*.go", "backends/sqlite/runner.go", "backends/sqlite/tx.go", "backends/sqlite/hints.go"},
		store: "TestConformanceInMemory", patches: slices.Concat(sqlitePatches, buildPatches, sqliteBuildPatches, sqliteOnlyBuildPatches),
		tiers: []string{"^TestConformanceInMemory$", "^TestConformance$", "^TestRandomInMemory$", "^TestLinearizable$", "^TestEngineInMemory$"},
	},
	"sqlite-file": {
		pkg: "./backends/sqlite", sources: []string{"backends/sqlite/runner.go", "backends/sqlite/tx.go"},
		store: "TestConformance", patches: filePatches,
		tiers: []string{"^TestConformance$", "^TestLinearizable$", "^TestEngine$"},
	},
	"postgres": {
		pkg: "./backends/postgres", sources: []string{"backends/postgres/*.go"},
		store: "TestConformance", patches: slices.Concat(postgresPatches, buildPatches, postgresBuildPatches),
		tiers: []string{"^TestConformance$", "^TestRandom$", "^TestLinearizable$", "^TestEngine$"},
	},
	"turso": {
		pkg: "./backends/turso", sources: []string{"backends/turso/runner.go", "backends/turso/hrana.go", "backends/turso/clock.go", "backends/turso/errors.go", "backends/turso/transport.go"},
		store: "TestConformance", patches: slices.Concat(tursoPatches, sqliteBuildPatches, tursoBuildPatches),
		tiers: []string{"^TestConformance$", "^TestRandom$", "^TestLinearizableOnSqld$", "^TestEngineOnSqld$"},
	},
}

func names() []string {
	var out []string
	for name := range backends {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// Outcomes of a mutation.
const (
	killed   = "killed"
	survived = "survived"
	unsure   = "sometimes" // killed, but not each time
	invalid  = "invalid"   // does not compile
)

// Result is the outcome of a mutation.
type Result struct {
	Mutation
	Outcome string
	By      string  // the test that failed
	Runs    int     `json:",omitempty"` // of a planted fault's case
	Kills   int     `json:",omitempty"`
	Seconds float64 // to build and run
}

func (r Result) String() string {
	s := fmt.Sprintf("%-9s %5.1fs  %-24s %s", r.Outcome, r.Seconds, r.Kind, r.Name)
	if r.Runs > 0 && r.Outcome != invalid {
		s += fmt.Sprintf("  %d/%d", r.Kills, r.Runs)
	}
	if r.By != "" {
		s += "  " + r.By
	}
	if r.Outcome == survived || r.Outcome == unsure {
		s += fmt.Sprintf("\n          %q -> %q", r.Old, r.New)
	}
	return s
}

type runner struct {
	root    string
	dir     string // for overlays and binaries
	backend *backend
	count   int
	log     *json.Encoder
	common  program // the build of all mutations that can be switched
	// elsewhere looks for another case that finds a fault that its own case misses.
	elsewhere bool
}

// program is a test binary, and the mutation that it is to switch on, if any.
type program struct {
	path string
	id   int
}

const (
	// slowest limits one tier; a mutation that hangs is killed by it.
	slowest = 5 * time.Minute
	// slowCase limits the runs of the case of a planted fault in one process.
	slowCase = time.Minute
)

// baseline makes the common build of the mutations and checks that the tests pass without any.
func (r *runner) baseline(ctx context.Context, list []Mutation, tiers []string) error {
	files, err := schema(r.root, list, os.ReadFile)
	if err != nil {
		return err
	}
	r.common.path = filepath.Join(r.dir, "common")
	if err := r.build(ctx, r.common.path, files); err != nil {
		return err
	}
	for _, tier := range tiers {
		began := time.Now()
		if failed, out := r.test(ctx, r.common, tier, 1, slowest); failed != "" {
			return fmt.Errorf("%s fails without any mutation:\n%s", tier, out)
		}
		fmt.Printf("passes    %5.1fs  %s\n", time.Since(began).Seconds(), tier)
	}
	return nil
}

// try builds and tests one mutation.
func (r *runner) try(ctx context.Context, m Mutation) Result {
	began := time.Now()
	res := Result{Mutation: m, Outcome: survived}
	defer func() { res.Seconds = time.Since(began).Seconds() }()
	bin, err := r.program(ctx, m)
	switch {
	case err != nil:
		res.Outcome = invalid
	case m.Case != "":
		res = r.cased(ctx, bin, res)
	default:
		for _, tier := range r.backend.tiers {
			if failed, _ := r.test(ctx, bin, tier, 1, slowest); failed != "" {
				res.Outcome, res.By = killed, failed
				break
			}
		}
	}
	res.Seconds = time.Since(began).Seconds()
	return res
}

// isTest reports whether the case of a planted fault is a test of the backend, not a case of the store tier.
func isTest(name string) bool { return strings.HasPrefix(name, "Test") }

// patterns returns the patterns of the cases and of the tests that are to find planted faults.
func patterns(store string, list []Mutation) []string {
	var nouns, rest, tests []string
	add := func(list *[]string, name string) {
		if name = regexp.QuoteMeta(name); !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, m := range list {
		if isTest(m.Case) {
			add(&tests, m.Case)
			continue
		}
		noun, what, _ := strings.Cut(m.Case, "/")
		add(&nouns, noun)
		add(&rest, what)
	}
	var out []string
	if len(nouns) > 0 {
		out = append(out, fmt.Sprintf("^%s$/^(%s)$/^(%s)$", store, strings.Join(nouns, "|"), strings.Join(rest, "|")))
	}
	if len(tests) > 0 {
		out = append(out, fmt.Sprintf("^(%s)$", strings.Join(tests, "|")))
	}
	return out
}

// cased runs the case that must find a planted fault.
func (r *runner) cased(ctx context.Context, bin program, res Result) Result {
	pattern, top := patterns(r.backend.store, []Mutation{res.Mutation})[0], r.backend.store
	if isTest(res.Case) {
		top = res.Case
	}
	res.Runs = r.count
	for done := 0; done < r.count; {
		// One process runs the case as often as it can, so that a server starts only once.
		failed, out := r.test(ctx, bin, pattern, r.count-done, slowCase)
		if failed == "" && strings.Contains(out, "no tests to run") {
			res.Outcome, res.By = invalid, "no case "+res.Case
			return res
		}
		kills, ran := tally(out, top)
		if failed != "" {
			res.By = failed
			if ran < r.count-done { // a crash or a hang is a kill, and ends the process
				kills, ran = kills+1, ran+1
			}
		}
		res.Kills, done = res.Kills+kills, done+max(ran, 1)
	}
	switch {
	case res.Kills == res.Runs:
		res.Outcome = killed
	case res.Kills > 0:
		res.Outcome = unsure
	case r.elsewhere:
		if res.By, _ = r.test(ctx, bin, "^"+r.backend.store+"$", 1, slowest); res.By != "" {
			res.By = "found by " + res.By
		}
	}
	return res
}

// program returns the tests of a mutation.
func (r *runner) program(ctx context.Context, m Mutation) (program, error) {
	if m.id > 0 {
		return program{r.common.path, m.id}, nil
	}
	own := filepath.Join(r.dir, "own")
	return program{path: own}, r.build(ctx, own, map[string][]byte{m.File: m.content})
}

// build builds the test binary, with files replacing those of the tree.
func (r *runner) build(ctx context.Context, bin string, files map[string][]byte) error {
	replace := map[string]string{}
	for name, content := range files {
		changed := filepath.Join(r.dir, fmt.Sprintf("changed%d.go", len(replace)))
		if err := os.WriteFile(changed, content, 0o600); err != nil {
			return err
		}
		replace[filepath.Join(r.root, name)] = changed
	}
	overlay := filepath.Join(r.dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags=long", "-o", bin, "-overlay", overlay, r.backend.pkg)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// tally counts how often a top test failed and how often it ended.
func tally(output, test string) (failed, ended int) {
	failed = strings.Count(output, "\n--- FAIL: "+test+" (")
	return failed, failed + strings.Count(output, "\n--- PASS: "+test+" (")
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs the tests that pattern selects and returns the innermost one that failed, or "".
// They may take as long as limit says.
func (r *runner) test(ctx context.Context, bin program, pattern string, count int, limit time.Duration) (failed, output string) {
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	args := []string{"-test.v", "-test.run", pattern, "-test.timeout", limit.String(), fmt.Sprintf("-test.count=%d", count)}
	if count == 1 {
		args = append(args, "-test.failfast")
	}
	cmd := exec.CommandContext(ctx, bin.path, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", switched, bin.id))
	cmd.Dir = filepath.Join(r.root, r.backend.pkg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return "", out.String()
	}
	var tests []string
	for _, m := range failure.FindAllStringSubmatch(out.String(), -1) {
		tests = append(tests, m[1])
	}
	if len(tests) == 0 {
		return "crash or timeout: " + firstLine(out.String(), err), out.String()
	}
	return slices.MaxFunc(tests, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") }), out.String()
}

func firstLine(out string, err error) string {
	for _, l := range strings.Split(out, "\n") {
		if strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") {
			return l
		}
	}
	return err.Error()
}
