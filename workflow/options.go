package workflow

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
)

// Option configures a workflow. Of several options of one kind, the last one counts.
type Option func(*options)

type options struct {
	name, version, queue string
	retry                exec.Policy
	graph                []byte
	pinned               bool
	under                []under
}

// Version sets a version, which becomes part of the workflow's name in the store: a workflow "pay" of
// version "2" has the name "pay@2". The default, also for "", is no version. Give a
// new version to code that the records of existing runs do not fit, and keep the old one
// registered until its runs are done.
func Version(v string) Option { return func(o *options) { o.version = v } }

// Queue sets the workflow's default queue. The default, also for "", is the workflow's name, with its
// version.
func Queue(name string) Option { return func(o *options) { o.queue = name } }

// Pinned keeps each run on the build that started it, until the run ends or continues as new:
// workers of other builds do not claim it once it has recorded anything. Without it, a worker of
// any build continues a run whose history fits its code. For the builds of workers, see
// worker.Build.
func Pinned() Option { return func(o *options) { o.pinned = true } }

// RunAttempts sets how often a run is tried. A run that returns an error resumes from what
// it has completed, and what failed is tried again. The default is 1, and 0 means the same; a negative
// n means without limit. [Permanent] errors, and panics of the workflow's own code, are not tried
// again.
func RunAttempts(n int) Option { return func(o *options) { o.retry.Attempts = n } }

// RunBackoff sets the wait between the attempts of a run, as [Backoff] does for a step. The default is
// RunBackoff(time.Second, 2, time.Minute).
func RunBackoff(initial time.Duration, factor float64, limit time.Duration) Option {
	return func(o *options) { o.retry.Initial, o.retry.Factor, o.retry.Max = initial, factor, limit }
}

// Graph attaches a picture of the workflow for tools to show: any JSON value of up to 60
// KB. Workers put it into the store with the definition, and [engine.Engine.Definitions]
// reads it. Package flow attaches the picture of a flow.
//
// With a graph, the branches that the workflow's function starts with [Go] count as the nodes of the
// graph. A node may then be removed from the code: the code still fits histories that have the
// node's branch.
func Graph(json []byte) Option { return func(o *options) { o.graph = json } }

// StepOption configures a step. Of several options of one kind, the last one counts, except where an
// option says otherwise.
type StepOption func(*stepOptions)

type stepOptions exec.StepOptions

func applyStep(opts []StepOption) exec.StepOptions {
	o := stepOptions{Retry: exec.Policy{Attempts: 5, Initial: time.Second, Factor: 2, Max: time.Minute}}
	for _, opt := range opts {
		opt(&o)
	}
	return exec.StepOptions(o)
}

// Attempts sets how often a step is tried, including the first time. The default is 5; 0 means 1, and a
// negative n means without limit.
func Attempts(n int) StepOption { return func(o *stepOptions) { o.Retry.Attempts = n } }

// Backoff sets the wait after the first failed attempt, the factor by which it grows with each further
// attempt, and its limit; 0 means no limit. Each wait is shortened at random, by up to a fifth, so
// that steps that failed together are not tried again together. The default is
// Backoff(time.Second, 2, time.Minute).
func Backoff(initial time.Duration, factor float64, limit time.Duration) StepOption {
	return func(o *stepOptions) { o.Retry.Initial, o.Retry.Factor, o.Retry.Max = initial, factor, limit }
}

// Timeout limits each attempt: its context ends after d. The step's function must return when its
// context ends; it is not abandoned. The worker's log and [engine.Engine.Explain] name a function that
// does not. The failure of such an attempt has [CodeTimeout]. The default, also for 0 or less, is
// none.
func Timeout(d time.Duration) StepOption { return func(o *stepOptions) { o.Timeout = d } }

// NonRetryable makes errors that match one of these, by errors.Is, permanent: the step is not tried
// again. It adds to other options NonRetryable and [RetryIf].
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

// RetryIf sets a function that decides whether the step is tried again after an error. With several of
// these options, all of the functions must return true. [Permanent] errors are not tried again,
// whatever the function returns.
func RetryIf(worth func(error) bool) StepOption {
	return func(o *stepOptions) {
		before := o.Retry.Retryable
		o.Retry.Retryable = func(err error) bool { return worth(err) && (before == nil || before(err)) }
	}
}
