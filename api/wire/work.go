package wire

import (
	"encoding/json"
	"time"
)

// Info describes the API and the caller.
type Info struct {
	Namespace string `json:"namespace"`
	// Backend is the kind of the store, and Database its version.
	Backend  string `json:"backend"`
	Database string `json:"database,omitempty"`
	// Actor is who the journal says that the caller is.
	Actor string `json:"actor"`
	// Can says for each action whether the caller may do it in the namespace.
	Can map[string]bool `json:"can"`
	// Gaps are what the backend cannot do, with the reason.
	Gaps []Gap `json:"gaps"`
	// Now is the store's clock.
	Now *time.Time `json:"now"`
}

// Gap is an ability that a backend does not have.
type Gap struct {
	Ability string `json:"ability"`
	Reason  string `json:"reason"`
}

// Namespaces lists the namespaces that the caller may read.
type Namespaces struct {
	Namespaces []string `json:"namespaces"`
}

// Health is the answer of the store to one read.
type Health struct {
	Backend string `json:"backend"`
	// Latency is the time that the read took, in seconds.
	Latency float64 `json:"latency_seconds"`
	// Skew is how far the store's clock is before this machine's, in seconds.
	Skew     float64 `json:"skew_seconds"`
	Online   int     `json:"online"`
	Draining int     `json:"draining"`
}

// Finding is the result of one check of the doctor.
type Finding struct {
	Name   string `json:"name"`
	Level  string `json:"level" enum:"ok,warning,fault"`
	Seen   string `json:"seen"`
	Advice string `json:"advice,omitempty"`
}

// Doctor has the findings of all checks.
type Doctor struct {
	// Worst is the worst level found.
	Worst    string    `json:"worst" enum:"ok,warning,fault"`
	Findings []Finding `json:"findings"`
}

// Action is something that somebody did, was about to do, or was refused.
type Action struct {
	ID    string     `json:"id"`
	At    *time.Time `json:"at"`
	Actor string     `json:"actor"`
	// From is from where it was done, such as the address of the client.
	From    string `json:"from,omitempty"`
	Verb    string `json:"verb"`
	Target  string `json:"target"`
	Run     string `json:"run,omitempty"`
	Details string `json:"details,omitempty"`
	// Outcome is "done", "no change", or why it was refused. It is missing if the action was recorded before it was done.
	Outcome string `json:"outcome,omitempty"`
}

// ListActions selects a page of the journal.
type ListActions struct {
	Page
	// Run is the id of a run.
	Run   string `json:"run,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// ActionPage is a page of the journal, newest first.
type ActionPage struct {
	Actions []Action `json:"actions"`
	Next    string   `json:"next,omitempty"`
}

// Line is a queue or a workflow with its runs and workers.
type Line struct {
	Name string `json:"name"`
	// Queue is the default queue of a workflow.
	Queue       string     `json:"queue,omitempty"`
	PausedSince *time.Time `json:"paused_since,omitempty"`
	// Workers counts the online workers, and Slots what they can execute at a time.
	Workers int `json:"workers"`
	Slots   int `json:"slots"`
	// Runs counts the unfinished runs by status.
	Runs map[string]int64 `json:"runs"`
	// Capped names the statuses of which there may be more.
	Capped []string `json:"capped,omitempty"`
	// NotTaken names the workflows that have runs in the queue but no online worker that takes them from it; of a workflow, such queues.
	NotTaken []string `json:"not_taken,omitempty"`
	// OldestWaiting is when the oldest pending run of a queue became due.
	OldestWaiting *time.Time `json:"oldest_waiting,omitempty"`
}

// Lines lists queues or workflows by name.
type Lines struct {
	Lines []Line `json:"lines"`
	// More means that there are more than 1000.
	More bool `json:"more,omitempty"`
}

// Pace tells how many runs ended in each of the last minutes.
type Pace struct {
	// From is when the first of the minutes began. Each is one of the clock, and has ended.
	From time.Time `json:"from"`
	// Minutes is how many there are: 30, or fewer as long as not all of them have been counted. A later answer has more.
	Minutes int `json:"minutes"`
	// Capped has the places of the minutes in which more runs may have ended than were counted, about 10,000.
	Capped []int `json:"capped,omitempty"`
	// Queues are those in which runs ended, by name, 1000 at most.
	Queues []QueuePace `json:"queues"`
}

// QueuePace is the part of a queue.
type QueuePace struct {
	Name string `json:"name"`
	// Ended counts the runs that ended in each minute, failed ones included.
	Ended []int64 `json:"ended"`
	// Failed counts those that failed.
	Failed []int64 `json:"failed"`
}

// Held tells whether a queue, a workflow or a schedule is paused.
type Held struct {
	Name   string `json:"name"`
	Paused bool   `json:"paused"`
}

// Workflow is the latest registration of a workflow.
type Workflow struct {
	Name  string `json:"name"`
	Queue string `json:"queue"`
	// Graph is the graph of a flow as package flow writes it; left out if the workflow has none.
	Graph json.RawMessage `json:"graph,omitempty"`
	// Retention says how long final runs are kept, by status, as durations; a status that is left out is kept for ever.
	Retention map[string]string `json:"retention,omitempty"`
	// Encryption is empty, optional or required.
	Encryption string     `json:"encryption,omitempty"`
	UpdatedAt  *time.Time `json:"updated_at,omitempty"`
	// PausedSince is set while the workflow is paused.
	PausedSince *time.Time `json:"paused_since,omitempty"`
}

// Worker is a process that executes runs.
type Worker struct {
	ID        string   `json:"id"`
	Host      string   `json:"host"`
	PID       int      `json:"pid"`
	Status    string   `json:"status" enum:"online,draining,offline,unknown"`
	Queues    []string `json:"queues"`
	Workflows []string `json:"workflows"`
	// Takes has the workflows by queue.
	Takes  map[string][]string `json:"takes,omitempty"`
	Labels map[string]string   `json:"labels,omitempty"`
	Build  string              `json:"build,omitempty"`
	Slots  int                 `json:"slots"`
	// Limits has for each workflow how many of its runs execute at a time.
	Limits map[string]int `json:"limits,omitempty"`
	// Held counts the runs that the worker holds.
	Held      int64      `json:"held"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	SeenAt    *time.Time `json:"seen_at,omitempty"`
}

// ListWorkers selects workers.
type ListWorkers struct {
	In
	Queue    string `json:"queue,omitempty"`
	Workflow string `json:"workflow,omitempty"`
	Status   string `json:"status,omitempty" enum:"online,draining,offline"`
}

// Workers lists workers by id.
type Workers struct {
	Workers []Worker `json:"workers"`
}

// RemoveWorker removes the registration of a worker.
type RemoveWorker struct {
	In
	// Force removes it even if it is not offline.
	Force bool `json:"force,omitempty"`
}

// Build is the identity of the code that workers run.
type Build struct {
	Build    string `json:"build"`
	Online   int64  `json:"online"`
	Draining int64  `json:"draining"`
	// Runs counts the unfinished runs whose last step it recorded; Capped: it is a lower bound.
	Runs   int64 `json:"runs"`
	Capped bool  `json:"capped,omitempty"`
	// Pinned counts the unfinished runs that are pinned to it.
	Pinned int64 `json:"pinned"`
	// Stranded means that runs are pinned to it and it has no online worker.
	Stranded bool `json:"stranded"`
	// MayStop means that its workers may be stopped for good: nothing is pinned to it, and it has no online worker or another build has.
	MayStop bool `json:"may_stop"`
}

// Builds lists builds by name.
type Builds struct {
	Builds []Build `json:"builds"`
}

// Schedule is a rule that starts runs of a workflow.
type Schedule struct {
	Name     string `json:"name"`
	Workflow string `json:"workflow"`
	Queue    string `json:"queue"`
	// Spec is the rule: five or six fields of cron, a descriptor, or @every with a duration.
	Spec       string     `json:"spec"`
	TimeZone   string     `json:"time_zone"`
	CatchUp    string     `json:"catch_up" enum:"none,one,all"`
	MaxCatchUp int        `json:"max_catch_up"`
	Overlap    string     `json:"overlap" enum:"allow,skip,queue,cancel"`
	Priority   int        `json:"priority"`
	Delay      string     `json:"delay,omitempty"`
	Deadline   string     `json:"deadline,omitempty"`
	Paused     bool       `json:"paused"`
	NextAt     *time.Time `json:"next_at,omitempty"`
	LastAt     *time.Time `json:"last_at,omitempty"`
	CreatedAt  *time.Time `json:"created_at,omitempty"`
	UpdatedAt  *time.Time `json:"updated_at,omitempty"`
	Input      *Payload   `json:"input,omitempty"`
}

// SchedulePage is a page of schedules by name.
type SchedulePage struct {
	Schedules []Schedule `json:"schedules"`
	Next      string     `json:"next,omitempty"`
}

// GetSchedule asks for a schedule.
type GetSchedule struct {
	In
	// Times is the number of fire times to list; 0 means 5.
	Times      int `json:"times,omitempty" minimum:"0" maximum:"100"`
	MaxPayload int `json:"max_payload,omitempty" minimum:"0" maximum:"4194304"`
}

// ScheduleView is a schedule with its next fire times.
type ScheduleView struct {
	Schedule Schedule    `json:"schedule"`
	Upcoming []time.Time `json:"upcoming"`
}

// PutSchedule creates or changes a schedule.
type PutSchedule struct {
	Workflow string `json:"workflow"`
	Spec     string `json:"spec"`
	// TimeZone is an IANA name; empty: UTC.
	TimeZone    string          `json:"time_zone,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	InputBase64 []byte          `json:"input_base64,omitempty"`
	CatchUp     string          `json:"catch_up,omitempty" enum:"none,one,all"`
	MaxCatchUp  int             `json:"max_catch_up,omitempty" minimum:"0"`
	Overlap     string          `json:"overlap,omitempty" enum:"allow,skip,queue,cancel"`
	Queue       string          `json:"queue,omitempty"`
	Priority    int             `json:"priority,omitempty" minimum:"-100" maximum:"100"`
	Delay       string          `json:"delay,omitempty"`
	Deadline    string          `json:"deadline,omitempty"`
	// Paused creates a new schedule paused; one that exists keeps its state.
	Paused bool `json:"paused,omitempty"`
}

// Firing is a fire time that has passed.
type Firing struct {
	At      *time.Time `json:"at"`
	FiredAt *time.Time `json:"fired_at,omitempty"`
	Outcome string     `json:"outcome" enum:"started,overlapped,missed"`
	// Run is the run that was started, or that prevented a start.
	Run string `json:"run,omitempty"`
}

// FiringPage is a page of firings, newest first.
type FiringPage struct {
	Firings []Firing `json:"firings"`
	Next    string   `json:"next,omitempty"`
}

// PreviewSchedule asks for the fire times of a rule.
type PreviewSchedule struct {
	Spec string `json:"spec" required:"true"`
	Zone string `json:"zone,omitempty"`
	// From is the time after which they are; left out: now.
	From *time.Time `json:"from,omitempty"`
	// Times is their number; 0 means 10.
	Times int `json:"times,omitempty" minimum:"0" maximum:"1000"`
}

// Preview has fire times.
type Preview struct {
	Upcoming []time.Time `json:"upcoming"`
}
