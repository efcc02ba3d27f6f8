package store

import (
	"fmt"
	"time"
)

// Status is the state of a run.
type Status uint8

// The statuses of a run. Completed, failed and canceled are final.
const (
	Pending   Status = 1 + iota // waits for a worker
	Running                     // leased
	Sleeping                    // waits for its time or an event
	Paused                      // waits for a person
	Canceling                   // canceled; its holder, or the worker that claims it next, is to clean up and to end it
	Completed
	Failed
	Canceled
)

var statusNames = [...]string{Pending: "pending", Running: "running", Sleeping: "sleeping", Paused: "paused", Canceling: "canceling", Completed: "completed", Failed: "failed", Canceled: "canceled"}

// Statuses lists every status in order.
func Statuses() []Status {
	return []Status{Pending, Running, Sleeping, Paused, Canceling, Completed, Failed, Canceled}
}

// Final reports whether a run of this status is final: it never changes by itself again.
func (s Status) Final() bool { return s >= Completed }

// String returns the status in lower case, such as "pending", or the type's name with the number if s
// is none of the statuses.
func (s Status) String() string {
	if int(s) < len(statusNames) && s != 0 {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// MarshalText writes the status's name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a status's name.
func (s *Status) UnmarshalText(b []byte) error {
	for i, name := range statusNames {
		if i > 0 && name == string(b) {
			*s = Status(i)
			return nil
		}
	}
	return Invalid("status", fmt.Sprintf("unknown status %q; want pending, running, sleeping, paused, canceling, completed, failed or canceled", clip(string(b))))
}

// Failure says why a run or a step did not succeed. The store keeps it unchanged, except that it
// may replace bytes that are not valid UTF-8.
type Failure struct {
	Code    string `json:"code"`             // the kind: "error", "panic", "canceled", ...
	Message string `json:"message"`          // for people
	Type    string `json:"type,omitempty"`   // the Go type of the error
	Stack   string `json:"stack,omitempty"`  // of a panic
	Details []byte `json:"details,omitzero"` // for the engine; in JSON nil is omitted, and an empty value is kept
	// Permanent says that trying again is useless.
	Permanent bool `json:"permanent,omitempty"`
}

// FailureCanceled is the code of the failure that Cancel records; its message is the given reason.
const FailureCanceled = "canceled"

// CanceledWithParent is the reason of a child that is canceled because its parent
// was canceled or is final.
const CanceledWithParent = "canceled with its parent"

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// ClosePolicy says what happens to a child when its parent becomes final; see [Leases.Commit] and
// [Runs.Cancel].
type ClosePolicy uint8

// The policies.
const (
	CloseCancel  ClosePolicy = iota // the child is canceled, as by [Runs.Cancel]
	CloseAbandon                    // the child continues
)

// Run is one execution of a workflow, as it is stored.
type Run struct {
	ID         ID
	Namespace  string
	Workflow   string
	Queue      string
	Status     Status
	Priority   int // higher is claimed first
	ExternalID string
	Suffix     string
	Reuse      Reuse  // when another run may have the external id
	Digest     []byte // of what the run was started with: [NewRun.Digest]; nil: none

	Parent  ID     // zero: none
	Group   string // the parent's group that counts this child; empty: none
	Ordinal int64  // the child's place in its group
	OnClose ClosePolicy

	Input   []byte
	Output  []byte   // of a completed run
	Failure *Failure // of a failed or canceled run; of the last attempt while a retry waits
	Meta    []byte   // for the engine, set at creation

	Attempt    int    // 1, and one more for each retry of the run
	Crashes    int    // leases that expired since the last progress, as [Commit] says; engine.Crashes reads what a worker has recorded there
	Generation int    // how often the run has continued as new
	Epoch      int64  // increased by every claim
	Worker     string // the lease holder; of a final run, the holder that ended it; empty: none
	Events     int64  // events that have reached the run: signals, state changes, awaited children, cancel
	Pausing    bool   // a pause was requested while the run is leased

	VisibleAt  time.Time // when it may be claimed; zero when final
	CreatedAt  time.Time
	StartedAt  time.Time // first claim; zero: never
	FinishedAt time.Time // zero unless final
	Deadline   time.Time // zero: none
	ForkedFrom ID

	// Build is the build of the worker whose commit recorded the last step: that of its claim, or
	// of [NewRun.Build]. It is empty if no step was recorded, or if the worker had no build.
	Build string
	// Pin binds the run to a build; nil: any worker may claim it. It stays until [Runs.Unpin], a
	// restart, or until the run continues as new. The pin of a final run has no effect.
	Pin *Pin

	// Under lists the limits that the run is under, by limit, each with at least one token. StepUnder
	// lists those of the step that the run waits for or executes: see [Transition.Under].
	Under     []LimitUse
	StepUnder []LimitUse

	Tags Tags // nil: none

	// Omitted says that Input, Output, Meta and Failure were left out, because the call's limit in
	// bytes was reached. To get them, read the run alone.
	Omitted bool
}

// NewRun describes a run to be created.
type NewRun struct {
	ID         ID // required; see [NewID] and [DeriveID]
	Workflow   string
	Queue      string
	Input      []byte
	Meta       []byte
	Priority   int // from MinPriority to MaxPriority; 0 is usual
	ExternalID string
	Suffix     string
	// Reuse says when another run may have the external id.
	Reuse Reuse
	// MustBeNew makes it an error, ErrAlreadyExists, if another run holds the external id, instead
	// of returning that run.
	MustBeNew bool
	// Digest stands for what the run is started with: [DigestScheme] bytes that say how it was
	// made, then for example a hash; at most [MaxDigest] bytes. A start conflicts if it finds a run
	// of another workflow, or a run whose digest was made in the same way but differs: see
	// [NewRun.Meets]. If it is empty, nothing is compared. The run keeps it, also when it continues
	// as new.
	Digest []byte

	// After delays the run by the store's clock; At names an absolute time. The
	// later of both counts.
	After time.Duration
	At    time.Time
	// Timeout sets the run's deadline, counted from creation; 0: none.
	Timeout time.Duration

	// Under says which limits the run is under, at most MaxLimits, no two of one limit. It is claimed when
	// all of them permit it: see [Leases.Claim]. The run keeps them, also when it is restarted or continues
	// as new, and its forks are under the same.
	Under []LimitUse

	// Tags are what the run can be found by: see [RunFilter.Tags].
	Tags Tags

	// Debounce is a key, with the rules of an external id. If the last run that was created with the
	// key, for the namespace and the workflow, waits to begin, the start replaces what that run was
	// started with, instead of creating one: see [Runs.Create]. AtMost limits how long a run is
	// delayed in that way, counted from its creation; 0: no limit. A run with a key has no ExternalID,
	// MustBeNew, Digest and Worker.
	Debounce string
	AtMost   time.Duration

	// Group, Ordinal and OnClose are for children, in [Commit.Spawn] only. Group is the parent's
	// group that counts the child, and Ordinal its place there, from 1. The caller gives each child of
	// a group another one: the order of two with the same is not determined. Without a Group, Ordinal
	// is 0 and the child is not counted.
	Group   string
	Ordinal int64
	OnClose ClosePolicy

	// Worker and LeaseFor, if set, take the run's first lease in the same write: see [Runs.Create].
	// They must be set together, and not with After, At or a parent. Build is the worker's build;
	// it may be empty.
	Worker   string
	LeaseFor time.Duration
	Build    string

	// Signal, if set, is delivered to the run that holds the external id, or to the run that is
	// created because none does: see [Runs.Create]. It needs an ExternalID, and excludes MustBeNew,
	// Worker and a parent.
	Signal *StartSignal
}

// Priorities are in this range. Each distinct priority in use costs a claim one index lookup.
const (
	MinPriority = -100
	MaxPriority = 100
)
