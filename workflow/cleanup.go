package workflow

import (
	"time"

	"github.com/pawlhq/pawl/internal/exec"
)

// cleanupLimit is the default limit of a cleanup.
const cleanupLimit = 30 * time.Second

// Cleanup runs fn, whose operations work even when the run is canceled or past its deadline. Use it
// to release what the run has acquired.
//
//	if err := work(ctx); err != nil {
//		return workflow.Cleanup(ctx, time.Minute, func(ctx workflow.Context) error {
//			return workflow.Do(ctx, "refund", refund)
//		})
//	}
//
// In a run that is not interrupted, fn runs like any other code. In a run that is, it has
// the given limit, or 30 s if that is 0 or less, counted from when fn begins or from the
// interruption, whichever is later. Then its steps' contexts end, and its operations fail
// with [ErrCanceled] or [ErrDeadline]. After a crash it resumes: recorded steps are not
// done again, and it has the time that was left. The run ends as its function returns:
// canceled with an error, completed without.
//
// A run that sleeps or waits for a worker when it is canceled, or when its deadline passes, is
// claimed once more, if it has recorded anything. Its function is replayed, and what it waited for
// fails with [ErrCanceled] or [ErrDeadline], so that it reaches its cleanup as if it had been in
// memory. A run that has recorded nothing ends at once, without its code.
//
// Fn has a branch of its own, like those of [Go]. It may use steps, sleeps, values and
// branches. It should start no children. Cleanup returns the error of fn.
func Cleanup(ctx Context, limit time.Duration, fn func(ctx Context) error) error {
	if limit <= 0 {
		limit = cleanupLimit
	}
	return ctx.branch.Cleanup(limit, func(b *exec.Branch) error { return fn(Context{branch: b, codec: ctx.codec}) })
}
