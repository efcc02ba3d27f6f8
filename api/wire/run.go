package wire

import (
	"encoding/json"
	"time"
)

// Payload is an input, an output, a value of flow state or a signal's payload. At most one of JSON
// and Base64 is set.
type Payload struct {
	// Size is the number of bytes as they are stored, or -1 if it is hidden.
	Size int `json:"size"`
	// JSON is the value, if the engine's codec decodes it as JSON.
	JSON json.RawMessage `json:"json,omitempty"`
	// Base64 has the bytes, if they cannot be shown as JSON.
	Base64 []byte `json:"base64,omitempty"`
	// Hidden means that the caller may not see payloads.
	Hidden bool `json:"hidden,omitempty"`
	// Omitted means that the payload is larger than max_payload of the request, or that the answer was full.
	Omitted bool `json:"omitted,omitempty"`
}

// Failure says why a run or a step did not succeed.
type Failure struct {
	// Code is the kind: "error", "panic", "canceled" and others.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Type is the Go type of the error.
	Type string `json:"type,omitempty"`
	// Stack is the stack of a panic.
	Stack string `json:"stack,omitempty"`
	// Permanent means that trying again is useless.
	Permanent bool `json:"permanent,omitempty"`
}

// Pin binds a run to a build: only workers of that build claim it.
type Pin struct {
	Build string `json:"build"`
	// By is the build that found that the history does not fit its code.
	By string `json:"by,omitempty"`
	// Step is where it found that.
	Step string `json:"step,omitempty"`
	// Expected is what the code asked for there.
	Expected string `json:"expected,omitempty"`
	// Found is what the history has there.
	Found string `json:"found,omitempty"`
	// Ramp means that By takes only a share of the new runs and has left this one to Build.
	Ramp bool `json:"ramp,omitempty"`
}

// Run is one execution of a workflow.
type Run struct {
	ID         string `json:"id"`
	Namespace  string `json:"namespace"`
	Workflow   string `json:"workflow"`
	Queue      string `json:"queue"`
	Status     string `json:"status" enum:"pending,running,sleeping,paused,canceling,completed,failed,canceled"`
	Priority   int    `json:"priority"`
	ExternalID string `json:"external_id,omitempty"`
	Suffix     string `json:"suffix,omitempty"`
	// Parent is the id of the parent run.
	Parent string `json:"parent,omitempty"`
	// Group is the parent's group that counts this child, and Ordinal its place there.
	Group      string `json:"group,omitempty"`
	Ordinal    int64  `json:"ordinal,omitempty"`
	ForkedFrom string `json:"forked_from,omitempty"`
	// Tags are what the run can be found by.
	Tags map[string]string `json:"tags,omitempty"`
	// Under are the limits of the run, and StepUnder those of the step that it waits for or executes.
	Under     []LimitUse `json:"under,omitempty"`
	StepUnder []LimitUse `json:"step_under,omitempty"`
	// Schedule is the schedule that started the run; only a run that is read alone has it.
	Schedule string `json:"schedule,omitempty"`
	// Attempt is 1, and one more for each retry of the run.
	Attempt int `json:"attempt"`
	// Crashes counts the leases that ran out in a row without progress.
	Crashes int `json:"crashes"`
	// Generation counts how often the run has continued as new.
	Generation int   `json:"generation"`
	Epoch      int64 `json:"epoch"`
	// Worker is the holder or, of a final run, the worker that ended it.
	Worker string `json:"worker,omitempty"`
	// Pausing means that a pause was requested while a worker held the run.
	Pausing bool `json:"pausing,omitempty"`
	// VisibleAt is when the run may be claimed: its start, its next attempt, its wake-up, or the end of its lease.
	VisibleAt  *time.Time `json:"visible_at,omitempty"`
	CreatedAt  *time.Time `json:"created_at"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Deadline   *time.Time `json:"deadline,omitempty"`
	Failure    *Failure   `json:"failure,omitempty"`
	// Build is the build that recorded the last step.
	Build string `json:"build,omitempty"`
	Pin   *Pin   `json:"pin,omitempty"`
	// Input and Output are left out in lists.
	Input  *Payload `json:"input,omitempty"`
	Output *Payload `json:"output,omitempty"`
}

// RunPage is a page of runs. It may have fewer runs than the limit, or none, and still have a Next.
type RunPage struct {
	Runs []Run `json:"runs"`
	// Next is the cursor of the next page; empty on the last one.
	Next string `json:"next,omitempty"`
}

// RunFilter selects the runs that match every field that is set.
type RunFilter struct {
	// Status has statuses, or the groups active and final.
	Status   []string `json:"status,omitempty" enum:"pending,running,sleeping,paused,canceling,completed,failed,canceled,active,final"`
	Workflow string   `json:"workflow,omitempty"`
	Queue    string   `json:"queue,omitempty"`
	// Tag has tags as name=value, name=prefix* or name. A run has any of the values of one name, and all names.
	Tag []string `json:"tag,omitempty"`
	// Parent is the id of the parent run.
	Parent string `json:"parent,omitempty"`
	// ExternalID selects runs with that external id and any suffix.
	ExternalID string `json:"external_id,omitempty"`
	// IDPrefix is a prefix of the run id.
	IDPrefix       string     `json:"id_prefix,omitempty"`
	CreatedAfter   *time.Time `json:"created_after,omitempty"`
	CreatedBefore  *time.Time `json:"created_before,omitempty"`
	FinishedAfter  *time.Time `json:"finished_after,omitempty"`
	FinishedBefore *time.Time `json:"finished_before,omitempty"`
	// FailureCode is the exact code of the failure.
	FailureCode string `json:"failure_code,omitempty"`
	// FailureText is part of the failure's message, case-sensitive.
	FailureText string `json:"failure_text,omitempty"`
	// FailedStep is the name of a failed step.
	FailedStep string `json:"failed_step,omitempty"`
	// MinAttempt selects runs with at least that many attempts of the run or of a step that has not ended.
	MinAttempt int `json:"min_attempt,omitempty" minimum:"0"`
	// Pinned selects runs that are pinned to a build, and PinnedTo those pinned to one of these builds.
	Pinned   bool     `json:"pinned,omitempty"`
	PinnedTo []string `json:"pinned_to,omitempty"`
	// Stranded selects unfinished runs that are pinned to a build without an online worker.
	Stranded bool `json:"stranded,omitempty"`
}

// In names the namespace of a request.
type In struct {
	// Namespace is one of those that the API serves; empty: the engine's own.
	Namespace string `json:"namespace,omitempty"`
}

// ListRuns selects a page of runs.
type ListRuns struct {
	In
	RunFilter
	// Order is created or ended, newest first. By default runs are in the order of their end if only final runs are selected.
	Order string `json:"order,omitempty" enum:"created,ended"`
	// Cursor is the Next of the page before.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the number of runs in a page; 0 means 100.
	Limit int `json:"limit,omitempty" minimum:"0" maximum:"1000"`
}

// CountRuns selects the runs to count.
type CountRuns struct {
	In
	RunFilter
	// ByFailure counts each failure code apart.
	ByFailure bool `json:"by_failure,omitempty"`
}

// RunCount is the number of runs of a queue, a workflow and a status.
type RunCount struct {
	Queue       string `json:"queue"`
	Workflow    string `json:"workflow"`
	Status      string `json:"status"`
	FailureCode string `json:"failure_code,omitempty"`
	Count       int64  `json:"count"`
	// Capped means that there may be more: the store looked at 4,000 runs of the status.
	Capped bool `json:"capped,omitempty"`
}

// RunCounts are counts of runs.
type RunCounts struct {
	Counts []RunCount `json:"counts"`
	Total  int64      `json:"total"`
	// Capped means that the total is a lower bound.
	Capped bool `json:"capped"`
}

// GetRun asks for one run.
type GetRun struct {
	In
	// MaxPayload limits the size of each payload in bytes; 0 means 64 KiB.
	MaxPayload int `json:"max_payload,omitempty" minimum:"0" maximum:"4194304"`
}

// FindRun asks for the run that holds an external id, or else the latest that had it.
type FindRun struct {
	In
	ExternalID string `json:"external_id" required:"true"`
	Suffix     string `json:"suffix,omitempty"`
	MaxPayload int    `json:"max_payload,omitempty" minimum:"0" maximum:"4194304"`
}

// Step is a checkpoint of a run.
type Step struct {
	// Key is the branch, the name and the occurrence in one text.
	Key        string `json:"key"`
	Branch     string `json:"branch,omitempty"`
	Name       string `json:"name"`
	Occurrence int    `json:"occurrence"`
	Kind       string `json:"kind" enum:"function,sleep,signal,child,map,generator,value,state,mark"`
	Status     string `json:"status" enum:"pending,running,completed,failed"`
	Position   int64  `json:"position"`
	Attempt    int    `json:"attempt"`
	// StartedAt is when the last attempt began or, for a step that waits, when the run first reached it.
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	// DueAt is the end of a sleep, the time of a retry, or when a running attempt times out.
	DueAt   *time.Time `json:"due_at,omitempty"`
	Failure *Failure   `json:"failure,omitempty"`
	// Earlier are failed attempts before this one: the first and the last ones.
	Earlier []FailedAttempt `json:"earlier,omitempty"`
	Output  *Payload        `json:"output,omitempty"`
}

// FailedAttempt is an attempt of a step that was followed by another one.
type FailedAttempt struct {
	Attempt   int        `json:"attempt"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	Code      string     `json:"code"`
	Message   string     `json:"message"`
}

// ListSteps selects a page of a run's steps.
type ListSteps struct {
	In
	// After is the Next of the page before, or any position.
	After int64 `json:"after,omitempty" minimum:"0"`
	// Limit is the number of steps in a page; 0 means 100.
	Limit      int `json:"limit,omitempty" minimum:"0" maximum:"1000"`
	MaxPayload int `json:"max_payload,omitempty" minimum:"0" maximum:"4194304"`
}

// StepPage is a page of steps in the order in which they were first recorded.
type StepPage struct {
	Steps []Step `json:"steps"`
	// Next is the After of the next page; left out on the last one.
	Next int64 `json:"next,omitempty"`
}

// Page selects a page of a list.
type Page struct {
	In
	Cursor string `json:"cursor,omitempty"`
	// Limit is the number of rows in a page; 0 means 100.
	Limit int `json:"limit,omitempty" minimum:"0" maximum:"1000"`
}

// GetTree asks for a run with its descendants.
type GetTree struct {
	In
	// Depth is the number of levels below the run; 0 means 2.
	Depth int `json:"depth,omitempty" minimum:"0" maximum:"5"`
	// Limit is the number of runs in the whole tree; 0 means 200.
	Limit int `json:"limit,omitempty" minimum:"0" maximum:"1000"`
}

// Tree is a run with its children.
type Tree struct {
	Run      Run    `json:"run"`
	Children []Tree `json:"children,omitempty"`
	// More means that the run has further children, or that its children were not looked at.
	More bool `json:"more,omitempty"`
}

// Explanation says why a run is where it is.
type Explanation struct {
	Run Run `json:"run"`
	// Reason is one word, such as waiting, stranded or queue-paused.
	Reason  string   `json:"reason"`
	Summary string   `json:"summary"`
	Details []string `json:"details"`
	// Actions are what can be done, in words, with the commands of the command line.
	Actions []string   `json:"actions"`
	At      *time.Time `json:"at"`
	// Until is when the run goes on by itself, if that is known.
	Until *time.Time `json:"until,omitempty"`
}

// Progress is how far a step with children is.
type Progress struct {
	Step   string `json:"step"`
	Kind   string `json:"kind"`
	Status string `json:"status"`
	// Generator is started, complete or failed; empty for a step of another kind.
	Generator string   `json:"generator,omitempty"`
	Spawned   int64    `json:"spawned"`
	Completed int64    `json:"completed"`
	Failed    int64    `json:"failed"`
	Canceled  int64    `json:"canceled"`
	InFlight  int64    `json:"in_flight"`
	Cursor    *Payload `json:"cursor,omitempty"`
}

// ProgressList has the progress of a run's steps with children, and that of its whole tree.
type ProgressList struct {
	Progress []Progress   `json:"progress"`
	Tree     TreeProgress `json:"tree"`
}

// TreeProgress is how far the descendants of a run are: its children, their children, and so on.
type TreeProgress struct {
	TreeCounts
	// Levels has the counts of the children, of their children, and so on.
	Levels []TreeCounts `json:"levels"`
	// Capped says that the counts are lower bounds.
	Capped bool `json:"capped,omitempty"`
	// Rate is how many descendants end in a second.
	Rate float64 `json:"rate"`
	// Left is an estimate of the time until the open ones have ended, in seconds; without it, it is unknown, or none is open.
	Left float64 `json:"left_seconds,omitempty"`
}

// TreeCounts counts descendants.
type TreeCounts struct {
	Total     int64 `json:"total"`
	Open      int64 `json:"open"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
}

// AwaitRun waits for the end of a run.
type AwaitRun struct {
	In
	// Wait is for how long at most, as a duration such as 30s; the default is 0, and a minute is the most.
	Wait       string `json:"wait,omitempty"`
	MaxPayload int    `json:"max_payload,omitempty" minimum:"0" maximum:"4194304"`
}

// Result is a run and whether it has ended.
type Result struct {
	Final bool `json:"final"`
	Run   Run  `json:"run"`
}

// Signal is an unread signal of a run.
type Signal struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	SentAt   *time.Time `json:"sent_at,omitempty"`
	Position int64      `json:"position"`
	Payload  *Payload   `json:"payload,omitempty"`
}

// Answer is a run's answer to a signal that asked for one.
type Answer struct {
	// Answered is false while the run has not answered; then the other fields are left out.
	Answered bool `json:"answered"`
	// Output is the answer, unless the run has answered with a failure.
	Output  *Payload   `json:"output,omitempty"`
	Failure *Failure   `json:"failure,omitempty"`
	At      *time.Time `json:"at,omitempty"`
}

// ReadStream selects a page of the items of a run's streams.
type ReadStream struct {
	In
	// Name is the stream's name; without it, the items of all streams.
	Name string `json:"name,omitempty"`
	// After is the After of the page before; 0: from the beginning.
	After int64 `json:"after,omitempty" minimum:"0"`
	Limit int   `json:"limit,omitempty" minimum:"0" maximum:"1000"`
	// Wait is for how long at most, as a duration such as 30s, if there is no item yet; the default is 0,
	// and a minute is the most.
	Wait       string `json:"wait,omitempty"`
	MaxPayload int    `json:"max_payload,omitempty" minimum:"0" maximum:"4194304"`
}

// StreamPage is a page of items of streams.
type StreamPage struct {
	Items []StreamItem `json:"items"`
	// After is where to read on.
	After int64 `json:"after"`
	// Ended says that the run is final and that these are its last items.
	Ended bool `json:"ended"`
}

// StreamItem is an item of a stream.
type StreamItem struct {
	// Position increases with each item of the run, over all of its streams.
	Position int64  `json:"position"`
	Stream   string `json:"stream"`
	// Step is the step that has appended the item, and Attempt which attempt of it.
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Generation is how often the run had continued as new. A step of a later generation is another step.
	Generation int `json:"generation"`
	// Reset says that an attempt of the step has begun anew: what this step of this generation has appended to this stream
	// before is void.
	Reset   bool       `json:"reset,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	Payload *Payload   `json:"payload,omitempty"`
}

// ListSignals selects a page of a run's unread signals.
type ListSignals struct {
	In
	Name string `json:"name,omitempty"`
	// After is the Next of the page before.
	After      int64 `json:"after,omitempty" minimum:"0"`
	MaxPayload int   `json:"max_payload,omitempty" minimum:"0" maximum:"4194304"`
}

// SignalPage is a page of unread signals in the order of sending.
type SignalPage struct {
	Signals []Signal `json:"signals"`
	// Next is the After of the next page; left out on the last one.
	Next int64 `json:"next,omitempty"`
}

// StateEntry is a key of a run's flow state.
type StateEntry struct {
	Key       string     `json:"key"`
	Value     *Payload   `json:"value,omitempty"`
	Version   int64      `json:"version"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// StateList is a page of a run's flow state in the order of the keys.
type StateList struct {
	State []StateEntry `json:"state"`
	// More means that there are further keys, which are to be read by name.
	More bool `json:"more,omitempty"`
}
