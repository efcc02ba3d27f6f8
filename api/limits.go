package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func limitOperations() []*operation {
	return []*operation{
		read("listLimits", "/v1/limits", ReadLimits, "List the limits with what they hold back.", listLimits),
		read("getLimit", "/v1/limits/{name}", ReadLimits, "Get a limit with a page of its keys.", getLimit),
		write(http.MethodPut, "setLimit", "/v1/limits/{name}/set", ChangeLimits, http.StatusOK,
			"Set what a limit allows, as a whole and at once, in place of what code has registered.", setLimit),
		write(http.MethodDelete, "unsetLimit", "/v1/limits/{name}/set", ChangeLimits, http.StatusNoContent, "Let what code has registered for a limit count again.", unsetLimit),
		write(http.MethodPut, "setWeight", "/v1/limits/{name}/weight", ChangeLimits, http.StatusNoContent, "Set the share of a key of a fair limit.", setWeight),
	}
}

func asLimitRule(r store.LimitRule) wire.LimitRule {
	out := wire.LimitRule{Concurrency: r.Concurrency, Tokens: r.Tokens, Per: text(r.Per), Fair: r.Fair, Text: engine.RuleText(r)}
	if r.Tokens > 0 {
		out.Burst = r.Most()
	}
	return out
}

func asLimit(l *engine.LimitLoad) wire.Limit {
	out := wire.Limit{Name: l.Name, Rule: asLimitRule(l.Rule), Keys: l.Keys, Held: l.Held, Waiting: l.Waiting, WaitingSince: asTime(l.Since),
		Full: l.Full, FullWaiting: l.FullWaiting, Capped: l.Capped, UpdatedAt: asTime(l.UpdatedAt)}
	if l.Set != nil {
		set := asLimitRule(*l.Set)
		out.Set = &set
	}
	return out
}

func asLimitKey(k *store.LimitKey) wire.LimitKey {
	return wire.LimitKey{Key: k.Key, Held: k.Held, Waiting: k.Waiting, WaitingSince: asTime(k.Since), NextTokenAt: asTime(k.RateAt), Weight: max(1, k.Weight)}
}

func listLimits(c *call, _ *wire.In) (out wire.Limits, err error) {
	loads, err := c.eng.LimitLoads(c.ctx)
	if err != nil {
		return out, err
	}
	return wire.Limits{Limits: each(loads, asLimit)}, nil
}

func getLimit(c *call, q *wire.Page) (out wire.LimitView, err error) {
	name := c.r.PathValue("name")
	loads, err := c.eng.LimitLoads(c.ctx, name)
	if err != nil {
		return out, err
	}
	page, err := c.eng.LimitKeys(c.ctx, name, q.Cursor, q.Limit)
	if err != nil {
		return out, err
	}
	switch {
	case len(loads) > 0:
		out.Limit = asLimit(&loads[0])
	case len(page.Keys) > 0: // runs are under it, and nobody has defined it
		out.Limit = wire.Limit{Name: name, Rule: asLimitRule(store.LimitRule{})}
	default:
		return out, fmt.Errorf("limit %q in namespace %q: %w", cut(name, 100), c.eng.Namespace(), store.ErrNotFound)
	}
	out.Keys, out.Next = each(page.Keys, asLimitKey), page.Next
	return out, nil
}

func setLimit(c *call, _ *wire.In, b *wire.LimitRule) (out wire.Limits, err error) {
	rule := store.LimitRule{Concurrency: b.Concurrency, Tokens: b.Tokens, Burst: b.Burst, Fair: b.Fair}
	if rule.Per, err = duration("per", b.Per); err != nil {
		return out, err
	}
	name := c.r.PathValue("name")
	if err := c.eng.SetLimit(c.ctx, name, rule); err != nil {
		return out, err
	}
	loads, err := c.eng.LimitLoads(c.ctx, name)
	if err != nil {
		return out, err
	}
	return wire.Limits{Limits: each(loads, asLimit)}, nil
}

func unsetLimit(c *call, _ *wire.In, _ *none) (none, error) {
	return none{}, c.eng.UnsetLimit(c.ctx, c.r.PathValue("name"))
}

func setWeight(c *call, _ *wire.In, b *wire.SetWeight) (none, error) {
	return none{}, c.eng.SetWeight(c.ctx, c.r.PathValue("name"), b.Key, b.Weight)
}

// measureLimits adds the load of the limits.
func (c *call) measureLimits(w *metricWriter) error {
	loads, now, able, err := measured(c, func(ctx context.Context) ([]engine.LimitLoad, error) { return c.eng.LimitLoads(ctx) })
	if !able {
		return err
	}
	loads = loads[:min(len(loads), mostLines)]
	w.family("pawl_limit_held", "Leases under a limit. A lower bound if it has more than a thousand keys.")
	for _, l := range loads {
		w.value("pawl_limit_held", float64(l.Held), "namespace", c.eng.Namespace(), "limit", l.Name)
	}
	w.family("pawl_limit_waiting", "Due runs under a limit that no worker holds. A lower bound if it has more than a thousand keys.")
	for _, l := range loads {
		w.value("pawl_limit_waiting", float64(l.Waiting), "namespace", c.eng.Namespace(), "limit", l.Name)
	}
	w.family("pawl_limit_oldest_waiting_seconds", "For how long the run that has waited longest under a limit has been due.")
	for _, l := range loads {
		if !l.Since.IsZero() {
			w.value("pawl_limit_oldest_waiting_seconds", max(0, now.Sub(l.Since).Seconds()), "namespace", c.eng.Namespace(), "limit", l.Name)
		}
	}
	return nil
}
