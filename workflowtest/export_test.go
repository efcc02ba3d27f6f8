package workflowtest

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pawlhq/pawl/workflow"
)

// CrashWith is CrashEverywhere that hands what it finds to complain.
func CrashWith[In, Out any](t *testing.T, complain func(format string, args ...any), w *workflow.Workflow[In, Out], in In, opts ...CrashOption) {
	crashEverywhere(t, complain, w, in, opts)
}

// fatal is a testing.TB that tells how a test was ended, and ends it all the same.
type fatal struct {
	testing.TB
	told string
}

func (f *fatal) Fatal(args ...any) {
	f.told = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fatal) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// Fatal runs f and returns why it has ended the test; empty: it has not.
func Fatal(env *Env, f func()) string {
	tb := &fatal{TB: env.TB}
	env.TB = tb
	defer func() { env.TB = tb.TB }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	return tb.told
}
