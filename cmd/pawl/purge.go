package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
)

func (a *app) purgeCommand() *cobra.Command {
	var older time.Duration
	var statuses []string
	var workflow string
	var limit int
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge --older-than TIME [flags]",
		Short: "Delete old runs that are final",
		Long: `Delete runs that have been final for at least --older-than, with their steps,
state and signals, the oldest first and in small batches. Children of parents
that are not final are kept. What is deleted cannot be had back; 'pawl runs
export' makes a copy before.

Workers delete by themselves what the workflows' retention says.`,
		Example: "  pawl purge --older-than 30d\n  pawl purge --older-than 1w --status completed --workflow ping --yes",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Var(durationFlag{&older}, "older-than", "`time` since their end: 90s, 12h, 30d")
	f.StringSliceVarP(&statuses, "status", "s", nil, "`statuses`, with commas: completed, failed, canceled")
	f.StringVarP(&workflow, "workflow", "w", "", "`name` of the workflow")
	f.IntVar(&limit, "limit", 0, "how many at most; 0: all")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	a.complete(cmd, "workflow", workflowNames)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if !cmd.Flags().Changed("older-than") {
			return usage("say --older-than, such as --older-than 30d; 0s means all that are final")
		}
		if limit < 0 {
			return usage("--limit %d is negative", limit)
		}
		p := engine.PurgeFilter{Workflow: workflow, OlderThan: older, Limit: limit}
		what := "every final run"
		var names []string
		for _, name := range statuses {
			list, err := statusesOf(name)
			if err != nil {
				return usage("--status: %v", err)
			}
			for _, s := range list {
				if !s.Final() {
					return usage("--status %s is not final; only final runs are deleted", s)
				}
				p.Statuses = append(p.Statuses, s)
				names = append(names, s.String())
			}
		}
		if len(names) > 0 {
			what = "every " + strings.Join(names, " or ") + " run"
		}
		if workflow != "" {
			what += fmt.Sprintf(" of workflow %q", workflow)
		}
		if older > 0 {
			what += " that ended over " + span(older) + " ago"
		}
		if limit > 0 {
			what += fmt.Sprintf(", at most %s of them,", group3(int64(limit)))
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		if err := a.confirm(yes, "Delete %s in namespace %q of %s?", what, eng.Namespace(), a.where()); err != nil {
			return err
		}
		n, err := eng.Purge(ctx, p)
		if a.json {
			if printed := a.printJSON(struct {
				Deleted int `json:"deleted"`
			}{n}); err == nil {
				err = printed
			}
			return err
		}
		a.print("%s %s deleted\n", group3(int64(n)), plural(int64(n), "run"))
		return err
	}
	return cmd
}
