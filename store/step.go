package store

import (
	"fmt"
	"strings"
	"time"
)

// StepKind is what a step is.
type StepKind uint8

// The kinds.
const (
	KindFunction StepKind = 1 + iota
	KindSleep
	KindSignal
	KindChild
	KindMap
	KindGenerator
	KindValue
	KindState // of flow state: a write, a read, a wait
)

var kindNames = [...]string{KindFunction: "function", KindSleep: "sleep", KindSignal: "signal", KindChild: "child", KindMap: "map", KindGenerator: "generator", KindValue: "value", KindState: "state"}

func (k StepKind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("StepKind(%d)", uint8(k))
}

// StepStatus is where a step is.
type StepStatus uint8

// The statuses of a step. Completed and failed are final.
const (
	StepPending   StepStatus = 1 + iota // an attempt failed; a retry waits
	StepRunning                         // seen to be under way: a long function, a sleep
	StepCompleted                       //
	StepFailed                          //
)

var stepStatusNames = [...]string{StepPending: "pending", StepRunning: "running", StepCompleted: "completed", StepFailed: "failed"}

// Final reports whether the step's record will not change again.
func (s StepStatus) Final() bool { return s >= StepCompleted }

func (s StepStatus) String() string {
	if int(s) < len(stepStatusNames) && s != 0 {
		return stepStatusNames[s]
	}
	return fmt.Sprintf("StepStatus(%d)", uint8(s))
}

// StepKey names a step in its run.
type StepKey struct {
	Branch     string // path of the concurrent branch; empty: the main one
	Name       string
	Occurrence int // 1 for the first use of the name in the branch
}

// Related reports whether two steps lie in one line of execution: their branches
// are the same, or one is above the other. Branch paths are joined by "/"; the
// main branch is above all.
func (k StepKey) Related(other StepKey) bool {
	a, b := k.Branch, other.Branch
	return a == "" || b == "" || a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

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
	Epoch      int64 // of the lease that wrote it
	Output     []byte
	Failure    *Failure
	Earlier    []FailedAttempt // attempts before this one, in their order: the first and the last ones
	StartedAt  time.Time       // of the last attempt of a function; of what waits, when the run first came to it
	FinishedAt time.Time       // when its final record was committed; zero unless final
	DueAt      time.Time       // of a sleep, a retry or a wait; of a running function, when its attempt's timeout passes; zero: none
}

// FailedAttempt is an attempt of a step that failed, and was followed by another one.
type FailedAttempt struct {
	Attempt   int       `json:"attempt"`
	StartedAt time.Time `json:"started_at"` // kept to the microsecond
	Code      string    `json:"code"`       // of its failure
	Message   string    `json:"message"`
}

func (a *FailedAttempt) size() int { return len(a.Code) + len(a.Message) }

// A step keeps so many earlier attempts, each with so many bytes of code and of message.
// Who records a step with more keeps the first one and the last ones.
const (
	MaxEarlier     = 5
	MaxEarlierText = 1 << 10
)

// StepRecord is what a commit writes about a step. The first record of a key
// fixes its Position; later ones replace the rest, unless the stored status is
// final: then they are ignored. Cases: steps/recorded, steps/unfinished,
// steps/later-record-replaces, steps/key-is-exact, steps/earlier-attempts.
type StepRecord struct {
	StepKey
	Kind     StepKind
	Status   StepStatus
	Position int64 // required, from 1, a new one for each key of the run
	Index    int
	Attempt  int
	Output   []byte
	Failure  *Failure
	Took     time.Duration // how long it ran: StartedAt is the commit's time less this
	// StartedAt, when set, is taken as it is, and Took does not count. A record that
	// replaces another one names that one's, so that a step that waits for weeks keeps the
	// time at which it began. Case: steps/start-named.
	StartedAt time.Time
	Earlier   []FailedAttempt // those before Attempt, at most MaxEarlier; a record replaces those of the one before, too
	DueIn     time.Duration   // sets DueAt from the store's clock; 0: none
	DueAt     time.Time       // an absolute time, as a user named it or a step's record said, or of an attempt's timeout
}

// StepsParams is the input of Steps, which pages through a run's steps by
// Position. A page ends after Limit steps or before the step whose output and failure
// would bring those of the page above MaxBytes (it holds at least one). ErrNotFound when there is no such run. Cases:
// steps/pages-by-position, steps/page-bounded-in-bytes.
type StepsParams struct {
	Namespace string
	Run       ID
	After     int64 // Position of the last step seen; 0 begins
	Limit     int   // 0: 100; at most MaxPage
	MaxBytes  int   // 0: no bound
}

// StepPage is a page of steps. More says that further steps follow the last.
type StepPage struct {
	Steps []Step
	More  bool
}
