package workflow

// Changed decides which of two versions of the code a run follows. Use it to change the code of a
// workflow that has runs in progress.
//
//	if workflow.Changed(ctx, "fraud-check") {
//		if err := workflow.Do(ctx, "check", check); err != nil {
//			return err
//		}
//	}
//
// It returns true for a run that reaches this point for the first time, and the answer is recorded:
// the run gets it at each replay. It returns false for a run whose history is already past this
// point, and such a run gets false at each replay. For false nothing is recorded, because the
// history itself shows it, and code from before the change can still read that history after a
// rollback.
//
// The name identifies the mark within its branch, where the code may ask for it once. In a loop,
// call Changed before the loop and use its answer in each iteration: a run that is in the loop
// keeps the old version for all iterations. To decide anew in each iteration, give each iteration's
// mark a name of its own, for example with the iteration's number. A branch that asks for one mark
// twice fails the run with [CodeMark]; the failure says what to do.
//
// Each branch ([Go], [Group]) decides its own marks, and so does each child run. A run that is
// restarted decides again the marks whose records the restart deletes. ContinueAsNew begins a new
// history, in which every mark is true.
//
// When all runs that got false have ended, delete the old path and put [Deprecated] in
// place of Changed.
func Changed(ctx Context, mark string) bool { return ctx.branch.Changed(mark) }

// Deprecated replaces [Changed] when the code's old path has been deleted. Runs that got true
// continue after it. It records the mark for new runs, so that code with Changed can still read
// their histories, and code without either can, too.
//
// A run that got false no longer fits the code. The error says which mark it lacks.
//
// Delete the call when all runs have ended that got true from Changed itself.
func Deprecated(ctx Context, mark string) { ctx.branch.Deprecated(mark) }
