package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

// nightly makes runs by explicit times: one that was made a week ago and failed a
// minute ago, and others.
func nightly(t *testing.T) (*shell, store.Store) {
	t.Helper()
	s := migrated(t, file(t))
	now := time.Now()
	s.now = func() time.Time { return now }
	st, err := backends.Open(t.Context(), s.db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return s, st
}

// make makes a run at a time, and ends it at another, unless that is zero.
func make1(t *testing.T, st store.Store, n byte, made, ended time.Time, tr *store.Transition, steps ...store.StepRecord) {
	t.Helper()
	ctx, lease := t.Context(), store.Lease{Run: id(n), Worker: "w", Epoch: 1}
	_, err := st.Create(ctx, store.CreateParams{Namespace: "default", Now: made, Runs: []store.NewRun{
		{ID: id(n), Workflow: "mail", Queue: "mail", ExternalID: fmt.Sprint("mail-", n), Worker: "w", LeaseFor: 30 * 24 * time.Hour},
	}})
	require.NoError(t, err)
	if ended.IsZero() {
		return
	}
	res, err := st.Commit(ctx, store.CommitParams{Namespace: "default", Now: ended, Commits: []store.Commit{{Lease: lease, Seq: 1, Seen: 99, Steps: steps, Transition: tr}}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
}

func failed(code, message string) *store.Transition {
	return &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: code, Message: message}}
}

func ids(t *testing.T, out string) (list []byte) {
	t.Helper()
	var page struct{ Runs []struct{ ID store.ID } }
	require.NoError(t, json.Unmarshal([]byte(out), &page), out)
	for _, r := range page.Runs {
		list = append(list, r.ID[15])
	}
	return list
}

// TestSinceGoesByTheEnd: what failed since midnight is found, whenever it was made.
func TestSinceGoesByTheEnd(t *testing.T) {
	s, st := nightly(t)
	ago := func(d time.Duration) time.Time { return s.now().Add(-d) }
	week := 7 * 24 * time.Hour
	charge := store.StepRecord{StepKey: store.StepKey{Name: "charge", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepFailed, Position: 1, Attempt: 1, Failure: &store.Failure{Code: "timeout"}}
	make1(t, st, 1, ago(week), ago(time.Minute), failed("timeout", "the bank said nothing"), charge)
	make1(t, st, 2, ago(2*time.Hour), ago(90*time.Minute), failed("error", "no such mailbox"))
	make1(t, st, 3, ago(30*time.Minute), ago(2*time.Minute), failed("error", "no such mailbox"))
	make1(t, st, 4, ago(week), ago(time.Minute), &store.Transition{Kind: store.CompleteRun})
	make1(t, st, 5, ago(time.Minute), time.Time{}, nil)

	list := func(args string) []byte {
		return ids(t, s.must(append([]string{"runs", "list", "--json"}, strings.Fields(args)...)...))
	}
	require.Equal(t, []byte{1, 3}, list("--status failed --since 1h"), "the last to end comes first")
	require.Equal(t, []byte{2}, list("--status failed --until 1h"))
	require.Equal(t, []byte{1, 3, 2}, list("--status failed"))
	require.Equal(t, []byte{3, 2, 1}, list("--status failed --sort created"))
	require.Equal(t, []byte{5, 3}, list("--created-since 1h"))
	require.Len(t, list("--since 1h"), 3, "runs that have not ended are not among them")
	require.Equal(t, []byte{1}, list("--code timeout"))
	require.Equal(t, []byte{1}, list("--step charge"))
	require.Equal(t, []byte{3}, list("--text mailbox --since 1h"))
	require.Equal(t, []byte{1, 3}, list("--status failed --since 1h --all"))
	require.Empty(t, list("--status failed --since 1s --all"))
	require.Contains(t, s.must("runs", "list", "--status", "failed"), "ENDED")
	require.Equal(t, exitUsage, s.run("runs", "list", "--status", "active", "--since", "1h").code)
	require.Equal(t, exitUsage, s.run("runs", "list", "--status", "active", "--sort", "ended").code)
	require.Equal(t, exitUsage, s.run("runs", "list", "--sort", "size").code)
	r := s.run("runs", "cancel", "--since", "1h", "--yes")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "--created-since")

	counted := s.must("runs", "count", "--status", "failed", "--since", "1h", "--by-failure")
	require.Regexp(t, `mail +mail +failed +error +1\n`, counted)
	require.Regexp(t, `mail +mail +failed +timeout +1\n`, counted)

	var top struct {
		Failed []struct{ ID store.ID } `json:"last_failed"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.must("top", "--json")), &top))
	require.Equal(t, id(1), top.Failed[0].ID)

	require.Contains(t, s.must("runs", "restart", "--since", "1h", "--code", "timeout", "--yes"), "1 run restarted")
	require.Equal(t, []byte{3, 2}, list("--status failed"))
}

// TestExternalIDWithoutAMatch: an --external-id that no run has is not "nothing to do".
func TestExternalIDWithoutAMatch(t *testing.T) {
	s := fixture(t)
	for _, args := range []string{"runs list", "runs list --json", "runs count", "runs cancel --yes", "runs pause --yes", "runs restart --yes --json"} {
		r := s.run(append(strings.Fields(args), "--external-id", "nosuch")...)
		require.Equal(t, exitNotFound, r.code, args)
		require.Empty(t, r.out, args)
		require.Contains(t, r.err, "nosuch", args)
	}
	r := s.run("runs", "cancel", "--external-id", "order-42", "--yes")
	require.Equal(t, exitNotFound, r.code)
	require.Contains(t, r.err, "completed", "it says what the run is")
	require.Equal(t, exitOK, s.run("runs", "cancel", "--status", "sleeping", "--yes").code, "flags that select none are no error")
}

func TestHintsForUnknownNames(t *testing.T) {
	s := fixture(t)
	r := s.run("runs", "list", "--workflow", "fulfill-order")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.err, `did you mean "fulfil-order"?`)
	require.Contains(t, s.run("runs", "count", "--queue", "order").err, `did you mean "orders"?`)
	require.NotContains(t, s.run("runs", "list", "--workflow", "zzz").err, "did you mean")
	require.NotContains(t, s.run("runs", "list", "--workflow", "import", "--status", "failed").err, "No worker has registered")
	r = s.run("queues", "pause", "order")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.err, `did you mean "orders"?`)
	require.Equal(t, 3, edits("kitten", "sitting"))
	require.Equal(t, 0, edits("a", "a"))
	require.Equal(t, 2, edits("", "ab"))
}

func TestPurgeDryRun(t *testing.T) {
	s, st := nightly(t)
	ago := func(d time.Duration) time.Time { return s.now().Add(-d) }
	for n := range byte(7) {
		make1(t, st, n+1, ago(50*time.Hour), ago(time.Duration(n)*10*time.Hour), failed("error", "x"))
	}
	require.Contains(t, s.must("purge", "--older-than", "25h", "--dry-run"), "4 runs would be deleted")
	require.Contains(t, s.must("purge", "--older-than", "25h", "--dry-run", "--limit", "2"), "2 runs would be deleted")
	var out struct{ Total int64 }
	require.NoError(t, json.Unmarshal([]byte(s.must("purge", "--older-than", "25h", "--status", "completed", "--dry-run", "--json")), &out))
	require.Zero(t, out.Total)
	require.Len(t, ids(t, s.must("runs", "list", "--json")), 7, "nothing was deleted")
	require.Contains(t, s.must("purge", "--older-than", "25h", "--yes"), "4 runs deleted", "as it was told")
}

// TestDoctorSeesFailures: much that fails is a fault, endless retries a warning.
func TestDoctorSeesFailures(t *testing.T) {
	s, st := nightly(t)
	ago := func(d time.Duration) time.Time { return s.now().Add(-d) }
	make1(t, st, 1, ago(3*time.Hour), ago(2*time.Hour), failed("error", "long ago"))
	_, found := diagnose(t, s)
	require.Equal(t, "ok", found["failures"].Level)
	for n := range byte(3) {
		make1(t, st, 10+n, ago(3*time.Hour), ago(time.Minute), failed("timeout", "x"))
	}
	code, found := diagnose(t, s)
	require.Equal(t, exitOK, code)
	require.Equal(t, "warning", found["failures"].Level)
	require.Contains(t, found["failures"].Seen, `3 of 3 runs that ended in the last hour failed: mail 3 of 3 (100%), mostly with code "timeout"`)
	for n := range byte(10) {
		make1(t, st, 20+n, ago(3*time.Hour), ago(time.Minute), failed("error", "x"))
	}
	code, found = diagnose(t, s)
	require.Equal(t, exitFailed, code)
	require.Equal(t, "fault", found["failures"].Level)
	require.Contains(t, found["failures"].Seen, "13 of 13")

	make1(t, st, 50, ago(time.Hour), time.Time{}, nil)
	again := store.StepRecord{StepKey: store.StepKey{Name: "call", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepPending, Position: 1, Attempt: 4711, DueIn: time.Minute}
	res, err := st.Commit(t.Context(), store.CommitParams{Namespace: "default", Commits: []store.Commit{{Lease: store.Lease{Run: id(50), Worker: "w", Epoch: 1}, Seq: 1, Steps: []store.StepRecord{again}}}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
	_, found = diagnose(t, s)
	require.Equal(t, "warning", found["retries"].Level)
	require.Contains(t, found["retries"].Seen, "mail (1)")
	require.Equal(t, []byte{50}, ids(t, s.must("runs", "list", "--status", "active", "--attempts", "10", "--json")))
}

// TestForceCancel: what stays canceling is ended, and its worker has lost it.
func TestForceCancel(t *testing.T) {
	s, st := nightly(t)
	make1(t, st, 1, s.now(), time.Time{}, nil)
	require.Contains(t, s.must("runs", "cancel", id(1).String()), "canceling")
	require.Contains(t, s.must("runs", "cancel", id(1).String()), "canceling", "to repeat it is of no use")
	require.Contains(t, s.must("runs", "cancel", id(1).String(), "--force", "--reason", "hangs"), "canceled")
	require.Contains(t, s.must("runs", "show", id(1).String()), "hangs")
	res, err := st.Commit(t.Context(), store.CommitParams{Namespace: "default", Commits: []store.Commit{
		{Lease: store.Lease{Run: id(1), Worker: "w", Epoch: 1}, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}},
	}})
	require.NoError(t, err)
	require.ErrorIs(t, res[0].Err, store.ErrLeaseLost)
	make1(t, st, 2, s.now(), time.Time{}, nil)
	s.must("runs", "cancel", id(2).String())
	require.Contains(t, s.must("runs", "cancel", "--status", "canceling", "--force", "--yes"), "1 run canceled")
}

func TestVersion(t *testing.T) {
	s := newShell(t, "")
	require.Contains(t, s.must("version"), runtime.Version())
	var v versionJSON
	require.NoError(t, json.Unmarshal([]byte(s.must("version", "--json")), &v))
	schema, err := backends.SchemaOf(t.Context(), "sqlite::memory:")
	require.NoError(t, err)
	require.EqualValues(t, schema.Newest, v.Schema["sqlite"])
	require.NotZero(t, v.Schema["postgres"])
	require.NotEmpty(t, v.Version)
	require.Equal(t, v.Version, v.Library, "the library and its command are one module")
}

func TestWorkflowShow(t *testing.T) {
	s := fixture(t)
	st, err := backends.Open(t.Context(), s.db)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	meta := `{"retention":{"failed":3600000000000},"graph":{"name":"mail","nodes":[{"name":"send","kind":"step","edges":[{"from":"","kind":"input"}]}]}}`
	require.NoError(t, st.PutWorkflows(t.Context(), store.PutWorkflowsParams{Namespace: "default", Now: noon, Workflows: []store.Workflow{{Name: "mail", Queue: "mail", Meta: []byte(meta)}}}))
	out := s.must("workflows", "show", "mail")
	for _, say := range []string{"workflow mail", "completed runs forever, failed 1h", "running 1", "web-2", "flowchart TD", "send"} {
		require.Contains(t, out, say)
	}
	var d definitionJSON
	require.NoError(t, json.Unmarshal([]byte(s.must("workflows", "show", "mail", "--json")), &d))
	require.EqualValues(t, 3600, d.Retention.Failed)
	require.Contains(t, string(d.Graph), "send")
	require.True(t, strings.HasPrefix(s.must("workflows", "show", "mail", "--graph"), "flowchart TD"))
	require.Equal(t, exitNotFound, s.run("workflows", "show", "import", "--graph").code)
	r := s.run("workflows", "show", "mial")
	require.Equal(t, exitNotFound, r.code)
	require.Contains(t, r.err, `did you mean "mail"?`)
}

// TestApplicationName: PostgreSQL is told that it is the command line, unless somebody
// has named it.
func TestApplicationName(t *testing.T) {
	for db, want := range map[string]string{
		"postgres://h/d":                    "application_name=pawl-cli",
		"postgres://h/d?application_name=x": "application_name=x",
		"sqlite:x.db":                       "",
	} {
		s := newShell(t, db)
		var seen string
		s.open = func(_ context.Context, url string) (store.Store, error) { seen = url; return nil, store.ErrUnavailable }
		s.run("runs", "list")
		require.Contains(t, seen, want)
		require.Equal(t, strings.Count(want, "="), strings.Count(seen, "application_name="))
	}
}

// pages is a store that makes up a million runs, and counts how many it has given and
// how many were asked for before the last ones were printed.
type pages struct {
	store.Store
	given  int
	before func(given int)
}

func (p *pages) List(_ context.Context, q store.ListParams) (store.RunPage, error) {
	p.before(p.given)
	var page store.RunPage
	for range q.Limit {
		p.given++
		n := store.ID{0: 1, 12: byte(p.given >> 16), 13: byte(p.given >> 8), 14: byte(p.given), 15: 1}
		page.Runs = append(page.Runs, store.Run{ID: n, Workflow: "w", Queue: "q", Namespace: "default", Status: store.Pending, CreatedAt: noon})
	}
	if p.given < 20_000 {
		page.Next = fmt.Sprint(p.given)
	}
	return page, nil
}

// TestListAllStreams: --all prints each page before it asks for the next.
func TestListAllStreams(t *testing.T) {
	for _, args := range [][]string{{"runs", "list", "--all"}, {"runs", "list", "--all", "--json"}} {
		s := migrated(t, file(t))
		counted := &counter{}
		s.open = func(ctx context.Context, url string) (store.Store, error) {
			st, err := backends.Open(ctx, url)
			return &pages{Store: st, before: func(given int) {
				require.Equal(t, given, counted.runs, "what was given is printed")
			}}, err
		}
		s.out = counted
		r := s.run(args...)
		require.Equal(t, exitOK, r.code, r.err)
		require.Equal(t, 20_000, counted.runs)
		if len(args) > 3 {
			require.Len(t, ids(t, counted.text.String()), 20_000, "it is one JSON document")
		} else {
			require.Equal(t, 1, strings.Count(counted.text.String(), "WORKFLOW"), "the head comes once")
		}
	}
}

// counter counts the runs in what is printed.
type counter struct {
	text strings.Builder
	runs int
}

func (c *counter) Write(b []byte) (int, error) {
	c.runs += strings.Count(string(b), "-0000-0000-0000-")
	return c.text.Write(b)
}

// TestActionsAreRecorded: whoever does something by the command line is on record, on
// every backend.
func TestActionsAreRecorded(t *testing.T) {
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := migrated(t, db(t))
			run := strings.TrimSpace(s.must("runs", "start", "w", "1", "--any", "--delay", "1h"))
			for _, args := range []string{
				"runs pause " + run, "runs resume " + run, "runs signal " + run + " go 1", "runs state set " + run + " k 1",
				"runs cancel " + run + " --reason twice", "runs restart " + run, "runs fork " + run, "runs cancel --workflow w --yes --reason all",
				"runs cancel " + run + " --force", "queues pause mail", "queues resume mail", "workflows pause w", "workflows resume w",
				"purge --older-than 0s --limit 1 --yes",
			} {
				s.must(strings.Fields(args)...)
			}
			var out struct {
				Actions []actionJSON
			}
			require.NoError(t, json.Unmarshal([]byte(s.must("actions", "--json")), &out))
			var saw []string
			for _, a := range out.Actions {
				require.Equal(t, "ada@laptop", a.Actor)
				saw = append(saw, a.Verb)
			}
			require.ElementsMatch(t, []string{
				"start", "pause", "resume", "signal", "set state", "cancel", "restart", "fork", "cancel", "cancel", "forced cancel",
				"pause", "resume", "pause", "resume", "purge",
			}, saw)
			require.Contains(t, s.must("actions", "--run", run), "twice")
			require.NotContains(t, s.must("actions", "--run", run), "queue mail")
			require.Empty(t, s.must("actions", "--by", "eve@laptop"))
			s.must("actions", "--limit", "2")
		})
	}
	s := fixture(t)
	s.must("runs", "cancel", id(4).String(), "--reason", "ordered twice")
	shown := s.must("runs", "show", id(4).String())
	require.Contains(t, shown, "ada@laptop")
	require.Contains(t, shown, "ordered twice")
	s.must("queues", "pause", "mail")
	require.Contains(t, s.must("actions"), "queue mail")
}
