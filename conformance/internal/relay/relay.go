// Package relay has a store whose calls pass through a function: for tests that cut, count or spoil calls of
// any verb.
package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Relay is a store that passes each call of another store through a function. It has all optional interfaces; a
// verb of one that the other store does not implement fails with [store.ErrUnsupported].
//
// Features, Limits, Close, Join, Counts and Hints do not pass through the function: the first two and Counts know
// no error, and the others are no requests.
type Relay struct {
	store.Store
	// Pass makes a call of a verb, which has the name of its method, or fails in its place. It makes the call at
	// most once, and before it returns. If it returns an error, the caller gets no result.
	Pass func(ctx context.Context, verb string, params any, call func() error) error
}

var (
	_ store.Hinter     = (*Relay)(nil)
	_ store.Transactor = (*Relay)(nil)
	_ store.Importer   = (*Relay)(nil)
	_ store.Exporter   = (*Relay)(nil)
	_ store.Journal    = (*Relay)(nil)
	_ store.Ranker     = (*Relay)(nil)
	_ store.TreeReader = (*Relay)(nil)
	_ store.Outboxer   = (*Relay)(nil)
	_ store.Diagnoser  = (*Relay)(nil)
)

// Writes reports whether a call of a verb changes something in the store.
func Writes(verb string, params any) bool {
	switch verb {
	case "Claim":
		p, ok := params.(store.ClaimParams)
		return !ok || !p.Again
	case "Get", "Find", "List", "Count", "Children", "Steps", "GetState", "Inbox", "Answers", "ListWorkers", "ListBuilds", "ListWorkflows", "ListPaused", "ListLimits", "LimitKeys",
		"ListSchedules", "ListFirings", "ListActions", "Sent", "Ahead", "Tree", "ListSubscriptions", "Changes", "ReadStream", "Diagnose", "Clock", "Begin", "Recorded":
		return false
	}
	return true
}

// Unsupported is the error of a verb that a store does not implement.
func Unsupported(verb string) error {
	return fmt.Errorf("the store does not implement %s: %w", verb, store.ErrUnsupported)
}

func carry[P, R any](r *Relay, ctx context.Context, verb string, p P, call func(context.Context, P) (R, error)) (R, error) {
	var none, res R
	err := r.Pass(ctx, verb, p, func() (err error) {
		res, err = call(ctx, p)
		return err
	})
	if err != nil {
		return none, err
	}
	return res, nil
}

func carryAlone[P any](r *Relay, ctx context.Context, verb string, p P, call func(context.Context, P) error) error {
	return r.Pass(ctx, verb, p, func() error { return call(ctx, p) })
}

// lacks carries a call of a verb that the store does not implement.
func lacks[P any](r *Relay, ctx context.Context, verb string, p P) error {
	return r.Pass(ctx, verb, p, func() error { return Unsupported(verb) })
}

// Clock implements store.Store.
func (r *Relay) Clock(ctx context.Context) (time.Time, error) {
	return carry(r, ctx, "Clock", struct{}{}, func(ctx context.Context, _ struct{}) (time.Time, error) { return r.Store.Clock(ctx) })
}

func (r *Relay) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return carry(r, ctx, "Create", p, r.Store.Create)
}

func (r *Relay) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return carry(r, ctx, "Get", p, r.Store.Get)
}

func (r *Relay) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	return carry(r, ctx, "Find", p, r.Store.Find)
}

func (r *Relay) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	return carry(r, ctx, "List", p, r.Store.List)
}

func (r *Relay) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	return carry(r, ctx, "Count", p, r.Store.Count)
}

func (r *Relay) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	return carry(r, ctx, "Children", p, r.Store.Children)
}

func (r *Relay) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	return carry(r, ctx, "Steps", p, r.Store.Steps)
}

func (r *Relay) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	return carry(r, ctx, "Cancel", p, r.Store.Cancel)
}

func (r *Relay) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	return carry(r, ctx, "Pause", p, r.Store.Pause)
}

func (r *Relay) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	return carry(r, ctx, "Restart", p, r.Store.Restart)
}

func (r *Relay) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	return carry(r, ctx, "Fork", p, r.Store.Fork)
}

func (r *Relay) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	return carry(r, ctx, "Purge", p, r.Store.Purge)
}

func (r *Relay) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return carry(r, ctx, "Claim", p, r.Store.Claim)
}

func (r *Relay) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	return carry(r, ctx, "Extend", p, r.Store.Extend)
}

func (r *Relay) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	return carry(r, ctx, "Commit", p, r.Store.Commit)
}

func (r *Relay) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	return carry(r, ctx, "Signal", p, r.Store.Signal)
}

func (r *Relay) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	return carry(r, ctx, "SetState", p, r.Store.SetState)
}

func (r *Relay) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	return carry(r, ctx, "GetState", p, r.Store.GetState)
}

func (r *Relay) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return carry(r, ctx, "Inbox", p, r.Store.Inbox)
}

func (r *Relay) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	return carry(r, ctx, "Answers", p, r.Store.Answers)
}

func (r *Relay) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	return carryAlone(r, ctx, "PutWorker", p, r.Store.PutWorker)
}

func (r *Relay) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	return carryAlone(r, ctx, "RemoveWorker", p, r.Store.RemoveWorker)
}

func (r *Relay) ListBuilds(ctx context.Context, p store.ListBuildsParams) (store.BuildPage, error) {
	return carry(r, ctx, "ListBuilds", p, r.Store.ListBuilds)
}

func (r *Relay) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	return carry(r, ctx, "Unpin", p, r.Store.Unpin)
}

func (r *Relay) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	return carry(r, ctx, "ListWorkers", p, r.Store.ListWorkers)
}

func (r *Relay) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	return carry(r, ctx, "AskWorkers", p, r.Store.AskWorkers)
}

func (r *Relay) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	return carryAlone(r, ctx, "PutWorkflows", p, r.Store.PutWorkflows)
}

func (r *Relay) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	return carry(r, ctx, "ListWorkflows", p, r.Store.ListWorkflows)
}

func (r *Relay) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	return carryAlone(r, ctx, "PauseTarget", p, r.Store.PauseTarget)
}

func (r *Relay) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	return carry(r, ctx, "ListPaused", p, r.Store.ListPaused)
}

func (r *Relay) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	return carry(r, ctx, "Lock", p, r.Store.Lock)
}

func (r *Relay) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	return carry(r, ctx, "PutSchedule", p, r.Store.PutSchedule)
}

func (r *Relay) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	return carryAlone(r, ctx, "DeleteSchedule", p, r.Store.DeleteSchedule)
}

func (r *Relay) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	return carry(r, ctx, "ListSchedules", p, r.Store.ListSchedules)
}

func (r *Relay) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	return carry(r, ctx, "Fire", p, r.Store.Fire)
}

func (r *Relay) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	return carry(r, ctx, "ListFirings", p, r.Store.ListFirings)
}

// Record implements store.Journal.
func (r *Relay) Record(ctx context.Context, p store.RecordParams) error {
	if x, ok := r.Store.(store.Journal); ok {
		return carryAlone(r, ctx, "Record", p, x.Record)
	}
	return lacks(r, ctx, "Record", p)
}

// ListActions implements store.Journal.
func (r *Relay) ListActions(ctx context.Context, p store.ListActionsParams) (store.ActionPage, error) {
	if x, ok := r.Store.(store.Journal); ok {
		return carry(r, ctx, "ListActions", p, x.ListActions)
	}
	return store.ActionPage{}, lacks(r, ctx, "ListActions", p)
}

// Import implements store.Importer.
func (r *Relay) Import(ctx context.Context, p store.ImportParams) (bool, error) {
	if x, ok := r.Store.(store.Importer); ok {
		return carry(r, ctx, "Import", p, x.Import)
	}
	return false, lacks(r, ctx, "Import", p)
}

// Sent implements store.Exporter.
func (r *Relay) Sent(ctx context.Context, p store.SentParams) (store.SentPage, error) {
	if x, ok := r.Store.(store.Exporter); ok {
		return carry(r, ctx, "Sent", p, x.Sent)
	}
	return store.SentPage{}, lacks(r, ctx, "Sent", p)
}

// Ahead implements store.Ranker.
func (r *Relay) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	if x, ok := r.Store.(store.Ranker); ok {
		return carry(r, ctx, "Ahead", p, x.Ahead)
	}
	return 0, lacks(r, ctx, "Ahead", p)
}

// Tree implements store.TreeReader.
func (r *Relay) Tree(ctx context.Context, p store.TreeParams) (store.Tree, error) {
	if x, ok := r.Store.(store.TreeReader); ok {
		return carry(r, ctx, "Tree", p, x.Tree)
	}
	return store.Tree{}, lacks(r, ctx, "Tree", p)
}

// PutSubscription implements store.Outboxer.
func (r *Relay) PutSubscription(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	if x, ok := r.Store.(store.Outboxer); ok {
		return carry(r, ctx, "PutSubscription", p, x.PutSubscription)
	}
	return store.Subscription{}, lacks(r, ctx, "PutSubscription", p)
}

// DeleteSubscription implements store.Outboxer.
func (r *Relay) DeleteSubscription(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
	if x, ok := r.Store.(store.Outboxer); ok {
		return carry(r, ctx, "DeleteSubscription", p, x.DeleteSubscription)
	}
	return false, lacks(r, ctx, "DeleteSubscription", p)
}

// ListSubscriptions implements store.Outboxer.
func (r *Relay) ListSubscriptions(ctx context.Context, p store.ListSubscriptionsParams) ([]store.Subscription, error) {
	if x, ok := r.Store.(store.Outboxer); ok {
		return carry(r, ctx, "ListSubscriptions", p, x.ListSubscriptions)
	}
	return nil, lacks(r, ctx, "ListSubscriptions", p)
}

// Changes implements store.Outboxer.
func (r *Relay) Changes(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
	if x, ok := r.Store.(store.Outboxer); ok {
		return carry(r, ctx, "Changes", p, x.Changes)
	}
	return store.ChangePage{}, lacks(r, ctx, "Changes", p)
}

// Settle implements store.Outboxer.
func (r *Relay) Settle(ctx context.Context, p store.SettleParams) error {
	if x, ok := r.Store.(store.Outboxer); ok {
		return carryAlone(r, ctx, "Settle", p, x.Settle)
	}
	return lacks(r, ctx, "Settle", p)
}

// DropChanges implements store.Outboxer.
func (r *Relay) DropChanges(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
	if x, ok := r.Store.(store.Outboxer); ok {
		return carry(r, ctx, "DropChanges", p, x.DropChanges)
	}
	return nil, lacks(r, ctx, "DropChanges", p)
}

// Append implements store.Streamer.
func (r *Relay) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	if x, ok := r.Store.(store.Streamer); ok {
		return carry(r, ctx, "Append", p, x.Append)
	}
	return store.AppendResult{}, lacks(r, ctx, "Append", p)
}

// ReadStream implements store.Streamer.
func (r *Relay) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	if x, ok := r.Store.(store.Streamer); ok {
		return carry(r, ctx, "ReadStream", p, x.ReadStream)
	}
	return store.StreamPage{}, lacks(r, ctx, "ReadStream", p)
}

// Diagnose implements store.Diagnoser.
func (r *Relay) Diagnose(ctx context.Context) ([]store.Finding, error) {
	if x, ok := r.Store.(store.Diagnoser); ok {
		return carry(r, ctx, "Diagnose", struct{}{}, func(ctx context.Context, _ struct{}) ([]store.Finding, error) { return x.Diagnose(ctx) })
	}
	return nil, lacks(r, ctx, "Diagnose", struct{}{})
}

// Hints implements store.Hinter.
func (r *Relay) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	if x, ok := r.Store.(store.Hinter); ok {
		return x.Hints(ctx, topics...)
	}
	return nil, Unsupported("Hints")
}

// Join implements store.Transactor. Calls of the store that it returns do not pass through the function.
func (r *Relay) Join(tx store.Tx) (store.Store, error) {
	if x, ok := r.Store.(store.Transactor); ok {
		return x.Join(tx)
	}
	return nil, Unsupported("Join")
}

// Begin implements store.Transactor. The commit of the transaction passes through the function as
// Transaction.Commit; if that fails, the transaction is rolled back, as a database does when its connection ends.
func (r *Relay) Begin(ctx context.Context, target any) (tx store.Transaction, err error) {
	x, ok := r.Store.(store.Transactor)
	if !ok {
		return nil, lacks(r, ctx, "Begin", target)
	}
	err = r.Pass(ctx, "Begin", target, func() (err error) {
		tx, err = x.Begin(ctx, target)
		return err
	})
	switch {
	case err != nil && tx != nil:
		tx.Rollback()
		return nil, err
	case err != nil:
		return nil, err
	}
	return &transaction{r, tx}, nil
}

// Recorded implements store.Transactor.
func (r *Relay) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	x, ok := r.Store.(store.Transactor)
	if !ok {
		return false, lacks(r, ctx, "Recorded", lease)
	}
	return carry(r, ctx, "Recorded", lease, func(ctx context.Context, lease store.Lease) (bool, error) {
		return x.Recorded(ctx, namespace, lease, seq)
	})
}

type transaction struct {
	relay *Relay
	store.Transaction
}

// Commit implements store.Transaction.
func (tx *transaction) Commit(ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
	res, err := carry(tx.relay, ctx, "Transaction.Commit", c, func(ctx context.Context, c store.Commit) (store.CommitResult, error) {
		return tx.Transaction.Commit(ctx, namespace, c)
	})
	if err != nil {
		tx.Rollback()
	}
	return res, err
}

func (r *Relay) PutLimits(ctx context.Context, p store.PutLimitsParams) error {
	return carryAlone(r, ctx, "PutLimits", p, r.Store.PutLimits)
}

func (r *Relay) SetLimit(ctx context.Context, p store.SetLimitParams) error {
	return carryAlone(r, ctx, "SetLimit", p, r.Store.SetLimit)
}

func (r *Relay) ListLimits(ctx context.Context, p store.ListLimitsParams) (store.LimitPage, error) {
	return carry(r, ctx, "ListLimits", p, r.Store.ListLimits)
}

func (r *Relay) LimitKeys(ctx context.Context, p store.LimitKeysParams) (store.LimitKeyPage, error) {
	return carry(r, ctx, "LimitKeys", p, r.Store.LimitKeys)
}

func (r *Relay) SetWeight(ctx context.Context, p store.SetWeightParams) error {
	return carryAlone(r, ctx, "SetWeight", p, r.Store.SetWeight)
}
