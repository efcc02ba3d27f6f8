package conformance

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// Unwritten implements each method of store.Store that does work, and returns store.ErrUnsupported
// from it. The author of a new backend embeds it, writes Features, Limits, Clock and Close first,
// and then one method after the other; see [Harness].Progress. Remove it when all are written.
type Unwritten struct{}

// Create fails with store.ErrUnsupported.
func (Unwritten) Create(context.Context, store.CreateParams) (out []store.CreateResult, err error) {
	return out, store.ErrUnsupported
}

// Get fails with store.ErrUnsupported.
func (Unwritten) Get(context.Context, store.GetParams) (out []store.Run, err error) {
	return out, store.ErrUnsupported
}

// Find fails with store.ErrUnsupported.
func (Unwritten) Find(context.Context, store.FindParams) (out store.Run, err error) {
	return out, store.ErrUnsupported
}

// List fails with store.ErrUnsupported.
func (Unwritten) List(context.Context, store.ListParams) (out store.RunPage, err error) {
	return out, store.ErrUnsupported
}

// Count fails with store.ErrUnsupported.
func (Unwritten) Count(context.Context, store.CountParams) (out []store.RunCount, err error) {
	return out, store.ErrUnsupported
}

// Children fails with store.ErrUnsupported.
func (Unwritten) Children(context.Context, store.ChildrenParams) (out store.ChildPage, err error) {
	return out, store.ErrUnsupported
}

// Steps fails with store.ErrUnsupported.
func (Unwritten) Steps(context.Context, store.StepsParams) (out store.StepPage, err error) {
	return out, store.ErrUnsupported
}

// Cancel fails with store.ErrUnsupported.
func (Unwritten) Cancel(context.Context, store.CancelParams) (out []store.ControlResult, err error) {
	return out, store.ErrUnsupported
}

// Pause fails with store.ErrUnsupported.
func (Unwritten) Pause(context.Context, store.PauseParams) (out []store.ControlResult, err error) {
	return out, store.ErrUnsupported
}

// Unpin fails with store.ErrUnsupported.
func (Unwritten) Unpin(context.Context, store.UnpinParams) (out []store.ControlResult, err error) {
	return out, store.ErrUnsupported
}

// Restart fails with store.ErrUnsupported.
func (Unwritten) Restart(context.Context, store.RestartParams) (out []store.ControlResult, err error) {
	return out, store.ErrUnsupported
}

// Fork fails with store.ErrUnsupported.
func (Unwritten) Fork(context.Context, store.ForkParams) (out store.CreateResult, err error) {
	return out, store.ErrUnsupported
}

// Purge fails with store.ErrUnsupported.
func (Unwritten) Purge(context.Context, store.PurgeParams) (out int, err error) {
	return out, store.ErrUnsupported
}

// Claim fails with store.ErrUnsupported.
func (Unwritten) Claim(context.Context, store.ClaimParams) (out store.Claimed, err error) {
	return out, store.ErrUnsupported
}

// Extend fails with store.ErrUnsupported.
func (Unwritten) Extend(context.Context, store.ExtendParams) (out []store.LeaseState, err error) {
	return out, store.ErrUnsupported
}

// Commit fails with store.ErrUnsupported.
func (Unwritten) Commit(context.Context, store.CommitParams) (out []store.CommitResult, err error) {
	return out, store.ErrUnsupported
}

// Signal fails with store.ErrUnsupported.
func (Unwritten) Signal(context.Context, store.SignalParams) (out []store.SignalResult, err error) {
	return out, store.ErrUnsupported
}

// SetState fails with store.ErrUnsupported.
func (Unwritten) SetState(context.Context, store.SetStateParams) (out []store.StateEntry, err error) {
	return out, store.ErrUnsupported
}

// GetState fails with store.ErrUnsupported.
func (Unwritten) GetState(context.Context, store.GetStateParams) (out []store.StateEntry, err error) {
	return out, store.ErrUnsupported
}

// Inbox fails with store.ErrUnsupported.
func (Unwritten) Inbox(context.Context, store.InboxParams) (out store.Inbox, err error) {
	return out, store.ErrUnsupported
}

// Answers fails with store.ErrUnsupported.
func (Unwritten) Answers(context.Context, store.AnswersParams) (out []store.AnswerResult, err error) {
	return out, store.ErrUnsupported
}

// PutWorker fails with store.ErrUnsupported.
func (Unwritten) PutWorker(context.Context, store.PutWorkerParams) error { return store.ErrUnsupported }

// RemoveWorker fails with store.ErrUnsupported.
func (Unwritten) RemoveWorker(context.Context, store.RemoveWorkerParams) error {
	return store.ErrUnsupported
}

// ListBuilds fails with store.ErrUnsupported.
func (Unwritten) ListBuilds(context.Context, store.ListBuildsParams) (out store.BuildPage, err error) {
	return out, store.ErrUnsupported
}

// ListWorkers fails with store.ErrUnsupported.
func (Unwritten) ListWorkers(context.Context, store.ListWorkersParams) (out store.WorkerPage, err error) {
	return out, store.ErrUnsupported
}

// AskWorkers fails with store.ErrUnsupported.
func (Unwritten) AskWorkers(context.Context, store.AskWorkersParams) (out int, err error) {
	return out, store.ErrUnsupported
}

// PutWorkflows fails with store.ErrUnsupported.
func (Unwritten) PutWorkflows(context.Context, store.PutWorkflowsParams) error {
	return store.ErrUnsupported
}

// ListWorkflows fails with store.ErrUnsupported.
func (Unwritten) ListWorkflows(context.Context, store.ListWorkflowsParams) (out store.WorkflowPage, err error) {
	return out, store.ErrUnsupported
}

// PauseTarget fails with store.ErrUnsupported.
func (Unwritten) PauseTarget(context.Context, store.PauseTargetParams) error {
	return store.ErrUnsupported
}

// ListPaused fails with store.ErrUnsupported.
func (Unwritten) ListPaused(context.Context, store.ListPausedParams) (out store.PausedPage, err error) {
	return out, store.ErrUnsupported
}

// Lock fails with store.ErrUnsupported.
func (Unwritten) Lock(context.Context, store.LockParams) (out store.LockResult, err error) {
	return out, store.ErrUnsupported
}

// PutSchedule fails with store.ErrUnsupported.
func (Unwritten) PutSchedule(context.Context, store.PutScheduleParams) (out store.Schedule, err error) {
	return out, store.ErrUnsupported
}

// DeleteSchedule fails with store.ErrUnsupported.
func (Unwritten) DeleteSchedule(context.Context, store.DeleteScheduleParams) error {
	return store.ErrUnsupported
}

// ListSchedules fails with store.ErrUnsupported.
func (Unwritten) ListSchedules(context.Context, store.ListSchedulesParams) (out store.SchedulePage, err error) {
	return out, store.ErrUnsupported
}

// Fire fails with store.ErrUnsupported.
func (Unwritten) Fire(context.Context, store.FireParams) (out store.FireResult, err error) {
	return out, store.ErrUnsupported
}

// ListFirings fails with store.ErrUnsupported.
func (Unwritten) ListFirings(context.Context, store.ListFiringsParams) (out store.FiringPage, err error) {
	return out, store.ErrUnsupported
}

// PutLimits fails with store.ErrUnsupported.
func (Unwritten) PutLimits(context.Context, store.PutLimitsParams) error { return store.ErrUnsupported }

// SetLimit fails with store.ErrUnsupported.
func (Unwritten) SetLimit(context.Context, store.SetLimitParams) error { return store.ErrUnsupported }

// ListLimits fails with store.ErrUnsupported.
func (Unwritten) ListLimits(context.Context, store.ListLimitsParams) (out store.LimitPage, err error) {
	return out, store.ErrUnsupported
}

// LimitKeys fails with store.ErrUnsupported.
func (Unwritten) LimitKeys(context.Context, store.LimitKeysParams) (out store.LimitKeyPage, err error) {
	return out, store.ErrUnsupported
}

// SetWeight fails with store.ErrUnsupported.
func (Unwritten) SetWeight(context.Context, store.SetWeightParams) error { return store.ErrUnsupported }
