package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Limits returns the limits of these names, or all of them, by name. A limit is known from when a worker
// has registered it, or an operator has set it.
func (e *Engine) Limits(ctx context.Context, names ...string) (limits []store.Limit, err error) {
	if e.fault != nil {
		return nil, e.fault
	}
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		limits, err = store.AllLimits(ctx, e.store, store.ListLimitsParams{Namespace: e.namespace, Names: names})
		return err
	})
	return limits, err
}

// SetLimit sets another rule for a limit than the one that code has registered. It counts for all
// programs at once, whatever they register later, until [Engine.UnsetLimit]. The limit need not be
// known. Leases above a lower concurrency stay, and none begins until there are fewer. It fails with
// store.ErrInvalid.
func (e *Engine) SetLimit(ctx context.Context, name string, rule store.LimitRule) error {
	return e.setLimit(ctx, store.SetLimitParams{Name: name, Rule: &rule}, "set", RuleText(rule))
}

// UnsetLimit ends [Engine.SetLimit]: the rule that code has registered counts again. It fails with
// store.ErrNotFound if there is no such limit.
func (e *Engine) UnsetLimit(ctx context.Context, name string) error {
	return e.setLimit(ctx, store.SetLimitParams{Name: name}, "unset", "")
}

func (e *Engine) setLimit(ctx context.Context, p store.SetLimitParams, verb, details string) error {
	if e.fault != nil {
		return e.fault
	}
	p.Namespace, p.Record = e.namespace, e.acts(ctx, verb, "limit "+p.Name, details)
	err := e.retry(ctx, func(ctx context.Context) error { return e.store.SetLimit(ctx, p) })
	e.actedOn(ctx, p.Record, err)
	return limitError(p.Name, err)
}

// LimitKeys returns a page of the keys of a limit that have a lease, a waiting run or a weight, by key:
// how many leases each has, how many runs wait, and since when. Cursor is empty for the first page, and
// then the Next of the page before. A limit of 0 rows means 100. A limit that counts all of its runs
// together has one key, which is empty.
func (e *Engine) LimitKeys(ctx context.Context, limit, cursor string, rows int) (store.LimitKeyPage, error) {
	return e.limitKeys(ctx, store.LimitKeysParams{Limit: limit, Cursor: cursor, Rows: rows})
}

func (e *Engine) limitKeys(ctx context.Context, p store.LimitKeysParams) (page store.LimitKeyPage, err error) {
	if e.fault != nil {
		return page, e.fault
	}
	p.Namespace = e.namespace
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		page, err = e.store.LimitKeys(ctx, p)
		return err
	})
	return page, limitError(p.Limit, err)
}

// SetWeight sets the share of a key of a fair limit, from 1 to store.MaxWeight: a key of weight 3 gets
// three times the share of a key of weight 1, which every key has at first. It fails with
// store.ErrInvalid.
func (e *Engine) SetWeight(ctx context.Context, limit, key string, weight int) error {
	if e.fault != nil {
		return e.fault
	}
	p := store.SetWeightParams{Namespace: e.namespace, Limit: limit, Key: key, Weight: int64(weight)}
	p.Record = e.acts(ctx, "weight", "limit "+limit, fmt.Sprintf("key %q: %d", key, weight))
	err := e.retry(ctx, func(ctx context.Context) error { return e.store.SetWeight(ctx, p) })
	e.actedOn(ctx, p.Record, err)
	return limitError(limit, err)
}

func limitError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("limit %q: %w", name, err)
}

// RuleText returns what a limit's rule allows, in words: "20 at a time, 5000 per 1h0m0s with a burst of
// 100, fair".
func RuleText(r store.LimitRule) string {
	var parts []string
	if r.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", r.Concurrency))
	}
	if r.Tokens > 0 {
		part := fmt.Sprintf("%d per %v", r.Tokens, r.Per)
		if b := r.Most(); b != r.Tokens {
			part += fmt.Sprintf(" with a burst of %d", b)
		}
		parts = append(parts, part)
	}
	if r.Fair {
		parts = append(parts, "fair")
	}
	if len(parts) == 0 {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

// maxHolders is how many holders of a permit an explanation names, and scanHolders how many runs it reads
// to find them.
const (
	maxHolders  = 5
	scanHolders = 1000
)

// limited says that limits keep a due run from being claimed, and otherwise adds which limits it is under.
func (f *facts) limited() bool {
	held := false
	for i, u := range f.uses() {
		rule, key, ok := f.standing(u)
		if !ok {
			continue
		}
		name := useText(u)
		step := i >= len(f.run.Under)
		switch {
		case rule.Concurrency > 0 && key.Held >= rule.Concurrency:
			f.sayLimit(&held, "%s: %d of %d held%s, %s%s", name, key.Held, rule.Concurrency, f.holders(u), others(key.Waiting), f.queueText(u, key.Waiting))
		case rule.Every() > 0 && (step || f.run.Status == store.Pending) && f.tokensAt(rule, key, u).After(f.now):
			at := f.tokensAt(rule, key, u)
			if f.x.Until.Before(at) {
				f.x.Until = at
			}
			f.sayLimit(&held, "%s: %s per %v, the next at %s, %s", name, count(int(rule.Tokens), "token", "tokens"), rule.Per, f.when(at), others(key.Waiting))
		default:
			f.detail("it is under %s (%s): %d held, %d waiting", name, RuleText(rule), key.Held, key.Waiting)
		}
		if rule.Fair {
			f.detail("the keys of limit %q take turns; the weight of this one is %d", u.Limit, max(1, key.Weight))
		}
	}
	return held
}

// uses returns the limits that the run waits for.
func (f *facts) uses() []store.LimitUse {
	return append(append([]store.LimitUse{}, f.run.Under...), f.run.StepUnder...)
}

// sayLimit says what the first limit is that holds the run, and adds the others.
func (f *facts) sayLimit(held *bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if *held {
		f.detail("it also waits for %s", text)
		return
	}
	*held = true
	f.say(ReasonLimit, "The run has been due since %s and waits for %s.", f.when(f.run.VisibleAt), text)
}

// standing reads how a limit and its key stand.
func (f *facts) standing(u store.LimitUse) (rule store.LimitRule, key store.LimitKey, ok bool) {
	limits, err := f.e.Limits(f.ctx, u.Limit)
	if errors.Is(err, store.ErrUnsupported) {
		return rule, key, false
	}
	if err != nil {
		f.err = err
		return rule, key, false
	}
	if len(limits) > 0 {
		rule = limits[0].Effective()
	}
	page, err := f.e.limitKeys(f.ctx, store.LimitKeysParams{Limit: u.Limit, Key: &u.Key, Rows: 1})
	if err != nil {
		f.err = err
		return rule, key, false
	}
	if len(page.Keys) > 0 {
		key = page.Keys[0]
	}
	return rule, key, true
}

// tokensAt returns when a key's rate has the tokens of a use.
func (f *facts) tokensAt(rule store.LimitRule, key store.LimitKey, u store.LimitUse) time.Time {
	if key.RateAt.IsZero() {
		return f.now
	}
	return key.RateAt.Add(time.Duration(max(1, min(u.Tokens, rule.Most()))-1) * time.Duration(rule.Every()) * time.Microsecond)
}

// holders names runs that hold permits of a limit and key. It reads a bounded number of runs.
func (f *facts) holders(u store.LimitUse) string {
	page, ok := f.list(store.ListParams{OldestFirst: true, Filter: store.RunFilter{Statuses: []store.Status{store.Running, store.Canceling}}})
	if !ok {
		return ""
	}
	var names []string
	for i := range page.Runs {
		r := &page.Runs[i]
		if r.Worker == "" || !holds(r.Under, u) && !holds(r.StepUnder, u) {
			continue
		}
		if len(names) == maxHolders {
			names = append(names, "others")
			break
		}
		names = append(names, fmt.Sprintf("run %s of workflow %q, started %v ago", r.ID, r.Workflow, f.now.Sub(r.StartedAt).Round(time.Millisecond)))
	}
	if len(names) == 0 {
		return ""
	}
	return " by " + strings.Join(names, "; ")
}

func holds(uses []store.LimitUse, u store.LimitUse) bool {
	for _, o := range uses {
		if o.Limit == u.Limit && o.Key == u.Key {
			return true
		}
	}
	return false
}

func useText(u store.LimitUse) string {
	if u.Key == "" {
		return fmt.Sprintf("limit %q", u.Limit)
	}
	return fmt.Sprintf("limit %q, key %q", u.Limit, u.Key)
}

// others says how many further runs wait, of those that a store counts.
func others(waiting int64) string {
	switch {
	case waiting <= 1:
		return "no other run waits"
	case waiting >= store.MaxWaiting:
		return fmt.Sprintf("at least %d others wait", waiting-1)
	case waiting == 2:
		return "1 other waits"
	}
	return fmt.Sprintf("%d others wait", waiting-1)
}
