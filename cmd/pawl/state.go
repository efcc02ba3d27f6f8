package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) signalCommand() *cobra.Command {
	o := one{a: a}
	var file, signalID string
	var raw bool
	cmd := &cobra.Command{
		Use:   "signal RUN NAME [PAYLOAD] [flags]",
		Short: "Send a signal to a run",
		Long: `Send a signal to a run. It waits in the run's inbox until the workflow reads it,
once. The payload is JSON, unless the workflows' codec is another and --raw is
given.

With --id instead of RUN, it goes to the active run of that external id.

This command does not encrypt. Where the run's workers take encrypted payloads
alone, it refuses: send the signal by a program that has their codec.`,
		Example:           "  pawl runs signal 0191a5c2-7e9a approved '{\"by\":\"ada\"}'\n  pawl runs signal --id order-42 approved true",
		Args:              o.args(1, 2),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVarP(&file, "payload-file", "f", "", "read the payload from a `file`; - is the standard input")
	f.BoolVar(&raw, "raw", false, "the payload need not be JSON")
	f.StringVar(&signalID, "signal-id", "", "the signal's own `id`, so that the command can be repeated safely")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		s := store.NewSignal{ID: store.NewID(), ExternalID: o.externalID, Suffix: o.suffix}
		rest := args
		if o.externalID == "" {
			rest = args[1:]
		}
		var arg *string
		if len(rest) > 1 {
			arg = &rest[1]
		}
		var err error
		if s.Payload, err = a.readPayload(arg, file, raw); err != nil {
			return err
		}
		s.Name = rest[0]
		if signalID != "" {
			if s.ID, err = store.ParseID(signalID); err != nil {
				return err
			}
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		if o.externalID == "" {
			if s.Run, err = a.runID(ctx, eng, args[0]); err != nil {
				return err
			}
		}
		if err := a.checkPayload(ctx, eng, &o, s.Run, s.Payload); err != nil {
			return err
		}
		if err := eng.Signal(ctx, s); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				ID store.ID `json:"id"`
			}{s.ID})
		}
		a.note("Signal %q is in the run's inbox.\n", clean(s.Name))
		return nil
	}
	return cmd
}

// checkPayload refuses a payload that the run's workers would refuse. Of several runs of one
// external id the one that gets the payload is meant.
func (a *app) checkPayload(ctx context.Context, eng *engine.Engine, o *one, id store.ID, payload []byte) error {
	if id.IsZero() {
		var err error
		if id, _, err = o.find(ctx, eng, nil); err != nil {
			return err
		}
	}
	return eng.CheckPayload(ctx, id, payload)
}

func (a *app) stateCommand() *cobra.Command {
	return group("state", "Read and change a run's flow state",
		"Read and change a run's flow state: its coordination data, by key.", a.stateGetCommand(), a.stateSetCommand(), a.stateDeleteCommand())
}

func (a *app) stateGetCommand() *cobra.Command {
	o := one{a: a}
	var rawOut bool
	cmd := &cobra.Command{
		Use:               "get RUN [KEY...] [flags]",
		Short:             "Print flow state: the keys given, or all",
		Long:              "Print flow state: the keys given, or all. With --value, print the value of one\nkey as it is; on a terminal, with its control characters escaped.",
		Example:           "  pawl runs state get 0191a5c2-7e9a\n  pawl runs state get --id import-7 offset --value",
		Args:              o.args(0, -1),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&rawOut, "value", false, "print the value of the one key, and nothing else")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, id, keys, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		if rawOut && len(keys) != 1 {
			return usage("--value needs one key")
		}
		entries, err := eng.GetState(ctx, id, keys...)
		if err != nil {
			return err
		}
		if len(keys) == 1 && len(entries) == 0 {
			return fmt.Errorf("run %s has no state %q: %w", id, keys[0], store.ErrNotFound)
		}
		switch {
		case rawOut:
			value := entries[0].Value
			if _, _, terminal := a.size(); terminal {
				value = visible(value)
			}
			_, err := a.out.Write(append(value, '\n'))
			return err
		case a.json:
			return a.printJSON(struct {
				State []stateJSON `json:"state"`
			}{each(entries, asState)})
		}
		a.printTable(a.stateTable(entries), "Run %s has no flow state.", id)
		return nil
	}
	return cmd
}

func (a *app) stateSetCommand() *cobra.Command {
	o := one{a: a}
	var file string
	var raw bool
	version := int64(-1)
	cmd := &cobra.Command{
		Use:   "set RUN KEY [VALUE] [flags]",
		Short: "Set a key of flow state",
		Long: `Set a key of flow state, which wakes a workflow that waits for it. The value is
JSON, unless the workflows' codec is another and --raw is given. Where the run's
workers take encrypted payloads alone, no key can be set but coord.error.`,
		Example:           "  pawl runs state set 0191a5c2-7e9a limit 100\n  pawl runs state set --id import-7 offset 0 --if-version 12",
		Args:              o.args(1, 2),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVarP(&file, "value-file", "f", "", "read the value from a `file`; - is the standard input")
	f.BoolVar(&raw, "raw", false, "the value need not be JSON")
	f.Int64Var(&version, "if-version", -1, "only if this is the key's version; 0: only if there is no such key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rest := args
		if o.externalID == "" {
			rest = args[1:]
		}
		var arg *string
		if len(rest) > 1 {
			arg = &rest[1]
		}
		value, err := a.readPayload(arg, file, raw)
		if err != nil {
			return err
		}
		if value == nil {
			return usage("a value is missing: give one as an argument, or with --value-file")
		}
		return a.writeState(cmd, &o, args, store.StateWrite{Key: rest[0], Value: value, IfVersion: ifVersion(version)})
	}
	return cmd
}

func ifVersion(v int64) *int64 {
	if v < 0 {
		return nil
	}
	return &v
}

func (a *app) stateDeleteCommand() *cobra.Command {
	o := one{a: a}
	version := int64(-1)
	cmd := &cobra.Command{
		Use:               "delete RUN KEY [flags]",
		Short:             "Delete a key of flow state",
		Example:           "  pawl runs state delete 0191a5c2-7e9a limit",
		Args:              o.args(1, 1),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().Int64Var(&version, "if-version", -1, "only if this is the key's version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.writeState(cmd, &o, args, store.StateWrite{Key: args[len(args)-1], Delete: true, IfVersion: ifVersion(version)})
	}
	return cmd
}

func (a *app) writeState(cmd *cobra.Command, o *one, args []string, w store.StateWrite) error {
	ctx := cmd.Context()
	eng, err := a.engine(ctx)
	if err != nil {
		return err
	}
	id, _, err := o.find(ctx, eng, args)
	if err != nil {
		return err
	}
	if w.Key != coordError { // which is read as text where it cannot be opened
		if err := eng.CheckPayload(ctx, id, w.Value); err != nil {
			return err
		}
	}
	entries, err := eng.SetState(ctx, id, w)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			State []stateJSON `json:"state"`
		}{each(entries, asState)})
	}
	a.note("State %q of run %s has version %d now.\n", clean(w.Key), id, entries[0].Version)
	return nil
}

// coordError is workflow.CoordError's key.
const coordError = "coord.error"
