package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
)

func (a *app) explainCommand() *cobra.Command {
	o := one{a: a}
	cmd := &cobra.Command{
		Use:   "explain RUN [flags]",
		Short: "Explain why a run is in its state and what you can do",
		Long: `Explain why a run is in its state, and suggest what you can do. The explanation
says whether the run waits for a timer, a worker, a signal or its children,
whether the run, its queue or its workflow is paused, and which worker holds the
run and until when.`,
		Example:           "  pawl runs explain --external-id order-42",
		Args:              o.args(0, 0),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, id, _, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		x, err := eng.Explain(ctx, id)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				Run     runJSON       `json:"run"`
				Reason  engine.Reason `json:"reason"`
				Summary string        `json:"summary"`
				Details []string      `json:"details"`
				Actions []string      `json:"actions"`
				At      *time.Time    `json:"at"`
				Until   *time.Time    `json:"until,omitempty"`
			}{asRun(x.Run), x.Reason, x.Summary, append([]string{}, x.Details...), append([]string{}, x.Actions...), asTime(x.At), asTime(x.Until)})
		}
		a.print("%s  %s  %s\n\n%s\n", a.paint(bold, "run "+x.Run.ID.String()), clean(x.Run.Workflow), a.paint(statusStyle(x.Run.Status), x.Run.Status.String()), clean(x.Summary))
		for _, d := range x.Details {
			a.print("- %s\n", clean(d))
		}
		if len(x.Actions) > 0 {
			a.print("\nWhat you can do:\n")
			for _, act := range x.Actions {
				a.print("- %s\n", clean(act))
			}
		}
		return nil
	}
	return cmd
}
