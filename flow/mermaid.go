package flow

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Mermaid returns the graph as a flowchart in the Mermaid language, which GitHub and many
// editors show as a picture. Names may contain any characters.
func (g Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	ids := make(map[string]string, len(g.Nodes)+1)
	ids[""] = "in"
	for i, n := range g.Nodes {
		ids[n.Name] = fmt.Sprintf("n%d", i)
	}
	drawn := make(map[string]bool)
	line := func(format string, args ...any) {
		if l := "    " + fmt.Sprintf(format, args...) + "\n"; !drawn[l] {
			drawn[l] = true
			b.WriteString(l)
		}
	}

	line(`in(["input"])`)
	for i, n := range g.Nodes {
		open, end := shape(n.Kind)
		line(`n%d%s"%s"%s`, i, open, n.label(), end)
		if len(n.When) > 0 {
			line(`c%d{"%s"}`, i, escape(strings.Join(n.When, " and ")))
		}
	}
	if len(g.Outputs)+len(g.Completes) > 0 {
		line(`out(["output"])`)
	}
	if g.OnFailure != "" {
		line(`failure[/"on failure: %s"/]`, escape(g.OnFailure))
	}
	for i, n := range g.Nodes {
		to := fmt.Sprintf("n%d", i)
		if len(n.When) > 0 {
			line(`c%d -->|yes| n%d`, i, i)
			to = fmt.Sprintf("c%d", i)
		}
		first := true
		for _, e := range n.Edges {
			if from, ok := ids[e.From]; ok {
				line("%s %s %s", from, e.arrow(), to)
				first = false
			}
		}
		if first {
			line("in -.-> %s", to) // it begins with the flow
		}
	}
	for i, from := range g.Outputs {
		arrow := "-->"
		if len(g.Outputs) > 1 {
			arrow = fmt.Sprintf("-->|%d|", i+1)
		}
		for _, name := range from {
			line("%s %s out", ids[name], arrow)
		}
	}
	for _, name := range g.Completes {
		line("%s ==>|ends the flow| out", ids[name])
	}
	return b.String()
}

func (n GraphNode) label() string {
	label := escape(n.Name)
	add := func(format string, args ...any) { label += "<br/>" + escape(fmt.Sprintf(format, args...)) }
	switch {
	case n.Workflow != "":
		add("%s: %s", n.Kind, n.Workflow)
	case n.Kind != KindStep && n.Kind != KindSignal:
		add("%s", strings.TrimSpace(string(n.Kind)+" "+n.Detail))
	}
	for _, s := range n.Signals {
		add("waits for signal %s", s)
	}
	if n.Ignored {
		add("output ignored")
	}
	return label
}

func (e Edge) arrow() string {
	switch {
	case e.Kind == EdgeIfSkipped:
		return "-.->|if skipped|"
	case e.Kind == EdgeAfter && e.Optional:
		return "-.->|after, even if skipped|"
	case e.Kind == EdgeAfter:
		return "-.->|after|"
	case e.Optional:
		return "-->|optional|"
	}
	return "-->"
}

// shape gives the brackets around a node's label.
func shape(k Kind) (open, end string) {
	switch k {
	case KindSignal:
		return "{{", "}}"
	case KindSleep:
		return "([", "])"
	case KindStep:
		return "[", "]"
	}
	return "[[", "]]"
}

// list matches the beginning of a text that Mermaid would take for a list item.
var list = regexp.MustCompile(`^(\d+[.)]|[-+])\s`)

// escape quotes a text so that Mermaid shows it unchanged.
func escape(s string) string {
	var b strings.Builder
	item := len(list.FindString(s))
	for i, r := range s {
		switch {
		case strings.ContainsRune("\"#&<>`\\*", r) || r < ' ' || r == 0x7f || i < item && !unicode.IsDigit(r) && r != ' ':
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
