package conformance

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/pawlhq/pawl/store"
)

const (
	histories  = 20
	clients    = 8
	perHistory = 520 // operations
	phases     = 5   // of a history, between which time passes
	slots      = 3   // runs that are worked on at a time

	// undecided is how long the check of one run may take. A usual one takes a
	// millisecond.
	undecided = time.Minute
)

// RunLinearizable records histories of concurrent clients, over both handles of
// the harness, and checks for each run of a history that there is an order of
// the operations, agreeing with the order in which they were seen to be done,
// in which a sequential store would have given the same answers. What was
// canceled under way may have been applied at any later time or not at all. A
// check that finds no answer in time fails.
//
// The calls of a phase of a history have one Now and phases do not overlap, so
// that the order alone decides what an operation finds.
func RunLinearizable(t *testing.T, h Harness) {
	t.Helper()
	s := h.New(t)
	handles := [2]store.Store{s, s}
	if h.Reopen != nil {
		handles[1] = h.Reopen(t, s)
	}
	reached := map[string]int{}
	for i := range histories {
		hist := newHistory(handles, fmt.Sprintf("history-%d", i+1), rand.Uint64())
		hist.record(t.Context())
		if !hist.check(t) {
			return
		}
		for what, n := range hist.reached() {
			reached[what] += n
		}
	}
	var missed []string
	for _, what := range answers {
		t.Logf("%8d  %s", reached[what], what)
		if reached[what] == 0 {
			missed = append(missed, what)
		}
	}
	if len(missed) > 0 {
		t.Errorf("answers that no client got, so that nothing is said about them: %s", strings.Join(missed, ", "))
	}
}

// answers are what the clients of all histories together must have seen.
var answers = []string{
	"calls of one run at the same time",
	"made", "made already", "claimed", "taken over", "nothing to claim", "claimed canceling",
	"committed", "repeated", "lease lost", "final", "sleeps", "woken at once",
	"extended", "extension lost", "told to cancel", "signal sent", "signal to a final run", "canceled", "canceling", "canceling without a holder", "cancel of a final run", "unknown",
}

// request is what a client asks of a run, in its phase.
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
}

// answer is what comes back: of the run's row, the parts that a verb tells.
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

// timed is a call with its answer.
type timed struct {
	client   int
	run      store.ID
	request  request
	answer   answer
	from, to int64 // by the history's clock
}

// history is one under way.
type history struct {
	handles [2]store.Store
	ns      string
	seed    uint64
	clock   atomic.Int64 // counts calls and returns
	slots   [slots]slot

	mu   sync.Mutex
	done []timed
}

// slot is a place for one run after the other.
type slot struct {
	mu     sync.Mutex
	n      int // of the run
	run    store.ID
	made   bool
	leases []*known
	sent   int // signals
}

// known is a lease as the clients know it. They share what they know: so a
// zombie is any client that uses an old one.
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
		now := began.Add(time.Duration(phase) * time.Hour)
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

// client is one goroutine's part in a phase.
type client struct {
	*history
	n   int
	now time.Time
	rnd *rand.Rand
}

func (c *client) chance(percent int) bool { return c.rnd.IntN(100) < percent }

// act does one operation.
func (c *client) act(ctx context.Context) {
	sl := &c.slots[c.rnd.IntN(slots)]
	if c.chance(3) { // the answer, or the request, is lost
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go cancel()
	}
	sl.mu.Lock()
	run, made := sl.run, sl.made
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
	in := request{now: c.now.Sub(began).Microseconds(), worker: fmt.Sprintf("w%d", c.n)}
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
		in.end = store.Complete
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
		sl.run, sl.made, sl.leases, sl.sent = store.NewID(), false, nil, 0
	}
}

func (h *history) signalID(run store.ID, n int) store.SignalID {
	return store.DeriveID(run, fmt.Sprint("signal ", n))
}

// numbers lists signals as the calls name them.
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

// send makes the call, and says whether it may have been applied at all.
func (c *client) send(ctx context.Context, run store.ID, in request) (answer, bool) {
	s := c.handles[c.rnd.IntN(2)]
	queue := "q-" + run.String() // so that a claim asks for this run alone
	span := time.Duration(in.span) * time.Microsecond
	lease := store.Lease{Run: run, Worker: in.worker, Epoch: in.epoch}
	var out answer
	_, err := patient(ctx, func() (none, error) {
		out = answer{}
		item, err := func() (error, error) {
			switch in.verb {
			case "create":
				n := store.NewRun{ID: run, Workflow: aWorkflow, Queue: queue}
				if in.span > 0 {
					n.Worker, n.LeaseFor = in.worker, span
				}
				res, err := s.Create(ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{n}, Now: c.now})
				if err != nil {
					return nil, err
				}
				out.yes, out.epoch = res[0].Created, res[0].Lease.Epoch
				return res[0].Err, nil
			case "claim":
				res, err := s.Claim(ctx, store.ClaimParams{
					Namespace: c.ns, Worker: in.worker, LeaseFor: span, Now: c.now,
					Demands: []store.Demand{{Queue: queue, Workflows: []string{aWorkflow}, Max: 1}},
				})
				if err != nil || len(res.Runs) == 0 {
					return nil, err
				}
				r := &res.Runs[0]
				out = answer{yes: r.Recovered, epoch: r.Lease.Epoch}
				c.row(&out, &r.Run)
				out.signals = c.numbers(run, r.Inbox.Signals)
			case "commit":
				cm := store.Commit{Lease: lease, Seq: in.seq, Seen: in.seen, Crashes: in.crashes}
				for _, n := range split(in.consumed) {
					cm.Consumed = append(cm.Consumed, c.signalID(run, n))
				}
				if in.step {
					cm.Steps = []store.StepRecord{step(in.epoch<<20+in.seq, fmt.Sprintf("s%d.%d", in.epoch, in.seq), "")}
				}
				if in.end != 0 {
					cm.Transition = &store.Transition{Kind: in.end, After: span}
					if in.wakes {
						cm.Transition.Wakes = store.WakeSignal
					}
				}
				res, err := s.Commit(ctx, store.CommitParams{Namespace: c.ns, Commits: []store.Commit{cm}, Now: c.now})
				if err != nil {
					return nil, err
				}
				r := &res[0]
				if r.Err != nil {
					return r.Err, nil
				}
				out = answer{yes: r.Repeated, status: r.Status, events: r.Events, visible: sinceBegan(r.VisibleAt)}
			case "extend":
				res, err := s.Extend(ctx, store.ExtendParams{Namespace: c.ns, Worker: in.worker, Leases: []store.Lease{lease}, LeaseFor: span, Now: c.now})
				if err != nil {
					return nil, err
				}
				out = answer{yes: res[0].Lost, canceled: res[0].Canceling, events: res[0].Events}
			case "signal":
				sig := store.NewSignal{ID: c.signalID(run, in.id), Run: run, Name: "go"}
				res, err := s.Signal(ctx, store.SignalParams{Namespace: c.ns, Signals: []store.NewSignal{sig}, Now: c.now})
				if err != nil {
					return nil, err
				}
				return res[0].Err, nil
			case "cancel":
				res, err := s.Cancel(ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{run}, Now: c.now})
				if err != nil {
					return nil, err
				}
				out.status = res[0].Status
				return res[0].Err, nil
			case "get":
				runs, err := s.Get(ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{run}})
				if err != nil || len(runs) == 0 {
					return nil, err
				}
				out.epoch = runs[0].Epoch
				c.row(&out, &runs[0])
				out.worker = runs[0].Worker
			}
			return nil, nil
		}()
		if item != nil {
			if errors.Is(item, store.ErrUnavailable) || errors.Is(item, store.ErrOutcomeUnknown) {
				return none{}, item
			}
			out = answer{err: errorName(item)}
		}
		return none{}, err
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

func (c *client) row(out *answer, r *store.Run) {
	out.status, out.events, out.visible = r.Status, r.Events, sinceBegan(r.VisibleAt)
	out.attempt, out.crashes = r.Attempt, r.Crashes
}

func sinceBegan(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Sub(began).Microseconds() + 1 // so that 0 is no time
}

// errorName is the error's sentinel.
func errorName(err error) string {
	for _, s := range sentinels {
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

// check looks for an order of each run's operations; it reports a run that has
// none.
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
		ops := byRun[run]
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

// foundNothing tells of a claim that came back without the run.
func (op timed) foundNothing() bool {
	return op.request.verb == "claim" && !op.answer.unknown && op.answer == answer{}
}

// mayPassOver tells whether the claim may leave out the run for what the other call was
// writing to it at the same time. It says nothing about the run then.
func (op timed) mayPassOver(other timed) bool {
	return other.from < op.to && op.from < other.to && other.request.verb != "get" && !other.foundNothing()
}

// draw writes porcupine's drawing.
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

// explain writes the longest order that was found and what does not fit behind
// it.
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
