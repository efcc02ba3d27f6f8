package storetier

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (c *C) list(p store.ListParams) store.RunPage {
	c.Helper()
	p.Namespace = c.ns
	page, err := c.s.List(c.ctx, p)
	c.ok("List", err)
	return page
}

// listAll follows the cursors of a listing to its end. It calls between, if it is not nil, between
// pages.
func (c *C) listAll(p store.ListParams, between func()) []store.ID {
	c.Helper()
	ids := []store.ID{}
	for range 1000 {
		page := c.list(p)
		for _, r := range page.Runs {
			ids = append(ids, r.ID)
		}
		if page.Next == "" {
			return ids
		}
		p.Cursor = page.Next
		if between != nil {
			between()
		}
	}
	c.Fatalf("List: saw 1000 pages, expected an end")
	return nil
}

// backwards returns runs in the opposite order.
func backwards(ids []store.ID) []store.ID {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

// count counts all runs that a filter selects.
func (c *C) count(f store.RunFilter) int64 {
	c.Helper()
	rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: f})
	c.ok("Count", err)
	var sum int64
	for _, r := range rows {
		sum += r.Count
	}
	return sum
}

var listCases = []Case{
	{"list/pages-are-exact", "P14", "the pages of a listing contain every run once, in the order of IDs, newest first unless OldestFirst", func(c *C) {
		ids := c.createN(23, store.NewRun{})
		down := slices.Clone(ids)
		slices.Reverse(down)
		for _, limit := range []int{0, 1, 5, 22, 23, 24, store.MaxPage} {
			c.eq(fmt.Sprintf("oldest first, %d a page", limit), c.listAll(store.ListParams{OldestFirst: true, Limit: limit}, nil), ids)
			c.eq(fmt.Sprintf("newest first, %d a page", limit), c.listAll(store.ListParams{Limit: limit}, nil), down)
		}
		c.eq("runs of a page of 5", len(c.list(store.ListParams{Limit: 5}).Runs), 5)
		c.eq("Next of an exact page", c.list(store.ListParams{Limit: 23}).Next, "")
	}},
	{"list/default-page", "P14", "a page without a limit has a hundred runs", func(c *C) {
		c.createN(101, store.NewRun{})
		page := c.list(store.ListParams{})
		c.eq("runs", len(page.Runs), 100)
		c.check(page.Next != "", "Next: saw none, expected a cursor")
	}},
	{"list/rows", "P14", "rows are runs as Get reads them, without Input, Output and Meta", func(c *C) {
		run := c.startWith(store.NewRun{Input: []byte("in"), Meta: []byte("m"), ExternalID: "e", Priority: 4, Timeout: time.Hour})
		c.end(run, complete("out"))
		broken := c.start()
		c.end(broken, failWith("x"))
		page := c.list(store.ListParams{OldestFirst: true})
		want := c.gets(run.Run.ID, broken.Run.ID)
		for i := range want {
			want[i].Input, want[i].Output, want[i].Meta = nil, nil, nil
		}
		c.eq("the rows", page.Runs, want)
	}},
	{"list/empty", "P14", "a listing of nothing is an empty last page", func(c *C) {
		page := c.list(store.ListParams{})
		c.eq("runs", len(page.Runs), 0)
		c.eq("Next", page.Next, "")
	}},
	{"list/pages-under-writes", "P14", "runs that exist during the whole listing are returned exactly once, whatever is created, changed or purged between the pages", func(c *C) {
		for _, oldest := range []bool{true, false} {
			old := c.createN(5, store.NewRun{Queue: "purged"})
			c.tryCancel(old...)
			ids := c.createN(20, store.NewRun{})
			c.advance(time.Hour)
			seen := c.listAll(store.ListParams{OldestFirst: oldest, Limit: 3}, func() {
				c.create(store.NewRun{})
				for _, run := range c.claimN(2) {
					c.end(run, complete(""))
				}
				_, err := c.s.Purge(c.ctx, store.PurgeParams{Namespace: c.ns, Statuses: []store.Status{store.Canceled}, OlderThan: time.Minute, Limit: 1, Now: c.now})
				c.ok("Purge", err)
			})
			c.once(seen, ids)
		}
	}},
	{"list/pages-under-concurrent-writes", "P14", "runs that exist during the whole listing are returned exactly once while other processes write", func(c *C) {
		ids := c.createN(40, store.NewRun{})
		c.race(3, func(i int, s store.Store) error {
			if i != 0 {
				for range 15 {
					if _, err := c.createOn(s, fill(store.NewRun{})); err != nil {
						return err
					}
					if _, err := c.claimOn(s, store.ClaimParams{Max: 2}); err != nil {
						return err
					}
				}
				return nil
			}
			for _, oldest := range []bool{true, false, true, false} {
				p := store.ListParams{Namespace: c.ns, OldestFirst: oldest, Limit: 7}
				var seen []store.ID
				for {
					page, err := patient(c.ctx, func() (store.RunPage, error) { return s.List(c.ctx, p) })
					if err != nil {
						return err
					}
					for _, r := range page.Runs {
						seen = append(seen, r.ID)
					}
					if p.Cursor = page.Next; p.Cursor == "" {
						break
					}
				}
				c.once(seen, ids)
			}
			return nil
		})
	}},
	{"list/filters", "P14", "a filter selects exactly the runs that all its fields describe", func(c *C) {
		a := c.create(store.NewRun{Queue: "q1", Workflow: "a", ExternalID: "e", Suffix: "1"})
		b := c.create(store.NewRun{Queue: "q1", Workflow: "b", ExternalID: "e", Suffix: "2"})
		c.advance(time.Minute)
		d := c.create(store.NewRun{Queue: "q2", Workflow: "a", ExternalID: "E"})
		c.cancel(d)
		c.advance(time.Minute)
		parent := c.start()
		k := kid(1)
		c.commit(store.Commit{Lease: parent.Lease, Spawn: []store.NewRun{k}})
		p := parent.Run.ID
		for _, tt := range []struct {
			f    store.RunFilter
			want []store.ID
		}{
			{store.RunFilter{}, []store.ID{a, b, d, p, k.ID}},
			{store.RunFilter{Workflow: "a"}, []store.ID{a, d}},
			{store.RunFilter{Queue: "q1"}, []store.ID{a, b}},
			{store.RunFilter{Queue: "q1", Workflow: "b"}, []store.ID{b}},
			{store.RunFilter{Queue: "Q1"}, nil},
			{store.RunFilter{ExternalID: "e"}, []store.ID{a, b}},
			{store.RunFilter{Parent: p}, []store.ID{k.ID}},
			{store.RunFilter{Statuses: []store.Status{store.Canceled}}, []store.ID{d}},
			{store.RunFilter{Statuses: []store.Status{store.Canceled, store.Running}}, []store.ID{d, p}},
			{store.RunFilter{Statuses: []store.Status{store.Pending}, Workflow: "a"}, []store.ID{a}},
			{store.RunFilter{Statuses: []store.Status{store.Failed}}, nil},
			{store.RunFilter{CreatedAfter: began.Add(30 * time.Second)}, []store.ID{d, p, k.ID}},
			{store.RunFilter{CreatedBefore: began.Add(30 * time.Second)}, []store.ID{a, b}},
			{store.RunFilter{CreatedAfter: began.Add(30 * time.Second), CreatedBefore: began.Add(90 * time.Second)}, []store.ID{d}},
			{store.RunFilter{IDPrefix: b.String()}, []store.ID{b}},
			{store.RunFilter{IDPrefix: b.String()[:30], Queue: "q2"}, nil},
		} {
			want := append([]store.ID{}, tt.want...)
			slices.SortFunc(want, byID)
			c.eq(fmt.Sprintf("List of %+v", tt.f), c.listAll(store.ListParams{Filter: tt.f, OldestFirst: true, Limit: 2}, nil), want)
			c.eq(fmt.Sprintf("Count of %+v", tt.f), c.count(tt.f), int64(len(want)))
		}
	}},
	{"list/by-external-id", "P14", "an external id selects its runs in every status, whatever their suffix and whether they still hold it", func(c *C) {
		var want []store.ID
		run := func(status store.Status, then func(run store.ClaimedRun)) {
			r := fill(store.NewRun{ExternalID: "e", Suffix: status.String()})
			want = append(want, c.create(r))
			if then != nil {
				then(c.claim1())
			}
			c.status(r.ID, status)
		}
		run(store.Completed, func(run store.ClaimedRun) { c.end(run, complete("")) })
		run(store.Failed, func(run store.ClaimedRun) {
			c.end(run, &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "error"}})
		})
		run(store.Canceled, func(run store.ClaimedRun) { c.end(run, cancelRun()) })
		run(store.Sleeping, func(run store.ClaimedRun) { c.end(run, sleepFor(time.Hour)) })
		run(store.Paused, func(run store.ClaimedRun) { c.end(run, sleepFor(time.Hour)); c.pause(run.Run.ID) })
		run(store.Running, func(store.ClaimedRun) {})
		run(store.Canceling, func(run store.ClaimedRun) { c.cancel(run.Run.ID) })
		run(store.Pending, nil)
		c.create(store.NewRun{ExternalID: "E", Suffix: "pending"})
		f := store.RunFilter{ExternalID: "e"}
		slices.SortFunc(want, byID)
		c.eq("List", c.listAll(store.ListParams{Filter: f, OldestFirst: true, Limit: 3}, nil), want)
		c.eq("Count", c.count(f), int64(len(want)))
	}},
	{"list/by-end", "P14", "final runs are selected by their end, and listed in its order", func(c *C) {
		var ids []store.ID
		for range 4 {
			ids = append(ids, c.create(store.NewRun{}))
		}
		live := c.claimN(1)[0] // one of them
		for _, i := range []int{2, 0, 3, 1} {
			if ids[i] == live.Run.ID {
				c.end(live, failWith("x"))
			} else {
				c.cancel(ids[i])
			}
			c.advance(time.Minute)
		}
		open := c.create(store.NewRun{})
		order := []store.ID{ids[2], ids[0], ids[3], ids[1]} // at 0, 1, 2 and 3 minutes
		down := slices.Clone(order)
		slices.Reverse(down)
		c.eq("oldest first", c.listAll(store.ListParams{ByEnd: true, OldestFirst: true, Limit: 3}, nil), order)
		c.eq("newest first", c.listAll(store.ListParams{ByEnd: true, Limit: 1}, nil), down)
		c.eq("without ByEnd", len(c.listAll(store.ListParams{}, nil)), 5)
		end := func(i int) time.Time { return c.get(order[i]).FinishedAt }
		for _, tt := range []struct {
			f    store.RunFilter
			want []store.ID
		}{
			{store.RunFilter{FinishedAfter: end(1)}, order[2:]},
			{store.RunFilter{FinishedAfter: end(1).Add(-time.Microsecond)}, order[1:]},
			{store.RunFilter{FinishedBefore: end(2)}, order[:2]},
			{store.RunFilter{FinishedBefore: end(2).Add(time.Microsecond)}, order[:3]},
			{store.RunFilter{FinishedAfter: end(0), FinishedBefore: end(3)}, order[1:3]},
			{store.RunFilter{FinishedAfter: end(3)}, []store.ID{}},
			{store.RunFilter{FinishedBefore: end(3).Add(time.Hour), Statuses: []store.Status{store.Failed}}, []store.ID{live.Run.ID}},
			{store.RunFilter{FinishedBefore: end(3).Add(time.Hour), CreatedBefore: began}, []store.ID{}},
		} {
			c.eq(fmt.Sprintf("List by end of %+v", tt.f), c.listAll(store.ListParams{Filter: tt.f, ByEnd: true, OldestFirst: true, Limit: 2}, nil), tt.want)
			sorted := slices.Clone(tt.want)
			slices.SortFunc(sorted, byID)
			c.eq(fmt.Sprintf("List of %+v", tt.f), c.listAll(store.ListParams{Filter: tt.f, OldestFirst: true, Limit: 2}, nil), sorted)
			c.eq(fmt.Sprintf("Count of %+v", tt.f), c.count(tt.f), int64(len(tt.want)))
		}
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{order[0]}, Now: c.now})))
		c.eq("when the first is restarted", c.listAll(store.ListParams{ByEnd: true, OldestFirst: true}, nil), order[1:])
		c.status(open, store.Pending)
	}},
	{"list/by-end-pages", "P14", "pages by end contain every run once, also if many ended at one moment, whatever ends in the meantime", func(c *C) {
		ids := c.createN(23, store.NewRun{})
		c.tryCancel(ids[:9]...)
		c.advance(time.Second)
		c.tryCancel(ids[9:]...) // in the order of IDs within an end
		down := slices.Clone(ids)
		slices.Reverse(down)
		for _, limit := range []int{1, 4, 9, 22, 23, 24} {
			c.eq(fmt.Sprintf("oldest first, %d a page", limit), c.listAll(store.ListParams{ByEnd: true, OldestFirst: true, Limit: limit}, nil), ids)
			c.eq(fmt.Sprintf("newest first, %d a page", limit), c.listAll(store.ListParams{ByEnd: true, Limit: limit}, nil), down)
		}
		for _, oldest := range []bool{true, false} {
			seen := c.listAll(store.ListParams{ByEnd: true, OldestFirst: oldest, Limit: 5}, func() {
				c.advance(time.Second)
				c.cancel(c.create(store.NewRun{}))
			})
			c.once(seen, ids)
		}
		next := c.list(store.ListParams{ByEnd: true, Limit: 2}).Next
		for name, p := range map[string]store.ListParams{
			"the order of IDs":    {},
			"the other direction": {ByEnd: true, OldestFirst: true},
			"another time":        {ByEnd: true, Filter: store.RunFilter{FinishedAfter: began}},
		} {
			p.Namespace, p.Cursor = c.ns, next
			_, err := c.s.List(c.ctx, p)
			c.fails("List with the cursor of "+name, err, store.ErrInvalid)
		}
	}},
	{"list/by-failure", "P14", "runs are selected by the code and the text of their failure, and by the name of a failed step, exactly", func(c *C) {
		fail := func(f *store.Failure, steps ...store.StepRecord) store.ID {
			run := c.start()
			c.commit(store.Commit{Lease: run.Lease, Steps: steps, Transition: &store.Transition{Kind: store.FailRun, Failure: f}})
			return run.Run.ID
		}
		broken := step(1, "charge", "")
		broken.Status, broken.Failure = store.StepFailed, &store.Failure{Code: "timeout"}
		inBranch := broken
		inBranch.Branch = "left"
		a := fail(&store.Failure{Code: "declined", Message: "the card was \"declined\"\\\n100%_é"}, broken)
		b := fail(&store.Failure{Code: "Declined", Message: "THE card"}, step(1, "charge", "fine"))
		d := fail(&store.Failure{Code: "panic", Message: "a\x00b", Stack: "charge"}, inBranch)
		done := c.start()
		c.end(done, complete("declined"))
		again := c.start()
		c.end(again, retryIn(time.Hour))
		c.create(store.NewRun{})
		for _, tt := range []struct {
			f    store.RunFilter
			want []store.ID
		}{
			{store.RunFilter{FailureCode: "declined"}, []store.ID{a}},
			{store.RunFilter{FailureCode: "Declined"}, []store.ID{b}},
			{store.RunFilter{FailureCode: "error"}, []store.ID{again.Run.ID}},
			{store.RunFilter{FailureCode: "decline"}, nil},
			{store.RunFilter{FailureText: "card"}, []store.ID{a, b}},
			{store.RunFilter{FailureText: "the card was \"declined\"\\\n100%_é"}, []store.ID{a}},
			{store.RunFilter{FailureText: "%"}, []store.ID{a}},
			{store.RunFilter{FailureText: "c_rd"}, nil},
			{store.RunFilter{FailureText: "charge"}, nil},
			{store.RunFilter{FailureText: "a", FailureCode: "panic"}, []store.ID{d}},
			{store.RunFilter{FailedStep: "charge"}, []store.ID{a, d}},
			{store.RunFilter{FailedStep: "Charge"}, nil},
			{store.RunFilter{FailedStep: "charge", FailureText: "card", Statuses: []store.Status{store.Failed}}, []store.ID{a}},
		} {
			want := append([]store.ID{}, tt.want...)
			slices.SortFunc(want, byID)
			c.eq(fmt.Sprintf("List of %+v", tt.f), c.listAll(store.ListParams{Filter: tt.f, OldestFirst: true, Limit: 2}, nil), want)
			c.eq(fmt.Sprintf("Count of %+v", tt.f), c.count(tt.f), int64(len(want)))
		}
		_, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: store.RunFilter{FailureText: "\xff"}})
		c.fails("List of text that is none", err, store.ErrInvalid)
	}},
	{"list/by-attempt", "P14", "runs are selected by how often they, or an unfinished step of theirs, were tried", func(c *C) {
		fresh := c.start()
		retried := c.start()
		c.end(retried, retryIn(0))
		retried = c.claim1()
		stepping, through := c.start(), c.start()
		put := func(run store.ClaimedRun, status store.StepStatus) {
			s := step(1, "a", "")
			s.Status, s.Attempt = status, 7
			if status != store.StepCompleted {
				s.Output = nil
			}
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}})
		}
		put(stepping, store.StepPending)
		put(through, store.StepCompleted)
		for n, want := range map[int][]store.ID{
			0: {fresh.Run.ID, retried.Run.ID, stepping.Run.ID, through.Run.ID},
			1: {fresh.Run.ID, retried.Run.ID, stepping.Run.ID, through.Run.ID},
			2: {retried.Run.ID, stepping.Run.ID},
			7: {stepping.Run.ID},
			8: {},
		} {
			slices.SortFunc(want, byID)
			c.eq(fmt.Sprintf("List of %d attempts", n), c.listAll(store.ListParams{Filter: store.RunFilter{MinAttempt: n}, OldestFirst: true}, nil), want)
		}
		_, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: store.RunFilter{MinAttempt: -1}})
		c.fails("Count of less than none", err, store.ErrInvalid)
	}},
	{"list/id-prefix", "P14", "an ID's prefix selects by its text, in either case, with or without dashes, at any length", func(c *C) {
		base := store.NewID()
		var ids []store.ID
		for _, last := range []byte{0x00, 0x0f, 0x10, 0x1f, 0xff} {
			id := base
			id[15] = last
			ids = append(ids, c.create(store.NewRun{ID: id}))
		}
		text := base.String()
		for prefix, want := range map[string][]store.ID{
			text[:34]:                 ids,
			text[:34] + "0":           ids[:2],
			text[:34] + "1":           ids[2:4],
			text[:34] + "F":           ids[4:],
			text[:34] + "0f":          ids[1:2],
			ids[2].String():           ids[2:3],
			text[:8]:                  ids,
			text[:9]:                  ids,
			"ffffffff-ffff":           {},
			text[:34] + "2":           {},
			text[:8] + text[9:34][:4]: ids,
		} {
			c.eq("List of prefix "+prefix, c.listAll(store.ListParams{Filter: store.RunFilter{IDPrefix: prefix}, OldestFirst: true}, nil), want)
		}
		_, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: store.RunFilter{IDPrefix: "xyz"}})
		c.fails("List of a prefix that is none", err, store.ErrInvalid)
	}},
	{"list/foreign-cursor", "P14", "a cursor of another query, namespace or listing, or an invented one, is refused with ErrInvalid", func(c *C) {
		c.createN(5, store.NewRun{})
		next := c.list(store.ListParams{Limit: 2}).Next
		for name, p := range map[string]store.ListParams{
			"the other direction":    {Cursor: next, OldestFirst: true},
			"another filter":         {Cursor: next, Filter: store.RunFilter{Queue: aQueue}},
			"another status":         {Cursor: next, Filter: store.RunFilter{Statuses: []store.Status{store.Pending}}},
			"garbage":                {Cursor: "garbage"},
			"a cursor cut short":     {Cursor: next[:len(next)/2]},
			"a cursor with an extra": {Cursor: next + "*"},
		} {
			p.Namespace = c.ns
			_, err := c.s.List(c.ctx, p)
			c.fails("List with "+name, err, store.ErrInvalid)
		}
		_, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns + "/other", Cursor: next})
		c.fails("List of another namespace", err, store.ErrInvalid)
		_, err = c.s.ListSchedules(c.ctx, store.ListSchedulesParams{Namespace: c.ns, Cursor: next, Now: c.now})
		c.fails("ListSchedules with a cursor of List", err, store.ErrInvalid)
		c.eq("runs of the page with another limit", len(c.list(store.ListParams{Cursor: next, Limit: 1}).Runs), 1)
	}},
	{"list/cursor-of-the-other-handle", "P14", "a cursor is valid at any handle", func(c *C) {
		ids := c.createN(4, store.NewRun{})
		next := c.list(store.ListParams{Limit: 2, OldestFirst: true}).Next
		page, err := c.s2.List(c.ctx, store.ListParams{Namespace: c.ns, Limit: 2, OldestFirst: true, Cursor: next})
		c.ok("List by the second handle", err)
		got := []store.ID{}
		for _, r := range page.Runs {
			got = append(got, r.ID)
		}
		c.eq("runs", got, ids[2:])
		c.eq("Next", page.Next, "")
	}},
	{"list/count", "", "Count counts by queue, workflow and status, in that order, without rows of zero", func(c *C) {
		c.createN(3, store.NewRun{Queue: "b", Workflow: "x"})
		c.createN(2, store.NewRun{Queue: "b", Workflow: "X"})
		c.createN(1, store.NewRun{Queue: "B", Workflow: "x"})
		c.tryCancel(c.createN(2, store.NewRun{Queue: "b", Workflow: "x"})...)
		run := c.one(c.claim(store.ClaimParams{Demands: []store.Demand{demand("b", 1, "x")}}).Runs)
		c.end(run, sleepFor(time.Hour))
		rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns})
		c.ok("Count", err)
		c.eq("the rows", rows, []store.RunCount{
			{Queue: "B", Workflow: "x", Status: store.Pending, Count: 1},
			{Queue: "b", Workflow: "X", Status: store.Pending, Count: 2},
			{Queue: "b", Workflow: "x", Status: store.Pending, Count: 2},
			{Queue: "b", Workflow: "x", Status: store.Sleeping, Count: 1},
			{Queue: "b", Workflow: "x", Status: store.Canceled, Count: 2},
		})
	}},
	{"list/count-by-failure", "", "with ByFailure, runs of different codes are counted apart, those without a failure under none", func(c *C) {
		c.create(store.NewRun{})
		c.end(c.claim1(), complete(""))
		for _, code := range []string{"b", "B", "b", "a\"b"} {
			c.end(c.start(), failWith(code))
		}
		late := c.start()
		c.advance(time.Second)
		c.end(late, failWith("b"))
		count := func(f store.RunFilter) []store.RunCount {
			rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: f, ByFailure: true})
			c.ok("Count", err)
			return rows
		}
		row := func(st store.Status, code string, n int64) store.RunCount {
			return store.RunCount{Queue: aQueue, Workflow: aWorkflow, Status: st, FailureCode: code, Count: n}
		}
		c.eq("the rows", count(store.RunFilter{}), []store.RunCount{
			row(store.Completed, "", 1), row(store.Failed, "B", 1), row(store.Failed, "a\"b", 1), row(store.Failed, "b", 3),
		})
		c.eq("of the last", count(store.RunFilter{FinishedAfter: c.now.Add(-time.Millisecond)}), []store.RunCount{row(store.Failed, "b", 1)})
		c.eq("without ByFailure", c.count(store.RunFilter{}), int64(6))
	}},
	{"list/count-capped", "", "Count looks at MaxScan runs of a status and says of which it looked at so many; the others are exact", func(c *C) {
		old := c.create(store.NewRun{Workflow: "old"})
		c.tryCancel(old)
		for range 3 {
			c.end(c.start(), complete(""))
		}
		c.tryCancel(c.createN(4, store.NewRun{})...)
		c.createN(2, store.NewRun{})
		count := func(most int, f store.RunFilter) []store.RunCount {
			rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: f, MaxScan: most})
			c.ok("Count", err)
			return rows
		}
		row := func(workflow string, st store.Status, n int64, capped bool) store.RunCount {
			return store.RunCount{Queue: aQueue, Workflow: workflow, Status: st, Count: n, Capped: capped}
		}
		pending, completed := row(aWorkflow, store.Pending, 2, false), row(aWorkflow, store.Completed, 3, false)
		exact := []store.RunCount{row("old", store.Canceled, 1, false), pending, completed, row(aWorkflow, store.Canceled, 4, false)}
		slices.SortFunc(exact, func(a, b store.RunCount) int {
			return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status))
		})
		for _, most := range []int{0, 100, store.ScanAll} {
			c.eq(fmt.Sprint("the rows, of ", most, " runs"), count(most, store.RunFilter{}), exact)
		}
		c.eq("the rows, of 4 runs", count(4, store.RunFilter{}), []store.RunCount{pending, completed, row(aWorkflow, store.Canceled, 4, true)})
		c.eq("the rows, of 2 runs", count(2, store.RunFilter{Statuses: []store.Status{store.Completed, store.Canceled}}),
			[]store.RunCount{row(aWorkflow, store.Completed, 2, true), row(aWorkflow, store.Canceled, 2, true)})
		c.eq("the pending ones, of 1 run", count(1, store.RunFilter{Statuses: []store.Status{store.Pending}}), []store.RunCount{row(aWorkflow, store.Pending, 1, true)})
		c.eq("of a workflow whose run is older", count(4, store.RunFilter{Workflow: "old"}), []store.RunCount{{Status: store.Canceled, Capped: true}})
		c.eq("of that workflow, of all runs", count(6, store.RunFilter{Workflow: "old"}), []store.RunCount{row("old", store.Canceled, 1, false)})
		recent := store.RunFilter{Statuses: []store.Status{store.Canceled}, FinishedAfter: c.now.Add(-time.Hour)}
		c.eq("by their end, of 3 runs", count(3, recent), []store.RunCount{row(aWorkflow, store.Canceled, 3, true)})
		recent.FinishedAfter = c.now.Add(time.Hour)
		c.eq("that will end", len(count(1, recent)), 0)
		_, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, MaxScan: -1})
		c.fails("Count of -1 runs", err, store.ErrInvalid)
	}},
	{"list/bounded-in-scans", "P14", "a page that has looked at MaxScan runs ends there, and the next one continues after it", func(c *C) {
		var ids, want, ended, wantEnded []store.ID
		for i := range 31 {
			workflow := aWorkflow
			if i%8 == 3 {
				workflow = "rare"
			}
			id := c.create(store.NewRun{Workflow: workflow})
			ids = append(ids, id)
			if workflow == "rare" {
				want = append(want, id)
			}
			if i%2 == 0 || i == 11 {
				c.cancel(id)
				ended = append(ended, id)
				if workflow == "rare" {
					wantEnded = append(wantEnded, id)
				}
			}
			c.advance(time.Millisecond)
		}
		for _, most := range []int{1, 2, 4, 30, 31, 32, store.ScanAll} {
			for _, byEnd := range []bool{false, true} {
				all, rare := ids, want
				if byEnd {
					all, rare = ended, wantEnded
				}
				what := fmt.Sprintf("by end %v, of %d runs a page: ", byEnd, most)
				p := store.ListParams{MaxScan: most, Limit: 3, ByEnd: byEnd, OldestFirst: true}
				c.eq(what+"all", c.listAll(p, nil), all)
				p.Filter.Workflow = "rare"
				c.eq(what+"of a rare workflow", c.listAll(p, nil), rare)
				p.OldestFirst = false
				c.eq(what+"of a rare workflow, newest first", c.listAll(p, nil), backwards(rare))
				p.Filter.Workflow = "none"
				c.eq(what+"of no workflow", c.listAll(p, nil), []store.ID{})
			}
		}
		_, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, MaxScan: -1})
		c.fails("List of -1 runs", err, store.ErrInvalid)
	}},
}

// once checks that a listing contained each of ids exactly once.
func (c *C) once(seen, ids []store.ID) {
	c.Helper()
	times := map[store.ID]int{}
	for _, id := range seen {
		times[id]++
	}
	for i, id := range ids {
		if times[id] != 1 {
			c.Errorf("run %d of %d that existed throughout: saw it %d times, expected once", i+1, len(ids), times[id])
		}
	}
	for id, n := range times {
		if n > 1 {
			c.Errorf("run %v: saw it %d times, expected no run twice", id, n)
		}
	}
}

func (c *C) purge(p store.PurgeParams) int {
	c.Helper()
	p.Namespace, p.Now = c.ns, c.now
	n, err := c.s.Purge(c.ctx, p)
	c.ok("Purge", err)
	return n
}

var purgeCases = []Case{
	{"purge/only-final-and-old", "P13", "Purge deletes runs that have been final for OlderThan, and no others", func(c *C) {
		runs := []store.ClaimedRun{c.start(), c.start(), c.start()}
		late := c.create(store.NewRun{After: 1000 * time.Hour})
		c.advance(aLease / 2) // age counts from the end, not from the creation
		var old []store.ID
		for i, t := range []*store.Transition{complete(""), failWith("x"), cancelRun()} {
			c.end(runs[i], t)
			old = append(old, runs[i].Run.ID)
		}
		live := []store.ID{c.create(store.NewRun{After: 1000 * time.Hour})}
		asleep := c.start()
		c.end(asleep, sleepOn(store.WakeSignal))
		paused := c.create(store.NewRun{})
		c.pause(paused)
		live = append(live, asleep.Run.ID, paused)
		c.advance(30 * time.Minute)
		young := c.create(store.NewRun{})
		c.tryCancel(young, late)
		c.advance(29*time.Minute + 45*time.Second)
		c.eq("purged before the time", c.purge(store.PurgeParams{OlderThan: time.Hour}), 0)
		c.advance(2 * time.Minute)
		c.eq("purged", c.purge(store.PurgeParams{OlderThan: time.Hour}), 3)
		c.eq("old ones left", len(c.gets(old...)), 0)
		c.eq("others left", len(c.gets(append(live, young, late)...)), 5)
		c.eq("purged again", c.purge(store.PurgeParams{OlderThan: time.Hour}), 0)
	}},
	{"purge/selects", "", "Purge keeps to its workflow and statuses", func(c *C) {
		a := c.create(store.NewRun{Workflow: "a"})
		b := c.create(store.NewRun{Workflow: "b"})
		c.tryCancel(a, b)
		done := c.start()
		c.end(done, complete(""))
		c.advance(time.Hour)
		c.eq("purged of workflow a", c.purge(store.PurgeParams{Workflow: "a"}), 1)
		c.eq("runs left", len(c.gets(a, b, done.Run.ID)), 2)
		c.eq("purged of the failed", c.purge(store.PurgeParams{Statuses: []store.Status{store.Failed}}), 0)
		c.eq("purged of the completed", c.purge(store.PurgeParams{Statuses: []store.Status{store.Failed, store.Completed}}), 1)
		c.eq("runs left", len(c.gets(b)), 1)
	}},
	{"purge/limit", "P14", "Purge deletes up to Limit runs, those that finished first", func(c *C) {
		var ids []store.ID
		for range 5 {
			ids = append(ids, c.create(store.NewRun{}))
		}
		for _, i := range []int{3, 1, 4, 0, 2} {
			c.cancel(ids[i])
			c.advance(time.Minute)
		}
		c.eq("purged", c.purge(store.PurgeParams{Limit: 2}), 2)
		c.eq("the first two", len(c.gets(ids[3], ids[1])), 0)
		c.eq("the others", len(c.gets(ids[4], ids[0], ids[2])), 3)
		c.eq("purged", c.purge(store.PurgeParams{}), 3)
	}},
	{"purge/with-all-that-belongs", "P3", "a purged run is deleted with its input, steps, state and signals, and its ID may be used again", func(c *C) {
		r := fill(store.NewRun{Input: bytes.Repeat([]byte("old"), 1000)})
		run := c.startWith(r)
		sigs := []store.NewSignal{{ID: store.NewID(), Run: r.ID, Name: "n"}, {ID: store.NewID(), Run: r.ID, Name: "n"}}
		c.signals(sigs...)
		c.commit(store.Commit{
			Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, State: []store.StateWrite{{Key: "k"}}, Spawn: kids(1),
			Consumed: []store.SignalID{sigs[0].ID}, Transition: complete(""),
		})
		c.advance(time.Hour)
		for range 3 { // a child may be deleted after its parent
			c.purge(store.PurgeParams{})
		}
		c.eq("runs", c.count(store.RunFilter{}), int64(0))
		_, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: r.ID})
		c.fails("Steps", err, store.ErrNotFound)
		_, err = c.s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: r.ID})
		c.fails("Inbox", err, store.ErrNotFound)
		_, err = c.s.GetState(c.ctx, store.GetStateParams{Namespace: c.ns, Run: r.ID})
		c.fails("GetState", err, store.ErrNotFound)
		c.lost("a commit of its lease", store.Commit{Lease: run.Lease, Seq: 9, Transition: complete("")})
		r.Input = bytes.Repeat([]byte("new"), 1000)
		c.create(r)
		next := c.claim1()
		in := next.Inbox
		c.bytes("the input of the new run", next.Run.Input, r.Input)
		c.eq("what the new run has", []int{len(in.Signals), len(in.State), len(in.Groups), len(c.steps(r.ID))}, []int{0, 0, 0, 0})
		c.signals(sigs...)
		c.eq("signals after the old run's again", len(c.inbox(r.ID).Signals), 2)
	}},
	{"purge/keeps-children-of-live-parents", "P9", "a child whose parent is not final is kept; it is deleted when the parent is final", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(2)...)
		for range 2 {
			c.end(c.claimKid(), complete("x"))
		}
		c.advance(time.Hour)
		c.eq("purged", c.purge(store.PurgeParams{}), 0)
		run := c.claim1()
		c.eq("the parent", run.Run.ID, parent)
		page, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: parent, Group: "g"})
		c.ok("Children", err)
		c.eq("children", len(page.Children), 2)
		c.end(run, complete(""))
		n := 0
		for range 3 {
			n += c.purge(store.PurgeParams{})
		}
		c.eq("purged with the parent final", n, 3)
	}},
}
