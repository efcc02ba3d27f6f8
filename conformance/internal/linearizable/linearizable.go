// Package linearizable is the linearizability tier of the conformance suite: it records histories
// of concurrent clients, for each of which a sequential order must exist.
package linearizable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/conformance/internal/report"
	"github.com/pawlhq/pawl/store"
)

const (
	histories  = 20
	few        = 5 // histories, however slow the store is
	enough     = time.Minute
	clients    = 8
	perHistory = 520 // operations
	phases     = 5   // of a history, between which time passes
	slots      = 3   // runs that are worked on at a time

	// losses is how many calls of one run may have no answer. Such a call may have been applied at
	// any moment after it began, so each one doubles the number of orders to try.
	losses = 5

	// undecided is how long the check of one run may take. It usually takes a millisecond.
	undecided = time.Minute
)

// Run is conformance.RunLinearizable.
//
// The calls of a phase of a history have the same Now, and phases do not overlap, so that the order
// alone decides what an operation finds.
func Run(t *testing.T, h harness.Harness) {
	t.Helper()
	if !report.Wholly(t) {
		return
	}
	tier := harness.WholeTier(t, "linearizable", &h)
	m := &harness.Met{}
	if h.Progress {
		h = h.Probed(m)
	}
	s := h.New(t)
	handles := [2]store.Store{s, s}
	if h.Reopen != nil {
		handles[1] = h.Reopen(t, s)
	}
	reached := map[string]int{}
	missed := answers
	began := time.Now()
	for i := 0; i < few || i < histories && (len(missed) > 0 || time.Since(began) < enough); i++ {
		hist := newHistory(handles, fmt.Sprintf("history-%d", i+1), rand.Uint64())
		hist.record(t.Context())
		if verbs := m.Waits(); len(verbs) > 0 {
			tier.Wait("linearizable", verbs)
			return
		}
		if !hist.check(t) {
			return
		}
		for what, n := range hist.reached() {
			reached[what] += n
		}
		missed = slices.DeleteFunc(slices.Clone(answers), func(what string) bool { return reached[what] > 0 })
	}
	for _, what := range answers {
		t.Logf("%8d  %s", reached[what], what)
	}
	if len(missed) > 0 {
		t.Errorf("answers that no client got, so that nothing is said about them: %s", strings.Join(missed, ", "))
	}
	runFocuses(t, handles)
}

// answers are the answers that the clients of all histories together must have seen.
var answers = []string{
	"calls of one run at the same time",
	"made", "made already", "claimed", "taken over", "nothing to claim", "claimed canceling",
	"committed", "repeated", "lease lost", "final", "sleeps", "woken at once",
	"extended", "extension lost", "told to cancel", "signal sent", "signal to a final run", "canceled", "canceling", "canceling without a holder", "cancel of a final run", "unknown",
}

// request is a client's call on a run, with its phase.
type request struct {
	verb     string
	now      int64 // in microseconds since began
	worker   string
	epoch    int64
	seq      int64
	seen     int64
	id       int // of a signal
	consumed string
	step     bool                 // records one
	end      store.TransitionKind // 0: none
	wakes    bool                 // sleep until a signal
	span     int64                // of a lease, a sleep, a retry or a release, in microseconds; 0: none
	crashes  int                  // that a commit keeps

	sightings // of a signal
}

// answer is a call's answer: the parts of the run's row that the method returns.
type answer struct {
	unknown  bool
	err      string // the class of the error
	yes      bool   // made, repeated, recovered, lost
	status   store.Status
	epoch    int64
	events   int64
	visible  int64 // 0: none
	attempt  int
	crashes  int
	signals  string // unread ones
	worker   string
	canceled bool // of an extension: canceling
}

// timed is a call and its answer, with their times.
type timed struct {
	client   int
	run      store.ID
	request  request
	answer   answer
	from, to int64 // by the history's clock
}

// history is a history while it is recorded.
type history struct {
	handles [2]store.Store
	ns      string
	seed    uint64
	clock   atomic.Int64 // counts calls and returns
	slots   [slots]slot

	mu   sync.Mutex
	done []timed
}

// slot is a place for one run after another.
type slot struct {
	mu     sync.Mutex
	n      int // of the run
	run    store.ID
	made   bool
	leases []*known
	sent   int // signals
	lost   int // answers of the run's calls
}

// known is a lease as the clients know it. They share what they know, so a zombie is any client
// that uses an old lease.
type known struct {
	lease   store.Lease
	seq     int64
	seen    int64
	signals string
}

func newHistory(handles [2]store.Store, ns string, seed uint64) *history {
	h := &history{handles: handles, ns: ns, seed: seed}
	for i := range h.slots {
		h.slots[i].run = store.NewID()
	}
	return h
}

// record lets the clients work. Each phase begins when all have ended the one
// before.
func (h *history) record(ctx context.Context) {
	for phase := range phases {
		now := kit.Began.Add(time.Duration(phase) * time.Hour)
		share := perHistory / phases / clients
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c := client{history: h, n: i, now: now, rnd: rand.New(rand.NewPCG(h.seed, uint64(phase*clients+i)))}
				<-start
				for range share {
					c.act(ctx)
				}
			}()
		}
		close(start)
		wg.Wait()
	}
}

// client is what one goroutine does in a phase.
type client struct {
	*history
	n   int
	now time.Time
	rnd *rand.Rand
}

func (c *client) chance(percent int) bool { return c.rnd.IntN(100) < percent }

// act performs one operation.
func (c *client) act(ctx context.Context) {
	sl := &c.slots[c.rnd.IntN(slots)]
	lose := c.chance(3) // the answer, or the request
	sl.mu.Lock()
	run, made := sl.run, sl.made
	if lose = lose && sl.lost < losses; lose {
		sl.lost++
	}
	var l *known
	if n := len(sl.leases); n > 0 {
		l = sl.leases[n-1]
		if c.chance(25) {
			l = sl.leases[c.rnd.IntN(n)]
		}
		copied := *l // as it is now
		l = &copied
	}
	sl.mu.Unlock()
	in := request{now: c.now.Sub(kit.Began).Microseconds(), worker: fmt.Sprintf("w%d", c.n)}
	switch n := c.rnd.IntN(100); {
	case !made && n < 70 || n < 6:
		in.verb = "create"
		if c.chance(40) {
			in.span = c.lease()
		}
	case l == nil && n < 60 || n < 26:
		in.verb, in.span = "claim", c.lease()
	case l != nil && n < 62:
		in.verb, in.worker, in.epoch, in.seq, in.seen = "commit", l.lease.Worker, l.lease.Epoch, l.seq+1, l.seen
		if c.chance(15) && l.seq > 0 {
			in.seq = l.seq
		} else if c.chance(8) {
			in.seq++ // a gap
		}
		if c.chance(10) && l.seen > 0 {
			in.seen--
		}
		if c.chance(50) {
			in.consumed = l.signals
		}
		in.step = c.chance(40)
		c.end(&in)
	case l != nil && n < 70:
		in.verb, in.worker, in.epoch, in.span = "extend", l.lease.Worker, l.lease.Epoch, c.lease()
	case n < 84:
		in.verb = "signal"
		sl.mu.Lock()
		if sl.sent == 0 || !c.chance(20) {
			sl.sent++
		}
		in.id = sl.sent
		sl.mu.Unlock()
	case n < 88:
		in.verb = "cancel"
	default:
		in.verb = "get"
	}
	if lose {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go cancel()
	}
	op := timed{client: c.n, run: run, request: in, from: c.clock.Add(1)}
	runtime.Gosched() // so that calls overlap on a store that never waits
	out, applied := c.send(ctx, run, in)
	runtime.Gosched()
	op.answer, op.to = out, c.clock.Add(1)
	c.learn(sl, run, in, out)
	if applied {
		c.mu.Lock()
		c.done = append(c.done, op)
		c.mu.Unlock()
	}
}

// lease is a lease's duration: it ends with the phase, or never.
func (c *client) lease() int64 {
	if c.chance(60) {
		return time.Minute.Microseconds()
	}
	return (1000 * time.Hour).Microseconds()
}

func (c *client) end(in *request) {
	switch n := c.rnd.IntN(100); {
	case n < 35:
	case n < 65:
		in.end = store.Sleep
		in.wakes = c.chance(70)
		if c.chance(60) {
			in.span = time.Minute.Microseconds()
		}
	case n < 80:
		in.end = store.Retry
		if c.chance(30) {
			in.span = time.Minute.Microseconds()
		}
	case n < 90:
		in.end = store.Release
		if c.chance(50) {
			in.span = time.Minute.Microseconds()
		}
	default:
		in.end = store.CompleteRun
	}
	if (in.end == 0 || in.end == store.Release) && c.chance(40) {
		in.crashes = 1 + c.rnd.IntN(2)
	}
}

// learn tells the other clients.
func (c *client) learn(sl *slot, run store.ID, in request, out answer) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.run != run || out.unknown {
		return
	}
	switch {
	case in.verb == "create" && out.err == "":
		sl.made = true
		if out.epoch > 0 {
			sl.leases = append(sl.leases, &known{lease: store.Lease{Run: run, Worker: in.worker, Epoch: out.epoch}})
		}
	case in.verb == "claim" && out.epoch > 0:
		sl.leases = append(sl.leases, &known{lease: store.Lease{Run: run, Worker: in.worker, Epoch: out.epoch}, seen: out.events, signals: out.signals})
	case in.verb == "commit" && out.err == "":
		for _, l := range sl.leases {
			if l.lease.Epoch == in.epoch {
				l.seq, l.seen = max(l.seq, in.seq), out.events
			}
		}
	}
	final := in.verb == "commit" && out.err == "" && out.status.Final() || out.err == store.ErrFinished.Error() || out.status == store.Canceled
	if final && c.chance(40) { // for a while they go on with what is final
		sl.n++
		sl.run, sl.made, sl.leases, sl.sent, sl.lost = store.NewID(), false, nil, 0, 0
	}
}

func (h *history) signalID(run store.ID, n int) store.SignalID {
	return store.DeriveID(run, fmt.Sprint("signal ", n))
}

// numbers returns the numbers of signals, by which calls name them.
func (h *history) numbers(run store.ID, signals []store.Signal) string {
	var b strings.Builder
	for _, s := range signals {
		n := 0
		for i := 1; i <= perHistory && n == 0; i++ {
			if h.signalID(run, i) == s.ID {
				n = i
			}
		}
		fmt.Fprintf(&b, "%d,", n)
	}
	return b.String()
}

func split(list string) []int {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		var n int
		if _, err := fmt.Sscan(part, &n); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// send makes the call, and reports whether it may have been applied.
func (c *client) send(ctx context.Context, run store.ID, in request) (answer, bool) {
	s := c.handles[c.rnd.IntN(2)]
	out, err := kit.Patient(ctx, func() (answer, error) {
		out, item, err := c.call(ctx, s, run, in)
		switch {
		case item == nil:
			return out, err
		case errors.Is(item, store.ErrUnavailable), errors.Is(item, store.ErrOutcomeUnknown):
			return answer{}, item
		}
		return answer{err: errorName(item)}, err
	})
	switch {
	case err == nil:
		return out, true
	case errors.Is(err, store.ErrUnavailable):
		return answer{}, false // by contract, not applied
	case errors.Is(err, store.ErrOutcomeUnknown), errors.Is(err, context.Canceled):
		return answer{unknown: true}, true
	}
	return answer{err: "error of the call: " + err.Error()}, true // which no order explains
}

// call makes the call once. item is the error of the run's item in a call that succeeded.
func (c *client) call(ctx context.Context, s store.Store, run store.ID, in request) (out answer, item, err error) {
	switch in.verb {
	case "create":
		return c.create(ctx, s, run, in)
	case "claim":
		return c.claim(ctx, s, run, in)
	case "commit":
		return c.commit(ctx, s, run, in)
	case "extend":
		res, err := s.Extend(ctx, store.ExtendParams{Namespace: c.ns, Worker: in.worker, Leases: []store.Lease{in.lease(run)}, LeaseFor: in.duration(), Now: c.now})
		if err != nil {
			return out, nil, err
		}
		return answer{yes: res[0].Lost, canceled: res[0].Canceling, events: res[0].Events}, nil, nil
	case "signal":
		sig := store.NewSignal{ID: c.signalID(run, in.id), Run: run, Name: "go"}
		res, err := s.Signal(ctx, store.SignalParams{Namespace: c.ns, Signals: []store.NewSignal{sig}, Now: c.now})
		if err != nil {
			return out, nil, err
		}
		return out, res[0].Err, nil
	case "cancel":
		res, err := s.Cancel(ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{run}, Now: c.now})
		if err != nil {
			return out, nil, err
		}
		return answer{status: res[0].Status}, res[0].Err, nil
	case "get":
		runs, err := s.Get(ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{run}})
		if err != nil || len(runs) == 0 {
			return out, nil, err
		}
		out.epoch = runs[0].Epoch
		c.row(&out, &runs[0])
		out.worker = runs[0].Worker
	}
	return out, nil, nil
}

// ownQueue returns the run's own queue, so that a claim asks for this run alone.
func ownQueue(run store.ID) string { return "q-" + run.String() }

func (in request) duration() time.Duration { return time.Duration(in.span) * time.Microsecond }

func (in request) lease(run store.ID) store.Lease {
	return store.Lease{Run: run, Worker: in.worker, Epoch: in.epoch}
}

func (c *client) create(ctx context.Context, s store.Store, run store.ID, in request) (out answer, item, err error) {
	n := store.NewRun{ID: run, Workflow: kit.Workflow, Queue: ownQueue(run)}
	if in.span > 0 {
		n.Worker, n.LeaseFor = in.worker, in.duration()
	}
	res, err := s.Create(ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{n}, Now: c.now})
	if err != nil {
		return out, nil, err
	}
	return answer{yes: res[0].Created, epoch: res[0].Lease.Epoch}, res[0].Err, nil
}

func (c *client) claim(ctx context.Context, s store.Store, run store.ID, in request) (out answer, item, err error) {
	res, err := s.Claim(ctx, store.ClaimParams{
		Namespace: c.ns, Worker: in.worker, LeaseFor: in.duration(), Now: c.now,
		Demands: []store.Demand{{Queue: ownQueue(run), Workflows: []string{kit.Workflow}, Max: 1}},
	})
	if err != nil || len(res.Runs) == 0 {
		return out, nil, err
	}
	r := &res.Runs[0]
	out = answer{yes: r.Recovered, epoch: r.Lease.Epoch}
	c.row(&out, &r.Run)
	out.signals = c.numbers(run, r.Inbox.Signals)
	return out, nil, nil
}

func (c *client) commit(ctx context.Context, s store.Store, run store.ID, in request) (out answer, item, err error) {
	cm := store.Commit{Lease: in.lease(run), Seq: in.seq, Seen: in.seen, Crashes: in.crashes}
	for _, n := range split(in.consumed) {
		cm.Consumed = append(cm.Consumed, c.signalID(run, n))
	}
	if in.step {
		cm.Steps = []store.StepRecord{kit.Step(in.epoch<<20+in.seq, fmt.Sprintf("s%d.%d", in.epoch, in.seq), "")}
	}
	if in.end != 0 {
		cm.Transition = &store.Transition{Kind: in.end, After: in.duration()}
		if in.wakes {
			cm.Transition.Wakes = store.WakeSignal
		}
	}
	res, err := s.Commit(ctx, store.CommitParams{Namespace: c.ns, Commits: []store.Commit{cm}, Now: c.now})
	if err != nil {
		return out, nil, err
	}
	r := &res[0]
	if r.Err != nil {
		return out, r.Err, nil
	}
	return answer{yes: r.Repeated, status: r.Status, events: r.Events, visible: sinceBegan(r.VisibleAt)}, nil, nil
}

func (c *client) row(out *answer, r *store.Run) {
	out.status, out.events, out.visible = r.Status, r.Events, sinceBegan(r.VisibleAt)
	out.attempt, out.crashes = r.Attempt, r.Crashes
}

func sinceBegan(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Sub(kit.Began).Microseconds() + 1 // so that 0 is no time
}

// errorName returns the name of the sentinel error that an error matches.
func errorName(err error) string {
	for _, s := range kit.Sentinels {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return err.Error()
}

// reached counts what the clients saw.
func (h *history) reached() map[string]int {
	n := map[string]int{}
	slices.SortFunc(h.done, func(a, b timed) int { return int(a.from - b.from) })
	last := map[store.ID]int64{} // when the calls so far were done
	for _, op := range h.done {
		if op.from < last[op.run] {
			n["calls of one run at the same time"]++
		}
		last[op.run] = max(last[op.run], op.to)
		in, out := op.request, op.answer
		count := func(what string, saw bool) {
			if saw {
				n[what]++
			}
		}
		if out.unknown {
			n["unknown"]++
			continue
		}
		switch in.verb {
		case "create":
			count("made", out.epoch > 0)
			count("made already", out.epoch == 0 && in.span > 0)
		case "claim":
			count("claimed", out.epoch > 0)
			count("taken over", out.yes)
			count("nothing to claim", out.epoch == 0)
			count("claimed canceling", out.status == store.Canceling)
		case "commit":
			count("committed", out.err == "" && !out.yes)
			count("repeated", out.yes)
			count("lease lost", out.err != "")
			count("final", out.status.Final())
			count("sleeps", out.status == store.Sleeping)
			count("woken at once", out.status == store.Sleeping && out.visible == in.now+1)
		case "extend":
			count("extended", !out.yes)
			count("extension lost", out.yes)
			count("told to cancel", out.canceled)
		case "signal":
			count("signal sent", out.err == "")
			count("signal to a final run", out.err == store.ErrFinished.Error())
		case "cancel":
			count("canceled", out.status == store.Canceled)
			count("canceling", out.status == store.Canceling)
			count("cancel of a final run", out.err == store.ErrFinished.Error())
		case "get":
			count("canceling without a holder", out.status == store.Canceling && out.worker == "")
		}
	}
	return n
}

// check looks for an order of each run's operations. It reports a run that has none.
func (h *history) check(t testing.TB) bool {
	t.Helper()
	byRun := map[store.ID][]timed{}
	var runs []store.ID
	for _, op := range h.done {
		if byRun[op.run] == nil {
			runs = append(runs, op.run)
		}
		byRun[op.run] = append(byRun[op.run], op)
	}
	end := h.clock.Load() + 1
	for _, run := range runs {
		ops := withSightings(decidable(byRun[run]))
		slices.SortFunc(ops, func(a, b timed) int { return int(a.from - b.from) })
		var list []porcupine.Operation
		for i := range ops {
			if ops[i].answer.unknown {
				ops[i].to = end
			}
		}
		all := slices.Clone(ops)
		ops = slices.DeleteFunc(ops, func(op timed) bool { return op.foundNothing() && slices.ContainsFunc(all, op.mayPassOver) })
		for _, op := range ops {
			list = append(list, porcupine.Operation{ClientId: op.client, Input: op.request, Output: op.answer, Call: op.from, Return: op.to})
		}
		result, info := porcupine.CheckOperationsVerbose(sequential, list, undecided)
		if result == porcupine.Ok {
			continue
		}
		what := "has no sequential order"
		if result == porcupine.Unknown {
			what = fmt.Sprintf("was not decided within %v", undecided)
		}
		t.Errorf("%s of seed %d: the history of run %v %s\n%s%s", h.ns, h.seed, run, what, explain(ops, list, info), draw(t, info))
		return false
	}
	return true
}

// decidable leaves out reads without an answer, which prove nothing, and all phases from the first
// one in which too many answers were lost for the check. No call of an earlier phase ends in a
// later one, so what is left is a complete history.
func decidable(ops []timed) []timed {
	ops = slices.DeleteFunc(ops, func(op timed) bool { return op.answer.unknown && op.request.verb == "get" })
	lost := map[int64]int{} // by the Now of a phase
	for _, op := range ops {
		if op.answer.unknown {
			lost[op.request.now]++
		}
	}
	sum := 0
	for _, now := range slices.Sorted(maps.Keys(lost)) {
		if sum += lost[now]; sum > losses {
			return slices.DeleteFunc(ops, func(op timed) bool { return op.request.now >= now })
		}
	}
	return ops
}

// foundNothing reports whether a claim returned without the run.
func (op timed) foundNothing() bool {
	return op.request.verb == "claim" && !op.answer.unknown && op.answer == answer{}
}

// mayPassOver reports whether the claim may skip the run because the other call was writing to it
// at the same time. Then the claim proves nothing about the run.
func (op timed) mayPassOver(other timed) bool {
	return other.from < op.to && op.from < other.to && other.request.verb != "get" && !other.foundNothing()
}

// draw writes porcupine's visualization.
func draw(t testing.TB, info porcupine.LinearizationInfo) string {
	dir := t.TempDir()
	if a, ok := t.(interface{ ArtifactDir() string }); ok {
		dir = a.ArtifactDir()
	}
	path := filepath.Join(dir, "history.html")
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(porcupine.Visualize(sequential, info, f), f.Close())
	}
	if err != nil {
		return fmt.Sprintf("it could not be drawn: %v", err)
	}
	return fmt.Sprintf("drawn in %s (kept with go test -artifacts)", path)
}

// explain describes the longest order that was found, and the calls that do not fit after it.
func explain(ops []timed, list []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, part := range info.PartialLinearizations() {
		for _, ids := range part {
			if len(ids) > len(longest) {
				longest = ids
			}
		}
	}
	var b strings.Builder
	state := any(spec{})
	line := func(i int) {
		fmt.Fprintf(&b, "  client %d  %4d to %4d  %s\n", ops[i].client, list[i].Call, list[i].Return, describeCall(ops[i].request, ops[i].answer))
	}
	b.WriteString("the longest order that a sequential store explains:\n")
	placed := map[int]bool{}
	for _, i := range longest {
		placed[i] = true
		line(i)
		_, state = sequential.Step(state, list[i].Input, list[i].Output)
	}
	fmt.Fprintf(&b, "after it the run is %s\nwhat cannot follow:\n", describeSpec(state))
	shown := 0
	for i := range ops {
		if !placed[i] && shown < 20 {
			shown++
			line(i)
			ok, _ := sequential.Step(state, list[i].Input, answer{unknown: true})
			if want := expected(state.(spec), ops[i].request); ok && want != ops[i].answer {
				fmt.Fprintf(&b, "      expected %s\n", describeAnswer(ops[i].request, want))
			}
		}
	}
	return b.String()
}
