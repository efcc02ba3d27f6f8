// Package txtest tests what a store does inside the program's own transactions: each verb in a
// transaction of its own must work as it does without.
package txtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Outer is the store whose verbs are to be called in transactions.
type Outer interface {
	store.Store
	store.Hinter
	store.Transactor
}

// A Tx is a transaction of the program's own.
type Tx struct {
	store.Tx
	Commit   func() error
	Rollback func() error
}

// Store calls each verb of a store in a transaction, as a program would, and commits it; after an
// error it rolls back.
type Store struct {
	Outer
	// Begin begins a transaction. If snapshot is set, the transaction reads at a single moment. An
	// error is one of the environment.
	Begin func(ctx context.Context, snapshot bool) (Tx, error)
	// Again reports whether an error is one after which the program would repeat the transaction.
	Again func(error) bool
}

func inTx[R any](s *Store, ctx context.Context, snapshot bool, call func(in store.Store) (R, error)) (r R, err error) {
	var none R
	for range 100 {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		var tx Tx
		if tx, err = s.Begin(ctx, snapshot); err != nil {
			return none, fmt.Errorf("%w: %w", err, store.ErrUnavailable)
		}
		in, joined := s.Join(tx.Tx)
		if joined != nil {
			return none, errors.Join(joined, tx.Rollback())
		}
		if r, err = call(in); err != nil {
			_ = tx.Rollback()
		} else if err = tx.Commit(); err != nil {
			err = fmt.Errorf("%w: %w", err, store.ErrOutcomeUnknown)
		} else {
			return r, nil
		}
		if !s.Again(err) {
			return none, err
		}
	}
	return none, err
}

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.CreateResult, error) { return in.Create(ctx, p) })
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.Run, error) { return in.Get(ctx, p) })
}

// Find implements store.Store.
func (s *Store) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.Run, error) { return in.Find(ctx, p) })
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.RunPage, error) { return in.List(ctx, p) })
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.RunCount, error) { return in.Count(ctx, p) })
}

// Children implements store.Store.
func (s *Store) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.ChildPage, error) { return in.Children(ctx, p) })
}

// Steps implements store.Store.
func (s *Store) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	return inTx(s, ctx, true, func(in store.Store) (store.StepPage, error) { return in.Steps(ctx, p) })
}

// Cancel implements store.Store.
func (s *Store) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.ControlResult, error) { return in.Cancel(ctx, p) })
}

// Pause implements store.Store.
func (s *Store) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.ControlResult, error) { return in.Pause(ctx, p) })
}

// Restart implements store.Store.
func (s *Store) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.ControlResult, error) { return in.Restart(ctx, p) })
}

// Fork implements store.Store.
func (s *Store) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.CreateResult, error) { return in.Fork(ctx, p) })
}

// Purge implements store.Store.
func (s *Store) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	return inTx(s, ctx, false, func(in store.Store) (int, error) { return in.Purge(ctx, p) })
}

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.Claimed, error) { return in.Claim(ctx, p) })
}

// Extend implements store.Store.
func (s *Store) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.LeaseState, error) { return in.Extend(ctx, p) })
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.CommitResult, error) { return in.Commit(ctx, p) })
}

// Signal implements store.Store.
func (s *Store) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.SignalResult, error) { return in.Signal(ctx, p) })
}

// SetState implements store.Store.
func (s *Store) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.StateEntry, error) { return in.SetState(ctx, p) })
}

// GetState implements store.Store.
func (s *Store) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.StateEntry, error) { return in.GetState(ctx, p) })
}

// Inbox implements store.Store.
func (s *Store) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return inTx(s, ctx, true, func(in store.Store) (store.Inbox, error) { return in.Inbox(ctx, p) })
}

// Answers implements store.Store.
func (s *Store) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	return inTx(s, ctx, false, func(in store.Store) ([]store.AnswerResult, error) { return in.Answers(ctx, p) })
}

// PutWorker implements store.Store.
func (s *Store) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.PutWorker(ctx, p) })
	return err
}

// RemoveWorker implements store.Store.
func (s *Store) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.RemoveWorker(ctx, p) })
	return err
}

// ListWorkers implements store.Store.
func (s *Store) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.WorkerPage, error) { return in.ListWorkers(ctx, p) })
}

// AskWorkers implements store.Store.
func (s *Store) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	return inTx(s, ctx, false, func(in store.Store) (int, error) { return in.AskWorkers(ctx, p) })
}

// PutWorkflows implements store.Store.
func (s *Store) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.PutWorkflows(ctx, p) })
	return err
}

// ListWorkflows implements store.Store.
func (s *Store) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.WorkflowPage, error) { return in.ListWorkflows(ctx, p) })
}

// PauseTarget implements store.Store.
func (s *Store) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.PauseTarget(ctx, p) })
	return err
}

// ListPaused implements store.Store.
func (s *Store) ListPaused(ctx context.Context, p store.ListPausedParams) (store.PausedPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.PausedPage, error) { return in.ListPaused(ctx, p) })
}

// Lock implements store.Store.
func (s *Store) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.LockResult, error) { return in.Lock(ctx, p) })
}

// PutSchedule implements store.Store.
func (s *Store) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.Schedule, error) { return in.PutSchedule(ctx, p) })
}

// DeleteSchedule implements store.Store.
func (s *Store) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.DeleteSchedule(ctx, p) })
	return err
}

// ListSchedules implements store.Store.
func (s *Store) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.SchedulePage, error) { return in.ListSchedules(ctx, p) })
}

// Fire implements store.Store.
func (s *Store) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.FireResult, error) { return in.Fire(ctx, p) })
}

// ListFirings implements store.Store.
func (s *Store) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.FiringPage, error) { return in.ListFirings(ctx, p) })
}

// PutLimits implements store.Store.
func (s *Store) PutLimits(ctx context.Context, p store.PutLimitsParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.PutLimits(ctx, p) })
	return err
}

// SetLimit implements store.Store.
func (s *Store) SetLimit(ctx context.Context, p store.SetLimitParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.SetLimit(ctx, p) })
	return err
}

// ListLimits implements store.Store.
func (s *Store) ListLimits(ctx context.Context, p store.ListLimitsParams) (store.LimitPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.LimitPage, error) { return in.ListLimits(ctx, p) })
}

// LimitKeys implements store.Store.
func (s *Store) LimitKeys(ctx context.Context, p store.LimitKeysParams) (store.LimitKeyPage, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.LimitKeyPage, error) { return in.LimitKeys(ctx, p) })
}

// SetWeight implements store.Store.
func (s *Store) SetWeight(ctx context.Context, p store.SetWeightParams) error {
	_, err := inTx(s, ctx, false, func(in store.Store) (struct{}, error) { return struct{}{}, in.SetWeight(ctx, p) })
	return err
}

// Append implements store.Streamer.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	return inTx(s, ctx, false, func(in store.Store) (store.AppendResult, error) { return in.(store.Streamer).Append(ctx, p) })
}

// ReadStream implements store.Streamer.
func (s *Store) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	return inTx(s, ctx, true, func(in store.Store) (store.StreamPage, error) { return in.(store.Streamer).ReadStream(ctx, p) })
}
