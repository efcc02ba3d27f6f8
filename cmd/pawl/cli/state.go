package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// sending reads the arguments of a command that sends a signal.
type sending struct {
	one
	file, signalID string
	raw            bool
}

func (o *sending) flags(f *pflag.FlagSet) {
	o.one.flags(f)
	f.StringVarP(&o.file, "payload-file", "f", "", "read the payload from a `file`; - means standard input")
	f.BoolVar(&o.raw, "raw", false, "pass the payload as is; it need not be JSON")
	f.StringVar(&o.signalID, "signal-id", "", "`id` for the signal, which makes the command safe to repeat")
}

// signal returns the signal that the arguments describe: RUN, unless there is an external id, NAME and PAYLOAD.
func (o *sending) signal(ctx context.Context, args []string) (eng *engine.Engine, s store.NewSignal, err error) {
	s = store.NewSignal{ID: store.NewID(), ExternalID: o.externalID, Suffix: o.suffix}
	rest := args
	if o.externalID == "" {
		rest = args[1:]
	}
	var arg *string
	if len(rest) > 1 {
		arg = &rest[1]
	}
	if s.Payload, err = o.a.readPayload(arg, o.file, o.raw); err != nil {
		return nil, s, err
	}
	s.Name = rest[0]
	if o.signalID != "" {
		if s.ID, err = store.ParseID(o.signalID); err != nil {
			return nil, s, err
		}
	}
	if eng, err = o.a.engine(ctx); err != nil {
		return nil, s, err
	}
	if o.externalID == "" {
		if s.Run, err = o.a.runID(ctx, eng, args[0]); err != nil {
			return nil, s, err
		}
	}
	return eng, s, o.a.checkPayload(ctx, eng, &o.one, s.Run, s.Payload)
}

func (a *app) signalCommand() *cobra.Command {
	o := sending{one: one{a: a}}
	cmd := &cobra.Command{
		Use:   "signal RUN NAME [PAYLOAD] [flags]",
		Short: "Send a signal to a run",
		Long: `Send a signal to a run. The signal stays in the run's inbox until the workflow
receives it, once. The payload is JSON. If the workflow uses another codec, pass
--raw.

With --external-id instead of RUN, the signal goes to the active run with that
external id.

This command cannot encrypt. If the run's workers accept only encrypted payloads,
it rejects the signal; send it from a program that has the workers' codec.`,
		Example:           "  pawl runs signal 0191a5c2-7e9a approved '{\"by\":\"ada\"}'\n  pawl runs signal --external-id order-42 approved true",
		Args:              o.args(1, 2),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		eng, s, err := o.signal(cmd.Context(), args)
		if err != nil {
			return err
		}
		if err := eng.Signal(cmd.Context(), s); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				ID store.ID `json:"id"`
			}{s.ID})
		}
		a.note("Sent signal %q to the run's inbox.\n", clean(s.Name))
		return nil
	}
	return cmd
}

func (a *app) askCommand() *cobra.Command {
	o := sending{one: one{a: a}}
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "ask RUN NAME [PAYLOAD] [flags]",
		Short: "Send an update to a run and print the answer",
		Long: `Send an update to a run, wait until the run answers it, and print the answer. An
update is a signal that the workflow answers (workflow.NewUpdate). The payload is
as for 'pawl runs signal'.

The request stays sent when the command ends before the answer. The same command
with the same --signal-id waits for the answer again, and the run does not see the
request twice. If the run answers with an error, the exit code is 6.`,
		Example:           "  pawl runs ask 0191a5c2-7e9a withdraw 30\n  pawl runs ask --external-id account-7 withdraw 30 --timeout 10s",
		Args:              o.args(1, 2),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().Var(durationFlag{&patience}, "timeout", "stop waiting after this `time`; the request stays sent")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, s, err := o.signal(ctx, args)
		if err != nil {
			return err
		}
		asked, err := eng.Send(ctx, s)
		if err != nil {
			return err
		}
		bounded := ctx
		if patience > 0 {
			var cancel context.CancelFunc
			bounded, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		answer, err := eng.AwaitAnswer(bounded, asked)
		if err != nil && bounded.Err() != nil && ctx.Err() == nil {
			return &codedError{exitTimeout, fmt.Errorf("no answer within %v; the request stays sent: to wait again, repeat the command with --signal-id %s", patience, s.ID)}
		}
		if err != nil {
			return err
		}
		return a.printAnswer(asked, answer)
	}
	return cmd
}

func (a *app) printAnswer(asked engine.Asked, answer engine.Answer) error {
	if f := answer.Failure; f != nil {
		return &codedError{exitRunFailed, fmt.Errorf("run %s answered with an error: %s (%s)", asked.Run, clean(f.Message), clean(f.Code))}
	}
	if a.json {
		return a.printJSON(struct {
			Run    store.ID       `json:"run"`
			ID     store.SignalID `json:"id"`
			Output *payloadJSON   `json:"output"`
			At     *time.Time     `json:"at"`
		}{asked.Run, asked.Signal, asPayload(answer.Output), asTime(answer.At)})
	}
	a.print("%s\n", output(answer.Output))
	return nil
}

// checkPayload rejects a payload that the run's workers would reject. If id is zero, the
// run is the one that o names.
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
	return group("state", "Read and change the flow state of a run",
		"Read and change the flow state of a run: its coordination data, by key.", a.stateGetCommand(), a.stateSetCommand(), a.stateDeleteCommand())
}

func (a *app) stateGetCommand() *cobra.Command {
	o := one{a: a}
	var rawOut bool
	cmd := &cobra.Command{
		Use:               "get RUN [KEY...] [flags]",
		Short:             "Print flow state: the given keys, or all",
		Long:              "Print flow state: the given keys, or all. With --value, print the value of one key\nas is; on a terminal, its control characters are escaped.",
		Example:           "  pawl runs state get 0191a5c2-7e9a\n  pawl runs state get --external-id import-7 offset --value",
		Args:              o.args(0, -1),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&rawOut, "value", false, "print only the value of the given key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, id, keys, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		if rawOut && len(keys) != 1 {
			return usage("--value requires exactly one key")
		}
		entries, err := eng.GetState(ctx, id, keys...)
		if err != nil {
			return err
		}
		if len(keys) == 1 && len(entries) == 0 {
			return fmt.Errorf("run %s has no state key %q: %w", id, keys[0], store.ErrNotFound)
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
		Short: "Set a flow state key",
		Long: `Set a flow state key, and wake the run if it waits for a change of the key. The
value is JSON. If the workflow uses another codec, pass --raw. If the run's
workers accept only encrypted payloads, this command can set only coord.error.`,
		Example:           "  pawl runs state set 0191a5c2-7e9a limit 100\n  pawl runs state set --external-id import-7 offset 0 --if-version 12",
		Args:              o.args(1, 2),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVarP(&file, "value-file", "f", "", "read the value from a `file`; - means standard input")
	f.BoolVar(&raw, "raw", false, "pass the value as is; it need not be JSON")
	f.Int64Var(&version, "if-version", -1, "set only if the key has this `version`; 0 means that the key does not exist")
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
			return usage("missing value: pass it as an argument or with --value-file")
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
		Short:             "Delete a flow state key",
		Example:           "  pawl runs state delete 0191a5c2-7e9a limit",
		Args:              o.args(1, 1),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().Int64Var(&version, "if-version", -1, "delete only if the key has this `version`")
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
	if w.Key != coordError { // workers read it as text if they cannot decode it
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
	a.note("State key %q of run %s now has version %d.\n", clean(w.Key), id, entries[0].Version)
	return nil
}

// coordError is workflow.CoordErrorState's key.
const coordError = "coord.error"
