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
	pinned               bool
}

// Version sets a version, which becomes part of the workflow's name in the store. Give a
// new version to code that the records of existing runs do not fit, and keep the old one
// registered until its runs are done.
func Version(v string) Option { return func(o *options) { o.version = v } }

// Queue sets the workflow's default queue. The default is the workflow's name.
func Queue(name string) Option { return func(o *options) { o.queue = name } }

// Pinned keeps each run on the build that started it, until the run ends or continues as new:
// workers of other builds do not claim it once it has recorded anything. Without it, a worker of
// any build continues a run whose history fits its code. For the builds of workers, see
// worker.Build.
func Pinned() Option { return func(o *options) { o.pinned = true } }

// RunAttempts sets how often a run is tried. A run that returns an error resumes from what
// it has completed, and what failed is tried again. The default is 1; a negative n means
// without limit. [Permanent] errors, and panics of the workflow's own code, are not tried
// again.
func RunAttempts(n int) Option { return func(o *options) { o.retry.Attempts = n } }

// RunBackoff sets the wait between the attempts of a run, as [Backoff] does. The default is
// 1 s, 2, 1 min.
func RunBackoff(initial time.Duration, factor float64, limit time.Duration) Option {
	return func(o *options) { o.retry.Initial, o.retry.Factor, o.retry.Max = initial, factor, limit }
}

// Graph attaches a picture of the workflow for tools to show: any JSON value of up to 60
// KB. Workers put it into the store with the definition, and [engine.Engine.Definitions]
// reads it. Package flow attaches the picture of a flow.
//
// The branches that the workflow's function forks with [Go] are the nodes of the graph. Code
// from which a node was removed fits histories that have its branch.
func Graph(json []byte) Option { return func(o *options) { o.graph = json } }

// StepOption configures a step.
type StepOption func(*stepOptions)

type stepOptions exec.StepOptions

func applyStep(opts []StepOption) exec.StepOptions {
	o := stepOptions{Retry: exec.Policy{Attempts: 5, Initial: time.Second, Factor: 2, Max: time.Minute}}
	for _, opt := range opts {
		opt(&o)
	}
	return exec.StepOptions(o)
}

// Attempts sets how often a step is tried. The default is 5; a negative n means without
// limit.
func Attempts(n int) StepOption { return func(o *stepOptions) { o.Retry.Attempts = n } }

// Backoff sets the wait after the first failed attempt, the factor by which it grows, and
// its limit. Up to a fifth is taken off at random. The default is 1 s, 2, 1 min.
func Backoff(initial time.Duration, factor float64, limit time.Duration) StepOption {
	return func(o *stepOptions) { o.Retry.Initial, o.Retry.Factor, o.Retry.Max = initial, factor, limit }
}

// Timeout limits each attempt: its context ends after d. The step's function must return when its
// context ends; it is not abandoned. The worker's log and Explain name a function that does not.
// The default is none.
func Timeout(d time.Duration) StepOption { return func(o *stepOptions) { o.Timeout = d } }

// NonRetryable makes errors that match one of these, by errors.Is, not worth another
// attempt.
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

// RetryIf sets a function that decides which errors are worth another attempt. With several
// of these options, all must agree.
func RetryIf(worth func(error) bool) StepOption {
	return func(o *stepOptions) {
		before := o.Retry.Retryable
		o.Retry.Retryable = func(err error) bool { return worth(err) && (before == nil || before(err)) }
	}
}
