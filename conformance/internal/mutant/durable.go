package mutant

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// Reopener is a store that can be closed and opened again with what it stored.
type Reopener interface {
	Reopen() (s store.Store, base *model.Store)
}

// Reopen closes the store and opens it again below the same layer.
func (s *faulty) Reopen() (store.Store, *model.Store) {
	base := s.Store.Reopen(s.lose)
	return s.wrapped(base), base
}

// lost makes a mutant that loses something at each restart.
func lost(name, what string, lose func(*model.Disk)) Mutant {
	return Mutant{Name: "restart-loses-" + name, Fault: "a restart loses " + what, Wrap: wrap(func(s *faulty) { s.lose = lose })}
}

// These mutants lose acknowledged writes when they are opened again.
var durableMutants = []Mutant{
	lost("all", "everything", (*model.Disk).LoseAll),
	{"restart-loses-the-last-call", "", "a restart loses the call that was acknowledged last", writesBehind("", lastOf)},
	{"restart-loses-the-last-second", "", "a restart loses what was written in the last second", writesBehind("", lastSecond)},
	lost("runs", "runs that wait", func(d *model.Disk) { d.LoseRuns(func(r *store.Run) bool { return r.Status == store.Pending }) }),
	lost("final-runs", "final runs", func(d *model.Disk) { d.LoseRuns(func(r *store.Run) bool { return r.Status.Final() }) }),
	lost("many-runs", "all but 100 runs", func(d *model.Disk) {
		n := 0
		d.LoseRuns(func(*store.Run) bool { n++; return n > 100 })
	}),
	lost("external-ids", "who holds which external id", (*model.Disk).LoseExternalIDs),
	lost("epochs", "epochs: they begin again", func(d *model.Disk) { d.EachRun(func(r model.Row) { r.Epoch = min(r.Epoch, 1) }) }),
	lost("one-epoch", "the last claim's epoch", func(d *model.Disk) { d.EachRun(func(r model.Row) { r.Epoch = max(0, r.Epoch-1) }) }),
	lost("leases", "leases: runs that are held are pending", func(d *model.Disk) {
		d.EachRun(func(r model.Row) {
			if r.Status == store.Running {
				r.Status, r.Worker = store.Pending, ""
			}
		})
	}),
	lost("sequence-numbers", "the numbers of commits", func(d *model.Disk) { d.EachRun(func(r model.Row) { *r.Seq = 0 }) }),
	lost("claim-ids", "which call made each claim", (*model.Disk).LoseClaims),
	lost("crashes", "the count of crashes", func(d *model.Disk) { d.EachRun(func(r model.Row) { r.Crashes = 0 }) }),
	lost("attempts", "the count of attempts", func(d *model.Disk) { d.EachRun(func(r model.Row) { r.Attempt = 1 }) }),
	lost("events", "the count of events", func(d *model.Disk) { d.EachRun(func(r model.Row) { r.Events = 0 }) }),
	lost("steps", "the table of steps", func(d *model.Disk) { d.EachRun(func(r model.Row) { *r.Steps = nil }) }),
	lost("failures-of-steps", "the failures of steps", func(d *model.Disk) {
		d.EachRun(func(r model.Row) {
			for i := range *r.Steps {
				(*r.Steps)[i].Failure = nil
			}
		})
	}),
	lost("state", "the table of flow state", (*model.Disk).LoseState),
	lost("versions", "the versions of flow state", (*model.Disk).LoseVersions),
	lost("signals", "the table of signals", func(d *model.Disk) { d.EachRun(func(r model.Row) { *r.Signals = nil }) }),
	lost("streams", "the items of streams", (*model.Disk).LoseStreams),
	lost("answers", "the answers to signals", (*model.Disk).LoseAnswers),
	lost("receipts", "which signals runs have had", (*model.Disk).LoseReceipts),
	lost("groups", "the counts of children", func(d *model.Disk) { d.EachRun(func(r model.Row) { clear(r.Groups) }) }),
	lost("awaits", "which children sleepers wait for", func(d *model.Disk) { d.EachRun(func(r model.Row) { *r.Awaits = nil }) }),
	lost("wakes", "which events sleepers wait for", (*model.Disk).LoseWakes),
	lost("resumes", "what paused runs are to be again", (*model.Disk).LoseResumes),
	lost("pausing", "that a run which is held is to pause", func(d *model.Disk) { d.EachRun(func(r model.Row) { r.Pausing = false }) }),
	lost("cancels", "that a run which is held was canceled", func(d *model.Disk) {
		d.EachRun(func(r model.Row) {
			if r.Status == store.Canceling {
				r.Status = store.Running
			}
		})
	}),
	lost("workers", "the table of workers", (*model.Disk).LoseWorkers),
	lost("workflows", "the table of workflows", (*model.Disk).LoseWorkflows),
	lost("paused", "which queues and workflows are paused", (*model.Disk).LosePaused),
	lost("locks", "locks", (*model.Disk).LoseLocks),
	lost("schedules", "the table of schedules", (*model.Disk).LoseSchedules),
	lost("firings", "the table of firings", (*model.Disk).LoseFirings),
	lost("actions", "what people did", (*model.Disk).LoseActions),
	lost("empty-payloads", "that a payload is empty and not none", func(d *model.Disk) {
		d.EachRun(func(r model.Row) {
			if len(r.Input) == 0 {
				r.Input = []byte{}
			}
		})
	}),
	{"restart-brings-back-the-purged", "", "a restart brings back what was purged", writesBehind("Purge", lastOf)},
	{"restart-brings-back-workers", "", "a restart brings back a worker that was removed", writesBehind("RemoveWorker", lastOf)},
	{"restart-brings-back-schedules", "", "a restart brings back a schedule that was deleted", writesBehind("DeleteSchedule", lastOf)},
	{"restart-undoes-PauseTarget", "", "a restart undoes the last pause of a queue or workflow, or its end", writesBehind("PauseTarget", lastOf)},
	{"restart-undoes-Record", "", "a restart undoes the last record of actions", writesBehind("Record", lastOf)},
	{"restart-undoes-Extend", "", "a restart undoes the last extension of leases", writesBehind("Extend", lastOf)},
}

// written is a moment before a write, and a function that returns to it.
type written struct {
	at   time.Time
	back func()
}

// lastOf returns to the moment before the last write.
func lastOf(writes []written) func() { return writes[len(writes)-1].back }

// lastSecond returns to the moment one second ago.
func lastSecond(writes []written) func() {
	for _, w := range writes {
		if time.Since(w.at) < time.Second {
			return w.back
		}
	}
	return func() {}
}

// behind is a store that returns at its restart to the moment before one of its writes.
type behind struct {
	*model.Store
	verb   string // whose writes count; empty: of all
	to     func([]written) func()
	writes []written
}

func writesBehind(verb string, to func([]written) func()) func(*model.Store) store.Store {
	return func(m *model.Store) store.Store { return &behind{Store: m, verb: verb, to: to} }
}

// Reopen implements Reopener.
func (s *behind) Reopen() (store.Store, *model.Store) {
	if len(s.writes) > 0 {
		s.to(s.writes)()
	}
	base := s.Store.Reopen(nil)
	return &behind{Store: base, verb: s.verb, to: s.to}, base
}

var _, _ Reopener = (*faulty)(nil), (*behind)(nil)

func (s *behind) before(verb string) {
	if s.verb == "" || s.verb == verb {
		s.writes = append(s.writes, written{time.Now(), s.Rewind()})
	}
}

func (s *behind) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	s.before("Create")
	return s.Store.Create(ctx, p)
}

func (s *behind) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	s.before("Cancel")
	return s.Store.Cancel(ctx, p)
}

func (s *behind) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	s.before("Pause")
	return s.Store.Pause(ctx, p)
}

func (s *behind) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	s.before("Unpin")
	return s.Store.Unpin(ctx, p)
}

func (s *behind) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	s.before("Restart")
	return s.Store.Restart(ctx, p)
}

func (s *behind) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	s.before("Fork")
	return s.Store.Fork(ctx, p)
}

func (s *behind) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	s.before("Purge")
	return s.Store.Purge(ctx, p)
}

func (s *behind) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	s.before("Claim")
	return s.Store.Claim(ctx, p)
}

func (s *behind) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	s.before("Extend")
	return s.Store.Extend(ctx, p)
}

func (s *behind) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	s.before("Commit")
	return s.Store.Commit(ctx, p)
}

func (s *behind) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	s.before("Signal")
	return s.Store.Signal(ctx, p)
}

func (s *behind) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	s.before("SetState")
	return s.Store.SetState(ctx, p)
}

func (s *behind) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	s.before("PutWorker")
	return s.Store.PutWorker(ctx, p)
}

func (s *behind) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	s.before("RemoveWorker")
	return s.Store.RemoveWorker(ctx, p)
}

func (s *behind) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	s.before("AskWorkers")
	return s.Store.AskWorkers(ctx, p)
}

func (s *behind) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	s.before("PutWorkflows")
	return s.Store.PutWorkflows(ctx, p)
}

func (s *behind) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	s.before("PauseTarget")
	return s.Store.PauseTarget(ctx, p)
}

func (s *behind) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	s.before("Lock")
	return s.Store.Lock(ctx, p)
}

func (s *behind) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	s.before("PutSchedule")
	return s.Store.PutSchedule(ctx, p)
}

func (s *behind) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	s.before("DeleteSchedule")
	return s.Store.DeleteSchedule(ctx, p)
}

func (s *behind) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	s.before("Fire")
	return s.Store.Fire(ctx, p)
}

func (s *behind) Record(ctx context.Context, p store.RecordParams) error {
	s.before("Record")
	return s.Store.Record(ctx, p)
}
