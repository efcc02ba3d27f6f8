package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) schedulesCommand() *cobra.Command {
	return group("schedules", "List, create, pause and trigger schedules", "List, create, pause and trigger schedules.",
		a.schedulesListCommand(), a.scheduleShowCommand(), a.schedulePutCommand(), a.schedulePreviewCommand(), a.scheduleTriggerCommand(),
		a.scheduleHoldCommand("pause", "paused", `Pause schedules: they do not fire until they are resumed. A fire time that is due
but has not fired yet is dropped. Runs that they started continue.`, (*engine.Engine).PauseSchedule),
		a.scheduleHoldCommand("resume", "resumed", `Resume schedules. They fire at the next time of their rule. They do not fire for
times that passed while they were paused.`, (*engine.Engine).ResumeSchedule),
		a.scheduleDeleteCommand())
}

func scheduleNames(ctx context.Context, eng *engine.Engine, _ string) (names []string, err error) {
	if eng == nil {
		return nil, nil
	}
	page, err := eng.Schedules(ctx, "", 0)
	for _, s := range page.Schedules {
		names = append(names, s.Name+"\t"+s.Spec)
	}
	return names, err
}

type scheduleJSON struct {
	Name       string         `json:"name"`
	Workflow   string         `json:"workflow"`
	Queue      string         `json:"queue"`
	Spec       string         `json:"spec"`
	TimeZone   string         `json:"time_zone"`
	CatchUp    engine.CatchUp `json:"catch_up"`
	MaxCatchUp int            `json:"max_catch_up"`
	Overlap    engine.Overlap `json:"overlap"`
	Priority   int            `json:"priority"`
	Delay      string         `json:"delay,omitempty"`
	Timeout    string         `json:"timeout,omitempty"`
	Paused     bool           `json:"paused"`
	NextAt     *time.Time     `json:"next_at,omitempty"`
	LastAt     *time.Time     `json:"last_at,omitempty"`
	CreatedAt  *time.Time     `json:"created_at"`
	UpdatedAt  *time.Time     `json:"updated_at"`
	Input      *payloadJSON   `json:"input,omitempty"`
}

func asSchedule(s engine.Schedule) scheduleJSON {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return scheduleJSON{
		s.Name, s.Workflow, s.Queue, s.Spec, s.TimeZone, s.CatchUp, s.MaxCatchUp, s.Overlap, s.Priority, text(s.Delay), text(s.Timeout),
		s.Paused, asTime(s.NextAt), asTime(s.LastAt), asTime(s.CreatedAt), asTime(s.UpdatedAt), asPayload(s.Input),
	}
}

func (a *app) schedulesListCommand() *cobra.Command {
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "List schedules by name",
		Example: "  pawl schedules list",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().IntVarP(&limit, "limit", "l", 100, "schedules per page, at most 1000")
	cmd.Flags().StringVar(&after, "after", "", "`cursor` printed by the previous page")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		page, err := eng.Schedules(ctx, after, limit)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				Schedules []scheduleJSON `json:"schedules"`
				Next      string         `json:"next,omitempty"`
			}{each(page.Schedules, asSchedule), page.Next})
		}
		t := table{head: []string{"NAME", "WORKFLOW", "RULE", "ZONE", "NEXT", "LAST", "NOTE"}}
		for _, s := range page.Schedules {
			note := cell{}
			if s.Paused {
				note = styled(magenta, "paused")
			}
			t.add(text(s.Name), text(s.Workflow), text(s.Spec), text(s.TimeZone), text(a.ago(s.NextAt)), text(a.ago(s.LastAt)), note)
		}
		a.printTable(&t, "Namespace %q has no schedules.", eng.Namespace())
		if page.Next != "" {
			a.note("More follow: repeat the command with --after %s\n", page.Next)
		}
		return nil
	}
	return cmd
}

func (a *app) scheduleShowCommand() *cobra.Command {
	var firings, times int
	var after string
	cmd := &cobra.Command{
		Use:               "show SCHEDULE [flags]",
		Short:             "Show a schedule: its rule, next fire times and past firings",
		Example:           "  pawl schedules show nightly-report --times 10",
		Args:              between(1, 1),
		ValidArgsFunction: a.completeArgs(1, scheduleNames),
	}
	cmd.Flags().IntVar(&times, "times", 5, "how many future fire times to show")
	cmd.Flags().IntVarP(&firings, "limit", "l", 10, "firings per page, at most 1000")
	cmd.Flags().StringVar(&after, "after", "", "`cursor` printed by the previous page of firings")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		s, err := eng.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		page, err := eng.Firings(ctx, args[0], after, firings)
		if err != nil {
			return err
		}
		upcoming, err := s.Upcoming(times)
		if err != nil {
			return err
		}
		if a.json {
			type firingJSON struct {
				At      *time.Time           `json:"at"`
				FiredAt *time.Time           `json:"fired_at"`
				Outcome engine.FiringOutcome `json:"outcome"`
				Run     *store.ID            `json:"run,omitempty"`
			}
			return a.printJSON(struct {
				Schedule scheduleJSON `json:"schedule"`
				Upcoming []*time.Time `json:"upcoming"`
				Firings  []firingJSON `json:"firings"`
				Next     string       `json:"next,omitempty"`
			}{asSchedule(s), each(upcoming, asTime), each(page.Firings, func(f engine.Firing) firingJSON {
				return firingJSON{asTime(f.At), asTime(f.FiredAt), f.Outcome, asID(f.Run)}
			}), page.Next})
		}
		a.printSchedule(s, upcoming, page)
		return nil
	}
	return cmd
}

// printSchedule prints a schedule, its next times and a page of its firings.
func (a *app) printSchedule(s engine.Schedule, upcoming []time.Time, page engine.FiringPage) {
	state := a.paint(green, "active")
	if s.Paused {
		state = a.paint(magenta, "paused")
	}
	a.print("%s  %s  %s\n", a.paint(bold, "schedule "+clean(s.Name)), clean(s.Workflow), state)
	row := func(name, value string) {
		if value != "" {
			a.print("  %s %s\n", a.paint(dim, fmt.Sprintf("%-12s", name)), clean(value))
		}
	}
	row("rule", s.Spec+", in "+s.TimeZone)
	row("queue", s.Queue)
	catch := s.CatchUp.String()
	if s.CatchUp == engine.CatchUpAll {
		catch += fmt.Sprintf(", at most %d", s.MaxCatchUp)
	}
	row("catch-up", catch)
	row("overlap", s.Overlap.String())
	if s.Priority != 0 {
		row("priority", fmt.Sprint(s.Priority))
	}
	if s.Delay != 0 {
		row("delay", span(s.Delay))
	}
	if s.Timeout != 0 {
		row("deadline", span(s.Timeout)+" from creation")
	}
	row("input", payload(s.Input, 200))
	row("created", a.when(s.CreatedAt))
	row("changed", a.when(s.UpdatedAt))
	for i, at := range upcoming {
		name := ""
		if i == 0 {
			name = "next"
			if s.Paused {
				name = "if resumed"
			}
		}
		a.print("  %s %s\n", a.paint(dim, fmt.Sprintf("%-12s", name)), a.inZone(at, s.TimeZone))
	}
	if len(page.Firings) > 0 {
		a.print("\n")
		t := table{head: []string{"FIRE TIME", "HANDLED", "OUTCOME", "RUN"}}
		for _, f := range page.Firings {
			st := map[engine.FiringOutcome]style{engine.FiringStarted: green, engine.FiringOverlapped: yellow, engine.FiringMissed: yellow}[f.Outcome]
			id := ""
			if !f.Run.IsZero() {
				id = f.Run.String()
			}
			t.add(text(a.when(f.At)), text(a.ago(f.FiredAt)), styled(st, f.Outcome.String()), text(id))
		}
		a.printTable(&t, "")
	}
	if page.Next != "" {
		a.note("More firings follow: repeat the command with --after %s\n", page.Next)
	}
}

// inZone formats a fire time in the zone of its rule and in local time.
func (a *app) inZone(t time.Time, zone string) string {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return a.when(t)
	}
	const layout = "Mon 2006-01-02 15:04:05 MST"
	s := t.In(loc).Format(layout)
	if here := t.In(a.zone); here.Format(layout) != s {
		s += ", local " + here.Format("15:04:05 MST")
	}
	return s + " (" + a.ago(t) + ")"
}

func (a *app) schedulePutCommand() *cobra.Command {
	var (
		zone, file, catchUp, overlap, queue string
		raw, paused                         bool
		most, priority                      int
		delay, timeout                      time.Duration
	)
	cmd := &cobra.Command{
		Use:   "put SCHEDULE WORKFLOW RULE [INPUT] [flags]",
		Short: "Create or change a schedule",
		Long: `Create a schedule that starts runs of a workflow, or change the schedule with that
name. A program that puts the same schedule when it starts overwrites the change.

RULE has five fields (minute, hour, day of month, month, day of week) or six with
seconds first, or is @yearly, @monthly, @weekly, @daily, @hourly or "@every 90s".`,
		Example: `  pawl schedules put nightly report '0 3 * * *' --zone Europe/Berlin
  pawl schedules put poll import '@every 5m' '{"Source":"ftp"}' --overlap skip`,
		Args:              between(3, 4),
		ValidArgsFunction: a.completeArgs(1, scheduleNames),
	}
	f := cmd.Flags()
	f.StringVar(&zone, "zone", "UTC", "IANA `name` of the rule's time zone")
	f.StringVarP(&file, "input-file", "f", "", "read the input from a `file`; - means standard input")
	f.BoolVar(&raw, "raw", false, "pass the input as is; it need not be JSON")
	f.StringVar(&catchUp, "catch-up", "none", "`policy` for fire times that were missed: none, one or all")
	f.IntVar(&most, "max-catch-up", engine.DefaultMaxCatchUp, "with --catch-up all: fire only the latest missed times, at most this `number`")
	f.StringVar(&overlap, "overlap", "allow", "`policy` while a run of the schedule is active: allow, skip, queue or cancel")
	f.StringVarP(&queue, "queue", "q", "", "queue `name`, if not the workflow's own queue")
	f.IntVar(&priority, "priority", 0, "priority of the runs, from -100 to 100")
	f.Var(durationFlag{&delay}, "delay", "`time` between a fire time and the start of its run")
	f.Var(durationFlag{&timeout}, "deadline", "fail a run if it is not final within this `time`")
	f.BoolVar(&paused, "paused", false, "create the schedule paused; an existing schedule keeps its state")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var arg *string
		if len(args) > 3 {
			arg = &args[3]
		}
		input, err := a.readPayload(arg, file, raw)
		if err != nil {
			return err
		}
		var c engine.CatchUp
		var o engine.Overlap
		if err := c.UnmarshalText([]byte(catchUp)); err != nil {
			return usage("--catch-up: %v", err)
		}
		if err := o.UnmarshalText([]byte(overlap)); err != nil {
			return usage("--overlap: %v", err)
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		opts := []engine.ScheduleOption{
			engine.ScheduleTimeZone(zone), engine.ScheduleCatchUp(c), engine.ScheduleOverlap(o),
			engine.ScheduleRuns(engine.Queue(queue), engine.Priority(priority), engine.Delay(delay), engine.Timeout(timeout)),
		}
		if cmd.Flags().Changed("max-catch-up") {
			opts = append(opts, engine.MaxCatchUp(most))
		}
		if paused {
			opts = append(opts, engine.SchedulePaused())
		}
		s, err := eng.PutSchedule(ctx, args[0], args[1], args[2], input, opts...)
		if err != nil {
			return err
		}
		return a.printPut(s)
	}
	return cmd
}

// printPut reports a schedule that was put.
func (a *app) printPut(s engine.Schedule) error {
	switch {
	case a.json:
		return a.printJSON(asSchedule(s))
	case s.Paused:
		a.print("Schedule %s is saved and paused.\n", clean(s.Name))
	default:
		a.print("Schedule %s is saved. It fires next at %s.\n", clean(s.Name), a.inZone(s.NextAt, s.TimeZone))
	}
	return nil
}

func (a *app) schedulePreviewCommand() *cobra.Command {
	var zone string
	var n int
	var from time.Time
	cmd := &cobra.Command{
		Use:     "preview RULE [flags]",
		Short:   "Show the fire times of a rule, without a database",
		Example: "  pawl schedules preview '30 2 * * *' --zone Europe/Berlin --from 2026-03-28",
		Args:    between(1, 1),
	}
	cmd.Flags().StringVar(&zone, "zone", "UTC", "IANA `name` of the time zone")
	cmd.Flags().IntVar(&n, "times", 10, "how many times to show")
	cmd.Flags().Var(momentFlag{a: a, to: &from, ahead: true}, "from", "show times after this `time`; the default is now")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if n < 1 || n > 10_000 {
			return usage("invalid --times %d; want 1 to 10000", n)
		}
		if from.IsZero() {
			from = a.now()
		}
		times, err := engine.Upcoming(args[0], zone, from, n)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				Upcoming []*time.Time `json:"upcoming"`
			}{each(times, asTime)})
		}
		for _, t := range times {
			a.print("%s\n", a.inZone(t, zone))
		}
		return nil
	}
	return cmd
}

func (a *app) scheduleTriggerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trigger SCHEDULE",
		Short: "Start a run of a schedule now",
		Long: `Start a run of a schedule now and print its id, even if the schedule is paused.
Its fire times do not change. If the schedule does not allow overlaps and one of
its runs is active, the command prints the id of that run and starts no new one.`,
		Example:           "  pawl schedules trigger nightly-report",
		Args:              between(1, 1),
		ValidArgsFunction: a.completeArgs(1, scheduleNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			eng, err := a.engine(ctx)
			if err != nil {
				return err
			}
			started, err := eng.TriggerSchedule(ctx, args[0])
			if err != nil {
				return err
			}
			if started.Existing && !a.json {
				a.note("A run of the schedule is already active; no new run was started.\n")
			}
			return a.printStarted(started)
		},
	}
}

func (a *app) scheduleHoldCommand(name, done, long string, do func(*engine.Engine, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               name + " SCHEDULE...",
		Short:             map[string]string{"pause": "Pause schedules", "resume": "Resume schedules"}[name],
		Long:              long,
		Example:           "  pawl schedules " + name + " nightly-report",
		Args:              between(1, -1),
		ValidArgsFunction: a.completeArgs(0, scheduleNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			eng, err := a.engine(ctx)
			if err != nil {
				return err
			}
			for _, schedule := range args {
				if err := do(eng, ctx, schedule); err != nil {
					return err
				}
				if !a.json {
					a.print("Schedule %s is %s.\n", clean(schedule), done)
				}
			}
			if a.json {
				return a.printJSON(map[string][]string{done: args})
			}
			return nil
		},
	}
}

func (a *app) scheduleDeleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:               "delete SCHEDULE [flags]",
		Short:             "Delete a schedule and the record of its firings",
		Long:              "Delete a schedule and the record of its firings. Its runs are not affected.",
		Example:           "  pawl schedules delete nightly-report",
		Args:              between(1, 1),
		ValidArgsFunction: a.completeArgs(1, scheduleNames),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		if _, err := eng.Schedule(ctx, args[0]); err != nil {
			return err
		}
		if err := a.confirm(yes, "Delete schedule %q in namespace %q?", args[0], eng.Namespace()); err != nil {
			return err
		}
		if err := eng.DeleteSchedule(ctx, args[0]); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]string{"deleted": args[0]})
		}
		a.print("Schedule %s is deleted.\n", clean(args[0]))
		return nil
	}
	return cmd
}
