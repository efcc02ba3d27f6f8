// Package deploys makes random workflow programs, and random edits of them: pairs of programs
// of which one made the histories that the other has to read.
package deploys

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Kind is what a node of a program does.
type Kind uint8

// The kinds.
const (
	Step Kind = iota
	Value
	Sleep
	State
	Child
	Map    // children that are waited for together
	Loop   // does Body several times
	Branch // does Body in a branch, beside what follows; the list that it is in joins it at its end
	Async  // starts a child, does Body, and waits for the child
	Mark   // does Body if a mark is true
	kinds

	Settled = kinds // is a mark whose old path was deleted, and does Body; only an edit makes it
)

func (k Kind) String() string {
	return [...]string{"step", "value", "sleep", "state", "child", "map", "loop", "branch", "async", "mark", "settled"}[k]
}

// Node is an operation of a program.
type Node struct {
	Kind     Kind
	Name     string
	Text     bool // a step's result is a string, not a number
	Attempts int  // a step's option
	Failures int  // how many attempts of a step fail; fewer than Attempts
	Turns    int  // of a loop
	Body     []Node
}

// Program is the code of a workflow.
type Program []Node

// New makes a program of some five to ten nodes, whose runs take some time.
func New(rng *rand.Rand) Program {
	n := 0
	p := Program(body(rng, &n, 4+rng.IntN(4), 2))
	if p.Duration() == 0 {
		p = append(p, Node{Kind: Sleep, Name: "sleep-last"})
	}
	return p
}

func body(rng *rand.Rand, names *int, size, depth int) []Node {
	nodes := make([]Node, size)
	for i := range nodes {
		nodes[i] = node(rng, names, depth)
	}
	return nodes
}

func node(rng *rand.Rand, names *int, depth int) Node {
	*names++
	kind := Kind(rng.IntN(int(kinds)))
	if depth == 0 && kind >= Loop {
		kind = Sleep
	}
	v := Node{Kind: kind, Name: fmt.Sprintf("%s-%d", kind, *names), Text: rng.IntN(2) == 0, Attempts: 1 + rng.IntN(3), Turns: 1 + rng.IntN(3)}
	if kind == Step && rng.IntN(3) == 0 {
		v.Failures = rng.IntN(v.Attempts)
	}
	if kind >= Loop {
		v.Body = body(rng, names, 1+rng.IntN(3), depth-1)
	}
	return v
}

// Edit is a change of a program.
type Edit uint8

// The edits.
const (
	Insert Edit = iota
	Delete
	Rename
	Reorder
	Retype
	Option
	Settle
	edits
)

func (e Edit) String() string {
	return [...]string{"insert", "delete", "rename", "reorder", "retype", "option", "settle"}[e]
}

// Edited returns a copy of a program with a random edit, and says what it is.
func (p Program) Edited(rng *rand.Rand) (Program, string) {
	for {
		q := Program(clone(p))
		lists := q.lists()
		list := lists[rng.IntN(len(lists))]
		e, i := Edit(rng.IntN(int(edits))), rng.IntN(len(*list))
		v := &(*list)[i]
		what := fmt.Sprintf("%v %s", e, v.Name)
		switch e {
		case Insert:
			names := 1000
			made := node(rng, &names, 1)
			what = fmt.Sprintf("insert %s before %s", made.Name, v.Name)
			*list = slices.Insert(*list, i, made)
		case Delete:
			if len(*list) == 1 {
				continue
			}
			*list = slices.Delete(*list, i, i+1)
		case Rename:
			v.Name += "-renamed"
		case Reorder:
			if i == 0 {
				continue
			}
			(*list)[i-1], (*list)[i] = (*list)[i], (*list)[i-1]
		case Retype:
			if v.Kind != Step {
				continue
			}
			v.Text = !v.Text
		case Option:
			if v.Kind != Step {
				continue
			}
			v.Attempts++
		case Settle:
			if v.Kind != Mark {
				continue
			}
			v.Kind = Settled
		}
		if q.Duration() > 0 {
			return q, what
		}
	}
}

func clone(nodes []Node) []Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Body = clone(out[i].Body)
	}
	return out
}

// lists are the bodies of a program.
func (p *Program) lists() []*[]Node {
	var found []*[]Node
	var walk func(list *[]Node)
	walk = func(list *[]Node) {
		found = append(found, list)
		for i := range *list {
			if len((*list)[i].Body) > 0 {
				walk(&(*list)[i].Body)
			}
		}
	}
	walk((*[]Node)(p))
	return found
}

// Nap is how long a sleep of a program takes in simulated time.
const Nap = time.Minute

// Definitions returns the workflow "program", whose code p is, and the one whose children it
// starts. A workflow's input is the run's number. Nap is how long each sleep takes. Ran is told of each
// execution of a step: the number of its run and its name. An attempt that fails is an execution.
func (p Program) Definitions(nap time.Duration, ran func(run int, step string)) (*workflow.Workflow[int, int], []workflow.Definition) {
	kid := workflow.New("kid", func(ctx workflow.Context, _ int) (int, error) {
		if err := workflow.Sleep(ctx, "nap", nap); err != nil {
			return 0, err
		}
		return workflow.Step(ctx, "work", func(context.Context) (int, error) { return 1, nil })
	})
	wf := workflow.New("program", func(ctx workflow.Context, run int) (int, error) {
		return run, (&interpreter{run: run, nap: nap, ran: ran, kid: kid}).list(ctx, p, "")
	})
	return wf, []workflow.Definition{wf, kid}
}

// interpreter executes a program in a run.
type interpreter struct {
	run int
	nap time.Duration
	ran func(run int, step string)
	kid *workflow.Workflow[int, int]
}

// list does nodes. Turn names the iteration of the loops around them.
func (x *interpreter) list(ctx workflow.Context, nodes []Node, turn string) error {
	g := workflow.NewGroup(ctx)
	for i := range nodes {
		v := &nodes[i]
		if v.Kind == Branch {
			g.Go(v.Name, func(ctx workflow.Context) error { return x.list(ctx, v.Body, turn) })
			continue
		}
		if err := x.node(ctx, v, turn); err != nil {
			return err
		}
	}
	return g.Wait()
}

func (x *interpreter) node(ctx workflow.Context, v *Node, turn string) (err error) {
	switch v.Kind {
	case Step:
		if v.Text {
			_, err = step(ctx, x, v, "text")
		} else {
			_, err = step(ctx, x, v, 7)
		}
	case Value:
		_, err = workflow.Value(ctx, v.Name, func() int { return x.run })
	case Sleep:
		err = workflow.Sleep(ctx, v.Name, x.nap)
	case State:
		err = workflow.NewState[int](v.Name).Set(ctx, x.run)
	case Child:
		_, err = workflow.Child(ctx, v.Name, x.kid, x.run)
	case Map:
		_, err = workflow.Map(ctx, v.Name, make([]int, v.Turns), x.kid)
	case Async:
		err = x.async(ctx, v, turn)
	case Mark:
		if workflow.Changed(ctx, v.Name+turn) {
			err = x.list(ctx, v.Body, turn)
		}
	case Settled:
		workflow.Deprecated(ctx, v.Name+turn)
		err = x.list(ctx, v.Body, turn)
	case Loop:
		for i := range v.Turns {
			if err := x.list(ctx, v.Body, fmt.Sprint(turn, " ", i)); err != nil {
				return err
			}
		}
	}
	return err
}

func (x *interpreter) async(ctx workflow.Context, v *Node, turn string) error {
	child, err := workflow.StartChild(ctx, v.Name, x.kid, x.run)
	if err != nil {
		return err
	}
	if err := x.list(ctx, v.Body, turn); err != nil {
		return err
	}
	_, err = child.Get(ctx)
	return err
}

func step[T any](ctx workflow.Context, x *interpreter, v *Node, result T) (T, error) {
	return workflow.Step(ctx, v.Name, func(ctx context.Context) (T, error) {
		x.ran(x.run, v.Name)
		if workflow.Attempt(ctx) <= v.Failures {
			return result, errors.New("not yet")
		}
		return result, nil
	}, workflow.Attempts(v.Attempts), workflow.Backoff(x.nap, 1, x.nap))
}

// Concurrent reports whether the program has branches.
func (p Program) Concurrent() bool {
	return slices.ContainsFunc(p, func(v Node) bool { return v.Kind == Branch || Program(v.Body).Concurrent() })
}

// Duration returns how long a run of the program takes, without waiting for a worker.
func (p Program) Duration() time.Duration {
	at, end := time.Duration(0), time.Duration(0)
	for i := range p {
		v := &p[i]
		switch v.Kind {
		case Step:
			at += time.Duration(v.Failures) * Nap * 4 / 5 // the wait between attempts is a little random
		case Sleep, Child, Map:
			at += Nap
		case Async:
			at += max(Nap, Program(v.Body).Duration())
		case Mark, Settled:
			at += Program(v.Body).Duration()
		case Loop:
			at += time.Duration(v.Turns) * Program(v.Body).Duration()
		case Branch:
			end = max(end, at+Program(v.Body).Duration())
		}
	}
	return max(at, end)
}
