package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) purgeCommand() *cobra.Command {
	var older time.Duration
	var statuses []string
	var workflow string
	var limit int
	var yes, dry bool
	cmd := &cobra.Command{
		Use:   "purge --older-than TIME [flags]",
		Short: "Delete old final runs",
		Long: `Delete runs that have been final for at least --older-than, with their steps,
state and signals, oldest first, in small batches. Children whose parents are not
final are kept. Deleted runs cannot be restored; use 'pawl runs export' first to
keep a copy.

Workers also delete runs on their own, after the retention time of the workflow.`,
		Example: "  pawl purge --older-than 30d\n  pawl purge --older-than 30d --dry-run\n  pawl purge --older-than 1w --status completed --workflow ping --yes",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Var(durationFlag{&older}, "older-than", "minimum `time` since the run ended: 90s, 12h, 30d")
	f.StringSliceVarP(&statuses, "status", "s", nil, "comma-separated `statuses`: completed, failed, canceled")
	f.StringVarP(&workflow, "workflow", "w", "", "workflow `name`")
	f.IntVar(&limit, "limit", 0, "maximum number of runs to delete; 0 means all")
	f.BoolVar(&dry, "dry-run", false, "count the runs that would be deleted, without deleting them")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	a.complete(cmd, "workflow", workflowNames)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if !cmd.Flags().Changed("older-than") {
			return usage("--older-than is required, for example --older-than 30d; 0s means all final runs")
		}
		if limit < 0 {
			return usage("invalid --limit %d; want 0 or more", limit)
		}
		p := engine.PurgeFilter{Workflow: workflow, OlderThan: older, Limit: limit}
		for _, name := range statuses {
			list, err := statusesOf(name)
			if err != nil {
				return usage("--status: %v", err)
			}
			for _, s := range list {
				if !s.Final() {
					return usage("status %s is not final; only final runs can be deleted", s)
				}
				p.Statuses = append(p.Statuses, s)
			}
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		if dry {
			return a.purgeable(ctx, eng, p)
		}
		if err := a.confirm(yes, "Delete %s in namespace %q of %s?", purged(p), eng.Namespace(), a.where()); err != nil {
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

// purged describes the runs that p selects.
func purged(p engine.PurgeFilter) string {
	what := "every final run"
	if len(p.Statuses) > 0 {
		what = "every " + strings.Join(each(p.Statuses, store.Status.String), " or ") + " run"
	}
	if p.Workflow != "" {
		what += fmt.Sprintf(" of workflow %q", p.Workflow)
	}
	if p.OlderThan > 0 {
		what += " that ended over " + span(p.OlderThan) + " ago"
	}
	if p.Limit > 0 {
		what += fmt.Sprintf(" (at most %s)", group3(int64(p.Limit)))
	}
	return what
}

// purgeable prints how many runs a purge would delete. It reads only runs that ended
// at least OlderThan ago.
func (a *app) purgeable(ctx context.Context, eng *engine.Engine, p engine.PurgeFilter) error {
	now, err := a.store.Clock(ctx)
	if err != nil {
		return err
	}
	statuses := p.Statuses
	if len(statuses) == 0 {
		statuses = []store.Status{store.Completed, store.Failed, store.Canceled}
	}
	// Purge includes runs that ended at exactly that time.
	until := now.Add(-p.OlderThan).Add(time.Microsecond)
	counts, err := eng.Store().Count(ctx, store.CountParams{Namespace: eng.Namespace(), MaxScan: store.ScanAll,
		Filter: store.RunFilter{Workflow: p.Workflow, Statuses: statuses, FinishedBefore: until}})
	if err != nil {
		return err
	}
	type row struct {
		Workflow string       `json:"workflow"`
		Status   store.Status `json:"status"`
		Count    int64        `json:"count"`
	}
	var rows []row
	var sum int64
	for _, c := range counts {
		sum += c.Count
		i := slices.IndexFunc(rows, func(r row) bool { return r.Workflow == c.Workflow && r.Status == c.Status })
		if i < 0 {
			rows = append(rows, row{Workflow: c.Workflow, Status: c.Status, Count: c.Count})
		} else {
			rows[i].Count += c.Count
		}
	}
	slices.SortFunc(rows, func(x, y row) int {
		return cmp.Or(strings.Compare(x.Workflow, y.Workflow), int(x.Status)-int(y.Status))
	})
	would := sum
	if p.Limit > 0 {
		would = min(sum, int64(p.Limit))
	}
	if a.json {
		return a.printJSON(struct {
			Rows  []row `json:"would_delete"`
			Total int64 `json:"total"`
		}{append([]row{}, rows...), would})
	}
	t := table{head: []string{"WORKFLOW", "STATUS", "RUNS"}}
	for _, r := range rows {
		t.add(text(r.Workflow), statusCell(r.Status), number(r.Count))
	}
	a.printTable(&t, "No run is that old.")
	a.print("%s %s would be deleted. The count includes children whose parents are not final; a purge keeps these.\n", group3(would), plural(would, "run"))
	return nil
}
