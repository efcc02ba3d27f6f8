package wire

import "fmt"

// Problem is an error of the API, in the form of RFC 9457.
type Problem struct {
	// Type is urn:pawl:problem: followed by the code.
	Type string `json:"type"`
	// Title says what the code means.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail says what is wrong with this request.
	Detail string `json:"detail,omitempty"`
	// Code is for programs; see the constants.
	Code string `json:"code"`
	// Field is the field of the request that is wrong.
	Field string `json:"field,omitempty"`
	// Action is the action that the caller may not do.
	Action string `json:"action,omitempty"`
	// Limit and Size are in bytes, of something that is too large.
	Limit int64 `json:"limit,omitempty"`
	Size  int64 `json:"size,omitempty"`
}

// Error returns a text with the status, the code and the detail.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	return fmt.Sprintf("%s (%d %s)", text, p.Status, p.Code)
}

// The codes of problems.
const (
	CodeNotFound        = "not-found"        // there is no such thing, or the caller may not know of it
	CodeAlreadyExists   = "already-exists"   // something else has that name
	CodeConflict        = "conflict"         // the state does not allow the operation
	CodeUnanswered      = "unanswered"       // the run has ended without an answer
	CodeFinished        = "finished"         // the run is final
	CodeInvalid         = "invalid"          // the request itself is wrong
	CodeTooLarge        = "too-large"        // the body or a payload is over its limit
	CodeUnsupported     = "unsupported"      // the backend cannot do that
	CodeUnavailable     = "unavailable"      // the store cannot be reached; nothing was changed
	CodeOutcomeUnknown  = "outcome-unknown"  // the answer of the store was lost; send the same request again
	CodeUnknownWorkflow = "unknown-workflow" // no worker has ever registered the workflow
	CodeNoWorker        = "no-worker"        // no worker that takes the workflow is online
	CodePlainPayload    = "plain-payload"    // the workers accept only encrypted payloads
	CodeCodec           = "codec"            // the engine's codec cannot encode the payload
	CodeForbidden       = "forbidden"        // the caller may not do that
	CodeUnauthorized    = "unauthorized"     // the token is missing or wrong
	CodeCrossOrigin     = "cross-origin"     // a page of another origin has sent the request
	CodeVersionMismatch = "version-mismatch" // If-Match or If-None-Match does not hold
	CodeMediaType       = "unsupported-media-type"
	CodeMethod          = "method-not-allowed"
	CodeTooManyRequests = "too-many-requests"
	CodeTooManyStreams  = "too-many-streams"
	CodeKeyReused       = "idempotency-key-reused" // the key was used with another request
	CodeInternal        = "internal"
)

// Event is one event of a stream. Of the other fields, one is set.
type Event struct {
	// Name is run, step, progress, end or reset. After reset, read everything again.
	Name string `json:"name" enum:"run,step,progress,end,reset"`
	Run  *Run   `json:"run,omitempty"`
	Step *Step  `json:"step,omitempty"`
	// Progress is how far the descendants of a followed run are.
	Progress *TreeProgress `json:"progress,omitempty"`
}

// WatchRuns selects the runs of a live list.
type WatchRuns struct {
	In
	RunFilter
	// All sends changes of all runs, so that a list also learns of those that the filter no longer selects.
	All bool `json:"all,omitempty"`
	// Snapshot sends the newest runs that the filter selects first, up to 100, so that nothing is missed
	// between a list and the stream.
	Snapshot bool `json:"snapshot,omitempty"`
}
