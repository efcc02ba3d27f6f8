// Package runner runs cases: observed, under supervision, or side by side under the race
// detector.
package runner

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// Recorder is a TB whose failure is observed instead of reported. Cleanups and
// directories are those of the test that it runs in.
type Recorder struct {
	testing.TB
	mu      sync.Mutex
	failed  bool
	skipped bool
	log     strings.Builder
}

// Do runs f to its end, be that a return, FailNow, SkipNow or a panic.
func (r *Recorder) Do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				r.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (r *Recorder) Helper()         {}
func (r *Recorder) Log(args ...any) { r.write(fmt.Sprintln(args...)) }

func (r *Recorder) Logf(format string, args ...any) {
	r.write(fmt.Sprintf(format, args...) + "\n")
}

func (r *Recorder) Error(args ...any) { r.Log(args...); r.Fail() }

func (r *Recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.Fail()
}

func (r *Recorder) Fatal(args ...any) { r.Log(args...); r.FailNow() }

func (r *Recorder) Fatalf(format string, args ...any) {
	r.Logf(format, args...)
	r.FailNow()
}

func (r *Recorder) Skip(args ...any) { r.Log(args...); r.SkipNow() }

func (r *Recorder) Skipf(format string, args ...any) {
	r.Logf(format, args...)
	r.SkipNow()
}

func (r *Recorder) Fail()         { r.set(&r.failed) }
func (r *Recorder) FailNow()      { r.Fail(); runtime.Goexit() }
func (r *Recorder) SkipNow()      { r.set(&r.skipped); runtime.Goexit() }
func (r *Recorder) Failed() bool  { return r.is(&r.failed) }
func (r *Recorder) Skipped() bool { return r.is(&r.skipped) }

func (r *Recorder) write(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.WriteString(s)
}

func (r *Recorder) set(b *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*b = true
}

func (r *Recorder) is(b *bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *b
}

func (r *Recorder) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// Broken is the first line of a failure: what is broken, and its rule.
func Broken(name, promise, rule string) string {
	if promise == "" {
		return fmt.Sprintf("%s is broken: %s", name, rule)
	}
	return fmt.Sprintf("%s breaks %s: %s", name, promise, rule)
}
