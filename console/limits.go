package console

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/api/wire"
)

// limitsData is the page of all limits.
type limitsData struct{ Limits []wire.Limit }

func (limitsData) title() string { return "Limits" }

func listLimits(c *call) (any, error) {
	list, err := c.api.ListLimits(c.ctx, c.in)
	slices.SortStableFunc(list.Limits, func(a, b wire.Limit) int { return cmp.Compare(b.FullWaiting, a.FullWaiting) })
	return &limitsData{list.Limits}, err
}

// limitData is the page of one limit.
type limitData struct {
	wire.LimitView
	Deeds []deed
}

func (d *limitData) title() string { return "Limit " + d.Limit.Name }

func showLimit(c *call) (any, error) {
	q := c.r.URL.Query()
	view, err := c.api.GetLimit(c.ctx, q.Get("name"), wire.Page{In: c.in, Cursor: q.Get("cursor"), Limit: 100})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(view.Keys, func(a, b wire.LimitKey) int { return cmp.Compare(b.Waiting, a.Waiting) })
	d := &limitData{LimitView: view}
	for _, it := range limitDeeds {
		if c.may(it.needs) && (it.Action != "limit-unset" || view.Limit.Set != nil) {
			d.Deeds = append(d.Deeds, it)
		}
	}
	return d, nil
}

// rule is what counts of a limit.
func rule(l wire.Limit) wire.LimitRule {
	if l.Set != nil {
		return *l.Set
	}
	return l.Rule
}

func backToLimit(c *call) (string, []any) { return "limit", []any{"name", c.form("name")} }

var limitDeeds = []deed{
	{
		Action: "limit-set", Button: "Set what it allows", Title: "Set what the limit allows", needs: "limits.change", back: backToLimit,
		what: askLimit,
		do:   setLimit,
	},
	{
		Action: "limit-unset", Button: "Let the code's rule count", Title: "Let the code's rule count again", needs: "limits.change", back: backToLimit,
		what: forName("What an operator has set is removed, and what code has registered counts at once. If no code has registered the limit, it limits nothing any more. Runs that hold permits keep them."),
		do: func(ctx context.Context, c *call) (string, error) {
			return "limit-unset", c.api.UnsetLimit(ctx, c.form("name"), c.opts()...)
		},
	},
	{
		Action: "limit-weight", Button: "Set a key's share", Title: "Set the share of a key", needs: "limits.change", back: backToLimit,
		what: func(ctx context.Context, c *call, d *confirmData) error {
			err := forName("If the limit is fair, a key of weight 3 gets three times the share of a key of weight 1, which every key has at first. Claims use the new weight at once.")(ctx, c, d)
			d.field("key", "Key", c.form("key"), nil, "")
			d.field("weight", "Weight", "", nil, "A number from 1 to 1000.")
			return err
		},
		do: func(ctx context.Context, c *call) (string, error) {
			n, err := strconv.Atoi(strings.TrimSpace(c.form("weight")))
			if err != nil {
				return "", invalid("The weight %q is not a number.", c.form("weight"))
			}
			return "limit-weight", c.api.SetWeight(ctx, c.form("name"), wire.SetWeight{Key: c.form("key"), Weight: n}, c.opts()...)
		},
	},
}

func askLimit(ctx context.Context, c *call, d *confirmData) error {
	err := forName("The rule counts at once for all programs, whatever they register later, until it is removed. It replaces the present rule as a whole: a field that is empty does not limit.")(ctx, c, d)
	if err != nil {
		return err
	}
	d.say("Runs that hold more permits than a lower concurrency allows keep them. No run is claimed until there are fewer.")
	view, err := c.api.GetLimit(ctx, d.Name, wire.Page{In: c.in, Limit: 1})
	if err != nil && !notFound(err) {
		return err
	}
	r := rule(view.Limit)
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	d.field("concurrency", "At work at a time", number(r.Concurrency), nil, "How many runs or steps of each key.")
	d.field("tokens", "Tokens", number(r.Tokens), nil, "How many may begin in the time below. Give both, or neither.")
	d.field("per", "In the time", r.Per, nil, "A duration, such as 1h.")
	d.field("burst", "Burst", number(r.Burst), nil, "How many may begin at once. If it is empty, as many as the tokens.")
	fair := "no"
	if r.Fair {
		fair = "yes"
	}
	d.Fields = append(d.Fields, field{Name: "fair", Label: "Keys take turns", Value: fair, Choices: []choice{{"no", "no"}, {"yes", "yes"}}})
	return nil
}

func setLimit(ctx context.Context, c *call) (string, error) {
	r := wire.LimitRule{Per: strings.TrimSpace(c.form("per")), Fair: c.form("fair") == "yes"}
	for name, n := range map[string]*int64{"concurrency": &r.Concurrency, "tokens": &r.Tokens, "burst": &r.Burst} {
		text := strings.TrimSpace(c.form(name))
		if text == "" {
			continue
		}
		var err error
		if *n, err = strconv.ParseInt(text, 10, 64); err != nil || *n < 1 {
			return "", invalid("%q is not a number above zero.", text)
		}
	}
	if r.Tokens == 0 && r.Burst > 0 {
		return "", invalid("A burst needs tokens and a time.")
	}
	_, err := c.api.SetLimit(ctx, c.form("name"), r, c.opts()...)
	return "limit-set", err
}
