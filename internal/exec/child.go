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
	// restarted before its parent had read the outcome. The parent ignores what it does
	// now.
	CodeRestarted = "restarted"
	// CodeItems is the failure of a map or generator step of which too many items have
	// failed.
	CodeItems = "items-failed"
)

// largeNote is the size from which results stay with the children, which are kept as long
// as their parent is not final.
const largeNote = 64 << 10

// ChildOptions configure the start of a child.
type ChildOptions struct {
	Workflow, Queue string // an empty queue is the one that workers have registered
	Priority        int
	Delay, Timeout  time.Duration
	OnClose         store.ClosePolicy
	Open            bool // its limits are those that workers have registered
	Detached        bool // the parent does not wait for it
	Tags            ChildTags
}

// ChildNote is the JSON content of the record of a child step. Once the child is final,
// Status is its status, and the record's Failure is the reason.
type ChildNote struct {
	Run      store.ID      `json:"run"`
	Workflow string        `json:"workflow"`
	Group    string        `json:"group,omitempty"`
	Status   *store.Status `json:"status,omitempty"`
	Output   *Payload      `json:"output,omitempty"`
	// Apart says that the output is large and is read from the child again.
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
	under   []store.LimitUse
	note    ChildNote
	spawned int64     // records that must be durable before the counts include the child
	end     *ChildEnd // nil while it is not known
}

// ID returns the child's id.
func (c *Child) ID() store.ID {
	c.op.b.inv.mu.Lock()
	defer c.op.b.inv.mu.Unlock()
	return c.note.Run
}

// groupLocked returns the group of the children that a step spawns now. A step that is
// forgotten and repeated has another epoch, and so another group and other children. A
// step that resumes uses the group in its record.
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

// StartChild starts a child run, unless the history contains it.
func (b *Branch) StartChild(name string, opts ChildOptions, input ChildInput) (*Child, error) {
	inv := b.inv
	if err := inv.checkSize("the input of child "+name, input.Data); err != nil {
		return nil, err
	}
	return durable(b, store.KindChild, name, nil, func(o *op) (*Child, error) {
		c := &Child{op: o, opts: opts, input: input.Data, under: input.Under}
		if o.recorded == nil {
			needs := inv.findCalleeLocked(opts.Workflow, &c.opts.Queue, opts.Open)
			c.under = inv.usesLocked("child "+name, opts.Workflow, opts.Open, needs, input.Under)
			inv.makeRoomLocked(len(input.Data))
			c.spawnLocked()
		} else {
			c.resumeLocked()
		}
		return c, nil
	})
}

// resumeLocked reads the record of the child.
func (c *Child) resumeLocked() {
	o, inv := c.op, c.op.b.inv
	s := o.recorded
	if err := readNote(s.Output, &c.note); err != nil || c.note.Workflow != c.opts.Workflow || c.opts.Detached != (c.note.Group == "") {
		inv.mismatchLocked(misfit{o.key.String(), fmt.Sprintf("workflow %q", c.opts.Workflow), clipNote(s.Output)}, "child %s was recorded as %s, but the code now asks for workflow %q", o.key, clipNote(s.Output), c.opts.Workflow)
	}
	if s.Status.Final() {
		inv.unlocked(func() { c.recall(s) })
		return
	}
	inv.seekGroupLocked(c.note.Group)
	if inv.inbox.groups[c.note.Group].Canceled > 0 {
		inv.unlocked(c.read) // the child may have been canceled with this run before the restart
	}
}

// spawnLocked creates the child and its record.
func (c *Child) spawnLocked() {
	o, inv := c.op, c.op.b.inv
	group := o.groupLocked()
	c.note = ChildNote{Run: store.DeriveID(inv.run.ID, group), Workflow: c.opts.Workflow}
	r := store.NewRun{
		ID: c.note.Run, Workflow: c.opts.Workflow, Queue: c.opts.Queue, Input: c.input, Priority: c.opts.Priority,
		After: c.opts.Delay, Timeout: c.opts.Timeout, OnClose: c.opts.OnClose, Under: c.under, Tags: inv.tagsOf(c.opts.Tags),
	}
	status := store.StepCompleted
	if !c.opts.Detached {
		c.note.Group, r.Group, r.Ordinal = group, group, 1
		status = store.StepRunning
	}
	rec := o.since(status)
	rec.Output = writeNote(c.note)
	o.appendLocked(rec)
	inv.children.spawnLocked(r)
	c.spawned = inv.outbox.appended
	inv.lingerLocked()
}

// recall sets the child's end from a final record.
func (c *Child) recall(s *store.Step) {
	end := &ChildEnd{Status: store.Completed, Failure: s.Failure}
	if c.note.Status != nil {
		end.Status = *c.note.Status
	}
	switch {
	case c.note.Apart:
		end.Output = c.op.b.inv.children.outputOf(c.note.Run)
	case c.note.Output != nil:
		end.Output = c.note.Output.Bytes()
	}
	c.op.b.inv.locked(func() { c.end = end })
}

// AwaitChild waits until the child is final, records how it ended, and returns that.
func (b *Branch) AwaitChild(c *Child) (*ChildEnd, error) {
	inv := b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	if c.op.b.inv != inv {
		return nil, store.Invalid("child", "the handle belongs to another run or to an earlier execution of this one; start the child and wait for it in the same execution of the workflow's function")
	}
	if c.opts.Detached {
		return nil, store.Invalid("child "+c.op.key.String(), "it is detached; a run cannot wait for a detached child")
	}
	if b.active != "" {
		return nil, fmt.Errorf("%w: %s waits for child %s while %q is still running; run concurrent operations in branches of their own, with workflow.Go or a Group", ErrConcurrent, b.describe(), c.op.key, b.active)
	}
	b.active = c.op.key.Name
	err := b.awaitChildLocked(c)
	b.active = ""
	if c.end == nil {
		return nil, err
	}
	return c.end, nil
}

func (b *Branch) awaitChildLocked(c *Child) error {
	inv := b.inv
	if c.end == nil {
		b.waitsTooEarlyLocked("the end of child " + c.op.key.String())
	}
	inv.seekGroupLocked(c.note.Group)
	for c.end == nil {
		g, known := inv.inbox.counts(c.note.Group, c.spawned)
		if !known || g.Total == 0 || g.Open > 0 {
			if err := b.waitLocked(&wait{await: []store.Await{{Group: c.note.Group}}, spawned: c.spawned}); err != nil {
				return err
			}
			continue
		}
		inv.unlocked(c.read)
		inv.exitIfClosedLocked()
		if c.end == nil && inv.interruption.any() {
			return inv.interruption.err()
		}
		inv.awaitFrontLocked(c.op.recorded == nil)
	}
	return nil
}

// read reads the outcome of a final child and records it. A child that was canceled with
// this run is started again, because this run has been restarted since.
func (c *Child) read() {
	inv := c.op.b.inv
	var id store.ID
	var group string
	inv.locked(func() { id, group = c.note.Run, c.note.Group })
	var runs []store.Run
	inv.ask("the end of a child", func(ctx context.Context, st store.Store, ns string) (err error) {
		runs, err = st.Get(ctx, store.GetParams{Namespace: ns, IDs: []store.ID{id}, FinalOnly: true, NoInput: true})
		return err
	})
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	inv.makeRoomLocked(largeNote)
	if c.end == nil && c.note.Run == id { // otherwise another branch was faster
		c.endLocked(runs, group)
	}
}

func (c *Child) endLocked(runs []store.Run, group string) {
	o, inv := c.op, c.op.b.inv
	end := &ChildEnd{Status: store.Failed, Failure: restarted(c.note.Run)}
	if g := inv.inbox.groups[group]; g.Canceled > 0 {
		end.Status = store.Canceled
	}
	if len(runs) > 0 {
		run := &runs[0]
		end = &ChildEnd{Status: run.Status, Output: run.Output, Failure: run.Failure}
	}
	if withParent(end.Status, end.Failure) {
		if !inv.interruption.any() {
			if c.opts.Queue == "" && len(runs) > 0 {
				c.opts.Queue = runs[0].Queue
			}
			if c.opts.Open && len(runs) > 0 {
				c.under = runs[0].Under
			}
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
	o.finishLocked(rec)
}

func restarted(id store.ID) *store.Failure {
	return &store.Failure{Code: CodeRestarted, Message: fmt.Sprintf("child %s failed or was canceled, and was restarted before its parent read the outcome; the parent ignores what it does now", id)}
}

// withParent reports whether a run was canceled because its parent was.
func withParent(s store.Status, f *store.Failure) bool {
	return s == store.Canceled && f != nil && f.Code == store.FailureCanceled && f.Message == store.CanceledWithParent
}

var errNoNote = errors.New("nothing is recorded")
