//go:build long

package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// few is the number of rows that the hot statements need to work on.
const few = 200

// Kinds of the rows that crowd creates.
const (
	finishedRun = 1
	sleepingRun = 2
	sentSignal  = 3
)

// made returns the ID that crowd gives to the i-th row of a kind.
func made(kind, i int) store.ID {
	id, err := store.ParseID(fmt.Sprintf("%08x-0000-0000-0000-%012x", kind, i))
	if err != nil {
		panic(err)
	}
	return id
}

func sqlID(kind int, i string) string {
	return fmt.Sprintf(`('%08x-0000-0000-0000-' || lpad(to_hex(%s), 12, '0'))::uuid`, kind, i)
}

// crowd creates rows, numbered from from to to, that no hot statement may notice: runs that are
// finished and runs that sleep, a tenth of them pinned, in the same lanes that are claimed from; a tenth as many runs of
// others; and rows in all other big tables.
func crowd(from, to int) string {
	return strings.NewReplacer("$finished", sqlID(finishedRun, "i"), "$sleeping", sqlID(sleepingRun, "i"), "$signal", sqlID(sentSignal, "i"),
		"$parent", sqlID(sleepingRun, "i/100"), "$now", `(date_part('epoch', now())*1000000)::bigint`,
		"$all", fmt.Sprintf(`generate_series(%d, %d) i`, from, to),
		"$tenth", fmt.Sprintf(`generate_series(%d, %d) i WHERE i%%10=0`, from, to)).Replace(`
	INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, worker, created_at, started_at, finished_at, external_id, parent, grp, ordinal)
		SELECT $finished, 'n', CASE WHEN i%2=0 THEN 'w' ELSE 'idle' END, 'q', 6, 0, 1, 'gone', i, i, i, CASE WHEN i%10=0 THEN 'e' || i%1000 END,
			CASE WHEN i%10=1 THEN $parent END, CASE WHEN i%10=1 THEN 'g' END, i FROM $all;
	INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, worker, created_at, started_at, visible_at, external_id, wakes, pin)
		SELECT $sleeping, 'n', CASE WHEN i%2=0 THEN 'w' ELSE 'idle' END, 'q', 3, 0, 1, 'gone', i, i, $now+86400000000+i,
			CASE WHEN i%10=0 THEN 's' || i END, 7, CASE WHEN i%1000=5 THEN 'v1' WHEN i%10=5 THEN 'v2' ELSE '' END FROM $all;
	INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, created_at, visible_at)
		SELECT gen_random_uuid(), CASE WHEN i%50=0 THEN 'other' ELSE 'n' END, CASE i%50 WHEN 10 THEN 'other' WHEN 20 THEN 'paused' ELSE 'w' END,
			CASE WHEN i%50=30 THEN 'other' ELSE 'q' END, CASE WHEN i%50=40 THEN 4 ELSE 1 END, 0, i, i FROM $tenth;
	INSERT INTO pawl.lanes SELECT DISTINCT namespace, queue, workflow, priority FROM pawl.runs ON CONFLICT DO NOTHING;
	INSERT INTO pawl.steps (run_id, position, epoch, started_at, finished_at, occurrence, idx, attempt, kind, status, branch, name, output)
		SELECT $sleeping, n, 1, i, i, 1, n, 1, 1, 3, '', 's' || n, '7' FROM generate_series(1, 3) n, $tenth;
	INSERT INTO pawl.signals (run_id, id, name, sent_at, consumed) SELECT $sleeping, $signal, 'n', i, i%20=0 FROM $tenth;
	INSERT INTO pawl.state (run_id, key, value, version, updated_at) SELECT $sleeping, 'k', '7', 1, i FROM $tenth;
	INSERT INTO pawl.groups (run_id, name, total) SELECT $sleeping, 'g', 1 FROM $tenth`)
}

// claimable makes 1,000 runs due.
const claimable = `INSERT INTO pawl.lanes VALUES ('n', 'q', 'w', 0) ON CONFLICT DO NOTHING;
	INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, created_at, visible_at)
	SELECT gen_random_uuid(), 'n', 'w', 'q', 1, 0, i, i FROM generate_series(1, 1000 -
		(SELECT count(*) FROM pawl.runs WHERE namespace='n' AND workflow='w' AND queue='q' AND status=1 AND visible_at<=1000000)) i`

// cost is the limit of what a statement may touch: rows of the big tables, and pages.
type cost struct{ rows, pages int }

// planner sends the hot statements through a store that is watched.
type planner struct {
	*watched
	dry string // there are no rows and nothing is checked; the test records which statements are sent
}

// looks calls do and checks how the server executed it. The server read the big tables with the
// named indexes and no others, searched in each and read none from end to end, and the cost is
// within its limit.
func (w *planner) looks(t testing.TB, what string, bound cost, indexes string, do func(context.Context) error) {
	t.Helper()
	if w.dry != "" {
		if strings.HasPrefix(what, "create") == (w.dry == "create") {
			_ = do(t.Context()) // the rows that it names do not exist
		}
		return
	}
	plans := w.planned(func() { require.NoError(t, do(t.Context()), what) })
	used, saw := map[string]bool{}, cost{pages: pages(plans)}
	var visit func(p *plan, n *node)
	visit = func(p *plan, n *node) {
		for i := range n.Plans {
			visit(p, &n.Plans[i])
		}
		switch n.Table {
		case "runs", "steps", "signals", "state", "groups":
		default:
			return
		}
		if n.Type == "Tid Scan" { // a row by its place: one page, no index
			saw.rows += int((n.Rows + n.Removed) * n.Loops)
			return
		}
		if strings.HasSuffix(n.Type, "Scan") {
			if n.Type != "Index Scan" && n.Type != "Index Only Scan" || n.Cond == "" {
				t.Errorf("%s: %s on %s by %q, condition %q, in\n%s", what, n.Type, n.Table, n.Index, n.Cond, p.Text)
			}
			used[n.Index] = true
			saw.rows += int((n.Rows + n.Removed + n.Recheck) * n.Loops)
		}
	}
	for i := range plans {
		visit(&plans[i], &plans[i].Plan)
	}
	assert.Equal(t, indexes, strings.Join(slices.Sorted(maps.Keys(used)), " "), "%s: the indexes used", what)
	if saw.rows > bound.rows || saw.pages > bound.pages {
		t.Errorf("%s: touched %+v, expected at most %+v", what, saw, bound)
	}
}

// hot does everything that is done often.
func (w *planner) hot(t *testing.T) {
	h := &hotPaths{planner: w, t: t, next: few - few%10, seq: map[store.ID]int64{}}
	h.claims()
	h.creates()
	h.records()
	h.signals()
	h.coordination()
	h.reads()
	h.lists()
	h.family()
}

const hotNamespace, hotWorker = "n", "worker"

// hotPaths calls what is done often. Its parts run in the order of their methods: each needs what the
// ones before have left.
type hotPaths struct {
	*planner
	t      *testing.T
	next   int                // every tenth of the sleeping runs that have everything
	leases []store.Lease      // of what was claimed and is not finished
	seq    map[store.ID]int64 // of the last commit of a run
}

// sleeper returns a sleeping run that has everything, another one each time.
func (h *hotPaths) sleeper() store.ID {
	h.next -= 10
	return made(sleepingRun, h.next+10)
}

func (h *hotPaths) claim(demands ...store.Demand) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := h.Claim(ctx, store.ClaimParams{Namespace: hotNamespace, Worker: hotWorker, Demands: demands, LeaseFor: time.Hour})
		for _, r := range c.Runs {
			h.leases = append(h.leases, r.Lease)
		}
		return err
	}
}

func (h *hotPaths) create(runs ...store.NewRun) func(context.Context) error {
	return func(ctx context.Context) error {
		results, err := h.Create(ctx, store.CreateParams{Namespace: hotNamespace, Runs: runs})
		for _, r := range results {
			err = cmp.Or(err, r.Err)
		}
		return err
	}
}

func (h *hotPaths) commit(commits ...store.Commit) func(context.Context) error {
	return func(ctx context.Context) error {
		results, err := h.Commit(ctx, store.CommitParams{Namespace: hotNamespace, Commits: commits})
		for _, r := range results {
			err = cmp.Or(err, r.Err)
		}
		return err
	}
}

func (h *hotPaths) send(signals ...store.NewSignal) func(context.Context) error {
	return func(ctx context.Context) error {
		results, err := h.Signal(ctx, store.SignalParams{Namespace: hotNamespace, Signals: signals})
		for _, r := range results {
			err = cmp.Or(err, r.Err)
		}
		return err
	}
}

func (h *hotPaths) list(p store.ListParams) func(context.Context) error {
	p.Namespace = hotNamespace
	return func(ctx context.Context) error {
		_, err := h.List(ctx, p)
		return err
	}
}

func (h *hotPaths) count(p store.CountParams) func(context.Context) error {
	p.Namespace = hotNamespace
	return func(ctx context.Context) error {
		_, err := h.Count(ctx, p)
		return err
	}
}

// with returns the next commit of the first run that is held. A transition ends its lease.
func (h *hotPaths) with(change func(*store.Commit)) store.Commit {
	c := store.Commit{Lease: h.leases[0]}
	h.seq[c.Lease.Run]++
	c.Seq = h.seq[c.Lease.Run]
	change(&c)
	if c.Transition != nil {
		h.leases = h.leases[1:]
	}
	return c
}

func to(kind store.TransitionKind) func(*store.Commit) {
	return func(c *store.Commit) { c.Transition = &store.Transition{Kind: kind} }
}

func lane(max int, workflows ...string) store.Demand {
	return store.Demand{Queue: "q", Workflows: workflows, Max: max}
}

// claims takes runs. Four hundred and three of them are held afterwards.
func (h *hotPaths) claims() {
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprint("none", i)
	}
	if h.dry != "create" {
		require.NoError(h.t, h.claim(lane(1, "w"))(h.t.Context())) // the first one removes dead entries
	}

	const claims = "runs_claim runs_pkey"
	postgres.ExpectHistories(h.Store, false)
	for _, of := range []struct{ runs, indexes string }{
		{"new runs", claims},
		{"runs that may have a history", "groups_pkey runs_claim runs_pkey signals_unread state_pkey steps_pkey"},
	} {
		h.looks(h.t, "claim of one, of "+of.runs, cost{9, 200}, of.indexes, h.claim(lane(1, "w")))
		h.looks(h.t, "claim of a hundred, of "+of.runs, cost{801, 8000}, of.indexes, h.claim(lane(100, "w")))
		h.looks(h.t, "claim by fifty workflows, of "+of.runs, cost{801, 9000}, of.indexes, h.claim(lane(100, append(many[1:], "w")...)))
		postgres.ExpectHistories(h.Store, true)
	}
	postgres.ExpectHistories(h.Store, false)
	// The first claim of a lane also looks for runs without a lane: see healLanes.
	h.looks(h.t, "claim of what is not due", cost{2, 200}, claims, h.claim(lane(100, "idle")))
	h.looks(h.t, "claim of what is paused", cost{1, 70}, claims, h.claim(lane(100, "paused")))
	h.looks(h.t, "next due", cost{2, 50}, "runs_claim", h.claim(lane(0, "idle", "w")))
	for h.dry != "" && len(h.leases) < 403 {
		h.leases = append(h.leases, store.Lease{Run: store.NewID(), Worker: hotWorker, Epoch: 1})
	}
	require.Len(h.t, h.leases, 403)
}

// creates makes runs.
func (h *hotPaths) creates() {
	fresh := func() store.NewRun { return store.NewRun{ID: store.NewID(), Workflow: "new", Queue: "q"} }
	var batch []store.NewRun
	for range 100 {
		r := fresh()
		r.ExternalID = r.ID.String()
		batch = append(batch, r)
	}
	eager, met := fresh(), fresh()
	eager.Worker, eager.LeaseFor, met.ExternalID = hotWorker, time.Hour, fmt.Sprint("s", few)
	h.looks(h.t, "create", cost{0, 40}, "runs_pkey", h.create(fresh()))
	h.looks(h.t, "create with a lease", cost{0, 30}, "runs_pkey", h.create(eager))
	h.looks(h.t, "create a hundred", cost{0, 4000}, "", h.create(batch...))
	h.looks(h.t, "create what exists", cost{3, 60}, "runs_external runs_pkey", h.create(met, batch[0]))
}

// records extends leases, records steps and completes runs.
func (h *hotPaths) records() {
	h.looks(h.t, "extend a hundred", cost{100, 4000}, "runs_pkey", func(ctx context.Context) error {
		_, err := h.Extend(ctx, store.ExtendParams{Namespace: hotNamespace, Worker: hotWorker, Leases: h.leases[:100], LeaseFor: time.Hour})
		return err
	})

	step := func(n int64) store.StepRecord {
		return store.StepRecord{StepKey: store.StepKey{Name: fmt.Sprint(n), Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: n, Attempt: 1}
	}
	h.looks(h.t, "record a step", cost{1, 20}, "runs_pkey steps_pkey", h.commit(h.with(func(c *store.Commit) { c.Steps = append(c.Steps, step(1)) })))
	h.looks(h.t, "complete", cost{1, 30}, "runs_pkey", h.commit(h.with(to(store.CompleteRun))))
	var commits []store.Commit
	for range 100 {
		commits = append(commits, h.with(func(c *store.Commit) {
			c.Steps = append(c.Steps, step(1))
			to(store.CompleteRun)(c)
		}))
	}
	h.looks(h.t, "complete a hundred", cost{100, 3000}, "runs_pkey steps_pkey", h.commit(commits...))
}

// signals spawns children, sends signals, and ends the leases of a parent in every way.
func (h *hotPaths) signals() {
	child := func(n int64) store.NewRun {
		return store.NewRun{ID: store.NewID(), Workflow: "child", Queue: "q", Group: "g", Ordinal: n}
	}
	parent := h.leases[0]
	kids := []store.NewRun{child(1), child(2), child(3)}
	h.looks(h.t, "spawn", cost{2, 200}, "runs_pkey", h.commit(h.with(func(c *store.Commit) { c.Spawn = kids })))
	h.looks(h.t, "write state", cost{3, 60}, "runs_pkey state_pkey", h.commit(h.with(func(c *store.Commit) { c.State = []store.StateWrite{{Key: "a"}, {Key: "b", Delete: true}} })))
	signal := store.NewSignal{ID: store.NewID(), Run: parent.Run, Name: "n"}
	h.looks(h.t, "signal", cost{3, 80}, "runs_external runs_pkey", h.send(signal))
	h.looks(h.t, "signal again", cost{2, 30}, "runs_external runs_pkey", h.send(signal))
	h.looks(h.t, "signal by external id", cost{4, 90}, "runs_external runs_external_past runs_pkey signals_pkey", h.send(store.NewSignal{ID: store.NewID(), ExternalID: fmt.Sprint("s", few), Name: "n"}))
	h.looks(h.t, "consume", cost{3, 40}, "runs_pkey signals_pkey", h.commit(h.with(func(c *store.Commit) { c.Consumed = []store.SignalID{signal.ID} })))
	h.looks(h.t, "sleep", cost{5, 70}, "groups_pkey runs_pkey", h.commit(h.with(func(c *store.Commit) {
		c.Transition = &store.Transition{Kind: store.Sleep, After: 24 * time.Hour, Wakes: store.WakeSignal, Await: []store.Await{{Group: "g"}}}
	})))
	require.NoError(h.t, h.claim(lane(3, "child"))(h.t.Context()))
	kid := max(0, slices.IndexFunc(h.leases, func(l store.Lease) bool { return l.Run == kids[0].ID }))
	h.leases[0], h.leases[kid] = h.leases[kid], h.leases[0]
	h.looks(h.t, "complete a child", cost{11, 200}, "groups_pkey runs_following runs_pkey steps_pkey", h.commit(h.with(to(store.CompleteRun))))
	h.looks(h.t, "retry", cost{2, 70}, "runs_pkey steps_pkey", h.commit(h.with(to(store.Retry))))
	h.looks(h.t, "release", cost{1, 30}, "runs_pkey", h.commit(h.with(to(store.Release))))
	h.looks(h.t, "continue as new", cost{4, 80}, "groups_pkey runs_parent runs_pkey steps_pkey", h.commit(h.with(to(store.Continue))))
}

// coordination reads and writes what belongs to a run.
func (h *hotPaths) coordination() {
	h.looks(h.t, "set state", cost{5, 80}, "runs_pkey state_pkey", func(ctx context.Context) error {
		_, err := h.SetState(ctx, store.SetStateParams{Namespace: hotNamespace, Run: h.sleeper(),
			Writes: []store.StateWrite{{Key: "k", Value: []byte("8")}, {Key: "none", Delete: true, IfVersion: new(int64)}}})
		return err
	})
	h.looks(h.t, "get state", cost{2, 30}, "runs_pkey state_pkey", func(ctx context.Context) error {
		_, err := h.GetState(ctx, store.GetStateParams{Namespace: hotNamespace, Run: h.sleeper(), Keys: []string{"k", "l"}})
		return err
	})
	h.looks(h.t, "inbox", cost{3, 30}, "groups_pkey runs_pkey signals_unread state_pkey", func(ctx context.Context) error {
		_, err := h.Inbox(ctx, store.InboxParams{Namespace: hotNamespace, Run: h.sleeper()})
		return err
	})
	h.looks(h.t, "steps", cost{4, 20}, "runs_pkey steps_pkey", func(ctx context.Context) error {
		_, err := h.Steps(ctx, store.StepsParams{Namespace: hotNamespace, Run: h.sleeper(), Limit: 100})
		return err
	})
}

// reads reads results and finds runs.
func (h *hotPaths) reads() {
	h.looks(h.t, "results waited for", cost{100, 700}, "runs_pkey", func(ctx context.Context) error {
		ids := make([]store.ID, 100)
		for i := range ids {
			ids[i] = made(1+i%2, 1+i)
		}
		_, err := h.Get(ctx, store.GetParams{Namespace: hotNamespace, IDs: ids, FinalOnly: true, NoInput: true})
		return err
	})
	h.looks(h.t, "find", cost{2, 20}, "runs_external runs_external_past", func(ctx context.Context) error {
		_, err := h.Find(ctx, store.FindParams{Namespace: hotNamespace, ExternalID: fmt.Sprint("s", few)})
		return err
	})
	h.looks(h.t, "find a past one", cost{2, 20}, "runs_external runs_external_past", func(ctx context.Context) error {
		_, err := h.Find(ctx, store.FindParams{Namespace: hotNamespace, ExternalID: "e10"})
		return err
	})
}

// lists lists and counts runs.
func (h *hotPaths) lists() {
	h.looks(h.t, "the last to end", cost{101, 400}, "runs_finished", func(ctx context.Context) error {
		_, err := h.List(ctx, store.ListParams{Namespace: hotNamespace, ByEnd: true})
		return err
	})
	h.looks(h.t, "the last to end, second page", cost{202, 500}, "runs_finished", func(ctx context.Context) error {
		p := store.ListParams{Namespace: hotNamespace, ByEnd: true}
		page, err := h.List(ctx, p)
		if err != nil || len(page.Runs) == 0 {
			return err
		}
		p.Cursor = page.Next
		_, err = h.List(ctx, p)
		return err
	})
	in := func(statuses ...store.Status) store.RunFilter { return store.RunFilter{Statuses: statuses} }
	unfinished := in(store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling)
	h.looks(h.t, "the last made", cost{110, 400}, "runs_created", h.list(store.ListParams{}))
	h.looks(h.t, "the first made", cost{110, 400}, "runs_created", h.list(store.ListParams{OldestFirst: true}))
	h.looks(h.t, "the last made that are not final", cost{110, 400}, "runs_created", h.list(store.ListParams{Filter: unfinished}))
	h.looks(h.t, "the last made that failed", cost{101, 400}, "runs_created", h.list(store.ListParams{Filter: in(store.Failed)}))
	h.looks(h.t, "the last made that completed", cost{101, 400}, "runs_created", h.list(store.ListParams{Filter: in(store.Completed)}))
	h.looks(h.t, "the last to fail", cost{101, 400}, "runs_failed", h.list(store.ListParams{Filter: in(store.Failed), ByEnd: true}))
	h.looks(h.t, "the last not to complete", cost{203, 400}, "runs_failed", h.list(store.ListParams{Filter: in(store.Failed, store.Canceled), ByEnd: true}))
	h.looks(h.t, "among runs of others", cost{510, 1000}, "runs_created", h.list(store.ListParams{Filter: store.RunFilter{Workflow: "none"}, MaxScan: 500}))
	h.looks(h.t, "among runs of others, by their ends", cost{501, 1000}, "runs_finished", h.list(store.ListParams{Filter: store.RunFilter{Workflow: "none"}, ByEnd: true, MaxScan: 500}))
	pinned := store.RunFilter{Statuses: unfinished.Statuses, PinnedTo: []string{"v1"}}
	h.looks(h.t, "those pinned to a build", cost{101, 400}, "runs_pinned", h.list(store.ListParams{Filter: pinned}))
	h.looks(h.t, "count those pinned to a build", cost{500, 1000}, "runs_pinned", h.count(store.CountParams{Filter: pinned, MaxScan: 500}))
	pinned = store.RunFilter{Statuses: in(store.Pending, store.Running, store.Paused).Statuses, PinnedTo: []string{"v1", "v2"}, Pinned: true}
	h.looks(h.t, "those due or held that are pinned to two builds", cost{200, 400}, "runs_pinned", h.list(store.ListParams{Filter: pinned, MaxScan: 100}))
	h.looks(h.t, "pinned to a build, finished or not", cost{4 * 100, 1000}, "runs_created runs_pinned", h.list(store.ListParams{Filter: store.RunFilter{PinnedTo: []string{"v1"}}, MaxScan: 100}))
	h.looks(h.t, "count those not final", cost{5 * 500, 4000}, "runs_created", h.count(store.CountParams{Filter: unfinished, MaxScan: 500}))
	h.looks(h.t, "count those that failed", cost{500, 1000}, "runs_created", h.count(store.CountParams{Filter: in(store.Failed, store.Canceled), MaxScan: 500}))
	h.looks(h.t, "count all", cost{8 * 500, 6000}, "runs_created", h.count(store.CountParams{MaxScan: 500}))
	h.looks(h.t, "ended since a moment ago", cost{0, 400}, "runs_failed runs_finished", func(ctx context.Context) error {
		_, err := h.Count(ctx, store.CountParams{Namespace: hotNamespace, ByFailure: true, Filter: store.RunFilter{FinishedAfter: time.Now().Add(time.Hour)}})
		return err
	})
}

// family reads children, and cancels a run.
func (h *hotPaths) family() {
	h.looks(h.t, "children", cost{10, 20}, "runs_parent", func(ctx context.Context) error {
		_, err := h.Children(ctx, store.ChildrenParams{Namespace: hotNamespace, Parent: made(sleepingRun, 1), Group: "g"})
		return err
	})
	h.looks(h.t, "cancel", cost{6, 80}, "groups_pkey runs_following runs_pkey steps_pkey", func(ctx context.Context) error {
		_, err := h.Cancel(ctx, store.CancelParams{Namespace: hotNamespace, IDs: []store.ID{h.leases[0].Run}})
		return err
	})
}

// TestPlans sends every hot statement as the backend sends it, to tables in which almost no rows
// concern it, and asks the server how it was executed: by which index, and how many rows and pages
// it touched. Plans are kept for long, so the test uses connections that made theirs when the
// tables were empty, small, large, and large and analyzed. Time does not matter.
func TestPlans(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t, pgtest.Setting("autovacuum", "off"), pgtest.Setting("full_page_writes", "off"), pgtest.Setting("shared_buffers", "512MB"),
		pgtest.Setting("max_wal_size", "4GB"), pgtest.Setting("wal_level", "minimal"), pgtest.Setting("max_wal_senders", "0")).URL()
	open(t, url, "pawl")
	for _, table := range []string{"runs", "steps", "signals", "state", "groups"} {
		exec(t, url, `ALTER TABLE pawl.`+table+` SET UNLOGGED`)
	}
	exec(t, url, `INSERT INTO pawl.paused VALUES ('n', '', 'paused', 0)`)
	modes := []string{"cache_statement", "exec", "simple_protocol"}
	check := func(name string, by map[string]*planner) {
		for _, mode := range modes {
			if by[mode] == nil {
				by[mode] = &planner{watched: watch(t, url, mode)} // it stays open until the end
			}
			exec(t, url, claimable)
			t.Run(name+"/"+mode, by[mode].hot)
		}
	}
	empty, small := map[string]*planner{}, map[string]*planner{}
	for _, dry := range []string{"all but create", "create"} {
		for _, mode := range modes {
			if empty[mode] == nil {
				empty[mode] = &planner{watched: watch(t, url, mode)}
			}
			empty[mode].dry = dry
			empty[mode].hot(t)
			empty[mode].dry = ""
		}
	}
	exec(t, url, `DELETE FROM pawl.runs`)
	for _, load := range []struct {
		from, to int
		by       map[string]*planner
	}{{1, few, empty}, {few + 1, 10 * few, small}} {
		exec(t, url, crowd(load.from, load.to))
		check(fmt.Sprint("planned for ", load.to), load.by)
	}
	exec(t, url, crowd(10*few+1, 1_000_000))
	check("planned for empty tables", empty)
	check("planned for small tables", small)
	check("planned for large tables", map[string]*planner{})
	exec(t, url, `ANALYZE`)
	check("planned again after ANALYZE", empty)
	check("planned after ANALYZE", map[string]*planner{})
}
