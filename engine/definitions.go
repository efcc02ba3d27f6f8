package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Definition is the latest registration of a workflow.
type Definition struct {
	Name  string
	Queue string // default queue
	// Graph is the registered graph as JSON, or nil.
	Graph     json.RawMessage
	Retention Retention // as registered by its workers
	// Encryption is what the codec of its workers requires.
	Encryption Encryption
	Limits     []string // the limits that its runs are under
	UpdatedAt  time.Time
}

// Definitions returns the workflows of these names that a worker has ever registered, in
// the order of their names. Without names it returns all.
func (e *Engine) Definitions(ctx context.Context, names ...string) ([]Definition, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	found, err := e.listWorkflow(ctx, names...)
	if err != nil {
		return nil, err
	}
	defs := make([]Definition, len(found))
	for i, w := range found {
		var meta workflowMeta
		if len(w.Meta) > 0 {
			if err := json.Unmarshal(w.Meta, &meta); err != nil {
				return nil, fmt.Errorf("the metadata of workflow %q in namespace %q cannot be decoded: %w", w.Name, e.namespace, err)
			}
		}
		var limits []string
		for _, need := range meta.Under {
			limits = append(limits, need.Limit)
		}
		defs[i] = Definition{Limits: limits, Name: w.Name, Queue: w.Queue, Graph: meta.Graph, Retention: meta.Retention, Encryption: meta.Encryption, UpdatedAt: w.UpdatedAt}
	}
	return defs, nil
}
