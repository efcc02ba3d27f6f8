package exec

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// AnyFailures lets every item of a step fail.
const AnyFailures = math.MaxInt64

// ItemOptions configure the items of a map or generator step.
type ItemOptions struct {
	Workflow, Queue string // an empty queue is the one that workers have registered
	Priority        int
	Timeout         time.Duration
	Open            bool // their limits are those that workers have registered
	Tags            ChildTags
	// AtOnce limits the items that are spawned and not final; 0 means no limit.
	AtOnce int64
	// Failures is how many items may fail or be canceled before the others are
	// canceled and the step fails.
	Failures int64
}

// GeneratorStatus is the progress of a generator.
type GeneratorStatus string

// The statuses of a generator.
const (
	GeneratorStarted  GeneratorStatus = "started"
	GeneratorComplete GeneratorStatus = "complete"
	GeneratorFailed   GeneratorStatus = "failed" // it gave up, or too many of its items failed
)

// ItemsNote is the JSON content of the record of a map or generator step.
type ItemsNote struct {
	Parent   store.ID        `json:"parent"` // whose children the items are
	Workflow string          `json:"workflow"`
	Group    string          `json:"group"`
	Status   GeneratorStatus `json:"generator_status,omitempty"`
	Failure  *store.Failure  `json:"generator_failure,omitempty"`
	Total    int64           `json:"total,omitempty"` // items of a map
	Spawned  int64           `json:"spawned"`
	Cursor   *Payload        `json:"cursor,omitempty"`

	// Set once the step is final:
	Completed int64        `json:"completed"`
	Failed    int64        `json:"failed"`
	Canceled  int64        `json:"canceled"`
	Failures  []FailedItem `json:"failures,omitempty"`
	Outputs   []*Payload   `json:"outputs,omitempty"`
	Result    *Payload     `json:"result,omitempty"`
	// Apart says that the outputs are large and are read from the items again.
	Apart bool `json:"apart,omitempty"`
}

// FailedItem is an item that failed or was canceled.
type FailedItem struct {
	Place   int64          `json:"place"` // from 1
	Run     store.ID       `json:"run"`
	Status  store.Status   `json:"status"`
	Failure *store.Failure `json:"failure,omitempty"`
}

// At most this many failed items are named, and only the first of them with this much of
// their failures' text. The rest is counted.
const (
	namedItems     = 1000
	explainedItems = 100
	explainedText  = 1 << 10
)

// ItemsEnd is how the items of a step ended.
type ItemsEnd struct {
	Key       store.StepKey
	Spawned   int64
	Completed int64
	Failed    int64
	Canceled  int64
	// Failures are the first failed items by place. If there are too many, items that
	// failed come before items that were canceled.
	Failures []FailedItem
	// ItemsFailed says that the step failed because of its items.
	ItemsFailed bool
	Attempts    int
	// Failure is why the step itself failed, apart from its items: the generator gave up,
	// or results could not be read.
	Failure *store.Failure
	Result  []byte
}

// itemStep is an executing step whose items are children.
type itemStep struct {
	op      *op
	opts    ItemOptions
	needs   []LimitNeed // of the items, if they are open
	note    ItemsNote
	spawned int64 // records that must be durable before the counts include all items
	open    int64 // items that are not final, at most
	checked int64 // canceled items that are known not to have been canceled together with the run
	tooMany bool
}

// items performs a map or generator step. replay returns the step's end from its record; it
// is called without the lock.
func (b *Branch) items(kind store.StepKind, name string, opts ItemOptions, total int64, replay func(s *itemStep) (*ItemsEnd, error), do func(s *itemStep) (*ItemsEnd, error)) (*ItemsEnd, error) {
	return durable(b, kind, name, nil, func(o *op) (end *ItemsEnd, err error) {
		s := &itemStep{op: o, opts: opts}
		if o.recorded == nil {
			s.renewLocked(kind, total)
			return do(s)
		}
		s.resumeLocked(total)
		if !o.recorded.Status.Final() {
			return do(s)
		}
		defer o.endLocked() // also when user code panics
		b.inv.unlocked(func() { end, err = replay(s) })
		return end, err
	})
}

// resumeLocked reads the step's record.
func (s *itemStep) resumeLocked(total int64) {
	o, inv := s.op, s.op.b.inv
	r := o.recorded
	if err := readNote(r.Output, &s.note); err != nil || s.note.Workflow != s.opts.Workflow || s.note.Total != total {
		inv.mismatchLocked(misfit{o.key.String(), fmt.Sprintf("%d items of workflow %q", total, s.opts.Workflow), clipNote(r.Output)}, "%s %s was recorded as %s, but the code now asks for %d items of workflow %q", o.kind, o.key, clipNote(r.Output), total, s.opts.Workflow)
	}
	if !r.Status.Final() {
		inv.seekGroupLocked(s.note.Group)
	}
	s.open = inv.inbox.groups[s.note.Group].Open
	if r.Status.Final() {
		o.attempt = r.Attempt
	}
}

// renewLocked creates the note of a step that has no items yet.
func (s *itemStep) renewLocked(kind store.StepKind, total int64) {
	o := s.op
	s.note = ItemsNote{Parent: o.b.inv.run.ID, Workflow: s.opts.Workflow, Group: o.groupLocked(), Total: total}
	if kind == store.KindGenerator {
		s.note.Status = GeneratorStarted
	}
	s.spawned, s.open, s.tooMany, s.checked = 0, 0, false, 0
}

// noteLocked appends a record of the step's current state.
func (s *itemStep) noteLocked(status store.StepStatus) {
	r := s.op.since(status)
	r.Output = writeNote(s.note)
	s.op.appendLocked(r)
}

// item creates the child of a place in the step. Its ID is derived from its key, if it
// has one, and otherwise from its place.
func (s *itemStep) item(place int64, key string, input ChildInput) store.NewRun {
	id := store.DeriveID(s.note.Parent, s.note.Group+"/key/"+key)
	if key == "" {
		id = store.DeriveIDAt(s.note.Parent, fmt.Sprintf("%s/%d", s.note.Group, place), place)
	}
	return store.NewRun{
		ID: id, Workflow: s.opts.Workflow, Queue: s.opts.Queue, Input: input.Data, Under: input.Under,
		Priority: s.opts.Priority, Timeout: s.opts.Timeout, Group: s.note.Group, Ordinal: place, Tags: s.op.b.inv.tagsOf(s.opts.Tags),
	}
}

// countsLocked returns the counts of the step's items, once they include all of them.
func (s *itemStep) countsLocked() (g store.Group, known bool) {
	if s.note.Spawned == 0 {
		return g, true
	}
	g, known = s.op.b.inv.inbox.counts(s.note.Group, s.spawned)
	if g.Total == 0 && s.op.b.inv.cfg.Check { // a history does not tell of items that are not final
		return g, false
	}
	if known {
		s.open = g.Open
	}
	return g, known
}

// awaitLocked returns what the step waits for: that at most open items are not final, or
// that too many have failed.
func (s *itemStep) awaitLocked(open int64) *wait {
	a := store.Await{Group: s.note.Group, Open: open}
	if !s.tooMany && s.opts.Failures < AnyFailures {
		a.Failures = s.opts.Failures + 1
	}
	return &wait{await: []store.Await{a}, spawned: s.spawned}
}

// judgeLocked checks the failures among the items. It reports whether items were canceled
// together with the run, which has been restarted since; then the step is repeated. When
// too many have failed, it cancels the rest. The lock is held, and released in between.
func (s *itemStep) judgeLocked(g store.Group) (anew bool) {
	inv := s.op.b.inv
	if g.Canceled > s.checked && !inv.interruption.any() {
		inv.unlocked(func() {
			inv.children.each([]store.Status{store.Canceled}, func(page []store.Run) bool {
				anew = slices.ContainsFunc(page, func(r store.Run) bool { return r.Group == s.note.Group && withParent(r.Status, r.Failure) })
				return !anew
			})
		})
		inv.exitIfClosedLocked()
		if anew {
			return true
		}
		s.checked = g.Canceled
	}
	if !s.tooMany && g.Failed+g.Canceled > s.opts.Failures {
		s.tooMany = true
	}
	return false
}

// cancelRestLocked cancels the items that are not final. It first makes durable what the
// step is about to spawn.
func (s *itemStep) cancelRestLocked(why string) {
	inv := s.op.b.inv
	inv.awaitFrontLocked(s.op.recorded == nil)
	inv.flushLocked()
	inv.unlocked(func() { inv.children.cancelOpen(why, s.note.Group) })
	inv.exitIfClosedLocked()
}

// drainLocked waits until all spawned items are final, and cancels the rest when the step
// has failed. It returns the counts by outcome; for anew, see judgeLocked.
func (s *itemStep) drainLocked() (g store.Group, anew bool, err error) {
	inv := s.op.b.inv
	canceled := false
	for err == nil {
		lost := s.note.Failure != nil && s.opts.Failures == 0
		g, known := s.countsLocked()
		if known {
			anew := s.judgeLocked(g)
			if g.Failed+g.Canceled > 0 && s.op.b.interruptedLocked() {
				return g, false, inv.interruption.err() // perhaps the cause
			}
			if anew {
				return g, true, nil
			}
			if g.Open == 0 {
				return g, false, nil
			}
		}
		if (s.tooMany || lost) && !canceled {
			why := "too many items of its step have failed"
			if lost {
				why = "the generator of its step has failed"
			}
			s.cancelRestLocked(why)
			canceled = true
			continue
		}
		w := s.awaitLocked(0)
		if lost {
			w.await[0].Failures = 0
		}
		inv.lingerLocked()
		err = s.op.b.waitLocked(w)
	}
	return g, false, err
}

// each pages through the items by their places and calls fn for each.
func (s *itemStep) each(fn func(run *store.Run)) {
	inv := s.op.b.inv
	read := func(p store.ChildrenParams) (page store.ChildPage, _ error) {
		inv.ask("the outputs of items", func(ctx context.Context, st store.Store, ns string) (err error) {
			p.Namespace = ns
			page, err = st.Children(ctx, p)
			return err
		})
		return page, nil // a failed ask ends the goroutine
	}
	_ = ChildPages(store.ChildrenParams{Parent: s.note.Parent, Group: s.note.Group}, read, func(run *store.Run) bool {
		fn(run)
		return true
	})
}

// failures returns the first items that did not complete.
func (s *itemStep) failures(g store.Group) (found []FailedItem) {
	for _, kind := range []struct {
		status store.Status
		n      int64
	}{{store.Failed, g.Failed}, {store.Canceled, g.Canceled}} {
		if kind.n == 0 || len(found) >= namedItems {
			continue
		}
		var some []FailedItem
		s.op.b.inv.children.each([]store.Status{kind.status}, func(page []store.Run) bool {
			for i := range page {
				if r := &page[i]; r.Group == s.note.Group {
					some = append(some, FailedItem{Place: r.Ordinal, Run: r.ID, Status: r.Status, Failure: brief(r.Failure)})
				}
			}
			return len(some) < 10*namedItems
		})
		slices.SortFunc(some, func(a, b FailedItem) int { return cmp.Compare(a.Place, b.Place) })
		found = append(found, some[:min(len(some), namedItems-len(found))]...)
	}
	for i := explainedItems; i < len(found); i++ {
		found[i].Failure = nil
	}
	return found
}

// brief shortens a failure for the record of another run.
func brief(f *store.Failure) *store.Failure {
	if f == nil {
		return nil
	}
	short := store.Failure{Code: f.Code, Message: f.Message, Type: f.Type, Permanent: f.Permanent}
	if len(short.Message) > explainedText {
		short.Message = strings.ToValidUTF8(short.Message[:explainedText], "") + " [cut]"
	}
	return &short
}

// cut shortens a text to at most n bytes.
func cut(s string, n int) string {
	const mark = " [cut]"
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len(mark)], "") + mark
}

// close records the step's end and returns it.
func (s *itemStep) close(g store.Group, failure *store.Failure) *ItemsEnd {
	inv := s.op.b.inv
	if s.note.Status != "" {
		s.note.Spawned = g.Total
	}
	s.note.Completed, s.note.Failed, s.note.Canceled = g.Completed, g.Failed, g.Canceled
	if g.Failed+g.Canceled > 0 && s.note.Failures == nil {
		s.note.Failures = s.failures(g)
	}
	status := store.StepCompleted
	if failure == nil && g.Failed+g.Canceled > 0 && (s.tooMany || s.opts.Failures == AnyFailures) {
		failure = s.itemsFailure(g)
	}
	r := s.op.since(status)
	if failure != nil {
		r.Status, r.Failure = store.StepFailed, failure
	}
	r.Output = writeNote(s.note)
	for len(r.Output) > inv.cfg.PayloadLimit && s.shrink() {
		r.Output = writeNote(s.note)
	}
	inv.locked(func() {
		inv.makeRoomLocked(r.Size())
		s.op.finishLocked(r)
	})
	return s.result(r.Failure)
}

// shrink makes the note smaller; it returns false if it cannot.
func (s *itemStep) shrink() bool {
	n := &s.note
	switch {
	case n.Outputs != nil:
		n.Outputs, n.Apart = nil, true
	case len(n.Failures) > 0:
		n.Failures = n.Failures[:len(n.Failures)/2]
	default:
		return false
	}
	return true
}

func (s *itemStep) itemsFailure(g store.Group) *store.Failure {
	msg := fmt.Sprintf("of %d items, %d failed and %d were canceled", g.Total, g.Failed, g.Canceled)
	if len(s.note.Failures) > 0 {
		f := s.note.Failures[0]
		msg += fmt.Sprintf("; item %d, run %s, %s", f.Place, f.Run, f.Status)
		if f.Failure != nil {
			msg += ": " + f.Failure.Message
		}
	}
	return &store.Failure{Code: CodeItems, Message: msg}
}

// result converts the note to what the code sees.
func (s *itemStep) result(f *store.Failure) *ItemsEnd {
	n := &s.note
	end := &ItemsEnd{Key: s.op.key, Attempts: s.op.attempt, Spawned: n.Spawned, Completed: n.Completed, Failed: n.Failed, Canceled: n.Canceled, Failures: n.Failures, Result: n.Result.Bytes()}
	if f != nil && f.Code == CodeItems {
		end.ItemsFailed = true
	} else {
		end.Failure = f
	}
	return end
}

// Visitor receives the outcomes of the items of a map or generator, in order.
type Visitor struct {
	// Begin is called before the first item.
	Begin func()
	// Item is called for each completed item, with its place from 0. An error fails the
	// step.
	Item func(i int, output []byte) error
	// Result, if set, returns the value that is recorded in place of the outputs.
	Result func() ([]byte, error)
}

// Map runs n items as children and passes their outcomes to the visitor. If the history
// has the step's end, only the record is used, and large outputs are read from the items
// again.
func (b *Branch) Map(name string, opts ItemOptions, n int, input func(i int) (ChildInput, error), v Visitor) (*ItemsEnd, error) {
	replay := func(s *itemStep) (*ItemsEnd, error) { return s.remember(s.op.recorded, v) }
	return b.items(store.KindMap, name, opts, int64(n), replay, func(s *itemStep) (end *ItemsEnd, err error) {
		for {
			if err := s.spawnAllLocked(n, input); err != nil {
				return nil, err
			}
			g, anew, err := s.drainLocked()
			if err != nil {
				return nil, err
			}
			if !anew {
				b.inv.unlocked(func() { end = s.collect(g, v) })
				return end, nil
			}
			s.renewLocked(store.KindMap, int64(n))
		}
	})
}

// spawnAllLocked spawns the items of a map that the record does not include, within the
// limit on items at work. It returns when all are spawned, or when the rest must not be.
func (s *itemStep) spawnAllLocked(n int, input func(i int) (ChildInput, error)) error {
	inv := s.op.b.inv
	for s.note.Spawned < int64(n) {
		if s.op.b.interruptedLocked() {
			return inv.interruption.err()
		}
		if g, known := s.countsLocked(); known && g.Failed+g.Canceled > s.opts.Failures {
			return nil // drain handles the rest
		}
		room := int64(commitRecords)
		if s.opts.AtOnce > 0 {
			room = min(room, s.opts.AtOnce-s.open)
		}
		if room <= 0 {
			inv.lingerLocked()
			if err := s.op.b.waitLocked(s.awaitLocked(s.opts.AtOnce - max(1, s.opts.AtOnce/4))); err != nil {
				return err
			}
			continue
		}
		if err := s.spawnSomeLocked(min(room, int64(n)-s.note.Spawned), input); err != nil {
			return err
		}
		if s.note.Spawned < int64(n) {
			inv.flushLocked()
		}
	}
	return nil
}

// spawnSomeLocked spawns the next n items of a map, or fewer if they are large. It
// creates them without the lock.
func (s *itemStep) spawnSomeLocked(n int64, input func(i int) (ChildInput, error)) (err error) {
	inv := s.op.b.inv
	s.findCalleeLocked()
	first, bytes := s.note.Spawned, 0
	var items []store.NewRun
	inv.unlocked(func() {
		for int64(len(items)) < n && bytes < commitBytes/2 && err == nil {
			place := first + int64(len(items))
			var in ChildInput
			if in, err = input(int(place)); err == nil {
				err = inv.checkSize(fmt.Sprintf("item %d of map %s", place+1, s.op.key), in.Data)
			}
			if err == nil {
				bytes += len(in.Data)
				items = append(items, s.item(place+1, "", in))
			}
		}
	})
	inv.exitIfClosedLocked()
	if err != nil {
		return err
	}
	for i := range items {
		items[i].Under = inv.usesLocked(fmt.Sprintf("item %d of map %s", items[i].Ordinal, s.op.key), s.opts.Workflow, s.opts.Open, s.needs, items[i].Under)
	}
	inv.makeRoomLocked(bytes)
	s.note.Spawned += int64(len(items))
	s.open += int64(len(items))
	s.noteLocked(store.StepRunning)
	for _, r := range items {
		inv.children.spawnLocked(r)
	}
	s.spawned = inv.outbox.appended
	return nil
}

// findCalleeLocked finds out what workers have registered of the items' workflow.
func (s *itemStep) findCalleeLocked() {
	if needs := s.op.b.inv.findCalleeLocked(s.opts.Workflow, &s.opts.Queue, s.opts.Open && s.needs == nil); needs != nil {
		s.needs = needs
	}
}

// collect reads the outputs of the items and records the step's end.
func (s *itemStep) collect(g store.Group, v Visitor) *ItemsEnd {
	var failure *store.Failure
	if max(s.note.Total, g.Total) > 0 && !s.tooMany {
		failure = s.visit(v, true)
	} else if v.Begin != nil {
		v.Begin()
	}
	if failure == nil && !s.tooMany && v.Result != nil {
		out, err := v.Result()
		s.op.b.inv.exitIfClosed()
		if err == nil {
			err = s.op.b.inv.checkSize("the result of "+s.op.key.String(), out)
		}
		if err != nil {
			failure = Fail(err)
		} else {
			s.note.Result = NewPayload(out)
		}
	}
	return s.close(g, failure)
}

// visit reads the outcomes of the items. With keep, it puts small outputs into the note.
func (s *itemStep) visit(v Visitor, keep bool) *store.Failure {
	var failure *store.Failure
	if v.Begin != nil {
		v.Begin()
	}
	keep = keep && v.Result == nil
	outputs, size := make([]*Payload, 0, s.note.Total), 0
	s.each(func(r *store.Run) {
		if r.Status != store.Completed || failure != nil {
			return
		}
		if keep && !s.note.Apart {
			if size += len(r.Output); size > largeNote {
				s.note.Apart, outputs = true, nil
			} else {
				for int64(len(outputs)) < r.Ordinal-1 {
					outputs = append(outputs, nil)
				}
				outputs = append(outputs, NewPayload(r.Output))
			}
		}
		if err := v.Item(int(r.Ordinal-1), r.Output); err != nil {
			failure = Fail(err)
		}
	})
	if keep && !s.note.Apart {
		s.note.Outputs = outputs
	}
	return failure
}

// remember passes the recorded outcomes to the visitor.
func (s *itemStep) remember(final *store.Step, v Visitor) (*ItemsEnd, error) {
	end := s.result(final.Failure)
	if v.Begin != nil {
		v.Begin()
	}
	if v.Result != nil {
		return end, nil
	}
	if !s.note.Apart {
		for i, p := range s.note.Outputs {
			if p == nil {
				continue
			}
			if err := v.Item(i, p.Bytes()); err != nil {
				return nil, err
			}
		}
		return end, nil
	}
	seen := int64(0)
	s.each(func(r *store.Run) {
		if r.Status == store.Completed {
			seen++
			_ = v.Item(int(r.Ordinal-1), r.Output) // it succeeded when the step ran
		}
	})
	if seen < s.note.Completed {
		s.op.b.inv.fail(&store.Failure{Code: CodeError, Message: fmt.Sprintf(
			"replaying map %s reads its large outputs from its items again, but of %d items only %d are left: the others were purged after this run, or the run that it was forked from, had ended",
			s.op.key, s.note.Completed, seen)})
	}
	return end, nil
}
