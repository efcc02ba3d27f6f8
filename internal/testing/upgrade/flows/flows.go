// Package flows has the workflows of the runs in the fixtures. It compiles with commit
// 5e1c7c8, whose program made them, and with this one, whose program ends them.
package flows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Go is received by runs of Approval.
var Go = workflow.NewSignal[string]("go")

// Count is a state that runs of Order set.
var Count = workflow.NewState[int]("count")

// Made notes each step that was executed, as workflow/item/step.
type Made struct {
	mu    sync.Mutex
	steps map[string]int
}

// Of tells how often a step was executed.
func (m *Made) Of(step string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps[step]
}

func (m *Made) note(step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.steps == nil {
		m.steps = map[string]int{}
	}
	m.steps[step]++
}

// Flows are the workflows of one program.
type Flows struct {
	Made Made
	// Hang, if not nil, is what the steps of Blocked wait for.
	Hang chan struct{}

	Order    *workflow.Workflow[string, string]   // a step, a sleep, a state, a step
	Approval *workflow.Workflow[string, string]   // a step, a signal, a step
	Blocked  *workflow.Workflow[string, string]   // a step that may hang
	Faulty   *workflow.Workflow[string, string]   // a step that fails
	Parent   *workflow.Workflow[[]string, string] // a child for each item
	Item     *workflow.Workflow[string, string]   // a child: a step, a sleep
}

// New returns workflows whose sleeps take that long.
func New(sleep time.Duration) *Flows {
	f := &Flows{}
	step := func(ctx workflow.Context, of, item, name string) (string, error) {
		return workflow.Step(ctx, name, func(context.Context) (string, error) {
			f.Made.note(of + "/" + item + "/" + name)
			return fmt.Sprintf("%s %s", item, name), nil
		})
	}
	f.Order = workflow.New("order", func(ctx workflow.Context, item string) (string, error) {
		charged, err := step(ctx, "order", item, "charged")
		if err != nil {
			return "", err
		}
		if err := Count.Set(ctx, 7); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "cool", sleep); err != nil {
			return "", err
		}
		shipped, err := step(ctx, "order", item, "shipped")
		return charged + ", " + shipped, err
	})
	f.Approval = workflow.New("approval", func(ctx workflow.Context, item string) (string, error) {
		asked, err := step(ctx, "approval", item, "asked")
		if err != nil {
			return "", err
		}
		by, err := Go.Receive(ctx)
		if err != nil {
			return "", err
		}
		done, err := step(ctx, "approval", item, "done")
		return asked + ", approved by " + by + ", " + done, err
	})
	f.Blocked = workflow.New("blocked", func(ctx workflow.Context, item string) (string, error) {
		begun, err := step(ctx, "blocked", item, "begun")
		if err != nil {
			return "", err
		}
		err = workflow.Do(ctx, "hang", func(context.Context) error {
			f.Made.note("blocked/" + item + "/hang")
			if f.Hang != nil {
				<-f.Hang
			}
			return nil
		})
		return begun, err
	})
	f.Faulty = workflow.New("faulty", func(ctx workflow.Context, item string) (string, error) {
		return "", workflow.Do(ctx, "fail", func(context.Context) error {
			return workflow.Permanent(errors.New("it is broken: " + item))
		})
	})
	f.Item = workflow.New("item", func(ctx workflow.Context, item string) (string, error) {
		made, err := step(ctx, "item", item, "made")
		if err != nil {
			return "", err
		}
		return made, workflow.Sleep(ctx, "cool", sleep)
	})
	f.Parent = workflow.New("parent", func(ctx workflow.Context, items []string) (string, error) {
		all, err := workflow.Map(ctx, "items", items, f.Item)
		return fmt.Sprint(all), err
	})
	return f
}

// All are the workflows for a worker to register.
func (f *Flows) All() []workflow.Definition {
	return []workflow.Definition{f.Order, f.Approval, f.Blocked, f.Faulty, f.Item, f.Parent}
}
