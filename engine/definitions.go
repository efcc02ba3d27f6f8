package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Definition is a workflow as workers have registered it last.
type Definition struct {
	Name  string
	Queue string // by default
	// Graph is the picture that came with it, in JSON; nil: none.
	Graph     json.RawMessage
	Retention Retention // as its workers have it
	// Encryption is what the codec of its workers does.
	Encryption Encryption
	UpdatedAt  time.Time
}

// Definitions lists the workflows of these names, or all, that a worker has ever
// registered, by name.
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
				return nil, fmt.Errorf("what is kept with workflow %q in namespace %q cannot be decoded: %w", w.Name, e.namespace, err)
			}
		}
		defs[i] = Definition{Name: w.Name, Queue: w.Queue, Graph: meta.Graph, Retention: meta.Retention, Encryption: meta.Encryption, UpdatedAt: w.UpdatedAt}
	}
	return defs, nil
}
