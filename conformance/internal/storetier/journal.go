package storetier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// journal returns the store's Journal, or skips the case.
func (c *C) journal() store.Journal {
	c.Helper()
	j, ok := c.s.(store.Journal)
	if !ok {
		c.Skip("the backend keeps no journal of actions")
	}
	return j
}

func (c *C) act(j store.Journal, actions ...store.Action) {
	c.Helper()
	c.ok("Record", j.Record(c.ctx, store.RecordParams{Namespace: c.ns, Actions: actions, Now: c.now}))
}

// actions follows the cursors of a listing to its end.
func (c *C) actions(j store.Journal, p store.ListActionsParams) []store.Action {
	c.Helper()
	list := []store.Action{}
	for p.Namespace = c.ns; ; {
		page, err := j.ListActions(c.ctx, p)
		c.ok("ListActions", err)
		list = append(list, page.Actions...)
		if p.Cursor = page.Next; p.Cursor == "" {
			return list
		}
	}
}

var journalCases = []Case{
	{"journal/record-and-list", "P15", "recorded actions are returned unchanged, with the store's time, newest first, by run and by actor; those of other namespaces are not", func(c *C) {
		j := c.journal()
		run := c.create(store.NewRun{})
		a := store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "cancel", Target: "run " + run.String(), Run: run, Details: "ordered \"twice\"\n\\é\u009b"}
		b := store.Action{ID: store.NewID(), Actor: "Ada@web", Verb: "pause", Target: "queue mail"}
		c.act(j, a)
		a.At = c.now
		c.advance(time.Second)
		c.act(j, b)
		b.At = c.now
		other := store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "cancel", Run: run}
		c.ok("Record elsewhere", j.Record(c.ctx, store.RecordParams{Namespace: c.ns + "/other", Actions: []store.Action{other}, Now: c.now}))
		c.eq("all", c.actions(j, store.ListActionsParams{}), []store.Action{b, a})
		c.eq("of the run", c.actions(j, store.ListActionsParams{Run: run}), []store.Action{a})
		c.eq("of another", c.actions(j, store.ListActionsParams{Run: store.NewID()}), []store.Action{})
		c.eq("of one actor", c.actions(j, store.ListActionsParams{Actor: "Ada@web"}), []store.Action{b})
		c.tryCancel(run)
		c.advance(time.Hour)
		c.eq("purged", c.purge(store.PurgeParams{}), 1)
		c.eq("of the run when it is purged", c.actions(j, store.ListActionsParams{Run: run}), []store.Action{a})
	}},
	{"journal/repeat", "P4", "an action that is recorded again is one action, as first recorded", func(c *C) {
		j := c.journal()
		a := store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "cancel", Target: "x"}
		c.act(j, a, a)
		a.At = c.now
		c.advance(time.Second)
		again := a
		again.Verb = "pause"
		c.act(j, again)
		c.eq("actions", c.actions(j, store.ListActionsParams{}), []store.Action{a})
	}},
	{"journal/pages", "P14", "the pages of a listing contain every action once, also those recorded at one moment", func(c *C) {
		j := c.journal()
		var want []store.ID
		for range 3 {
			var batch []store.Action
			for range 7 {
				batch = append(batch, store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "cancel"})
				want = append(want, batch[len(batch)-1].ID)
			}
			c.act(j, batch...)
			c.advance(time.Second)
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 4, 7, 20, 21, 22} {
			var got []store.ID
			for _, a := range c.actions(j, store.ListActionsParams{Limit: limit}) {
				got = append(got, a.ID)
			}
			c.eq(fmt.Sprintf("%d a page", limit), got, want)
		}
		page, err := j.ListActions(c.ctx, store.ListActionsParams{Namespace: c.ns, Limit: 2})
		c.ok("ListActions", err)
		_, err = j.ListActions(c.ctx, store.ListActionsParams{Namespace: c.ns, Actor: "ada@web", Cursor: page.Next})
		c.fails("the cursor of another query", err, store.ErrInvalid)
	}},
	{"journal/forgets", "P13", "the next record deletes actions older than KeepFor, and nothing else", func(c *C) {
		j := c.journal()
		a := store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "cancel"}
		b := store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "pause"}
		keep := func(d time.Duration) []string {
			c.ok("Record", j.Record(c.ctx, store.RecordParams{Namespace: c.ns, KeepFor: d, Now: c.now}))
			verbs := []string{}
			for _, a := range c.actions(j, store.ListActionsParams{}) {
				verbs = append(verbs, a.Verb)
			}
			return verbs
		}
		c.ok("Record elsewhere", j.Record(c.ctx, store.RecordParams{Namespace: c.ns + "/other", Actions: []store.Action{{ID: store.NewID(), Actor: "x", Verb: "y"}}, Now: c.now}))
		c.act(j, a)
		c.advance(time.Hour)
		c.act(j, b)
		c.eq("kept for ever", keep(0), []string{"pause", "cancel"})
		c.eq("kept for an hour", keep(time.Hour), []string{"pause", "cancel"})
		c.eq("kept for less", keep(time.Hour-time.Microsecond), []string{"pause"})
		page, err := j.ListActions(c.ctx, store.ListActionsParams{Namespace: c.ns + "/other"})
		c.ok("ListActions elsewhere", err)
		c.eq("of the other namespace", len(page.Actions), 1)
	}},
	{"journal/invalid", "P16", "actions without an ID, an actor or a verb, or with too much text, are refused, and nothing of their call is stored", func(c *C) {
		j := c.journal()
		good := store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "cancel"}
		for name, spoil := range map[string]func(*store.Action){
			"no id":         func(a *store.Action) { a.ID = store.ID{} },
			"no actor":      func(a *store.Action) { a.Actor = "" },
			"no verb":       func(a *store.Action) { a.Verb = "" },
			"no text":       func(a *store.Action) { a.Details = "\xff" },
			"a zero in it":  func(a *store.Action) { a.Target = "\x00" },
			"a line feed":   func(a *store.Action) { a.Actor = "ada\n" },
			"a long target": nil,
		} {
			bad := good
			bad.ID = store.NewID()
			want := store.ErrInvalid
			if spoil == nil {
				bad.Target, want = strings.Repeat("x", store.MaxDetails+1), store.ErrTooLarge
			} else {
				spoil(&bad)
			}
			c.fails("Record with "+name, j.Record(c.ctx, store.RecordParams{Namespace: c.ns, Actions: []store.Action{good, bad}, Now: c.now}), want)
		}
		c.eq("actions", c.actions(j, store.ListActionsParams{}), []store.Action{})
	}},
}
