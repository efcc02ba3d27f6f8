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
	"strconv"
	"strings"
	"sync"
	"time"
)

// backend lists the sources of mutations, and the tests that are to find them.
type backend struct {
	pkg     string   // of the tests
	sources []string // files, as patterns from the module's root
	unused  []place  // parts of them that another backend runs, or a test of its own
	parts   []place  // further sources, in part
	store   string   // the test that runs the store tier
	tiers   []tier   // tests of generated mutations, the quickest first
	patches []Patch
}

// tier selects tests, as patterns of the flags -run and -skip.
type tier struct{ run, skip string }

// slowNouns are those of cases that take long and find little that others do not.
const slowNouns = "/^(sizes|names|cost)$"

// postgresVerbs are the files that implement the verbs of the store. How PostgreSQL's package opens, migrates,
// connects and passes hints is tested by tests of its own.
var postgresVerbs = func() (out []string) {
	for _, name := range []string{"answers", "bounds", "children", "claim", "commit", "control", "create", "errors", "extend", "fates", "import", "journal", "limitclaim", "limitplan", "limits", "limitsql", "runs", "schedules", "signals", "state", "tx", "values", "verbs", "workers"} {
		out = append(out, pg+name+".go")
	}
	return out
}()

// storeTiers are the cases of the test of the store tier: the quick ones, then the slow ones.
func storeTiers(test string) []tier {
	return []tier{{"^" + test + "$", "^" + test + "$" + slowNouns}, {"^" + test + "$" + slowNouns, ""}}
}

// tursoOnly is the code shared by SQLite and Turso that only Turso runs: one statement for many items,
// and looks that are remembered.
var tursoOnly = []place{
	{sqliteCore + "claim.go", []string{"look", "of", "keep", "manyLooks", "trust"}},
	{sqliteCore + "create.go", []string{"createMany", "largeInputs"}},
	{sqliteCore + "commit.go", []string{"keepMany", "finalUpdate", "finalRest", "finalMany", "endMany", "endAll", "of", "putSteps", "commitMany", "nextPart", "updateMany"}},
	{sqliteCore + "children.go", []string{"countMany", "wakeMany"}},
	{sqliteCore + "table.go", nil},
	{sqliteCore + "core.go", []string{"New"}},
}

// postgresOnly is PostgreSQL's part of what the SQL backends share.
var postgresOnly = []place{{sqlKit + "bounds.go", []string{"postgres", "fitting"}}}

var backends = map[string]*backend{
	"sqlite": {
		pkg: "./backends/sqlite", sources: []string{"backends/internal/sqlitecore/*.go", "backends/internal/sqlkit/*.go", "backends/sqlite/runner.go", "backends/sqlite/tx.go", "backends/sqlite/hints.go"},
		unused: slices.Concat(tursoOnly, postgresOnly, []place{{file: sqliteCore + "plan.go"}, {file: sqliteCore + "schema.go"}, {file: sqliteCore + "diagnose.go"}, {file: sqlKit + "split.go"}}), store: "TestConformanceInMemory", patches: slices.Concat(sqlitePatches, buildPatches, sqliteBuildPatches, sqliteOnlyBuildPatches),
		tiers: append(storeTiers("TestConformanceInMemory"), tier{"^TestConformance$/^(faults|tx|durable)$", ""},
			tier{"^TestEngineInMemory$", ""}, tier{"^TestRandomInMemory$", ""}, tier{"^TestLinearizable$", ""},
			tier{"^Test", "^Test(Conformance.*|Engine.*|Random.*|Linearizable|CostOf.*)$"}),
	},
	"sqlite-file": {
		pkg: "./backends/sqlite", sources: []string{"backends/sqlite/runner.go", "backends/sqlite/tx.go"},
		store: "TestConformance", patches: filePatches,
		tiers: append(storeTiers("TestConformance"), tier{"^TestLinearizable$", ""}, tier{"^TestEngine$", ""}),
	},
	"postgres": {
		pkg: "./backends/postgres", sources: postgresVerbs, unused: []place{{pg + "errors.go", []string{"openError"}}}, parts: postgresOnly,
		store: "TestConformance", patches: slices.Concat(postgresPatches, buildPatches, postgresBuildPatches),
		tiers: append(storeTiers("TestConformance"), tier{"^TestEngine$", ""}, tier{"^TestRandom$", ""}, tier{"^TestLinearizable$", ""}),
	},
	"turso": {
		pkg: "./backends/turso", sources: []string{"backends/turso/runner.go", "backends/turso/hrana.go", "backends/turso/clock.go", "backends/turso/errors.go", "backends/turso/transport.go"},
		parts: tursoOnly, store: "TestConformance", patches: slices.Concat(tursoPatches, sqliteBuildPatches, tursoBuildPatches),
		tiers: append(storeTiers("TestConformance"), tier{"^TestEngineOnSqld$", ""}, tier{"^TestRandom$", ""}, tier{"^TestLinearizableOnSqld$", ""}),
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
	excluded = "excluded"  // no caller can see it: the list in equivalent.go says why
)

// Result is the outcome of a mutation.
type Result struct {
	Mutation
	Outcome string
	By      string  // the test that failed
	Tiers   int     `json:",omitempty"` // through which a generated mutation went, found or not
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
	log     *history
	common  program         // the build of all mutations that can be switched
	quick   *quick          // the cases that are likely to find a generated mutation
	depth   int             // how many tiers a generated mutation goes through at most
	limits  []time.Duration // of the tiers, in their order
	// trusting leaves out the run without any mutation.
	trusting bool
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
func (r *runner) baseline(ctx context.Context, list []Mutation, tiers []tier) error {
	r.common.path = filepath.Join(r.dir, "common")
	if err := r.buildCommon(ctx, list); err != nil {
		return err
	}
	for _, t := range tiers {
		if r.trusting {
			r.limits = append(r.limits, 3*slowest)
			continue
		}
		began := time.Now()
		if failed, out := r.test(ctx, r.common, t, 1, 6*slowest); failed != "" && r.again(ctx, r.common, failed) {
			return fmt.Errorf("%s fails without any mutation: %s\n%s", t.run, failed, out)
		}
		took := time.Since(began)
		r.limits = append(r.limits, max(slowest, 3*took))
		fmt.Printf("passes    %5.1fs  %s\n", took.Seconds(), t.run)
	}
	return nil
}

// compileError is the place of an error in a file.
var compileError = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// buildCommon builds the mutations that can be switched. Those of a line that does not compile
// get a build of their own.
func (r *runner) buildCommon(ctx context.Context, list []Mutation) error {
	for {
		files, err := schema(r.root, list, os.ReadFile)
		if err != nil {
			return err
		}
		err = r.build(ctx, r.common.path, files)
		if err == nil {
			return nil
		}
		again := false
		for _, at := range compileError.FindAllStringSubmatch(err.Error(), -1) {
			for i := range list {
				if m := &list[i]; m.wrap != nil && strings.HasSuffix(m.File, strings.TrimLeft(at[1], "./")) && strconv.Itoa(m.Line) == at[2] {
					m.wrap, again = nil, true
				}
			}
		}
		if !again {
			return err
		}
	}
}

// try builds and tests one mutation. A generated one that went through some tiers before goes
// through the next ones.
func (r *runner) try(ctx context.Context, m Mutation, before Result) Result {
	began := time.Now()
	res := Result{Mutation: m, Outcome: survived, Tiers: before.Tiers}
	bin, err := r.program(ctx, m)
	switch {
	case err != nil:
		res.Outcome = invalid
	case m.Case != "":
		res = r.cased(ctx, bin, res)
	default:
		r.escalate(ctx, bin, &res)
	}
	res.Seconds = before.Seconds + time.Since(began).Seconds()
	return res
}

// escalate runs the cases that are likely to find a generated mutation, and then one tier after
// another until one fails. A test that fails beside others must fail alone, too.
func (r *runner) escalate(ctx context.Context, bin program, res *Result) {
	found := func(t tier, limit time.Duration) bool {
		for range mostAlone {
			failed, _ := r.test(ctx, bin, t, 1, limit)
			if failed == "" || ctx.Err() != nil {
				return false
			}
			if !strings.HasPrefix(failed, "Test") || r.again(ctx, bin, failed) {
				res.Outcome, res.By = killed, failed
				r.quick.learn(res.File, failed)
				return true
			}
			res.Outcome, res.By = unsure, failed
			t.skip = strings.TrimPrefix(t.skip+"|"+exactly(failed), "|")
		}
		return false
	}
	if t, ok := r.quick.tier(res.File); ok && found(t, slowest) {
		return
	}
	for i, t := range r.backend.tiers[:r.depth] {
		if i < res.Tiers {
			continue
		}
		if res.Tiers = i + 1; found(t, r.limits[i]) || ctx.Err() != nil {
			return
		}
	}
}

// mostAlone bounds how often a tier is repeated without a test that passes alone.
const mostAlone = 3

// exactly is the pattern of one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// again tells whether a test that failed beside others fails alone, once in three.
func (r *runner) again(ctx context.Context, bin program, name string) bool {
	for range 3 {
		if failed, _ := r.test(ctx, bin, tier{exactly(name), ""}, 1, 2*slowCase); failed != "" {
			return true
		}
	}
	return false
}

// isTest reports whether the case of a planted fault is a test of the backend, not a case of the store tier.
func isTest(name string) bool { return strings.HasPrefix(name, "Test") }

// patterns returns the patterns of the cases and of the tests that are to find planted faults.
func patterns(store string, list []Mutation) []tier {
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
	var out []tier
	if len(nouns) > 0 {
		out = append(out, tier{fmt.Sprintf("^%s$/^(%s)$/^(%s)$", store, strings.Join(nouns, "|"), strings.Join(rest, "|")), ""})
	}
	if len(tests) > 0 {
		out = append(out, tier{fmt.Sprintf("^(%s)$", strings.Join(tests, "|")), ""})
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
		if res.By, _ = r.test(ctx, bin, tier{"^" + r.backend.store + "$", ""}, 1, slowest); res.By != "" {
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
	own := filepath.Join(r.dir, fmt.Sprintf("own%d", m.At))
	return program{path: own}, r.build(ctx, own, map[string][]byte{m.File: m.content})
}

// build builds the test binary, with files replacing those of the tree.
func (r *runner) build(ctx context.Context, bin string, files map[string][]byte) error {
	replace := map[string]string{}
	for name, content := range files {
		changed := fmt.Sprintf("%s-changed%d.go", bin, len(replace))
		if err := os.WriteFile(changed, content, 0o600); err != nil {
			return err
		}
		replace[filepath.Join(r.root, name)] = changed
	}
	overlay := bin + "-overlay.json"
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

// failure is the line of a failed test. It begins with a mark when the tests write for a program.
var failure = regexp.MustCompile(`(?m)^\x16?\s*--- FAIL: (\S+)`)

// test runs the tests that a tier selects and returns the innermost one that failed, or "".
// They may take as long as limit says. If they run once, the first failure ends them.
func (r *runner) test(ctx context.Context, bin program, t tier, count int, limit time.Duration) (failed, output string) {
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	args := []string{"-test.run", t.run, "-test.timeout", limit.String(), fmt.Sprintf("-test.count=%d", count), "-test.parallel=8"}
	if t.skip != "" {
		args = append(args, "-test.skip", t.skip)
	}
	out := watcher{}
	if count == 1 {
		out.failed = cancel
		args = append(args, "-test.v=test2json") // which writes the line of a failed case at once
	} else {
		args = append(args, "-test.v")
	}
	cmd := exec.CommandContext(ctx, bin.path, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", switched, bin.id))
	cmd.Dir = filepath.Join(r.root, r.backend.pkg)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
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

// watcher keeps what a program writes, and calls failed at the first line of a failed test.
type watcher struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	failed func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := max(0, w.buf.Len()-len("--- FAIL: "))
	w.buf.Write(p)
	if w.failed != nil && failure.Match(w.buf.Bytes()[bytes.LastIndexByte(w.buf.Bytes()[:from], '\n')+1:]) {
		w.failed()
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func firstLine(out string, err error) string {
	for _, l := range strings.Split(out, "\n") {
		if strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") {
			return l
		}
	}
	return err.Error()
}
