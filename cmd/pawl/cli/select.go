package cli

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

// one is a run named on the command line.
type one struct {
	a          *app
	externalID string
	suffix     string
}

func (o *one) flags(f *pflag.FlagSet) {
	f.StringVar(&o.externalID, "external-id", "", "external `id` of the run, instead of RUN")
	f.StringVar(&o.suffix, "suffix", "", "idempotency `suffix` of the external id")
}

// args checks the arguments of a command that takes RUN or --external-id, followed by
// least to most other arguments.
func (o *one) args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		n := len(args)
		switch {
		case o.externalID == "" && o.suffix != "":
			return fmt.Errorf("--suffix requires --external-id")
		case o.externalID == "" && n == 0:
			return fmt.Errorf("no run given: pass a run id, or pass --external-id")
		case o.externalID == "":
			n--
		}
		switch {
		case n < least:
			return fmt.Errorf("missing argument; usage: %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		case most >= 0 && n > most:
			return fmt.Errorf("unexpected argument %q; usage: %s", args[len(args)-1], strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// find returns the run's id and the other arguments.
func (o *one) find(ctx context.Context, eng *engine.Engine, args []string) (store.ID, []string, error) {
	if o.externalID != "" {
		run, err := eng.Find(ctx, o.externalID, engine.FindSuffix(o.suffix))
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

// leastPrefix is the minimum length of an id prefix.
const leastPrefix = 4

// runID resolves a run id or a unique prefix of one.
func (a *app) runID(ctx context.Context, eng *engine.Engine, arg string) (store.ID, error) {
	if id, err := store.ParseID(arg); err == nil {
		return id, nil
	}
	if strings.Trim(strings.ToLower(arg), "0123456789abcdef-") != "" || len(arg) > 36 {
		return store.ID{}, usage("%q is not a run id or a prefix of one; to name a run by its external id, use --external-id", clean(arg))
	}
	if len(arg) < leastPrefix {
		return store.ID{}, usage("run id prefix %q is too short; want at least %d characters", arg, leastPrefix)
	}
	page, err := a.pageOf(ctx, eng, store.RunFilter{IDPrefix: arg}, false, "", 5)
	switch {
	case err != nil:
		return store.ID{}, err
	case len(page.Runs) == 1:
		return page.Runs[0].ID, nil
	case len(page.Runs) == 0:
		return store.ID{}, fmt.Errorf("no run in namespace %q has an id starting with %s: %w", eng.Namespace(), arg, store.ErrNotFound)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "run id prefix %s is ambiguous:", arg)
	for _, r := range page.Runs {
		fmt.Fprintf(&b, "\n  %s  %s, %s, %s", r.ID, clean(r.Workflow), r.Status, a.ago(r.CreatedAt))
	}
	if page.Next != "" {
		b.WriteString("\n  and more")
	}
	return store.ID{}, usage("%s", b.String())
}

// many is a selection of runs by flags.
type many struct {
	a          *app
	statuses   []string
	workflow   string
	queue      string
	parent     string
	externalID string
	prefix     string
	since      time.Time // of the end
	until      time.Time
	madeSince  time.Time
	madeUntil  time.Time
	code       string
	text       string
	step       string
	attempts   int
	byBuild    byBuild
	byTags     byTags
}

func (m *many) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVarP(&m.statuses, "status", "s", nil, "comma-separated `statuses`: pending, running, sleeping, paused, canceling, completed, failed, canceled, or a group: active, final")
	f.StringVarP(&m.workflow, "workflow", "w", "", "workflow `name`")
	f.StringVarP(&m.queue, "queue", "q", "", "queue `name`")
	f.StringVar(&m.parent, "parent", "", "only children of this `run`")
	f.StringVar(&m.externalID, "external-id", "", "external `id`, with any suffix")
	f.StringVar(&m.prefix, "prefix", "", "`prefix` of the run id")
	f.Var(momentFlag{a: m.a, to: &m.since}, "since", "ended after this `time`: 2h (ago), 7d (ago), 2006-01-02, 2006-01-02T15:04:05Z")
	f.Var(momentFlag{a: m.a, to: &m.until}, "until", "ended before this `time`")
	f.Var(momentFlag{a: m.a, to: &m.madeSince}, "created-since", "created after this `time`")
	f.Var(momentFlag{a: m.a, to: &m.madeUntil}, "created-until", "created before this `time`")
	f.StringVar(&m.code, "code", "", "failure `code`: error, panic, timeout, ...")
	f.StringVar(&m.text, "text", "", "`text` in the failure message (case-sensitive)")
	f.StringVar(&m.step, "step", "", "`name` of a failed step")
	f.IntVar(&m.attempts, "attempts", 0, "at least this `number` of attempts of the run, or of a step that has not ended")
	m.byBuild.flags(m.a, cmd)
	m.byTags.flags(f)
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

// given reports whether any selecting flag is set.
func (m *many) given() bool {
	return len(m.statuses) > 0 || m.workflow != "" || m.queue != "" || m.parent != "" || m.externalID != "" || m.prefix != "" || m.ended() ||
		!m.madeSince.IsZero() || !m.madeUntil.IsZero() || m.code != "" || m.text != "" || m.step != "" || m.attempts > 0 || m.byBuild.given() || m.byTags.given()
}

// ended reports whether runs are selected by their end.
func (m *many) ended() bool { return !m.since.IsZero() || !m.until.IsZero() }

// checkEnds rejects a selection by end combined with statuses that are not final.
func (m *many) checkEnds(statuses []store.Status) error {
	for _, s := range statuses {
		if m.ended() && !s.Final() {
			return usage("--since and --until select by the end of a run, and %s runs have not ended; use --created-since and --created-until, or --status with final statuses", s)
		}
	}
	return nil
}

// onlyFinal reports whether only final runs are selected.
func (m *many) onlyFinal(f store.RunFilter) bool {
	return m.ended() || len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, func(s store.Status) bool { return !s.Final() })
}

// none prints a hint if nothing was selected and a name may be mistyped. It returns an
// error if an external id is given and no selected run has it.
func (m *many) none(ctx context.Context, eng *engine.Engine, f store.RunFilter) error {
	if m.externalID != "" {
		page, err := eng.List(ctx, store.RunFilter{ExternalID: m.externalID}, "", 1)
		switch {
		case err != nil:
			return err
		case len(page.Runs) == 0:
			return fmt.Errorf("no run in namespace %q has external id %q: %w", eng.Namespace(), m.externalID, store.ErrNotFound)
		}
		return fmt.Errorf("run %s with external id %q is %s, so the flags do not select it: %w", page.Runs[0].ID, m.externalID, page.Runs[0].Status, store.ErrNotFound)
	}
	return m.a.hintUnknown(ctx, eng, m.workflow, m.queue)
}

func (m *many) filter(ctx context.Context, eng *engine.Engine) (store.RunFilter, error) {
	f := store.RunFilter{Workflow: m.workflow, Queue: m.queue, ExternalID: m.externalID, IDPrefix: m.prefix, CreatedAfter: m.madeSince, CreatedBefore: m.madeUntil,
		FinishedAfter: m.since, FinishedBefore: m.until, FailureCode: m.code, FailureText: m.text, FailedStep: m.step, MinAttempt: m.attempts}
	for _, name := range m.statuses {
		list, err := statusesOf(name)
		if err != nil {
			return f, usage("--status: %v", err)
		}
		f.Statuses = append(f.Statuses, list...)
	}
	slices.Sort(f.Statuses)
	f.Statuses = slices.Compact(f.Statuses)
	if err := m.byBuild.apply(ctx, eng, &f); err != nil {
		return f, err
	}
	if err := m.byTags.apply(&f); err != nil {
		return f, err
	}
	err := m.checkEnds(f.Statuses)
	if err != nil {
		return f, err
	}
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

// says describes the selection and states that it has n runs.
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
	s += plural(n, "run") + m.byBuild.says() + m.byTags.says()
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
		s += fmt.Sprintf(" with external id %q", m.externalID)
	}
	if m.prefix != "" {
		s += " with id prefix " + m.prefix
	}
	if !m.since.IsZero() {
		s += " that ended after " + m.since.In(m.a.zone).Format(time.DateTime)
	}
	if !m.until.IsZero() {
		s += " that ended before " + m.until.In(m.a.zone).Format(time.DateTime)
	}
	if !m.madeSince.IsZero() {
		s += " created after " + m.madeSince.In(m.a.zone).Format(time.DateTime)
	}
	if !m.madeUntil.IsZero() {
		s += " created before " + m.madeUntil.In(m.a.zone).Format(time.DateTime)
	}
	if m.code != "" {
		s += fmt.Sprintf(" with failure code %q", m.code)
	}
	if m.text != "" {
		s += fmt.Sprintf(" with %q in the failure message", m.text)
	}
	if m.step != "" {
		s += fmt.Sprintf(" with a failed step %q", m.step)
	}
	if m.attempts > 0 {
		s += fmt.Sprintf(" with at least %d attempts", m.attempts)
	}
	return s
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// hintUnknown prints a hint, with the most similar name, if no worker has ever registered
// the workflow or the queue.
func (a *app) hintUnknown(ctx context.Context, eng *engine.Engine, workflow, queue string) error {
	if workflow == "" && queue == "" {
		return nil
	}
	flows, err := eng.Workflows(ctx)
	if err != nil {
		return err
	}
	workers, err := eng.WorkersNow(ctx)
	if err != nil {
		return err
	}
	var names, queues []string
	for _, w := range flows {
		names, queues = append(names, w.Name), append(queues, w.Queue)
	}
	for _, w := range workers {
		names, queues = append(names, w.Workflows...), append(queues, w.Queues...)
	}
	tell := func(what, name string, known []string) {
		if name == "" || slices.Contains(known, name) {
			return
		}
		hint := ""
		if like := likest(name, known); like != "" {
			hint = fmt.Sprintf("; did you mean %q?", like)
		}
		a.note("No worker has registered %s %q in namespace %q%s\n", what, name, eng.Namespace(), hint)
	}
	tell("a workflow", workflow, names)
	tell("queue", queue, queues)
	return nil
}

// likest returns the name with the fewest edits from s, if they are at most a third of its
// length plus one. Otherwise it returns "".
func likest(s string, names []string) (like string) {
	least := len(s)/3 + 2
	for _, n := range names {
		if d := edits(strings.ToLower(s), strings.ToLower(n)); d < least {
			least, like = d, n
		}
	}
	return like
}

// edits returns the Levenshtein distance of a and b in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// Shell completion.

const completions = 50 // maximum number of rows read

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
