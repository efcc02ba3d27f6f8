package storetier

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (c *C) putWorker(w store.Worker) {
	c.Helper()
	if w.Status == 0 {
		w.Status = store.Online
	}
	c.ok("PutWorker", c.s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: c.ns, Worker: w, Now: c.now}))
}

func (c *C) workers() []store.Worker {
	c.Helper()
	page, err := c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: c.ns, Now: c.now})
	c.ok("ListWorkers", err)
	return page.Workers
}

// ask asks workers that have been silent for a while for a sign of life.
func (c *C) ask(silent time.Duration) int {
	c.Helper()
	n, err := c.s.AskWorkers(c.ctx, store.AskWorkersParams{Namespace: c.ns, Silent: silent, Now: c.now})
	c.ok("AskWorkers", err)
	return n
}

// extendAs gives a sign of life.
func (c *C) extendAs(worker string) {
	c.Helper()
	c.ok("Extend", second(c.s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: worker, LeaseFor: aLease, Now: c.now})))
}

func (c *C) putWorkflows(wfs ...store.Workflow) {
	c.Helper()
	c.ok("PutWorkflows", c.s.PutWorkflows(c.ctx, store.PutWorkflowsParams{Namespace: c.ns, Workflows: wfs, Now: c.now}))
}

func (c *C) workflows(names ...string) []store.Workflow {
	c.Helper()
	page, err := c.s.ListWorkflows(c.ctx, store.ListWorkflowsParams{Namespace: c.ns, Names: names})
	c.ok("ListWorkflows", err)
	return page.Workflows
}

// pagesOf reads pages up to the last one, at most ten; it calls between after each.
func pagesOf[T any](c *C, read func(cursor string) (rows []T, next string, err error), between func(page int)) (pages [][]T) {
	c.Helper()
	cursor := ""
	for page := 1; page <= 10; page++ {
		rows, next, err := read(cursor)
		c.ok("the list", err)
		pages = append(pages, rows)
		if next == "" {
			return pages
		}
		if cursor = next; between != nil {
			between(page)
		}
	}
	c.Errorf("saw no last page among %d", len(pages))
	return pages
}

func lengths[T any](pages [][]T) []int {
	n := []int{}
	for _, rows := range pages {
		n = append(n, len(rows))
	}
	return n
}

// workerPage reads the IDs of a page.
func (c *C) workerPage(p store.ListWorkersParams) (ids []string, next string, err error) {
	p.Namespace, p.Now = cmp.Or(p.Namespace, c.ns), c.now
	page, err := c.s.ListWorkers(c.ctx, p)
	for _, w := range page.Workers {
		ids = append(ids, w.ID)
	}
	return ids, page.Next, err
}

// workflowPage reads the names of a page.
func (c *C) workflowPage(p store.ListWorkflowsParams) (names []string, next string, err error) {
	p.Namespace = cmp.Or(p.Namespace, c.ns)
	page, err := c.s.ListWorkflows(c.ctx, p)
	for _, w := range page.Workflows {
		names = append(names, w.Name)
	}
	return names, page.Next, err
}

var registryCases = []Case{
	{"workers/pages", "P14", "pages of ListWorkers contain each worker that stays registered once, 100 of them by default; a cursor of another query is ErrInvalid", func(c *C) {
		put := func(id string) { c.putWorker(store.Worker{ID: id, TTL: time.Minute}) }
		want := []string{}
		for i := range 7 {
			want = append(want, fmt.Sprintf("w%04d", i))
			put(want[i])
		}
		c.createN(2, store.NewRun{})
		c.claim(store.ClaimParams{Worker: want[5], Max: 2})
		pages := pagesOf(c, func(cursor string) ([]string, string, error) {
			return c.workerPage(store.ListWorkersParams{Cursor: cursor, Limit: 3})
		}, func(page int) {
			if page == 1 { // neither is listed: one is before the cursor, one is gone when the listing reaches it
				put("w00001")
				put("w0005x")
				c.ok("RemoveWorker", c.s.RemoveWorker(c.ctx, store.RemoveWorkerParams{Namespace: c.ns, ID: "w0005x"}))
			}
		})
		c.eq("sizes of pages", lengths(pages), []int{3, 3, 1})
		c.eq("workers", slices.Concat(pages...), want)
		_, next, err := c.workerPage(store.ListWorkersParams{Limit: 5}) // w0000, w00001 and so on
		c.ok("ListWorkers", err)
		page, err := c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: c.ns, Cursor: next, Limit: 2, Now: c.now})
		c.ok("ListWorkers", err)
		c.eq("IDs and Held of a later page", []any{page.Workers[0].ID, page.Workers[0].Held, page.Workers[1].ID, page.Workers[1].Held}, []any{"w0004", int64(0), "w0005", int64(2)})
		for i := 8; i < 100; i++ {
			put(fmt.Sprintf("w%04d", i))
		}
		ids, next, err := c.workerPage(store.ListWorkersParams{})
		c.ok("ListWorkers", err)
		c.eq("a full page, the last one", []any{len(ids), next}, []any{100, ""})
		put("w0100")
		ids, next, err = c.workerPage(store.ListWorkersParams{})
		c.ok("ListWorkers", err)
		c.eq("workers of the first page", len(ids), 100)
		ids, last, err := c.workerPage(store.ListWorkersParams{Cursor: next})
		c.ok("ListWorkers", err)
		c.eq("the second page", []any{ids, last}, []any{[]string{"w0100"}, ""})
		_, _, err = c.workerPage(store.ListWorkersParams{Namespace: c.ns + "x", Cursor: next})
		c.fails("ListWorkers with the cursor of another namespace", err, store.ErrInvalid)
		_, _, err = c.workflowPage(store.ListWorkflowsParams{Cursor: next})
		c.fails("ListWorkflows with a cursor of ListWorkers", err, store.ErrInvalid)
	}},
	{"workers/put-and-list", "", "a worker is stored as it was put, with the store's times, and listed by ID", func(c *C) {
		want := store.Worker{
			ID: "w1", Host: "host", PID: 42, Queues: []string{"q1", "q2"}, Workflows: []string{"a", "b"}, Labels: map[string]string{"zone": "x", "": "empty"},
			Slots: 7, Limits: map[string]int{"a": 2, "b@v1": 1}, Status: store.Online, TTL: time.Minute, Answers: 3 * time.Second,
			Takes: map[string][]string{"q1": {"a"}, "q2": {"a", "b"}},
		}
		c.putWorker(want)
		want.StartedAt, want.SeenAt = c.now, c.now
		c.eq("workers", c.workers(), []store.Worker{want})
		for _, id := range []string{"w0", "W9", "w2"} {
			c.putWorker(store.Worker{ID: id, TTL: time.Minute})
		}
		var ids []string
		for _, w := range c.workers() {
			ids = append(ids, w.ID)
		}
		c.eq("IDs", ids, []string{"W9", "w0", "w1", "w2"})
	}},
	{"workers/held", "P1", "Held counts the leases that a worker holds", func(c *C) {
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Minute})
		held := func(want int64) {
			c.Helper()
			c.eq("Held", c.workers()[0].Held, want)
		}
		held(0)
		c.createN(3, store.NewRun{})
		runs := c.claimN(3)
		held(3)
		c.end(runs[0], complete(""))
		c.end(runs[1], sleepFor(time.Hour))
		held(1)
		c.cancel(runs[2].Run.ID)
		held(1)
		c.advance(aLease)
		c.claim1As("w2")
		held(0)
	}},
	{"workers/without-held", "", "a list without Held differs in that alone", func(c *C) {
		c.putWorker(store.Worker{ID: aWorker, Host: "h", TTL: time.Minute})
		c.createN(1, store.NewRun{})
		c.claimN(1)
		want := c.workers()
		c.eq("Held", want[0].Held, int64(1))
		got, err := c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: c.ns, NoHeld: true, Now: c.now})
		c.ok("ListWorkers", err)
		want[0].Held = 0
		c.eq("workers", got.Workers, want)
	}},
	{"workers/offline-after-ttl", "P13", "a worker without a sign of life for its TTL is offline, and online again when it gives one", func(c *C) {
		c.putWorker(store.Worker{ID: "w1", TTL: time.Minute})
		c.putWorker(store.Worker{ID: "w2", TTL: time.Hour, Status: store.Draining})
		see := func(want ...store.WorkerStatus) {
			c.Helper()
			var got []store.WorkerStatus
			for _, w := range c.workers() {
				got = append(got, w.Status)
			}
			c.eq("statuses", got, want)
		}
		see(store.Online, store.Draining)
		c.advance(time.Minute - time.Microsecond)
		see(store.Online, store.Draining)
		c.advance(2 * time.Microsecond)
		see(store.Offline, store.Draining)
		c.extends()
		see(store.Online, store.Draining)
		c.advance(2 * time.Hour)
		see(store.Offline, store.Offline)
	}},
	{"workers/put-again", "P4", "a put of a worker that exists changes it and is a sign of life; StartedAt stays", func(c *C) {
		c.putWorker(store.Worker{ID: "w1", Host: "a", TTL: time.Minute, Slots: 1})
		started := c.now
		c.advance(time.Hour)
		c.putWorker(store.Worker{ID: "w1", Host: "b", TTL: time.Hour, Slots: 2, Status: store.Draining, StartedAt: c.now, Held: 9})
		ws := c.workers()
		c.eq("workers", len(ws), 1)
		w := ws[0]
		c.eq("what was put", []any{w.Host, w.TTL, w.Slots, w.Status, w.Held}, []any{"b", time.Hour, 2, store.Draining, int64(0)})
		c.eq("StartedAt", w.StartedAt, started)
		c.eq("SeenAt", w.SeenAt, c.now)
	}},
	{"workers/remove", "P4", "a removed worker is gone, removing it again is not an error, and its leases stay valid", func(c *C) {
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Minute})
		run := c.start()
		for range 2 {
			c.ok("RemoveWorker", c.s.RemoveWorker(c.ctx, store.RemoveWorkerParams{Namespace: c.ns, ID: aWorker}))
		}
		c.eq("workers", len(c.workers()), 0)
		c.claimNone("the lease stands")
		c.end(run, complete(""))
	}},
	{"workers/pairs", "", "a worker serves the pairs that it was put with, and without them each of its workflows in each of its queues; a put replaces them", func(c *C) {
		both := []string{"a", "b"}
		pairs := func() string {
			c.Helper()
			text := ""
			for _, q := range []string{"a", "b", "c"} {
				for _, w := range both {
					if ws := c.workers(); ws[0].Serves(q, w) {
						text += q + w + " "
					}
				}
			}
			return text
		}
		w := store.Worker{ID: "w1", TTL: time.Minute, Queues: both, Workflows: both}
		c.putWorker(w)
		c.eq("without pairs", pairs(), "aa ab ba bb ")
		w.Takes = map[string][]string{"a": {"a"}, "b": both}
		c.putWorker(w)
		c.eq("with pairs", pairs(), "aa ba bb ")
		w.Status = store.Draining
		c.putWorker(w)
		c.eq("of one that drains", pairs(), "")
	}},
	{"workers/asked", "P13", "a worker that is asked for a sign of life and gives none within its Answers is offline, not earlier, and online again when it gives one", func(c *C) {
		c.putWorker(store.Worker{ID: "w1", TTL: time.Hour, Answers: 20 * time.Second})
		c.putWorker(store.Worker{ID: "w2", TTL: time.Hour, Answers: 40 * time.Second, Status: store.Draining})
		see := func(what string, want ...store.WorkerStatus) {
			c.Helper()
			var got []store.WorkerStatus
			for _, w := range c.workers() {
				got = append(got, w.Status)
			}
			c.eq("statuses "+what, got, want)
		}
		c.advance(time.Minute)
		c.eq("asked", c.ask(time.Minute), 2)
		at := c.now
		for _, w := range c.workers() {
			c.eq("AskedAt of "+w.ID, w.AskedAt, at)
		}
		c.advance(20*time.Second - time.Microsecond)
		see("before the first should have answered", store.Online, store.Draining)
		c.advance(2 * time.Microsecond)
		see("when it has not", store.Offline, store.Draining)
		c.advance(20 * time.Second)
		see("when neither has", store.Offline, store.Offline)
		c.extendAs("w1")
		c.putWorker(store.Worker{ID: "w2", TTL: time.Hour, Answers: 40 * time.Second, Status: store.Draining})
		see("when both have", store.Online, store.Draining)
		for _, w := range c.workers() {
			c.check(w.AskedAt.IsZero(), "AskedAt of %s, which has answered: saw %v", w.ID, w.AskedAt)
		}
		c.advance(50 * time.Second)
		see("later, for nobody asks", store.Online, store.Draining)
	}},
	{"workers/asked-once", "P13", "a worker that is asked again has no more time to answer", func(c *C) {
		c.putWorker(store.Worker{ID: "w1", TTL: time.Hour, Answers: 20 * time.Second})
		c.advance(time.Minute)
		c.eq("asked", c.ask(time.Second), 1)
		at := c.now
		for range 3 {
			c.advance(7 * time.Second)
			c.eq("asked again", c.ask(time.Second), 0)
		}
		w := c.workers()[0]
		c.eq("worker", []any{w.AskedAt, w.Status}, []any{at, store.Offline})
	}},
	{"workers/asked-whom", "P13", "workers are not asked if they gave a sign of life recently, do not answer, are offline, or belong to another namespace", func(c *C) {
		c.putWorker(store.Worker{ID: "silent", TTL: time.Hour, Answers: time.Second})
		c.putWorker(store.Worker{ID: "busy", TTL: time.Hour})
		c.putWorker(store.Worker{ID: "offline", TTL: time.Minute, Answers: time.Second})
		other := store.PutWorkerParams{Namespace: c.ns + "x", Worker: store.Worker{ID: "silent", TTL: time.Hour, Answers: time.Second, Status: store.Online}, Now: c.now}
		c.ok("PutWorker", c.s.PutWorker(c.ctx, other))
		c.advance(30 * time.Second)
		c.putWorker(store.Worker{ID: "heard", TTL: time.Hour, Answers: time.Second})
		c.advance(30 * time.Second)
		c.eq("asked of those that are silent for too long for any", c.ask(time.Minute+time.Microsecond), 0)
		c.eq("asked", c.ask(time.Minute), 1)
		for _, w := range c.workers() {
			c.check(w.AskedAt.IsZero() == (w.ID != "silent"), "AskedAt of %s: saw %v", w.ID, w.AskedAt)
		}
		there, err := c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: c.ns + "x", Now: c.now})
		c.ok("ListWorkers", err)
		c.check(there.Workers[0].AskedAt.IsZero(), "AskedAt of one of another namespace: saw %v", there.Workers[0].AskedAt)
		c.eq("asked there", c.ask(time.Minute), 0)
	}},
	{"workers/asked-answers", "P13", "each sign of life is an answer, also a late one, and a worker that gave none may be asked again once it has", func(c *C) {
		c.putWorker(store.Worker{ID: "w1", TTL: time.Hour, Answers: time.Second})
		for range 3 {
			c.advance(time.Minute)
			c.eq("asked", c.ask(time.Second), 1)
			c.advance(time.Minute)
			c.eq("status", c.workers()[0].Status, store.Offline)
			c.extendAs("w1")
			w := c.workers()[0]
			c.eq("worker", []any{w.Status, w.AskedAt, w.SeenAt}, []any{store.Online, time.Time{}, c.now})
		}
	}},
	{"workers/asked-is-told", "P18", "a worker learns from each of its claims that it is asked, whether there is work or not, until it has given a sign of life; other workers do not", func(c *C) {
		for _, id := range []string{aWorker, "w2"} {
			c.putWorker(store.Worker{ID: id, TTL: time.Hour, Answers: time.Minute})
		}
		told := func(what string, mine, others bool) {
			c.Helper()
			for range 3 { // a look may be remembered
				c.eq("Asked of the worker "+what, c.claim(store.ClaimParams{}).Asked, mine)
				c.eq("Asked of another "+what, c.claim(store.ClaimParams{Worker: "w2"}).Asked, others)
				c.eq("Asked in another namespace "+what, c.claim(store.ClaimParams{Namespace: c.ns + "x"}).Asked, false)
			}
		}
		told("that nobody asks", false, false)
		c.advance(time.Minute)
		c.extendAs("w2")
		c.eq("asked", c.ask(time.Minute), 1)
		told("that is asked", true, false)
		c.create(store.NewRun{})
		got := c.claim(store.ClaimParams{})
		c.eq("a claim that takes a run", []any{len(got.Runs), got.Asked}, []any{1, true})
		c.extendAs(aWorker)
		told("that has answered", false, false)
		c.advance(time.Minute)
		c.eq("asked again", c.ask(time.Minute), 2)
		told("that is asked again", true, true)
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Hour, Answers: time.Minute})
		c.extendAs("w2")
		told("that has answered again", false, false)
	}},
	{"workers/not-needed", "P1", "a worker need not be registered to claim", func(c *C) {
		c.start()
		c.eq("workers", len(c.workers()), 0)
	}},
	{"workflows/pages", "P14", "pages of ListWorkflows contain each workflow that stays registered once, 100 of them by default; a cursor of another query is ErrInvalid", func(c *C) {
		put := func(names ...string) {
			list := []store.Workflow{}
			for _, name := range names {
				list = append(list, store.Workflow{Name: name, Queue: "q"})
			}
			c.putWorkflows(list...)
		}
		want := []string{}
		for i := range 7 {
			want = append(want, fmt.Sprintf("f%04d", i))
		}
		put(want...)
		pages := func(names ...string) [][]string {
			return pagesOf(c, func(cursor string) ([]string, string, error) {
				return c.workflowPage(store.ListWorkflowsParams{Names: names, Cursor: cursor, Limit: 3})
			}, func(page int) {
				if page == 1 {
					put("f00001") // before the cursor
				}
			})
		}
		c.eq("pages of all", pages(), [][]string{want[:3], want[3:6], want[6:]})
		c.eq("pages of some", pages("none", want[6], want[4], want[2], want[0]), [][]string{{want[0], want[2], want[4]}, {want[6]}})
		for i := 8; i < 100; i++ {
			put(fmt.Sprintf("f%04d", i))
		}
		names, next, err := c.workflowPage(store.ListWorkflowsParams{})
		c.ok("ListWorkflows", err)
		c.eq("a full page, the last one", []any{len(names), next}, []any{100, ""})
		put("f0100")
		names, next, err = c.workflowPage(store.ListWorkflowsParams{})
		c.ok("ListWorkflows", err)
		c.eq("workflows of the first page", len(names), 100)
		names, last, err := c.workflowPage(store.ListWorkflowsParams{Cursor: next})
		c.ok("ListWorkflows", err)
		c.eq("the second page", []any{names, last}, []any{[]string{"f0100"}, ""})
		_, _, err = c.workflowPage(store.ListWorkflowsParams{Namespace: c.ns + "x", Cursor: next})
		c.fails("ListWorkflows with the cursor of another namespace", err, store.ErrInvalid)
		_, _, err = c.workflowPage(store.ListWorkflowsParams{Names: []string{"f0100"}, Cursor: next})
		c.fails("ListWorkflows with the cursor of other names", err, store.ErrInvalid)
		_, err = c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns, Cursor: next})
		c.fails("ListPaused with a cursor of ListWorkflows", err, store.ErrInvalid)
	}},
	{"workflows/put-and-list", "", "workflows are stored as they were put and listed by name", func(c *C) {
		c.putWorkflows()
		c.putWorkflows(store.Workflow{Name: "b", Queue: "q", Meta: []byte("m")}, store.Workflow{Name: "a", Queue: "q2"}, store.Workflow{Name: "B", Queue: "q"})
		b := store.Workflow{Name: "b", Queue: "q", Meta: []byte("m"), UpdatedAt: c.now}
		c.eq("all", c.workflows(), []store.Workflow{{Name: "B", Queue: "q", UpdatedAt: c.now}, {Name: "a", Queue: "q2", UpdatedAt: c.now}, b})
		c.eq("by name", c.workflows("none", "b"), []store.Workflow{b})
	}},
	{"workflows/replace", "P4", "a workflow put again replaces the previous one", func(c *C) {
		c.putWorkflows(store.Workflow{Name: "a", Queue: "q", Meta: []byte("m")}, store.Workflow{Name: "b", Queue: "q"})
		before := c.now
		c.advance(time.Hour)
		c.putWorkflows(store.Workflow{Name: "a", Queue: "q2"})
		c.eq("all", c.workflows(), []store.Workflow{{Name: "a", Queue: "q2", UpdatedAt: c.now}, {Name: "b", Queue: "q", UpdatedAt: before}})
	}},
	{"workflows/all-or-none", "P3", "if one of several workflows is refused, none is registered", func(c *C) {
		err := c.s.PutWorkflows(c.ctx, store.PutWorkflowsParams{Namespace: c.ns, Workflows: []store.Workflow{{Name: "a", Queue: "q"}, {Name: "b"}}, Now: c.now})
		c.fails("PutWorkflows", err, store.ErrInvalid)
		c.eq("workflows", len(c.workflows()), 0)
	}},
	{"workflows/race", "P4", "workers that register the same workflows concurrently, in any order, all succeed", func(c *C) {
		c.race(4, func(i int, s store.Store) error {
			for range 5 {
				var wfs []store.Workflow
				for n := range 6 {
					wfs = append(wfs, store.Workflow{Name: fmt.Sprint("wf", n), Queue: "q"})
				}
				if i%2 == 1 {
					slices.Reverse(wfs)
				}
				_, err := patient(c.ctx, func() (struct{}, error) {
					return struct{}{}, s.PutWorkflows(c.ctx, store.PutWorkflowsParams{Namespace: c.ns, Workflows: wfs, Now: c.now})
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		c.eq("workflows", len(c.workflows()), 6)
	}},
}

func (c *C) lock(name, owner string, d time.Duration) store.LockResult {
	c.Helper()
	res, err := c.s.Lock(c.ctx, store.LockParams{Namespace: c.ns, Name: name, Owner: owner, For: d, Now: c.now})
	c.ok("Lock", err)
	return res
}

var lockCases = []Case{
	{"lock/one-owner", "P1", "a lock has one owner, and others are told who and until when; other names are other locks", func(c *C) {
		held := store.LockResult{Held: true, Owner: "a", Until: c.now.Add(time.Minute)}
		c.eq("the first", c.lock("l", "a", time.Minute), held)
		held.Held = false
		c.advance(time.Second)
		c.eq("another", c.lock("l", "b", time.Hour), held)
		c.eq("Held of another lock", c.lock("m", "b", time.Hour).Held, true)
	}},
	{"lock/expires", "P13", "a lock is free when it has expired, not before", func(c *C) {
		c.lock("l", "a", time.Minute)
		c.advance(time.Minute - time.Microsecond)
		c.eq("Held a microsecond before", c.lock("l", "b", time.Minute).Held, false)
		c.advance(time.Microsecond)
		c.eq("the next owner", c.lock("l", "b", time.Minute), store.LockResult{Held: true, Owner: "b", Until: c.now.Add(time.Minute)})
		c.eq("Held of the first", c.lock("l", "a", time.Minute).Held, false)
	}},
	{"lock/release", "P1", "its owner releases a lock with For 0, and nobody else can", func(c *C) {
		c.eq("Held of a lock given back before it was taken", c.lock("l", "a", 0).Held, false)
		c.lock("l", "a", time.Minute)
		c.lock("l", "b", 0)
		c.eq("Held by b while a has it", c.lock("l", "b", time.Minute).Held, false)
		c.eq("Held after a gave it back", c.lock("l", "a", 0).Held, false)
		c.eq("Held by b", c.lock("l", "b", time.Minute).Held, true)
	}},
	{"lock/extend", "P4", "its owner extends a lock by locking again", func(c *C) {
		c.lock("l", "a", time.Minute)
		c.advance(50 * time.Second)
		c.eq("the extension", c.lock("l", "a", time.Minute), store.LockResult{Held: true, Owner: "a", Until: c.now.Add(time.Minute)})
		c.advance(50 * time.Second)
		c.eq("Held by another", c.lock("l", "b", time.Minute).Held, false)
	}},
	{"lock/race", "P1", "of concurrent callers one gets the lock, and all are told the same owner", func(c *C) {
		for range 10 {
			results := make([]store.LockResult, 6)
			c.race(len(results), func(i int, s store.Store) (err error) {
				results[i], err = patient(c.ctx, func() (store.LockResult, error) {
					return s.Lock(c.ctx, store.LockParams{Namespace: c.ns, Name: "l", Owner: fmt.Sprint("o", i), For: time.Minute, Now: c.now})
				})
				return err
			})
			held := 0
			for i, res := range results {
				if res.Held {
					held++
					c.eq("the owner's name", res.Owner, fmt.Sprint("o", i))
				}
				c.eq("Owner", res.Owner, results[0].Owner)
			}
			c.eq("answers that hold it", held, 1)
			c.advance(time.Minute)
		}
	}},
}
