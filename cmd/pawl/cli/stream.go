package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// itemJSON is an item of a stream in JSON output.
type itemJSON struct {
	Position   int64        `json:"position"`
	Stream     string       `json:"stream"`
	Step       string       `json:"step"`
	Attempt    int          `json:"attempt"`
	Generation int          `json:"generation"`
	Reset      bool         `json:"reset"`
	At         *time.Time   `json:"at"`
	Payload    *payloadJSON `json:"payload"`
}

func asItem(it store.StreamItem) itemJSON {
	return itemJSON{it.Position, it.Stream, it.Step.String(), it.Attempt, it.Generation, it.Reset, asTime(it.At), asPayload(it.Payload)}
}

func (a *app) streamCommand() *cobra.Command {
	o := one{a: a}
	var follow bool
	var after int64
	cmd := &cobra.Command{
		Use:   "stream RUN [NAME] [flags]",
		Short: "Print the items of a stream of a run",
		Long: `Print the items of a stream that a run or its steps have appended to, one in a
line, or of all its streams. With --follow, print items as they come, until the
run is final.

If a step is tried again, its items replace those of the earlier attempt. Where
that happens to items that were printed already, a line on standard error says so.
With --json, each line is an item; its "reset" says the same.`,
		Example:           "  pawl runs stream 0191a5c2-7e9a tokens --follow\n  pawl runs stream --external-id import-7 log --after 1200 --json",
		Args:              o.args(0, 1),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&follow, "follow", false, "print items as they come, until the run is final")
	cmd.Flags().Int64Var(&after, "after", 0, "only items behind this `position`, which --json shows")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, id, rest, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		p := store.ReadStreamParams{Run: id, After: after, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes}
		if len(rest) > 0 {
			p.Stream = rest[0]
		}
		if follow {
			for it, err := range eng.Stream(ctx, id, p.Stream, after) {
				if err != nil {
					return err
				}
				if err := a.printItem(it, p.Stream == "", it.Reset && it.Position > after); err != nil {
					return err
				}
			}
			return nil
		}
		return a.printItems(ctx, eng, p)
	}
	return cmd
}

// printItems prints the items that there are.
func (a *app) printItems(ctx context.Context, eng *engine.Engine, p store.ReadStreamParams) error {
	some := false
	for {
		page, err := eng.ReadStream(ctx, p)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			if err := a.printItem(it, p.Stream == "", some || p.After > 0); err != nil {
				return err
			}
			some = true
		}
		if p.After = page.Next; p.After == 0 {
			break
		}
	}
	if !some && !a.json {
		a.note("There are no items.\n")
	}
	return nil
}

// printItem prints an item; named says to print its stream, and begun that items were printed before.
func (a *app) printItem(it store.StreamItem, named, begun bool) error {
	switch {
	case a.json:
		return a.printLine(asItem(it))
	case it.Reset && begun:
		a.note("Step %s has begun again with attempt %d: what it had appended to stream %q before is void.\n", clean(it.Step.String()), it.Attempt, clean(it.Stream))
	}
	if named {
		a.print("%s: ", clean(it.Stream))
	}
	a.print("%s\n", output(it.Payload))
	return nil
}
