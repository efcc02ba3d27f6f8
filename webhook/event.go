package webhook

import (
	"encoding/json"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Event is the body of a request.
type Event struct {
	// Type is "run." and the kind of the change: run.created, run.completed, run.failed, run.canceled, run.canceling,
	// run.paused, run.resumed or run.restarted.
	Type string `json:"type"`
	// Timestamp is when the change happened.
	Timestamp time.Time `json:"timestamp"`
	Data      EventData `json:"data"`
}

// EventData says which run has changed. It has no payloads: a receiver that needs the run's output asks for it, and gets the
// present one.
type EventData struct {
	Run        string `json:"run"` // the run's ID
	Namespace  string `json:"namespace"`
	Workflow   string `json:"workflow"`
	Queue      string `json:"queue"`
	ExternalID string `json:"external_id,omitempty"`
	Suffix     string `json:"suffix,omitempty"` // of the external id
	// Seq orders the changes of one run: a later one has a higher number.
	Seq int64 `json:"seq"`
}

// body returns the body of the request that tells of a change. It is the same for each attempt.
func body(namespace string, ch *store.Change) ([]byte, error) {
	return json.Marshal(Event{Type: "run." + ch.Kind.String(), Timestamp: ch.At, Data: EventData{
		Run: ch.Run.String(), Namespace: namespace, Workflow: ch.Workflow, Queue: ch.Queue, ExternalID: ch.ExternalID, Suffix: ch.Suffix, Seq: ch.Seq,
	}})
}
