package cli

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

var update = flag.Bool("update", false, "write what is seen into testdata and docs/cli.md")

func TestMain(m *testing.M) { pgtest.Run(m) }

// noon is the time at which the runs of the fixture were made; the commands are
// given ten minutes later.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// shell calls the program.
type shell struct {
	t     testing.TB
	db    string
	in    string
	out   io.Writer // nil: what a call returns
	asks  bool
	env   map[string]string
	width int // 0: no terminal
	now   func() time.Time
	open  func(ctx context.Context, url string) (store.Store, error)
	ctx   context.Context
}

func newShell(t testing.TB, db string) *shell {
	return &shell{
		t: t, db: db, env: map[string]string{}, now: func() time.Time { return noon.Add(10 * time.Minute) }, open: openURL, ctx: t.Context(),
	}
}

// result is what a call came to.
type result struct {
	code     int
	out, err string
}

func (s *shell) run(args ...string) result {
	s.t.Helper()
	var out, errs bytes.Buffer
	began := time.Now()
	var to io.Writer = &out
	if s.out != nil {
		to = s.out
	}
	code := run(s.ctx, world{
		in: strings.NewReader(s.in), out: to, err: &errs, who: func() string { return "ada@laptop" }, now: s.now, zone: time.UTC, open: s.open, asks: s.asks,
		getenv: func(name string) string {
			if v, ok := s.env[name]; ok || name != "PAWL_DB" {
				return v
			}
			return s.db
		},
		size: func() (int, int, bool) { return s.width, 24, s.width > 0 },
		raw:  func() (func(), error) { return func() {}, nil },
	}, args)
	s.t.Logf("%v pawl %s", time.Since(began), strings.Join(args, " "))
	return result{code, out.String(), errs.String()}
}

// must calls the program, which must succeed, and returns what it prints.
func (s *shell) must(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	require.Equal(s.t, exitOK, r.code, "pawl %s: %s", strings.Join(args, " "), r.err)
	return r.out
}

func file(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "pawl.db") }

// id makes the IDs of the fixture.
func id(n byte) store.ID {
	id, err := store.ParseID("0195f000-0000-7000-8000-000000000000")
	if err != nil {
		panic(err)
	}
	id[15], id[3] = n, n
	return id
}

// fixture makes a database with runs of all kinds, by explicit times, so that
// nothing of them depends on when the test runs.
func fixture(t testing.TB) *shell {
	t.Helper()
	db := file(t)
	st, err := backends.Open(t.Context(), db)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	f := &fixing{TB: t, st: st, ns: "default", seqs: map[store.Lease]int64{}}
	f.orders()
	f.imports()
	f.others()
	f.registry()
	return newShell(t, db)
}

// fixing makes what the fixture consists of.
type fixing struct {
	testing.TB
	st   store.Store
	ns   string
	seqs map[store.Lease]int64
}

// at is a moment of the fixture.
func at(d time.Duration) time.Time { return noon.Add(d) }

func (f *fixing) create(now time.Time, runs ...store.NewRun) {
	res, err := f.st.Create(f.Context(), store.CreateParams{Namespace: f.ns, Runs: runs, Now: now})
	require.NoError(f, err)
	for _, r := range res {
		require.NoError(f, r.Err)
	}
}

func (f *fixing) claim(now time.Time, worker, queue string, lease time.Duration) store.Lease {
	c, err := f.st.Claim(f.Context(), store.ClaimParams{Namespace: f.ns, Worker: worker, LeaseFor: lease, Now: now, Demands: []store.Demand{{Queue: queue, Workflows: []string{"fulfil-order", "import", "mail"}, Max: 1}}})
	require.NoError(f, err)
	require.Len(f, c.Runs, 1)
	return c.Runs[0].Lease
}

func (f *fixing) commit(now time.Time, l store.Lease, c store.Commit) {
	f.seqs[l]++
	c.Lease, c.Seq, c.Seen = l, f.seqs[l], 1000
	res, err := f.st.Commit(f.Context(), store.CommitParams{Namespace: f.ns, Commits: []store.Commit{c}, Now: now})
	require.NoError(f, err)
	require.NoError(f, res[0].Err)
}

func step(position int64, branch, name string, kind store.StepKind, took time.Duration, output string) store.StepRecord {
	return store.StepRecord{
		StepKey: store.StepKey{Branch: branch, Name: name, Occurrence: 1}, Kind: kind, Status: store.StepCompleted, Position: position,
		Attempt: 1, Took: took, Output: []byte(output),
	}
}

// orders makes run 1, an order that is through, with branches and a retried step, and run 2, one that
// failed with a panic.
func (f *fixing) orders() {
	f.create(at(0), store.NewRun{ID: id(1), Workflow: "fulfil-order", Queue: "orders", Input: []byte(`{"Item":"a lamp"}`), ExternalID: "order-42", Priority: 5})
	l := f.claim(at(time.Second), "web-1", "orders", time.Minute)
	charge := step(1, "", "charge", store.KindFunction, 400*time.Millisecond, `"charge-1"`)
	charge.Attempt = 2
	f.commit(at(3*time.Second), l, store.Commit{Steps: []store.StepRecord{charge}})
	again := step(6, "", "charge", store.KindFunction, time.Second, `"charge-2"`)
	again.Occurrence = 2
	f.commit(at(5*time.Second), l, store.Commit{
		Steps: []store.StepRecord{
			step(2, "pack", "fetch", store.KindFunction, 30*time.Millisecond, `"box"`), step(3, "label", "print", store.KindFunction, time.Second, `"\u001b[31m"`),
			step(4, "pack", "settle", store.KindSleep, 0, ""), step(5, "pack/inner", "tape", store.KindValue, 0, `3`), again,
		},
		Transition: &store.Transition{Kind: store.CompleteRun, Output: []byte(`"shipped"`)},
	})
	f.create(at(10*time.Second), store.NewRun{ID: id(2), Workflow: "fulfil-order", Queue: "orders", Input: []byte(`{"Item":"a vase"}`), ExternalID: "order-43"})
	l = f.claim(at(11*time.Second), "web-1", "orders", time.Minute)
	failed := step(1, "", "charge", store.KindFunction, 2*time.Second, "")
	failed.Status, failed.Output, failed.Failure = store.StepFailed, nil, &store.Failure{Code: "error", Message: "the card was\ndeclined \x1b[2J"}
	f.commit(at(14*time.Second), l, store.Commit{Steps: []store.StepRecord{failed}, Transition: &store.Transition{Kind: store.FailRun,
		Failure: &store.Failure{Code: "panic", Message: "panic: index out of range", Stack: "goroutine 1\n\tmain.go:7"}}})
}

// imports makes run 3, an import with children, of which one is through, one failed, one works.
func (f *fixing) imports() {
	f.create(at(20*time.Second), store.NewRun{ID: id(3), Workflow: "import", Queue: "import"})
	l := f.claim(at(21*time.Second), "web-2", "import", time.Minute)
	files := store.StepRecord{StepKey: store.StepKey{Name: "files", Occurrence: 1}, Kind: store.KindMap, Status: store.StepRunning, Position: 1, Attempt: 1}
	var children []store.NewRun
	for i := range int64(3) {
		children = append(children, store.NewRun{ID: id(byte(10 + i)), Workflow: "mail", Queue: "mail", Group: "files", Ordinal: i + 1, Input: []byte("1")})
	}
	f.commit(at(22*time.Second), l, store.Commit{Steps: []store.StepRecord{files}, Spawn: children, State: []store.StateWrite{{Key: "offset", Value: []byte("128")}}})
	f.commit(at(23*time.Second), l, store.Commit{Transition: &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal, Await: []store.Await{{Group: "files"}}}})
	c := f.claim(at(24*time.Second), "web-2", "mail", time.Minute)
	f.commit(at(25*time.Second), c, store.Commit{Steps: []store.StepRecord{step(1, "", "send", store.KindFunction, time.Second, "250")}, Transition: &store.Transition{Kind: store.CompleteRun, Output: []byte("1")}})
	c = f.claim(at(25*time.Second), "web-2", "mail", time.Minute)
	f.commit(at(26*time.Second), c, store.Commit{Transition: &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "error", Message: "no such mailbox"}}})
	f.claim(at(590*time.Second), "web-2", "mail", time.Minute)
	_, err := f.st.Signal(f.Context(), store.SignalParams{Namespace: f.ns, Now: at(9 * time.Minute), Signals: []store.NewSignal{{ID: id(99), Run: id(12), Name: "hurry", Payload: []byte(`{"by":"ada"}`)}}})
	require.NoError(f, err)
}

// others makes run 4, which waits for its time; 5, which is of another namespace; 6, which is paused;
// and 7, which is canceled.
func (f *fixing) others() {
	f.create(at(30*time.Second), store.NewRun{ID: id(4), Workflow: "fulfil-order", Queue: "orders", After: 2 * time.Hour, Timeout: 24 * time.Hour})
	_, err := f.st.Create(f.Context(), store.CreateParams{Namespace: "other", Runs: []store.NewRun{{ID: id(5), Workflow: "mail", Queue: "mail"}}, Now: at(31 * time.Second)})
	require.NoError(f, err)
	f.create(at(32*time.Second), store.NewRun{ID: id(6), Workflow: "mail", Queue: "bulk"}, store.NewRun{ID: id(7), Workflow: "mail", Queue: "bulk"})
	_, err = f.st.Pause(f.Context(), store.PauseParams{Namespace: f.ns, IDs: []store.ID{id(6)}, Now: at(33 * time.Second)})
	require.NoError(f, err)
	_, err = f.st.Cancel(f.Context(), store.CancelParams{Namespace: f.ns, IDs: []store.ID{id(7)}, Reason: "ordered twice", Now: at(34 * time.Second)})
	require.NoError(f, err)
}

// registry makes workflows, workers and a paused queue.
func (f *fixing) registry() {
	require.NoError(f, f.st.PutWorkflows(f.Context(), store.PutWorkflowsParams{Namespace: f.ns, Now: at(0), Workflows: []store.Workflow{{Name: "fulfil-order", Queue: "orders"}, {Name: "import", Queue: "import"}, {Name: "mail", Queue: "mail"}}}))
	for _, w := range []store.Worker{
		{ID: "web-1", Host: "web", PID: 11, Queues: []string{"orders"}, Workflows: []string{"fulfil-order"}, Slots: 100, Status: store.Online, TTL: time.Second},
		{ID: "web-2", Host: "web", PID: 12, Queues: []string{"import", "mail"}, Workflows: []string{"import", "mail"}, Slots: 1000, Status: store.Online, TTL: 100 * 365 * 24 * time.Hour, Labels: map[string]string{"zone": "b", "arch": "arm"}},
	} {
		require.NoError(f, f.st.PutWorker(f.Context(), store.PutWorkerParams{Namespace: f.ns, Worker: w, Now: at(time.Minute)}))
	}
	require.NoError(f, f.st.PauseTarget(f.Context(), store.PauseTargetParams{Namespace: f.ns, Queue: "bulk", Now: at(5 * time.Minute)}))
}

// TestGolden compares what commands print with testdata. -update writes it.
func TestGolden(t *testing.T) {
	s := fixture(t)
	real := s.db
	s.db = "sqlite:pawl.db" // which is shown
	s.open = func(ctx context.Context, url string) (store.Store, error) {
		return backends.Open(ctx, strings.Replace(url, s.db, real, 1))
	}
	for _, c := range []struct {
		name string
		args string
		wide int
	}{
		{name: "runs_list", args: "runs list"},
		{name: "runs_list_page", args: "runs list --limit 2"},
		{name: "runs_list_filtered", args: "runs list --status failed,canceled --since 2026-03-01"},
		{name: "runs_list_terminal", args: "runs list", wide: 80},
		{name: "runs_list_none", args: "runs list --workflow nosuch"},
		{name: "runs_list_json", args: "runs list --limit 1 --status failed --json"},
		{name: "runs_list_namespace", args: "runs list -n other"},
		{name: "runs_count", args: "runs count"},
		{name: "runs_count_json", args: "runs count --status active --json"},
		{name: "runs_show_tree", args: "runs show " + id(1).String() + " --outputs"},
		{name: "runs_show_prefix", args: "runs show 0295"},
		{name: "runs_show_external", args: "runs show --external-id order-43"},
		{name: "runs_show_children", args: "runs show " + id(3).String()},
		{name: "runs_show_few_children", args: "runs show " + id(3).String() + " --children 1"},
		{name: "runs_show_flat", args: "runs show " + id(3).String() + " --depth 0"},
		{name: "runs_show_inbox", args: "runs show " + id(12).String()},
		{name: "runs_show_json", args: "runs show " + id(3).String() + " --json"},
		{name: "runs_show_color", args: "runs show " + id(2).String() + " --color always"},
		{name: "runs_watch_final", args: "runs watch " + id(2).String()},
		{name: "runs_watch_final_json", args: "runs watch " + id(1).String() + " --json"},
		{name: "runs_state", args: "runs state get " + id(3).String()},
		{name: "workers_list", args: "workers list"},
		{name: "workers_list_json", args: "workers list --status offline --json"},
		{name: "queues_list", args: "queues list"},
		{name: "queues_list_json", args: "queues list --json"},
		{name: "workflows_list", args: "workflows list"},
		{name: "schedules_list_none", args: "schedules list"},
		{name: "schedules_preview", args: "schedules preview 30~2~*~*~* --zone Europe/Berlin --from 2026-03-28 --times 3"},
		{name: "top", args: "top --once", wide: 80},
		{name: "top_json", args: "top --json"},
		{name: "no_command", args: "runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.width = c.wide
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "~", " ")
			}
			r := s.run(args...)
			got := "$ pawl " + strings.ReplaceAll(c.args, "~", " ") + "\n" + r.out
			if r.err != "" {
				got += "--- standard error\n" + r.err
			}
			if r.code != 0 {
				got += "--- exit code " + string(rune('0'+r.code)) + "\n"
			}
			golden(t, filepath.Join("testdata", c.name+".txt"), got)
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "make it with: go test ./cli -update")
	require.Equal(t, string(want), got, "if that is as it should be: go test ./cli -update")
}
