package sqlkit

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// scanWorker reads a worker from the columns after those of first.
func scanWorker(scan Scan, w *store.Worker, first ...any) error {
	var pid, slots, ttl, answers int64
	var status int16
	var offline bool
	err := scan(append(first,
		&w.ID, &w.Host, &pid, FromJSON(&w.Queues), FromJSON(&w.Workflows), FromJSON(&w.Labels), &slots, FromJSON(&w.Limits), FromJSON(&w.Takes),
		&w.Build, &status, &ttl, &answers, Time(&w.StartedAt), Time(&w.SeenAt), Time(&w.AskedAt), &w.Held, &offline)...)
	w.PID, w.Slots, w.Status = int(pid), int(slots), store.WorkerStatus(status)
	w.TTL, w.Answers = time.Duration(ttl)*time.Microsecond, time.Duration(answers)*time.Microsecond
	if offline {
		w.Status = store.Offline
	}
	return err
}

// Columns of a row s that the functions below read.
const (
	StepColumns   = stepHead + `s.output, s.failure` + stepTimes
	SignalColumns = `s.id, s.name, s.payload, s.sent_at, s.pos`
	StateColumns  = `s.key, s.value, s.version, s.updated_at`
	GroupColumns  = `s.name, s.total, s.open, s.completed, s.failed, s.canceled`

	stepHead  = `s.branch, s.name, s.occurrence, s.kind, s.status, s.position, s.idx, s.attempt, s.epoch, `
	stepTimes = `, s.started_at, s.finished_at, s.due_at`
)

// ScanStep reads a step from the columns after those of first. output is the destination of its
// output.
func ScanStep(scan Scan, s *store.Step, output any, first ...any) error {
	var kind, status int16
	err := scan(append(first,
		&s.Branch, &s.Name, &s.Occurrence, &kind, &status, &s.Position, &s.Index, &s.Attempt, &s.Epoch, output,
		StepFailure(s), Time(&s.StartedAt), Time(&s.FinishedAt), Time(&s.DueAt))...)
	s.Kind, s.Status = store.StepKind(kind), store.StepStatus(status)
	return err
}

// ScanSignal reads a signal from the columns after those of first. payload is the destination of
// its payload.
func ScanSignal(scan Scan, s *store.Signal, payload any, first ...any) error {
	return scan(append(first, ID(&s.ID), &s.Name, payload, Time(&s.SentAt), &s.Position)...)
}

// ScanEntry reads an entry of a run's state from the columns after those of first. value is the
// destination of its value.
func ScanEntry(scan Scan, e *store.StateEntry, value any, first ...any) error {
	return scan(append(first, &e.Key, value, &e.Version, Time(&e.UpdatedAt))...)
}

// ScanAction reads an action of the journal.
func ScanAction(scan Scan) (a store.Action, err error) {
	err = scan(ID(&a.ID), Time(&a.At), &a.Actor, &a.From, &a.Verb, &a.Target, ID(&a.Run), &a.Details, &a.Outcome)
	return a, err
}

// ScanGroup reads a group from the columns after those of first.
func ScanGroup(scan Scan, first ...any) (g store.Group, err error) {
	err = scan(append(first, &g.Name, &g.Total, &g.Open, &g.Completed, &g.Failed, &g.Canceled)...)
	return g, err
}

// StateEntries returns the entries that writes have made in a run's state. Events is the
// run's count after them: each write counts as one event.
func StateEntries(writes []store.StateWrite, events int64, now time.Time) []store.StateEntry {
	entries := make([]store.StateEntry, len(writes))
	for i, w := range writes {
		e := &entries[i]
		e.Key, e.Version = w.Key, events-int64(len(writes)-1-i)
		if !w.Delete {
			e.Value, e.UpdatedAt = w.Value, now
		}
	}
	return entries
}

// StateRefused returns the error of a conditional write of state that was not applied.
func StateRefused(run store.ID, status store.Status) error {
	if status.Final() {
		return Finished(run, status)
	}
	return Conflict("state of run %v is not at the version that the write expects", run)
}

// RestartRefused returns the error for a run that was not restarted.
func RestartRefused(id store.ID, status store.Status, externalID string) error {
	if status == store.Failed || status == store.Canceled {
		return Exists("run %v cannot restart: another run holds its external id %q", id, externalID)
	}
	return Conflict("run %v is %v; only a failed or canceled run restarts", id, status)
}

// ForkResult returns the result of a fork. namespace is the namespace of the run with the new ID,
// or empty if there is none.
func ForkResult(p *store.ForkParams, namespace string, made bool) (store.CreateResult, error) {
	var none store.CreateResult
	switch {
	case namespace == "" && p.Before != nil:
		return none, NotFound("run %v or its step %v", p.ID, *p.Before)
	case namespace == "":
		return none, NotFound("run %v", p.ID)
	case namespace != p.Namespace:
		return none, InAnotherNamespace(p.New)
	}
	return store.CreateResult{ID: p.New, Created: true, Repeated: !made}, nil
}

// ImportResult returns the result of an import. namespace is the namespace of the run with the ID,
// or empty if there is none.
func ImportResult(p *store.ImportParams, r *store.Run, namespace string, made bool) (bool, error) {
	switch namespace {
	case "":
		return false, Exists("run %v cannot be imported: another run holds its external id %q", r.ID, r.ExternalID)
	case p.Namespace:
		return made, nil
	}
	return false, Exists("run %v exists in another namespace", r.ID)
}

// Met is the run that a start conflicts with: the one of its ID, or the holder of its external id.
type Met struct {
	ID                          store.ID
	Namespace, Worker, Workflow string
	Epoch                       int64
	CreatedAt                   time.Time
	Digest                      []byte
}

// By returns the result of the start. If an earlier try of the same start took the lease, that
// lease is returned again.
func (m *Met) By(namespace string, r *store.NewRun) store.CreateResult {
	if m.Namespace != namespace {
		return store.CreateResult{Err: InAnotherNamespace(m.ID)}
	}
	res := r.Meets(m.ID, m.Workflow, m.Digest)
	if res.Created && r.Worker != "" && m.Epoch == 1 && m.Worker == r.Worker {
		res.Lease, res.CreatedAt = store.Lease{Run: m.ID, Worker: m.Worker, Epoch: 1}, m.CreatedAt
	}
	return res
}

// PurgeDefaults sets the fields that a purge leaves empty to their defaults.
func PurgeDefaults(p *store.PurgeParams) {
	if p.Limit == 0 {
		p.Limit = 1000
	}
	if len(p.Statuses) == 0 {
		p.Statuses = []store.Status{store.Completed, store.Failed, store.Canceled}
	}
}

// FireOutcome is what a call that fires a schedule reads after its writes.
type FireOutcome struct {
	Found              bool // the schedule exists
	Next, Put, FiredAt time.Time
}

// Err returns the error of a call that has no firing.
func (o *FireOutcome) Err(p *store.FireParams, run store.ID, now time.Time) error {
	switch at := p.At.UnixMicro(); {
	case !o.Found:
		return NotFound("schedule %q", p.Schedule)
	case !o.FiredAt.IsZero():
		return nil
	case at > now.UnixMicro():
		return store.Invalid("fire time", fmt.Sprintf("%v is in the future; the store's time is %v", p.At.UTC(), now))
	case !p.Seen.IsZero() && o.Put.UnixMicro() != p.Seen.UnixMicro():
		return Conflict("schedule %q was changed at %v", p.Schedule, o.Put)
	case o.Next.Equal(Micro(at)):
		return InAnotherNamespace(run)
	}
	return Conflict("schedule %q is not due at %v but at %v: it was changed", p.Schedule, p.At.UTC(), o.Next)
}
