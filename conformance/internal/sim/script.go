package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// A script is what a run does. The workflows of the simulation interpret it, so that a seed can
// make any mixture. The outcome that a run must have follows from its script alone, whatever faults
// occur.
type script []op

type opKind uint8

const (
	opStep  opKind = iota
	opSleep        // for d
	opUntil        // until at
	opValue
	opGroup // concurrent branches
	opPanic // of the workflow's own function
)

type op struct {
	kind opKind
	name string

	// These fields are for steps.
	work     time.Duration // how long an execution takes
	heeds    bool          // it ends with its context
	fail     int           // attempts that fail before one succeeds
	failRuns int           // attempts of the run in which it fails for good
	how      failing
	attempts int
	backoff  time.Duration
	caught   bool // the workflow goes on after its failure
	kills    int  // how many executions end their process
	under    []limitedStep

	d        time.Duration
	at       time.Time
	branches []script
}

type failing uint8

const (
	byError failing = iota
	byCode
	byPanic
	byTimeout
	permanently
)

func (f failing) code() string {
	return [...]string{byError: "error", byCode: "teapot", byPanic: "panic", byTimeout: "timeout", permanently: "gone"}[f]
}

// fate is the outcome of a script.
type fate struct {
	notes     []string
	code      string // of its failure; empty: none
	permanent bool
}

// play computes the outcome of an attempt of the run.
func (sc script) play(attempt int) fate {
	var f fate
	for _, o := range sc {
		switch o.kind {
		case opStep:
			note := o.name
			permanent := o.how == permanently && o.fail > 0
			if o.fail >= o.attempts || attempt <= o.failRuns || permanent {
				if !o.caught {
					return fate{code: o.how.code(), permanent: permanent}
				}
				note += "!" + o.how.code()
			}
			f.notes = append(f.notes, note)
		case opGroup:
			for _, b := range o.branches {
				got := b.play(attempt)
				if got.code != "" && f.code == "" {
					f.code, f.permanent = got.code, got.permanent
				}
				f.notes = append(f.notes, got.notes...)
			}
			if f.code != "" {
				return fate{code: f.code, permanent: f.permanent}
			}
		case opPanic:
			return fate{code: "panic", permanent: true}
		default:
			f.notes = append(f.notes, o.name)
		}
	}
	return f
}

// waits returns the longest time that a script can take by itself, and the part of it in which its
// steps work, with all attempts.
func (sc script) waits() (total, work time.Duration) {
	for _, o := range sc {
		switch o.kind {
		case opStep:
			n := time.Duration(max(o.attempts, 1))
			w := n * o.work
			if o.how == byTimeout {
				w += n * time.Second
			}
			work += w
			total += w + n*o.backoff
		case opSleep:
			total += o.d
		case opGroup:
			for _, b := range o.branches { // one after the other would be the worst
				t, w := b.waits()
				total += t
				work += w
			}
		}
	}
	return total, work
}

// plan is one run: its script, and how it is started.
type plan struct {
	n        int
	script   script
	flow     int      // which workflow
	fresh    bool     // the start makes an id of its own
	id       store.ID // unless fresh
	external string
	startAt  time.Duration // after the beginning
	from     int           // the process that starts it; negative: the client
	delay    time.Duration
	timeout  time.Duration
	cancelAt time.Duration // 0: never
	under    []store.LimitUse
}

// attempts of the workflows' runs.
var flows = []struct {
	name     string
	queue    string
	attempts int
}{{"once", "", 1}, {"thrice", "shared", 3}, {"twice", "shared", 2}}

const runBackoff = 2 * time.Second

// fate returns the outcome of the run.
func (p *plan) fate() fate {
	for attempt := 1; ; attempt++ {
		f := p.script.play(attempt)
		if f.code == "" || f.permanent || attempt >= flows[p.flow].attempts {
			return f
		}
	}
}

// waits bounds the time that the run takes by itself.
func (p *plan) waits() (total, work time.Duration) {
	t, w := p.script.waits()
	n := time.Duration(flows[p.flow].attempts)
	return p.delay + n*(t+runBackoff), n * w
}

// input names a plan. The simulation sets the epoch at each invocation.
type input struct {
	Plan  int   `json:"plan"`
	Epoch int64 `json:"epoch,omitempty"`
}

type output struct {
	Notes []string `json:"notes"`
	X     []int64  `json:"x"` // executions and values that its steps were recorded with
}

// definition is a workflow whose invocations know their lease's epoch.
type definition struct {
	workflow.Definition
	p *proc
}

func (p *proc) definitions() []workflow.Definition {
	var defs []workflow.Definition
	for _, f := range flows {
		opts := []workflow.Option{workflow.RunAttempts(f.attempts), workflow.RunBackoff(runBackoff, 1, runBackoff)}
		if f.queue != "" {
			opts = append(opts, workflow.Queue(f.queue))
		}
		defs = append(defs, definition{workflow.New(f.name, p.play, opts...), p})
	}
	return append(defs, p.feedDefinitions()...)
}

// Define implements [bridge.Definer].
func (d definition) Define(codec exec.Codec) *exec.Definition {
	def := bridge.Define(d.Definition, codec)
	d.p.world.limits.define(def)
	inner := def.Invoke
	def.Invoke = func(b *exec.Branch, data []byte) ([]byte, error) {
		var in input
		if err := codec.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		in.Epoch = b.Invocation().Lease().Epoch
		data, err := codec.Marshal(in)
		if err != nil {
			return nil, err
		}
		return inner(b, data)
	}
	return def
}

// play is the workflows' function.
func (p *proc) play(ctx workflow.Context, in input) (output, error) {
	pl := p.world.plans[in.Plan]
	if got := ctx.Info().RunID; !pl.fresh && pl.external == "" && got != pl.id {
		p.world.fail("run %s was executed with the input of run %d", p.world.name(got), pl.n)
	}
	pr := &player{p: p, run: ctx.Info().RunID, epoch: in.Epoch, attempt: ctx.Info().Attempt}
	err := pr.play(ctx, pl.script, "")
	if err != nil {
		return output{}, err
	}
	return output{pr.notes, pr.xs}, nil
}

// player interprets one branch.
type player struct {
	p       *proc
	run     store.ID
	epoch   int64
	attempt int
	notes   []string
	xs      []int64
	uses    map[string]int
}

var errTransient = errors.New("it did not work")

func (pr *player) play(ctx workflow.Context, sc script, path string) error {
	w := pr.p.world
	pr.uses = map[string]int{}
	for _, o := range sc {
		switch o.kind {
		case opStep:
			out, err := pr.step(ctx, o)
			note := o.name
			if err != nil {
				if !o.caught || errors.Is(err, workflow.ErrCanceled) || errors.Is(err, workflow.ErrDeadline) {
					return err
				}
				note += "!" + workflow.ErrorCode(err)
			} else {
				pr.xs = append(pr.xs, out.X)
			}
			pr.notes = append(pr.notes, note)
		case opSleep, opUntil:
			pr.uses[o.name]++
			key := store.StepKey{Branch: path, Name: o.name, Occurrence: pr.uses[o.name]}
			w.arrive(pr.run, pr.epoch, key)
			var err error
			if o.kind == opSleep {
				err = workflow.Sleep(ctx, o.name, o.d)
			} else {
				err = workflow.SleepUntil(ctx, o.name, o.at)
			}
			if err != nil {
				return err
			}
			w.woke(pr.run, pr.epoch, key, o)
			pr.notes = append(pr.notes, o.name)
		case opValue:
			x, err := workflow.Value(ctx, o.name, func() int64 { return w.value() })
			if err != nil {
				return err
			}
			pr.xs = append(pr.xs, x)
			pr.notes = append(pr.notes, o.name)
		case opGroup:
			g := workflow.NewGroup(ctx)
			players := make([]*player, len(o.branches))
			for i, b := range o.branches {
				name := fmt.Sprintf("%s.%d", o.name, i)
				child := &player{p: pr.p, run: pr.run, epoch: pr.epoch, attempt: pr.attempt}
				players[i] = child
				below := name
				if path != "" {
					below = path + "/" + name
				}
				g.Go(name, func(ctx workflow.Context) error { return child.play(ctx, b, below) })
			}
			if err := g.Wait(); err != nil {
				return err
			}
			for _, child := range players {
				pr.notes = append(pr.notes, child.notes...)
				pr.xs = append(pr.xs, child.xs...)
			}
		case opPanic:
			panic("as the script says")
		}
	}
	return nil
}

func (pr *player) step(ctx workflow.Context, o op) (stepOut, error) {
	opts := []workflow.StepOption{workflow.Attempts(o.attempts), workflow.Backoff(o.backoff, 1, o.backoff)}
	if o.how == byTimeout {
		opts = append(opts, workflow.Timeout(o.work+time.Second))
	}
	opts = append(opts, o.limitOptions()...)
	return workflow.Step(ctx, o.name, func(sctx context.Context) (stepOut, error) {
		info := exec.Info(sctx)
		if pr.p.dead() {
			pr.p.haunt() // what a dead process does happens nowhere
			return stepOut{}, errCut
		}
		e := pr.p.world.executing(pr.p, pr.run, info.Key)
		defer pr.p.world.executes(pr, o, e)()
		if o.kills > 0 && pr.p.world.killing(pr.run, o.kills) {
			pr.p.kill()
		}
		failing := pr.attempt <= o.failRuns || info.Attempt <= o.fail
		work := o.work
		if failing && o.how == byTimeout {
			work += 10 * time.Second // more than its timeout
		}
		if err := pr.p.work(sctx, work, o.heeds || failing && o.how == byTimeout); err != nil {
			return stepOut{}, err
		}
		if !failing {
			pr.p.world.succeeded(e)
			return stepOut{e.x}, nil
		}
		switch o.how {
		case byCode:
			return stepOut{}, workflow.Coded("teapot", errTransient)
		case byPanic:
			panic("as the script says")
		case permanently:
			return stepOut{}, workflow.Permanent(workflow.Coded("gone", errTransient))
		}
		return stepOut{}, errTransient
	}, opts...)
}

// maker makes scripts of random numbers.
type maker struct {
	*rand.Rand
	lease time.Duration
	long  time.Duration // the longest sleep
	store time.Time     // the store's clock at the beginning
	n     int           // groups
}

// upTo returns a duration up to d, which is mostly much shorter than d.
func (m *maker) upTo(d time.Duration) time.Duration {
	x := m.Float64()
	return time.Duration(float64(d) * x * x * x).Truncate(time.Millisecond)
}

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

func (m *maker) script(size, depth int) script {
	sc := make(script, 0, size)
	for range size {
		o := op{name: string(rune('a' + m.IntN(4)))}
		switch x := m.IntN(100); {
		case x < 55:
			m.step(&o)
		case x < 72:
			o.kind, o.name, o.d = opSleep, "z"+o.name, m.sleep()
		case x < 76:
			o.kind, o.name, o.at = opUntil, "u"+o.name, m.store.Add(m.upTo(m.long)).Truncate(time.Microsecond)
		case x < 86 || depth == 0:
			o.kind, o.name = opValue, "v"+o.name
		default:
			m.n++
			o.kind, o.name = opGroup, fmt.Sprint("g", m.n)
			for range 2 + m.IntN(2) {
				o.branches = append(o.branches, m.script(1+m.IntN(3), depth-1))
			}
		}
		sc = append(sc, o)
	}
	return sc
}

func (m *maker) sleep() time.Duration {
	if m.chance(30) {
		return time.Duration(m.IntN(200)) * time.Millisecond // parks
	}
	return m.upTo(m.long)
}

func (m *maker) step(o *op) {
	o.attempts, o.backoff = 5, time.Duration(m.IntN(3000))*time.Millisecond
	switch m.IntN(10) {
	case 0:
		o.work = m.upTo(2 * m.lease)
	case 1, 2, 3:
		o.work = time.Duration(m.IntN(1500)) * time.Millisecond
	}
	o.heeds = m.chance(50)
	if m.chance(25) {
		o.fail, o.how = 1+m.IntN(2), failing(m.IntN(4))
	}
	switch m.IntN(25) {
	case 0: // in the end
		o.fail, o.attempts, o.how, o.caught = 2, 2, failing(m.IntN(4)), m.chance(60)
	case 1:
		o.fail, o.how, o.caught = 1, permanently, m.chance(60)
	case 2: // until the run is tried again
		o.fail, o.failRuns, o.attempts, o.how = 0, 1+m.IntN(2), 1+m.IntN(2), failing(m.IntN(3))
	case 3:
		o.backoff = m.upTo(m.long)
	}
}

// sorted is for comparison.
func sorted(xs []int64) []int64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs
}
