package storetier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// confusable returns names that some rule of databases, languages or files treats as equal: case,
// accents and other forms of a letter, space, numbers, patterns, quotes, paths, lengths.
func confusable() []string {
	long := strings.Repeat("n", store.MaxName-1)
	return []string{
		"name", "Name", "NAME", "é", "e\u0301", "e", "É", "ß", "ss", "ẞ", "i", "I", "ı", "İ", "ﬁ", "fi", "Ａ", "A", "a",
		"aa", "a\u200b", "a b", "a  b", "a\u00a0b", "a\u2003b", "1", "01", "1.0", "1e0", "+1", "0x1", "-1", "%", "_", "a%", "a_", "*", "a*", "?",
		"'", "''", `"`, `\`, `\\`, "`", "$1", ":a", "a;--", "null", "NULL", "{}", "[]", "true", "a/b", "a/B", "a.b", "a~1.2", "/",
		"\uff5e", "\U0001f600", "\ufffd", long + "a", long + "b",
	}
}

// confusableIDs are names for external ids, which may have space at their ends and control
// characters, too.
func confusableIDs() []string {
	return append(confusable(), "a ", " a", "a\t", "a\n", "a\r\n", "\x01", "a\x01", "a\x7f", "\t", " ", "  ", "\u00a0", "\ufeffa",
		strings.Repeat("x", store.MaxExternalID-1)+" ", strings.Repeat("x", store.MaxExternalID))
}

// byBytes are names in the order of their bytes.
func byBytes(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// halves are the names at even places, and those at odd places.
func halves(names []string) (even, odd []string) {
	for i, n := range names {
		if i%2 == 0 {
			even = append(even, n)
		} else {
			odd = append(odd, n)
		}
	}
	return even, odd
}

// column is something that has a name, and all that looks it up.
type column struct {
	name  string
	names func() []string
	// look writes something under each of the names by each verb that writes it, and looks
	// each up by each verb that does; it tells what it saw.
	look func(c *C, names []string, saw func(verb, name string, got, want any))
}

// lookUp looks into columns, and reports of each verb the first name that it mistakes.
func lookUp(columns []column) func(c *C) {
	return func(c *C) {
		home := c.ns
		for _, col := range columns {
			c.ns, c.now = home+"/"+strings.ReplaceAll(col.name, " ", "-"), began
			wrong := map[string]int{}
			col.look(c, col.names(), func(verb, name string, got, want any) {
				c.Helper()
				if g, w := fmt.Sprintf("%q", got), fmt.Sprintf("%q", want); g != w {
					if wrong[verb]++; wrong[verb] == 1 {
						c.Errorf("%s %q by %s: saw %s, expected %s", col.name, name, verb, clipped(g), clipped(w))
					}
				}
			})
			for verb, n := range wrong {
				if n > 1 {
					c.Errorf("%s by %s: %d names are mistaken in all", col.name, verb, n)
				}
			}
		}
	}
}

func clipped(s string) string {
	if len(s) > 400 {
		return s[:400] + "..."
	}
	return s
}

// idsIn are the IDs of a listing.
func (c *C) idsIn(f store.RunFilter) []string {
	c.Helper()
	return textsOf(c.list(store.ListParams{Filter: f, Limit: store.MaxPage}).Runs, func(r store.Run) string { return r.ID.String() })
}

// makeEach makes a run for each name, in one call.
func (c *C) makeEach(names []string, of func(name string) store.NewRun) []store.ID {
	c.Helper()
	rs := make([]store.NewRun, len(names))
	ids := make([]store.ID, len(names))
	for i, n := range names {
		rs[i] = fill(of(n))
		ids[i] = rs[i].ID
	}
	for i, res := range c.creates(rs...) {
		if res.Err != nil || res.ID != ids[i] || !res.Created || res.Repeated {
			c.Fatalf("Create of a run named %q: saw %+v, expected it made", names[i], res)
		}
	}
	return ids
}

// laneColumn is the queue of runs, or their workflow.
func laneColumn(name string, run func(n string) store.NewRun, filter func(n string) store.RunFilter, of func(r *store.RunCount) string,
	demand func(names []string) store.Demand, pause func(n string) store.PausedTarget) column {
	return column{name, confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		ids := c.makeEach(names, run)
		counted := map[string]int64{}
		rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns})
		c.ok("Count", err)
		for i := range rows {
			counted[of(&rows[i])] += rows[i].Count
		}
		for i, n := range names {
			f := filter(n)
			saw("List", n, c.idsIn(f), []string{ids[i].String()})
			saw("Count with a filter", n, c.count(f), int64(1))
			saw("Count", n, counted[n], int64(1))
		}
		even, _ := halves(names)
		paused := map[string]bool{}
		for _, n := range even {
			t := pause(n)
			c.setPaused(t.Queue, t.Workflow, true)
		}
		targets, err := store.AllPaused(c.ctx, c.s, store.ListPausedParams{Namespace: c.ns})
		c.ok("ListPaused", err)
		for _, t := range targets {
			paused[t.Queue+t.Workflow] = true
		}
		taken := map[store.ID]bool{}
		for _, run := range c.claimEach(store.ClaimParams{Demands: []store.Demand{demand(names)}}) {
			taken[run.Run.ID] = true
		}
		for i, n := range names {
			saw("PauseTarget and ListPaused", n, paused[n], i%2 == 0)
			saw("PauseTarget and Claim", n, taken[ids[i]], i%2 == 1)
		}
		for _, n := range even {
			t := pause(n)
			c.setPaused(t.Queue, t.Workflow, false)
		}
		c.advance(2 * aLease)
		told := map[string]int{}
		for _, w := range c.claim(store.ClaimParams{Max: 1, Demands: []store.Demand{demand(append(slices.Clone(names), "nobody"))}}).Waiting {
			told[of(&store.RunCount{Queue: w.Queue, Workflow: w.Workflow})]++
		}
		c.advance(2 * aLease)
		waiting := 0
		var done []store.Commit
		for i, n := range names {
			d := demand([]string{n})
			d.Max = 5
			got := c.claim(store.ClaimParams{Demands: []store.Demand{d}}).Runs
			saw("Claim", n, claimedIDs(got), []string{ids[i].String()})
			if waiting += told[n]; told[n] > 1 {
				saw("Claim's Waiting", n, told[n], 1)
			}
			for _, run := range got {
				done = append(done, store.Commit{Lease: run.Lease, Transition: complete("")})
			}
		}
		saw("Claim's Waiting", "of all but one", waiting, len(names)-1)
		c.commits(done...)
	}}
}

// failureColumn is what is found of a failure.
func failureColumn(name string, filter func(n string) store.RunFilter) column {
	return column{name, confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		ids := c.makeEach(names, func(string) store.NewRun { return store.NewRun{} })
		cms := make([]store.Commit, len(names))
		for _, run := range c.claimEach(store.ClaimParams{Max: len(names)}) {
			i := slices.Index(ids, run.Run.ID)
			failed := step(1, names[i], "")
			failed.Status, failed.Output, failed.Failure = store.StepFailed, nil, &store.Failure{Code: "error"}
			cms[i] = store.Commit{Lease: run.Lease, Steps: []store.StepRecord{failed}, Transition: &store.Transition{
				Kind: store.FailRun, Failure: &store.Failure{Code: names[i], Message: "it said <" + names[i] + ">, and failed"}}}
		}
		for _, res := range c.commits(cms...) {
			c.ok("Commit's item", res.Err)
		}
		for i, n := range names {
			saw("List", n, c.idsIn(filter(n)), []string{ids[i].String()})
			saw("Count", n, c.count(filter(n)), int64(1))
		}
		rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, ByFailure: true})
		c.ok("Count", err)
		saw("Count by failure", "in order", textsOf(rows, func(r store.RunCount) string { return fmt.Sprint(r.FailureCode, " ", r.Count) }),
			textsOf(byBytes(names), func(n string) string { return n + " 1" }))
	}}
}

// holderColumn is the external id of runs, or its suffix.
func holderColumn(name string, run func(n string) store.NewRun) column {
	return column{name, confusableIDs, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		ids := c.makeEach(names, run)
		again := make([]store.NewRun, len(names))
		sigs := make([]store.NewSignal, len(names))
		for i, n := range names {
			again[i] = fill(run(n))
			sigs[i] = store.NewSignal{ID: store.NewID(), ExternalID: again[i].ExternalID, Suffix: again[i].Suffix, Name: "s"}
		}
		made, sent := c.creates(again...), c.signals(sigs...)
		for i, n := range names {
			saw("Create", n, made[i].ID.String(), ids[i].String())
			saw("Signal", n, sent[i].Run.String(), ids[i].String())
			got, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: again[i].ExternalID, Suffix: again[i].Suffix})
			c.ok("Find", err)
			saw("Find", n, []string{got.ID.String(), got.ExternalID, got.Suffix}, []string{ids[i].String(), again[i].ExternalID, again[i].Suffix})
			if again[i].Suffix == "" {
				saw("List", n, c.idsIn(store.RunFilter{ExternalID: n}), []string{ids[i].String()})
			}
		}
		// One that is final frees its own and no other.
		var ended []store.ID
		for i := range ids {
			if i%2 == 0 {
				ended = append(ended, ids[i])
			}
		}
		c.drop(ended...)
		for i, res := range c.creates(again...) {
			want := ids[i]
			if i%2 == 0 {
				want = again[i].ID
			}
			saw("Create behind an end", names[i], res.ID.String(), want.String())
		}
	}}
}

var runColumns = []column{
	laneColumn("queue", func(n string) store.NewRun { return store.NewRun{Queue: n} }, func(n string) store.RunFilter { return store.RunFilter{Queue: n} },
		func(r *store.RunCount) string { return r.Queue },
		func(names []string) store.Demand {
			return store.Demand{Queue: names[0], MoreQueues: names[1:], Workflows: []string{aWorkflow}, Max: len(names)}
		},
		func(n string) store.PausedTarget { return store.PausedTarget{Queue: n} }),
	laneColumn("workflow", func(n string) store.NewRun { return store.NewRun{Workflow: n} }, func(n string) store.RunFilter { return store.RunFilter{Workflow: n} },
		func(r *store.RunCount) string { return r.Workflow },
		func(names []string) store.Demand {
			return store.Demand{Queue: aQueue, Workflows: names, Max: len(names)}
		},
		func(n string) store.PausedTarget { return store.PausedTarget{Workflow: n} }),
	{"workflow of final runs", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		ids := c.makeEach(names, func(n string) store.NewRun { return store.NewRun{Workflow: n} })
		c.tryCancel(ids...)
		c.advance(time.Hour)
		even, _ := halves(names)
		for _, n := range even {
			saw("Purge", n, c.purge(store.PurgeParams{Workflow: n}), 1)
		}
		left := map[store.ID]bool{}
		for _, r := range c.gets(ids...) {
			left[r.ID] = true
		}
		for i, n := range names {
			saw("Purge and Get", n, left[ids[i]], i%2 == 1)
		}
	}},
	holderColumn("external id", func(n string) store.NewRun { return store.NewRun{ExternalID: n} }),
	holderColumn("suffix", func(n string) store.NewRun { return store.NewRun{ExternalID: "e", Suffix: n} }),
	failureColumn("failure code", func(n string) store.RunFilter { return store.RunFilter{FailureCode: n} }),
	failureColumn("failure text", func(n string) store.RunFilter { return store.RunFilter{FailureText: "<" + n + ">"} }),
	failureColumn("failed step", func(n string) store.RunFilter { return store.RunFilter{FailedStep: n} }),
}

var partColumns = []column{
	{"state key", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		run := c.start()
		id := run.Run.ID
		writes := make([]store.StateWrite, len(names))
		for i, n := range names {
			writes[i] = store.StateWrite{Key: n, Value: []byte("set " + n)}
		}
		_, err := c.trySetState(id, writes...)
		c.ok("SetState", err)
		look := func(verb string, value func(i int, n string) []string) {
			c.Helper()
			for i, n := range names {
				want := []string{}
				for _, v := range value(i, n) {
					want = append(want, n+"="+v)
				}
				saw(verb, n, values(c.getState(id, n)), want)
			}
		}
		look("SetState and GetState", func(_ int, n string) []string { return []string{"set " + n} })
		var some, gone []store.StateWrite
		for i, n := range names {
			if i%2 == 0 {
				some = append(some, store.StateWrite{Key: n, Value: []byte("commit " + n)})
			} else {
				v := int64(i + 1)
				gone = append(gone, store.StateWrite{Key: n, Delete: true, IfVersion: &v})
			}
		}
		c.commit(store.Commit{Lease: run.Lease, Seen: int64(len(names)), State: some})
		look("Commit and GetState", func(i int, n string) []string {
			if i%2 == 0 {
				return []string{"commit " + n}
			}
			return []string{"set " + n}
		})
		_, err = c.trySetState(id, gone...)
		c.ok("SetState that deletes", err)
		look("SetState that deletes, and GetState", func(i int, n string) []string {
			if i%2 == 0 {
				return []string{"commit " + n}
			}
			return nil
		})
	}},
	{"signal name", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		id := c.create(store.NewRun{})
		sigs := make([]store.NewSignal, len(names))
		for i, n := range names {
			sigs[i] = store.NewSignal{ID: store.NewID(), Run: id, Name: n, Payload: []byte("of " + n)}
		}
		c.signals(sigs...)
		text := func(s store.Signal) string { return s.Name + "=" + string(s.Payload) }
		for _, n := range names {
			saw("Signal and Inbox", n, textsOf(c.box(store.InboxParams{Run: id, Name: n}).Signals, text), []string{n + "=of " + n})
		}
		saw("Claim", "each", textsOf(c.claim1().Inbox.Signals, text), textsOf(names, func(n string) string { return n + "=of " + n }))
	}},
	stepColumn("step name", func(n string) store.StepKey { return store.StepKey{Name: n, Occurrence: 1} }),
	stepColumn("branch", func(n string) store.StepKey { return store.StepKey{Branch: n, Name: "s", Occurrence: 1} }),
	{"failed branch", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		for _, fails := range []string{"name", "a", "%", "_", "a_", "é", "i", `\`, "1", "/"} {
			run := c.start()
			failed := step(1, "fails", "")
			failed.Branch, failed.Status, failed.Output, failed.Failure = fails, store.StepFailed, nil, &store.Failure{Code: "error"}
			recs := []store.StepRecord{failed}
			var want []string
			for i, n := range names {
				rec := step(int64(i+2), "s", "")
				rec.Branch = n
				if recs = append(recs, rec); !rec.Related(failed.StepKey) {
					want = append(want, n)
				}
			}
			c.commit(store.Commit{Lease: run.Lease, Steps: recs, Transition: retryIn(0)})
			saw("Retry", fails, textsOf(c.steps(run.Run.ID), func(s store.Step) string { return s.Branch }), want)
			c.drop(run.Run.ID)
		}
	}},
	{"group", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		spawn := make([]store.NewRun, len(names))
		const awaited = 1 // "Name"
		for i, n := range names {
			spawn[i] = kid(1)
			spawn[i].Group = n
		}
		id := c.family(sleepAwait(store.Await{Group: names[awaited]}), spawn...)
		for i, n := range names {
			saw("Commit and Inbox", n, c.box(store.InboxParams{Run: id, Group: n}).Groups, []store.Group{{Name: n, Total: 1, Open: 1}})
			page, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: id, Group: n})
			c.ok("Children", err)
			saw("Children", n, textsOf(page.Children, func(r store.Run) string { return r.ID.String() + r.Group }), []string{spawn[i].ID.String() + n})
		}
		var cms []store.Commit
		for _, run := range c.claimEach(store.ClaimParams{Demands: []store.Demand{{Queue: kidQueue, Workflows: []string{kidFlow}, Max: len(names)}}}) {
			if run.Run.ID != spawn[awaited].ID {
				cms = append(cms, store.Commit{Lease: run.Lease, Transition: complete("")})
			}
		}
		c.commits(cms...)
		saw("Await", names[awaited], show(c.get(id).VisibleAt), show(time.Time{}))
		for i, n := range names {
			want := store.Group{Name: n, Total: 1, Completed: 1}
			if i == awaited {
				want = store.Group{Name: n, Total: 1, Open: 1}
			}
			saw("a child's end", n, c.box(store.InboxParams{Run: id, Group: n}).Groups, []store.Group{want})
		}
		c.drop(spawn[awaited].ID)
		saw("Await that is met", names[awaited], show(c.get(id).VisibleAt), show(c.now))
	}},
}

// stepColumn is a part of a step's key.
func stepColumn(name string, key func(n string) store.StepKey) column {
	return column{name, confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		run := c.start()
		id := run.Run.ID
		recs := make([]store.StepRecord, len(names))
		for i, n := range names {
			recs[i] = step(int64(i+1), "s", "run "+n)
			recs[i].StepKey, recs[i].Status = key(n), store.StepRunning
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		var done []store.StepRecord
		for i, n := range names {
			if i%2 == 0 {
				recs[i].Status, recs[i].Output = store.StepCompleted, []byte("done "+n)
				done = append(done, recs[i])
			}
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: done})
		saw("Commit and Steps", "each", stepTexts(c.steps(id)), recordTexts(recs))
		c.advance(2 * aLease)
		saw("Claim", "each", stepTexts(c.claim1().Steps), recordTexts(recs))
		for i := 0; i < len(names); i += 4 {
			k := key(names[i])
			fork := c.fork(store.ForkParams{ID: id, New: store.NewID(), Before: &k})
			saw("Fork", names[i], len(c.steps(fork.ID)), i/2)
		}
	}}
}

var registryColumns = []column{
	{"namespace", shortNames, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		home := c.ns
		ids := make([]store.ID, len(names))
		leases := make([]store.Lease, len(names))
		for i, n := range names {
			c.ns = home + n
			ids[i] = c.create(store.NewRun{ExternalID: "e"})
			c.putWorkflows(store.Workflow{Name: "w", Queue: n})
			c.putSchedule(store.Schedule{Name: "s", Workflow: aWorkflow, Queue: n, NextAt: c.now})
			c.putWorker(store.Worker{ID: aWorker, Host: n, TTL: time.Hour})
			c.lock("l", "owner "+n, time.Hour)
			if i%2 == 0 {
				c.setPaused("paused", "", true)
			}
		}
		for i, n := range names {
			c.ns = home + n
			saw("List", n, c.idsIn(store.RunFilter{}), []string{ids[i].String()})
			found, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "e"})
			c.ok("Find", err)
			saw("Find", n, found.ID.String(), ids[i].String())
			saw("Get", n, textsOf(c.gets(ids...), func(r store.Run) string { return r.ID.String() + r.Namespace }), []string{ids[i].String() + c.ns})
			saw("Count", n, c.count(store.RunFilter{}), int64(1))
			saw("ListWorkflows", n, textsOf(c.workflows(), func(w store.Workflow) string { return w.Queue }), []string{n})
			saw("ListSchedules", n, textsOf(c.schedules(store.ListSchedulesParams{}).Schedules, func(s store.Schedule) string { return s.Queue }), []string{n})
			saw("Lock", n, c.lock("l", "other", time.Hour).Owner, "owner "+n)
			paused, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns})
			c.ok("ListPaused", err)
			saw("ListPaused", n, len(paused.Paused), 1-i%2)
			got := c.claimN(5)
			saw("Claim", n, claimedIDs(got), []string{ids[i].String()})
			if len(got) == 1 {
				leases[i] = got[0].Lease
			}
		}
		for i, n := range names {
			c.ns = home + n
			saw("ListWorkers", n, textsOf(c.workers(), func(w store.Worker) string { return fmt.Sprint(w.Host, " ", w.Held) }), []string{n + " 1"})
			for k, state := range c.extends(leases...) {
				saw("Extend", n, state.Lost, k != i)
			}
		}
	}},
	{"worker", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		c.createN(len(names), store.NewRun{})
		leases := make([]store.Lease, len(names))
		for i, n := range names {
			c.putWorker(store.Worker{ID: n, Host: n, TTL: time.Hour})
			run := c.one(c.claim(store.ClaimParams{Worker: n, ClaimID: int64(i + 1)}).Runs)
			leases[i] = run.Lease
		}
		text := func(w store.Worker) string { return fmt.Sprint(w.ID, " ", w.Host, " ", w.Held) }
		saw("PutWorker, Claim and ListWorkers", "each", textsOf(c.workers(), text), textsOf(byBytes(names), func(n string) string { return n + " " + n + " 1" }))
		cms := make([]store.Commit, len(names))
		for i, n := range names {
			again := c.claim(store.ClaimParams{Worker: n, ClaimID: int64(i + 1), Again: true}).Runs
			saw("Claim again", n, claimedIDs(again), []string{leases[i].Run.String()})
			again = c.claim(store.ClaimParams{Worker: names[(i+1)%len(names)], ClaimID: int64(i + 1), Again: true}).Runs
			saw("Claim again of another's", n, len(again), 0)
			for _, other := range []int{(i + 1) % len(names), (i + 2) % len(names), (i + len(names) - 1) % len(names)} {
				lease := leases[i]
				lease.Worker = names[other]
				saw("Extend of another's lease", n, c.extend(lease).Lost, true)
				cms[i] = store.Commit{Lease: lease, Seq: 1}
			}
			saw("Extend", n, c.extend(leases[i]).Lost, false)
		}
		for i, res := range c.commits(cms...) {
			saw("Commit under another's lease", names[i], res.Err != nil, true)
		}
		even, odd := halves(names)
		for _, n := range even {
			c.ok("RemoveWorker", c.s.RemoveWorker(c.ctx, store.RemoveWorkerParams{Namespace: c.ns, ID: n}))
		}
		saw("RemoveWorker", "each second one", textsOf(c.workers(), func(w store.Worker) string { return w.ID }), byBytes(odd))
	}},
	{"registered workflow", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		wfs := make([]store.Workflow, len(names))
		for i, n := range names {
			wfs[i] = store.Workflow{Name: n, Queue: n, Meta: []byte("first " + n)}
		}
		c.putWorkflows(wfs...)
		var again []store.Workflow
		for i := range wfs {
			if i%2 == 0 {
				wfs[i].Meta = []byte("second " + wfs[i].Name)
				again = append(again, wfs[i])
			}
		}
		c.putWorkflows(again...)
		text := func(w store.Workflow) string { return w.Name + " " + w.Queue + " " + string(w.Meta) }
		for i, n := range names {
			saw("PutWorkflows and ListWorkflows", n, textsOf(c.workflows(n), text), []string{text(wfs[i])})
		}
	}},
	{"schedule", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		for _, n := range names {
			s := c.schedule(n)
			s.Spec = n
			c.putSchedule(s)
		}
		look := func(verb string, value func(i int, n string) string) {
			c.Helper()
			for i, n := range names {
				var want []string
				if v := value(i, n); v != "" {
					want = []string{v}
				}
				saw(verb, n, textsOf(c.schedules(store.ListSchedulesParams{Names: []string{n}}).Schedules, func(s store.Schedule) string { return s.Name + s.Spec + show(s.LastAt) }), want)
			}
		}
		fresh := func(n string) string { return n + n + show(time.Time{}) }
		look("PutSchedule and ListSchedules", func(_ int, n string) string { return fresh(n) })
		for _, n := range names {
			got := byBytes(scheduleNames(c.schedules(store.ListSchedulesParams{Due: true, Except: []string{n}})))
			saw("ListSchedules with Except", n, got, slices.DeleteFunc(byBytes(names), func(d string) bool { return d == n }))
		}
		for i, n := range names {
			if i%2 == 0 {
				c.mustFire(store.FireParams{Schedule: n, At: c.now, Next: c.now.Add(time.Hour)})
			}
		}
		look("Fire and ListSchedules", func(i int, n string) string {
			if i%2 == 0 {
				return n + n + show(c.now)
			}
			return fresh(n)
		})
		even, odd := halves(names)
		due := byBytes(odd)
		saw("ListSchedules of what is due", "each second one", byBytes(scheduleNames(c.schedules(store.ListSchedulesParams{Due: true}))), due)
		for i, n := range names {
			saw("ListFirings", n, len(c.firings(n)), 1-i%2)
		}
		for _, n := range even {
			c.ok("DeleteSchedule", c.s.DeleteSchedule(c.ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: n}))
		}
		look("DeleteSchedule and ListSchedules", func(i int, n string) string {
			if i%2 == 0 {
				return ""
			}
			return fresh(n)
		})
	}},
	{"lock", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		for i, n := range names {
			got := c.lock(n, fmt.Sprint("owner", i), time.Hour)
			saw("Lock", n, fmt.Sprint(got.Held, got.Owner), fmt.Sprint(true, "owner", i))
		}
		for i, n := range names {
			got := c.lock(n, "other", time.Hour)
			saw("Lock by another", n, fmt.Sprint(got.Held, got.Owner), fmt.Sprint(false, "owner", i))
		}
	}},
	{"lock's owner", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		for i, n := range names {
			c.lock("l", n, time.Hour)
			for _, other := range []int{(i + 1) % len(names), (i + 2) % len(names)} {
				got := c.lock("l", names[other], 0)
				saw("Lock by another", n, fmt.Sprint(got.Held, got.Owner), fmt.Sprint(false, n))
			}
			c.lock("l", n, 0)
		}
	}},
	{"actor", confusable, func(c *C, names []string, saw func(verb, name string, got, want any)) {
		j, ok := c.s.(store.Journal)
		if !ok {
			return // the backend does not keep what people did
		}
		actions := make([]store.Action, len(names))
		for i, n := range names {
			actions[i] = store.Action{ID: store.NewID(), Actor: n, Verb: n, Target: n, Details: n}
		}
		c.act(j, actions...)
		for _, n := range names {
			saw("Record and ListActions", n, textsOf(c.actions(j, store.ListActionsParams{Actor: n}), func(a store.Action) string { return a.Actor + a.Verb + a.Target + a.Details }), []string{n + n + n + n})
		}
	}},
}

// shortNames are those to which others may be put.
func shortNames() []string {
	return slices.DeleteFunc(confusable(), func(n string) bool { return len(n) > 100 })
}

// pagedNames reads the names of a listing by pages of seven.
func pagedNames(c *C, read func(cursor string, limit int) (names []string, next string, err error)) (all []string) {
	c.Helper()
	cursor := ""
	for range 100 {
		names, next, err := read(cursor, 7)
		c.ok("the list", err)
		if all = append(all, names...); next == "" {
			return all
		}
		cursor = next
	}
	c.Fatalf("a list of names: saw more than 100 pages of seven")
	return nil
}

var nameCases = []Case{
	{"names/runs", "", "names of runs, their external ids and what is found of failures are compared byte by byte, by every verb", lookUp(runColumns)},
	{"names/parts", "", "names of steps, branches, state, signals and groups are compared byte by byte, by every verb", lookUp(partColumns)},
	{"names/registry", "", "names of namespaces, workers, workflows, schedules, locks and actors are compared byte by byte, by every verb", lookUp(registryColumns)},
	{"names/order", "P14", "lists by name are in the order of the names' bytes, also across pages", func(c *C) {
		names := confusable()
		want := byBytes(names)
		run := c.start()
		id := run.Run.ID
		var spawn []store.NewRun
		var writes []store.StateWrite
		var wfs []store.Workflow
		for _, n := range names {
			k := kid(1)
			k.Group = n
			spawn, writes = append(spawn, k), append(writes, store.StateWrite{Key: n})
			wfs = append(wfs, store.Workflow{Name: n, Queue: aQueue})
			c.putWorker(store.Worker{ID: n, TTL: time.Hour})
			c.putSchedule(c.schedule(n))
			c.setPaused(n, "", true)
			c.setPaused("", n, true)
		}
		c.putWorkflows(wfs...)
		c.commit(store.Commit{Lease: run.Lease, State: writes, Spawn: spawn})

		c.same("keys of Inbox", keysOf(c.inbox(id).State), want)
		c.same("keys of GetState", keysOf(c.getState(id)), want)
		c.same("keys of GetState by name", keysOf(c.getState(id, names...)), want)
		c.same("keys of GetState by pages", pagedNames(c, func(after string, limit int) (page []string, next string, err error) {
			entries, err := c.s.GetState(c.ctx, store.GetStateParams{Namespace: c.ns, Run: id, After: after, Limit: limit})
			if page = keysOf(entries); len(page) > 0 {
				next = page[len(page)-1]
			}
			return page, next, err
		}), want)
		c.same("groups of Inbox", textsOf(c.inbox(id).Groups, func(g store.Group) string { return g.Name }), want)
		for i, n := range want {
			groups := c.box(store.InboxParams{Run: id, AfterGroup: n, NoState: true}).Groups
			c.same(fmt.Sprintf("groups above %q", n), textsOf(groups, func(g store.Group) string { return g.Name }), want[i+1:])
		}
		c.same("workers", pagedNames(c, func(cursor string, limit int) ([]string, string, error) {
			page, err := c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: c.ns, Cursor: cursor, Limit: limit, Now: c.now})
			return textsOf(page.Workers, func(w store.Worker) string { return w.ID }), page.Next, err
		}), want)
		c.same("workflows", pagedNames(c, func(cursor string, limit int) ([]string, string, error) {
			page, err := c.s.ListWorkflows(c.ctx, store.ListWorkflowsParams{Namespace: c.ns, Cursor: cursor, Limit: limit})
			return textsOf(page.Workflows, func(w store.Workflow) string { return w.Name }), page.Next, err
		}), want)
		c.same("schedules", pagedNames(c, func(cursor string, limit int) ([]string, string, error) {
			page, err := c.s.ListSchedules(c.ctx, store.ListSchedulesParams{Namespace: c.ns, Cursor: cursor, Limit: limit, Now: c.now})
			return scheduleNames(page), page.Next, err
		}), want)
		text := func(t store.PausedTarget) string { return t.Queue + "|" + t.Workflow }
		both := append(textsOf(want, func(n string) string { return "|" + n }), textsOf(want, func(n string) string { return n + "|" })...)
		c.same("pauses", pagedNames(c, func(cursor string, limit int) ([]string, string, error) {
			page, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns, Cursor: cursor, Limit: limit})
			return textsOf(page.Paused, text), page.Next, err
		}), both)
		laneOrder(c)
	}},
}

// laneOrder checks that lanes are in the order of queue and workflow.
func laneOrder(c *C) {
	c.ns += "/lanes"
	few := []string{"name", "Name", "é", "e\u0301", "\uff5e", "\U0001f600", "a", "A", "_", "aa", "a b"}
	var lanes []store.NewRun
	var pairs []string
	for _, q := range few {
		for _, w := range few {
			lanes = append(lanes, fill(store.NewRun{Queue: q, Workflow: w}))
		}
	}
	few = byBytes(few)
	for _, q := range few {
		for _, w := range few {
			pairs = append(pairs, q+"|"+w)
		}
	}
	c.creates(lanes...)
	rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns})
	c.ok("Count", err)
	c.same("rows of Count", textsOf(rows, func(r store.RunCount) string { return r.Queue + "|" + r.Workflow }), pairs)
	demands := []store.Demand{{Queue: few[0], MoreQueues: few[1:], Workflows: few, Max: 1}, demand("none", 1)}
	got := c.claim(store.ClaimParams{Max: 1, Demands: demands})
	first := got.Runs[0].Run
	pairs = slices.DeleteFunc(pairs, func(p string) bool { return p == first.Queue+"|"+first.Workflow })
	c.same("lanes that wait", textsOf(got.Waiting, func(w store.Waiting) string { return w.Queue + "|" + w.Workflow }), pairs)
}
