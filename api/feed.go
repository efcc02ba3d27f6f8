package api

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Limits of a feed.
const (
	feedPage     = 100                    // runs that a look at the latest reads of each order
	feedGap      = 100 * time.Millisecond // between two looks, whatever hints say
	feedPending  = 256                    // events that wait for a slow viewer
	feedPatience = 10 * time.Second       // of a look
	feedTracked  = 500                    // unfinished runs that are looked at again because they were told
	feedHinted   = 1000                   // runs of hints between two looks
)

// feed tells the viewers of a namespace what changes. All of them share it: it looks at the store once
// in a while, and earlier when the store gives a hint, while there is a viewer. A look reads the runs that were
// created and that ended last, those that a viewer follows, those that were active at the last look, and
// the new steps of followed runs.
type feed struct {
	eng   *engine.Engine
	every time.Duration

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	hinted  map[store.ID]struct{} // runs that a hint has named
	stop    context.CancelFunc    // of the running loop; nil: none runs
	nudge   chan struct{}
	trees   map[store.ID]*tree // of the runs that are followed with their steps
	looks   int                // for tests
}

// tree is the watch of how far a run's descendants are, which all who follow the run share.
type tree struct {
	stop    context.CancelFunc
	viewers int
	last    *engine.Progress // nil: nothing was told yet
}

// viewer is a subscription: to all runs, or to one.
type viewer struct {
	run    store.ID // zero: all runs
	steps  bool     // the run's steps too, and how far its descendants are
	events chan update
	lost   bool // events were dropped; guarded by feed.mu
}

// update is one change.
type update struct {
	run   *store.Run
	step  *store.Step
	tree  *engine.Progress
	reset bool // events were lost: read everything again
	gone  bool // the run does not exist any more
}

func newFeed(eng *engine.Engine, every time.Duration) *feed {
	return &feed{eng: eng, every: every, viewers: map[*viewer]struct{}{}, hinted: map[store.ID]struct{}{}, trees: map[store.ID]*tree{}, nudge: make(chan struct{}, 1)}
}

// add subscribes a viewer. The loop runs while there is one.
func (f *feed) add(v *viewer) {
	v.events = make(chan update, feedPending)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.viewers[v] = struct{}{}
	if f.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		f.stop = stop
		go f.loop(ctx)
	}
	if v.steps {
		f.addToTree(v)
	}
}

// addToTree subscribes a viewer to the counts of its run's tree, and tells it the last ones.
func (f *feed) addToTree(v *viewer) {
	t := f.trees[v.run]
	if t == nil {
		ctx, stop := context.WithCancel(context.Background())
		t = &tree{stop: stop}
		f.trees[v.run] = t
		go f.watchTree(ctx, v.run, t)
	}
	t.viewers++
	if t.last != nil {
		v.events <- update{tree: t.last} // its first event
	}
}

// watchTree tells the viewers of a run how far its descendants are, if it has any, until ctx ends. They get the
// last counts with the end of the run.
func (f *feed) watchTree(ctx context.Context, run store.ID, t *tree) {
	for p, err := range f.eng.WatchProgress(ctx, run) {
		if err != nil || p.Status.Final() {
			return
		}
		if p.Total == 0 {
			continue
		}
		var viewers []*viewer
		f.mu.Lock()
		t.last = &p
		for v := range f.viewers {
			if v.steps && v.run == run {
				viewers = append(viewers, v)
			}
		}
		f.mu.Unlock()
		tell(f, viewers, update{tree: &p})
	}
}

func (f *feed) remove(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.viewers, v)
	if t := f.trees[v.run]; v.steps && t != nil {
		if t.viewers--; t.viewers == 0 {
			t.stop()
			delete(f.trees, v.run)
		}
	}
	if len(f.viewers) == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// wake makes the feed look soon.
func (f *feed) wake() {
	select {
	case f.nudge <- struct{}{}:
	default:
	}
}

// look makes the feed look at a run soon.
func (f *feed) look(id store.ID) {
	f.mu.Lock()
	if f.stop != nil && len(f.hinted) < feedHinted {
		f.hinted[id] = struct{}{}
	}
	f.mu.Unlock()
	f.wake()
}

// await waits until a run has ended, for that long at most. A run that does not exist any more has ended.
func (f *feed) await(ctx context.Context, id store.ID, most time.Duration) error {
	v := &viewer{run: id}
	f.add(v)
	defer f.remove(v)
	timer := time.NewTimer(most)
	defer timer.Stop()
	if run, err := f.eng.Get(ctx, id); err != nil || run.Status.Final() {
		return err // it ended before the feed followed it
	}
	for {
		select {
		case u := <-v.events:
			if u.gone || u.run != nil && u.run.Status.Final() {
				return nil
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// loop looks at the store until ctx ends.
func (f *feed) loop(ctx context.Context) {
	var hints <-chan []store.Hint
	if h, ok := f.eng.Store().(store.Hinter); ok {
		if ch, err := h.Hints(ctx, store.HintsOfRuns); err == nil {
			hints = ch
		}
	}
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	m := memory{runs: map[store.ID]seen{}, steps: map[store.ID]*walk{}}
	for {
		if err := f.glance(ctx, &m); err != nil && ctx.Err() == nil {
			f.eng.Logger().Warn("the feed of the API failed to read; it tries again", "error", err)
		}
		gap := time.NewTimer(feedGap)
		select {
		case <-gap.C:
		case <-ctx.Done():
			gap.Stop()
			return
		}
		for wait := true; wait; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				wait = false
			case <-f.nudge:
				wait = false
			case batch, ok := <-hints:
				if !ok {
					hints = nil
				}
				wait = !f.note(batch)
			}
		}
	}
}

// note keeps the runs of hints for the next look, and reports whether there is one.
func (f *feed) note(batch []store.Hint) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range batch {
		switch {
		case h.Kind == store.HintRescan:
			news = true
		case h.Namespace != f.eng.Namespace() || h.Run.IsZero():
		case len(f.hinted) < feedHinted:
			f.hinted[h.Run] = struct{}{}
			news = true
		}
	}
	return news
}

// memory is what the feed has told.
type memory struct {
	runs  map[store.ID]seen
	steps map[store.ID]*walk // of followed runs
	began bool
}

// seen is what tells two states of a run apart.
type seen struct {
	status    store.Status
	epoch     int64
	attempt   int
	events    int64
	worker    string
	pausing   bool
	pin       string
	visibleAt time.Time
}

func seenOf(r *store.Run) seen {
	return seen{r.Status, r.Epoch, r.Attempt, r.Events, r.Worker, r.Pausing, r.PinnedTo(), r.VisibleAt}
}

// same compares without the end of the lease, which every renewal of it changes.
func (s seen) same(o seen) bool {
	if s.status == store.Running && o.status == store.Running {
		s.visibleAt, o.visibleAt = time.Time{}, time.Time{}
	}
	return s == o
}

// walk is how far the steps of a run were told.
type walk struct {
	settled    int64 // all steps up to this position are final
	told       map[int64]store.StepStatus
	attempts   map[int64]int
	generation int
	attempt    int
}

// glance looks once and tells the viewers what has changed.
func (f *feed) glance(ctx context.Context, m *memory) error {
	ctx, cancel := context.WithTimeout(ctx, feedPatience)
	defer cancel()
	follow, lists, ids := f.wanted(m)
	found := map[store.ID]*store.Run{}
	keep := func(runs []store.Run) {
		for i := range runs {
			found[runs[i].ID] = &runs[i]
		}
	}
	if lists {
		for _, byEnd := range []bool{false, true} {
			page, err := f.eng.Store().List(ctx, store.ListParams{Namespace: f.eng.Namespace(), ByEnd: byEnd, Limit: feedPage})
			if err != nil {
				return err
			}
			keep(page.Runs)
		}
	}
	var rest []store.ID
	for id := range ids {
		if found[id] == nil || follow[id] != nil {
			rest = append(rest, id)
		}
	}
	for len(rest) > 0 {
		n := min(len(rest), store.MaxPage)
		runs, err := f.eng.Store().Get(ctx, store.GetParams{Namespace: f.eng.Namespace(), IDs: rest[:n], NoInput: true, MaxBytes: answerBytes})
		if err != nil {
			return err
		}
		keep(runs)
		rest = rest[n:]
	}
	f.mu.Lock()
	f.looks++
	f.mu.Unlock()
	for id, viewers := range follow {
		if found[id] == nil {
			tell(f, viewers, update{gone: true})
		} else if err := f.walk(ctx, m, found[id], viewers); err != nil {
			return err
		}
	}
	f.tellRuns(m, found, follow)
	return nil
}

// wanted returns the followed runs with their viewers, whether somebody views the list, and the runs to read.
func (f *feed) wanted(m *memory) (follow map[store.ID][]*viewer, lists bool, ids map[store.ID]struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids, f.hinted = f.hinted, map[store.ID]struct{}{}
	follow = map[store.ID][]*viewer{}
	for v := range f.viewers {
		if v.run.IsZero() {
			lists = true
			continue
		}
		follow[v.run] = append(follow[v.run], v)
		ids[v.run] = struct{}{}
	}
	if lists {
		for id, s := range m.runs {
			if len(ids) >= feedTracked {
				break
			}
			if !s.status.Final() {
				ids[id] = struct{}{}
			}
		}
	}
	return follow, lists, ids
}

// tellRuns tells which runs are new or have changed, and forgets those that are not looked at any more.
func (f *feed) tellRuns(m *memory, found map[store.ID]*store.Run, follow map[store.ID][]*viewer) {
	f.mu.Lock()
	var all []*viewer
	for v := range f.viewers {
		if v.run.IsZero() {
			all = append(all, v)
		}
	}
	f.mu.Unlock()
	next := make(map[store.ID]seen, len(found))
	for id, r := range found {
		now := seenOf(r)
		last, known := m.runs[id]
		next[id] = now
		if known && last.same(now) {
			continue
		}
		r.Input, r.Output = nil, nil
		if m.began || known {
			tell(f, all, update{run: r})
		}
		tell(f, follow[id], update{run: r})
	}
	for id, s := range m.runs { // a final run may leave the pages, and comes back only by a restart
		if _, ok := next[id]; !ok && s.status.Final() && len(next) < 20*feedPage {
			next[id] = s
		}
	}
	m.runs, m.began = next, true
	maps.DeleteFunc(m.steps, func(id store.ID, _ *walk) bool { return follow[id] == nil })
}

// walk tells which steps of a followed run are new or have changed.
func (f *feed) walk(ctx context.Context, m *memory, r *store.Run, viewers []*viewer) error {
	wants := false
	for _, v := range viewers {
		wants = wants || v.steps
	}
	if !wants {
		return nil
	}
	w := m.steps[r.ID]
	if w == nil || w.generation != r.Generation || w.attempt != r.Attempt {
		w = &walk{told: map[int64]store.StepStatus{}, attempts: map[int64]int{}, generation: r.Generation, attempt: r.Attempt}
		m.steps[r.ID] = w
	}
	if last, ok := m.runs[r.ID]; ok && last.status.Final() && last.same(seenOf(r)) {
		return nil // nothing is recorded any more
	}
	firm := true
	for after := w.settled; ; {
		page, err := f.eng.Store().Steps(ctx, store.StepsParams{Namespace: f.eng.Namespace(), Run: r.ID, After: after, Limit: store.MaxPage, MaxBytes: answerBytes})
		if err != nil {
			return err
		}
		for i := range page.Steps {
			s := &page.Steps[i]
			if w.told[s.Position] != s.Status || w.attempts[s.Position] != s.Attempt {
				w.told[s.Position], w.attempts[s.Position] = s.Status, s.Attempt
				s.Output = nil
				tell(f, viewers, update{step: s})
			}
			if firm = firm && s.Status.Final(); firm {
				w.settled = s.Position
				delete(w.told, s.Position)
				delete(w.attempts, s.Position)
			}
		}
		if after = page.Next; after == 0 {
			return nil
		}
	}
}

// tell passes an update to viewers. One that does not keep up loses its events and is told to read everything
// again.
func tell(f *feed, viewers []*viewer, u update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range viewers {
		if u.step != nil && !v.steps {
			continue
		}
		if v.lost {
			select {
			case v.events <- update{reset: true}:
				v.lost = false
			default:
				continue
			}
		}
		select {
		case v.events <- u:
		default:
			v.lost = true
		}
	}
}
