package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// checked is a node of a flow that was checked.
type checked struct {
	*node
	deps    []*node // all nodes that it waits for, each once
	after   []*node
	instead []*node
	ends    []ending // the ways in which it may end the flow
}

// checker collects the errors of a flow.
type checker struct {
	b      *builder
	byName map[string]*node
	nodes  map[*node]*checked
	errs   []error
}

func (c *checker) wrong(format string, args ...any) {
	c.errs = append(c.errs, c.b.invalid(format, args...))
}

// check returns the nodes, each after those that it waits for, or everything that is wrong with the
// flow. none says that the flow's output type is None.
func (b *builder) check(outputs []source, none bool) ([]*checked, error) {
	c := &checker{b: b, byName: make(map[string]*node), nodes: make(map[*node]*checked)}
	if err := store.ValidateName("flow", b.name); err != nil {
		c.errs = append(c.errs, err)
	}
	if len(b.nodes) == 0 {
		c.wrong("it has no node; add one, with flow.Step for example")
	}
	for _, n := range slices.Concat(b.nodes, b.handlers) {
		c.name(n)
	}
	taken := make(map[*node]string) // the node whose result is taken, and what takes it
	for _, n := range b.nodes {
		c.nodes[n] = &checked{node: n}
	}
	for _, n := range b.nodes {
		c.node(c.nodes[n], taken)
	}
	for _, h := range b.handlers {
		c.tries(h)
		for _, what := range h.missing {
			c.wrong("%s: %s", h, what)
		}
		if len(h.after)+len(h.instead)+len(h.whens) > 0 || h.evenIfSkipped || len(h.strayOptions()) > 0 {
			c.wrong("%s: it runs when a node has failed, and takes no option but flow.WithStep", h)
		}
	}
	if len(b.handlers) > 1 {
		c.wrong("it has %d handlers on failure; one is allowed: call OnFailure once, and distinguish by the failed node there", len(b.handlers))
	}
	c.outputs(outputs, none, taken)
	c.endings(taken)
	for _, n := range b.nodes {
		if by := taken[n]; n.ignore && by != "" {
			c.wrong("%s: its output is ignored, and yet %s takes it; leave flow.IgnoreOutput out, or use flow.After where only the order counts", n, by)
		}
	}
	order := c.order()
	if len(c.errs) == 0 {
		c.onlyOutput(outputs)
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return order, nil
}

// tries checks the flow.WithStep options of a node's step.
func (c *checker) tries(n *node) {
	o := bridge.StepOptions(n.steps, exec.StepOptions{Retry: exec.Policy{Attempts: 1}})
	if o.Retry.Attempts == 0 {
		c.wrong("%s: workflow.Attempts(0) would never try it; give 1 for one attempt, or a negative number for attempts for ever", n)
	}
	if o.Timeout < 0 {
		c.wrong("%s: workflow.Timeout(%v) is negative; leave it out for none", n, o.Timeout)
	}
}

// onlyOutput refuses a flow whose only output depends on a condition: if the condition does not
// hold, the run would fail at its end. It accepts a flow that may complete early or has several
// outputs.
func (c *checker) onlyOutput(outputs []source) {
	if len(outputs) != 1 || len(c.b.ends) > 0 {
		return
	}
	for _, d := range needsOf(outputs[0]) {
		if d.node == nil || d.optional {
			continue
		}
		if why := c.mayBeSkipped(d.node); why != nil {
			c.wrong("its only output comes from %s, which is skipped when a condition of %s does not hold; give Output another node for that case, or a flow.Const as its last input", d.node, why)
		}
	}
}

// mayBeSkipped finds the node whose condition skips n; nil if n always runs. The dependencies of
// the nodes have no cycle.
func (c *checker) mayBeSkipped(n *node) *node {
	if len(n.whens) > 0 || len(n.instead) > 0 {
		return n
	}
	for _, d := range needsOf(n.inputs...) {
		if d.node != nil && !d.optional {
			if why := c.mayBeSkipped(d.node); why != nil {
				return why
			}
		}
	}
	if n.evenIfSkipped {
		return nil
	}
	for _, d := range c.nodes[n].after {
		if why := c.mayBeSkipped(d); why != nil {
			return why
		}
	}
	return nil
}

func (n *node) String() string { return fmt.Sprintf("%s node %q", n.kind, n.name) }

func (c *checker) name(n *node) {
	if err := store.ValidateName("name", n.name); err != nil {
		var why *store.InvalidError
		errors.As(err, &why)
		c.wrong("%s node: its name: %s", n.kind, why.Reason)
		return
	}
	if i := strings.IndexAny(n.name, "/#"); i >= 0 {
		c.wrong("%s: its name contains %q, which separates the parts of a record's key; choose another character", n, n.name[i:i+1])
	}
	if first := c.byName[n.name]; first != nil {
		c.wrong("%s: another %s has this name already; give one of them another name", n, first.kind)
		return
	}
	c.byName[n.name] = n
}

// node checks the definition of a node and finds the nodes that it waits for.
func (c *checker) node(n *checked, taken map[*node]string) {
	for _, what := range n.missing {
		c.wrong("%s: %s", n, what)
	}
	c.tries(n.node)
	for _, d := range needsOf(n.inputs...) {
		c.need(n, d, n.String(), taken)
	}
	for _, w := range n.whens {
		what := fmt.Sprintf("the condition %q of %s", w.text, n)
		if err := store.ValidateName("condition", w.record()); err != nil || w.text == "" {
			c.wrong("%s: a condition has the text %q; give it a short one that can stand in a picture and in records", n, w.text)
		}
		if w.missing {
			c.wrong("%s: its function is nil", what)
		}
		for _, d := range needsOf(w.from) {
			if d.signal != "" {
				c.wrong("%s waits for signal %q; let a flow.Await node wait for it, and give that to the condition", what, d.signal)
			}
			c.need(n, d, what, taken)
		}
	}
	for _, r := range n.node.after {
		n.after = c.ref(n, n.after, r, "run after")
	}
	for _, r := range n.node.instead {
		n.instead = c.ref(n, n.instead, r, "run in place of")
	}
	if n.evenIfSkipped && len(n.node.after) == 0 {
		c.wrong("%s: flow.EvenIfSkipped is about nodes of flow.After, and there are none; for an input use flow.Optional", n)
	}
	for _, stray := range n.strayOptions() {
		c.wrong("%s: %s; leave it out", n, stray)
	}
	if n.kind == KindSignal {
		if !slices.ContainsFunc(needsOf(n.inputs...), func(d need) bool { return d.signal != "" }) {
			c.wrong("%s: it waits for no signal; give it a flow.WaitFor", n)
		}
	}
}

// need checks one input, which n takes unless n is nil.
func (c *checker) need(n *checked, d need, by string, taken map[*node]string) {
	switch {
	case d.wrong != "":
		c.wrong("%s: %s", by, d.wrong)
	case d.input != nil && d.input != c.b:
		c.wrong("%s takes the input of flow %q; take that of this one", by, d.input.name)
	case d.node == nil:
	case c.nodes[d.node] == nil:
		c.wrong("%s takes %s, which belongs to another flow; add a node of that name to this one, or make the other flow a child", by, d.node)
	default:
		if taken[d.node] == "" {
			taken[d.node] = by
		}
		if n != nil {
			n.wait(d.node)
		}
	}
}

func (n *checked) wait(d *node) {
	if !slices.Contains(n.deps, d) {
		n.deps = append(n.deps, d)
	}
}

// ref looks up a node that n refers to and adds it to the list.
func (c *checker) ref(n *checked, list []*node, r ref, how string) []*node {
	d := r.node
	if d == nil {
		d = c.byName[r.name]
	}
	switch {
	case r.wrong != "":
		c.wrong("%s is to %s %s", n, how, r.wrong)
	case d == nil:
		c.wrong("%s is to %s %q, and no node has that name; %s", n, how, r.name, c.suggest(r.name))
	case d.kind == KindHandler:
		c.wrong("%s is to %s %q, which runs on failure only, and nothing runs after that", n, how, r.name)
	case c.nodes[d] == nil:
		c.wrong("%s is to %s %s, which belongs to another flow", n, how, d)
	default:
		n.wait(d)
		return append(list, d)
	}
	return list
}

// suggest returns the names of nodes that a wrong name may mean.
func (c *checker) suggest(name string) string {
	best, least := "", len(name)/2+1
	var names []string
	for _, n := range c.b.nodes {
		names = append(names, fmt.Sprintf("%q", n.name))
		if d := distance(name, n.name); d < least {
			best, least = n.name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("is it %q?", best)
	}
	return "there are " + strings.Join(names, ", ")
}

// distance returns the number of letters to change, add or remove to get from a to b.
func distance(a, b string) int {
	line := make([]int, len(b)+1)
	for j := range line {
		line[j] = j
	}
	for i := range len(a) {
		diagonal := line[0]
		line[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = line[j+1]
			line[j+1] = min(cost, line[j]+1, diagonal+1)
		}
	}
	return line[len(b)]
}

func (c *checker) outputs(outputs []source, none bool, taken map[*node]string) {
	if len(outputs) == 0 && !none {
		c.wrong("it has no output; call Output with the nodes that give it, the preferred one first")
	}
	for _, out := range outputs {
		for _, d := range needsOf(out) {
			if d.signal != "" {
				c.wrong("its output waits for signal %q; let a flow.Await node wait for it", d.signal)
			}
			c.need(nil, d, "the flow's output", taken)
		}
	}
}

// endings gives each node the ways in which it may end the flow.
func (c *checker) endings(taken map[*node]string) {
	for _, e := range c.b.ends {
		const by = "the flow's early completion"
		var at []*node
		before := len(c.errs)
		for _, d := range needsOf(e.from) {
			c.need(nil, d, by, taken)
			switch {
			case d.optional:
				c.wrong("%s comes from an optional input; give it the node itself: one that is skipped does not end the flow", by)
			case d.signal != "":
				c.wrong("%s waits for signal %q; let a flow.Await node wait for it", by, d.signal)
			case d.node != nil && !slices.Contains(at, d.node):
				at = append(at, d.node)
			}
		}
		if len(c.errs) > before {
			continue
		}
		if len(at) != 1 {
			c.wrong("%s comes from %d nodes; it must be one, whose end ends the flow: join them in a node", by, len(at))
			continue
		}
		n := c.nodes[at[0]]
		n.ends = append(n.ends, e)
	}
}

// order sorts the nodes, each after those that it waits for, and finds the cycles.
func (c *checker) order() []*checked {
	var order []*checked
	var path []*node
	const under, ready = 1, 2
	at := make(map[*node]int)
	var visit func(n *node)
	visit = func(n *node) {
		switch at[n] {
		case ready:
			return
		case under:
			var b strings.Builder
			for _, m := range path[slices.Index(path, n):] {
				fmt.Fprintf(&b, "%q -> ", m.name)
			}
			c.wrong("nodes wait for each other in a circle: %s%q (each for the next); take one of these dependencies out", b.String(), n.name)
			return
		}
		at[n] = under
		path = append(path, n)
		for _, d := range c.nodes[n].deps {
			visit(d)
		}
		path = path[:len(path)-1]
		at[n] = ready
		order = append(order, c.nodes[n])
	}
	for _, n := range c.b.nodes {
		visit(n)
	}
	return order
}
