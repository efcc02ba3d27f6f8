package random

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/conformance/internal/ops"
	"github.com/pawlhq/pawl/store"
)

// The names of a sequence: few, so that operations meet.
var (
	randomNamespaces = []string{"a", "b"}
	randomQueues     = []string{"q1", "q2"}
	randomWorkflows  = []string{"f1", "f2"}
	randomWorkers    = []string{"w1", "w2", "w3"}
	randomGroups     = []string{"g", "h"}
	randomKeys       = []string{"k1", "k2", "K1"}
	randomSchedules  = []string{"s1", "s2"}
)

// operations are drawn evenly. Frequent operations are listed several times, and simple ones first.
var operations = slices.Concat(
	times(11, (*sequence).create),
	times(15, (*sequence).claim),
	times(38, (*sequence).commit),
	times(4, (*sequence).extend),
	times(6, (*sequence).signal),
	times(4, (*sequence).setState),
	times(5, (*sequence).cancel),
	times(3, (*sequence).pause),
	times(2, (*sequence).unpin),
	times(3, (*sequence).resume),
	times(4, (*sequence).restart),
	times(4, (*sequence).fork),
	times(2, (*sequence).purge),
	times(2, (*sequence).setPaused),
	times(4, (*sequence).putSchedule),
	times(7, (*sequence).fire),
	times(1, (*sequence).deleteSchedule),
	times(4, (*sequence).lock),
	times(3, (*sequence).workers),
	times(1, (*sequence).workflows),
	times(8, (*sequence).read),
	times(7, (*sequence).subscriptions),
)

func times(n int, op func(*sequence)) []func(*sequence) {
	return slices.Repeat([]func(*sequence){op}, n)
}

// streamBranches are those of a backend that has streams.
var streamBranches = []string{"append", "append repeated", "append refused", "items superseded"}

// treeBranches are those of a backend that counts trees.
var treeBranches = []string{"tree of levels"}

// randomBranches are the branches that the sequences together must reach.
var randomBranches = []string{
	"claim takes several runs", "claim finds nothing", "claim leaves some that are due", "claim tells the next due time", "claim of a canceling run",
	"claim by a bound in bytes", "bare claim", "inbox goes on", "claim with several demands",
	"takeover by another worker", "own lease taken again", "second crash in a row",
	"eager lease", "eager lease repeated", "no eager lease on a paused queue", "create repeated", "external id taken", "debounced start found its run", "id of another namespace",
	"commit keeps the lease", "commit keeps crashes", "commit repeated", "commit repeated after its transition", "commit under a lost lease", "commit over a gap", "commit refused as invalid", "commit refused as too large",
	"one run twice in a batch", "batch of commits",
	"complete", "fail", "cancel", "sleep", "retry", "release", "continue",
	"sleep ends at once for an unseen event", "sleep on an await that is met", "sleep until an await", "sleep cut by the deadline", "sleep of a canceling run",
	"retry forgets steps", "signal consumed", "answer read",
	"child's end wakes parent", "children follow a final parent", "child leaves its group", "child spawned again",
	"extend holds", "extend finds the lease lost", "extend tells canceling", "extend tells pausing",
	"start with a signal", "start with a signal reaches a run", "start with a signal meets a final run", "start with a signal meets another workflow", "start with a signal repeated after the end",
	"signal wakes sleeper", "signal repeated", "signal by external id", "signal to a final run",
	"state wakes sleeper", "state compare fails", "state compare holds",
	"cancel of a tree", "cancel of a leased run", "cancel of a run with records", "cancel of a finished run", "cancel repeated", "completion wins over cancel",
	"pause", "pausing run pauses at its transition", "event for a paused sleeper", "resume", "give back", "pinned by a commit", "claim of a pinned run", "unpin", "restart", "restart refused", "restart meets its external id",
	"fork", "fork before a step", "fork repeated", "purge", "purge keeps children of live parents",
	"schedule replaced", "fired", "fired again", "fired too early", "fired without a run", "fire of an edited schedule", "fired onto a taken external id",
	"lock held by another", "lock taken over", "worker offline", "worker asked", "page goes on",
}

func (q *sequence) someNS() string {
	if q.chance(15) {
		return q.ns("b")
	}
	return q.ns("a")
}

// someRun picks a run that exists, or sometimes any ID.
func (q *sequence) someRun() store.ID { return q.runLike(func(store.Run) bool { return true }) }

// runLike picks a run of that kind, if there is one.
func (q *sequence) runLike(like func(store.Run) bool) store.ID {
	if !q.chance(8) {
		if fit := q.known(like); len(fit) > 0 {
			return of(q, fit...).ID
		}
	}
	return of(q, q.ids...)
}

// known lists the runs that exist and fit.
func (q *sequence) known(fits func(store.Run) bool) []store.Run {
	var known []store.Run
	for _, id := range q.ids {
		if r, ok := q.before[id]; ok && fits(r) {
			known = append(known, r)
		}
	}
	return known
}

// nsOf returns the run's namespace, or sometimes the other one.
func (q *sequence) nsOf(id store.ID) string {
	if r, ok := q.before[id]; ok && !q.chance(6) {
		return r.Namespace
	}
	return q.someNS()
}

// free lists the IDs that no run has. They include those of purged runs, except parents of runs
// that still exist (NewID and DeriveID do not return such an ID again).
func (q *sequence) free() []store.ID {
	taken := map[store.ID]bool{}
	for id, r := range q.before {
		taken[id], taken[r.Parent] = true, true
	}
	return slices.DeleteFunc(slices.Clone(q.ids), func(id store.ID) bool { return taken[id] || q.used[id] })
}

// freshID picks an ID that no run has or, in the given percentage of cases, the ID of a run.
func (q *sequence) freshID(again int) store.ID {
	free := q.free()
	if len(free) == 0 || len(q.before) > 0 && q.chance(again) {
		var taken []store.ID
		for _, id := range q.ids {
			if _, ok := q.before[id]; ok {
				taken = append(taken, id)
			}
		}
		return of(q, taken...)
	}
	id := of(q, free...)
	q.used[id] = true // in this operation
	return id
}

var (
	smallPayloads = [][]byte{nil, []byte("x"), {}, {0}, {0xff, 0xfe, 0}, []byte("it's {\"json\":1}\n")}
	longPayload   = []byte(longText())
)

func longText() string {
	b := make([]byte, 700)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return string(b)
}

func (q *sequence) payload() []byte {
	i := q.pick(40)
	switch {
	case i == 39 && q.chance(30):
		return make([]byte, q.limits.Payload+1)
	case i >= 34:
		return longPayload
	}
	return smallPayloads[i%len(smallPayloads)]
}

func (q *sequence) span() time.Duration {
	return of(q, time.Second, time.Minute, 10*time.Second, time.Hour, time.Microsecond, 1500*time.Nanosecond, 700*time.Nanosecond)
}

func (q *sequence) instant() time.Time {
	return q.now.Add(of(q, time.Minute, time.Second, 0, -time.Second, time.Hour, time.Microsecond, 1500*time.Nanosecond))
}

func (q *sequence) failure() *store.Failure {
	return of(q,
		&store.Failure{Code: "error", Message: "went wrong"},
		&store.Failure{Code: "panic", Message: "", Type: "*T", Stack: "a\nb", Details: []byte{0, 0xff}, Permanent: true},
		&store.Failure{Code: "", Message: "\x00é", Details: []byte{}},
	)
}

func (q *sequence) newRun(again int) store.NewRun {
	r := store.NewRun{
		ID: q.freshID(again), Workflow: of(q, "f1", "f1", "f2"), Queue: of(q, "q1", "q1", "q2"), Input: q.payload(),
	}
	if q.chance(20) {
		r.Meta = of(q, smallPayloads...)
	}
	if q.chance(25) {
		r.Priority = of(q, 5, -5, store.MaxPriority, store.MinPriority)
	}
	if q.chance(15) {
		r.After = q.span()
	}
	if q.chance(10) {
		r.At = q.instant()
	}
	if q.chance(15) {
		r.Timeout = q.span()
	}
	r.Tags = q.tags()
	return r
}

// ownRun returns a run without a parent, perhaps with an external id or an eager lease.
func (q *sequence) ownRun() store.NewRun {
	r := q.newRun(12)
	if q.chance(35) {
		r.ExternalID = of(q, "e1", "e2", "E1")
		r.Suffix = of(q, "", "", "x")
		if q.chance(40) {
			r.Reuse = store.ReuseNever
		}
		r.MustBeNew = q.chance(10)
	}
	if q.chance(20) {
		r.Digest = kit.Digest(of[byte](q, 1, 1, 2), of(q, "a", "b"))
	}
	if q.chance(25) {
		r.Worker, r.LeaseFor, r.Build = of(q, randomWorkers...), q.span(), of(q, randomBuilds...)
		if !q.chance(5) {
			r.After, r.At = 0, time.Time{}
		}
	}
	if r.ExternalID == "" && q.chance(25) {
		r.Debounce = of(q, "d1", "d2", "D1")
		if !q.chance(5) {
			r.Worker, r.LeaseFor, r.Build, r.Digest, r.MustBeNew = "", 0, "", nil, false
		}
		if q.chance(40) {
			r.AtMost = q.span()
		}
	}
	if r.ExternalID != "" && q.chance(50) {
		r.Signal = &store.StartSignal{ID: of(q, q.sigs...), Name: of(q, "go", "stop"), Payload: q.payload()}
		if !q.chance(5) {
			r.Worker, r.LeaseFor, r.Build, r.MustBeNew = "", 0, "", false
		}
		if n := len(q.signaled); n > 0 && q.chance(30) { // once more, perhaps after the end of its run
			was := q.signaled[q.pick(n)]
			r.ExternalID, r.Suffix, r.Workflow, r.Reuse, r.Signal = was.ExternalID, was.Suffix, was.Workflow, was.Reuse, was.Signal
		} else if final := q.known(func(r store.Run) bool { return r.Status.Final() && r.ExternalID != "" }); len(final) > 0 && q.chance(30) {
			was := of(q, final...)
			r.ExternalID, r.Suffix, r.Workflow = was.ExternalID, was.Suffix, was.Workflow
		}
	}
	if q.chance(2) {
		r.Queue = ""
	}
	return r
}

// startedWith notes what became of a start with a signal.
func (q *sequence) startedWith(n *store.NewRun, x store.CreateResult, existed bool) {
	switch {
	case is(x.Err, store.ErrFinished):
		q.hit("start with a signal meets a final run")
	case is(x.Err, store.ErrConflict):
		q.hit("start with a signal meets another workflow")
	case x.Err != nil:
	case x.Created && !existed:
		q.hit("start with a signal")
		q.signaled = append(q.signaled, *n)
	case q.before[x.ID].Status.Final():
		q.hit("start with a signal repeated after the end")
	case !x.Created:
		q.hit("start with a signal reaches a run")
	}
}

// depend reports whether the outcome of two items of a call depends on which of them a store takes first: one
// ID stands for one request, with a key or without, and of items of one external id those with a signal may
// come before the others or after them, also those whose ID another run has.
func (q *sequence) depend(a, b *store.NewRun) bool {
	if a.ID == b.ID && (a.Debounce != b.Debounce || a.Workflow != b.Workflow || a.Signal != nil || b.Signal != nil) {
		return true
	}
	if a.ExternalID == "" || a.ExternalID != b.ExternalID || a.Suffix != b.Suffix || a.Signal == nil && b.Signal == nil {
		return false
	}
	taken := func(r *store.NewRun) bool { _, ok := q.before[r.ID]; return ok }
	return a.Signal == nil || b.Signal == nil || taken(a) || taken(b)
}

func (q *sequence) create() {
	if len(q.free()) < 3 && !q.chance(20) {
		q.commit()
		return
	}
	p := store.CreateParams{Namespace: q.someNS(), Now: q.now}
	for range 1 + q.pick(3) {
		r := q.ownRun()
		if was, ok := q.before[r.ID]; ok && q.chance(60) { // just as it was sent before, as far as is known
			p.Namespace = was.Namespace
			if was.Epoch == 1 && was.Worker != "" {
				r.Worker, r.LeaseFor, r.After, r.At, r.Debounce, r.AtMost = was.Worker, time.Minute, 0, time.Time{}, "", 0
			}
		}
		if !slices.ContainsFunc(p.Runs, func(o store.NewRun) bool { return q.depend(&o, &r) }) {
			p.Runs = append(p.Runs, r)
		}
	}
	res, err := do(q, "Create", p, store.Store.Create)
	if err != nil {
		return
	}
	for i, x := range res {
		n := &p.Runs[i]
		_, existed := q.before[n.ID]
		if n.Signal != nil {
			q.startedWith(n, x, existed)
		}
		switch {
		case is(x.Err, store.ErrAlreadyExists):
			q.hit("id of another namespace")
		case x.Err != nil:
		case !x.Created && n.Debounce != "":
			q.hit("debounced start found its run")
		case !x.Created:
			q.hit("external id taken")
		case x.Lease.Epoch > 0 && existed:
			q.hit("eager lease repeated")
		case x.Lease.Epoch > 0:
			q.hit("eager lease")
			q.held = append(q.held, &ops.Holding{NS: p.Namespace, Lease: x.Lease})
		case existed:
			q.hit("create repeated")
		case n.Worker != "":
			q.hit("no eager lease on a paused queue")
		}
	}
	q.learn("Create")
}

func (q *sequence) demands() []store.Demand {
	// No two demands ask for the same runs, because the contract does not say for which of them a
	// run counts.
	if q.chance(35) {
		some := func() []string { return of(q, randomWorkflows, []string{"f1"}, []string{"f2"}, nil) }
		out := []store.Demand{{Queue: of(q, randomQueues...), Workflows: some(), Max: q.pick(4)}}
		if q.chance(60) {
			other := map[string]string{"q1": "q2", "q2": "q1"}[out[0].Queue]
			if q.chance(30) {
				out[0].MoreQueues = []string{other}
				return out
			}
			out = append(out, store.Demand{Queue: other, Workflows: some(), Max: q.pick(4)})
		}
		return out
	}
	return []store.Demand{
		{Queue: "q1", Workflows: randomWorkflows, Max: 1 + q.pick(4)},
		{Queue: "q2", Workflows: randomWorkflows, Max: 1 + q.pick(3)},
	}
}

func (q *sequence) claim() {
	p := store.ClaimParams{Namespace: q.someNS(), Worker: of(q, randomWorkers...), Demands: q.demands(), LeaseFor: time.Hour, Build: of(q, randomBuilds...), Now: q.now}
	if q.chance(60) {
		p.LeaseFor = q.span()
	}
	if q.chance(20) {
		p.Max = 1 + q.pick(2)
	}
	if q.chance(30) {
		p.MaxBytes = of(q, 1, 2) // more is about where a failure counts
	}
	p.Bare = q.chance(5)
	bounded := 0
	res, err := do(q, "Claim", p, func(s store.Store, ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
		res, err := ops.Claimed(s, ctx, p)
		if err == nil && p.MaxBytes > 0 && !p.Bare {
			bounded, err = withoutSteps(ctx, s, &p, res.Runs)
		}
		return res, err
	})
	if err != nil {
		return
	}
	if slices.ContainsFunc(res.Runs, func(r store.ClaimedRun) bool { return r.Run.Pin != nil }) {
		q.hit("claim of a pinned run")
	}
	if bounded > 0 {
		q.hit("claim by a bound in bytes")
	}
	if p.Bare && len(res.Runs) > 0 {
		q.hit("bare claim")
	}
	switch len(res.Runs) {
	case 0:
		q.hit("claim finds nothing")
	case 1:
	default:
		q.hit("claim takes several runs")
	}
	if !res.NextDue.IsZero() {
		q.hit("claim tells the next due time")
		if !res.NextDue.After(res.Now) {
			q.hit("claim leaves some that are due")
		}
	}
	queues := map[string]bool{}
	for _, r := range res.Runs {
		queues[r.Run.Queue] = true
		was := q.before[r.Run.ID]
		switch {
		case r.Recovered && was.Worker == p.Worker:
			q.hit("own lease taken again")
		case r.Recovered:
			q.hit("takeover by another worker")
		}
		if r.Run.Status == store.Canceling {
			q.hit("claim of a canceling run")
		}
		h := &ops.Holding{NS: p.Namespace, Lease: r.Lease, Seen: r.Inbox.Events}
		for _, sig := range r.Inbox.Signals {
			h.Signals = append(h.Signals, sig.ID)
		}
		q.held = append(q.held, h)
	}
	if len(queues) > 1 {
		q.hit("claim with several demands")
	}
	q.learn("Claim")
}

// withoutSteps checks the steps and inboxes that a bounded claim returned, removes the steps, and
// puts in the whole inboxes. Where the bound cuts is up to the store, as long as each run has its
// first steps and says whether there are more. It returns how many were cut.
func withoutSteps(ctx context.Context, s store.Store, p *store.ClaimParams, runs []store.ClaimedRun) (cut int, err error) {
	all, brought := 0, 0
	signals, state := 0, 0
	for i := range runs {
		r := &runs[i]
		in, err := ops.Inbox(s, ctx, store.InboxParams{Namespace: p.Namespace, Run: r.Run.ID})
		if err != nil {
			return 0, err
		}
		if n := len(r.Inbox.Signals); n > len(in.Signals) || r.Inbox.MoreSignals != (n < len(in.Signals)) || n > 0 && !reflect.DeepEqual(r.Inbox.Signals, in.Signals[:n]) {
			return 0, fmt.Errorf("%d of %d signals came along, and MoreSignals is %v", n, len(in.Signals), r.Inbox.MoreSignals)
		}
		if n := len(r.Inbox.State); n > len(in.State) || r.Inbox.MoreState != (n < len(in.State)) || n > 0 && !reflect.DeepEqual(r.Inbox.State, in.State[:n]) {
			return 0, fmt.Errorf("%d of %d entries came along, and MoreState is %v", n, len(in.State), r.Inbox.MoreState)
		}
		for _, sig := range r.Inbox.Signals {
			signals += len(sig.Payload)
		}
		for _, e := range r.Inbox.State {
			state += len(e.Value)
		}
		in.Status, in.Events = r.Inbox.Status, r.Inbox.Events
		r.Inbox = in
		steps, err := ops.Steps(s, ctx, store.StepsParams{Namespace: p.Namespace, Run: r.Run.ID, Limit: store.MaxPage})
		if err != nil {
			return 0, err
		}
		if len(r.Steps) > len(steps) || r.MoreSteps != (len(r.Steps) < len(steps)) {
			return 0, fmt.Errorf("%d of %d steps came along, and MoreSteps is %v", len(r.Steps), len(steps), r.MoreSteps)
		}
		for j, st := range steps {
			all += len(st.Output)
			if st.Failure != nil || len(st.Earlier) > 0 {
				all += store.MaxFailure // they count as they are stored
			}
			if j >= len(r.Steps) {
				continue
			}
			brought += len(st.Output)
			if !reflect.DeepEqual(st, r.Steps[j]) {
				return 0, fmt.Errorf("step %d came along as %+v, but is %+v", j, r.Steps[j], st)
			}
		}
		if r.MoreSteps {
			cut++
		}
		r.Steps, r.MoreSteps = nil, false
	}
	if signals > p.MaxBytes || state > p.MaxBytes {
		return 0, fmt.Errorf("%d bytes of signals and %d of state came along, with a bound of %d", signals, state, p.MaxBytes)
	}
	if brought > p.MaxBytes || cut > 0 && all <= p.MaxBytes {
		return 0, fmt.Errorf("%d of %d bytes came along, with a bound of %d", brought, all, p.MaxBytes)
	}
	return cut, nil
}

// live reports whether the holding is the run's present lease.
func (q *sequence) live(h *ops.Holding) bool {
	r, ok := q.before[h.Lease.Run]
	return ok && r.Epoch == h.Lease.Epoch && r.Worker == h.Lease.Worker
}

// someHolding picks a present lease, or sometimes a past one. It returns nil if there are none.
func (q *sequence) someHolding(past int) *ops.Holding {
	if len(q.held) == 0 {
		return nil
	}
	if !q.chance(past) {
		var live []*ops.Holding
		for _, h := range q.held {
			if q.live(h) {
				live = append(live, h)
			}
		}
		if len(live) > 0 {
			return of(q, live...)
		}
	}
	return of(q, q.held...)
}

func (q *sequence) extend() {
	h := q.someHolding(25)
	if h == nil {
		return
	}
	p := store.ExtendParams{Namespace: h.NS, Worker: h.Lease.Worker, Leases: []store.Lease{h.Lease}, LeaseFor: q.span(), Now: q.now}
	for range q.pick(3) {
		p.Leases = append(p.Leases, q.someHolding(40).Lease)
	}
	if q.chance(8) {
		p.Worker = of(q, randomWorkers...)
	}
	for _, h := range q.held {
		if r := q.before[h.Lease.Run]; q.live(h) && r.Worker == p.Worker && (r.Pausing || r.Status == store.Canceling) && q.chance(60) {
			p.Leases = append(p.Leases, h.Lease) // it has something to hear
		}
	}
	res, err := do(q, "Extend", p, store.Store.Extend)
	if err != nil {
		return
	}
	for _, st := range res {
		if st.Lost {
			q.hit("extend finds the lease lost")
			continue
		}
		q.hit("extend holds")
		if st.Canceling {
			q.hit("extend tells canceling")
		}
		if st.Pausing {
			q.hit("extend tells pausing")
		}
	}
	q.learn("Extend")
}

func (q *sequence) stepRecord(h *ops.Holding) store.StepRecord {
	rec := store.StepRecord{
		StepKey: store.StepKey{Branch: of(q, "", "", "b", "b/c", "d"), Name: of(q, "s1", "s2", "S1"), Occurrence: 1 + q.pick(2)},
		Kind:    store.KindFunction, Status: of(q, store.StepCompleted, store.StepCompleted, store.StepFailed, store.StepPending, store.StepRunning),
		Index: q.pick(3), Attempt: 1 + q.pick(3), Output: q.payload(),
	}
	if q.chance(25) {
		rec.Kind = of(q, store.KindSleep, store.KindSignal, store.KindChild, store.KindMap, store.KindGenerator, store.KindValue, store.KindState, store.KindMark)
	}
	q.position++ // a new one for each key is the caller's duty
	rec.Position = q.position
	if rec.Status == store.StepFailed || rec.Status == store.StepPending {
		rec.Failure = q.failure()
	}
	if q.chance(30) {
		rec.Took = q.span()
	}
	if q.chance(10) {
		rec.StartedAt = q.instant()
	}
	for range q.pick(3) {
		if q.chance(20) {
			rec.Earlier = append(rec.Earlier, store.FailedAttempt{Attempt: 1 + q.pick(3), StartedAt: q.instant(), Code: of(q, "", "error"), Message: of(q, "", "no money")})
		}
	}
	if q.chance(20) {
		rec.DueIn = q.span()
	}
	if q.chance(10) {
		rec.DueAt = q.instant()
	}
	return rec
}

func (q *sequence) child(parent store.ID) []store.NewRun {
	c := q.newRun(2)
	if q.chance(35) { // again
		var kids []store.ID
		for _, id := range q.ids {
			if q.before[id].Parent == parent {
				kids = append(kids, id)
			}
		}
		if len(kids) > 0 {
			c.ID = of(q, kids...)
		}
	}
	if r, ok := q.before[c.ID]; ok && r.Parent != parent {
		return nil // a stranger's: the contract does not say what becomes of it
	}
	if !q.chance(15) { // no two of a group have one place
		c.Group, c.Ordinal = of(q, "g", "g", "h"), int64(1+slices.Index(q.ids, c.ID))
	}
	if q.chance(25) {
		c.OnClose = store.CloseAbandon
	}
	if q.chance(60) {
		c.After, c.At = 0, time.Time{}
	}
	return []store.NewRun{c}
}

func (q *sequence) stateWrites() []store.StateWrite {
	var out []store.StateWrite
	for _, key := range randomKeys {
		switch q.pick(6) {
		case 4:
			out = append(out, store.StateWrite{Key: key, Value: q.payload()})
		case 5:
			out = append(out, store.StateWrite{Key: key, Delete: true})
		}
	}
	if len(out) > 0 && q.chance(3) {
		out = append(out, out[0])
	}
	return out
}

func (q *sequence) transition() *store.Transition {
	kinds := []store.TransitionKind{
		store.CompleteRun, store.CompleteRun, store.CompleteRun, store.Sleep, store.Sleep, store.Sleep, store.Sleep, store.Sleep,
		store.Retry, store.Retry, store.FailRun, store.FailRun, store.Release, store.Continue, store.CancelRun,
	}
	i := q.pick(len(kinds) + 7)
	if i >= len(kinds) {
		return nil
	}
	t := &store.Transition{Kind: kinds[i]}
	switch t.Kind {
	case store.CompleteRun:
		t.Output = q.payload()
	case store.FailRun:
		t.Failure = q.failure()
	case store.CancelRun:
		if q.chance(50) {
			t.Failure = q.failure()
		}
	case store.Continue:
		t.Input = q.payload()
	case store.Retry:
		if !q.chance(15) {
			t.Failure = q.failure()
		}
		q.due(t)
	case store.Release:
		if q.chance(20) {
			t.Failure = q.failure()
		}
		if q.chance(40) {
			q.due(t)
		}
	case store.Sleep:
		t.Wakes = of(q, store.WakeSignal|store.WakeState, store.WakeSignal, 0, store.WakeState)
		if q.chance(45) {
			for range 1 + q.pick(2) {
				t.Await = append(t.Await, store.Await{Group: of(q, randomGroups...), Open: int64(q.pick(2)), Failures: int64(q.pick(3))})
			}
		}
		if q.chance(50) {
			q.due(t)
		}
	}
	return t
}

func (q *sequence) due(t *store.Transition) {
	if q.chance(60) {
		t.After = q.span()
	}
	if q.chance(30) {
		t.At = q.instant()
	}
}

func (q *sequence) someCommit(h *ops.Holding) store.Commit {
	c := store.Commit{Lease: h.Lease, Seq: h.Seq + 1, Seen: h.Seen}
	switch q.pick(24) {
	case 20, 21:
		c.Seq = h.Seq // a repeat, or 0
	case 22:
		c.Seq += 2
	case 23:
		c.Seq = 1
	}
	switch q.pick(13) {
	case 9:
		c.Seen = 0
	case 10:
		c.Seen = max(0, c.Seen-1)
	case 11:
		c.Seen += 3
	}
	if q.chance(4) {
		c.Lease.Epoch--
	}
	if q.chance(3) {
		c.Lease.Worker = of(q, randomWorkers...)
	}
	if q.chance(55) {
		for range 1 + q.pick(3) {
			c.Steps = append(c.Steps, q.stepRecord(h))
		}
	}
	if q.chance(25) {
		c.State = q.stateWrites()
	}
	for _, id := range h.Signals {
		if q.chance(40) {
			c.Consumed = append(c.Consumed, id)
		}
	}
	if q.chance(5) {
		c.Consumed = append(c.Consumed, of(q, q.sigs...))
	}
	for _, id := range append(slices.Clone(c.Consumed), q.sigs...) {
		if q.chance(15) && !slices.ContainsFunc(c.Answers, func(a store.Answer) bool { return a.Signal == id }) {
			c.Answers = append(c.Answers, of(q, store.Answer{Signal: id, Output: []byte(fmt.Sprint(c.Seq))}, store.Answer{Signal: id}, store.Answer{Signal: id, Failure: &store.Failure{Code: "no"}}))
		}
	}
	c.Transition = q.transition()
	if c.Transition == nil || c.Transition.Kind == store.Release || q.chance(2) {
		c.Crashes = of(q, 0, 0, 1, 2, 1<<20, 0)
	}
	if q.chance(12) {
		c.Pin = q.pin()
	}
	if q.chance(10) {
		return store.Commit{Lease: c.Lease, Seq: c.Seq, Seen: c.Seen, Pin: q.pin(), Transition: &store.Transition{Kind: store.GiveBack}}
	}
	if q.chance(15) {
		c.Tags = q.tags()
	}
	if q.streams() && q.chance(20) {
		c.Streams = append(c.Streams, q.streamWrite())
	}
	if q.chance(40) && len(q.free()) > 3 {
		for range 1 + q.pick(3) {
			c.Spawn = append(c.Spawn, q.child(h.Lease.Run)...)
		}
		if len(c.Spawn) == 0 {
			return c
		}
		if g := c.Spawn[0].Group; g != "" && q.chance(40) { // and wait for them
			c.Crashes, c.Transition = 0, &store.Transition{Kind: store.Sleep, Wakes: of(q, 0, store.WakeSignal), Await: []store.Await{{Group: g, Failures: int64(q.pick(2))}}}
		}
	}
	return c
}

// streams reports whether the backend has streams.
func (q *sequence) streams() bool { return store.Able(q.handles[0], store.Streams) }

// streamWrite is a write of one of a few attempts of a few steps.
func (q *sequence) streamWrite() store.StreamWrite {
	return store.StreamWrite{
		Stream: of(q, "t", "t", "T"), Step: of(q, store.StepKey{Name: "s1", Occurrence: 1}, store.StepKey{Branch: "b", Name: "s1", Occurrence: 2}),
		Attempt: q.pick(3), First: of[int64](q, 1, 1, 1, 2, 3), Items: of(q, [][]byte{[]byte("x")}, [][]byte{nil, {}}, [][]byte{[]byte("y"), []byte("z")}),
	}
}

// appends appends to a stream at once.
func (q *sequence) appends() {
	h := q.someHolding(12)
	if h == nil {
		return
	}
	p := store.AppendParams{Namespace: h.NS, Lease: h.Lease, StreamWrite: q.streamWrite()}
	if n := len(q.appended); n > 0 {
		was := q.appended[n-1-q.pick(min(3, n))]
		switch {
		case q.chance(45): // the answer was lost
			p = was
		case q.chance(25) && was.Lease.Run == h.Lease.Run: // the step is tried again
			p.StreamWrite = was.StreamWrite
			p.First, p.Attempt = 1, p.Attempt+1
		}
	}
	p.Now = q.now
	res, err := do(q, "Append", p, func(s store.Store, ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
		return s.(store.Streamer).Append(ctx, p)
	})
	switch {
	case err == nil && res.Repeated:
		q.hit("append repeated")
	case err == nil:
		q.hit("append")
		q.appended = append(q.appended, p)
	case is(err, store.ErrLeaseLost):
		q.hit("append refused")
	}
}

func (q *sequence) commit() {
	if q.streams() && q.chance(20) {
		q.appends()
	}
	p := store.CommitParams{Now: q.now}
	if len(q.commits) > 0 && q.chance(12) { // the answer was lost
		again := q.commits[len(q.commits)-1-q.pick(min(3, len(q.commits)))]
		p.Namespace = again.ns
		p.Commits = append(p.Commits, again.commit)
	} else {
		h := q.someHolding(12)
		if h == nil {
			return
		}
		p.Namespace = h.NS
		p.Commits = append(p.Commits, q.someCommit(h))
		for range max(0, q.pick(6)-3) {
			p.Commits = append(p.Commits, q.someCommit(q.someHolding(30)))
		}
	}
	res, err := do(q, "Commit", p, store.Store.Commit)
	if err != nil {
		return
	}
	seen := map[store.ID]bool{}
	applied := 0
	for i := range p.Commits {
		c := &p.Commits[i]
		if seen[c.Lease.Run] {
			q.hit("one run twice in a batch")
		} else if res[i].Err == nil && !res[i].Repeated {
			applied++
		}
		seen[c.Lease.Run] = true
		q.committed(p.Namespace, c, &res[i])
	}
	if applied > 1 {
		q.hit("batch of commits")
	}
	q.learn("Commit")
}

// committed learns from one commit's result.
func (q *sequence) committed(ns string, c *store.Commit, res *store.CommitResult) {
	was := q.before[c.Lease.Run]
	switch {
	case is(res.Err, store.ErrLeaseLost) && was.Worker == c.Lease.Worker && was.Epoch == c.Lease.Epoch:
		q.hit("commit over a gap")
		return
	case is(res.Err, store.ErrLeaseLost):
		q.hit("commit under a lost lease")
		return
	case is(res.Err, store.ErrTooLarge):
		q.hit("commit refused as too large")
		return
	case res.Err != nil:
		q.hit("commit refused as invalid")
		return
	case res.Repeated && was.Worker == "":
		q.hit("commit repeated after its transition")
		return
	case res.Repeated:
		q.hit("commit repeated")
		return
	}
	q.commits = append(q.commits, sent{ns, *c})
	for _, h := range q.held {
		if h.Lease == c.Lease {
			h.Seq, h.Seen = c.Seq, res.Events
			for _, id := range c.Consumed {
				if slices.Contains(h.Signals, id) {
					q.hit("signal consumed")
				}
			}
			h.Signals = slices.DeleteFunc(h.Signals, func(id store.SignalID) bool { return slices.Contains(c.Consumed, id) })
		}
	}
	for _, n := range c.Spawn {
		if _, ok := q.before[n.ID]; ok {
			q.hit("child spawned again")
		}
	}
	if c.Crashes > 0 {
		q.hit("commit keeps crashes")
	}
	t := c.Transition
	if c.Pin != nil && (t == nil || t.Kind != store.GiveBack) {
		q.hit("pinned by a commit")
	}
	if t == nil {
		q.hit("commit keeps the lease")
		return
	}
	q.hit(t.Kind.String())
	switch {
	case t.Kind == store.Retry && len(c.Steps) > 0 && slices.ContainsFunc(c.Steps, func(s store.StepRecord) bool { return s.Status == store.StepFailed }):
		q.hit("retry forgets steps")
	case t.Kind != store.Sleep:
	case was.Status == store.Canceling:
		q.hit("sleep of a canceling run")
	case was.Events > c.Seen:
		q.hit("sleep ends at once for an unseen event")
	case !res.VisibleAt.IsZero() && res.VisibleAt.Equal(was.Deadline):
		q.hit("sleep cut by the deadline")
	case len(t.Await) > 0 && res.VisibleAt.Equal(q.now.Truncate(time.Microsecond)):
		q.hit("sleep on an await that is met")
	case len(t.Await) > 0:
		q.hit("sleep until an await")
	}
}

func (q *sequence) signal() {
	p := store.SignalParams{Now: q.now}
	sameRun := q.chance(30)
	for i := range 1 + q.pick(3) {
		n := store.NewSignal{ID: of(q, q.sigs...), Name: of(q, "go", "stop"), Payload: q.payload()}
		if sameRun && i > 0 {
			n.Run, n.ExternalID, n.Suffix = p.Signals[0].Run, p.Signals[0].ExternalID, p.Signals[0].Suffix
		} else if q.chance(25) {
			n.ExternalID, n.Suffix = of(q, "e1", "e2", "E1"), of(q, "", "", "x")
			p.Namespace = q.ns("a")
		} else {
			like := func(r store.Run) bool { return !r.Status.Final() }
			switch q.pick(10) {
			case 6:
				like = func(r store.Run) bool { return r.Status.Final() }
			case 7, 8:
				like = func(r store.Run) bool {
					return r.Status == store.Paused && !r.VisibleAt.Before(q.now) || r.Status == store.Paused && r.VisibleAt.IsZero()
				}
			case 9:
				like = func(r store.Run) bool { return r.Status == store.Sleeping }
			}
			n.Run = q.runLike(like)
			p.Namespace = q.nsOf(n.Run)
		}
		if len(q.signals) > 0 && q.chance(15) { // the answer was lost
			again := of(q, q.signals...)
			p.Namespace, n = again.ns, again.signal
		}
		p.Signals = append(p.Signals, n)
	}
	q.send(p)
}

// send sends signals, and sometimes reads the inbox of a run that got several.
func (q *sequence) send(p store.SignalParams) {
	inboxes := map[store.ID]int64{}
	for id, r := range q.before {
		inboxes[id] = r.Events
	}
	res, err := do(q, "Signal", p, store.Store.Signal)
	if err != nil {
		return
	}
	q.learn("Signal")
	sentTo := map[store.ID]int64{}
	for i, x := range res {
		switch {
		case is(x.Err, store.ErrFinished):
			q.hit("signal to a final run")
		case x.Err == nil:
			sentTo[x.Run]++
			q.signals = append(q.signals, signaled{p.Namespace, p.Signals[i]})
			if p.Signals[i].ExternalID != "" {
				q.hit("signal by external id")
			}
		}
	}
	for id, n := range sentTo {
		if q.before[id].Events < inboxes[id]+n {
			q.hit("signal repeated")
		}
	}
	if first := res[0]; first.Err == nil && sentTo[first.Run] > 1 && q.chance(40) {
		q.inbox(store.InboxParams{Namespace: p.Namespace, Run: first.Run, NoState: q.chance(30), MaxBytes: of(q, 0, 1, 700)})
	}
}

func (q *sequence) setState() {
	like := func(r store.Run) bool { return !r.Status.Final() }
	if q.chance(40) {
		like = func(r store.Run) bool { return r.Status == store.Sleeping }
	}
	id := q.runLike(like)
	p := store.SetStateParams{Namespace: q.nsOf(id), Run: id, Writes: q.stateWrites(), Now: q.now}
	compared := false
	for i := range p.Writes {
		if !q.chance(30) {
			continue
		}
		compared = true
		version := int64(q.pick(4))
		if has, err := q.model.GetState(q.ctx, store.GetStateParams{Namespace: p.Namespace, Run: id, Keys: []string{p.Writes[i].Key}}); err == nil && !q.chance(40) {
			version = 0
			for _, e := range has {
				version = e.Version
			}
		}
		p.Writes[i].IfVersion = &version
	}
	res, err := do(q, "SetState", p, store.Store.SetState)
	switch {
	case is(err, store.ErrConflict):
		q.hit("state compare fails")
	case err == nil && compared && len(res) > 0:
		q.hit("state compare holds")
	}
	q.learn("SetState")
}

// someRuns picks runs of one namespace, mostly.
func (q *sequence) someRuns(like func(store.Run) bool) (ns string, ids []store.ID) {
	for range 1 + max(0, q.pick(5)-2) {
		ids = append(ids, q.runLike(like))
	}
	return q.nsOf(ids[0]), ids
}

func (q *sequence) cancel() {
	like := func(r store.Run) bool { return !r.Status.Final() }
	if q.chance(30) {
		like = func(store.Run) bool { return true }
	}
	ns, ids := q.someRuns(like)
	p := store.CancelParams{Namespace: ns, IDs: ids, Reason: of(q, "told to", ""), Force: q.chance(20), Now: q.now}
	res, err := do(q, "Cancel", p, store.Store.Cancel)
	if err != nil {
		return
	}
	for i, x := range res {
		was := q.before[ids[i]]
		switch {
		case is(x.Err, store.ErrFinished):
			q.hit("cancel of a finished run")
		case x.Err != nil:
		case was.Status == store.Canceled || was.Status == store.Canceling:
			q.hit("cancel repeated")
		case x.Status == store.Canceling && was.Worker == "":
			q.hit("cancel of a run with records")
		case x.Status == store.Canceling:
			q.hit("cancel of a leased run")
		}
	}
	q.learn("Cancel")
}

func (q *sequence) pause() {
	like := func(r store.Run) bool { return !r.Status.Final() }
	if q.chance(40) {
		like = func(r store.Run) bool { return r.Status == store.Sleeping }
	}
	ns, ids := q.someRuns(like)
	asleep := slices.IndexFunc(ids, func(id store.ID) bool { return q.before[id].Status == store.Sleeping })
	_, err := do(q, "Pause", store.PauseParams{Namespace: ns, IDs: ids, Now: q.now}, store.Store.Pause)
	if err == nil {
		q.hit("pause")
	}
	q.learn("Pause")
	if err == nil && asleep >= 0 && q.chance(50) {
		q.send(store.SignalParams{Namespace: ns, Now: q.now, Signals: []store.NewSignal{
			{ID: of(q, q.sigs...), Run: ids[asleep], Name: of(q, "go", "stop"), Payload: q.payload()},
		}})
	}
}

func (q *sequence) resume() {
	ns, ids := q.someRuns(func(r store.Run) bool { return r.Status == store.Paused || r.Pausing })
	_, err := do(q, "Pause", store.PauseParams{Namespace: ns, IDs: ids, Resume: true, Now: q.now}, store.Store.Pause)
	if err == nil && q.before[ids[0]].Status == store.Paused {
		q.hit("resume")
	}
	q.learn("Resume")
}

// randomBuilds are those of claims and pins; a worker may have none.
var randomBuilds = []string{"", "v1", "v1", "v2"}

func (q *sequence) pin() *store.Pin {
	return &store.Pin{Build: of(q, "v1", "v1", "v2"), By: of(q, randomBuilds...), Step: of(q, "", "s1"), Expected: of(q, "", "é"), Found: of(q, "", "it's"), Ramp: of(q, false, false, true)}
}

func (q *sequence) unpin() {
	ns, ids := q.someRuns(func(r store.Run) bool { return r.Pin != nil })
	res, err := do(q, "Unpin", store.UnpinParams{Namespace: ns, IDs: ids}, store.Store.Unpin)
	if err == nil && slices.ContainsFunc(res, func(r store.ControlResult) bool { return r.Err == nil }) {
		q.hit("unpin")
	}
	q.learn("Unpin")
}

func (q *sequence) restart() {
	ended := func(r store.Run) bool { return r.Status == store.Failed || r.Status == store.Canceled }
	like := ended
	if q.chance(50) {
		like = func(r store.Run) bool { return ended(r) && r.ExternalID != "" }
		if q.chance(50) { // another run holds the external id
			like = func(r store.Run) bool {
				return ended(r) && r.ExternalID != "" && len(q.known(func(o store.Run) bool {
					return o.ID != r.ID && o.Namespace == r.Namespace && o.ExternalID == r.ExternalID && o.Suffix == r.Suffix
				})) > 0
			}
		}
	}
	ns, ids := q.someRuns(like)
	res, _ := do(q, "Restart", store.RestartParams{Namespace: ns, IDs: ids, Now: q.now}, store.Store.Restart)
	for _, r := range res {
		switch {
		case r.Err == nil:
			q.hit("restart")
		case is(r.Err, store.ErrConflict):
			q.hit("restart refused")
		case is(r.Err, store.ErrAlreadyExists):
			q.hit("restart meets its external id")
		}
	}
	q.learn("Restart")
}

func (q *sequence) fork() {
	if len(q.free()) == 0 {
		return
	}
	id := q.someRun()
	if h := q.someHolding(20); h != nil && q.chance(70) {
		id = h.Lease.Run
	}
	p := store.ForkParams{Namespace: q.nsOf(id), ID: id, New: q.freshID(20), Now: q.now}
	_, existed := q.before[p.New]
	if q.chance(70) {
		p.Before = &store.StepKey{Name: of(q, "s1", "s2"), Occurrence: 1}
		if page, err := q.model.Steps(q.ctx, store.StepsParams{Namespace: p.Namespace, Run: id}); err == nil && len(page.Steps) > 0 && !q.chance(15) {
			key := of(q, page.Steps...).StepKey
			p.Before = &key
		}
	}
	_, err := do(q, "Fork", p, store.Store.Fork)
	switch {
	case err != nil:
	case existed:
		q.hit("fork repeated")
	case p.Before != nil:
		q.hit("fork before a step")
	default:
		q.hit("fork")
	}
	q.learn("Fork")
}

func (q *sequence) purge() {
	p := store.PurgeParams{Namespace: q.someNS(), OlderThan: of(q, 0, time.Minute, time.Second, time.Hour, 1500*time.Nanosecond), Limit: q.pick(4), Now: q.now}
	if q.chance(25) {
		p.Workflow = of(q, randomWorkflows...)
	}
	if q.chance(25) {
		p.Statuses = of(q, []store.Status{store.Completed}, []store.Status{store.Failed, store.Canceled}, []store.Status{store.Canceled}, []store.Status{store.Running})
	}
	before := q.before
	n, err := do(q, "Purge", p, store.Store.Purge)
	if err != nil {
		return
	}
	q.learn("Purge")
	if n > 0 {
		q.hit("purge")
	}
	for _, r := range before {
		_, stays := q.before[r.ID]
		if parent, ok := q.before[r.Parent]; ok && stays && n > 0 && r.Status.Final() && !parent.Status.Final() && r.Namespace == p.Namespace {
			q.hit("purge keeps children of live parents")
		}
	}
}

func (q *sequence) setPaused() {
	p := store.PauseTargetParams{Namespace: q.someNS(), Resume: !q.chance(50), Now: q.now}
	if q.chance(50) {
		p.Queue = of(q, randomQueues...)
	} else {
		p.Workflow = of(q, randomWorkflows...)
	}
	_, _ = do(q, "PauseTarget", p, ops.Alone(store.Store.PauseTarget))
}

// scheduled reads a schedule from the model; zero when it has none.
func (q *sequence) scheduled(ns, name string) store.Schedule {
	page, err := q.model.ListSchedules(q.ctx, store.ListSchedulesParams{Namespace: ns, Names: []string{name}})
	if err != nil || len(page.Schedules) == 0 {
		return store.Schedule{}
	}
	return page.Schedules[0]
}

func (q *sequence) putSchedule() {
	p := store.PutScheduleParams{Namespace: q.someNS(), Now: q.now, Schedule: store.Schedule{
		Name: of(q, randomSchedules...), Workflow: of(q, randomWorkflows...), Queue: of(q, randomQueues...), Spec: of(q, "* * * * *", ""),
		Input: q.payload(), Meta: of(q, smallPayloads...), Paused: q.chance(15), NextAt: q.instant(),
		LastAt: q.now, CreatedAt: q.now.Add(time.Hour), // the store's, not ours
	}}
	if q.chance(10) {
		p.Schedule.NextAt = time.Time{}
	}
	if q.scheduled(p.Namespace, p.Schedule.Name).Name != "" {
		q.hit("schedule replaced")
	}
	_, _ = do(q, "PutSchedule", p, store.Store.PutSchedule)
}

func (q *sequence) deleteSchedule() {
	p := store.DeleteScheduleParams{Namespace: q.someNS(), Name: of(q, randomSchedules...)}
	_, _ = do(q, "DeleteSchedule", p, ops.Alone(store.Store.DeleteSchedule))
}

func (q *sequence) fire() {
	p := store.FireParams{Namespace: q.someNS(), Schedule: of(q, randomSchedules...), Now: q.now}
	if page, err := q.model.ListSchedules(q.ctx, store.ListSchedulesParams{Namespace: p.Namespace}); err == nil && len(page.Schedules) > 0 && !q.chance(10) {
		p.Schedule = of(q, page.Schedules...).Name
	}
	sc := q.scheduled(p.Namespace, p.Schedule)
	switch p.At = sc.NextAt; q.pick(10) {
	case 7:
		p.At = q.instant()
	case 8, 9:
		p.At = sc.LastAt
	}
	if p.At.IsZero() {
		p.At = q.instant()
	}
	if q.chance(50) {
		p.Seen = sc.UpdatedAt
	} else if q.chance(20) {
		p.Seen = q.instant()
	}
	if !q.chance(15) {
		p.Next = p.At.Add(of(q, time.Minute, time.Second, time.Microsecond, 700*time.Nanosecond, 0))
	}
	if !q.chance(25) {
		r := q.ownRun()
		if q.chance(40) { // as a schedule that lets no two runs overlap
			r.ExternalID = of(q, "e1", "e2")
		}
		r.Worker, r.LeaseFor = "", 0 // a firing has no worker to give the lease to
		if !q.chance(5) {
			r.Reuse, r.MustBeNew, r.Digest, r.Debounce, r.AtMost = store.ReuseAfterEnd, false, nil, "", 0
		}
		p.Run = &r
	}
	res, err := do(q, "Fire", p, store.Store.Fire)
	switch {
	case is(err, store.ErrInvalid) && p.At.After(q.now):
		q.hit("fired too early")
	case is(err, store.ErrConflict):
		q.hit("fire of an edited schedule")
	case err != nil:
	case !res.Fired:
		q.hit("fired again")
	case p.Run == nil:
		q.hit("fired without a run")
	case res.Run != p.Run.ID:
		q.hit("fired onto a taken external id")
	default:
		q.hit("fired")
	}
	q.learn("Fire")
}

func (q *sequence) lock() {
	p := store.LockParams{Namespace: q.someNS(), Name: of(q, "l1", "l1", "l1", "l2"), Owner: of(q, randomWorkers...), For: of(q, time.Hour, time.Minute, time.Second, 0, time.Hour, 1500*time.Nanosecond), Now: q.now}
	// There is no list of locks. A request for no time says who holds the lock.
	was, _ := q.model.Lock(q.ctx, store.LockParams{Namespace: p.Namespace, Name: p.Name, Owner: "nobody", Now: kit.Began.Add(-time.Hour)})
	res, err := do(q, "Lock", p, store.Store.Lock)
	switch {
	case err != nil:
	case !res.Held && res.Owner != "":
		q.hit("lock held by another")
	case res.Held && was.Owner != "" && was.Owner != p.Owner:
		q.hit("lock taken over")
	}
}

func (q *sequence) workers() {
	ns, id := q.someNS(), of(q, randomWorkers...)
	switch q.pick(7) {
	case 0, 1, 2:
		_, _ = do(q, "PutWorker", store.PutWorkerParams{Namespace: ns, Now: q.now, Worker: store.Worker{
			ID: id, Host: of(q, "h", ""), PID: q.pick(3), Queues: of(q, nil, randomQueues), Workflows: of(q, nil, randomWorkflows),
			Labels: of(q, nil, map[string]string{"zone": "a", "": "b"}), Slots: q.pick(3), Limits: of(q, nil, map[string]int{"f1": 2}), Status: of(q, store.Online, store.Draining), TTL: q.span(), Build: of(q, randomBuilds...),
			Answers: of(q, 0, q.span()), Takes: of(q, nil, map[string][]string{"q1": {"f1"}, "q2": {"f1", "f2"}}),
			StartedAt: q.now.Add(-time.Hour), Held: 7, // the store's, not ours
		}}, ops.Alone(store.Store.PutWorker))
	case 3:
		_, _ = do(q, "RemoveWorker", store.RemoveWorkerParams{Namespace: ns, ID: id}, ops.Alone(store.Store.RemoveWorker))
	case 4:
		if q.chance(50) { // one that is at rest since a minute ago
			w := store.Worker{ID: id, Status: store.Online, TTL: time.Hour, Answers: q.span()}
			_, _ = do(q, "PutWorker", store.PutWorkerParams{Namespace: ns, Worker: w, Now: q.now.Add(-time.Minute)}, ops.Alone(store.Store.PutWorker))
		}
		asked, _ := do(q, "AskWorkers", store.AskWorkersParams{Namespace: ns, Silent: max(q.span(), 1), Now: q.now}, store.Store.AskWorkers)
		if asked > 0 {
			q.hit("worker asked")
		}
	default:
		p := store.ListWorkersParams{Namespace: ns, NoHeld: q.chance(20), Limit: 1, Now: q.now}
		for more := true; more; more = p.Cursor != "" {
			page, _ := do(q, "ListWorkers", p, store.Store.ListWorkers)
			for _, w := range page.Workers {
				if w.Status == store.Offline {
					q.hit("worker offline")
				}
			}
			p.Cursor = page.Next
		}
	}
}

func (q *sequence) workflows() {
	ns := q.someNS()
	if q.chance(50) {
		p := store.ListWorkflowsParams{Namespace: ns, Names: of(q, nil, []string{"f1"}, []string{"f2", "none"}), Limit: 1}
		for more := true; more; more = p.Cursor != "" {
			page, _ := do(q, "ListWorkflows", p, store.Store.ListWorkflows)
			p.Cursor = page.Next
		}
		return
	}
	p := store.PutWorkflowsParams{Namespace: ns, Now: q.now}
	for range 1 + q.pick(2) {
		p.Workflows = append(p.Workflows, store.Workflow{Name: of(q, "f1", "f2", "f3"), Queue: of(q, randomQueues...), Meta: of(q, smallPayloads...)})
	}
	_, _ = do(q, "PutWorkflows", p, ops.Alone(store.Store.PutWorkflows))
}

// tags returns tags of a run; usually none.
func (q *sequence) tags() store.Tags {
	if !q.chance(25) {
		return nil
	}
	return of(q, store.Tags{"t": "a"}, store.Tags{"t": "b"}, store.Tags{"t": "ab", "u": "1"}, store.Tags{"u": "2"}, store.Tags{})
}

func (q *sequence) filter() store.RunFilter {
	var f store.RunFilter
	if q.chance(30) {
		f.Statuses = of(q, []store.Status{store.Pending, store.Running}, []store.Status{store.Completed}, store.Statuses(), []store.Status{store.Sleeping, store.Paused, store.Canceled})
	}
	if q.chance(20) {
		f.Workflow = of(q, randomWorkflows...)
	}
	if q.chance(20) {
		f.Queue = of(q, randomQueues...)
	}
	if q.chance(15) {
		f.Parent = q.someRun()
	}
	if q.chance(15) {
		f.ExternalID = of(q, "e1", "e2", "none")
	}
	if q.chance(10) {
		text := q.ids[0].String()
		f.IDPrefix = text[:of(q, len(text), len(text)-1, len(text)-2)]
	}
	if q.chance(10) {
		f.CreatedAfter = q.instant()
	}
	if q.chance(10) {
		f.CreatedBefore = q.instant()
	}
	if q.chance(10) {
		f.FinishedAfter = q.instant()
	}
	if q.chance(10) {
		f.FinishedBefore = q.instant()
	}
	if q.chance(10) {
		f.Pinned = true
	}
	if q.chance(10) {
		f.PinnedTo = of(q, []string{"v1"}, []string{"v2", "none"})
	}
	if q.chance(20) {
		f.Tags = append(f.Tags, of(q, store.TagMatch{Name: "t", Values: []string{"a"}}, store.TagMatch{Name: "t", Values: []string{"b", "ab"}}, store.TagMatch{Name: "t", Prefix: "a"}, store.TagMatch{Name: "u"}))
	}
	if q.chance(5) {
		f.Tags = append(f.Tags, store.TagMatch{Name: "u", Values: []string{"1"}})
	}
	if q.chance(10) {
		f.FailureCode = of(q, "error", "panic", store.FailureCanceled)
	}
	if q.chance(10) {
		f.FailureText = of(q, "told", "went", "é", "wrong!")
	}
	if q.chance(10) {
		f.FailedStep = of(q, "s1", "S1")
	}
	if q.chance(10) {
		f.MinAttempt = 1 + q.pick(3)
	}
	return f
}

func (q *sequence) read() {
	id := q.someRun()
	ns := q.nsOf(id)
	switch q.pick(13) {
	case 0:
		p := store.GetParams{Namespace: ns, IDs: []store.ID{id, q.someRun()}, FinalOnly: q.chance(30), NoInput: q.chance(50), MaxBytes: of(q, 0, 1)}
		_, _ = do(q, "Get", p, store.Store.Get)
	case 1:
		_, _ = do(q, "Find", store.FindParams{Namespace: ns, ExternalID: of(q, "e1", "e2", "E1"), Suffix: of(q, "", "", "x")}, store.Store.Find)
	case 2, 3:
		q.list(ns, q.filter(), q.chance(50), q.chance(40), 1+q.pick(4))
	case 4:
		_, _ = do(q, "Count", store.CountParams{Namespace: ns, Filter: q.filter(), ByFailure: q.chance(50)}, store.Store.Count)
	case 5:
		p := store.ChildrenParams{Namespace: ns, Parent: q.runLike(func(r store.Run) bool { return r.Worker != "" }), Group: of(q, randomGroups...), After: int64(q.pick(of(q, 3, randomIDs))), Limit: q.pick(3), MaxBytes: of(q, 0, 1)}
		_, _ = do(q, "Children", p, store.Store.Children)
	case 6:
		p := store.StepsParams{Namespace: ns, Run: id, After: int64(q.pick(3)), Limit: q.pick(3), MaxBytes: of(q, 1<<20, 1)}
		_, _ = do(q, "Steps", p, store.Store.Steps)
	case 7, 10, 11:
		id := q.runLike(func(r store.Run) bool { return r.Events > 1 })
		q.inbox(store.InboxParams{
			Namespace: q.nsOf(id), Run: id, Name: of(q, "", "", "go"), NoState: q.chance(30), Group: of(q, "", "", "g"), AfterGroup: of(q, "", "g"), MaxBytes: of(q, 0, 1, 700),
		})
	case 8:
		p := store.GetStateParams{
			Namespace: ns, Run: id, Keys: of(q, nil, []string{"k1"}, []string{"K1", "k2"}),
			After: of(q, "", "", "K1", "k1"), Limit: q.pick(3), MaxBytes: of(q, 0, 1, 700),
		}
		_, _ = do(q, "GetState", p, store.Store.GetState)
	case 9:
		p := store.ListSchedulesParams{Namespace: ns, Names: of(q, nil, []string{"s1"}), Due: q.chance(50), Limit: 1 + q.pick(2), Now: q.now}
		if p.Due {
			p.Except = of(q, nil, []string{"s1"}, []string{"s0", "s2"})
		}
		_, _ = do(q, "ListSchedules", p, store.Store.ListSchedules)
	case 12:
		asked := []store.ID{id, q.runLike(func(r store.Run) bool { return r.Events > 1 })}
		p := store.AnswersParams{Namespace: q.nsOf(asked[1]), Asks: q.asks(asked...), MaxBytes: of(q, 0, 1)}
		_, _ = do(q, "Answers", p, store.Store.Answers)
	}
}

// asks are those for all signals of the sequence, to some runs.
func (q *sequence) asks(runs ...store.ID) (asks []store.Ask) {
	for _, id := range runs {
		for _, sig := range q.sigs {
			asks = append(asks, store.Ask{Run: id, Signal: sig})
		}
	}
	return asks
}

// inbox pages through signals. Each store continues from its own positions.
func (q *sequence) inbox(p store.InboxParams) {
	pages, _ := do(q, "Inbox", p, func(s store.Store, ctx context.Context, p store.InboxParams) ([]store.Inbox, error) {
		var pages []store.Inbox
		for range 2 * randomSignals {
			in, err := s.Inbox(ctx, p)
			if err != nil {
				return nil, err
			}
			if n := len(in.Signals); n > 0 {
				p.After = in.Signals[n-1].Position
			}
			if err := ops.Placed(&in); err != nil {
				return nil, err
			}
			if pages = append(pages, in); !in.MoreSignals {
				break
			}
		}
		return pages, nil
	})
	if len(pages) > 1 {
		q.hit("inbox goes on")
	}
}

// list pages through runs. Each store continues from its own cursor.
func (q *sequence) list(ns string, f store.RunFilter, oldest, byEnd bool, limit int) {
	p := store.ListParams{Namespace: ns, Filter: f, OldestFirst: oldest, ByEnd: byEnd, Limit: limit}
	pages, _ := do(q, "List", p, func(s store.Store, ctx context.Context, p store.ListParams) ([]store.RunPage, error) {
		var pages []store.RunPage
		for range 2 * randomIDs {
			page, err := s.List(ctx, p)
			if err != nil {
				return nil, err
			}
			pages = append(pages, page)
			if page.Next == "" {
				break
			}
			p.Cursor = page.Next
		}
		return pages, nil
	})
	if len(pages) > 1 {
		q.hit("page goes on")
	}
}

// end compares everything that a reader can see. Then it resumes what is paused, lets time pass and
// claims all runs, which shows what no read shows.
func (q *sequence) end() {
	for _, name := range randomNamespaces {
		q.dump(q.ns(name))
	}
	q.now = q.now.Add(time.Minute)
	for _, name := range randomNamespaces {
		ns := q.ns(name)
		var paused []store.ID
		for _, id := range q.ids {
			if r := q.before[id]; r.Namespace == ns && r.Status == store.Paused {
				paused = append(paused, id)
			}
		}
		compare(q, "Pause", store.PauseParams{Namespace: ns, IDs: paused, Resume: true, Now: q.now}, store.Store.Pause)
		for _, build := range []string{"v2", "v1"} {
			compare(q, "Claim", store.ClaimParams{Namespace: ns, Worker: "w1", Build: build, LeaseFor: time.Minute, Now: q.now.Add(2 * time.Hour), Demands: []store.Demand{
				{Queue: "q1", Workflows: randomWorkflows, Max: randomIDs}, {Queue: "q2", Workflows: randomWorkflows, Max: randomIDs},
			}}, ops.Claimed)
		}
		compare(q, "Get", store.GetParams{Namespace: ns, IDs: q.ids}, store.Store.Get)
	}
}

func (q *sequence) dump(ns string) {
	type family struct {
		parent store.ID
		group  string
	}
	families := map[family]bool{}
	named := map[[2]string]bool{}
	for _, r := range compare(q, "Get", store.GetParams{Namespace: ns, IDs: q.ids}, store.Store.Get) {
		compare(q, "Steps", store.StepsParams{Namespace: ns, Run: r.ID}, ops.Steps)
		compare(q, "Inbox", store.InboxParams{Namespace: ns, Run: r.ID}, ops.Inbox)
		for _, a := range compare(q, "Answers", store.AnswersParams{Namespace: ns, Asks: q.asks(r.ID)}, store.Store.Answers) {
			if a.Given != nil {
				q.hit("answer read")
			}
		}
		if q.streams() {
			page := compare(q, "ReadStream", store.ReadStreamParams{Namespace: ns, Run: r.ID}, func(s store.Store, ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
				return s.(store.Streamer).ReadStream(ctx, p)
			})
			for _, it := range page.Items {
				if it.Reset {
					q.hit("items superseded")
				}
			}
		}
		if store.Able(q.handles[0], store.Trees) {
			tree := compare(q, "Tree", store.TreeParams{Namespace: ns, Run: r.ID, Now: q.now}, func(s store.Store, ctx context.Context, p store.TreeParams) (store.Tree, error) {
				return s.(store.TreeReader).Tree(ctx, p)
			})
			if len(tree.Levels) > 1 {
				q.hit("tree of levels")
			}
		}
		if f := (family{r.Parent, r.Group}); f.group != "" && !families[f] {
			families[f] = true
			compare(q, "Children", store.ChildrenParams{Namespace: ns, Parent: f.parent, Group: f.group}, store.Store.Children)
		}
		if n := [2]string{r.ExternalID, r.Suffix}; r.ExternalID != "" && !named[n] {
			named[n] = true
			compare(q, "Find", store.FindParams{Namespace: ns, ExternalID: r.ExternalID, Suffix: r.Suffix}, store.Store.Find)
		}
	}
	compare(q, "List", store.ListParams{Namespace: ns}, store.Store.List)
	compare(q, "List", store.ListParams{Namespace: ns, ByEnd: true}, store.Store.List)
	compare(q, "Count", store.CountParams{Namespace: ns, ByFailure: true}, store.Store.Count)
	schedules := compare(q, "ListSchedules", store.ListSchedulesParams{Namespace: ns, Now: q.now}, store.Store.ListSchedules)
	for _, sc := range schedules.Schedules {
		compare(q, "ListFirings", store.ListFiringsParams{Namespace: ns, Schedule: sc.Name}, store.Store.ListFirings)
	}
	compare(q, "ListWorkers", store.ListWorkersParams{Namespace: ns, Now: q.now}, store.Store.ListWorkers)
	compare(q, "ListBuilds", store.ListBuildsParams{Namespace: ns, Now: q.now}, store.Store.ListBuilds)
	compare(q, "ListWorkflows", store.ListWorkflowsParams{Namespace: ns}, store.Store.ListWorkflows)
	compare(q, "ListPaused", store.ListPausedParams{Namespace: ns}, store.Store.ListPaused)
	q.endOfOutbox(ns)
}

// compare is do for the end of a sequence. It does nothing after a difference.
func compare[P, R any](q *sequence, verb string, p P, call func(store.Store, context.Context, P) (R, error)) R {
	if q.difference != "" {
		var zero R
		return zero
	}
	res, _ := do(q, verb, p, call)
	return res
}
