package console

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/api/wire"
)

// picture is a drawing of a flow's graph: layers from left to right.
type picture struct {
	Width, Height int
	Nodes         []pictureNode
	Edges         []pictureEdge
	Summary       string
	graph         json.RawMessage // before it is drawn
}

type pictureNode struct {
	Name, Kind, Label, Detail, Title, Class string
	X, Y, W, H, TextX, TextY, SubY          int
}

type pictureEdge struct {
	Path, Arrow string
	Weak        bool // only the order counts, or it need not run
}

// graphNode is what the console reads of a node of a flow's graph (package flow, Graph).
type graphNode struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Edges []struct {
		From     string `json:"from"`
		Kind     string `json:"kind"`
		Optional bool   `json:"optional"`
	} `json:"edges"`
	When     []string `json:"when"`
	Signals  []string `json:"signals"`
	Workflow string   `json:"workflow"`
	Detail   string   `json:"detail"`
}

const (
	nodeWidth  = 168
	nodeHeight = 46
	gapX       = 56
	gapY       = 18
	mostNodes  = 400
)

// drawGraph draws a graph. With the steps of a run, nodes have the state of their steps. It is nil if
// there is no graph, or none that can be drawn.
func drawGraph(graph json.RawMessage, steps []wire.Step) *picture {
	var g struct {
		Nodes []graphNode `json:"nodes"`
	}
	if len(graph) == 0 || json.Unmarshal(graph, &g) != nil || len(g.Nodes) == 0 || len(g.Nodes) > mostNodes {
		return nil
	}
	state := map[string]string{}
	for _, s := range steps {
		if state[s.Name] != "failed" {
			state[s.Name] = s.Status
		}
	}
	at := map[string]int{} // index of each node by name
	for i, n := range g.Nodes {
		at[n.Name] = i
	}
	layer := layers(g.Nodes, at)
	p := &picture{Summary: fmt.Sprintf("Graph of %d nodes", len(g.Nodes))}
	rows := map[int]int{}
	for i, n := range g.Nodes {
		x, y := 12+layer[i]*(nodeWidth+gapX), 12+rows[layer[i]]*(nodeHeight+gapY)
		rows[layer[i]]++
		node := pictureNode{
			Name: n.Name, Kind: n.Kind, Label: clip(22, n.Name), Detail: clip(26, detailOf(n)), Class: state[n.Name],
			X: x, Y: y, W: nodeWidth, H: nodeHeight, TextX: x + 10, TextY: y + 20, SubY: y + 36,
		}
		node.Title = n.Name + " (" + detailOf(n) + ")"
		if node.Class != "" {
			node.Title += ": " + node.Class
		}
		p.Nodes = append(p.Nodes, node)
		p.Width, p.Height = max(p.Width, x+nodeWidth+12), max(p.Height, y+nodeHeight+12)
	}
	for i, n := range g.Nodes {
		for _, e := range n.Edges {
			if j, ok := at[e.From]; ok && e.From != "" {
				p.Edges = append(p.Edges, connect(p.Nodes[j], p.Nodes[i], e.Kind != "input" || e.Optional))
			}
		}
	}
	return p
}

// layers puts each node behind all that it depends on.
func layers(nodes []graphNode, at map[string]int) []int {
	layer := make([]int, len(nodes))
	for range nodes { // at most as often as the longest path is long
		moved := false
		for i, n := range nodes {
			for _, e := range n.Edges {
				if j, ok := at[e.From]; ok && e.From != "" && layer[i] <= layer[j] && layer[j] < len(nodes) {
					layer[i], moved = layer[j]+1, true
				}
			}
		}
		if !moved {
			break
		}
	}
	return layer
}

func connect(from, to pictureNode, weak bool) pictureEdge {
	x1, y1 := from.X+from.W, from.Y+from.H/2
	x2, y2 := to.X-6, to.Y+to.H/2
	bend := (x2 - x1) / 2
	return pictureEdge{
		Path:  fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2),
		Arrow: fmt.Sprintf("%d,%d %d,%d %d,%d", x2+6, y2, x2-2, y2-4, x2-2, y2+4),
		Weak:  weak,
	}
}

func detailOf(n graphNode) string {
	parts := []string{n.Kind}
	if n.Workflow != "" && n.Workflow != n.Name {
		parts = append(parts, n.Workflow)
	}
	parts = append(parts, n.Detail)
	if len(n.Signals) > 0 {
		parts = append(parts, "signal "+n.Signals[0])
	}
	for _, w := range n.When {
		parts = append(parts, "when "+w)
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	text := ""
	for i, part := range parts {
		if i > 0 {
			text += ", "
		}
		text += part
	}
	return text
}
