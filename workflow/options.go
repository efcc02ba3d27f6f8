package workflow

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
)

// Option configures a workflow.
type Option func(*options)

type options struct {
	name, version, queue string
	retry                exec.Policy
	graph                []byte
}

// Version sets a version, which becomes part of the workflow's name in the store.
// Give a new one to code that existing runs' records do not fit, and keep the old
// one registered until its runs are done.
func Version(v string) Option { return func(o *options) { o.version = v } }

// Queue sets the workflow's default queue. Default: the workflow's name.
func Queue(name string) Option { return func(o *options) { o.queue = name } }

// RunAttempts sets how often a run is tried: a run that returns an error goes on
// from what it completed, and what failed is tried again. Default 1; negative: for
// ever. [Permanent] errors, and panics of the workflow's own code, are not tried
// again.
func RunAttempts(n int) Option { return func(o *options) { o.retry.Attempts = n } }

// RunBackoff sets the wait between the attempts of a run, as [Backoff] does.
// Default: 1 s, 2, 1 min.
func RunBackoff(initial time.Duration, factor float64, limit time.Duration) Option {
	return func(o *options) { o.retry.Initial, o.retry.Factor, o.retry.Max = initial, factor, limit }
}

// Graph attaches a picture of the workflow, a JSON value of whatever form, for tools to
// show, of up to 60 KB. Workers put it into the store with the definition,
// and [engine.Engine.Definitions] reads it. Package flow does so for flows.
func Graph(json []byte) Option { return func(o *options) { o.graph = json } }

// StepOption configures a step.
type StepOption func(*exec.StepOptions)

func stepOptions(opts []StepOption) exec.StepOptions {
	o := exec.StepOptions{Retry: exec.Policy{Attempts: 5, Initial: time.Second, Factor: 2, Max: time.Minute}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Attempts sets how often a step is tried. Default 5; negative: for ever.
func Attempts(n int) StepOption { return func(o *exec.StepOptions) { o.Retry.Attempts = n } }

// Backoff sets the wait behind the first failed attempt, by what it grows, and
// what it does not exceed. Up to a fifth is taken off at random. Default: 1 s, 2,
// 1 min.
func Backoff(initial time.Duration, factor float64, limit time.Duration) StepOption {
	return func(o *exec.StepOptions) { o.Retry.Initial, o.Retry.Factor, o.Retry.Max = initial, factor, limit }
}

// Timeout bounds each attempt: its context ends after d. The step's function must
// heed its context; it is not left behind. One that does not is named in the worker's log
// and by Explain. Default: none.
func Timeout(d time.Duration) StepOption { return func(o *exec.StepOptions) { o.Timeout = d } }

// NonRetryable says that errors which match one of these, by errors.Is, are not
// worth another attempt.
func NonRetryable(errs ...error) StepOption {
	return RetryIf(func(err error) bool {
		for _, target := range errs {
			if errors.Is(err, target) {
				return false
			}
		}
		return true
	})
}

// RetryIf decides which errors are worth another attempt. Several of these
// options must all agree.
func RetryIf(worth func(error) bool) StepOption {
	return func(o *exec.StepOptions) {
		before := o.Retry.Retryable
		o.Retry.Retryable = func(err error) bool { return worth(err) && (before == nil || before(err)) }
	}
}
