package flow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// drawn is a flow drawn from a seed, and the expected outcome of each node.
type drawn struct {
	wf   *workflow.Workflow[int, []flow.Maybe[int]]
	want []flow.Maybe[int]
}

// draw draws a flow of steps with every kind of dependency, and computes the expected outcomes
// independently.
func draw(t testing.TB, seed uint64) drawn {
	rng := rand.New(rand.NewPCG(seed, 0))
	f := flow.New[int, []flow.Maybe[int]](fmt.Sprint("drawn ", seed))
	var nodes []*flow.Node[int]
	var all []flow.Input[flow.Maybe[int]]
	var want []flow.Maybe[int]
	for i := range 2 + rng.IntN(10) {
		sum, runs := i, true
		inputs := []flow.Input[flow.Maybe[int]]{}
		var opts []flow.Option
		pick := func(f func(j int)) {
			for range rng.IntN(3) {
				if i > 0 {
					f(rng.IntN(i))
				}
			}
		}
		pick(func(j int) {
			if rng.IntN(2) == 0 {
				inputs = append(inputs, flow.Optional(nodes[j]))
			} else {
				inputs = append(inputs, flow.Pick(nodes[j], flow.Some[int]))
				runs = runs && want[j].OK
			}
			sum += want[j].Value
		})
		pick(func(j int) {
			odd := rng.IntN(2)
			opts = append(opts, flow.When(fmt.Sprint("like ", j), flow.Optional(nodes[j]), func(m flow.Maybe[int]) (bool, error) {
				return m.Value%2 == odd, nil
			}))
			runs = runs && want[j].Value%2 == odd
		})
		even, behind := rng.IntN(2) == 0, false
		pick(func(j int) {
			opts = append(opts, flow.After(flow.Named(nodes[j].Name())))
			runs = runs && (even || want[j].OK)
			behind = true
		})
		if even && behind {
			opts = append(opts, flow.EvenIfSkipped())
		}
		if rng.IntN(4) == 0 && i > 0 {
			j := rng.IntN(i)
			opts = append(opts, flow.IfSkipped(nodes[j]))
			runs = runs && !want[j].OK
		}
		takes := time.Duration(rng.IntN(1000)) * time.Millisecond
		n := flow.Then(f, fmt.Sprint("n", i), flow.All(inputs...), func(_ context.Context, ms []flow.Maybe[int]) (int, error) {
			time.Sleep(takes)
			sum := i
			for _, m := range ms {
				sum += m.Value
			}
			return sum, nil
		}, opts...)
		nodes, all = append(nodes, n), append(all, flow.Optional(n))
		if !runs {
			sum = 0
		}
		want = append(want, flow.Maybe[int]{Value: sum, OK: runs})
	}
	f.Output(flow.All(all...))
	return drawn{build(t, f), want}
}

func TestRandomFlows(t *testing.T) {
	const n = 60
	workflowtest.Run(t, func(env *workflowtest.Env) {
		var flows []drawn
		var defs []workflow.Definition
		for seed := range uint64(n) {
			flows = append(flows, draw(env, seed))
			defs = append(defs, flows[seed].wf)
		}
		env.Register(defs...)
		ran, skips := 0, 0
		for seed, d := range flows {
			require.Equal(env, d.want, workflowtest.Start(env, d.wf, 0).Result(), "seed %d", seed)
			for _, m := range d.want {
				if m.OK {
					ran++
				} else {
					skips++
				}
			}
		}
		require.Greater(env, ran, n, "too few nodes ran for this to prove anything")
		require.Greater(env, skips, n, "too few nodes were skipped")
	})
}

func TestRandomFlowCrashes(t *testing.T) {
	workflowtest.CrashEverywhere(t, draw(t, 7).wf, 0)
}
