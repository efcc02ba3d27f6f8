package model

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/pawlhq/pawl/store"
)

// A bound is how many bytes a result may still take. Once an item did not fit, no further item is
// added.
type bound struct {
	left int
	one  bool // the first comes whatever its size
	full bool
}

// atMost returns the bound of a call, which always returns its first item; 0: no bound.
func atMost(n int) *bound {
	if n == 0 {
		n = math.MaxInt
	}
	return &bound{left: n, one: true}
}

func (b *bound) take(n int) bool {
	b.full = b.full || n > b.left && !b.one
	if !b.full {
		b.left, b.one = max(b.left-n, -1), false
	}
	return !b.full
}

// upTo copies the items of a list from the first on, up to the limit and the bound, and reports
// whether that left any out.
func upTo[T, C any](list []T, limit int, b *bound, size func(T) int, clone func(T) C) (out []C, more bool) {
	for _, v := range list {
		if len(out) == limit || !b.take(size(v)) {
			return out, true
		}
		out = append(out, clone(v))
	}
	return out, false
}

func stepBytes(s store.Step) int {
	n := len(s.Output) + failureBytes(s.Failure)
	for _, a := range s.Earlier {
		n += len(a.Code) + len(a.Message)
	}
	return n
}

func signalBytes(s store.Signal) int { return len(s.Payload) }

func entryBytes(e store.StateEntry) int { return len(e.Value) }

func runBytes(r *store.Run) int {
	return len(r.Input) + len(r.Output) + len(r.Meta) + failureBytes(r.Failure)
}

func failureBytes(f *store.Failure) int {
	if f == nil {
		return 0
	}
	return len(f.Code) + len(f.Message) + len(f.Type) + len(f.Stack) + len(f.Details)
}

func scheduleBytes(s *schedule) int { return len(s.Input) + len(s.Meta) }

func workflowBytes(w store.Workflow) int { return len(w.Meta) }

func cloneWorkflow(w store.Workflow) store.Workflow {
	w.Meta = bytes.Clone(w.Meta)
	return w
}

// workerBytes returns the size of a worker's row. Lists and maps count as JSON.
func workerBytes(w store.Worker) int {
	n := len(w.Host)
	for _, v := range []any{w.Queues, w.Workflows, w.Labels, w.Limits, w.Takes} {
		text, err := json.Marshal(v)
		if err != nil {
			panic("model: " + err.Error()) // strings and numbers alone
		}
		n += len(text)
	}
	return n
}

// omit removes those parts of a run that do not fit into the bound of a call.
func omit(r *store.Run) {
	r.Input, r.Output, r.Meta, r.Failure, r.Omitted = nil, nil, nil, nil, true
}

func cloneSignal(s store.Signal) store.Signal {
	s.Payload = bytes.Clone(s.Payload)
	return s
}
