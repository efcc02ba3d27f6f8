package storetier

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/store"
)

// eq reports a value that is not the expected one.
func (c *C) eq(what string, got, want any) {
	c.Helper()
	same := reflect.DeepEqual(got, want)
	if g, ok := got.(time.Time); ok {
		w, _ := want.(time.Time)
		same = g.Equal(w)
	}
	if same {
		return
	}
	saw, expected := show(got), show(want)
	if lines := kit.Differences(got, want); len(lines) > 0 && len(saw)+len(expected) > 200 {
		c.Errorf("%s differs:\n  %s", what, strings.Join(lines, "\n  "))
		return
	}
	c.Errorf("%s: saw %s, expected %s", what, saw, expected)
}

// check reports a condition that does not hold.
func (c *C) check(holds bool, format string, args ...any) {
	c.Helper()
	if !holds {
		c.Errorf(format, args...)
	}
}

// bytes reports a payload that was changed; nil and empty differ.
func (c *C) bytes(what string, got, want []byte) {
	c.Helper()
	if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		c.Errorf("%s: %s", what, kit.BytesDiffer(got, want))
	}
}

// ok ends the case on an error.
func (c *C) ok(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: saw %s, expected no error", what, show(err))
	}
}

// fails reports an error that does not match target, or also matches another one.
func (c *C) fails(what string, err, target error) {
	c.Helper()
	if err == nil {
		c.Errorf("%s: saw no error, expected one that matches %q", what, target)
		return
	}
	if !errors.Is(err, target) {
		c.Errorf("%s: saw %s, expected an error that matches %q", what, show(err), target)
		return
	}
	for _, other := range kit.Sentinels {
		if other != target && errors.Is(err, other) {
			c.Errorf("%s: saw %s, which matches both %q and %q; exactly one was expected", what, show(err), target, other)
		}
	}
	var invalid *store.InvalidError
	var tooLarge *store.TooLargeError
	switch {
	case target == store.ErrInvalid && !errors.As(err, &invalid):
		c.Errorf("%s: saw %s, expected an *InvalidError", what, show(err))
	case target == store.ErrTooLarge && !errors.As(err, &tooLarge):
		c.Errorf("%s: saw %s, expected a *TooLargeError", what, show(err))
	}
}

// fill gives a new run an ID and the usual names.
func fill(r store.NewRun) store.NewRun {
	if r.ID.IsZero() {
		r.ID = store.NewID()
	}
	if r.Workflow == "" {
		r.Workflow = aWorkflow
	}
	if r.Queue == "" {
		r.Queue = aQueue
	}
	return r
}

// eachStart is how runs are started: without a signal, and with one.
var eachStart = []func(store.NewRun) store.NewRun{
	func(r store.NewRun) store.NewRun { return r },
	func(r store.NewRun) store.NewRun {
		r.ExternalID, r.Signal = store.NewID().String(), &store.StartSignal{ID: store.NewID(), Name: "n"}
		return r
	},
}

// creates sends runs as they are and returns their results.
func (c *C) creates(rs ...store.NewRun) []store.CreateResult {
	c.Helper()
	res, err := c.s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: rs, Now: c.now})
	c.ok("Create", err)
	if len(res) != len(rs) {
		c.Fatalf("Create of %d runs: saw %d results, expected one for each", len(rs), len(res))
	}
	return res
}

// createAll makes runs with one call, which must accept each.
func (c *C) createAll(rs ...store.NewRun) (ids []store.ID) {
	c.Helper()
	for _, res := range c.creates(rs...) {
		c.ok("Create's item", res.Err)
		ids = append(ids, res.ID)
	}
	return ids
}

// create makes one run, which must be new.
func (c *C) create(r store.NewRun) store.ID {
	c.Helper()
	r = fill(r)
	res := c.creates(r)[0]
	c.ok("Create's item", res.Err)
	if res.ID != r.ID || !res.Created {
		c.Fatalf("Create of %v: saw %+v, expected it made", r.ID, res)
	}
	return r.ID
}

// createN makes n usual runs.
func (c *C) createN(n int, like store.NewRun) []store.ID {
	c.Helper()
	var ids []store.ID
	for len(ids) < n {
		rs := make([]store.NewRun, min(1000, n-len(ids)))
		for i := range rs {
			rs[i] = fill(like)
			ids = append(ids, rs[i].ID)
		}
		c.createAll(rs...)
	}
	return ids
}

// get reads one run, which must exist.
func (c *C) get(id store.ID) store.Run {
	c.Helper()
	runs := c.gets(id)
	if len(runs) != 1 {
		c.Fatalf("Get of run %v: saw %d runs, expected it", id, len(runs))
	}
	return runs[0]
}

func (c *C) gets(ids ...store.ID) []store.Run {
	c.Helper()
	runs, err := c.s.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: ids})
	c.ok("Get", err)
	return runs
}

// status reports a run of another status.
func (c *C) status(id store.ID, want store.Status) {
	c.Helper()
	c.eq("status of the run", c.get(id).Status, want)
}

// claim leases runs; it sets the fields that p leaves empty to the usual values.
func (c *C) claim(p store.ClaimParams) store.Claimed {
	c.Helper()
	got, err := c.s.Claim(c.ctx, c.claimParams(p))
	c.ok("Claim", err)
	return got
}

func (c *C) claimParams(p store.ClaimParams) store.ClaimParams {
	if p.Namespace == "" {
		p.Namespace = c.ns
	}
	if p.Worker == "" {
		p.Worker = aWorker
	}
	if p.LeaseFor == 0 {
		p.LeaseFor = aLease
	}
	if p.Demands == nil {
		p.Demands = []store.Demand{{Queue: aQueue, Workflows: []string{aWorkflow}, Max: max(p.Max, 1)}}
	}
	if p.Now.IsZero() {
		p.Now = c.now
	}
	return p
}

// claimN leases up to n usual runs.
func (c *C) claimN(n int) []store.ClaimedRun {
	c.Helper()
	return c.claim(store.ClaimParams{Max: n}).Runs
}

// claim1 leases the one run that must be claimable.
func (c *C) claim1() store.ClaimedRun {
	c.Helper()
	return c.claim1As(aWorker)
}

func (c *C) claim1As(worker string) store.ClaimedRun {
	c.Helper()
	return c.one(c.claim(store.ClaimParams{Worker: worker}).Runs)
}

func (c *C) one(runs []store.ClaimedRun) store.ClaimedRun {
	c.Helper()
	if len(runs) != 1 {
		c.Fatalf("Claim at %s: saw %d runs, expected one", show(c.now), len(runs))
	}
	return runs[0]
}

// claimNone checks that no run of the usual queue and workflow is claimable.
func (c *C) claimNone(why string) {
	c.Helper()
	if runs := c.claimN(1); len(runs) > 0 {
		c.Errorf("Claim at %s: saw run %+v, expected none: %s", show(c.now), runs[0].Run, why)
	}
}

// start makes a usual run and leases it.
func (c *C) start() store.ClaimedRun {
	c.Helper()
	return c.startWith(store.NewRun{})
}

func (c *C) startWith(r store.NewRun) store.ClaimedRun {
	c.Helper()
	id := c.create(r)
	run := c.claim1()
	if run.Run.ID != id {
		c.Fatalf("Claim: saw run %v, expected %v, the only one", run.Run.ID, id)
	}
	return run
}

// recorded creates a usual run that has recorded a step and then made the transition t.
func (c *C) recorded(t *store.Transition) store.ClaimedRun {
	c.Helper()
	run := c.start()
	c.commit(store.Commit{Lease: run.Lease, Seen: run.Inbox.Events, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t})
	return run
}

// tryCommit sends one commit and returns its result. A commit without Seq gets the next one of its
// lease. A commit that is refused does not use its Seq.
func (c *C) tryCommit(cm store.Commit) store.CommitResult {
	c.Helper()
	return c.commits(cm)[0]
}

func (c *C) commits(cms ...store.Commit) []store.CommitResult {
	c.Helper()
	for i := range cms {
		c.number(&cms[i])
	}
	res, err := c.s.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Commits: cms, Now: c.now})
	c.ok("Commit", err)
	if len(res) != len(cms) {
		c.Fatalf("Commit of %d: saw %d results, expected one for each", len(cms), len(res))
	}
	for i, cm := range cms {
		if res[i].Err == nil {
			c.seqs[cm.Lease] = max(c.seqs[cm.Lease], cm.Seq)
		}
	}
	return res
}

func (c *C) number(cm *store.Commit) {
	if cm.Seq == 0 {
		cm.Seq = c.seqs[cm.Lease] + 1
	}
}

// commit sends one commit, which must be applied.
func (c *C) commit(cm store.Commit) store.CommitResult {
	c.Helper()
	res := c.tryCommit(cm)
	c.ok("Commit's item", res.Err)
	if res.Repeated {
		c.Fatalf("Commit %d: saw it called a repeat, expected it applied", cm.Seq)
	}
	return res
}

// end commits a transition of a claimed run, with all events seen that the claim reported.
func (c *C) end(run store.ClaimedRun, t *store.Transition) store.CommitResult {
	c.Helper()
	return c.commit(store.Commit{Lease: run.Lease, Seen: run.Inbox.Events, Transition: t})
}

// tryRestart restarts runs and returns one result for each.
func (c *C) tryRestart(ids ...store.ID) []store.ControlResult {
	c.Helper()
	res, err := c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: ids, Now: c.now})
	c.ok("Restart", err)
	if len(res) != len(ids) {
		c.Fatalf("Restart of %d runs: saw %d results, expected one for each", len(ids), len(res))
	}
	return res
}

// itemErr returns the error of a call about one run, or the error of its item.
func itemErr(res []store.ControlResult, err error) error {
	if err == nil && len(res) != 1 {
		return fmt.Errorf("a call about one run: saw %d results, expected one", len(res))
	}
	if err != nil {
		return err
	}
	return res[0].Err
}

// lost checks that a commit is refused because of its lease.
func (c *C) lost(what string, cm store.Commit) {
	c.Helper()
	res := c.tryCommit(cm)
	c.fails(what, res.Err, store.ErrLeaseLost)
	c.eq(what+": Repeated", res.Repeated, false)
}

func cancelRun() *store.Transition {
	return &store.Transition{Kind: store.CancelRun, Failure: &store.Failure{Code: store.FailureCanceled, Message: "told to"}}
}

func release() *store.Transition { return &store.Transition{Kind: store.Release} }

func retryIn(d time.Duration) *store.Transition {
	return &store.Transition{Kind: store.Retry, After: d, Failure: &store.Failure{Code: "error", Message: "try later"}}
}

func sleepOn(w store.WakeOn) *store.Transition { return &store.Transition{Kind: store.Sleep, Wakes: w} }

func sleepAwait(a ...store.Await) *store.Transition {
	return &store.Transition{Kind: store.Sleep, Await: a}
}

func continueWith(in string) *store.Transition {
	return &store.Transition{Kind: store.Continue, Input: []byte(in)}
}

// transitions returns one transition of each kind.
func transitions() []*store.Transition {
	return []*store.Transition{complete("late"), failWith("late"), cancelRun(), sleepFor(time.Hour), retryIn(time.Hour), release(), continueWith("late")}
}

// steps reads all of a run's steps.
func (c *C) steps(id store.ID) []store.Step {
	c.Helper()
	page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: id, Limit: store.MaxPage})
	c.ok("Steps", err)
	return page.Steps
}

// stepNames reads the names of a run's steps.
func (c *C) stepNames(id store.ID) []string {
	c.Helper()
	return namesOf(c.steps(id))
}

func namesOf(steps []store.Step) []string {
	names := []string{}
	for _, s := range steps {
		names = append(names, s.Name)
	}
	return names
}

func (c *C) extends(leases ...store.Lease) []store.LeaseState {
	c.Helper()
	worker := aWorker
	if len(leases) > 0 {
		worker = leases[0].Worker
	}
	res, err := c.s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: worker, Leases: leases, LeaseFor: aLease, Now: c.now})
	c.ok("Extend", err)
	if len(res) != len(leases) {
		c.Fatalf("Extend of %d leases: saw %d results, expected one for each", len(leases), len(res))
	}
	return res
}

func (c *C) extend(l store.Lease) store.LeaseState {
	c.Helper()
	return c.extends(l)[0]
}

// signals sends signals unchanged.
func (c *C) signals(sigs ...store.NewSignal) []store.SignalResult {
	c.Helper()
	res, err := c.s.Signal(c.ctx, store.SignalParams{Namespace: c.ns, Signals: sigs, Now: c.now})
	c.ok("Signal", err)
	if len(res) != len(sigs) {
		c.Fatalf("Signal of %d: saw %d results, expected one for each", len(sigs), len(res))
	}
	return res
}

// signal sends one signal to a run.
func (c *C) signal(id store.ID, name, payload string) store.SignalID {
	c.Helper()
	sig := store.NewSignal{ID: store.NewID(), Run: id, Name: name, Payload: []byte(payload)}
	c.ok("Signal's item", c.signals(sig)[0].Err)
	return sig.ID
}

func (c *C) trySetState(id store.ID, writes ...store.StateWrite) ([]store.StateEntry, error) {
	return c.s.SetState(c.ctx, store.SetStateParams{Namespace: c.ns, Run: id, Writes: writes, Now: c.now})
}

func (c *C) setState(id store.ID, key, value string) store.StateEntry {
	c.Helper()
	entries, err := c.trySetState(id, store.StateWrite{Key: key, Value: []byte(value)})
	c.ok("SetState", err)
	if len(entries) != 1 {
		c.Fatalf("SetState of one key: saw %d entries, expected one", len(entries))
	}
	return entries[0]
}

func (c *C) getState(id store.ID, keys ...string) []store.StateEntry {
	c.Helper()
	entries, err := c.s.GetState(c.ctx, store.GetStateParams{Namespace: c.ns, Run: id, Keys: keys})
	c.ok("GetState", err)
	return entries
}

// values formats state as "key=value".
func values(entries []store.StateEntry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Key+"="+string(e.Value))
	}
	return out
}

func (c *C) inbox(id store.ID) store.Inbox {
	c.Helper()
	in, err := c.s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: id})
	c.ok("Inbox", err)
	return in
}

// payloads lists the payloads of signals.
func payloads(sigs []store.Signal) []string {
	out := []string{}
	for _, s := range sigs {
		out = append(out, string(s.Payload))
	}
	return out
}

func (c *C) tryCancel(ids ...store.ID) []store.ControlResult {
	c.Helper()
	res, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: ids, Reason: "told to", Now: c.now})
	c.ok("Cancel", err)
	if len(res) != len(ids) {
		c.Fatalf("Cancel of %d: saw %d results, expected one for each", len(ids), len(res))
	}
	return res
}

// cancel cancels a run and returns its status.
func (c *C) cancel(id store.ID) store.Status {
	c.Helper()
	res := c.tryCancel(id)[0]
	c.ok("Cancel's item", res.Err)
	return res.Status
}

// force ends a run at once.
func (c *C) force(id store.ID) {
	c.Helper()
	run := c.get(id)
	ended := store.Tally(nil, run.Queue, run.Workflow, store.Canceled, 1)
	res, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Reason: "stuck", Force: true, Now: c.now})
	c.ok("Cancel with Force", err)
	c.eq("the result of Cancel with Force", res[0], store.ControlResult{Status: store.Canceled, Ended: ended})
}

func (c *C) tryPause(resume bool, ids ...store.ID) []store.ControlResult {
	c.Helper()
	res, err := c.s.Pause(c.ctx, store.PauseParams{Namespace: c.ns, IDs: ids, Resume: resume, Now: c.now})
	c.ok("Pause", err)
	if len(res) != len(ids) {
		c.Fatalf("Pause of %d: saw %d results, expected one for each", len(ids), len(res))
	}
	return res
}

func (c *C) pause(id store.ID) store.Status {
	c.Helper()
	res := c.tryPause(false, id)[0]
	c.ok("Pause's item", res.Err)
	return res.Status
}

func (c *C) resume(id store.ID) store.Status {
	c.Helper()
	res := c.tryPause(true, id)[0]
	c.ok("Resume's item", res.Err)
	return res.Status
}

func (c *C) setPaused(queue, workflow string, paused bool) {
	c.Helper()
	c.ok("PauseTarget", c.s.PauseTarget(c.ctx, store.PauseTargetParams{Namespace: c.ns, Queue: queue, Workflow: workflow, Resume: !paused, Now: c.now}))
}

// kid describes a child in group "g"; children live in a queue of their own.
// ended is what a call tells that has canceled so many runs of the usual workflow.
func ended(n int64) []store.RunCount {
	return []store.RunCount{{Queue: aQueue, Workflow: aWorkflow, Status: store.Canceled, Count: n}}
}

// endedKids is the same for children.
func endedKids(n int64) []store.RunCount {
	return []store.RunCount{{Queue: kidQueue, Workflow: kidFlow, Status: store.Canceled, Count: n}}
}

func sumOf(list []int64) (sum int64) {
	for _, n := range list {
		sum += n
	}
	return sum
}

func kid(n int64) store.NewRun {
	return store.NewRun{ID: store.NewID(), Workflow: kidFlow, Queue: kidQueue, Group: "g", Ordinal: n}
}

func kids(n int) []store.NewRun {
	out := make([]store.NewRun, n)
	for i := range out {
		out[i] = kid(int64(i + 1))
	}
	return out
}

// family creates a run that has spawned the children and then made the transition t.
func (c *C) family(t *store.Transition, children ...store.NewRun) store.ID {
	c.Helper()
	run := c.start()
	c.commit(store.Commit{Lease: run.Lease, Seen: run.Inbox.Events, Spawn: children, Transition: t})
	return run.Run.ID
}

func (c *C) claimKids(n int) []store.ClaimedRun {
	c.Helper()
	return c.claim(store.ClaimParams{Demands: []store.Demand{{Queue: kidQueue, Workflows: []string{kidFlow}, Max: n}}}).Runs
}

func (c *C) claimKid() store.ClaimedRun {
	c.Helper()
	return c.one(c.claimKids(1))
}

// group reads one group of a run; its zero value when there is none.
func (c *C) group(id store.ID) store.Group {
	c.Helper()
	for _, g := range c.inbox(id).Groups {
		if g.Name == "g" {
			return g
		}
	}
	return store.Group{}
}

// handle returns the handle of goroutine i: they alternate.
func (c *C) handle(i int) store.Store {
	if i%2 == 0 {
		return c.s
	}
	return c.s2
}

// race runs f in n goroutines, on both handles, as concurrently as possible, and reports their
// errors when all are done.
func (c *C) race(n int, f func(i int, s store.Store) error) {
	c.Helper()
	start := make(chan struct{})
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-start
			errs[i] = f(i, c.handle(i))
		}()
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			c.Fatalf("goroutine %d of %d: saw %s, expected no error", i+1, n, show(err))
		}
	}
}

func (c *C) tryCommitOn(s store.Store, cm store.Commit) (store.CommitResult, error) {
	for try := 0; ; try++ {
		res, err := patient(c.ctx, func() ([]store.CommitResult, error) {
			return s.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Commits: []store.Commit{cm}, Now: c.now})
		})
		if err != nil {
			return store.CommitResult{}, err
		}
		if len(res) != 1 {
			return store.CommitResult{}, fmt.Errorf("one commit got %d results", len(res))
		}
		if !errors.Is(res[0].Err, store.ErrUnavailable) || try == 1000 {
			return res[0], nil
		}
	}
}

func (c *C) claimOn(s store.Store, p store.ClaimParams) ([]store.ClaimedRun, error) {
	got, err := patient(c.ctx, func() (store.Claimed, error) { return s.Claim(c.ctx, c.claimParams(p)) })
	return got.Runs, err
}

// ptr is for IfVersion.
func ptr[T any](v T) *T { return &v }

// unplaced returns signals without their positions, which the store chooses.
func unplaced(signals []store.Signal) []store.Signal {
	out := slices.Clone(signals)
	for i := range out {
		out[i].Position = 0
	}
	return out
}
