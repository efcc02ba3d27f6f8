package exec

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Pauses between checks for ended children, whose ends send no event.
const (
	lookSoon = 5 * time.Millisecond
	lookMax  = 250 * time.Millisecond
)

// children manages the child runs of a run: the run's goroutines spawn, read and cancel
// them. Their counts are in the inbox.
type children struct {
	inv *Invocation

	// A child's end is an event only for a run that sleeps. While any other run waits for
	// children, a goroutine checks for their ends.
	watching bool
	pause    time.Duration // until its next check
}

// spawnLocked adds a child to the next commit. The caller has appended its record, which
// goes into the same commit.
func (c *children) spawnLocked(r store.NewRun) {
	inv := c.inv
	if inv.cfg.Meta != nil {
		r.Meta = inv.cfg.Meta(inv.ctx)
	}
	inv.outbox.spawn(r)
}

// outputOf reads the output of a completed child again.
func (c *children) outputOf(id store.ID) []byte {
	inv := c.inv
	var runs []store.Run
	inv.ask("the output of a child", func(ctx context.Context, st store.Store, ns string) (err error) {
		runs, err = st.Get(ctx, store.GetParams{Namespace: ns, IDs: []store.ID{id}, FinalOnly: true, NoInput: true})
		return err
	})
	if len(runs) == 0 || runs[0].Status != store.Completed {
		inv.fail(purged(id))
	}
	return runs[0].Output
}

func purged(id store.ID) *store.Failure {
	return &store.Failure{Code: CodeError, Message: fmt.Sprintf("replaying this run reads the large output of child %s from the child again, but the child no longer exists: it was purged after this run, or the run that it was forked from, had ended", id)}
}

// watchLocked ensures that the ends of children are checked soon.
func (c *children) watchLocked() {
	c.pause = lookSoon
	if !c.watching {
		c.watching = true
		go c.watch()
	}
}

func (c *children) watch() {
	inv := c.inv
	for {
		var pause time.Duration
		inv.locked(func() {
			pause = c.pause
			c.pause = min(2*pause, lookMax)
		})
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-inv.ending.done:
			timer.Stop()
			return
		}
		on, awake := false, false
		inv.locked(func() {
			on = inv.presence.waitsForChildren() && !inv.ending.closed
			c.watching, awake = on, inv.presence.awake()
		})
		if !on {
			return
		}
		if awake {
			inv.lookAtInbox()
		}
	}
}

// openStatuses are the statuses of runs that a cancel may still affect.
var openStatuses = []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused}

// cancelOpen cancels the children of some groups that are not final, except those that
// may outlive their parent.
func (c *children) cancelOpen(reason string, groups ...string) {
	inv := c.inv
	c.each(openStatuses, func(page []store.Run) bool {
		var ids []store.ID
		for i := range page {
			for _, g := range groups {
				if page[i].Group == g && page[i].OnClose == store.CloseCancel {
					ids = append(ids, page[i].ID)
				}
			}
		}
		if len(ids) > 0 {
			inv.ask("a cancel of children", func(ctx context.Context, st store.Store, ns string) error {
				results, err := st.Cancel(ctx, store.CancelParams{Namespace: ns, IDs: ids, Reason: reason})
				if inv.cfg.Ended != nil {
					for i := range results {
						inv.cfg.Ended(results[i].Ended)
					}
				}
				return err
			})
		}
		return true
	})
}

// each pages through the run's children with some statuses until fn returns false. It
// does not read their outputs.
func (c *children) each(statuses []store.Status, fn func(page []store.Run) bool) {
	inv := c.inv
	for cursor := ""; ; {
		var page store.RunPage
		inv.ask("the run's children", func(ctx context.Context, st store.Store, ns string) (err error) {
			page, err = st.List(ctx, store.ListParams{
				Namespace: ns, Filter: store.RunFilter{Parent: inv.run.ID, Statuses: statuses}, OldestFirst: true, Cursor: cursor, Limit: store.MaxPage,
			})
			return err
		})
		if !fn(page.Runs) || page.Next == "" {
			return
		}
		cursor = page.Next
	}
}

// groupsOf records the groups of children named by steps.
func groupsOf(steps []store.Step, known map[string]bool) {
	for i := range steps {
		switch steps[i].Kind {
		case store.KindChild, store.KindMap, store.KindGenerator:
			var note struct{ Group string }
			if readNote(steps[i].Output, &note) == nil {
				known[note.Group] = true
			}
		}
	}
}

// cancelForgotten cancels the children of steps that an earlier attempt of the run has
// forgotten; others are started in their place. It is called before the code begins.
func (c *children) cancelForgotten() {
	inv := c.inv
	open := c.openGroups()
	if len(open) == 0 {
		return
	}
	known := map[string]bool{}
	after, more := int64(0), false
	inv.locked(func() {
		for _, line := range inv.history.branches {
			groupsOf(line, known)
		}
		after, more = inv.history.readTo, inv.history.more
	})
	for more {
		page := inv.stepsAfter(after)
		groupsOf(page.Steps, known)
		after, more = page.Next, page.Next != 0
	}
	var forgotten []string
	for _, name := range open {
		if !known[name] {
			forgotten = append(forgotten, name)
		}
	}
	if len(forgotten) > 0 {
		c.cancelOpen("the step that started it was forgotten when its parent was tried again", forgotten...)
	}
}

// openGroups returns the names of all groups with children that are not final.
func (c *children) openGroups() (open []string) {
	inv := c.inv
	last, cut := "", false
	inv.locked(func() {
		for name, g := range inv.inbox.groups {
			last = max(last, name)
			if g.Open > 0 {
				open = append(open, name)
			}
		}
		cut = inv.inbox.groupsCut
	})
	for cut {
		var box store.Inbox
		inv.ask("the groups of the run's children", func(ctx context.Context, st store.Store, ns string) (err error) {
			box, err = st.Inbox(ctx, store.InboxParams{Namespace: ns, Run: inv.run.ID, After: store.NoSignals, NoState: true, AfterGroup: last})
			return err
		})
		for _, g := range box.Groups {
			last = g.Name
			if g.Open > 0 {
				open = append(open, g.Name)
			}
		}
		cut = box.MoreGroups
	}
	return open
}
