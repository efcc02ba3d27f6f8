package patterns

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// Tokens are the pieces of the answer, as the model writes them.
var Tokens = workflow.NewStream[string]("tokens")

// Sources are the documents on which the answer rests. Readers see those of an attempt that succeeds.
var Sources = workflow.NewStream[string]("sources", workflow.WithRecord())

// Answer asks a model, and passes on what it writes.
func Answer(model func(ctx context.Context, question string, write func(token string) error) (string, error)) *workflow.Workflow[string, string] {
	return workflow.New("answer", func(ctx workflow.Context, question string) (string, error) {
		return workflow.Step(ctx, "model", func(ctx context.Context) (string, error) {
			source, err := model(ctx, question, func(token string) error { return Tokens.Append(ctx, token) })
			if err != nil {
				return "", err
			}
			return source, Sources.Append(ctx, source)
		}, workflow.Attempts(5))
	})
}

// Relay sends the tokens of a run to a browser as server-sent events. A browser that reconnects sends the id of the
// last event, which is a cursor, and any process can continue.
func Relay(eng *engine.Engine, run store.ID, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	from := workflow.Cursor(r.Header.Get("Last-Event-ID"))
	for item, err := range Tokens.Read(r.Context(), eng, run, from) {
		if err != nil {
			fmt.Fprintf(w, "event: failed\ndata: the stream cannot be read now\n\n")
			return
		}
		if item.Reset { // the step has begun again: what it wrote before is void
			fmt.Fprintf(w, "event: reset\ndata: %d\n\n", item.Attempt)
		}
		text, _ := json.Marshal(item.Value) // a string
		fmt.Fprintf(w, "id: %s\ndata: %s\n\n", item.Cursor, text)
		_ = http.NewResponseController(w).Flush()
	}
	fmt.Fprintf(w, "event: end\ndata:\n\n")
}
