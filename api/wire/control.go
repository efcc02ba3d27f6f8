package wire

import (
	"encoding/json"
	"time"
)

// Start starts a run. A start with an ExternalID, a RunID or an Idempotency-Key creates one run,
// however often it is sent.
type Start struct {
	Workflow string `json:"workflow"`
	// Input is JSON, which the engine's codec encodes.
	Input json.RawMessage `json:"input,omitempty"`
	// InputBase64 is an input that is encoded already. At most one of both is set.
	InputBase64 []byte `json:"input_base64,omitempty"`
	ExternalID  string `json:"external_id,omitempty"`
	Suffix      string `json:"suffix,omitempty"`
	// Reuse says when another run may have the external id.
	Reuse    string `json:"reuse,omitempty" enum:"forever,while-active,reject"`
	RunID    string `json:"run_id,omitempty"`
	Queue    string `json:"queue,omitempty"`
	Priority int    `json:"priority,omitempty" minimum:"-100" maximum:"100"`
	// Delay and Deadline are durations such as 90s or 12h.
	Delay    string     `json:"delay,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	Deadline string     `json:"deadline,omitempty"`
	// Debounce is a key: the start replaces the workflow's run of that key that has not begun, and
	// delays it again by Delay, up to AtMost after its creation.
	Debounce string `json:"debounce,omitempty"`
	AtMost   string `json:"at_most,omitempty"`
	// Tags are what the run can be found by.
	Tags map[string]string `json:"tags,omitempty"`
	// Signal is delivered to the active run of the external id, or to the run that is started because
	// none is active. It needs an ExternalID, and the action runs.signal too.
	Signal *SendSignal `json:"signal,omitempty"`
}

// Started is the run that a start has created or found.
type Started struct {
	ID string `json:"id"`
	// Existing means that another run has the external id or was replaced, and no run was created.
	Existing bool `json:"existing"`
}

// Cancel cancels a run.
type Cancel struct {
	// Reason is recorded with the run.
	Reason string `json:"reason,omitempty"`
	// Force ends the run at once, without its cleanup, even if a worker holds it.
	Force bool `json:"force,omitempty"`
}

// Fork starts a new run from a step of another one.
type Fork struct {
	// From is the key of the first step to execute again; empty: all completed steps are kept.
	From string `json:"from,omitempty"`
	// FromPosition is the same by the step's position.
	FromPosition int64  `json:"from_position,omitempty" minimum:"0"`
	RunID        string `json:"run_id,omitempty"`
}

// Forked is the run that a fork has created.
type Forked struct {
	ID string `json:"id"`
	// Kept are the steps whose outcomes the new run has, and Again those that it may execute again.
	Kept  []string `json:"kept"`
	Again []string `json:"again"`
}

// SendSignal sends a signal to a run.
type SendSignal struct {
	Name string `json:"name"`
	// Payload is JSON, which the engine's codec encodes.
	Payload json.RawMessage `json:"payload,omitempty"`
	// PayloadBase64 is a payload that is encoded already. At most one of both is set.
	PayloadBase64 []byte `json:"payload_base64,omitempty"`
	// ID makes the signal safe to repeat; empty: it is made of the Idempotency-Key, or new.
	ID string `json:"id,omitempty"`
}

// SendSignalTo sends a signal to the active run of an external id.
type SendSignalTo struct {
	ExternalID string `json:"external_id"`
	Suffix     string `json:"suffix,omitempty"`
	SendSignal
}

// Sent is a signal that was sent.
type Sent struct {
	ID string `json:"id"`
	// Run is the id of the run that has received it. With both, awaitAnswer reads the answer to an update.
	Run string `json:"run"`
}

// SetState is a value for a key of a run's flow state.
type SetState struct {
	// Value is JSON, which the engine's codec encodes.
	Value json.RawMessage `json:"value,omitempty"`
	// ValueBase64 is a value that is encoded already. One of both is set.
	ValueBase64 []byte `json:"value_base64,omitempty"`
}

// Bulk applies an action to the runs that a filter selects.
type Bulk struct {
	Action string `json:"action" enum:"cancel,force-cancel,pause,resume,restart,unpin"`
	// Filter must select something; without Status it selects what the action can change.
	Filter RunFilter `json:"filter"`
	// Reason is recorded by a cancel.
	Reason string `json:"reason,omitempty"`
	// AtMost ends the action after that many runs; 0 means 10,000, which is the most.
	AtMost int64 `json:"at_most,omitempty" minimum:"0" maximum:"10000"`
	// DryRun counts the runs and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// BulkResult is the outcome of a bulk action.
type BulkResult struct {
	DryRun bool `json:"dry_run"`
	// Matched is the number of runs that the filter selects at the beginning.
	Matched int64 `json:"matched"`
	// Capped means that Matched is a lower bound.
	Capped bool `json:"capped"`
	// Done counts the runs that are now as the action asks.
	Done int64 `json:"done"`
	// Canceling counts those of them that still have to clean up.
	Canceling int64 `json:"canceling"`
	// Skipped counts the runs that ended or changed meanwhile.
	Skipped int64 `json:"skipped"`
	// More means that AtMost ended the action: send it again for the rest.
	More bool `json:"more"`
}

// Export asks for a run as an export.
type Export struct {
	In
	// Children includes the run's descendants.
	Children bool `json:"children,omitempty"`
}

// Imported is the outcome of an import for one run.
type Imported struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	// Existing means that the run existed already and was not changed.
	Existing bool `json:"existing"`
}

// ImportResult lists the runs of an import.
type ImportResult struct {
	Runs []Imported `json:"runs"`
}

// Purge deletes final runs.
type Purge struct {
	Workflow string `json:"workflow,omitempty"`
	// Status has final statuses; empty: all.
	Status []string `json:"status,omitempty" enum:"completed,failed,canceled"`
	// OlderThan is the time since the end of a run, as a duration such as 720h.
	OlderThan string `json:"older_than"`
	// Limit is the number of runs to delete at most; 0 means 1000.
	Limit int `json:"limit,omitempty" minimum:"0" maximum:"10000"`
}

// Purged is the number of runs that a purge has deleted.
type Purged struct {
	Deleted int `json:"deleted"`
	// More means that the limit ended the purge.
	More bool `json:"more"`
}
