package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func readFile(path string) ([]byte, error) { return os.ReadFile(path) }

// one names one run on the command line.
type one struct {
	a          *app
	externalID string
	suffix     string
}

func (o *one) flags(f *pflag.FlagSet) {
	f.StringVar(&o.externalID, "id", "", "name the run by its external `id`")
	f.StringVar(&o.suffix, "suffix", "", "idempotency `suffix` of the external id")
}

// args checks the arguments of a command that takes a run, or --id, and then at
// least and at most so many others.
func (o *one) args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		n := len(args)
		switch {
		case o.externalID == "" && o.suffix != "":
			return fmt.Errorf("--suffix needs --id")
		case o.externalID == "" && n == 0:
			return fmt.Errorf("no run is named: give a run's id, or --id with an external id")
		case o.externalID == "":
			n--
		}
		switch {
		case n < least:
			return fmt.Errorf("an argument is missing: it is used as '%s'", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		case most >= 0 && n > most:
			return fmt.Errorf("%q is one argument too many: it is used as '%s'", args[len(args)-1], strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// find gives the run's id and the other arguments.
func (o *one) find(ctx context.Context, eng *engine.Engine, args []string) (store.ID, []string, error) {
	if o.externalID != "" {
		run, err := eng.Find(ctx, o.externalID, o.suffix)
		return run.ID, args, err
	}
	id, err := o.a.runID(ctx, eng, args[0])
	return id, args[1:], err
}

// open opens the engine and finds the run.
func (o *one) open(ctx context.Context, args []string) (*engine.Engine, store.ID, []string, error) {
	eng, err := o.a.engine(ctx)
	if err != nil {
		return nil, store.ID{}, nil, err
	}
	id, rest, err := o.find(ctx, eng, args)
	return eng, id, rest, err
}

// leastPrefix is how much of an id has to be given.
const leastPrefix = 4

// runID reads a run's id, or a prefix that only one run has.
func (a *app) runID(ctx context.Context, eng *engine.Engine, arg string) (store.ID, error) {
	if id, err := store.ParseID(arg); err == nil {
		return id, nil
	}
	if strings.Trim(strings.ToLower(arg), "0123456789abcdef-") != "" || len(arg) > 36 {
		return store.ID{}, usage("%q is not a run's id, nor a prefix of one; a run is named by its external id with --id", clean(arg))
	}
	if len(arg) < leastPrefix {
		return store.ID{}, usage("%q is too short for a prefix of a run's id: give at least %d characters", arg, leastPrefix)
	}
	page, err := eng.List(ctx, store.RunFilter{IDPrefix: arg}, "", 5)
	switch {
	case err != nil:
		return store.ID{}, err
	case len(page.Runs) == 1:
		return page.Runs[0].ID, nil
	case len(page.Runs) == 0:
		return store.ID{}, fmt.Errorf("no run in namespace %q has an id that begins with %s: %w", eng.Namespace(), arg, store.ErrNotFound)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "several runs have ids that begin with %s; give more of it:", arg)
	for _, r := range page.Runs {
		fmt.Fprintf(&b, "\n  %s  %s, %s, %s", r.ID, clean(r.Workflow), r.Status, a.ago(r.CreatedAt))
	}
	if page.Next != "" {
		b.WriteString("\n  and more")
	}
	return store.ID{}, usage("%s", b.String())
}

// many selects runs by their properties.
type many struct {
	a          *app
	statuses   []string
	workflow   string
	queue      string
	parent     string
	externalID string
	prefix     string
	since      time.Time
	until      time.Time
}

func (m *many) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVarP(&m.statuses, "status", "s", nil, "`statuses`, with commas: pending, running, sleeping, paused, canceling, completed, failed, canceled; active and final mean several")
	f.StringVarP(&m.workflow, "workflow", "w", "", "`name` of the workflow")
	f.StringVarP(&m.queue, "queue", "q", "", "`name` of the queue")
	f.StringVar(&m.parent, "parent", "", "`run` whose children are meant")
	f.StringVar(&m.externalID, "id", "", "external `id`, whatever the suffix")
	f.StringVar(&m.prefix, "prefix", "", "`beginning` of the run's id")
	f.Var(momentFlag{a: m.a, to: &m.since}, "since", "made no earlier than this `time`: 2h, 7d, 2006-01-02, 2006-01-02T15:04:05Z")
	f.Var(momentFlag{a: m.a, to: &m.until}, "until", "made no later than this `time`")
	m.a.complete(cmd, "status", func(context.Context, *engine.Engine, string) ([]string, error) {
		return append(statusNames(), "active", "final"), nil
	})
	m.a.complete(cmd, "workflow", workflowNames)
	m.a.complete(cmd, "queue", queueNames)
	m.a.complete(cmd, "parent", runIDs)
}

func statusNames() []string {
	var names []string
	for _, s := range store.Statuses() {
		names = append(names, s.String())
	}
	return names
}

// given says whether anything is selected by.
func (m *many) given() bool {
	return len(m.statuses) > 0 || m.workflow != "" || m.queue != "" || m.parent != "" || m.externalID != "" || m.prefix != "" || !m.since.IsZero() || !m.until.IsZero()
}

func (m *many) filter(ctx context.Context, eng *engine.Engine) (store.RunFilter, error) {
	f := store.RunFilter{Workflow: m.workflow, Queue: m.queue, ExternalID: m.externalID, IDPrefix: m.prefix, CreatedAfter: m.since, CreatedBefore: m.until}
	for _, name := range m.statuses {
		list, err := statusesOf(name)
		if err != nil {
			return f, usage("--status: %v", err)
		}
		f.Statuses = append(f.Statuses, list...)
	}
	slices.Sort(f.Statuses)
	f.Statuses = slices.Compact(f.Statuses)
	var err error
	if m.parent != "" {
		f.Parent, err = m.a.runID(ctx, eng, m.parent)
	}
	return f, err
}

func statusesOf(name string) (list []store.Status, err error) {
	switch name {
	case "active", "final":
		for _, s := range store.Statuses() {
			if s.Final() == (name == "final") {
				list = append(list, s)
			}
		}
		return list, nil
	}
	var s store.Status
	err = s.UnmarshalText([]byte(name))
	return []store.Status{s}, err
}

// says describes what is selected, behind a number.
func (m *many) says(statuses []store.Status, n int64) string {
	var names []string
	for _, s := range statuses {
		names = append(names, s.String())
	}
	s := group3(n) + " "
	if n == 0 {
		s = "no "
	}
	switch {
	case slices.Equal(statuses, active):
		s += "active "
	case len(names) > 0:
		s += strings.Join(names, " or ") + " "
	}
	s += plural(n, "run")
	if m.workflow != "" {
		s += fmt.Sprintf(" of workflow %q", m.workflow)
	}
	if m.queue != "" {
		s += fmt.Sprintf(" in queue %q", m.queue)
	}
	if m.parent != "" {
		s += " with parent " + m.parent
	}
	if m.externalID != "" {
		s += fmt.Sprintf(" of external id %q", m.externalID)
	}
	if m.prefix != "" {
		s += " that begin with " + m.prefix
	}
	if !m.since.IsZero() {
		s += " made since " + m.since.In(m.a.zone).Format(time.DateTime)
	}
	if !m.until.IsZero() {
		s += " made until " + m.until.In(m.a.zone).Format(time.DateTime)
	}
	return s
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// What the shell may complete.

const completions = 50 // rows that are asked for

func runIDs(ctx context.Context, eng *engine.Engine, begins string) (list []string, err error) {
	if eng == nil {
		return nil, nil
	}
	page, err := eng.List(ctx, store.RunFilter{IDPrefix: begins}, "", completions)
	for _, r := range page.Runs {
		list = append(list, fmt.Sprintf("%s\t%s, %s", r.ID, clean(r.Workflow), r.Status))
	}
	return list, err
}

func workflowNames(ctx context.Context, eng *engine.Engine, _ string) (list []string, err error) {
	if eng == nil {
		return nil, nil
	}
	flows, err := eng.Workflows(ctx)
	for _, w := range flows {
		list = append(list, w.Name)
	}
	return list, err
}

func queueNames(ctx context.Context, eng *engine.Engine, _ string) (list []string, err error) {
	if eng == nil {
		return nil, nil
	}
	flows, err := eng.Workflows(ctx)
	for _, w := range flows {
		list = append(list, w.Queue)
	}
	slices.Sort(list)
	return slices.Compact(list), err
}
