package exec

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// What is recorded of a run is read as its code comes to it, in pages, and what it has
// come to is forgotten: a long history takes no more memory than a short one.

// addStepsLocked takes in recorded steps, in the order of their positions; more: others
// follow.
func (inv *Invocation) addStepsLocked(steps []store.Step, more bool) {
	inv.moreSteps = more
	if len(steps) == 0 {
		return
	}
	if inv.recorded == nil {
		inv.recorded = make(map[string][]store.Step)
	}
	for _, s := range steps {
		if s.Kind == store.KindSignal && s.Status == store.StepFailed {
			if bad := recordedBad(&s); bad.Signal != nil {
				inv.passOverLocked(*bad.Signal)
			}
		}
		line := inv.recorded[s.Branch]
		for len(line) <= s.Index {
			line = append(line, store.Step{})
		}
		line[s.Index] = s
		inv.recorded[s.Branch] = line
	}
	inv.loadedTo = steps[len(steps)-1].Position
	inv.nextPos = max(inv.nextPos, inv.loadedTo+1)
}

// recordedLocked returns what the history has of an operation of the branch; nil:
// nothing. It gives up the lock while it reads.
func (b *Branch) recordedLocked(index int) *store.Step {
	inv := b.inv
	for {
		if line := inv.recorded[b.path]; index < len(line) && line[index].Name != "" {
			s := line[index]
			return &s
		}
		if !inv.moreSteps {
			return nil
		}
		inv.loadStepsLocked()
	}
}

// visitedLocked forgets what an operation of the branch has recorded, but for its name.
func (b *Branch) visitedLocked(index int) {
	s := &b.inv.recorded[b.path][index]
	s.Output, s.Failure = nil, nil
}

// unvisitedLocked returns the first recorded step that the branch has not come to. It
// gives up the lock while it reads.
func (b *Branch) unvisitedLocked() (store.StepKey, bool) {
	for {
		line := b.inv.recorded[b.path]
		for i := b.next; i < len(line); i++ {
			if line[i].Name != "" {
				return line[i].StepKey, true
			}
		}
		if !b.inv.moreSteps {
			return store.StepKey{}, false
		}
		b.inv.loadStepsLocked()
	}
}

// loadStepsLocked reads the next page of the history, or waits until another goroutine
// has read it. It ends the calling goroutine when the invocation was closed meanwhile.
func (inv *Invocation) loadStepsLocked() {
	if inv.loading {
		for inv.loading {
			inv.durable.Wait()
			inv.exitIfClosedLocked()
		}
		return
	}
	inv.loading = true
	after := inv.loadedTo
	inv.mu.Unlock()
	page := inv.stepsAfter(after)
	inv.mu.Lock()
	inv.loading = false
	inv.durable.Broadcast()
	inv.exitIfClosedLocked()
	inv.addStepsLocked(page.Steps, page.More)
}

// stepsAfter reads a page of the history on a goroutine of the run.
func (inv *Invocation) stepsAfter(position int64) (page store.StepPage) {
	inv.ask("the run's steps", func(ctx context.Context, st store.Store, ns string) (err error) {
		page, err = st.Steps(ctx, store.StepsParams{Namespace: ns, Run: inv.run.ID, After: position, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes})
		return err
	})
	return page
}

// groupsOf notes the groups of children that steps tell of.
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

// cancelForgotten cancels the children of steps that an attempt of the run before
// this one has forgotten: others are started in their place. It is called before the
// code begins.
func (inv *Invocation) cancelForgotten() {
	open := inv.openGroups()
	if len(open) == 0 {
		return
	}
	known := map[string]bool{}
	inv.mu.Lock()
	for _, line := range inv.recorded {
		groupsOf(line, known)
	}
	after, more := inv.loadedTo, inv.moreSteps
	inv.mu.Unlock()
	for more {
		page := inv.stepsAfter(after)
		groupsOf(page.Steps, known)
		if more = page.More; more {
			after = page.Steps[len(page.Steps)-1].Position
		}
	}
	var forgotten []string
	for _, name := range open {
		if !known[name] {
			forgotten = append(forgotten, name)
		}
	}
	if len(forgotten) > 0 {
		inv.cancelOpen("the step that started it was forgotten when its parent was tried again", forgotten...)
	}
}

// openGroups returns the names of all groups with children that are not final.
func (inv *Invocation) openGroups() (open []string) {
	last, cut := "", false
	inv.mu.Lock()
	for name, g := range inv.groups {
		last = max(last, name)
		if g.Open > 0 {
			open = append(open, name)
		}
	}
	cut = inv.groupsCut
	inv.mu.Unlock()
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
