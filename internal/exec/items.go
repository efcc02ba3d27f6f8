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

// ItemOptions say how the items of a map or generator step are run.
type ItemOptions struct {
	Workflow, Queue string
	Priority        int
	Timeout         time.Duration
	// AtOnce bounds the items that are spawned and not final; 0: no bound.
	AtOnce int64
	// Failures is how many items may fail or be canceled before the others are
	// canceled and the step fails.
	Failures int64
}

// GeneratorStatus is where a generator is.
type GeneratorStatus string

// The statuses of a generator.
const (
	GeneratorStarted  GeneratorStatus = "started"
	GeneratorComplete GeneratorStatus = "complete"
	GeneratorFailed   GeneratorStatus = "failed" // it gave up, or too many of its items failed
)

// ItemsNote is what the record of a map or generator step holds, as JSON.
type ItemsNote struct {
	Parent   store.ID        `json:"parent"` // whose children the items are
	Workflow string          `json:"workflow"`
	Group    string          `json:"group"`
	Status   GeneratorStatus `json:"generator_status,omitempty"`
	Failure  *store.Failure  `json:"generator_failure,omitempty"`
	Total    int64           `json:"total,omitempty"` // items of a map
	Spawned  int64           `json:"spawned"`
	Cursor   *Payload        `json:"cursor,omitempty"`

	// Of a step that is final:
	Completed int64        `json:"completed"`
	Failed    int64        `json:"failed"`
	Canceled  int64        `json:"canceled"`
	Failures  []FailedItem `json:"failures,omitempty"`
	Outputs   []*Payload   `json:"outputs,omitempty"`
	Result    *Payload     `json:"result,omitempty"`
	// Apart says that the outputs are read from the items again: they are large.
	Apart bool `json:"apart,omitempty"`
}

// FailedItem is an item that failed or was canceled.
type FailedItem struct {
	Place   int64          `json:"place"` // from 1
	Run     store.ID       `json:"run"`
	Status  store.Status   `json:"status"`
	Failure *store.Failure `json:"failure,omitempty"`
}

// So many failed items are named, the first of them with so much of their failures'
// text. The rest is counted.
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
	// Failures are the first failed items, in the order of their places: those that
	// failed before those that were canceled, when there are too many.
	Failures []FailedItem
	// ItemsFailed says that the step failed because of its items.
	ItemsFailed bool
	Attempts    int
	// Failure is why the step itself failed, for another reason than its items: the
	// generator gave up, or results could not be taken in.
	Failure *store.Failure
	Result  []byte
}

// itemStep is a step whose items are children, under way.
type itemStep struct {
	op      *op
	opts    ItemOptions
	note    ItemsNote
	spawned int64 // records that must be durable before counts tell of all items
	open    int64 // items that are not final, at most
	checked int64 // canceled items that are known not to have been canceled with the run
	tooMany bool
}

// beginItems begins a map or generator step; from is its record, if it is final.
// On success the branch is the step's, and the lock is not held.
func (b *Branch) beginItems(kind store.StepKind, name string, opts ItemOptions, total int64) (s *itemStep, final *store.Step, err error) {
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(kind, name)
	if err != nil {
		inv.mu.Unlock()
		return nil, nil, err
	}
	s = &itemStep{op: o, opts: opts}
	r := o.recorded
	if r == nil {
		s.renewLocked(kind, total)
		inv.mu.Unlock()
		return s, nil, nil
	}
	if err := readNote(r.Output, &s.note); err != nil || s.note.Workflow != opts.Workflow || s.note.Total != total {
		inv.failLocked(nondeterministic(inv, "%s %s was recorded as %s, and the code now asks for %d items of workflow %q", kind, o.key, clipNote(r.Output), total, opts.Workflow))
		inv.exitIfClosedLocked()
	}
	if !r.Status.Final() {
		inv.seekGroupLocked(s.note.Group)
	}
	s.open = inv.groups[s.note.Group].Open
	if r.Status.Final() {
		o.attempt = r.Attempt
	}
	inv.mu.Unlock()
	if r.Status.Final() {
		return s, r, nil
	}
	return s, nil, nil
}

// renewLocked makes the note of a step that has no items yet.
func (s *itemStep) renewLocked(kind store.StepKind, total int64) {
	o := s.op
	s.note = ItemsNote{Parent: o.b.inv.run.ID, Workflow: s.opts.Workflow, Group: o.groupLocked(), Total: total}
	if kind == store.KindGenerator {
		s.note.Status = GeneratorStarted
	}
	s.spawned, s.open, s.tooMany, s.checked = 0, 0, false, 0
}

// end lets the branch go on.
func (s *itemStep) end() {
	s.op.b.inv.mu.Lock()
	s.op.endLocked()
	s.op.b.inv.mu.Unlock()
}

// noteLocked appends the step's record as it is now.
func (s *itemStep) noteLocked(status store.StepStatus) {
	r := s.op.since(status)
	r.Output = writeNote(s.note)
	s.op.b.inv.appendLocked(r, time.Time{})
}

// item makes the child of a place in the step. Its ID is made of its key, if it has one,
// wherever it stands; otherwise of its place.
func (s *itemStep) item(place int64, key string, input []byte) store.NewRun {
	id := store.DeriveID(s.note.Parent, s.note.Group+"/key/"+key)
	if key == "" {
		id = store.DeriveIDAt(s.note.Parent, fmt.Sprintf("%s/%d", s.note.Group, place), place)
	}
	return store.NewRun{
		ID: id, Workflow: s.opts.Workflow, Queue: s.opts.Queue, Input: input,
		Priority: s.opts.Priority, Timeout: s.opts.Timeout, Group: s.note.Group, Ordinal: place,
	}
}

// countsLocked returns the counts of the step's items, once they tell of all of them.
func (s *itemStep) countsLocked() (g store.Group, known bool) {
	if s.note.Spawned == 0 {
		return g, true
	}
	g, known = s.op.b.inv.countsLocked(s.note.Group, s.spawned)
	if known {
		s.open = g.Open
	}
	return g, known
}

// awaitLocked is what the step waits for: that at most so many items are open, or that too
// many have failed.
func (s *itemStep) awaitLocked(open int64) *wait {
	a := store.Await{Group: s.note.Group, Open: open}
	if !s.tooMany && s.opts.Failures < AnyFailures {
		a.Failures = s.opts.Failures + 1
	}
	return &wait{await: []store.Await{a}, spawned: s.spawned}
}

// judgeLocked looks at the failures among the items. It reports whether items were
// canceled with the run, which has been restarted since: the step is to be done
// anew. When too many have failed, it cancels the rest. The lock is held; it is
// given up in between.
func (s *itemStep) judgeLocked(g store.Group) (anew bool) {
	inv := s.op.b.inv
	if g.Canceled > s.checked && !inv.canceling && !inv.expired {
		inv.mu.Unlock()
		inv.eachChild([]store.Status{store.Canceled}, func(page []store.Run) bool {
			anew = slices.ContainsFunc(page, func(r store.Run) bool { return r.Group == s.note.Group && withParent(r.Status, r.Failure) })
			return !anew
		})
		inv.mu.Lock()
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

// cancelRestLocked cancels the items that are open. What the step is about to spawn
// is durable before.
func (s *itemStep) cancelRestLocked(why string) {
	inv := s.op.b.inv
	inv.flushLocked()
	inv.mu.Unlock()
	inv.cancelOpen(why, s.note.Group)
	inv.mu.Lock()
	inv.exitIfClosedLocked()
}

// drain waits until all items that were spawned are final, and cancels those that are
// open when the step is lost. It returns how many ended how; anew: see judge.
func (s *itemStep) drain() (g store.Group, anew bool, err error) {
	s.op.b.inv.mu.Lock()
	g, anew, err = s.drainLocked()
	s.op.b.inv.mu.Unlock()
	return g, anew, err
}

func (s *itemStep) drainLocked() (g store.Group, anew bool, err error) {
	inv := s.op.b.inv
	canceled := false
	for err == nil {
		lost := s.note.Failure != nil && s.opts.Failures == 0
		g, known := s.countsLocked()
		if known {
			anew := s.judgeLocked(g)
			if g.Failed+g.Canceled > 0 && s.op.b.interruptedLocked() {
				return g, false, inv.interruptionLocked() // which may be why
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
	read := func(p store.ChildrenParams) (page []store.Run, _ error) {
		inv.ask("the outputs of items", func(ctx context.Context, st store.Store, ns string) (err error) {
			p.Namespace = ns
			page, err = st.Children(ctx, p)
			return err
		})
		return page, nil // an ask that fails ends the goroutine
	}
	_ = ChildPages(store.ChildrenParams{Parent: s.note.Parent, Group: s.note.Group}, read, func(run *store.Run) bool {
		fn(run)
		return true
	})
}

// failures finds the items that did not complete, the first of them.
func (s *itemStep) failures(g store.Group) (found []FailedItem) {
	for _, kind := range []struct {
		status store.Status
		n      int64
	}{{store.Failed, g.Failed}, {store.Canceled, g.Canceled}} {
		if kind.n == 0 || len(found) >= namedItems {
			continue
		}
		var some []FailedItem
		s.op.b.inv.eachChild([]store.Status{kind.status}, func(page []store.Run) bool {
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

// cut shortens a text to so many bytes.
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
	inv.mu.Lock()
	inv.makeRoomLocked(r.Size())
	defer inv.mu.Unlock()
	inv.appendLocked(r, time.Time{})
	inv.lingerLocked()
	s.op.endLocked()
	return s.result(r.Failure)
}

// shrink makes the note smaller; false: it cannot.
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
	msg := fmt.Sprintf("of %d items %d failed and %d were canceled", g.Total, g.Failed, g.Canceled)
	if len(s.note.Failures) > 0 {
		f := s.note.Failures[0]
		msg += fmt.Sprintf("; item %d, run %s, %s", f.Place, f.Run, f.Status)
		if f.Failure != nil {
			msg += ": " + f.Failure.Message
		}
	}
	return &store.Failure{Code: CodeItems, Message: msg}
}

// result makes what the code sees of what is recorded.
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

// Visitor takes in what became of the items of a map, in their order.
type Visitor struct {
	// Begin is called before the first item.
	Begin func()
	// Item is called for each completed item, with its place from 0; its error fails
	// the step.
	Item func(i int, output []byte) error
	// Result, when set, makes what is recorded in place of the outputs.
	Result func() ([]byte, error)
}

// Map runs n items as children and lets the visitor take in what became of them.
// When the history has the step's end, only what is recorded is used, and the items
// are read again if their outputs were large.
func (b *Branch) Map(name string, opts ItemOptions, n int, input func(i int) ([]byte, error), v Visitor) (*ItemsEnd, error) {
	s, final, err := b.beginItems(store.KindMap, name, opts, int64(n))
	if err != nil {
		return nil, err
	}
	if final != nil {
		defer s.end()
		return s.remember(final, v)
	}
	for {
		if err := s.spawnAll(n, input); err != nil {
			s.end()
			return nil, err
		}
		g, anew, err := s.drain()
		if err != nil {
			s.end()
			return nil, err
		}
		if !anew {
			return s.collect(g, v), nil
		}
		b.inv.mu.Lock()
		s.renewLocked(store.KindMap, int64(n))
		b.inv.mu.Unlock()
	}
}

// spawnAll spawns the items of a map that the record does not tell of, as far as
// the bound on those at work allows; it returns when all are spawned, or when the
// rest is not to be.
func (s *itemStep) spawnAll(n int, input func(i int) ([]byte, error)) error {
	s.op.b.inv.mu.Lock()
	err := s.spawnAllLocked(n, input)
	s.op.b.inv.mu.Unlock()
	return err
}

func (s *itemStep) spawnAllLocked(n int, input func(i int) ([]byte, error)) error {
	inv := s.op.b.inv
	for s.note.Spawned < int64(n) {
		if s.op.b.interruptedLocked() {
			return inv.interruptionLocked()
		}
		if g, known := s.countsLocked(); known && g.Failed+g.Canceled > s.opts.Failures {
			return nil // drain finds out the rest
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
		first := s.note.Spawned
		var items []store.NewRun
		var failed error
		bytes := 0
		inv.mu.Unlock()
		for int64(len(items)) < min(room, int64(n)-first) && bytes < commitBytes/2 {
			place := first + int64(len(items))
			data, err := input(int(place))
			if err == nil {
				err = inv.checkSize(fmt.Sprintf("item %d of map %s", place+1, s.op.key), data)
			}
			if err != nil {
				failed = err
				break
			}
			bytes += len(data)
			items = append(items, s.item(place+1, "", data))
		}
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		if failed != nil {
			return failed
		}
		inv.makeRoomLocked(bytes)
		s.note.Spawned += int64(len(items))
		s.open += int64(len(items))
		s.noteLocked(store.StepRunning)
		for _, r := range items {
			inv.spawnLocked(r)
		}
		s.spawned = inv.appended
		if s.note.Spawned < int64(n) {
			inv.flushLocked()
		}
	}
	return nil
}

// collect takes in the outputs of a map's items and records the step's end.
func (s *itemStep) collect(g store.Group, v Visitor) *ItemsEnd {
	var failure *store.Failure
	if s.note.Total > 0 && !s.tooMany {
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

// visit reads the items' ends. With keep, it puts small outputs into the note.
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

// remember gives the visitor what is recorded.
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
			_ = v.Item(int(r.Ordinal-1), r.Output) // it was taken in before
		}
	})
	if seen < s.note.Completed {
		s.op.b.inv.fail(&store.Failure{Code: CodeError, Message: fmt.Sprintf(
			"the outputs of map %s are read again when this run is replayed, for they are large; of %d items %d are left: the others were purged after this run, or the run that this one was forked from, had ended",
			s.op.key, s.note.Completed, seen)})
	}
	return end, nil
}
