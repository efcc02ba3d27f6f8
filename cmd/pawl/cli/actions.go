package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/store"
)

type actionJSON struct {
	ID      store.ID   `json:"id"`
	At      *time.Time `json:"at"`
	Actor   string     `json:"actor"`
	From    string     `json:"from,omitempty"`
	Verb    string     `json:"verb"`
	Target  string     `json:"target"`
	Run     *store.ID  `json:"run,omitempty"`
	Details string     `json:"details,omitempty"`
	Outcome string     `json:"outcome,omitempty"`
}

func asAction(v store.Action) actionJSON {
	return actionJSON{v.ID, asTime(v.At), v.Actor, v.From, v.Verb, v.Target, asID(v.Run), v.Details, v.Outcome}
}

func (a *app) actionsCommand() *cobra.Command {
	var run, by, after string
	limit := 50
	cmd := &cobra.Command{
		Use:   "actions [flags]",
		Short: "List who did what",
		Long: `List the actions on runs, queues, workflows and schedules, newest first. The list
has the actions of this command line, and those of programs that set an actor. An
action is recorded together with its effect. Its outcome is "done", "no change" if
it was so already, or why it was refused; it is empty if the action was recorded
before it was done. Actions are kept for ninety days.`,
		Example: "  pawl actions\n  pawl actions --run 0191a5c2-7e9a\n  pawl actions --by ada@laptop --json",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&run, "run", "", "only actions on this `run`")
	f.StringVar(&by, "by", "", "only actions of this `actor`, exactly as WHO shows it")
	f.IntVarP(&limit, "limit", "l", limit, "actions per page, at most 1000")
	f.StringVar(&after, "after", "", "`cursor` printed by the previous page")
	a.complete(cmd, "run", runIDs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if limit < 1 {
			return usage("invalid --limit %d; want 1 or more", limit)
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
		a.printTable(a.actionTable(page.Actions, true), "No matching actions in namespace %q.", eng.Namespace())
		if page.Next != "" {
			a.note("More follow: repeat the command with --after %s\n", page.Next)
		}
		return nil
	}
	return cmd
}

func (a *app) actionTable(list []store.Action, targets bool) *table {
	t := table{head: []string{"WHEN", "WHO", "FROM", "ACTION", "TARGET", "OUTCOME", "DETAILS"}}
	for _, v := range list {
		target := cell{}
		if targets {
			target = text(v.Target)
		}
		t.add(text(a.ago(v.At)), text(v.Actor), text(v.From), text(v.Verb), target, text(v.Outcome), text(v.Details))
	}
	return &t
}
