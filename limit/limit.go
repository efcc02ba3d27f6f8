// Package limit defines limits: how many runs or steps may be at work at the same time, and how many
// may begin in a period. A limit counts over all workers of a namespace, and is exact.
//
//	var github = limit.New("github", limit.Rate(5000, time.Hour, limit.Burst(100)), limit.Concurrency(20))
//	var tenants = limit.New("tenant", limit.Concurrency(3), limit.Fair())
//
//	var Crawl = workflow.New("crawl", crawl,
//		workflow.Under(github),
//		workflow.UnderKey(tenants, func(p Page) string { return p.Tenant }))
//
// A run may be under several limits: see workflow.Under, workflow.UnderKey and engine.Under. A worker
// takes it when all of them permit it, and takes all permits at once, so that no two runs wait for each
// other. A step may be under limits of its own: see workflow.StepUnder.
//
// A run holds its permits as long as a worker holds the run. A run that sleeps, or waits for a signal or
// for children, holds none. The permits of a run whose worker has died count until another worker has
// taken the run over, which then has them.
//
// # Keys
//
// A limit with a key counts the runs of each key apart: three at a time for each tenant, say. The key is
// a text of up to 255 bytes, worked out from the input when the run is started, and never changes.
// Without a key, a limit counts all of its runs together.
//
// # Where limits live
//
// The name identifies a limit in the store, as that of a workflow does. Workers register the limits of
// their workflows when they start, and those of steps when a step first asks. If two programs register a
// limit of one name with different rules, the newer registration counts, and a warning says so. An
// operator may set another rule while programs run (engine.Engine.SetLimit, pawl limits set); it counts
// until it is removed, whatever programs register.
package limit

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Limit is a named rule. Create one with [New]. It does not change and is safe for concurrent use.
type Limit struct {
	name string
	rule store.LimitRule
	err  error
}

// Rule is a part of a limit: [Concurrency], [Rate] or [Fair]. Of several of one kind, the last one counts.
type Rule func(*Limit)

// New defines a limit. It never fails. A limit that is not valid (a name that store.ValidateName refuses,
// no rule, or a number that is not above zero) makes worker.Worker.Register, Start and the like fail with
// store.ErrInvalid.
func New(name string, rules ...Rule) *Limit {
	l := &Limit{name: name}
	l.err = store.ValidateName("limit", name)
	for _, rule := range rules {
		rule(l)
	}
	if l.rule.Concurrency == 0 && l.rule.Tokens == 0 && !l.rule.Fair {
		l.fail("it limits nothing: give it limit.Concurrency, limit.Rate or limit.Fair")
	}
	if l.err == nil {
		l.err = l.rule.Validate(name)
	}
	return l
}

func (l *Limit) fail(format string, args ...any) {
	l.err = errors.Join(l.err, store.Invalid("limit "+l.name, fmt.Sprintf(format, args...)))
}

// Concurrency lets at most n runs or steps of each key be at work at the same time. n must be above zero.
func Concurrency(n int) Rule {
	return func(l *Limit) {
		l.rule.Concurrency = int64(n)
		if n < 1 {
			l.fail("a concurrency of %d is not above zero", n)
		}
	}
}

// Rate lets attempts of each key take at most n tokens in each period, evenly: a token is there again
// after per/n. Each attempt of a run or step takes one token as it begins, or as many as [Tokens] or
// engine.Tokens says. In any window of length w, at most burst + n*w/per tokens are taken.
//
// n and per must be above zero. The burst is n, unless [Burst] sets another.
func Rate(n int, per time.Duration, opts ...RateOption) Rule {
	return func(l *Limit) {
		l.rule.Tokens, l.rule.Per, l.rule.Burst = int64(n), per, int64(n)
		if n < 1 || per <= 0 {
			l.fail("a rate of %d in %v is not above zero", n, per)
		}
		for _, opt := range opts {
			opt(l)
		}
	}
}

// RateOption configures a [Rate].
type RateOption func(*Limit)

// Burst sets how many tokens may be taken at once after a quiet time. n must be above zero.
func Burst(n int) RateOption {
	return func(l *Limit) {
		l.rule.Burst = int64(n)
		if n < 1 {
			l.fail("a burst of %d is not above zero", n)
		}
	}
}

// Fair shares the workers between the keys: of the keys that have runs to do, the one that has had the
// least is next, however many runs the others have waiting. A key may have a larger share: see
// engine.Engine.SetWeight. Steps are shared the same way.
func Fair() Rule { return func(l *Limit) { l.rule.Fair = true } }

// Name returns the limit's name in the store.
func (l *Limit) Name() string { return l.name }

// Rule returns what the limit allows, as workers register it.
func (l *Limit) Rule() store.LimitRule { return l.rule }

// Err returns what is wrong with the limit's definition; nil: nothing. The error matches
// store.ErrInvalid.
func (l *Limit) Err() error {
	if l == nil {
		return store.Invalid("limit", "it is nil")
	}
	return l.err
}

// UseOption says how a step or a run uses a limit: [Key] or [Tokens].
type UseOption func(*use)

type use struct {
	store.LimitUse
	keyed bool
}

// Key sets what the limit counts by, from 1 to 255 bytes. The default is that the limit counts all of
// its runs and steps together.
func Key(key string) UseOption { return func(u *use) { u.Key, u.keyed = key, true } }

// Tokens sets how many tokens of a [Rate] each attempt takes. n must be above zero, and not above the
// rate's burst as code defines it. If an operator sets a lower burst, such an attempt waits until all
// tokens of the burst are there, and the key then owes the rest. For a limit with [Fair] it is also what the
// attempt counts in its key's share. The default is 1.
func Tokens(n int) UseOption {
	return func(u *use) {
		if u.Tokens = int64(n); n < 1 {
			u.Tokens = -1
		}
	}
}

// Use returns how a run or step uses the limit, for engine.Under. It fails with store.ErrInvalid if the
// limit is not valid, if a key is empty or longer than 255 bytes, or if more tokens are asked for than
// the limit's own burst.
func (l *Limit) Use(opts ...UseOption) (store.LimitUse, error) {
	if err := l.Err(); err != nil {
		return store.LimitUse{}, err
	}
	u := use{LimitUse: store.LimitUse{Limit: l.name}}
	for _, opt := range opts {
		opt(&u)
	}
	return u.LimitUse, l.check(u)
}

func (l *Limit) check(u use) error {
	what := "use of limit " + l.name
	switch {
	case u.keyed && u.Key == "":
		return store.Invalid(what, "its key is empty; without limit.Key the limit counts all runs together")
	case len(u.Key) > store.MaxName:
		return store.Invalid(what, fmt.Sprintf("its key has %d bytes; at most %d are allowed", len(u.Key), store.MaxName))
	case u.Tokens < 0:
		return store.Invalid(what, "its tokens are not above zero")
	case l.rule.Tokens > 0 && u.Tokens > l.rule.Burst:
		return store.Invalid(what, fmt.Sprintf("%d tokens are more than the limit's burst of %d", u.Tokens, l.rule.Burst))
	}
	return nil
}
