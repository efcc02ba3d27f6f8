package flow

import "slices"

// Graph is the picture of a flow. As JSON it is kept in the store with the workflow's
// definition, for tools to show.
type Graph struct {
	Name  string      `json:"name"`
	Nodes []GraphNode `json:"nodes"`
	// Outputs lists the sources of the flow's output, the preferred one first. Each entry lists its
	// nodes, and is empty if there are none.
	Outputs [][]string `json:"outputs,omitempty"`
	// Completes are the nodes that may end the flow early.
	Completes []string `json:"completes,omitempty"`
	// OnFailure is the name of what runs when a node has failed.
	OnFailure string `json:"on_failure,omitempty"`
}

// GraphNode is a node of a [Graph].
type GraphNode struct {
	Name    string   `json:"name"`
	Kind    Kind     `json:"kind"`
	Edges   []Edge   `json:"edges,omitempty"`   // to what it depends on
	When    []string `json:"when,omitempty"`    // its conditions, all of which must hold
	Signals []string `json:"signals,omitempty"` // that it waits for
	// Workflow is the name of the workflow that its children run.
	Workflow string `json:"workflow,omitempty"`
	Detail   string `json:"detail,omitempty"`  // for example the time that it sleeps
	Ignored  bool   `json:"ignored,omitempty"` // its output is
}

// Edge is a dependency of a node.
type Edge struct {
	From string   `json:"from"` // a node; empty: the flow's input
	Kind EdgeKind `json:"kind"`
	// Optional says that the node runs even if From was skipped.
	Optional bool `json:"optional,omitempty"`
}

// EdgeKind says why a node has a dependency.
type EdgeKind string

// The kinds of edges.
const (
	EdgeInput     EdgeKind = "input"      // its result is taken
	EdgeCondition EdgeKind = "condition"  // a condition looks at its result
	EdgeAfter     EdgeKind = "after"      // only the order counts
	EdgeIfSkipped EdgeKind = "if-skipped" // the node runs if the other was skipped
)

// Graph returns the flow's picture as it is now, even if the flow is not valid.
// Dependencies on nodes that do not exist are left out.
func (f *Flow[In, Out]) Graph() Graph {
	b := f.b
	g := Graph{Name: b.name, Nodes: []GraphNode{}}
	names := make(map[string]bool)
	for _, n := range b.nodes {
		names[n.name] = true
	}
	for _, n := range b.nodes {
		g.Nodes = append(g.Nodes, n.draw(names))
	}
	for _, out := range f.outputs {
		from := []string{}
		for _, d := range needsOf(out) {
			if d.node != nil && !slices.Contains(from, d.node.name) {
				from = append(from, d.node.name)
			}
		}
		g.Outputs = append(g.Outputs, from)
	}
	for _, e := range b.ends {
		for _, d := range needsOf(e.from) {
			if d.node != nil && !slices.Contains(g.Completes, d.node.name) {
				g.Completes = append(g.Completes, d.node.name)
			}
		}
	}
	if len(b.handlers) > 0 {
		g.OnFailure = b.handlers[0].name
	}
	return g
}

func (n *node) draw(names map[string]bool) GraphNode {
	g := GraphNode{Name: n.name, Kind: n.kind, Workflow: n.item, Detail: n.detail, Ignored: n.ignore}
	edge := func(e Edge) {
		if !slices.Contains(g.Edges, e) {
			g.Edges = append(g.Edges, e)
		}
	}
	take := func(needs []need, kind EdgeKind) {
		for _, d := range needs {
			switch {
			case d.node != nil:
				edge(Edge{From: d.node.name, Kind: kind, Optional: d.optional})
			case d.input != nil:
				edge(Edge{Kind: kind})
			case d.signal != "":
				g.Signals = append(g.Signals, d.signal)
			}
		}
	}
	refer := func(refs []ref, kind EdgeKind, optional bool) {
		for _, r := range refs {
			if r.node != nil {
				edge(Edge{From: r.node.name, Kind: kind, Optional: optional})
			} else if names[r.name] {
				edge(Edge{From: r.name, Kind: kind, Optional: optional})
			}
		}
	}
	take(needsOf(n.inputs...), EdgeInput)
	for _, w := range n.whens {
		g.When = append(g.When, w.text)
		take(needsOf(w.from), EdgeCondition)
	}
	refer(n.after, EdgeAfter, n.evenIfSkipped)
	refer(n.instead, EdgeIfSkipped, false)
	return g
}
