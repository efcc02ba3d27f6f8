package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/store"
)

type actionJSON struct {
	ID      store.ID   `json:"id"`
	At      *time.Time `json:"at"`
	Actor   string     `json:"actor"`
	Verb    string     `json:"verb"`
	Target  string     `json:"target"`
	Run     *store.ID  `json:"run,omitempty"`
	Details string     `json:"details,omitempty"`
}

func asAction(v store.Action) actionJSON {
	return actionJSON{v.ID, asTime(v.At), v.Actor, v.Verb, v.Target, asID(v.Run), v.Details}
}

func (a *app) actionsCommand() *cobra.Command {
	var run, by, after string
	limit := 50
	cmd := &cobra.Command{
		Use:   "actions [flags]",
		Short: "List who did what",
		Long: `List what was done by this command line, and by programs that say for whom they
act, newest first: to runs, queues, workflows and schedules. What is listed was
asked for; whether it took effect, the run shows. It is kept for ninety days.`,
		Example: "  pawl actions\n  pawl actions --run 0191a5c2-7e9a\n  pawl actions --by ada@laptop --json",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&run, "run", "", "`run` that it was done to")
	f.StringVar(&by, "by", "", "`actor`, as it is listed")
	f.IntVarP(&limit, "limit", "l", limit, "actions of a page, at most 1000")
	f.StringVar(&after, "after", "", "`cursor` of the page before, which it has said")
	a.complete(cmd, "run", runIDs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if limit < 1 {
			return usage("--limit %d is not positive", limit)
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		p := store.ListActionsParams{Actor: by, Cursor: after, Limit: limit}
		if run != "" {
			if p.Run, err = a.runID(ctx, eng, run); err != nil {
				return err
			}
		}
		page, err := eng.Actions(ctx, p)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				Actions []actionJSON `json:"actions"`
				Next    string       `json:"next,omitempty"`
			}{each(page.Actions, asAction), page.Next})
		}
		a.printTable(a.actionTable(page.Actions, true), "No such actions in namespace %q.", eng.Namespace())
		if page.Next != "" {
			a.note("There are more: repeat the command with --after %s\n", page.Next)
		}
		return nil
	}
	return cmd
}

func (a *app) actionTable(list []store.Action, targets bool) *table {
	t := table{head: []string{"WHEN", "WHO", "ACTION", "TARGET", "DETAILS"}}
	for _, v := range list {
		target := cell{}
		if targets {
			target = text(v.Target)
		}
		t.add(text(a.ago(v.At)), text(v.Actor), text(v.Verb), target, text(v.Details))
	}
	return &t
}
