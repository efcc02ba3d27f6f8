package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// ruleJSON is what a limit allows.
type ruleJSON struct {
	Concurrency int64  `json:"concurrency,omitempty"`
	Tokens      int64  `json:"tokens,omitempty"`
	Per         string `json:"per,omitempty"`
	Burst       int64  `json:"burst,omitempty"`
	Fair        bool   `json:"fair,omitempty"`
}

func asRule(r store.LimitRule) ruleJSON {
	j := ruleJSON{Concurrency: r.Concurrency, Tokens: r.Tokens, Burst: r.Most(), Fair: r.Fair}
	if r.Per > 0 {
		j.Per = r.Per.String()
	}
	return j
}

// limitJSON describes a limit.
type limitJSON struct {
	Name      string     `json:"name"`
	Rule      ruleJSON   `json:"rule"`          // registered by code
	Set       *ruleJSON  `json:"set,omitempty"` // by an operator; it counts
	Keys      int        `json:"keys"`
	Held      int64      `json:"held"`
	Waiting   int64      `json:"waiting"`
	Since     *time.Time `json:"waiting_since,omitempty"`
	Capped    bool       `json:"capped,omitempty"` // the sums are lower bounds
	UpdatedAt *time.Time `json:"updated_at"`
}

func asLimit(l engine.LimitLoad) limitJSON {
	j := limitJSON{Name: l.Name, Rule: asRule(l.Rule), Keys: l.Keys, Held: l.Held, Waiting: l.Waiting, Since: asTime(l.Since), Capped: l.Capped, UpdatedAt: asTime(l.UpdatedAt)}
	if l.Set != nil {
		set := asRule(*l.Set)
		j.Set = &set
	}
	return j
}

// limitKeyJSON describes a key of a limit.
type limitKeyJSON struct {
	Key     string     `json:"key"`
	Held    int64      `json:"held"`
	Waiting int64      `json:"waiting"`
	Since   *time.Time `json:"waiting_since,omitempty"`
	RateAt  *time.Time `json:"next_token_at,omitempty"`
	Weight  int64      `json:"weight"`
}

func asLimitKey(k store.LimitKey) limitKeyJSON {
	return limitKeyJSON{k.Key, k.Held, k.Waiting, asTime(k.Since), asTime(k.RateAt), max(1, k.Weight)}
}

func (a *app) limitsCommand() *cobra.Command {
	return group("limits", "List, show and change limits", "List, show and change limits: how many runs or steps may be at work at the same\ntime, and how many may begin in a period.",
		a.limitsListCommand(), a.limitsShowCommand(), a.limitsSetCommand(), a.limitsUnsetCommand(), a.limitsWeightCommand())
}

func (a *app) limitsListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List limits with what they hold back",
		Long: `List the limits of the namespace. RULE is what counts: what an operator has set,
or else what code has registered. HELD is the number of leases under the limit,
and WAITING the number of due runs under it that no worker holds, whatever they
wait for. OLDEST is since when one of these is due.`,
		Example: "  pawl limits list\n  pawl limits list --json | jq '.limits[] | select(.waiting>0)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			eng, err := a.engine(cmd.Context())
			if err != nil {
				return err
			}
			loads, err := eng.LimitLoads(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(struct {
					Limits []limitJSON `json:"limits"`
				}{each(loads, asLimit)})
			}
			t := table{head: []string{"LIMIT", "RULE", "SET", "KEYS", "HELD", "WAITING", "OLDEST"}}
			for _, l := range loads {
				set, oldest := "no", "-"
				if l.Set != nil {
					set = "yes"
				}
				if !l.Since.IsZero() {
					oldest = a.ago(l.Since)
				}
				t.add(text(l.Name), text(engine.RuleText(l.Effective())), text(set), atLeast(int64(l.Keys), l.Capped), atLeast(l.Held, l.Capped), atLeast(l.Waiting, l.Capped), text(oldest))
			}
			a.printTable(&t, "Namespace %q has no limits yet.", eng.Namespace())
			return nil
		},
	}
}

func (a *app) limitsShowCommand() *cobra.Command {
	var after string
	var rows int
	cmd := &cobra.Command{
		Use:   "show LIMIT [flags]",
		Short: "Show a limit and its keys",
		Long: `Show a limit, and its keys that have a lease, a waiting run or a weight. A limit
that counts all runs together has one key, which is empty.`,
		Example:           "  pawl limits show tenant",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgs(1, limitNames),
	}
	cmd.Flags().IntVar(&rows, "limit", 100, "`number` of keys, 1 to 1000")
	cmd.Flags().StringVar(&after, "after", "", "`cursor` of the page before")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if rows < 1 || rows > store.MaxPage {
			return usage("--limit %d is not between 1 and %d", rows, store.MaxPage)
		}
		eng, err := a.engine(cmd.Context())
		if err != nil {
			return err
		}
		loads, err := eng.LimitLoads(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		page, err := eng.LimitKeys(cmd.Context(), args[0], after, rows)
		if err != nil {
			return err
		}
		if len(loads) == 0 && len(page.Keys) == 0 {
			return fmt.Errorf("limit %q in namespace %q: %w", args[0], eng.Namespace(), store.ErrNotFound)
		}
		if len(loads) == 0 { // runs are under it, and nobody has defined it
			loads = append(loads, engine.LimitLoad{Limit: store.Limit{Name: args[0]}})
		}
		return a.printLimit(loads[0], page)
	}
	return cmd
}

func (a *app) printLimit(l engine.LimitLoad, page store.LimitKeyPage) error {
	if a.json {
		return a.printJSON(struct {
			Limit limitJSON      `json:"limit"`
			Keys  []limitKeyJSON `json:"keys"`
			Next  string         `json:"next,omitempty"`
		}{asLimit(l), each(page.Keys, asLimitKey), page.Next})
	}
	a.print("%s  %s\n", a.paint(bold, "limit "+clean(l.Name)), engine.RuleText(l.Effective()))
	if l.Set != nil {
		a.print("  set by an operator; code has registered: %s\n", engine.RuleText(l.Rule))
	}
	if l.Since.IsZero() {
		a.print("  %s held, none waiting\n\n", bound3(l.Held, l.Capped))
	} else {
		a.print("  %s held, %s waiting, the oldest since %s\n\n", bound3(l.Held, l.Capped), bound3(l.Waiting, l.Capped), a.ago(l.Since))
	}
	t := table{head: []string{"KEY", "HELD", "WAITING", "OLDEST", "NEXT TOKEN", "WEIGHT"}}
	for _, k := range page.Keys {
		oldest, rate := "-", "-"
		if !k.Since.IsZero() {
			oldest = a.ago(k.Since)
		}
		if k.RateAt.After(a.now()) {
			rate = "in " + span(k.RateAt.Sub(a.now()))
		}
		t.add(text(strconv.Quote(k.Key)), numberOrDot(k.Held), atLeast(k.Waiting, k.Waiting >= store.MaxWaiting), text(oldest), text(rate), number(max(1, k.Weight)))
	}
	a.printTable(&t, "No key of the limit has a lease, a waiting run or a weight.")
	if page.Next != "" {
		a.note("There are more keys: --after %s\n", page.Next)
	}
	return nil
}

// rateFlag reads a rate: tokens per time, such as 5000/1h.
func rateFlag(s string) (tokens int64, per time.Duration, err error) {
	n, period, ok := strings.Cut(s, "/")
	if tokens, err = strconv.ParseInt(n, 10, 64); err != nil || !ok || tokens < 1 {
		return 0, 0, usage("invalid --rate %q; want tokens per time, such as 5000/1h", s)
	}
	if per, err = duration(period); err != nil || per <= 0 {
		return 0, 0, usage("invalid --rate %q; want tokens per time, such as 5000/1h", s)
	}
	return tokens, per, nil
}

func (a *app) limitsSetCommand() *cobra.Command {
	var rule store.LimitRule
	var rate string
	cmd := &cobra.Command{
		Use:   "set LIMIT [flags]",
		Short: "Set what a limit allows, in place of what code has registered",
		Long: `Set what a limit allows. It counts at once for all programs, whatever they
register later, until 'pawl limits unset'. The rule is replaced as a whole: a part
that is not given does not limit. Runs that hold more permits than a lower
concurrency allows keep them, and no run is claimed until there are fewer.`,
		Example:           "  pawl limits set github --concurrency 5 --rate 1000/1h --burst 50\n  pawl limits set tenant --concurrency 10 --fair",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgs(1, limitNames),
	}
	f := cmd.Flags()
	f.Int64Var(&rule.Concurrency, "concurrency", 0, "`number` of runs or steps of each key at the same time")
	f.StringVar(&rate, "rate", "", "`tokens/time` of each key, such as 5000/1h")
	f.Int64Var(&rule.Burst, "burst", 0, "`number` of tokens that may be taken at once (default: those of the rate)")
	f.BoolVar(&rule.Fair, "fair", false, "let the keys take turns")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range []string{"concurrency", "burst"} {
			if n, _ := cmd.Flags().GetInt64(name); cmd.Flags().Changed(name) && n < 1 {
				return usage("--%s %d is not above zero", name, n)
			}
		}
		if rate != "" {
			var err error
			if rule.Tokens, rule.Per, err = rateFlag(rate); err != nil {
				return err
			}
		} else if rule.Burst > 0 {
			return usage("--burst needs --rate")
		}
		if rule == (store.LimitRule{}) {
			return usage("nothing is set; give --concurrency, --rate or --fair")
		}
		eng, err := a.engine(cmd.Context())
		if err != nil {
			return err
		}
		if err := eng.SetLimit(cmd.Context(), args[0], rule); err != nil {
			return err
		}
		return a.limitDone(args[0], "Limit %s is set: %s.\n", clean(args[0]), engine.RuleText(rule))
	}
	return cmd
}

func (a *app) limitsUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "unset LIMIT",
		Short:             "Let what code has registered count again",
		Long:              "Remove what 'pawl limits set' has set. What code has registered counts again. If\nit has registered nothing, the limit no longer exists.",
		Example:           "  pawl limits unset github",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgs(1, limitNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			eng, err := a.engine(cmd.Context())
			if err != nil {
				return err
			}
			if err := eng.UnsetLimit(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.limitDone(args[0], "Limit %s is as code has registered it.\n", clean(args[0]))
		},
	}
}

func (a *app) limitsWeightCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "weight LIMIT KEY WEIGHT",
		Short: "Set the share of a key of a fair limit",
		Long: `Set the weight of a key of a limit that is fair, from 1 to 1000. A key of weight 3
gets three times the share of a key of weight 1, which every key has at first.`,
		Example:           "  pawl limits weight tenant acme 3",
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: a.completeArgs(1, limitNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[2])
			if err != nil || n < 1 || n > store.MaxWeight {
				return usage("weight %q is not a number between 1 and %d", args[2], store.MaxWeight)
			}
			eng, err := a.engine(cmd.Context())
			if err != nil {
				return err
			}
			if err := eng.SetWeight(cmd.Context(), args[0], args[1], n); err != nil {
				return err
			}
			return a.limitDone(args[0], "Key %s of limit %s has weight %d.\n", clean(args[1]), clean(args[0]), n)
		},
	}
}

// limitDone says that a limit was changed.
func (a *app) limitDone(name, format string, args ...any) error {
	if a.json {
		return a.printJSON(map[string]string{"limit": name})
	}
	a.note(format, args...)
	return nil
}

func limitNames(ctx context.Context, eng *engine.Engine, _ string) ([]string, error) {
	if eng == nil {
		return nil, nil
	}
	limits, err := eng.Limits(ctx)
	return each(limits, func(l store.Limit) string { return l.Name + "\t" + engine.RuleText(l.Effective()) }), err
}
