package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/replay"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// CheckOption configures [CheckHistories] and [CheckExport].
type CheckOption func(*historyCheck)

// CheckSample checks at most n runs of each workflow, chosen at random. The default is all.
func CheckSample(n int) CheckOption { return func(c *historyCheck) { c.sample = n } }

// CheckProgress sets a function that is called after each run, with the workflow's name and
// the number of runs checked so far, of all workflows.
func CheckProgress(f func(workflow string, checked int)) CheckOption {
	return func(c *historyCheck) { c.progress = f }
}

// HistoryReport is what [CheckHistories] found.
type HistoryReport struct {
	Checked int // runs that were replayed
	Unfit   int // of these, those whose histories do not fit the code
	// Misfits has one entry for each workflow, step and reason, with the first run of each.
	// It has at most [MaxMisfits] entries; Unfit counts the others, too.
	Misfits []Misfit
	// Partly counts the runs of which a part could not be read, because an export does not
	// have it or because the store refuses. The rest of them fits.
	Partly int
	// Unknown lists workflows that have unfinished runs and that were not given to the check,
	// in the order of their names.
	Unknown []string
}

// MaxMisfits is how many kinds of misfits a [HistoryReport] lists.
const MaxMisfits = 100

// Misfit is a kind of runs whose histories do not fit the code.
type Misfit struct {
	Workflow string
	Step     string   // key of the operation at which the history does not fit; empty: no single one
	Code     string   // a code of package workflow, such as workflow.CodeNondeterministic
	Reason   string   // what was recorded, and what the code asks for
	Run      store.ID // the first run of this kind
	More     int      // how many more runs there are like it
}

// OK reports whether every run that was checked fits the code.
func (r *HistoryReport) OK() bool { return r.Unfit == 0 }

// ExitCode returns the exit code for a program that does nothing but check: 0 if every run
// fits, otherwise 1.
func (r *HistoryReport) ExitCode() int {
	if r.OK() {
		return 0
	}
	return 1
}

// String returns the report as text of several lines.
func (r *HistoryReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s checked, %d of them do not fit this code\n", counted(r.Checked, "unfinished run"), r.Unfit)
	listed := 0
	for _, m := range r.Misfits {
		listed += 1 + m.More
		fmt.Fprintf(&b, "\nworkflow %s", m.Workflow)
		if m.Step != "" {
			fmt.Fprintf(&b, ", step %s", m.Step)
		}
		fmt.Fprintf(&b, " (%s)\n  %s\n  run %s", m.Code, m.Reason, m.Run)
		if m.More > 0 {
			fmt.Fprintf(&b, ", and %s like it", counted(m.More, "more run"))
		}
		b.WriteByte('\n')
	}
	if n := r.Unfit - listed; n > 0 {
		fmt.Fprintf(&b, "\n%s do not fit for further reasons\n", counted(n, "more run"))
	}
	if r.Partly > 0 {
		fmt.Fprintf(&b, "\n%s could be checked only partly: large results of children could not be read\n", counted(r.Partly, "run"))
	}
	if len(r.Unknown) > 0 {
		fmt.Fprintf(&b, "\nnot checked, because this program has no such workflow: %s\n", strings.Join(r.Unknown, ", "))
	}
	return b.String()
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// CheckHistories replays the unfinished runs of the engine's namespace against the given
// workflows, and reports each run whose history does not fit their code. Call it before a
// deploy, in the program that is to be deployed, behind a flag:
//
//	if *check {
//		report, err := worker.CheckHistories(ctx, eng, []workflow.Definition{Fulfil, Refund})
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Print(report)
//		os.Exit(report.ExitCode())
//	}
//
// It writes nothing to the database and executes no step. The functions of workflows run,
// up to the first step that is not recorded; functions given to [workflow.Value] run, too.
// Open the store without a migration (backends.WithoutMigration): a database whose schema
// is older than that of this program is then refused and not changed.
//
// Runs are read one by one, and their steps in pages, so that the memory needed does not
// grow with the database. Runs that are executed meanwhile are checked as they are at some moment.
//
// It fails with store.ErrInvalid if a definition or an option is not valid or a workflow is
// given twice, and with the store's error if the runs cannot be read. An error of one run's
// payload is a misfit.
func CheckHistories(ctx context.Context, eng *engine.Engine, defs []workflow.Definition, opts ...CheckOption) (*HistoryReport, error) {
	c, err := newHistoryCheck(eng.Codec(), defs, opts)
	if err != nil {
		return nil, err
	}
	for _, def := range c.defs {
		if err := c.workflow(ctx, eng, def); err != nil {
			return nil, fmt.Errorf("check histories of workflow %q: %w", def.Name, err)
		}
	}
	counts, err := eng.Count(ctx, store.RunFilter{Statuses: unfinished})
	if err != nil {
		return nil, fmt.Errorf("check histories: %w", err)
	}
	for _, n := range counts {
		c.seen(n.Workflow)
	}
	return c.done(), nil
}

// CheckExport is [CheckHistories] for runs that engine.Engine.Export has written. The codec
// is that of the engine which made the runs. Large results of children are not part of a
// history; runs that need them are checked up to there.
func CheckExport(ctx context.Context, export io.Reader, codec engine.Codec, defs []workflow.Definition, opts ...CheckOption) (*HistoryReport, error) {
	c, err := newHistoryCheck(codec, defs, opts)
	if err != nil {
		return nil, err
	}
	records, err := bridge.Exported(export)
	if err != nil {
		return nil, fmt.Errorf("check histories: %w", err)
	}
	done := map[string]int{}
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	for i := range records {
		run := &records[i].Run
		if run.Status.Final() {
			continue
		}
		def := c.named(run.Workflow)
		if def == nil {
			c.seen(run.Workflow)
			continue
		}
		if c.sample > 0 && done[def.Name] == c.sample {
			continue
		}
		done[def.Name]++
		out, err := replay.Run(ctx, def, replay.History{Run: *run, Steps: records[i].Steps})
		if err != nil {
			return nil, fmt.Errorf("check history of run %s: %w", run.ID, err)
		}
		c.add(run, out)
	}
	return c.done(), nil
}

// unfinished are the statuses of runs that a worker may take.
var unfinished = []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}

// historyCheck is a check under way.
type historyCheck struct {
	sample   int
	progress func(workflow string, checked int)
	defs     []*exec.Definition
	report   HistoryReport
	kinds    map[Misfit]int // index in report.Misfits, by the entry without its run and number
}

func newHistoryCheck(codec engine.Codec, defs []workflow.Definition, opts []CheckOption) (*historyCheck, error) {
	c := &historyCheck{kinds: make(map[Misfit]int)}
	for _, opt := range opts {
		opt(c)
	}
	if c.sample < 0 {
		return nil, store.Invalid("sample", fmt.Sprintf("%d is negative; give how many runs of each workflow to check, or 0 for all", c.sample))
	}
	if len(defs) == 0 {
		return nil, store.Invalid("workflows", "none is given; give those that the program registers with its worker")
	}
	for _, d := range defs {
		if d == nil {
			return nil, store.Invalid("workflow", "the definition is nil")
		}
		def := bridge.Define(d, codec)
		if def.Err != nil {
			return nil, fmt.Errorf("workflow %q: %w", def.Name, def.Err)
		}
		if c.named(def.Name) != nil {
			return nil, store.Invalid("workflow", fmt.Sprintf("%q is given twice", def.Name))
		}
		c.defs = append(c.defs, def)
	}
	return c, nil
}

func (c *historyCheck) named(workflow string) *exec.Definition {
	for _, def := range c.defs {
		if def.Name == workflow {
			return def
		}
	}
	return nil
}

// seen notes a workflow that has unfinished runs.
func (c *historyCheck) seen(workflow string) {
	if workflow != "" && c.named(workflow) == nil && !slices.Contains(c.report.Unknown, workflow) {
		c.report.Unknown = append(c.report.Unknown, workflow)
	}
}

// done returns the report, the most frequent misfits first.
func (c *historyCheck) done() *HistoryReport {
	slices.Sort(c.report.Unknown)
	slices.SortStableFunc(c.report.Misfits, func(a, b Misfit) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(b.More, a.More), cmp.Compare(a.Step, b.Step))
	})
	return &c.report
}

// workflow checks the runs of a workflow.
func (c *historyCheck) workflow(ctx context.Context, eng *engine.Engine, def *exec.Definition) error {
	var sample []store.ID
	listed := 0
	filter := store.RunFilter{Workflow: def.Name, Statuses: unfinished}
	for cursor := ""; ; {
		page, err := eng.List(ctx, filter, cursor, store.MaxPage)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			id := page.Runs[i].ID
			listed++
			switch {
			case c.sample == 0:
				if err := c.run(ctx, eng, def, id); err != nil {
					return err
				}
			case len(sample) < c.sample:
				sample = append(sample, id)
			default: // each run has the same chance
				if j := rand.IntN(listed); j < c.sample {
					sample[j] = id
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for _, id := range sample {
		if err := c.run(ctx, eng, def, id); err != nil {
			return err
		}
	}
	return nil
}

// run checks a run. One that goes on meanwhile, so that its history is of two moments, is
// checked again.
func (c *historyCheck) run(ctx context.Context, eng *engine.Engine, def *exec.Definition, id store.ID) error {
	const tries = 5
	for try := 1; ; try++ {
		run, out, err := replayed(ctx, eng, def, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil // it has ended and was purged
		}
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		if run.Status.Final() {
			return nil
		}
		if out.Misfit() != nil && try < tries {
			now, err := eng.Get(ctx, id)
			if err == nil && (now.Epoch != run.Epoch || now.Status.Final() || now.Generation != run.Generation) {
				continue
			}
		}
		c.add(&run, out)
		return nil
	}
}

// replayed replays a run as it is now.
func replayed(ctx context.Context, eng *engine.Engine, def *exec.Definition, id store.ID) (run store.Run, out *replay.Outcome, err error) {
	run, err = eng.Get(ctx, id)
	if err != nil || run.Status.Final() {
		return run, nil, err
	}
	st, ns := eng.Store(), eng.Namespace()
	page, err := st.Steps(ctx, store.StepsParams{Namespace: ns, Run: id, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes})
	if err != nil {
		return run, nil, err
	}
	out, err = replay.Run(ctx, def, replay.History{Run: run, Steps: page.Steps, More: page.Next != 0,
		Read: func(call func(context.Context, store.Store, string) error) error { return call(ctx, st, ns) }})
	return run, out, err
}

// add counts the outcome of a run.
func (c *historyCheck) add(run *store.Run, out *replay.Outcome) {
	c.report.Checked++
	if c.progress != nil {
		defer func() { c.progress(run.Workflow, c.report.Checked) }()
	}
	f := out.Misfit()
	if f == nil {
		if out.Cut != "" {
			c.report.Partly++
		}
		return
	}
	c.report.Unfit++
	m := Misfit{Workflow: run.Workflow, Step: out.End.At, Code: f.Code, Reason: f.Message}
	if i, ok := c.kinds[m]; ok {
		c.report.Misfits[i].More++
		return
	}
	if len(c.report.Misfits) == MaxMisfits {
		return
	}
	c.kinds[m] = len(c.report.Misfits)
	m.Run = run.ID
	c.report.Misfits = append(c.report.Misfits, m)
}
