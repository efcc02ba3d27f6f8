package exec_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

const benchSteps = 50

// execute runs a workflow function once, with the given history.
func execute(b *testing.B, history []store.Step, fn func(br *exec.Branch) error) {
	h := &host{}
	h.execute(history, fn)
	if h.end.Err != nil {
		b.Fatal(h.end.Err)
	}
}

var benchNames = func() (names [benchSteps]string) {
	for i := range names {
		names[i] = fmt.Sprintf("step-%d", i)
	}
	return names
}()

func runSteps(br *exec.Branch) error {
	for _, name := range benchNames {
		if _, err := br.Step(name, exec.StepOptions{}, nil, func(context.Context) ([]byte, error) { return nil, nil }); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkSteps measures a run of 50 function steps.
func BenchmarkSteps(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		execute(b, nil, runSteps)
	}
}

// BenchmarkReplay measures a run whose 50 steps are recorded.
func BenchmarkReplay(b *testing.B) {
	history := make([]store.Step, benchSteps)
	for i := range history {
		history[i] = store.Step{
			StepKey: store.StepKey{Name: benchNames[i], Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
			Position: int64(i + 1), Index: i, Attempt: 1,
		}
	}
	b.ReportAllocs()
	for range b.N {
		execute(b, history, runSteps)
	}
}

// BenchmarkValues measures a run of 50 recorded values.
func BenchmarkValues(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		execute(b, nil, func(br *exec.Branch) error {
			for _, name := range benchNames {
				if _, err := br.Value(name, func() ([]byte, error) { return nil, nil }); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
