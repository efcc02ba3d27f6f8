package storetier

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/store"
)

// maxRequests limits the requests of a call that are subjected to a fault, one after the other. No
// call has that many.
const maxRequests = 60

// maxStrays limits the attempts until a call's own request meets a fault. A request that the store makes in
// the background, such as one that listens again after a cut, may have met it instead.
const maxStrays = 5

// faulty opens a store whose requests can have fault f, or skips the case.
func (c *C) faulty(f faults.Fault) faults.Store {
	c.Helper()
	if c.h.Faults == nil {
		c.Skip("the harness has no Faults")
	}
	fs := c.h.Faults(c.host, c.s)
	if !slices.Contains(fs.Faults, f) {
		c.Skipf("the transport of this backend has no fault %q", f)
	}
	return fs
}

// attempt is a call that is made under a fault, and then again.
type attempt struct {
	// call makes the call. fresh says that this call made the change, and not an earlier one.
	call func(ctx context.Context, s store.Store) (fresh bool, err error)
	// again repeats the call; nil: call does.
	again func(ctx context.Context, s store.Store) (fresh bool, err error)
	// effect counts how often the call took effect.
	effect func() int
	// mute says that fresh has no meaning.
	mute bool
	// refused is the error of a repeat of an applied call; nil: it succeeds.
	refused error
	// probes says that effect writes, so that it would wait for an open transaction.
	probes bool
	// read makes a call that changes nothing; then call and effect are nil.
	read func(ctx context.Context, s store.Store) (any, error)
}

// hit makes one attempt whose nth request has the fault, and reports whether there was such a
// request. strays is the number of earlier attempts that had none.
func (c *C) hit(fs faults.Store, v verbUnderFault, f faults.Fault, nth, strays int) bool {
	c.Helper()
	c.ns = fmt.Sprintf("%s/%s/%d", c.cs.Name, v.name, nth)
	if strays > 0 {
		c.ns += fmt.Sprintf("/%d", strays)
	}
	a := v.prepare(c)
	what := fmt.Sprintf("%s, request %d %s", v.name, nth, f)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	type answer struct {
		fresh bool
		value any
		err   error
	}
	answered := make(chan answer, 1)
	began, prompt := time.Now(), false
	met, heal := fs.Arm(f, nth)
	go func() {
		var got answer
		if a.read != nil {
			got.value, got.err = a.read(ctx, fs.Store)
		} else {
			got.fresh, got.err = a.call(ctx, fs.Store)
		}
		answered <- got
	}()
	var got answer
	select {
	case got = <-answered:
	case <-met:
		switch f {
		case faults.Silent:
			prompt = time.Since(began) < time.Second
			cancel()
		case faults.Delayed:
			heal()
		}
		got = <-answered
	}
	heal()
	hit := false
	select {
	case <-met:
		hit = true
	default:
	}
	gaveUp := f == faults.Silent && hit
	if !prompt && !errors.Is(got.err, context.Canceled) {
		gaveUp = false // on a starved machine, the store's own patience may end first
	}
	if a.read != nil {
		c.judgeRead(what, a, fs.Store, got.value, got.err, hit, gaveUp)
		return hit
	}
	before := a.effect()
	c.judge(what, f, before, got.err, hit, gaveUp)
	if f == faults.Cut && got.err != nil || f == faults.Silent && before == 0 && errors.Is(got.err, store.ErrOutcomeUnknown) {
		before = -1 // a request may be applied at this very moment: with Silent, one that did not meet the fault
	}
	c.repeat(what, a, fs.Store, before, got.fresh, got.err)
	return hit
}

// judge compares the error of a write with what was applied.
func (c *C) judge(what string, f faults.Fault, effect int, err error, hit, gaveUp bool) {
	c.Helper()
	unavailable, unknown := errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrOutcomeUnknown)
	switch {
	case err == nil:
		c.check(effect == 1, "%s: saw no error and %d effects, expected one", what, effect)
	case !hit:
		c.Errorf("%s: saw %s without any fault", what, show(err))
	case f == faults.Delayed:
		c.Errorf("%s: saw %s, expected it to wait", what, show(err))
	case unavailable && unknown:
		c.Errorf("%s: saw %s, which says that nothing was applied and that this is not known", what, show(err))
	case unavailable:
		c.check(effect == 0, "%s: saw %s and %d effects; expected an error that matches %q, for it was applied", what, show(err), effect, store.ErrOutcomeUnknown)
	case unknown:
		c.check(f != faults.Refused, "%s: saw %s, expected an error that matches %q: it is certain that nothing was applied", what, show(err), store.ErrUnavailable)
		c.check(!gaveUp || errors.Is(err, context.Canceled), "%s: saw %s, expected the context's error beside it", what, show(err))
	case gaveUp && errors.Is(err, context.Canceled):
		c.check(effect == 0, "%s: saw %s and %d effects; expected an error that also matches %q, for it was applied", what, show(err), effect, store.ErrOutcomeUnknown)
	default:
		c.Errorf("%s: saw %s, expected an error that says whether to try again", what, show(err))
	}
}

// judgeRead compares a read with the answer of the handle without faults.
func (c *C) judgeRead(what string, a attempt, s store.Store, value any, err error, hit, gaveUp bool) {
	c.Helper()
	want, failed := a.read(c.ctx, c.s)
	c.ok(what+": the read without a fault", failed)
	switch {
	case err == nil:
		c.check(reflect.DeepEqual(value, want), "%s: saw %s, expected %s", what, show(value), show(want))
		return
	case !hit:
		c.Errorf("%s: saw %s without any fault", what, show(err))
	case errors.Is(err, store.ErrOutcomeUnknown):
		c.Errorf("%s: saw %s; a read changes nothing, expected %q", what, show(err), store.ErrUnavailable)
	case !errors.Is(err, store.ErrUnavailable) && !(gaveUp && errors.Is(err, context.Canceled)):
		c.Errorf("%s: saw %s, expected an error that says whether to try again", what, show(err))
	}
	for range faultPatience {
		if value, err = a.read(c.ctx, s); !store.Retryable(err) {
			break
		}
	}
	c.ok(what+": the same read afterwards", err)
	c.check(reflect.DeepEqual(value, want), "%s, the same read afterwards: saw %s, expected %s", what, show(value), show(want))
}

// faultPatience is the maximum number of times that a call is sent again.
const faultPatience = 100

// repeat sends a call again until it is answered. All of the calls together take effect once.
// before is how often the first one took effect; -1: unknown.
func (c *C) repeat(what string, a attempt, s store.Store, before int, fresh bool, first error) {
	c.Helper()
	what += ", the same call afterwards"
	again := a.again
	if again == nil {
		again = a.call
	}
	said, made := 0, before == 1
	if fresh && first == nil {
		said++
	}
	var err error
	for range faultPatience {
		if fresh, err = again(c.ctx, s); !store.Retryable(err) {
			break
		}
		before = -1
	}
	switch {
	case err == nil && fresh:
		said++
	case err != nil && a.refused != nil && (made || before < 0):
		c.fails(what, err, a.refused)
	case err != nil:
		c.Errorf("%s: saw %s, expected no error", what, show(err))
	}
	if a.refused != nil && made && err == nil {
		c.Errorf("%s: saw no error, expected %q, for it was applied before", what, a.refused)
	}
	c.check(a.effect() == 1, "%s: saw %d effects, expected one", what, a.effect())
	if a.mute || a.refused != nil {
		return
	}
	c.check(said <= 1, "%s: saw %d answers that tell of the change as their own, expected one at most", what, said)
	if before == 0 {
		c.check(said == 1, "%s: saw no answer that tells of the change as its own, though none was lost that did it", what)
	}
	if made && first != nil && before == 1 {
		c.check(said == 0, "%s: saw it told as this call's own change, and it was applied before", what)
	}
}

// underFault runs every verb under a fault, once for each of its requests.
func underFault(f faults.Fault) func(c *C) {
	return func(c *C) {
		fs := c.faulty(f)
		c.warm(fs.Store)
		for _, v := range verbsUnderFault {
			if v.needs != nil && !v.needs(c.s) {
				c.Logf("%s is left out: the backend has it not", v.name)
				continue
			}
			met, strays := 0, 0
			for met < maxRequests {
				if c.hit(fs, v, f, met+1, strays) {
					met++
				} else if strays++; met > 0 || v.idle || strays == maxStrays {
					break
				}
			}
			c.check(met > 0 || v.idle, "%s: saw no request that could meet the fault %q", v.name, f)
		}
	}
}

// warm lets the store make its one-time preparations.
func (c *C) warm(s store.Store) {
	c.Helper()
	ns := c.ns
	for _, v := range verbsUnderFault {
		if v.needs != nil && !v.needs(c.s) {
			continue
		}
		c.ns = ns + "/warm/" + v.name
		a := v.prepare(c)
		var err error
		if a.read != nil {
			_, err = a.read(c.ctx, s)
		} else {
			_, err = a.call(c.ctx, s)
		}
		c.ok(v.name, err)
		if a.effect != nil {
			c.eq(v.name+": effects without a fault", a.effect(), 1)
		}
	}
	c.ns = ns
}

var faultCases = []Case{
	{"faults/refused", "P16", "if nothing was sent, or the database says that it has done nothing, every verb fails with ErrUnavailable, and the same call succeeds later", underFault(faults.Refused)},
	{"faults/before", "P16", "if a request does not arrive, nothing of it is applied, whatever the error; the same call then takes effect once", underFault(faults.Before)},
	{"faults/after", "P16", "a write that was applied and whose answer was lost is ErrOutcomeUnknown and never ErrUnavailable; the same call then gets the answer of a repeat and has no second effect", underFault(faults.After)},
	{"faults/silent", "P16", "a caller that gives up waiting gets its context's error, which also matches ErrOutcomeUnknown if its write may have been applied", underFault(faults.Silent)},
	{"faults/cut", "P16", "if a connection is cut during a request, the call has one effect or none; after a repeat it has one", underFault(faults.Cut)},
	{"faults/delayed", "P16", "a request that arrives late takes effect once and is answered as usual", underFault(faults.Delayed)},
}

// verbUnderFault is a verb with the functions to call it and to observe its effect.
type verbUnderFault struct {
	name    string
	needs   func(s store.Store) bool // nil: every store has it
	idle    bool                     // it may answer without a request
	prepare func(c *C) attempt
}

func has[I any](s store.Store) bool {
	_, ok := s.(I)
	return ok
}

// changed is for a call that does not report repeats.
func changed(err error) (bool, error) { return err == nil, err }

// whether returns 1 if holds is true.
func whether(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// row reads a run; it returns the zero Run if there is none.
func (c *C) row(id store.ID) (r store.Run) {
	c.Helper()
	if runs := c.gets(id); len(runs) == 1 {
		r = runs[0]
	}
	return r
}

// verbsUnderFault contains every verb of the contract.
var verbsUnderFault = slices.Concat(runVerbs, signalStartVerbs, leaseVerbs, coordinationVerbs, registryVerbs, scheduleVerbs, optionalVerbs, recordingVerbs(), outboxVerbs, tellingVerbs(), readVerbs)

var runVerbs = []verbUnderFault{
	{name: "Create", prepare: func(c *C) attempt {
		p := store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{fill(store.NewRun{ExternalID: "e"}), fill(store.NewRun{})}, Now: c.now}
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Create(ctx, p)
				fresh := err == nil
				for _, r := range res {
					err = errors.Join(err, r.Err)
					fresh = fresh && r.Created && !r.Repeated
				}
				return fresh, err
			},
			effect: func() int {
				n := len(c.list(store.ListParams{}).Runs)
				return n/2 + 100*(n%2)
			},
		}
	}},
	{name: "Create with a lease", prepare: func(c *C) attempt {
		r := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease})
		var lease store.Lease
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Create(ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{r}, Now: c.now})
				if err != nil {
					return false, err
				}
				lease = res[0].Lease
				return !res[0].Repeated, res[0].Err
			},
			effect: func() int {
				c.check(lease.Epoch <= 1, "the lease: saw %+v, expected epoch 1", lease)
				return int(c.row(r.ID).Epoch)
			},
		}
	}},
	{name: "Cancel", prepare: func(c *C) attempt {
		parent := c.family(nil, kid(1))
		child := c.claimKid()
		c.end(child, release())
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Cancel(ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{child.Run.ID}, Reason: "told to", Now: c.now})
				if err != nil {
					return false, err
				}
				return len(res[0].Ended) > 0, res[0].Err
			},
			effect: func() int {
				n := int(c.group(parent).Canceled)
				if c.get(child.Run.ID).Status != store.Canceled {
					return -n
				}
				return n
			},
		}
	}},
	{name: "Pause", prepare: func(c *C) attempt { return c.pauses(c.create(store.NewRun{}), false, store.Paused) }},
	{name: "Resume", prepare: func(c *C) attempt {
		id := c.create(store.NewRun{})
		c.pause(id)
		return c.pauses(id, true, store.Pending)
	}},
	{name: "Restart", prepare: func(c *C) attempt {
		run := c.start()
		c.end(run, failWith("x"))
		return attempt{
			refused: store.ErrConflict,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(itemErr(s.Restart(ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})))
			},
			effect: func() int {
				r := c.get(run.Run.ID)
				if r.Status != store.Pending {
					return 0
				}
				return int(r.Epoch - run.Run.Epoch)
			},
		}
	}},
	{name: "Unpin", prepare: func(c *C) attempt {
		id := c.pinned()
		return attempt{
			refused: store.ErrConflict,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(itemErr(s.Unpin(ctx, store.UnpinParams{Namespace: c.ns, IDs: []store.ID{id}})))
			},
			effect: func() int { return whether(c.get(id).Pin == nil) },
		}
	}},
	{name: "Fork", prepare: func(c *C) attempt {
		run, fork := c.recorded(complete("")), store.NewID()
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Fork(ctx, store.ForkParams{Namespace: c.ns, ID: run.Run.ID, New: fork, Now: c.now})
				return !res.Repeated, err
			},
			effect: func() int {
				n := len(c.list(store.ListParams{}).Runs) - 1
				c.check(n == 0 || len(c.gets(fork)) == 1 && len(c.steps(fork)) == 1, "the fork: saw runs of other ids, expected %v with its step", fork)
				return n
			},
		}
	}},
	{name: "Purge", prepare: func(c *C) attempt {
		ids := c.createN(3, store.NewRun{})
		for _, r := range c.claimN(2) {
			c.end(r, complete(""))
		}
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				n, err := s.Purge(ctx, store.PurgeParams{Namespace: c.ns, Now: c.now.Add(time.Hour)})
				return n > 0, err
			},
			effect: func() int {
				n := 3 - len(c.gets(ids...))
				return n/2 + 100*(n%2)
			},
		}
	}},
}

// pauses returns a call of Pause.
func (c *C) pauses(id store.ID, resume bool, then store.Status) attempt {
	return attempt{
		mute: true,
		call: func(ctx context.Context, s store.Store) (bool, error) {
			res, err := s.Pause(ctx, store.PauseParams{Namespace: c.ns, IDs: []store.ID{id}, Resume: resume, Now: c.now})
			if err != nil {
				return false, err
			}
			return true, res[0].Err
		},
		effect: func() int { return whether(c.get(id).Status == then) },
	}
}
