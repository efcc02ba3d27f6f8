// Package mutant contains faulty stores. Each breaks one promise of the contract in a way that a
// backend could, and the conformance suite must find it: a fault that the suite does not find here
// would remain unnoticed in a backend.
//
// A mutant is the model store with a layer above it that changes params or results, remembers what
// it should forget, or splits one call into several. If two calls must meet between a mutant's read
// and its write, the mutant waits for a [roundTrip]. In a testing/synctest bubble that lets every
// other goroutine proceed as far, so that the fault shows every time and not by chance.
package mutant

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// Mutant is one fault.
type Mutant struct {
	Name    string
	Promise string // that it breaks: "P4"; empty: what no numbered promise says
	Fault   string // what such a store does
	Wrap    func(*model.Store) store.Store
}

// All lists the mutants.
func All() []Mutant {
	return slices.Concat(
		leaseMutants, commitMutants, wakeMutants, childMutants, runMutants, payloadMutants, timeMutants,
		signalMutants, signalStartMutants, answerMutants, tagMutants, streamMutants, treeMutants, debounceMutants, steerMutants, boundMutants, tallyMutants, cancelMutants, clockMutants, ruleMutants,
		againMutants, sizeMutants, nameMutants, durableMutants, tornMutants, collisionMutants,
		faultMutants, txMutants, hintMutants, buildMutants, limitMutants, auditMutants, outboxMutants, leaks(),
	)
}

// None is a mutant without a fault: it behaves as the model.
func None() Mutant { return Mutant{Name: "none", Wrap: wrap(func(*faulty) {})} }

// verb is a method of the store.
type verb[P, R any] func(context.Context, P) (R, error)

// faulty is the model, with methods that a mutant can replace. The other methods are promoted from
// the model.
type faulty struct {
	*model.Remote
	create        verb[store.CreateParams, []store.CreateResult]
	get           verb[store.GetParams, []store.Run]
	list          verb[store.ListParams, store.RunPage]
	count         verb[store.CountParams, []store.RunCount]
	cancel        verb[store.CancelParams, []store.ControlResult]
	purge         verb[store.PurgeParams, int]
	claim         verb[store.ClaimParams, store.Claimed]
	extend        verb[store.ExtendParams, []store.LeaseState]
	commit        verb[store.CommitParams, []store.CommitResult]
	signal        verb[store.SignalParams, []store.SignalResult]
	setState      verb[store.SetStateParams, []store.StateEntry]
	getState      verb[store.GetStateParams, []store.StateEntry]
	inbox         verb[store.InboxParams, store.Inbox]
	answers       verb[store.AnswersParams, []store.AnswerResult]
	listWorkers   verb[store.ListWorkersParams, store.WorkerPage]
	listWorkflows verb[store.ListWorkflowsParams, store.WorkflowPage]
	listPaused    verb[store.ListPausedParams, store.PausedPage]
	askWorkers    verb[store.AskWorkersParams, int]
	pause         verb[store.PauseParams, []store.ControlResult]
	restart       verb[store.RestartParams, []store.ControlResult]
	fork          verb[store.ForkParams, store.CreateResult]
	readSteps     verb[store.StepsParams, store.StepPage]
	children      verb[store.ChildrenParams, store.ChildPage]
	find          verb[store.FindParams, store.Run]
	putSchedule   verb[store.PutScheduleParams, store.Schedule]
	lock          verb[store.LockParams, store.LockResult]
	listSchedules verb[store.ListSchedulesParams, store.SchedulePage]
	fire          verb[store.FireParams, store.FireResult]
	hints         func(context.Context, ...store.HintTopic) (<-chan []store.Hint, error)
	diagnose      func(context.Context) ([]store.Finding, error)
	imports       verb[store.ImportParams, bool]
	sent          verb[store.SentParams, store.SentPage]
	ahead         verb[store.AheadParams, int]
	append        verb[store.AppendParams, store.AppendResult]
	readStream    verb[store.ReadStreamParams, store.StreamPage]
	tree          verb[store.TreeParams, store.Tree]
	changes       verb[store.ChangesParams, store.ChangePage]
	dropChanges   verb[store.DropChangesParams, []store.DroppedChanges]
	settle        func(context.Context, store.SettleParams) error

	putSubscription    verb[store.PutSubscriptionParams, store.Subscription]
	deleteSubscription verb[store.DeleteSubscriptionParams, bool]

	listBuilds  verb[store.ListBuildsParams, store.BuildPage]
	unpin       verb[store.UnpinParams, []store.ControlResult]
	pauseTarget func(context.Context, store.PauseTargetParams) error
	join        func(store.Tx) (store.Store, error)
	begin       func(ctx context.Context, target any) (store.Transaction, error)
	recorded    func(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error)

	lose    func(*model.Disk)              // what a restart loses; nil: nothing
	wrapped func(*model.Store) store.Store // puts the layer before another store
}

func wrap(spoil func(s *faulty)) func(*model.Store) store.Store {
	var layer func(base *model.Store) store.Store
	layer = func(base *model.Store) store.Store {
		m := model.NewRemote(base)
		s := &faulty{
			Remote: m, wrapped: layer, create: m.Create, get: m.Get, list: m.List, count: m.Count, cancel: m.Cancel, purge: m.Purge, claim: m.Claim, extend: m.Extend,
			commit: m.Commit, signal: m.Signal, setState: m.SetState, getState: m.GetState, inbox: m.Inbox, answers: m.Answers, listWorkers: m.ListWorkers, lock: m.Lock,
			listSchedules: m.ListSchedules, fire: m.Fire, hints: m.Hints, pause: m.Pause, restart: m.Restart, fork: m.Fork,
			readSteps: m.Steps, children: m.Children, find: m.Find, putSchedule: m.PutSchedule, diagnose: m.Diagnose, askWorkers: m.AskWorkers, imports: m.Import, sent: m.Sent, ahead: m.Ahead, append: m.Append, readStream: m.ReadStream, tree: m.Tree,
			changes: m.Changes, dropChanges: m.DropChanges, settle: m.Settle, putSubscription: m.PutSubscription, deleteSubscription: m.DeleteSubscription,
			listWorkflows: m.ListWorkflows, listPaused: m.ListPaused, pauseTarget: m.PauseTarget, listBuilds: m.ListBuilds, unpin: m.Unpin, join: m.Join, begin: m.Begin, recorded: m.Recorded,
		}
		spoil(s)
		return s
	}
	return layer
}

func (s *faulty) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return s.create(ctx, p)
}
func (s *faulty) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return s.get(ctx, p)
}
func (s *faulty) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	return s.list(ctx, p)
}
func (s *faulty) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	return s.count(ctx, p)
}
func (s *faulty) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	return s.cancel(ctx, p)
}
func (s *faulty) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	return s.purge(ctx, p)
}
func (s *faulty) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return s.claim(ctx, p)
}
func (s *faulty) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	return s.extend(ctx, p)
}
func (s *faulty) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	return s.commit(ctx, p)
}
func (s *faulty) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	return s.signal(ctx, p)
}
func (s *faulty) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	return s.setState(ctx, p)
}
func (s *faulty) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	return s.getState(ctx, p)
}
func (s *faulty) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return s.inbox(ctx, p)
}
func (s *faulty) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	return s.answers(ctx, p)
}
func (s *faulty) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	return s.askWorkers(ctx, p)
}
func (s *faulty) ListBuilds(ctx context.Context, p store.ListBuildsParams) (store.BuildPage, error) {
	return s.listBuilds(ctx, p)
}
func (s *faulty) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	return s.unpin(ctx, p)
}
func (s *faulty) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	return s.listWorkers(ctx, p)
}
func (s *faulty) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	return s.listWorkflows(ctx, p)
}
func (s *faulty) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	return s.listPaused(ctx, p)
}
func (s *faulty) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	return s.lock(ctx, p)
}
func (s *faulty) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	return s.listSchedules(ctx, p)
}
func (s *faulty) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	return s.fire(ctx, p)
}
func (s *faulty) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	return s.pause(ctx, p)
}
func (s *faulty) Import(ctx context.Context, p store.ImportParams) (bool, error) {
	return s.imports(ctx, p)
}
func (s *faulty) Sent(ctx context.Context, p store.SentParams) (store.SentPage, error) {
	return s.sent(ctx, p)
}
func (s *faulty) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	return s.ahead(ctx, p)
}
func (s *faulty) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	return s.append(ctx, p)
}
func (s *faulty) Tree(ctx context.Context, p store.TreeParams) (store.Tree, error) {
	return s.tree(ctx, p)
}
func (s *faulty) Changes(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
	return s.changes(ctx, p)
}
func (s *faulty) DropChanges(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
	return s.dropChanges(ctx, p)
}
func (s *faulty) Settle(ctx context.Context, p store.SettleParams) error { return s.settle(ctx, p) }
func (s *faulty) PutSubscription(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	return s.putSubscription(ctx, p)
}
func (s *faulty) DeleteSubscription(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
	return s.deleteSubscription(ctx, p)
}
func (s *faulty) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	return s.readStream(ctx, p)
}
func (s *faulty) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	return s.restart(ctx, p)
}
func (s *faulty) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	return s.pauseTarget(ctx, p)
}
func (s *faulty) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	return s.fork(ctx, p)
}
func (s *faulty) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	return s.readSteps(ctx, p)
}
func (s *faulty) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	return s.children(ctx, p)
}
func (s *faulty) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	return s.find(ctx, p)
}
func (s *faulty) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	return s.putSchedule(ctx, p)
}
func (s *faulty) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	return s.hints(ctx, topics...)
}

// Join implements store.Transactor.
func (s *faulty) Join(tx store.Tx) (store.Store, error) { return s.join(tx) }

// Begin implements store.Transactor.
func (s *faulty) Begin(ctx context.Context, target any) (store.Transaction, error) {
	return s.begin(ctx, target)
}

// Recorded implements store.Transactor.
func (s *faulty) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	return s.recorded(ctx, namespace, lease, seq)
}

// Diagnose implements store.Diagnoser.
func (s *faulty) Diagnose(ctx context.Context) ([]store.Finding, error) { return s.diagnose(ctx) }

// roundTrip waits for the time between two statements. In a bubble it ends when all other
// goroutines wait, too.
func roundTrip() { time.Sleep(time.Millisecond) } // the bubble's clock, not the machine's

// clock returns the time of a call whose Now is now, as the model stores it.
func clock(now time.Time) time.Time {
	if now.IsZero() {
		now = time.Now()
	}
	return now.UTC().Truncate(time.Microsecond)
}

// row reads a run as it is stored.
func (s *faulty) row(id store.ID) (r store.Run, ok bool) {
	s.Tamper(id, func(row model.Row) { r, ok = *row.Run, true })
	return r, ok
}

// steps reads a run's steps as they are stored.
func (s *faulty) steps(id store.ID) (steps []store.Step) {
	s.Tamper(id, func(r model.Row) { steps = slices.Clone(*r.Steps) })
	return steps
}

// onClaim changes each run that a claim has returned. do gets the run as it is stored, and the
// result takes its Epoch, Crashes and VisibleAt.
func (s *faulty) onClaim(do func(c *store.ClaimedRun, stored *store.Run)) {
	claim := s.claim
	s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
		got, err := claim(ctx, p)
		for i := range got.Runs {
			c := &got.Runs[i]
			s.Tamper(c.Run.ID, func(r model.Row) {
				do(c, r.Run)
				c.Run.Epoch, c.Run.Crashes, c.Run.VisibleAt = r.Epoch, r.Crashes, r.VisibleAt
				c.Lease.Epoch = r.Epoch
			})
		}
		return got, err
	}
}

// oneRestart restarts one run.
type oneRestart struct {
	Namespace string
	ID        store.ID
	Now       time.Time
}

// eachRestart replaces how a single run is restarted. Those of a batch are restarted one
// after the other. Next fails with the error of the call or with the run's.
func (s *faulty) eachRestart(do func(ctx context.Context, p oneRestart, next func(context.Context, oneRestart) error) error) {
	restart := s.restart
	s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
		if err := p.Validate(); err != nil || len(p.IDs) == 0 {
			return restart(ctx, p)
		}
		out := make([]store.ControlResult, len(p.IDs))
		for i, id := range p.IDs {
			var failed error // of the call
			err := do(ctx, oneRestart{p.Namespace, id, p.Now}, func(ctx context.Context, o oneRestart) error {
				res, err := restart(ctx, store.RestartParams{Namespace: o.Namespace, IDs: []store.ID{o.ID}, Now: o.Now})
				if failed = err; err != nil {
					return err
				}
				out[i] = res[0]
				return res[0].Err
			})
			if failed != nil {
				return nil, failed
			}
			if out[i].Err = err; err == nil {
				out[i].Status = store.Pending
			}
		}
		return out, nil
	}
}

// eachCommit replaces how a single commit is applied. The commits of a batch are applied one after
// another, after the whole batch was checked for duplicates.
func (s *faulty) eachCommit(do func(ctx context.Context, p store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error)) {
	commit := s.commit
	s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
		var out []store.CommitResult
		seen := map[store.ID]bool{}
		if err := p.Validate(); err != nil || len(p.Commits) == 0 {
			return commit(ctx, p)
		}
		for _, c := range p.Commits {
			if seen[c.Lease.Run] {
				out = append(out, store.CommitResult{Err: store.Invalid("commit", "its run has another one in this call")})
				continue
			}
			seen[c.Lease.Run] = true
			res, err := do(ctx, p, c, func(c store.Commit) (store.CommitResult, error) {
				one, err := commit(ctx, store.CommitParams{Namespace: p.Namespace, Now: p.Now, Commits: []store.Commit{c}})
				if err != nil {
					return store.CommitResult{}, err
				}
				return one[0], nil
			})
			if err != nil {
				return nil, err
			}
			out = append(out, res)
		}
		return out, nil
	}
}

// beforeCommit changes each commit before it is applied.
func (s *faulty) beforeCommit(do func(c *store.Commit)) {
	s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
		if c.Transition != nil {
			t := *c.Transition
			c.Transition = &t
		}
		do(&c)
		return next(c)
	})
}

// afterCommit does something after each commit that was applied.
func (s *faulty) afterCommit(do func(c *store.Commit, now time.Time, res *store.CommitResult)) {
	s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
		res, err := next(c)
		if err == nil && res.Err == nil && !res.Repeated {
			do(&c, clock(p.Now), &res)
		}
		return res, err
	})
}

// ended reports whether a commit's transition is of one of the kinds.
func ended(c *store.Commit, kinds ...store.TransitionKind) bool {
	return c.Transition != nil && slices.Contains(kinds, c.Transition.Kind)
}
