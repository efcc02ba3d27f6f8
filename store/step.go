package store

import (
	"fmt"
	"strings"
	"time"
)

// StepKind is the kind of a step.
type StepKind uint8

// The kinds.
const (
	KindFunction  StepKind = 1 + iota // a function of the workflow's author
	KindSleep                         // a wait for a time
	KindSignal                        // a wait for a signal, or for the first of several
	KindChild                         // a child run
	KindMap                           // a child run for each item of a list
	KindGenerator                     // a child run for each item of a stream
	KindValue                         // a recorded value
	KindState                         // of flow state: a write, a read, a wait
	KindMark                          // a decision of the code about which of its versions the run follows
)

var kindNames = [...]string{KindFunction: "function", KindSleep: "sleep", KindSignal: "signal", KindChild: "child", KindMap: "map", KindGenerator: "generator", KindValue: "value", KindState: "state", KindMark: "mark"}

// String returns the name of the kind, such as "function", or the type's name with the number if k is
// none of the kinds.
func (k StepKind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("StepKind(%d)", uint8(k))
}

// StepStatus is the state of a step.
type StepStatus uint8

// The statuses of a step. Completed and failed are final.
const (
	StepPending   StepStatus = 1 + iota // an attempt failed; a retry waits
	StepRunning                         // seen in progress: a long function, a sleep
	StepCompleted                       // it has an output
	StepFailed                          // it has failed for good
)

var stepStatusNames = [...]string{StepPending: "pending", StepRunning: "running", StepCompleted: "completed", StepFailed: "failed"}

// Final reports whether the step's record will not change again.
func (s StepStatus) Final() bool { return s >= StepCompleted }

// String returns the status in lower case, such as "pending", or the type's name with the number if s
// is none of the statuses.
func (s StepStatus) String() string {
	if int(s) < len(stepStatusNames) && s != 0 {
		return stepStatusNames[s]
	}
	return fmt.Sprintf("StepStatus(%d)", uint8(s))
}

// StepKey identifies a step in its run.
type StepKey struct {
	Branch     string // path of the concurrent branch; empty: the main one
	Name       string
	Occurrence int // 1 for the first use of the name in the branch
}

// Related reports whether two steps are in one line of execution: their branches are the same, or
// one is above the other. Branch paths are joined by "/"; the main branch is above all others.
func (k StepKey) Related(other StepKey) bool {
	a, b := k.Branch, other.Branch
	return a == "" || b == "" || a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// String returns the key as text: the name, "name#2" for the second use of the name, and
// "branch/name" in a branch.
func (k StepKey) String() string {
	s := k.Name
	if k.Branch != "" {
		s = k.Branch + "/" + s
	}
	if k.Occurrence > 1 {
		s = fmt.Sprintf("%s#%d", s, k.Occurrence)
	}
	return s
}

// Step is a checkpoint as it is stored.
type Step struct {
	StepKey
	Kind       StepKind
	Status     StepStatus
	Position   int64 // order of first record in the run
	Index      int   // place among the operations of its branch, from 0
	Attempt    int
	Epoch      int64 // of the lease that recorded it
	Output     []byte
	Failure    *Failure
	Earlier    []FailedAttempt // attempts before this one, in order: the first and the last ones
	StartedAt  time.Time       // of the last attempt of a function; for a step that waits, when the run first reached it
	FinishedAt time.Time       // when its final record was committed; zero unless final
	DueAt      time.Time       // of a sleep, a retry or a wait; for a running function, when its attempt times out; zero: none
}

// FailedAttempt is an attempt of a step that failed and was followed by another one.
type FailedAttempt struct {
	Attempt   int       `json:"attempt"`
	StartedAt time.Time `json:"started_at"` // kept to the microsecond
	Code      string    `json:"code"`       // of its failure
	Message   string    `json:"message"`
}

func (a *FailedAttempt) size() int { return len(a.Code) + len(a.Message) }

// The number of earlier attempts that a step keeps, and the sizes of their codes and messages in
// bytes. A caller that has more attempts keeps the first one and the last ones.
const (
	MaxEarlier     = 5
	MaxEarlierText = 1 << 10
)

// StepRecord is what a commit records about a step. The first record of a key sets its Position;
// later ones replace everything else, unless the stored status is final: then they are ignored. See
// [Leases.Commit].
//
// A record whose numbers are out of range is ErrInvalid: Position and Occurrence start at 1, Index
// and Attempt at 0, and all but Position fit into 32 bits.
type StepRecord struct {
	StepKey
	Kind     StepKind
	Status   StepStatus
	Position int64 // required, from 1, a new one for each key of the run
	Index    int   // from 0
	Attempt  int   // from 0
	Output   []byte
	Failure  *Failure
	// Took is how long the step ran: StartedAt is the commit's time minus Took, truncated to whole
	// microseconds, so that no step appears to begin earlier than it did.
	Took time.Duration
	// StartedAt, if set, is stored as it is, and Took is ignored. A record that replaces another
	// one repeats its StartedAt, so that a step that waits for weeks keeps the time at which it
	// began.
	StartedAt time.Time
	Earlier   []FailedAttempt // those before Attempt, at most MaxEarlier; a record also replaces the list of the record before
	// DueIn sets DueAt from the store's clock; 0: none. DueAt is an absolute time: one that a user
	// gave, that of a step's record, or that of an attempt's timeout. If both are set, DueIn
	// counts, whether it is earlier or later.
	DueIn time.Duration
	DueAt time.Time
}
