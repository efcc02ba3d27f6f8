package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// limited is what a seed decides about the limits of a world, and the journal of what ran under them.
// The watcher writes the journal as calls are applied: which lease took which permits and tokens, and
// what ended them. The checks of P21, P22 and P24 read the journal and never ask the store, until
// everything is final.
type limited struct {
	limits []*limit.Limit // pool, quota, turns, calls
	pauses bool           // the shared queue is paused now and then

	// The rest is guarded by the world's mutex.
	paused bool
	under  map[store.ID]*uses
	given  map[store.LimitUse][]grant // by limit and key, with no tokens
	active map[*execution][]store.LimitUse
	probes map[store.ID]bool // the runs of probe
}

// uses are the limits that a run is under, as its start and its commits say.
type uses struct {
	own     []store.LimitUse
	step    []store.LimitUse // of the step that it waits for or executes
	charged bool             // this attempt of the run has taken its tokens
	ended   bool             // the permits of the step end with the lease
}

// grant is tokens that a claim has taken.
type grant struct {
	at     time.Time
	tokens int64
}

// The limits of a world, by their places in limited.limits. Runs are under the first three, steps under
// the last one and the first one.
const (
	pool = iota
	quota
	turns
	calls
)

// limitWorld decides whether the world has limits, puts runs and steps under them, and adds
// runs.
func (w *world) limitWorld() {
	r := w.rng("limits", 0)
	if r.IntN(10) >= 4 {
		return
	}
	w.counts.add("world with limits")
	every := time.Duration(r.Int64N(int64(w.profile.lease))) / 2
	perTwo := 2 * max(every, time.Millisecond).Truncate(time.Microsecond)
	l := &limited{limits: []*limit.Limit{
		limit.New("pool", limit.Concurrency(1+r.IntN(2))),
		limit.New("quota", limit.Rate(2, perTwo, limit.Burst(1+r.IntN(3)))),
		limit.New("turns", limit.Concurrency(1+r.IntN(2)), limit.Fair()),
		limit.New("calls", limit.Concurrency(1+r.IntN(2))),
	}, pauses: r.IntN(3) == 0}
	if r.IntN(2) == 0 {
		l.limits[calls] = limit.New("calls", limit.Concurrency(1+r.IntN(2)), limit.Rate(2, perTwo, limit.Burst(1+r.IntN(2))))
	}
	w.limits = l
	l.under, l.given, l.active, l.probes = map[store.ID]*uses{}, map[store.LimitUse][]grant{}, map[*execution][]store.LimitUse{}, map[store.ID]bool{}
	m := &maker{Rand: r, lease: w.profile.lease, long: w.profile.long / 10, store: time.Now().Add(w.profile.skew)}
	for range 1 + r.IntN(5) {
		w.plans = append(w.plans, w.newPlan(m, len(w.plans)))
	}
	for _, p := range w.plans {
		if r.IntN(2) == 0 { // more of them at a time
			p.startAt /= 4
			p.cancelAt -= min(p.cancelAt, 3*p.startAt)
		}
		p.under = l.draw(r)
		l.drawSteps(r, p, p.script)
	}
}

// draw draws the limits of a run.
func (l *limited) draw(r *rand.Rand) (under []store.LimitUse) {
	if r.IntN(3) > 0 {
		under = append(under, store.LimitUse{Limit: l.limits[pool].Name(), Key: string(rune('a' + r.IntN(2)))})
	}
	if r.IntN(3) == 0 {
		under = append(under, store.LimitUse{Limit: l.limits[quota].Name(), Tokens: 1 + r.Int64N(l.limits[quota].Rule().Most())})
	}
	if r.IntN(3) == 0 {
		under = append(under, store.LimitUse{Limit: l.limits[turns].Name(), Key: string(rune('x' + r.IntN(3)))})
	}
	return store.SortUses(under)
}

// drawSteps puts steps of a script under limits.
func (l *limited) drawSteps(r *rand.Rand, p *plan, sc script) {
	for i := range sc {
		o := &sc[i]
		for _, b := range o.branches {
			l.drawSteps(r, p, b)
		}
		if o.kind != opStep || r.IntN(3) > 0 {
			continue
		}
		o.under = []limitedStep{{l.limits[calls], store.LimitUse{Limit: l.limits[calls].Name(), Key: string(rune('k' + r.IntN(2)))}}}
		if r.IntN(4) == 0 && !slices.ContainsFunc(p.under, func(u store.LimitUse) bool { return u.Limit == l.limits[pool].Name() }) {
			o.under = append(o.under, limitedStep{l.limits[pool], store.LimitUse{Limit: l.limits[pool].Name(), Key: string(rune('a' + r.IntN(2)))}})
		}
	}
}

// limitedStep is a limit that a step is under.
type limitedStep struct {
	limit *limit.Limit
	use   store.LimitUse
}

func (o *op) limitOptions() (opts []workflow.StepOption) {
	for _, u := range o.under {
		opts = append(opts, workflow.StepUnder(u.limit, limit.Key(u.use.Key)))
	}
	return opts
}

// limitOptions are those of the run's start.
func (p *plan) limitOptions() []engine.StartOption {
	if len(p.under) == 0 {
		return nil
	}
	return []engine.StartOption{engine.Under(p.under...)}
}

// define adds the limits of the world's runs to what workers register of a workflow.
func (l *limited) define(def *exec.Definition) {
	if l == nil {
		return
	}
	for _, lim := range l.limits[:calls] {
		def.Limits = append(def.Limits, store.Limit{Name: lim.Name(), Rule: lim.Rule()})
	}
}

// limitSlack is how much longer runs may take after healing because they wait for each other.
func (w *world) limitSlack() (slack time.Duration) {
	if w.limits == nil {
		return 0
	}
	var waits, tokens int64
	for _, p := range w.plans {
		own, _ := p.waits()
		slack += own
		n := int64(flows[p.flow].attempts)
		waits += n * int64(1+p.script.size())
		for _, u := range p.under {
			tokens += n * max(1, u.Tokens)
		}
	}
	every := max(w.limits.limits[quota].Rule().Every(), w.limits.limits[calls].Rule().Every())
	slack += time.Duration((tokens+waits)*every) * time.Microsecond
	// A run that parks holds its permits. Whoever gets a permit may have to find it by polling, and
	// a worker of one slot may be in between.
	return slack + time.Duration(waits)*(w.profile.park+w.profile.poll) + 3*w.profile.lease
}

// pauser pauses and resumes the queue of some runs until all faults end.
func (w *world) pauser() {
	if w.limits == nil || !w.limits.pauses {
		return
	}
	r := w.rng("pauses", 0)
	pause := func(resume bool) {
		defer w.alone()()
		err := w.store.PauseTarget(context.Background(), store.PauseTargetParams{Namespace: namespace, Queue: "shared", Resume: resume, Now: w.now(time.Time{})})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.limits.paused = !resume
		w.noteLocked("world", "queue shared paused: %v", !resume)
		if err != nil {
			w.failLocked("pause of a queue: %v", err)
		}
	}
	for healed := false; !healed; {
		for _, resume := range []bool{false, true} {
			t := time.NewTimer(time.Duration(r.Int64N(int64(w.profile.lease)) + 1))
			select {
			case <-t.C:
			case <-w.healed:
				healed = true
			}
			t.Stop()
			if healed {
				break
			}
			w.count("queue paused or resumed")
			pause(resume)
		}
	}
	pause(true)
}

// The following are called by the watcher, which holds the world's mutex, when a call was applied.

// of returns what a run is under; a feed's runs are under no limits.
func (l *limited) of(run store.ID) *uses {
	u := l.under[run]
	if u == nil {
		u = &uses{}
		l.under[run] = u
	}
	return u
}

// created notes the limits of a run.
func (l *limited) created(w *world, n *store.NewRun, res *store.CreateResult) {
	if l == nil {
		return
	}
	l.under[n.ID] = &uses{own: n.Under}
	if len(n.Under) > 0 && res.Lease.Epoch != 0 {
		w.failLocked("run %s is under limits and was leased by its start (P21)", w.name(n.ID))
	}
}

// claimed checks that a claim was permitted, and notes what it took. The watcher's record of the run is
// the one before the claim.
func (l *limited) claimed(w *world, s *seen, now time.Time) {
	if l == nil {
		return
	}
	u := l.of(s.id)
	if s.worker != "" {
		w.countIf("takeover with permits", len(u.own)+len(u.step) > 0)
		return // it inherits what the lease before had
	}
	if l.paused && s.fed == nil && flows[w.plans[s.plan].flow].queue == "shared" {
		w.failLocked("run %s was claimed while its queue was paused", w.name(s.id))
	}
	u.ended = false
	for _, use := range slices.Concat(u.own, u.step) {
		l.permitted(w, s, use)
	}
	if !u.charged {
		l.charge(w, s, u.own, now)
		u.charged = true
	}
	l.charge(w, s, u.step, now)
}

// permitted checks P21: fewer leases than the limit's concurrency are under the limit and key.
func (l *limited) permitted(w *world, s *seen, use store.LimitUse) {
	most := l.rule(use.Limit).Concurrency
	if most == 0 {
		return
	}
	held := []string{}
	for _, other := range w.runs {
		if other != s && other.worker != "" && l.of(other.id).has(use) {
			held = append(held, other.name)
		}
	}
	w.count("permit given")
	w.countIf("last permit given", int64(len(held)) == most-1)
	if int64(len(held)) >= most {
		w.failLocked("run %s was claimed beside %d others under limit %s, key %q, which permits %d: %v (P21)", w.name(s.id), len(held), use.Limit, use.Key, most, held)
	}
}

func (u *uses) has(use store.LimitUse) bool {
	return slices.ContainsFunc(slices.Concat(u.own, u.step), func(o store.LimitUse) bool { return o.Limit == use.Limit && o.Key == use.Key })
}

// charge notes tokens that a claim took, and checks P22 in every window that ends now.
func (l *limited) charge(w *world, s *seen, list []store.LimitUse, now time.Time) {
	for _, use := range list {
		rule := l.rule(use.Limit)
		if rule.Every() == 0 {
			continue
		}
		key := store.LimitUse{Limit: use.Limit, Key: use.Key}
		given := append(l.given[key], grant{now, max(1, use.Tokens)})
		l.given[key] = given
		w.count("tokens given")
		var sum int64
		for i := len(given) - 1; i >= 0; i-- {
			sum += given[i].tokens
			window := now.Sub(given[i].at)
			if most := rule.Most() + window.Microseconds()/rule.Every(); sum > most {
				w.failLocked("run %s: limit %s gave key %q %d tokens within %v, at most are %d (P22)", w.name(s.id), use.Limit, use.Key, sum, window, most)
				return
			}
		}
	}
}

func (l *limited) rule(name string) store.LimitRule {
	for _, lim := range l.limits {
		if lim.Name() == name {
			return lim.Rule()
		}
	}
	return store.LimitRule{}
}

// committed notes what a commit changed.
func (l *limited) committed(w *world, s *seen, c *store.Commit) {
	if l == nil {
		return
	}
	u := l.of(s.id)
	if c.Free && len(u.step) > 0 {
		w.count("step's permit ended by its record")
		u.step = nil
	}
	t := c.Transition
	if t == nil {
		return
	}
	u.step = nil
	switch t.Kind {
	case store.Sleep, store.Release:
		if u.step = store.SortUses(t.Under); u.step != nil && !s.cancel {
			w.count("step waits for a permit")
		}
		if s.cancel {
			u.step = nil // a canceled run waits for no permit
		}
	case store.Retry:
		u.charged = false
	}
}

// canceledWaiting notes that a run that no worker held was canceled: it waits for no step's permit.
func (l *limited) canceledWaiting(s *seen) {
	if l != nil {
		l.of(s.id).step = nil
	}
}

// executes checks an execution of a step against all others that run at that moment: those of present
// leases under one limit and key are of no more runs than the limit permits. The function that it
// returns is called when the execution ends.
func (w *world) executes(pr *player, o op, e *execution) (done func()) {
	l := w.limits
	if l == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.runs[e.run]
	if s == nil {
		return func() {}
	}
	e.epoch = pr.epoch
	u := l.of(e.run)
	list := slices.Clone(u.own)
	for _, lu := range o.under {
		list = append(list, lu.use)
		if e.current(s) && !u.has(lu.use) {
			w.failLocked("step %s of run %s is executed without its permit of limit %s, key %q (P21)", e.key, w.name(e.run), lu.use.Limit, lu.use.Key)
		}
	}
	l.active[e] = list
	for _, use := range list {
		most := l.rule(use.Limit).Concurrency
		runs := map[store.ID]bool{}
		for other, theirs := range l.active {
			if other.current(w.runs[other.run]) && (&uses{own: theirs}).has(use) {
				runs[other.run] = true
			}
		}
		if n := int64(len(runs)); most > 0 && n > most {
			w.failLocked("steps of %d runs are executed at one time under limit %s, key %q, which permits %d (P21)", n, use.Limit, use.Key, most)
		}
	}
	w.countIf("step executed under a limit", len(list) > 0)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(l.active, e)
	}
}

// current says that the execution is under its run's present lease.
func (e *execution) current(s *seen) bool { return s.worker != "" && s.epoch == e.epoch }

func (w *world) countIf(what string, happened bool) {
	if happened {
		w.count(what)
	}
}

// checkLimits checks P24 when every run is final. The store must name no permit that is held and no run
// that waits. As a store may not know what it has leaked, runs that are one too many for a key are
// created and claimed: all but one of them must be permitted.
func (w *world) checkLimits() {
	l := w.limits
	if l == nil || len(w.failures) > 0 {
		return
	}
	now := w.clock()
	for _, lim := range l.limits {
		page, err := w.store.LimitKeys(w.ctx, store.LimitKeysParams{Namespace: namespace, Limit: lim.Name(), Now: now})
		if err != nil {
			w.failLocked("keys of limit %s: %v", lim.Name(), err)
		}
		for _, k := range page.Keys {
			if k.Held != 0 || k.Waiting != 0 {
				w.failLocked("limit %s, key %q has %d permits held and %d runs waiting, and every run is final (P24)", lim.Name(), k.Key, k.Held, k.Waiting)
			}
		}
		for _, key := range []string{"", "a", "b", "k", "l", "x", "y", "z"} {
			w.probe(lim, key, now.Add(365*24*time.Hour))
		}
	}
}

// probe checks that a key of a limit has all of its permits.
func (w *world) probe(lim *limit.Limit, key string, now time.Time) {
	rule := lim.Rule()
	most := rule.Concurrency
	if b := rule.Most(); most == 0 || b > 0 && b < most {
		most = b
	}
	if limits, err := store.AllLimits(w.ctx, w.store, store.ListLimitsParams{Namespace: namespace, Names: []string{lim.Name()}}); err != nil || len(limits) == 0 {
		w.failIfLocked(err, "limits")
		return // no step has asked for it
	}
	runs := make([]store.NewRun, most+1)
	name := fmt.Sprintf("probe-%s-%s", lim.Name(), key)
	for i := range runs {
		runs[i] = store.NewRun{ID: store.NewID(), Workflow: name, Queue: "probe", Under: []store.LimitUse{{Limit: lim.Name(), Key: key}}}
		w.limits.probes[runs[i].ID] = true
	}
	if _, err := w.store.Create(w.ctx, store.CreateParams{Namespace: namespace, Runs: runs, Now: now}); err != nil {
		w.failLocked("create of probes: %v", err)
		return
	}
	got, err := w.store.Claim(w.ctx, store.ClaimParams{
		Namespace: namespace, Worker: "prober", LeaseFor: time.Minute, Max: len(runs), Now: now,
		Demands: []store.Demand{{Workflows: []string{name}, Queue: "probe", Max: len(runs)}},
	})
	if err != nil || int64(len(got.Runs)) != most {
		w.failLocked("limit %s, key %q permits %d of %d new runs when every run is final, expected %d (P24): %v", lim.Name(), key, len(got.Runs), len(runs), most, err)
	}
}

func (w *world) failIfLocked(err error, what string) {
	if err != nil {
		w.failLocked("%s: %v", what, err)
	}
}

// PutLimits passes on a registration of limits.
func (w *wire) PutLimits(ctx context.Context, p store.PutLimitsParams) error {
	p.Now = w.world.now(p.Now)
	_, err := carry(ctx, w, "put-limits", true, p, void(w.world.store.PutLimits))
	return err
}
