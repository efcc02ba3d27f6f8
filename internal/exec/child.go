package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/store"
)

// Failure codes of steps with children.
const (
	// CodeRestarted is the failure of a child that failed or was canceled, and was
	// restarted before its parent had read why: what it does now counts no more.
	CodeRestarted = "restarted"
	// CodeItems is the failure of a map or generator step too many of whose items
	// have failed.
	CodeItems = "items-failed"
)

// largeNote is when results are left with the children, who keep them for as long
// as their parent is not final.
const largeNote = 64 << 10

// Pauses between looks at children whose ends nobody tells.
const (
	lookSoon = 5 * time.Millisecond
	lookMax  = 250 * time.Millisecond
)

// ChildOptions say how a child is started.
type ChildOptions struct {
	Workflow, Queue string
	Priority        int
	Delay, Timeout  time.Duration
	OnClose         store.ClosePolicy
	Detached        bool // nobody waits for it
}

// ChildNote is what the record of a child step holds, as JSON. Once the child is
// final, Status says how it ended, and the record's Failure why.
type ChildNote struct {
	Run      store.ID      `json:"run"`
	Workflow string        `json:"workflow"`
	Group    string        `json:"group,omitempty"`
	Status   *store.Status `json:"status,omitempty"`
	Output   *Payload      `json:"output,omitempty"`
	// Apart says that the output is read from the child again: it is large.
	Apart bool `json:"apart,omitempty"`
}

// ChildEnd is how a child ended.
type ChildEnd struct {
	Status  store.Status
	Output  []byte
	Failure *store.Failure
}

// Child is a child run that a branch has started.
type Child struct {
	op      *op
	opts    ChildOptions
	input   []byte
	note    ChildNote
	spawned int64     // records that must be durable before counts tell of the child
	end     *ChildEnd // nil while it is not known
}

// ID is the child's.
func (c *Child) ID() store.ID {
	c.op.b.inv.mu.Lock()
	defer c.op.b.inv.mu.Unlock()
	return c.note.Run
}

// groupLocked names the group of the children that a step spawns now. A step that
// is forgotten and done anew has another epoch, and makes another group and other
// children; a step that goes on keeps to what its record says.
func (o *op) groupLocked() string {
	name := o.key.Name
	if len(name) > 200 {
		for name = name[:200]; !utf8.ValidString(name); {
			name = name[:len(name)-1]
		}
		name = strings.TrimSpace(name)
	}
	return fmt.Sprintf("%s~%d.%d", name, o.b.inv.lease.Epoch, o.position)
}

// spawnLocked adds a child to what the next commit carries. The record that tells
// of it has been appended, and is in the same commit.
func (inv *Invocation) spawnLocked(r store.NewRun) {
	if inv.cfg.Meta != nil {
		r.Meta = inv.cfg.Meta(inv.ctx)
	}
	inv.spawn = append(inv.spawn, r)
	inv.unsent += r.Size()
}

// StartChild starts a child run, unless the history has it.
func (b *Branch) StartChild(name string, opts ChildOptions, input []byte) (*Child, error) {
	inv := b.inv
	if err := inv.checkSize("the input of child "+name, input); err != nil {
		return nil, err
	}
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindChild, name)
	if err != nil {
		inv.mu.Unlock()
		return nil, err
	}
	c := &Child{op: o, opts: opts, input: input}
	s := o.recorded
	if s == nil {
		inv.makeRoomLocked(len(input))
		c.spawnLocked()
		o.endLocked()
		inv.mu.Unlock()
		return c, nil
	}
	if err := readNote(s.Output, &c.note); err != nil || c.note.Workflow != opts.Workflow || opts.Detached != (c.note.Group == "") {
		inv.failLocked(nondeterministic(inv, "child %s was recorded as %s, and the code now asks for workflow %q", o.key, clipNote(s.Output), opts.Workflow))
		inv.exitIfClosedLocked()
	}
	inv.mu.Unlock()
	switch {
	case s.Status.Final():
		c.recall(s)
	case inv.group(c.note.Group).Canceled > 0:
		c.read() // it may have been canceled with this run, before that was restarted
	}
	inv.mu.Lock()
	o.endLocked()
	inv.mu.Unlock()
	return c, nil
}

// spawnLocked makes the child and its record.
func (c *Child) spawnLocked() {
	o, inv := c.op, c.op.b.inv
	group := o.groupLocked()
	c.note = ChildNote{Run: store.DeriveID(inv.run.ID, group), Workflow: c.opts.Workflow}
	r := store.NewRun{
		ID: c.note.Run, Workflow: c.opts.Workflow, Queue: c.opts.Queue, Input: c.input, Priority: c.opts.Priority,
		After: c.opts.Delay, Timeout: c.opts.Timeout, OnClose: c.opts.OnClose,
	}
	status := store.StepCompleted
	if !c.opts.Detached {
		c.note.Group, r.Group, r.Ordinal = group, group, 1
		status = store.StepRunning
	}
	rec := o.since(status)
	rec.Output = writeNote(c.note)
	inv.appendLocked(rec, time.Time{})
	inv.spawnLocked(r)
	c.spawned = inv.appended
	inv.lingerLocked()
}

// recall makes a final record the child's end.
func (c *Child) recall(s *store.Step) {
	end := &ChildEnd{Status: store.Completed, Failure: s.Failure}
	if c.note.Status != nil {
		end.Status = *c.note.Status
	}
	switch {
	case c.note.Apart:
		end.Output = c.op.b.inv.outputOf(c.note.Run)
	case c.note.Output != nil:
		end.Output = c.note.Output.Bytes()
	}
	c.op.b.inv.mu.Lock()
	c.end = end
	c.op.b.inv.mu.Unlock()
}

// AwaitChild waits until the child is final and returns how it ended, which is
// recorded.
func (b *Branch) AwaitChild(c *Child) (*ChildEnd, error) {
	inv := b.inv
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	if c.op.b.inv != inv {
		inv.mu.Unlock()
		return nil, store.Invalid("child", "it was started by another run, or before this one left memory; start it and wait for it in one pass of the workflow's function")
	}
	if c.opts.Detached {
		inv.mu.Unlock()
		return nil, store.Invalid("child "+c.op.key.String(), "it is detached: nobody can wait for it")
	}
	if b.active != "" {
		inv.mu.Unlock()
		return nil, fmt.Errorf("%w: %s waits for child %s while %q is still running; use workflow.Go or a Group for what is concurrent", ErrConcurrent, b.describe(), c.op.key, b.active)
	}
	b.active = c.op.key.Name
	var err error
	inv.seekGroupLocked(c.note.Group)
	for c.end == nil && err == nil {
		if g, known := inv.countsLocked(c.note.Group, c.spawned); known && g.Total > 0 && g.Open == 0 {
			inv.mu.Unlock()
			c.read()
			inv.mu.Lock()
			inv.exitIfClosedLocked()
			if c.end == nil && (inv.canceling || inv.expired) {
				err = inv.interruptionLocked()
			}
			continue
		}
		err = b.waitLocked(&wait{await: []store.Await{{Group: c.note.Group}}, spawned: c.spawned})
	}
	b.active = ""
	end := c.end
	inv.mu.Unlock()
	if end == nil {
		return nil, err
	}
	return end, nil
}

// read takes in what became of a child that is final, and records it. A child that
// was canceled with this run is started anew: this run has been restarted since.
func (c *Child) read() {
	inv := c.op.b.inv
	inv.mu.Lock()
	id, group := c.note.Run, c.note.Group
	inv.mu.Unlock()
	var runs []store.Run
	inv.ask("the end of a child", func(ctx context.Context, st store.Store, ns string) (err error) {
		runs, err = st.Get(ctx, store.GetParams{Namespace: ns, IDs: []store.ID{id}, FinalOnly: true, NoInput: true})
		return err
	})
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	inv.makeRoomLocked(largeNote)
	if c.end == nil && c.note.Run == id { // else another branch was quicker
		c.endLocked(runs, group)
	}
	inv.mu.Unlock()
}

func (c *Child) endLocked(runs []store.Run, group string) {
	o, inv := c.op, c.op.b.inv
	end := &ChildEnd{Status: store.Failed, Failure: restarted(c.note.Run)}
	if g := inv.groups[group]; g.Canceled > 0 {
		end.Status = store.Canceled
	}
	if len(runs) > 0 {
		run := &runs[0]
		end = &ChildEnd{Status: run.Status, Output: run.Output, Failure: run.Failure}
	}
	if withParent(end.Status, end.Failure) {
		if !inv.canceling && !inv.expired {
			c.spawnLocked()
		}
		return
	}
	c.end = end
	c.note.Status = &end.Status
	rec := o.since(store.StepCompleted)
	if end.Status != store.Completed {
		rec.Status, rec.Failure = store.StepFailed, end.Failure
		if rec.Failure == nil {
			rec.Failure = &store.Failure{Code: CodeError, Message: "no reason was recorded"}
		}
	} else if len(end.Output) > min(largeNote, inv.cfg.PayloadLimit/2) {
		c.note.Apart = true
	} else {
		c.note.Output = NewPayload(end.Output)
	}
	rec.Output = writeNote(c.note)
	inv.appendLocked(rec, time.Time{})
	inv.lingerLocked()
}

func restarted(id store.ID) *store.Failure {
	return &store.Failure{Code: CodeRestarted, Message: fmt.Sprintf("child %s has failed or was canceled, and was restarted before its parent had read why; what it does now counts no more", id)}
}

// withParent reports whether a run was canceled because its parent was.
func withParent(s store.Status, f *store.Failure) bool {
	return s == store.Canceled && f != nil && f.Code == store.FailureCanceled && f.Message == store.CanceledWithParent
}

// outputOf reads the output of a completed child again.
func (inv *Invocation) outputOf(id store.ID) []byte {
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
	return &store.Failure{Code: CodeError, Message: fmt.Sprintf("the output of child %s is read again when this run is replayed, for it is large; the child does not exist any more: it was purged after this run, or the run that this one was forked from, had ended", id)}
}

// ask makes a call of the store on a goroutine of the run. When the run has been
// closed meanwhile, or the store refuses, it ends the goroutine.
func (inv *Invocation) ask(what string, call func(ctx context.Context, st store.Store, namespace string) error) {
	err := inv.host.Ask(inv, what, call)
	if err == nil {
		return
	}
	if err != ErrShutdown {
		inv.SetAside(err)
	}
	inv.Lose() // unless it has ended
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	inv.mu.Unlock()
	exit()
}

// fail fails the run and ends the goroutine.
func (inv *Invocation) fail(f *store.Failure) {
	inv.mu.Lock()
	inv.failLocked(f)
	inv.exitIfClosedLocked()
}

func (inv *Invocation) group(name string) store.Group {
	inv.mu.Lock()
	inv.seekGroupLocked(name)
	defer inv.mu.Unlock()
	return inv.groups[name]
}

// countsLocked returns the counts of a group, and whether they tell of all children
// whose records were among the first so many.
func (inv *Invocation) countsLocked(group string, spawned int64) (g store.Group, known bool) {
	g, read := inv.groups[group]
	return g, inv.groupsAt >= spawned && (read || !inv.groupsCut)
}

// metLocked reports whether a group that a goroutine waits for has come far enough.
func (inv *Invocation) metLocked(w *wait) bool {
	for _, a := range w.await {
		g, known := inv.countsLocked(a.Group, w.spawned)
		if known && (g.Open <= a.Open || a.Failures > 0 && g.Failed+g.Canceled >= a.Failures) {
			return true
		}
	}
	return false
}

// watchLocked sees to it that somebody looks for the ends of children while the run
// is kept awake: a child's end is no event of a run that does not sleep.
func (inv *Invocation) watchLocked() {
	inv.watchWait = lookSoon
	if !inv.watching {
		inv.watching = true
		go inv.watch()
	}
}

func (inv *Invocation) watch() {
	for {
		inv.mu.Lock()
		wait := inv.watchWait
		inv.watchWait = min(2*wait, lookMax)
		inv.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-inv.done:
			timer.Stop()
			return
		}
		inv.mu.Lock()
		waits := false
		for w := range inv.waits {
			waits = waits || len(w.await) > 0
		}
		if !waits || inv.closed {
			inv.watching = false
			inv.mu.Unlock()
			return
		}
		awake := inv.blocked < inv.live || inv.pinned > 0
		inv.mu.Unlock()
		if awake {
			inv.lookAtInbox()
		}
	}
}

// openStatuses are those of runs that a cancel may still reach.
var openStatuses = []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused}

// cancelOpen cancels the children of some groups that are not final, but for those
// that are to outlive their parent.
func (inv *Invocation) cancelOpen(reason string, groups ...string) {
	inv.eachChild(openStatuses, func(page []store.Run) bool {
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

// eachChild pages through the run's children of some statuses until fn returns
// false. Their outputs are left out.
func (inv *Invocation) eachChild(statuses []store.Status, fn func(page []store.Run) bool) {
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

var errNoNote = errors.New("nothing is recorded")
