package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/store"
)

// TestPlans sends every hot statement as the backend sends it, to tables in which
// almost nothing concerns it, and has the server say how it was done: by which
// index, and how many rows and pages it touched. Plans live long, so it asks
// connections that made theirs when the tables were empty, small, large, and large
// and analysed. How long it takes does not matter.
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
	check := func(name string, by map[string]*watched) {
		for _, mode := range modes {
			if by[mode] == nil {
				by[mode] = watch(t, url, mode) // open until the end
			}
			exec(t, url, claimable)
			t.Run(name+"/"+mode, by[mode].hot)
		}
	}
	empty, small := map[string]*watched{}, map[string]*watched{}
	for _, dry := range []string{"all but create", "create"} {
		for _, mode := range modes {
			if empty[mode] == nil {
				empty[mode] = watch(t, url, mode)
			}
			empty[mode].dry = dry
			empty[mode].hot(t)
			empty[mode].dry = ""
		}
	}
	exec(t, url, `DELETE FROM pawl.runs`)
	for _, load := range []struct {
		from, to int
		by       map[string]*watched
	}{{1, few, empty}, {few + 1, 10 * few, small}} {
		exec(t, url, crowd(load.from, load.to))
		check(fmt.Sprint("planned for ", load.to), load.by)
	}
	exec(t, url, crowd(10*few+1, 1_000_000))
	check("planned for empty tables", empty)
	check("planned for small tables", small)
	check("planned for large tables", map[string]*watched{})
	exec(t, url, `ANALYZE`)
	check("planned again after ANALYZE", empty)
	check("planned after ANALYZE", map[string]*watched{})
}

// few is what the hot statements need to have something to work on.
const few = 200

// Kinds of what crowd makes.
const (
	finishedRun = 1
	sleepingRun = 2
	sentSignal  = 3
)

// made is the ID that crowd gives to the i-th of a kind.
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

// crowd makes what no hot statement may notice, from the numbers given: runs that
// are finished and runs that sleep, in the very lanes that are claimed from; a
// tenth as many that are foreign; and rows in all other big tables.
func crowd(from, to int) string {
	return strings.NewReplacer("$finished", sqlID(finishedRun, "i"), "$sleeping", sqlID(sleepingRun, "i"), "$signal", sqlID(sentSignal, "i"),
		"$parent", sqlID(sleepingRun, "i/100"), "$now", `(extract(epoch FROM now())*1000000)::bigint`,
		"$all", fmt.Sprintf(`generate_series(%d, %d) i`, from, to),
		"$tenth", fmt.Sprintf(`generate_series(%d, %d) i WHERE i%%10=0`, from, to)).Replace(`
	INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, worker, created_at, started_at, finished_at, external_id, parent, grp, ordinal)
		SELECT $finished, 'n', CASE WHEN i%2=0 THEN 'w' ELSE 'idle' END, 'q', 6, 0, 1, 'gone', i, i, i, CASE WHEN i%10=0 THEN 'e' || i%1000 END,
			CASE WHEN i%10=1 THEN $parent END, CASE WHEN i%10=1 THEN 'g' END, i FROM $all;
	INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, worker, created_at, started_at, visible_at, external_id, wakes)
		SELECT $sleeping, 'n', CASE WHEN i%2=0 THEN 'w' ELSE 'idle' END, 'q', 3, 0, 1, 'gone', i, i, $now+86400000000+i,
			CASE WHEN i%10=0 THEN 's' || i END, 7 FROM $all;
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

// claimable sees to it that 1,000 runs are due.
const claimable = `INSERT INTO pawl.lanes VALUES ('n', 'q', 'w', 0) ON CONFLICT DO NOTHING;
	INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, created_at, visible_at)
	SELECT gen_random_uuid(), 'n', 'w', 'q', 1, 0, i, i FROM generate_series(1, 1000 -
		(SELECT count(*) FROM pawl.runs WHERE namespace='n' AND workflow='w' AND queue='q' AND status=1 AND visible_at<=1000000)) i`

// watched is a store on one connection, whose server tells the plan of each
// statement with what it did.
type watched struct {
	*postgres.Store
	mu    sync.Mutex
	plans []plan
	dry   string // nothing is there and nothing checked; which statements are sent
}

// plan is a statement, or a part of it, as the server reports it.
type plan struct {
	Text string `json:"Query Text"`
	Plan node
}

type node struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Index   string  `json:"Index Name"`
	Cond    string  `json:"Index Cond"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Hit     int     `json:"Shared Hit Blocks"`
	Read    int     `json:"Shared Read Blocks"`
	Plans   []node
}

func watch(t testing.TB, url, mode string) *watched {
	w := &watched{}
	c, err := pgxpool.ParseConfig(url + "&pool_max_conns=1&default_query_exec_mode=" + mode)
	require.NoError(t, err)
	c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if _, text, ok := strings.Cut(n.Message, "plan:\n"); ok {
			var p plan
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				p.Text = err.Error()
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.plans = append(w.plans, p)
		}
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration=0; SET auto_explain.log_analyze=on;
			SET auto_explain.log_buffers=on; SET auto_explain.log_timing=off; SET auto_explain.log_format=json; SET auto_explain.log_level=notice`).ReadAll()
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	require.NoError(t, err)
	w.Store, err = postgres.New(t.Context(), pool)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, w.Close())
		pool.Close()
	})
	return w
}

// planned returns the plans of what is done meanwhile.
func (w *watched) planned(do func()) []plan {
	w.mu.Lock()
	w.plans = nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plans
}

// pages is how many pages were touched.
func pages(plans []plan) (n int) {
	for i := range plans {
		n += plans[i].Plan.Hit + plans[i].Plan.Read
	}
	return n
}

// cost is what may be touched: rows of the big tables that are looked at, and pages.
type cost struct{ rows, pages int }

// looks does something and checks how the server did it: the indexes by which the
// big tables were read are those named and no others, each was sought in and none
// read from end to end, and the cost is within its bound.
func (w *watched) looks(t testing.TB, what string, bound cost, indexes string, do func(context.Context) error) {
	t.Helper()
	if w.dry != "" {
		if strings.HasPrefix(what, "create") == (w.dry == "create") {
			_ = do(t.Context()) // what it names does not exist
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
func (w *watched) hot(t *testing.T) {
	const ns, worker = "n", "worker"
	next := few - few%10 // of the sleeping runs that have everything, every tenth
	sleeper := func() store.ID { next -= 10; return made(sleepingRun, next+10) }
	var leases []store.Lease
	claim := func(demands ...store.Demand) func(context.Context) error {
		return func(ctx context.Context) error {
			c, err := w.Claim(ctx, store.ClaimParams{Namespace: ns, Worker: worker, Demands: demands, LeaseFor: time.Hour})
			for _, r := range c.Runs {
				leases = append(leases, r.Lease)
			}
			return err
		}
	}
	commit := func(commits ...store.Commit) func(context.Context) error {
		return func(ctx context.Context) error {
			results, err := w.Commit(ctx, store.CommitParams{Namespace: ns, Commits: commits})
			for _, r := range results {
				if err == nil {
					err = r.Err
				}
			}
			return err
		}
	}
	seq := map[store.ID]int64{}
	with := func(change func(*store.Commit)) store.Commit {
		c := store.Commit{Lease: leases[0]}
		seq[c.Lease.Run]++
		c.Seq = seq[c.Lease.Run]
		change(&c)
		if c.Transition != nil {
			leases = leases[1:]
		}
		return c
	}
	step := func(n int64) store.StepRecord {
		return store.StepRecord{StepKey: store.StepKey{Name: fmt.Sprint(n), Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: n, Attempt: 1}
	}
	child := func(n int64) store.NewRun {
		return store.NewRun{ID: store.NewID(), Workflow: "child", Queue: "q", Group: "g", Ordinal: n}
	}
	to := func(kind store.TransitionKind) func(*store.Commit) {
		return func(c *store.Commit) { c.Transition = &store.Transition{Kind: kind} }
	}
	lane := func(max int, workflows ...string) store.Demand {
		return store.Demand{Queue: "q", Workflows: workflows, Max: max}
	}
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprint("none", i)
	}
	if w.dry != "create" {
		require.NoError(t, claim(lane(1, "w"))(t.Context())) // the first one clears away what is dead
	}

	const claims = "groups_pkey runs_claim runs_pkey signals_unread state_pkey steps_pkey"
	w.looks(t, "claim of one", cost{9, 200}, claims, claim(lane(1, "w")))
	w.looks(t, "claim of a hundred", cost{801, 8000}, claims, claim(lane(100, "w")))
	w.looks(t, "claim by fifty workflows", cost{801, 9000}, claims, claim(lane(100, append(many[1:], "w")...)))
	// The first claim of a lane looks for runs without one, too: see healLanes.
	w.looks(t, "claim of what is not due", cost{2, 200}, claims, claim(lane(100, "idle")))
	w.looks(t, "claim of what is paused", cost{1, 70}, claims, claim(lane(100, "paused")))
	w.looks(t, "next due", cost{2, 50}, "runs_claim", claim(lane(0, "idle", "w")))
	for w.dry != "" && len(leases) < 202 {
		leases = append(leases, store.Lease{Run: store.NewID(), Worker: worker, Epoch: 1})
	}
	require.Len(t, leases, 202)

	create := func(runs ...store.NewRun) func(context.Context) error {
		return func(ctx context.Context) error {
			results, err := w.Create(ctx, store.CreateParams{Namespace: ns, Runs: runs})
			for _, r := range results {
				if err == nil {
					err = r.Err
				}
			}
			return err
		}
	}
	fresh := func() store.NewRun { return store.NewRun{ID: store.NewID(), Workflow: "new", Queue: "q"} }
	var batch []store.NewRun
	for range 100 {
		r := fresh()
		r.ExternalID = r.ID.String()
		batch = append(batch, r)
	}
	eager, met := fresh(), fresh()
	eager.Worker, eager.LeaseFor, met.ExternalID = worker, time.Hour, fmt.Sprint("s", few)
	w.looks(t, "create", cost{0, 40}, "runs_pkey", create(fresh()))
	w.looks(t, "create with a lease", cost{0, 30}, "runs_pkey", create(eager))
	w.looks(t, "create a hundred", cost{0, 4000}, "", create(batch...))
	w.looks(t, "create what exists", cost{3, 60}, "runs_external runs_pkey", create(met, batch[0]))

	w.looks(t, "extend a hundred", cost{100, 4000}, "runs_pkey", func(ctx context.Context) error {
		_, err := w.Extend(ctx, store.ExtendParams{Namespace: ns, Worker: worker, Leases: leases[:100], LeaseFor: time.Hour})
		return err
	})

	w.looks(t, "record a step", cost{1, 20}, "runs_pkey steps_pkey", commit(with(func(c *store.Commit) { c.Steps = append(c.Steps, step(1)) })))
	w.looks(t, "complete", cost{1, 30}, "runs_pkey steps_pkey", commit(with(to(store.Complete))))
	var commits []store.Commit
	for range 100 {
		commits = append(commits, with(func(c *store.Commit) {
			c.Steps = append(c.Steps, step(1))
			to(store.Complete)(c)
		}))
	}
	w.looks(t, "complete a hundred", cost{100, 3000}, "runs_pkey steps_pkey", commit(commits...))
	parent := leases[0]
	kids := []store.NewRun{child(1), child(2), child(3)}
	w.looks(t, "spawn", cost{2, 200}, "runs_pkey", commit(with(func(c *store.Commit) { c.Spawn = kids })))
	w.looks(t, "write state", cost{3, 60}, "runs_pkey state_pkey", commit(with(func(c *store.Commit) { c.State = []store.StateWrite{{Key: "a"}, {Key: "b", Delete: true}} })))
	signal := store.NewSignal{ID: store.NewID(), Run: parent.Run, Name: "n"}
	send := func(signals ...store.NewSignal) func(context.Context) error {
		return func(ctx context.Context) error {
			results, err := w.Signal(ctx, store.SignalParams{Namespace: ns, Signals: signals})
			for _, r := range results {
				if err == nil {
					err = r.Err
				}
			}
			return err
		}
	}
	w.looks(t, "signal", cost{3, 80}, "runs_external runs_pkey", send(signal))
	w.looks(t, "signal again", cost{2, 30}, "runs_external runs_pkey", send(signal))
	w.looks(t, "signal by external id", cost{4, 90}, "runs_external runs_external_past runs_pkey signals_pkey", send(store.NewSignal{ID: store.NewID(), ExternalID: fmt.Sprint("s", few), Name: "n"}))
	w.looks(t, "consume", cost{3, 40}, "runs_pkey signals_pkey", commit(with(func(c *store.Commit) { c.Consumed = []store.SignalID{signal.ID} })))
	w.looks(t, "sleep", cost{5, 70}, "groups_pkey runs_pkey", commit(with(func(c *store.Commit) {
		c.Transition = &store.Transition{Kind: store.Sleep, After: 24 * time.Hour, Wakes: store.WakeSignal, Await: []store.Await{{Group: "g"}}}
	})))
	require.NoError(t, claim(lane(3, "child"))(t.Context()))
	kid := max(0, slices.IndexFunc(leases, func(l store.Lease) bool { return l.Run == kids[0].ID }))
	leases[0], leases[kid] = leases[kid], leases[0]
	w.looks(t, "complete a child", cost{11, 200}, "groups_pkey runs_following runs_pkey steps_pkey", commit(with(to(store.Complete))))
	w.looks(t, "retry", cost{2, 70}, "runs_pkey steps_pkey", commit(with(to(store.Retry))))
	w.looks(t, "release", cost{1, 30}, "runs_pkey", commit(with(to(store.Release))))
	w.looks(t, "continue as new", cost{4, 80}, "groups_pkey runs_parent runs_pkey steps_pkey", commit(with(to(store.Continue))))

	w.looks(t, "set state", cost{5, 80}, "runs_pkey state_pkey", func(ctx context.Context) error {
		_, err := w.SetState(ctx, store.SetStateParams{Namespace: ns, Run: sleeper(),
			Writes: []store.StateWrite{{Key: "k", Value: []byte("8")}, {Key: "none", Delete: true, IfVersion: new(int64)}}})
		return err
	})
	w.looks(t, "get state", cost{2, 30}, "runs_pkey state_pkey", func(ctx context.Context) error {
		_, err := w.GetState(ctx, store.GetStateParams{Namespace: ns, Run: sleeper(), Keys: []string{"k", "l"}})
		return err
	})
	w.looks(t, "inbox", cost{3, 30}, "groups_pkey runs_pkey signals_unread state_pkey", func(ctx context.Context) error {
		_, err := w.Inbox(ctx, store.InboxParams{Namespace: ns, Run: sleeper()})
		return err
	})
	w.looks(t, "steps", cost{4, 20}, "runs_pkey steps_pkey", func(ctx context.Context) error {
		_, err := w.Steps(ctx, store.StepsParams{Namespace: ns, Run: sleeper(), Limit: 100})
		return err
	})
	w.looks(t, "results waited for", cost{100, 700}, "runs_pkey", func(ctx context.Context) error {
		ids := make([]store.ID, 100)
		for i := range ids {
			ids[i] = made(1+i%2, 1+i)
		}
		_, err := w.Get(ctx, store.GetParams{Namespace: ns, IDs: ids, FinalOnly: true, NoInput: true})
		return err
	})
	w.looks(t, "find", cost{2, 20}, "runs_external runs_external_past", func(ctx context.Context) error {
		_, err := w.Find(ctx, store.FindParams{Namespace: ns, ExternalID: fmt.Sprint("s", few)})
		return err
	})
	w.looks(t, "find a past one", cost{2, 20}, "runs_external runs_external_past", func(ctx context.Context) error {
		_, err := w.Find(ctx, store.FindParams{Namespace: ns, ExternalID: "e10"})
		return err
	})
	w.looks(t, "the last to end", cost{101, 400}, "runs_finished", func(ctx context.Context) error {
		_, err := w.List(ctx, store.ListParams{Namespace: ns, ByEnd: true})
		return err
	})
	w.looks(t, "the last to end, second page", cost{202, 500}, "runs_finished", func(ctx context.Context) error {
		p := store.ListParams{Namespace: ns, ByEnd: true}
		page, err := w.List(ctx, p)
		if err != nil || len(page.Runs) == 0 {
			return err
		}
		p.Cursor = page.Next
		_, err = w.List(ctx, p)
		return err
	})
	list := func(p store.ListParams) func(context.Context) error {
		p.Namespace = ns
		return func(ctx context.Context) error {
			_, err := w.List(ctx, p)
			return err
		}
	}
	count := func(p store.CountParams) func(context.Context) error {
		p.Namespace = ns
		return func(ctx context.Context) error {
			_, err := w.Count(ctx, p)
			return err
		}
	}
	in := func(statuses ...store.Status) store.RunFilter { return store.RunFilter{Statuses: statuses} }
	unfinished := in(store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling)
	w.looks(t, "the last made", cost{110, 400}, "runs_created", list(store.ListParams{}))
	w.looks(t, "the first made", cost{110, 400}, "runs_created", list(store.ListParams{OldestFirst: true}))
	w.looks(t, "the last made that are not final", cost{110, 400}, "runs_created", list(store.ListParams{Filter: unfinished}))
	w.looks(t, "the last made that failed", cost{101, 400}, "runs_created", list(store.ListParams{Filter: in(store.Failed)}))
	w.looks(t, "the last made that completed", cost{101, 400}, "runs_created", list(store.ListParams{Filter: in(store.Completed)}))
	w.looks(t, "the last to fail", cost{101, 400}, "runs_failed", list(store.ListParams{Filter: in(store.Failed), ByEnd: true}))
	w.looks(t, "the last not to complete", cost{203, 400}, "runs_failed", list(store.ListParams{Filter: in(store.Failed, store.Canceled), ByEnd: true}))
	w.looks(t, "among runs of others", cost{510, 1000}, "runs_created", list(store.ListParams{Filter: store.RunFilter{Workflow: "none"}, MaxScan: 500}))
	w.looks(t, "among runs of others, by their ends", cost{501, 1000}, "runs_finished", list(store.ListParams{Filter: store.RunFilter{Workflow: "none"}, ByEnd: true, MaxScan: 500}))
	w.looks(t, "count those not final", cost{5 * 500, 4000}, "runs_created", count(store.CountParams{Filter: unfinished, MaxScan: 500}))
	w.looks(t, "count those that failed", cost{500, 1000}, "runs_created", count(store.CountParams{Filter: in(store.Failed, store.Canceled), MaxScan: 500}))
	w.looks(t, "count all", cost{8 * 500, 6000}, "runs_created", count(store.CountParams{MaxScan: 500}))
	w.looks(t, "ended since a moment ago", cost{0, 400}, "runs_failed runs_finished", func(ctx context.Context) error {
		_, err := w.Count(ctx, store.CountParams{Namespace: ns, ByFailure: true, Filter: store.RunFilter{FinishedAfter: time.Now().Add(time.Hour)}})
		return err
	})
	w.looks(t, "children", cost{10, 20}, "runs_parent", func(ctx context.Context) error {
		_, err := w.Children(ctx, store.ChildrenParams{Namespace: ns, Parent: made(sleepingRun, 1), Group: "g"})
		return err
	})
	w.looks(t, "cancel", cost{6, 80}, "groups_pkey runs_following runs_pkey steps_pkey", func(ctx context.Context) error {
		_, err := w.Cancel(ctx, store.CancelParams{Namespace: ns, IDs: []store.ID{leases[0].Run}})
		return err
	})
}
