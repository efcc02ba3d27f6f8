package workflow

import (
	"fmt"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
)

// Under puts the workflow's runs under a limit, which counts all of them together, or by the key that
// [limit.Key] gives. It adds to other options Under and [UnderKey], up to 8 limits in all. A limit that
// is not valid makes [New] define a workflow that cannot be used, as any other bad option does.
//
// All runs of the workflow are under the limit: those that are started, children, items of [Map] and
// [Generate], and those of schedules. What a start decides stays: a run that exists already when the
// workflow gets a limit is not under it.
func Under(lim *limit.Limit, opts ...limit.UseOption) Option {
	return func(o *options) { o.under = append(o.under, under{limit: lim, opts: opts}) }
}

// UnderKey is [Under] with a key that is worked out from each run's input, when the run is started. In
// must be the type that the workflow takes. The key must be from 1 to 255 bytes, or the start fails with
// store.ErrInvalid. The function must be quick and return the same key for the same input: it is called
// by the program that starts the run, and, for a child, each time that the parent is replayed. A run
// that continues as new keeps its keys.
//
// A program that has only the workflow's name cannot work out the key. It gives the key itself, with
// [Reference.UnderKey] or engine.LimitKey, or its starts fail with store.ErrInvalid.
func UnderKey[In any](lim *limit.Limit, key func(In) string, opts ...limit.UseOption) Option {
	return func(o *options) { o.under = append(o.under, under{limit: lim, opts: opts, key: key, keyed: true}) }
}

// under is a limit as an option gives it.
type under struct {
	limit *limit.Limit
	opts  []limit.UseOption
	keyed bool
	key   any // of a keyed one: a func(In) string
}

// boundLimit is a limit that the runs of a workflow with this input are under.
type boundLimit[In any] struct {
	limit *limit.Limit
	use   store.LimitUse
	key   func(In) string // nil: the key of use
}

// bind checks the limits of a workflow.
func bind[In any](all []under) (bound []boundLimit[In], err error) {
	var uses []store.LimitUse
	for _, u := range all {
		use, err := u.limit.Use(u.opts...)
		if err != nil {
			return nil, err
		}
		b := boundLimit[In]{limit: u.limit, use: use}
		if u.keyed {
			key, ok := u.key.(func(In) string)
			switch {
			case !ok:
				var want func(In) string
				return nil, store.Invalid("limit "+use.Limit, fmt.Sprintf("its key function is a %T, but the workflow needs a %T", u.key, want))
			case key == nil:
				return nil, store.Invalid("limit "+use.Limit, "its key function is nil")
			}
			b.key = key
		}
		uses, bound = append(uses, use), append(bound, b)
	}
	return bound, store.CheckUses(uses, nil)
}

// usesFor returns the limits that a run with this input is under.
func usesFor[In any](bound []boundLimit[In], in In) ([]store.LimitUse, error) {
	uses := make([]store.LimitUse, 0, len(bound))
	for _, b := range bound {
		use := b.use
		if b.key != nil {
			use.Key = b.key(in)
			if use.Key == "" {
				return nil, store.Invalid("limit "+use.Limit, fmt.Sprintf("its key function returned an empty key for the input, a %T", in))
			}
			if err := store.CheckUses([]store.LimitUse{use}, nil); err != nil {
				return nil, fmt.Errorf("the key of limit %q: %w", use.Limit, err)
			}
		}
		uses = append(uses, use)
	}
	return uses, nil
}

// defined returns what workers register of a workflow's limits.
func defined[In any](bound []boundLimit[In]) (limits []store.Limit, needs []exec.LimitNeed) {
	for _, b := range bound {
		limits = append(limits, store.Limit{Name: b.use.Limit, Rule: b.limit.Rule()})
		needs = append(needs, exec.LimitNeed{LimitUse: b.use, Keyed: b.key != nil, Most: b.limit.Rule().Most()})
	}
	return limits, needs
}

// StepUnder puts a step under a limit, which counts all steps and runs that are under it together, or by
// the key that [limit.Key] gives:
//
//	res, err := workflow.Step(ctx, "call", call, workflow.StepUnder(github, limit.Tokens(3)))
//
// Each attempt of the step needs a permit, and takes the tokens of a rate as it begins. If the run has no
// permit, it is suspended: it holds no slot and no permit, and is claimed again with the permit. So each
// attempt costs a claim and a replay of the run. A permit ends when the attempt has ended and its outcome
// is recorded. An attempt that is repeated because its worker died keeps the permit and takes no tokens.
// A step that is replayed needs no permit.
//
// A run has the permits of one step at a time. While a step waits, the run's other branches go on until
// they all wait as well; then the run as a whole waits for the permit. Of several waiting steps, one asks
// at a time.
//
// The cleanup of a canceled run does not wait: its steps need no permit.
//
// If the run itself is under the limit, with the same key, its own permit counts, and the step takes no
// tokens of its own; with another key, the step fails with store.ErrInvalid. It adds to other options
// StepUnder; the run and the step may be under 8 limits in all. A step of [StepTx] or a generator cannot
// be under a limit: it fails with store.ErrInvalid.
func StepUnder(lim *limit.Limit, opts ...limit.UseOption) StepOption {
	return func(o *stepOptions) {
		use, err := lim.Use(opts...)
		if err != nil && o.Err == nil {
			o.Err = err
		}
		if err == nil {
			o.Limits = append(o.Limits, exec.StepLimit{Use: use, Rule: lim.Rule()})
		}
	}
}

// noLimits is the error of a step that cannot be under a limit; nil: it is under none.
func noLimits(of string, o exec.StepOptions, why string) error {
	if o.Err != nil {
		return fmt.Errorf("%s: %w", of, o.Err)
	}
	if len(o.Limits) == 0 {
		return nil
	}
	return store.Invalid(of, fmt.Sprintf("it cannot be under limit %q: %s", o.Limits[0].Use.Limit, why))
}

// UnderKey returns a reference whose starts give the key of one of the workflow's limits, worked out from
// the input as by the workflow's own [UnderKey]. Lim is the limit's name.
func (r Reference[In, Out]) UnderKey(lim string, key func(In) string) Reference[In, Out] {
	before := r.keys
	r.keys = &refKeys[In]{limit: lim, key: key, before: before}
	return r
}

// refKeys are the key functions of a reference, the last one first.
type refKeys[In any] struct {
	limit  string
	key    func(In) string
	before *refKeys[In]
}

// uses returns the keys of a start.
func (k *refKeys[In]) uses(in In) (uses []store.LimitUse, err error) {
	for ; k != nil; k = k.before {
		if k.key == nil {
			return nil, store.Invalid("limit "+k.limit, "its key function is nil")
		}
		key := k.key(in)
		if key == "" {
			return nil, store.Invalid("limit "+k.limit, fmt.Sprintf("its key function returned an empty key for the input, a %T", in))
		}
		uses = append(uses, store.LimitUse{Limit: k.limit, Key: key})
	}
	return uses, nil
}
