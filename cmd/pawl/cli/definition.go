package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/store"
)

type retentionJSON struct { // in seconds; 0: for ever
	Completed float64 `json:"completed_seconds"`
	Failed    float64 `json:"failed_seconds"`
	Canceled  float64 `json:"canceled_seconds"`
}

type definitionJSON struct {
	Name         string           `json:"name"`
	Queue        string           `json:"queue"`
	RegisteredAt *time.Time       `json:"registered_at"`
	Paused       *time.Time       `json:"paused_since,omitempty"`
	Retention    retentionJSON    `json:"retention"`
	Runs         map[string]int64 `json:"runs"`             // not final, by status
	Capped       []string         `json:"capped,omitempty"` // statuses of which there may be more
	Workers      []string         `json:"workers"`
	Graph        json.RawMessage  `json:"graph,omitempty"`
	Mermaid      string           `json:"mermaid,omitempty"`
}

func (a *app) definitionCommand() *cobra.Command {
	var graph bool
	cmd := &cobra.Command{
		Use:   "show WORKFLOW [flags]",
		Short: "Show a workflow: its queue, retention, runs, workers and graph",
		Long: `Show a workflow as last registered by a worker: its queue, the retention of its
final runs, its runs that are not final, its online workers, and the graph of a
flow in Mermaid syntax.`,
		Example:           "  pawl workflows show fulfil-order\n  pawl workflows show fulfil-order --graph > order.mmd",
		Args:              between(1, 1),
		ValidArgsFunction: a.completeArgs(1, workflowNames),
	}
	cmd.Flags().BoolVar(&graph, "graph", false, "print only the graph")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		d, err := a.definition(ctx, eng, args[0])
		if err != nil {
			return err
		}
		switch {
		case graph && d.Mermaid == "":
			return fmt.Errorf("workflow %q has no graph: %w", d.Name, store.ErrNotFound)
		case graph:
			a.print("%s", visible([]byte(d.Mermaid)))
			return nil
		case a.json:
			return a.printJSON(d)
		}
		a.printDefinition(d)
		return nil
	}
	return cmd
}

func (a *app) definition(ctx context.Context, eng *engine.Engine, name string) (d definitionJSON, err error) {
	defs, err := eng.Definitions(ctx, name)
	if err != nil {
		return d, err
	}
	if len(defs) == 0 {
		if err := a.hintUnknown(ctx, eng, name, ""); err != nil {
			return d, err
		}
		return d, fmt.Errorf("workflow %q in namespace %q: %w", name, eng.Namespace(), store.ErrNotFound)
	}
	v := defs[0]
	d = definitionJSON{
		Name: v.Name, Queue: v.Queue, RegisteredAt: asTime(v.UpdatedAt), Graph: v.Graph, Runs: map[string]int64{}, Workers: []string{},
		Retention: retentionJSON{v.Retention.Completed.Seconds(), v.Retention.Failed.Seconds(), v.Retention.Canceled.Seconds()},
	}
	var g flow.Graph
	if len(v.Graph) > 0 && json.Unmarshal(v.Graph, &g) == nil {
		d.Mermaid = g.Mermaid()
	}
	counts, err := eng.Count(ctx, store.RunFilter{Workflow: name, Statuses: active})
	if err != nil {
		return d, err
	}
	d.Capped = capped(counts)
	for _, c := range counts {
		if c.Count > 0 {
			d.Runs[c.Status.String()] += c.Count
		}
	}
	workers, err := eng.Workers(ctx)
	if err != nil {
		return d, err
	}
	for _, w := range workers {
		if w.Status == store.Online && slices.Contains(w.Workflows, name) {
			d.Workers = append(d.Workers, w.ID)
		}
	}
	paused, err := eng.Paused(ctx)
	for _, p := range paused {
		if p.Workflow == name {
			d.Paused = asTime(p.Since)
		}
	}
	return d, err
}

func (a *app) printDefinition(d definitionJSON) {
	a.print("%s\n", a.paint(bold, "workflow "+clean(d.Name)))
	line := func(name, value string) { a.print("  %s %s\n", a.paint(dim, fmt.Sprintf("%-12s", name)), clean(value)) }
	line("queue", d.Queue)
	line("registered", a.when(*d.RegisteredAt))
	if d.Paused != nil {
		line("paused", "since "+a.when(*d.Paused))
	}
	kept := func(seconds float64) string {
		if seconds == 0 {
			return "forever"
		}
		return span(time.Duration(seconds * float64(time.Second)))
	}
	line("kept", fmt.Sprintf("completed runs %s, failed %s, canceled %s", kept(d.Retention.Completed), kept(d.Retention.Failed), kept(d.Retention.Canceled)))
	var runs []string
	for _, s := range active {
		if n := d.Runs[s.String()]; n > 0 {
			runs = append(runs, s.String()+" "+group3(n))
		}
	}
	line("runs", cmp.Or(strings.Join(runs, ", "), "none active"))
	line("workers", cmp.Or(strings.Join(d.Workers, ", "), "none online"))
	if d.Mermaid != "" {
		a.print("\n%s", visible([]byte(d.Mermaid)))
	}
}
