package linearizable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/ops"
	"github.com/pawlhq/pawl/store"
)

const (
	focusClients = 3
	focusRounds  = 3
	focusStories = 12 // of each focus
	fewStories   = 2  // of each, however slow the store is
	focusTime    = 8 * time.Second
)

// focus is a few methods that can conflict with each other, on a few runs. Its stories are short,
// so that every order of their calls can be tried.
type focus struct {
	name  string
	setup func(st *story)
	moves []move // of which the clients draw
}

// move makes a call from what the story knows. A call without a verb is not made.
type move func(d *drawing) ops.Operation

// drawing is what a client draws its calls from.
type drawing struct {
	*story
	rnd    *rand.Rand
	round  int
	client int
}

func (d *drawing) chance(percent int) bool { return d.rnd.IntN(100) < percent }

// lease picks a lease that was granted for the run, mostly the last one.
func (d *drawing) lease(run string) (ops.Holding, bool) {
	var fit []ops.Holding
	for _, h := range d.held {
		if h.Lease.Run == d.id(run) {
			fit = append(fit, *h)
		}
	}
	switch {
	case len(fit) == 0:
		return ops.Holding{}, false
	case d.chance(20):
		return fit[d.rnd.IntN(len(fit))], true
	}
	return fit[len(fit)-1], true
}

// event is a call of a story and its answer.
type event struct {
	client   int
	op       ops.Operation
	saw      string
	took     []store.ID // the runs that a claim returned
	unknown  bool       // it may have been applied or not
	from, to int64
}

// overlaps reports whether the calls were in progress at the same time.
func (e *event) overlaps(other *event) bool { return other.from < e.to && e.from < other.to }

// story is what clients did to a store, in rounds. All calls of a round have the same Now, and a
// round begins when the calls of the previous one have ended.
type story struct {
	focus   focus
	ctx     context.Context
	handles [2]store.Store
	limits  store.Limits
	ns      string
	seed    uint64
	bubble  bool // time is simulated: calls are sent at drawn moments
	names   *ops.Names
	runs    []store.ID
	now     time.Time
	held    []*ops.Holding
	sent    int // signals and step positions
	clock   atomic.Int64
	rounds  [][]event
}

func newStory(ctx context.Context, f focus, handles [2]store.Store, ns string, seed uint64) *story {
	return &story{
		focus: f, ctx: ctx, handles: handles, limits: handles[0].Limits(), ns: ns, seed: seed, now: kit.Began,
		names: &ops.Names{IDs: map[store.ID]string{}, Texts: map[string]string{ns: "a"}},
	}
}

// id returns the ID of the run with a name. It is the same in every story of a namespace.
func (st *story) id(name string) store.ID {
	id := store.DeriveID(store.ID{15: 1}, st.ns+"/"+name)
	if _, ok := st.names.IDs[id]; !ok {
		st.names.IDs[id] = name
		st.runs = append(st.runs, id)
	}
	return id
}

// signalID returns the ID of the signal with a number.
func (st *story) signalID(n int) store.SignalID {
	id := store.DeriveID(store.ID{15: 2}, fmt.Sprintf("%s/signal %d", st.ns, n))
	st.names.IDs[id] = fmt.Sprintf("m%d", n)
	return id
}

// tell runs the clients, and then lets one reader read everything.
func (st *story) tell() {
	st.focus.setup(st)
	for round := range focusRounds {
		st.now = kit.Began.Add(time.Duration(round+1) * time.Hour)
		st.round(round)
	}
	st.now = st.now.Add(time.Hour)
	st.alone(st.look())
	st.alone([]ops.Operation{ops.Invoke("Pause", store.PauseParams{Namespace: st.ns, IDs: slices.Clone(st.runs), Resume: true, Now: st.now}, store.Store.Pause)})
	st.now = st.now.Add(2 * time.Hour)
	var last []ops.Operation
	for _, id := range st.runs {
		name := st.names.IDs[id]
		last = append(last, st.claim(name, "w9"))
	}
	st.alone(append(last, ops.Invoke("Get", store.GetParams{Namespace: st.ns, IDs: st.runs}, store.Store.Get)))
}

// alone makes calls one after another.
func (st *story) alone(ops []ops.Operation) {
	var events []event
	for _, op := range ops {
		events = append(events, st.send(0, st.handles[len(events)%2], op)...)
	}
	st.rounds = append(st.rounds, events)
}

// round lets the clients make drawn calls at the same time.
func (st *story) round(n int) {
	var mu sync.Mutex
	var events []event
	var wg sync.WaitGroup
	start := make(chan struct{})
	for client := range focusClients {
		d := &drawing{story: st, rnd: rand.New(rand.NewPCG(st.seed, uint64(n*focusClients+client))), round: n, client: client}
		var ops []ops.Operation
		for range 20 {
			if op := st.focus.moves[d.rnd.IntN(len(st.focus.moves))](d); op.Verb != "" {
				ops = append(ops, op)
			}
			if len(ops) == 2 {
				break
			}
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-start
			for _, op := range ops {
				d.pause()
				done := st.send(client, st.handles[d.rnd.IntN(2)], op)
				mu.Lock()
				events = append(events, done...)
				mu.Unlock()
			}
		}()
	}
	close(start)
	wg.Wait()
	st.rounds = append(st.rounds, events)
}

// pause lets a moment pass, of simulated time if there is any. Then no two clients send at the same
// moment, and a seed repeats its story.
func (d *drawing) pause() {
	n := d.rnd.IntN(16)
	if d.bubble {
		time.Sleep(time.Duration(100*n+7*d.client+1) * time.Microsecond) // the bubble's clock, not the machine's
		return
	}
	for range n % 4 {
		runtime.Gosched()
	}
}

// send makes a call. A call that was not applied is left out of the story.
func (st *story) send(client int, s store.Store, op ops.Operation) []event {
	e := event{client: client, op: op, from: st.clock.Add(1)}
	runtime.Gosched() // so that calls overlap on a store that never waits
	res, err := kit.Patient(st.ctx, func() (any, error) {
		res, err := op.Call(st.ctx, s, op.Params)
		return res, errors.Join(err, inconclusive(res))
	})
	runtime.Gosched()
	e.to = st.clock.Add(1)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return nil
	case errors.Is(err, store.ErrOutcomeUnknown):
		e.unknown = true
	default:
		st.learn(op, res)
	}
	if res, ok := res.(store.Claimed); ok {
		for _, r := range res.Runs {
			e.took = append(e.took, r.Run.ID)
		}
	}
	e.saw = st.names.Outcome(res, err)
	return []event{e}
}

// inconclusive reports whether an item's error leaves open whether it was applied, or says that it
// was not. Then the call is sent again.
func inconclusive(res any) error {
	var errs []error
	switch res := res.(type) {
	case []store.CommitResult:
		for _, r := range res {
			errs = append(errs, r.Err)
		}
	case []store.CreateResult:
		for _, r := range res {
			errs = append(errs, r.Err)
		}
	case []store.ControlResult:
		for _, r := range res {
			errs = append(errs, r.Err)
		}
	case []store.SignalResult:
		for _, r := range res {
			errs = append(errs, r.Err)
		}
	}
	if i := slices.IndexFunc(errs, store.Retryable); i >= 0 {
		return errs[i]
	}
	return nil
}

var learning sync.Mutex

// learn notes what a client knows of its leases. Other clients may use it in the next round.
func (st *story) learn(op ops.Operation, res any) {
	learning.Lock()
	defer learning.Unlock()
	switch res := res.(type) {
	case store.Claimed:
		for _, r := range res.Runs {
			h := &ops.Holding{Lease: r.Lease, Seen: r.Inbox.Events}
			for _, sig := range r.Inbox.Signals {
				h.Signals = append(h.Signals, sig.ID)
			}
			st.held = append(st.held, h)
		}
	case []store.CreateResult:
		for _, r := range res {
			if r.Lease.Epoch > 0 {
				st.held = append(st.held, &ops.Holding{Lease: r.Lease})
			}
		}
	case []store.CommitResult:
		cm := op.Params.(store.CommitParams).Commits[0]
		for _, h := range st.held {
			if h.Lease == cm.Lease && len(res) == 1 && res[0].Err == nil {
				h.Seq, h.Seen = max(h.Seq, cm.Seq), max(h.Seen, res[0].Events)
			}
		}
	}
	slices.SortStableFunc(st.held, func(a, b *ops.Holding) int { return int(a.Lease.Epoch - b.Lease.Epoch) })
}

// check finds for each round the orders of its calls in which the model gives the same answers, and
// continues from each state that they lead to. If there is no such order, it returns what was seen;
// empty: every round has one.
func (st *story) check() string {
	states := []*model.Store{model.New(model.Options{PayloadLimit: st.limits.Payload})}
	for n, events := range st.rounds {
		o := &orders{story: st, events: conclusive(events), done: make([]bool, len(events))}
		for _, s := range states {
			o.from(s, nil)
		}
		if len(o.ends) == 0 {
			return o.explain(n)
		}
		states = o.ends
	}
	return ""
}

// conclusive leaves out calls that prove nothing: a claim or a purge of one run that returned
// without it may have skipped the run because another call had locked it.
func conclusive(events []event) []event {
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool {
		return e.passesOver() && slices.ContainsFunc(events, func(other event) bool {
			return e.meets(&other) && other.locks(events)
		})
	})
}

// locks reports whether a call may have locked the run: it writes, or it is a claim or a purge that
// chose the run before another call changed it. Such a call finds that the run does not fit any
// more, returns without it, and holds the lock until then.
func (e *event) locks(events []event) bool {
	if e.passesOver() {
		return slices.ContainsFunc(events, func(other event) bool { return e.meets(&other) && other.writes() })
	}
	return e.writes()
}

func (e *event) writes() bool { return !e.reads() && !e.passesOver() }

// meets reports whether the other call is another client's and was in progress at the same time.
func (e *event) meets(other *event) bool { return e.overlaps(other) && e.client != other.client }

func (e *event) passesOver() bool {
	return e.op.Verb == "Claim" && e.saw == "{}" || e.op.Verb == "Purge" && e.saw == "0"
}

var readers = []string{"Get", "Find", "List", "Count", "Children", "Steps", "Inbox", "Answers", "GetState", "ListSchedules", "ListFirings", "ListWorkers", "ListBuilds", "ListWorkflows", "ListPaused", "Sent"}

func (e *event) reads() bool { return slices.Contains(readers, e.op.Verb) }

// orders searches for orders of a round's calls.
type orders struct {
	*story
	events  []event
	done    []bool
	ends    []*model.Store // the states after all calls, each once
	longest []int          // the longest order that the model explains
	after   *model.Store   // what it leads to
	first   *model.Store
}

// from tries all orders of the calls that are left.
func (o *orders) from(s *model.Store, order []int) {
	if len(order) == 0 {
		o.first = s
	}
	if o.after == nil || len(order) > len(o.longest) {
		o.longest, o.after = slices.Clone(order), s
	}
	if len(order) == len(o.events) {
		if !slices.ContainsFunc(o.ends, s.Same) {
			o.ends = append(o.ends, s)
		}
		return
	}
	for i := range o.events {
		if o.done[i] || !o.mayBeNext(i) {
			continue
		}
		o.done[i] = true
		for _, v := range o.views(s, i) {
			next := s.Copy()
			back := o.flip(next, v.flipped)
			next.OfferOnly(v.only)
			if o.expect(next, i) != o.events[i].saw && !o.events[i].unknown {
				continue
			}
			o.flip(next, back)
			next.OfferOnly(nil)
			o.from(next, append(order, i))
			if !o.events[i].unknown && v.only == nil {
				break
			}
		}
		if o.events[i].unknown {
			o.from(s, append(order, i))
		}
		o.done[i] = false
	}
}

// view is how a call may see the state in which it takes effect.
type view struct {
	flipped []store.PauseTargetParams // pauses that it sees differently
	only    []store.ID                // the runs that a claim or a purge can lock; nil: all
}

// views returns what a call may see in a state: first all of it.
func (o *orders) views(s *model.Store, i int) []view {
	var all []view
	e := &o.events[i]
	for _, flipped := range o.pausesSeen(i) {
		all = append(all, view{flipped: flipped})
		if len(e.took) > 0 && e.meetsLocks(o.events) {
			all = append(all, view{flipped, e.took})
		}
	}
	if n, err := strconv.Atoi(e.saw); e.op.Verb == "Purge" && err == nil && n > 0 && e.meetsLocks(o.events) {
		page, _ := s.List(o.ctx, store.ListParams{Namespace: o.ns})
		for _, some := range subsets(page.Runs, n) {
			all = append(all, view{only: some})
		}
	}
	return all
}

// meetsLocks reports whether a claim or a purge may have passed over runs that another call had locked.
func (e *event) meetsLocks(events []event) bool {
	return slices.ContainsFunc(events, func(other event) bool { return e.meets(&other) && other.locks(events) })
}

// subsets returns the choices of n of the runs.
func subsets(runs []store.Run, n int) (all [][]store.ID) {
	if n == 0 {
		return [][]store.ID{nil}
	}
	for i := range runs {
		for _, rest := range subsets(runs[i+1:], n-1) {
			all = append(all, append(rest, runs[i].ID))
		}
	}
	return all
}

// pausesSeen returns the pauses of targets that a call may see differently from the state in which
// it takes effect: first none, then each that was set or ended while a claim, or a create that may
// claim, was in progress. Such a call may have read what is paused when it began.
func (o *orders) pausesSeen(i int) [][]store.PauseTargetParams {
	e := &o.events[i]
	seen := [][]store.PauseTargetParams{nil}
	if e.op.Verb != "Claim" && e.op.Verb != "Create" {
		return seen
	}
	for j := range o.events {
		p, ok := o.events[j].op.Params.(store.PauseTargetParams)
		if !ok || !e.overlaps(&o.events[j]) {
			continue
		}
		for _, others := range seen {
			if !slices.ContainsFunc(others, func(q store.PauseTargetParams) bool { return q.Queue == p.Queue && q.Workflow == p.Workflow }) {
				seen = append(seen, append(slices.Clone(others), p))
			}
		}
	}
	return seen
}

// flip pauses the targets that are not paused and resumes the others. It returns what restores s.
func (o *orders) flip(s *model.Store, targets []store.PauseTargetParams) (back []store.PauseTargetParams) {
	for _, p := range targets {
		p.Resume = false
		page, _ := s.ListPaused(o.ctx, store.ListPausedParams{Namespace: p.Namespace})
		for _, is := range page.Paused {
			if is.Queue == p.Queue && is.Workflow == p.Workflow {
				p.Resume, p.Now = true, is.Since
			}
		}
		_ = s.PauseTarget(o.ctx, p)
		back = append(back, p)
	}
	return back
}

// mayBeNext reports whether no call that is left had ended before this one began.
func (o *orders) mayBeNext(i int) bool {
	for j := range o.events {
		if !o.done[j] && o.events[j].to < o.events[i].from {
			return false
		}
	}
	return true
}

// expect returns the model's answer.
func (o *orders) expect(s *model.Store, i int) string {
	op := o.events[i].op
	res, err := op.Call(o.ctx, s, op.Params)
	return o.names.Outcome(res, errors.Join(err))
}

// explain describes what no order explains.
func (o *orders) explain(round int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of seed %d: the calls of round %d have no sequential order\nin the rounds before:\n", o.ns, o.seed, round)
	for _, events := range o.rounds[:round] {
		for i := range events {
			b.WriteString(o.line(&events[i]))
		}
		b.WriteString("  --\n")
	}
	b.WriteString("the longest order that a sequential store explains:\n")
	for _, i := range o.longest {
		b.WriteString(o.line(&o.events[i]))
	}
	b.WriteString("what cannot follow:\n")
	for i := range o.events {
		if !slices.Contains(o.longest, i) {
			b.WriteString(o.line(&o.events[i]))
			fmt.Fprintf(&b, "      expected %s\n", o.expect(o.after.Copy(), i))
		}
	}
	return b.String()
}

func (st *story) line(e *event) string {
	return fmt.Sprintf("  client %d  %4d to %4d  %s%s = %s\n", e.client, e.from, e.to, e.op.Verb, st.names.Write(e.op.Params), e.saw)
}

// runFocuses records stories of every focus and checks them: focusStories of each, fewer on a slow
// store, and more while some method has not overlapped another client's call.
func runFocuses(t *testing.T, handles [2]store.Store) {
	t.Helper()
	met := map[string]int{}
	missed := focusVerbs
	began := time.Now()
	for i := 0; i < focusStories && (i < fewStories || time.Since(began) < focusTime) || i < 3*focusStories && len(missed) > 0; i++ {
		for _, f := range focuses {
			st := newStory(t.Context(), f, handles, fmt.Sprintf("focus-%s-%d", f.name, i+1), rand.Uint64())
			st.tell()
			if report := st.check(); report != "" {
				t.Errorf("%s", report)
				return
			}
			st.count(met)
		}
		missed = slices.DeleteFunc(slices.Clone(focusVerbs), func(verb string) bool { return met[verb] > 0 })
	}
	for _, verb := range focusVerbs {
		t.Logf("%8d  %s at the same time as another client's call", met[verb], verb)
	}
	if len(missed) > 0 {
		t.Errorf("verbs that no other client's call has met, so that nothing is said about them: %s", strings.Join(missed, ", "))
	}
}

// count counts the calls that overlapped another client's call.
func (st *story) count(met map[string]int) {
	for _, events := range st.rounds {
		for i := range events {
			e := &events[i]
			if slices.ContainsFunc(events, func(other event) bool { return other.client != e.client && e.overlaps(&other) }) {
				met[e.op.Verb]++
			}
		}
	}
}
