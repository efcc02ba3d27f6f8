package storetier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// tagged creates a run with tags.
func (c *C) tagged(tags store.Tags) store.ID {
	c.Helper()
	return c.create(store.NewRun{Tags: tags})
}

// with selects runs whose tag has any of the values.
func with(name string, values ...string) store.RunFilter {
	return store.RunFilter{Tags: []store.TagMatch{{Name: name, Values: values}}}
}

// found lists the runs that a filter selects, the oldest first, and checks that Count counts them.
func (c *C) found(f store.RunFilter) []store.ID {
	c.Helper()
	ids := c.listAll(store.ListParams{Filter: f, OldestFirst: true, Limit: 3}, nil)
	c.eq("the count", c.count(f), int64(len(ids)))
	return ids
}

// finds checks which runs a filter selects.
func (c *C) finds(what string, f store.RunFilter, want ...store.ID) {
	c.Helper()
	c.sameIDs(what, c.found(f), append([]store.ID{}, want...)...)
}

// commitTags replaces the tags of a run that is held.
func (c *C) commitTags(run store.ClaimedRun, tags store.Tags) {
	c.Helper()
	c.commit(store.Commit{Lease: run.Lease, Tags: tags})
}

var tagCases = slices.Concat(tagBasics, tagLists, tagLives)

var tagBasics = []Case{
	{"tag/created", "P26", "a run has the tags that it was created with, wherever it is read, and others have none", func(c *C) {
		tags := store.Tags{"customer": "4711", "region": "eu-west", "a.b/c:d_e-f": `quote " \ and ünïcode`}
		id, bare := c.tagged(tags), c.tagged(nil)
		c.eq("tags by Get", c.get(id).Tags, tags)
		c.eq("tags of another run", c.get(bare).Tags, store.Tags(nil))
		page := c.list(store.ListParams{OldestFirst: true})
		c.eq("tags by List", []store.Tags{page.Runs[0].Tags, page.Runs[1].Tags}, []store.Tags{tags, nil})
		for _, run := range c.claimAll(2) {
			c.eq("tags by Claim", run.Run.Tags, c.get(run.Run.ID).Tags)
		}
		for name, value := range tags {
			c.finds("runs with "+name, with(name, value), id)
		}
	}},
	{"tag/eager", "P26", "a run that is leased at its creation has its tags, and so have all runs of a call", func(c *C) {
		runs := make([]store.NewRun, 40)
		for i := range runs {
			runs[i] = fill(store.NewRun{Tags: store.Tags{"n": fmt.Sprint(i), "all": "x"}})
			if i%3 == 0 {
				runs[i].Worker, runs[i].LeaseFor = aWorker, aLease
			}
			if i%5 == 0 {
				runs[i].Tags = nil
			}
			if i%7 == 0 {
				runs[i].ExternalID, runs[i].Input = fmt.Sprint("x", i), make([]byte, min(5000, c.s.Limits().Payload))
			}
		}
		c.creates(runs...)
		for i, r := range runs {
			c.eq(fmt.Sprint("tags of run ", i), c.get(r.ID).Tags, r.Tags)
			if r.Tags != nil {
				c.finds(fmt.Sprint("run ", i), with("n", fmt.Sprint(i)), r.ID)
			}
		}
		c.eq("runs with the tag that all have", len(c.found(with("all", "x"))), 32)
	}},
	{"tag/repeated", "P4", "a start that is sent again, or that finds another run, changes no tags", func(c *C) {
		r := fill(store.NewRun{ExternalID: "x", Tags: store.Tags{"k": "1"}})
		c.creates(r)
		again := r
		again.Tags = store.Tags{"k": "2"}
		other := fill(store.NewRun{ExternalID: "x", Tags: store.Tags{"k": "3"}})
		for _, res := range c.creates(again, other) {
			c.ok("Create's item", res.Err)
			c.eq("the run", res.ID, r.ID)
		}
		c.eq("tags", c.get(r.ID).Tags, r.Tags)
		c.finds("runs with other values", with("k", "2", "3"))
		c.finds("runs with the value", with("k", "1"), r.ID)
	}},
	{"tag/committed", "P26", "a commit replaces the tags of its run, with whatever else it does; nil leaves them, and empty ones remove them", func(c *C) {
		run := c.startWith(store.NewRun{Tags: store.Tags{"k": "1", "old": "x"}})
		id := run.Run.ID
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		c.eq("tags after a commit without any", c.get(id).Tags, store.Tags{"k": "1", "old": "x"})
		c.commitTags(run, store.Tags{"k": "2", "new": "y"})
		c.eq("tags", c.get(id).Tags, store.Tags{"k": "2", "new": "y"})
		c.finds("by the old value", with("k", "1"))
		c.finds("by a tag that is gone", with("old", "x"))
		c.finds("by the new value", with("k", "2"), id)
		c.commit(store.Commit{Lease: run.Lease, Tags: store.Tags{}, Steps: []store.StepRecord{step(2, "b", "")}})
		c.eq("tags that are removed", c.get(id).Tags, store.Tags(nil))
		c.finds("by a value that was removed", with("k", "2"))
		c.commit(store.Commit{Lease: run.Lease, Tags: store.Tags{"k": "3"}, Transition: complete("out")})
		c.eq("tags of the end", c.get(id).Tags, store.Tags{"k": "3"})
		c.finds("a final run", with("k", "3"), id)
	}},
	{"tag/with-transitions", "P26", "tags that come with a transition of any kind are set, and stay until they are replaced", func(c *C) {
		for i, t := range transitions() {
			run := c.start()
			want := store.Tags{"kind": t.Kind.String(), "n": fmt.Sprint(i)}
			c.commit(store.Commit{Lease: run.Lease, Tags: want, Transition: t})
			c.eq("tags after "+t.Kind.String(), c.get(run.Run.ID).Tags, want)
			c.finds("the run after "+t.Kind.String(), with("n", fmt.Sprint(i)), run.Run.ID)
			c.tryCancel(run.Run.ID)
			c.advance(time.Hour)
			for _, left := range c.claimAll(1) {
				c.end(left, cancelRun())
			}
			c.eq("tags at the end", c.get(run.Run.ID).Tags, want)
		}
	}},
	{"tag/refused-commit", "P2", "a commit without the lease, or one that is sent again, changes no tags", func(c *C) {
		run := c.startWith(store.NewRun{Tags: store.Tags{"k": "1"}})
		first := store.Commit{Lease: run.Lease, Seq: 1, Tags: store.Tags{"k": "2"}}
		c.commit(first)
		again := first
		again.Tags = store.Tags{"k": "3"}
		c.eq("Repeated", c.tryCommit(again).Repeated, true)
		gap := store.Commit{Lease: run.Lease, Seq: 5, Tags: store.Tags{"k": "4"}}
		c.check(c.tryCommit(gap).Err != nil, "a commit that follows missing ones: saw no error")
		c.force(run.Run.ID)
		c.lost("a commit of the lost lease", store.Commit{Lease: run.Lease, Seq: 2, Tags: store.Tags{"k": "5"}})
		c.eq("tags", c.get(run.Run.ID).Tags, store.Tags{"k": "2"})
		c.finds("runs with refused values", with("k", "1", "3", "4", "5"))
	}},
	{"tag/invalid", "P16", "tags beyond the bounds, and names and values that are none, are ErrInvalid; those at the bounds are stored", func(c *C) {
		most := store.Tags{}
		for i := range store.MaxTags {
			most[fmt.Sprintf("%0*d", store.MaxTagName, i)] = strings.Repeat("v", store.MaxTagValue-2) + fmt.Sprintf("%02d", i)
		}
		id := c.tagged(most)
		c.eq("tags at the bounds", c.get(id).Tags, most)
		for name, value := range most {
			c.finds("a tag at the bounds", with(name, value), id)
		}
		many := store.Tags{"one-more": "x"}
		for name, value := range most {
			many[name] = value
		}
		run := c.claim1()
		for what, tags := range map[string]store.Tags{
			"too many": many, "no name": {"": "x"}, "a long name": {strings.Repeat("n", store.MaxTagName+1): "x"}, "a name with =": {"a=b": "x"}, "a name with space": {"a b": "x"},
			"no value": {"k": ""}, "a long value": {"k": strings.Repeat("v", store.MaxTagValue+1)}, "a control character": {"k": "a\nb"}, "no UTF-8": {"k": "\xff"},
		} {
			c.fails("a run with "+what, c.creates(fill(store.NewRun{Tags: tags}))[0].Err, store.ErrInvalid)
			c.fails("a commit with "+what, c.tryCommit(store.Commit{Lease: run.Lease, Tags: tags}).Err, store.ErrInvalid)
			spawn := kid(1)
			spawn.Tags = tags
			c.fails("a child with "+what, c.tryCommit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{spawn}}).Err, store.ErrInvalid)
		}
		c.fails("a give back with tags", c.tryCommit(store.Commit{Lease: run.Lease, Pin: misfit(), Tags: store.Tags{}, Transition: giveBack()}).Err, store.ErrInvalid)
		values := make([]string, store.MaxTagValues+1)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		for what, m := range map[string]store.TagMatch{"no name": {}, "an empty value": {Name: "k", Values: []string{""}}, "too many values": {Name: "k", Values: values},
			"values and a prefix": {Name: "k", Values: []string{"a"}, Prefix: "a"}, "a prefix that is no text": {Name: "k", Prefix: "\xff"}} {
			_, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: store.RunFilter{Tags: []store.TagMatch{m}}})
			c.fails("List by a match with "+what, err, store.ErrInvalid)
			_, err = c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: store.RunFilter{Tags: []store.TagMatch{m}}})
			c.fails("Count by a match with "+what, err, store.ErrInvalid)
		}
	}},
}

var tagLists = []Case{
	{"tag/all-of", "P26", "a filter selects the runs that all of its matches select", func(c *C) {
		a, b, d := c.tagged(store.Tags{"x": "1", "y": "1"}), c.tagged(store.Tags{"x": "1", "y": "2"}), c.tagged(store.Tags{"y": "1"})
		both := func(x, y string) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{{Name: "x", Values: []string{x}}, {Name: "y", Values: []string{y}}}}
		}
		c.finds("x=1, y=1", both("1", "1"), a)
		c.finds("x=1, y=2", both("1", "2"), b)
		c.finds("x=2, y=1", both("2", "1"))
		c.finds("y=1", with("y", "1"), a, d)
	}},
	{"tag/any-of", "P26", "a match with several values selects runs with any of them, each once; one without values selects all that have the tag", func(c *C) {
		a, b, d, bare := c.tagged(store.Tags{"x": "1"}), c.tagged(store.Tags{"x": "2"}), c.tagged(store.Tags{"x": "3"}), c.tagged(store.Tags{"xx": "1"})
		c.finds("any of two", with("x", "3", "1"), a, d)
		c.finds("a value twice", with("x", "2", "2"), b)
		c.finds("any value", with("x"), a, b, d)
		c.finds("any value of a longer name", with("xx"), bare)
	}},
	{"tag/prefix", "P26", "a prefix selects values byte by byte, and takes no character for a pattern", func(c *C) {
		a, b, d, e := c.tagged(store.Tags{"x": "ab%c"}), c.tagged(store.Tags{"x": "ab_c"}), c.tagged(store.Tags{"x": "AB%c"}), c.tagged(store.Tags{"x": "äb"})
		like := func(prefix string) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{{Name: "x", Prefix: prefix}}}
		}
		c.finds("ab", like("ab"), a, b)
		c.finds("ab%", like("ab%"), a)
		c.finds("ab_", like("ab_"), b)
		c.finds("A", like("A"), d)
		c.finds("ä", like("ä"), e)
		c.finds("a longer one", like("ab%cd"))
		c.finds("with another tag", store.RunFilter{Tags: []store.TagMatch{{Name: "x", Prefix: "ab"}, {Name: "x", Values: []string{"ab_c"}}}}, b)
	}},
	{"tag/exact", "P26", "names and values are compared byte by byte", func(c *C) {
		a, b, d := c.tagged(store.Tags{"k": "v"}), c.tagged(store.Tags{"K": "v"}), c.tagged(store.Tags{"k": "V"})
		c.finds("k=v", with("k", "v"), a)
		c.finds("K=v", with("K", "v"), b)
		c.finds("k=V", with("k", "V"), d)
		c.finds("10 is not 1e1", with("k", "1e1"))
		n := c.tagged(store.Tags{"k": "10"})
		c.finds("10", with("k", "10"), n)
		c.finds("010", with("k", "010"))
	}},
	{"tag/beside-others", "P26", "a filter by tags and by anything else selects the runs that both select", func(c *C) {
		tags := store.Tags{"k": "v"}
		a := c.create(store.NewRun{Tags: tags, Queue: "q2"})
		c.advance(time.Second)
		b := c.create(store.NewRun{Tags: tags, ExternalID: "x"})
		c.advance(time.Second)
		d := c.tagged(tags)
		c.cancel(d)
		bare := c.create(store.NewRun{Queue: "q2"})
		f := func(set func(f *store.RunFilter)) store.RunFilter {
			f := with("k", "v")
			set(&f)
			return f
		}
		c.finds("with a queue", f(func(f *store.RunFilter) { f.Queue = "q2" }), a)
		c.finds("with a status", f(func(f *store.RunFilter) { f.Statuses = []store.Status{store.Canceled} }), d)
		c.finds("with two statuses", f(func(f *store.RunFilter) { f.Statuses = []store.Status{store.Canceled, store.Pending} }), a, b, d)
		c.finds("with an external id", f(func(f *store.RunFilter) { f.ExternalID = "x" }), b)
		c.finds("with an id", f(func(f *store.RunFilter) { f.IDPrefix = a.String() }), a)
		c.finds("with the id of a run without it", f(func(f *store.RunFilter) { f.IDPrefix = bare.String() }))
		c.finds("created after", f(func(f *store.RunFilter) { f.CreatedAfter = c.now.Add(-2 * time.Second) }), b, d)
		c.finds("created between", f(func(f *store.RunFilter) {
			f.CreatedAfter, f.CreatedBefore = c.now.Add(-2*time.Second), c.now
		}), b)
		c.finds("ended", f(func(f *store.RunFilter) { f.FinishedAfter = c.now.Add(-time.Second) }), d)
		c.eq("by end", c.listAll(store.ListParams{ByEnd: true, Filter: with("k", "v")}, nil), []store.ID{d})
	}},
	{"tag/pages", "P14", "pages of a list by tags contain each run once, in the order of creation in both directions, also runs of one moment", func(c *C) {
		var want []store.ID
		for i := range 30 {
			id := c.tagged(store.Tags{"k": fmt.Sprint(i % 3), "all": "x"})
			c.tagged(store.Tags{"k": "other"})
			if i%3 != 2 {
				want = append(want, id)
			}
			if i%4 == 0 {
				c.advance(time.Millisecond)
			}
		}
		rows := c.gets(want...)
		slices.SortFunc(rows, func(a, b store.Run) int {
			p := store.ListParams{}
			return p.PositionOf(&a).Compare(p.PositionOf(&b))
		})
		for i := range rows {
			want[i] = rows[i].ID
		}
		more := func() { c.tagged(store.Tags{"k": "2"}) }
		c.eq("the oldest first", c.listAll(store.ListParams{Filter: with("k", "0", "1"), OldestFirst: true, Limit: 7}, more), want)
		slices.Reverse(want)
		c.eq("the newest first", c.listAll(store.ListParams{Filter: with("k", "0", "1"), Limit: 4}, more), want)
		two := store.RunFilter{Tags: []store.TagMatch{{Name: "k", Values: []string{"0", "1"}}, {Name: "all", Values: []string{"x"}}}, Workflow: aWorkflow}
		c.eq("with other conditions", c.listAll(store.ListParams{Filter: two, Limit: 3, MaxScan: 5}, more), want)
		page := c.list(store.ListParams{Filter: with("k", "0"), Limit: 2})
		_, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: with("k", "1"), Limit: 2, Cursor: page.Next})
		c.fails("the cursor of another tag", err, store.ErrInvalid)
	}},
	{"tag/capped", "P18", "a list and a count by a value look only at the runs that have it, and at no more than MaxScan of them", func(c *C) {
		c.createN(50, store.NewRun{})
		for range 4 {
			c.tagged(store.Tags{"k": "v"})
		}
		c.createN(50, store.NewRun{})
		count := func(most int) (n int64, capped bool) {
			rows, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: with("k", "v"), MaxScan: most})
			c.ok("Count", err)
			for _, row := range rows {
				n, capped = n+row.Count, capped || row.Capped
			}
			return n, capped
		}
		n, capped := count(5)
		c.eq("the exact count", []any{n, capped}, []any{int64(4), false})
		n, capped = count(3)
		c.eq("the capped count", []any{n, capped}, []any{int64(3), true})
		c.eq("runs of one page", len(c.list(store.ListParams{Filter: with("k", "v"), MaxScan: 5}).Runs), 4)
	}},
	{"tag/namespaces", "P15", "tags of another namespace are not found", func(c *C) {
		a := c.tagged(store.Tags{"k": "v"})
		c.abroad(func() {
			c.finds("abroad", with("k", "v"))
			b := c.tagged(store.Tags{"k": "v"})
			c.finds("the run abroad", with("k", "v"), b)
		})
		c.finds("at home", with("k", "v"), a)
	}},
}

var tagLives = []Case{
	{"tag/restarted", "P26", "a run keeps its tags when it is paused, canceled and restarted", func(c *C) {
		tags := store.Tags{"k": "v"}
		id := c.tagged(tags)
		c.pause(id)
		c.eq("tags of a paused run", c.get(id).Tags, tags)
		c.cancel(id)
		c.eq("tags of a canceled run", c.get(id).Tags, tags)
		c.ok("Restart's item", c.tryRestart(id)[0].Err)
		c.eq("tags of a restarted run", c.get(id).Tags, tags)
		c.finds("the run", with("k", "v"), id)
	}},
	{"tag/forked", "P26", "a fork begins with the tags that the old run has, and each then has its own", func(c *C) {
		run := c.startWith(store.NewRun{Tags: store.Tags{"k": "1"}})
		c.commitTags(run, store.Tags{"k": "2"})
		fork := store.NewID()
		c.fork(store.ForkParams{ID: run.Run.ID, New: fork})
		c.eq("tags of the fork", c.get(fork).Tags, store.Tags{"k": "2"})
		c.finds("both", with("k", "2"), run.Run.ID, fork)
		c.commitTags(run, store.Tags{"k": "3"})
		c.finds("the fork", with("k", "2"), fork)
	}},
	{"tag/spawned", "P26", "children have the tags that they are spawned with, not those of their parent", func(c *C) {
		run := c.startWith(store.NewRun{Tags: store.Tags{"k": "parent"}})
		spawn := kids(3)
		spawn[0].Tags, spawn[2].Tags = store.Tags{"k": "a"}, store.Tags{"k": "b", "j": "c"}
		c.commit(store.Commit{Lease: run.Lease, Spawn: spawn})
		for i := range spawn {
			c.eq(fmt.Sprint("tags of child ", i), c.get(spawn[i].ID).Tags, spawn[i].Tags)
		}
		c.finds("a child", with("k", "b"), spawn[2].ID)
		c.finds("the parent", with("k", "parent"), run.Run.ID)
	}},
	{"tag/fired", "P26", "a run that a schedule starts has its tags", func(c *C) {
		at := c.now
		c.putSchedule(store.Schedule{Name: "s", Workflow: aWorkflow, Queue: aQueue, Spec: "@hourly", NextAt: at})
		r := fill(store.NewRun{Tags: store.Tags{"k": "v"}})
		_, err := c.s.Fire(c.ctx, store.FireParams{Namespace: c.ns, Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &r, Now: c.now})
		c.ok("Fire", err)
		c.eq("tags", c.get(r.ID).Tags, r.Tags)
		c.finds("the run", with("k", "v"), r.ID)
	}},
	{"tag/purged", "P26", "a purge deletes tags with their run, and leaves those of others", func(c *C) {
		old, kept := c.tagged(store.Tags{"k": "v", "j": "w"}), c.tagged(store.Tags{"k": "v"})
		c.cancel(old)
		c.advance(time.Hour)
		c.eq("purged", c.purge(store.PurgeParams{}), 1)
		c.finds("the other run", with("k", "v"), kept)
		c.finds("by a tag of the purged one", with("j", "w"))
		again := c.create(store.NewRun{ID: old})
		c.eq("tags of a new run with the ID", c.get(again).Tags, store.Tags(nil))
	}},
	{"tag/imported", "P26", "an imported run has the tags of its record", func(c *C) {
		c.importer(c.s)
		for _, status := range []store.Status{store.Completed, store.Sleeping} {
			rec := c.aRecord(status)
			rec.Run.Tags = store.Tags{"k": status.String()}
			c.eq("created", c.imports(rec), true)
			c.eq("tags", c.get(rec.Run.ID).Tags, rec.Run.Tags)
			c.finds("the run", with("k", status.String()), rec.Run.ID)
		}
	}},
	{"tag/at-once", "P3", "a reader sees the tags of before or those of after, on the run and in the list", func(c *C) {
		run := c.startWith(store.NewRun{Tags: store.Tags{"a": "0", "b": "0"}})
		done := make(chan struct{})
		both := store.RunFilter{Tags: []store.TagMatch{{Name: "a", Values: []string{"0", "1"}}, {Name: "b", Values: []string{"0", "1"}}}}
		go func() {
			defer close(done)
			for i := range 20 {
				v := fmt.Sprint((i + 1) % 2)
				_, err := c.s2.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Now: c.now, Commits: []store.Commit{{Lease: run.Lease, Seq: int64(i + 1), Tags: store.Tags{"a": v, "b": v}}}})
				if err != nil {
					c.Errorf("Commit: %v", err)
					return
				}
			}
		}()
		for more := true; more; {
			select {
			case <-done:
				more = false
			default:
			}
			page := c.list(store.ListParams{Filter: both})
			c.eq("runs", len(page.Runs), 1)
			for _, r := range page.Runs {
				c.eq("tags that changed together", r.Tags["a"], r.Tags["b"])
			}
		}
	}},
}

// taggedAside creates two runs with a tag of their own, and returns a call that looks for them.
func (c *C) taggedAside(look func(f store.RunFilter)) func() {
	value := store.NewID().String()
	for range 2 {
		c.create(store.NewRun{Queue: "tagged", After: 500 * time.Hour, Tags: store.Tags{"probe": value}})
	}
	f := with("probe", value, "none")
	return func() { look(f) }
}
