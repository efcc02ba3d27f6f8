package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) showCommand() *cobra.Command {
	o := one{a: a}
	var outputs bool
	var depth, children int
	cmd := &cobra.Command{
		Use:   "show RUN [flags]",
		Short: "Show a run and the tree of its steps",
		Long: `Show everything that is recorded about a run: its steps as a tree of branches and
children, with status, attempts, times and output sizes; its flow state; and its
unread signals.

AT is the time from the start of the run to the start of the step's last attempt,
or of its wait. TOOK is the duration of that attempt or wait.`,
		Example: `  pawl runs show 0191a5c2-7e9a
  pawl runs show --external-id order-42 --outputs
  pawl runs show 0191a5c2-7e9a --json | jq '.steps[] | select(.status=="failed")'`,
		Args:              o.args(0, 0),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	f := cmd.Flags()
	o.flags(f)
	f.BoolVarP(&outputs, "outputs", "o", false, "print the outputs of the steps")
	f.IntVar(&depth, "depth", 1, "show the steps of descendants down to this `level`; 1 means children")
	f.IntVar(&children, "children", 10, "maximum `number` of children to show of each run; 0 means all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, id, _, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		if depth < 0 || children < 0 {
			return usage("--depth and --children must not be negative")
		}
		v, err := look(ctx, eng, id, depth, children)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(v.json())
		}
		a.printRun(v, outputs)
		return nil
	}
	return cmd
}

// view is a run with everything that show prints.
type view struct {
	run      store.Run
	steps    []store.Step
	state    []store.StateEntry
	inbox    store.Inbox
	actions  []store.Action   // the newest
	progress *engine.Progress // of its descendants; nil: it has none
	children []*view
	more     bool // children that are not shown
	opened   bool // steps and children were looked at
}

// look reads a run and its descendants down to depth, with at most children children of each
// run; 0 means all children.
func look(ctx context.Context, eng *engine.Engine, id store.ID, depth, children int) (*view, error) {
	run, err := eng.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	v := &view{run: run}
	if v.state, err = eng.GetState(ctx, id); err != nil {
		return nil, err
	}
	if v.inbox, err = eng.Store().Inbox(ctx, store.InboxParams{Namespace: eng.Namespace(), Run: id}); err != nil {
		return nil, err
	}
	page, err := eng.Actions(ctx, store.ListActionsParams{Run: id, Limit: 20})
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		return nil, err
	}
	v.actions = page.Actions
	if len(v.inbox.Groups) > 0 {
		p, err := eng.Progress(ctx, id)
		if err != nil {
			return nil, err
		}
		p.Rate, p.Left = 0, 0 // an average over the run's life says little here; watch has a rate
		v.progress = &p
	}
	return v, v.open(ctx, eng, depth, children)
}

// open reads the steps and the children of a run.
func (v *view) open(ctx context.Context, eng *engine.Engine, depth, children int) (err error) {
	v.opened = true
	if v.steps, err = eng.Steps(ctx, v.run.ID); err != nil {
		return err
	}
	for cursor := ""; ; {
		limit := store.MaxPage
		if children > 0 {
			limit = min(limit, children-len(v.children))
		}
		page, err := eng.Store().List(ctx, store.ListParams{
			Namespace: eng.Namespace(), Filter: store.RunFilter{Parent: v.run.ID}, OldestFirst: true, Cursor: cursor, Limit: limit,
		})
		if err != nil {
			return err
		}
		for _, r := range page.Runs {
			v.children = append(v.children, &view{run: r})
		}
		cursor = page.Next
		v.more = cursor != ""
		if cursor == "" || children > 0 && len(v.children) >= children {
			break
		}
	}
	slices.SortStableFunc(v.children, func(x, y *view) int {
		if c := strings.Compare(x.run.Group, y.run.Group); c != 0 {
			return c
		}
		return int(x.run.Ordinal - y.run.Ordinal)
	})
	if depth > 0 {
		for _, c := range v.children {
			if err := c.open(ctx, eng, depth-1, children); err != nil {
				return err
			}
		}
	}
	return nil
}

type viewJSON struct {
	Run     runJSON      `json:"run"`
	Steps   []stepJSON   `json:"steps"`
	State   []stateJSON  `json:"state,omitempty"`
	Signals []signalJSON `json:"signals,omitempty"`
	Groups  []groupJSON  `json:"groups,omitempty"`
	// Progress is how far the descendants of all levels are.
	Progress *progressJSON `json:"progress,omitempty"`
	Actions  []actionJSON  `json:"actions,omitempty"`
	Children []viewJSON    `json:"children,omitempty"`
	// MoreChildren reports that there are more than --children.
	MoreChildren bool `json:"more_children,omitempty"`
}

type groupJSON struct {
	Name      string `json:"name"`
	Total     int64  `json:"total"`
	Open      int64  `json:"open"`
	Completed int64  `json:"completed"`
	Failed    int64  `json:"failed"`
	Canceled  int64  `json:"canceled"`
}

type progressJSON struct {
	countsJSON
	// Levels has the counts of the children, of their children, and so on.
	Levels []countsJSON `json:"levels"`
	// Capped reports that the counts are lower bounds.
	Capped bool `json:"capped,omitempty"`
	// Rate is how many descendants end in a second; only of watch.
	Rate float64 `json:"rate,omitempty"`
	// LeftSeconds is an estimate of the time until the open ones have ended.
	LeftSeconds float64 `json:"left_seconds,omitempty"`
}

type countsJSON struct {
	Total     int64 `json:"total"`
	Open      int64 `json:"open"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
}

func asProgress(p *engine.Progress) progressJSON {
	return progressJSON{
		countsJSON: countsJSON(p.TreeCounts), Levels: each(p.Levels, func(c store.TreeCounts) countsJSON { return countsJSON(c) }),
		Capped: p.Capped, Rate: p.Rate, LeftSeconds: p.Left.Seconds(),
	}
}

func (v *view) json() viewJSON {
	var progress *progressJSON
	if v.progress != nil {
		p := asProgress(v.progress)
		progress = &p
	}
	return viewJSON{
		Progress: progress,
		Run:      asRun(v.run), Steps: each(v.steps, asStep), State: each(v.state, asState),
		Signals: each(v.inbox.Signals, func(s store.Signal) signalJSON {
			return signalJSON{s.ID, s.Name, asPayload(s.Payload), asTime(s.SentAt)}
		}),
		Groups:       each(v.inbox.Groups, func(g store.Group) groupJSON { return groupJSON(g) }),
		Actions:      each(v.actions, asAction),
		Children:     each(v.children, (*view).json),
		MoreChildren: v.more,
	}
}

// printRun prints a run as text.
func (a *app) printRun(v *view, outputs bool) {
	r := v.run
	a.print("%s  %s  %s\n", a.paint(bold, "run "+r.ID.String()), clean(r.Workflow), a.paint(statusStyle(r.Status), r.Status.String()))
	line := func(name, format string, args ...any) {
		if s := fmt.Sprintf(format, args...); strings.TrimSpace(s) != "" {
			a.print("  %s %s\n", a.paint(dim, fmt.Sprintf("%-12s", name)), clean(s))
		}
	}
	queue := r.Queue
	if r.Priority != 0 {
		queue += fmt.Sprintf(", priority %d", r.Priority)
	}
	line("queue", "%s", queue)
	line("external id", "%s", externalID(r))
	if !r.Parent.IsZero() {
		s := r.Parent.String()
		if r.Group != "" {
			s += fmt.Sprintf(", child %d of its step %q", r.Ordinal, r.Group)
		}
		line("parent", "%s", s)
	}
	if len(r.Tags) > 0 {
		line("tags", "%s", tagsText(r.Tags))
	}
	if !r.ForkedFrom.IsZero() {
		line("forked from", "%s", r.ForkedFrom)
	}
	line("created", "%s", a.when(r.CreatedAt))
	line("started", "%s", a.when(r.StartedAt))
	if !r.FinishedAt.IsZero() {
		after := ""
		if !r.StartedAt.IsZero() {
			after = ", after " + span(r.FinishedAt.Sub(r.StartedAt))
		}
		if r.Worker != "" {
			after += ", by " + r.Worker
		}
		line("finished", "%s%s", a.when(r.FinishedAt), after)
	}
	if !r.Status.Final() {
		line("now", "%s", a.remark(r))
	}
	if p := r.Pin; p != nil {
		line("pinned to", "build %s%s", p.Build, misfit(p))
	}
	if v.progress != nil {
		line("tree", "%s", treeText(v.progress))
	}
	line("deadline", "%s", a.when(r.Deadline))
	var tries []string
	for _, t := range []struct {
		n    int
		says string
	}{{r.Attempt - 1, fmt.Sprintf("attempt %d", r.Attempt)}, {engine.Crashes(&r), fmt.Sprintf("%d leases expired in a row", engine.Crashes(&r))}, {r.Generation, fmt.Sprintf("continued as new %d times", r.Generation)}} {
		if t.n > 0 {
			tries = append(tries, t.says)
		}
	}
	line("attempts", "%s", strings.Join(tries, ", "))
	const width = 200
	line("input", "%s", payload(r.Input, width))
	if r.Status == store.Completed {
		line("output", "%s", payload(r.Output, width))
	}
	if f := r.Failure; f != nil {
		line("failure", "%s (%s)", f.Message, f.Code)
	}
	if r.Failure != nil && r.Failure.Stack != "" {
		for s := range strings.Lines(strings.TrimSpace(r.Failure.Stack)) {
			a.print("    %s\n", a.paint(dim, clean(strings.ReplaceAll(strings.TrimRight(s, "\n"), "\t", "  "))))
		}
	}
	a.printRecords(v, outputs)
}

// printRecords prints what belongs to a run: steps, state, signals and actions.
func (a *app) printRecords(v *view, outputs bool) {
	if len(v.steps) > 0 || len(v.children) > 0 {
		a.print("\n")
		t := a.treeTable(v, outputs)
		a.printTable(t, "")
	}
	if len(v.state) > 0 {
		a.print("\n")
		a.printTable(a.stateTable(v.state), "")
	}
	if len(v.inbox.Signals) > 0 {
		a.print("\n")
		t := table{head: []string{"UNREAD SIGNAL", "SENT", "PAYLOAD"}}
		for _, s := range v.inbox.Signals {
			t.add(text(s.Name), text(a.ago(s.SentAt)), text(payload(s.Payload, 80)))
		}
		a.printTable(&t, "")
	}
	if len(v.actions) > 0 {
		a.print("\n")
		a.printTable(a.actionTable(v.actions, false), "")
	}
}

func (a *app) stateTable(list []store.StateEntry) *table {
	t := table{head: []string{"STATE", "VERSION", "CHANGED", "VALUE"}}
	for _, e := range list {
		t.add(text(e.Key), cell{text: fmt.Sprint(e.Version), right: true}, text(a.ago(e.UpdatedAt)), text(payload(e.Value, 120)))
	}
	return &t
}

// node is a node in the tree of a run.
type node struct {
	name     string
	step     *store.Step
	child    *view
	says     string // of a line that is neither
	position int64  // orders the nodes of one parent
	nodes    []*node
}

// tree returns the tree of a run: a branch is below the place where it began, a child
// below the step that spawned it.
func (v *view) tree() *node {
	root := &node{}
	branches := map[string]*node{"": root}
	var branch func(path string, position int64) *node
	branch = func(path string, position int64) *node {
		if n := branches[path]; n != nil {
			return n
		}
		above, name := "", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			above, name = path[:i], path[i+1:]
		}
		n := &node{name: name, says: "branch", position: position}
		up := branch(above, position)
		up.nodes = append(up.nodes, n)
		branches[path] = n
		return n
	}
	byKey := map[string]*node{}
	for i := range v.steps { // by position, so that a branch's first step makes it
		s := &v.steps[i]
		key := s.StepKey
		key.Branch = ""
		n := &node{name: key.String(), step: s, position: s.Position}
		b := branch(s.Branch, s.Position)
		b.nodes = append(b.nodes, n)
		byKey[s.StepKey.String()] = n
	}
	groups := map[string]store.Group{}
	for _, g := range v.inbox.Groups {
		groups[g.Name] = g
	}
	for _, c := range v.children {
		up := byKey[c.run.Group]
		if up == nil {
			up = root
		}
		n := &node{name: fmt.Sprintf("run %s", c.run.ID), child: c}
		if c.opened {
			n.nodes = c.tree().nodes
		}
		up.nodes = append(up.nodes, n)
	}
	if v.more {
		root.nodes = append(root.nodes, &node{says: fmt.Sprintf("more children exist; list them with: pawl runs list --parent %s", v.run.ID)})
	}
	for name, n := range byKey {
		if g, ok := groups[name]; ok && g.Total > 1 {
			n.says = fmt.Sprintf("%d of %d children completed, %d failed, %d canceled", g.Completed, g.Total, g.Failed, g.Canceled)
		}
	}
	return root
}

// treeTable formats the tree of a run.
func (a *app) treeTable(v *view, outputs bool) *table {
	t := &table{head: []string{"STEP", "KIND", "STATUS", "TRIES", "AT", "TOOK", "OUTPUT", "NOTE"}}
	start := v.run.StartedAt
	if start.IsZero() {
		start = v.run.CreatedAt
	}
	var walk func(n *node, indent string)
	walk = func(n *node, indent string) {
		for i, c := range n.nodes {
			here, below := "├─ ", "│  "
			if i == len(n.nodes)-1 {
				here, below = "└─ ", "   "
			}
			name := cell{text: indent + here + clean(c.name)}
			switch {
			case c.step != nil:
				t.add(append([]cell{name}, a.stepCells(c, start)...)...)
				bar := "   "
				if len(c.nodes) > 0 {
					bar = "│  "
				}
				for _, e := range c.step.Earlier {
					t.add(cell{text: indent + below + bar + earlier(e, start), style: dim, long: true})
				}
				if outputs && len(c.step.Output) > 0 {
					t.add(cell{text: indent + below + bar + "= " + payload(c.step.Output, 100), style: dim, long: true})
				}
			case c.child != nil:
				r := c.child.run
				t.add(name, text(r.Workflow), statusCell(r.Status), tries(r.Attempt), offset(start, r.StartedAt), cell{text: a.took(r), right: true}, cell{}, text(a.remark(r)))
			default:
				if c.name == "" {
					name.text, name.long = indent+here+c.says, true
					t.add(name.isA(dim))
					break
				}
				t.add(name, text(c.says))
			}
			walk(c, indent+below)
		}
	}
	walk(v.tree(), "")
	for i, row := range t.rows { // rows of one cell
		for len(row) < len(t.head) {
			row = append(row, cell{})
		}
		t.rows[i] = row
	}
	return t
}

// earlier formats a failed attempt in one line.
func earlier(e store.FailedAttempt, start time.Time) string {
	return fmt.Sprintf("attempt %d, +%s: %s", e.Attempt, span(e.StartedAt.Sub(start)), clean(e.Message))
}

func tries(n int) cell {
	if n <= 1 {
		return cell{}
	}
	return number(n)
}

func offset(start, t time.Time) cell {
	if t.IsZero() {
		return cell{}
	}
	return cell{text: "+" + span(t.Sub(start)), right: true}
}

func (a *app) stepCells(n *node, start time.Time) []cell {
	s := n.step
	var st style
	switch s.Status {
	case store.StepCompleted:
		st = green
	case store.StepFailed:
		st = red
	case store.StepRunning:
		st = cyan
	case store.StepPending:
		st = yellow
	}
	var took, out, note string
	switch {
	case !s.FinishedAt.IsZero():
		took = span(s.FinishedAt.Sub(s.StartedAt))
	case s.Status == store.StepRunning:
		took = span(a.now().Sub(s.StartedAt))
	}
	if s.Output != nil {
		out = size(len(s.Output))
	}
	switch {
	case s.Failure != nil:
		note = s.Failure.Message
	case n.says != "":
		note = n.says
	}
	if !s.Status.Final() && !s.DueAt.IsZero() {
		due := "due " + a.ago(s.DueAt)
		switch {
		case s.Status == store.StepPending:
			due = "again " + a.ago(s.DueAt)
		case s.Kind == store.KindFunction:
			due = "timeout " + a.ago(s.DueAt)
		}
		if note != "" {
			due += ", after: "
		}
		note = due + note
	}
	return []cell{text(s.Kind.String()), styled(st, s.Status.String()), tries(s.Attempt), offset(start, s.StartedAt), {text: took, right: true}, {text: out, right: true}, text(note)}
}
