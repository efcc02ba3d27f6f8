package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// StartOption configures a start. Of several options of one kind, the last one counts. Values that are
// out of range make the start fail with store.ErrInvalid.
type StartOption func(*store.NewRun)

// Suffix sets the suffix of the external id. Runs with the same external id and different
// suffixes are independent of each other. A suffix without an external id is store.ErrInvalid.
func Suffix(s string) StartOption { return func(r *store.NewRun) { r.Suffix = s } }

// RunID sets the run's own ID, for programs that must know it before the start. By default, and for
// the zero ID, a new one is made. Two starts with one ID create one run: the second one succeeds,
// and its Started.Existing is false. If a run of another namespace has the ID, the start fails with
// store.ErrAlreadyExists. If the program has an id of its own, use [ExternalID] instead.
func RunID(id store.ID) StartOption { return func(r *store.NewRun) { r.ID = id } }

// Queue puts the run into another queue than its workflow's. The run waits there until a
// worker that has the workflow serves that queue: see worker.Queues.
func Queue(name string) StartOption { return func(r *store.NewRun) { r.Queue = name } }

// Priority sets the run's priority, from -100 to 100. Runs of higher priority are claimed
// first. The default is 0.
func Priority(p int) StartOption { return func(r *store.NewRun) { r.Priority = p } }

// Delay makes the run start no earlier than d from now, by the store's clock. If [At] is given too,
// the later of the two times counts. A negative d is store.ErrInvalid.
func Delay(d time.Duration) StartOption { return func(r *store.NewRun) { r.After = d } }

// At sets the earliest time at which the run starts, by the store's clock. A time in the past, and
// the zero time, mean now.
func At(t time.Time) StartOption { return func(r *store.NewRun) { r.At = t } }

// Timeout gives the run a deadline, counted from its creation. When the deadline passes, the run's
// operations fail with workflow.ErrDeadline, and the run fails with workflow.CodeDeadline. The
// default, also for 0, is none. A negative d is store.ErrInvalid.
func Timeout(d time.Duration) StartOption { return func(r *store.NewRun) { r.Timeout = d } }

// Debounce makes the start replace the run of the workflow and the key that has not begun, if there is
// one: it gets this start's input, tags, limits and [Timeout], and begins when no further start has come
// for the time quiet, but at most atMost after its creation; 0: without such a limit. The start then
// returns that run, with Started.Existing set. Otherwise it creates a run, which begins after the time
// quiet. Thus a run begins with the input of the last of several starts, no input is lost, and none is
// executed twice. A start that is sent again has no second effect within store.DebounceMemory.
//
// Debounce sets the [Delay]. The start cannot have an [ExternalID]. A key has at most 512 bytes of UTF-8;
// an empty key means none. An atMost that is shorter than quiet is store.ErrInvalid.
func Debounce(key string, quiet, atMost time.Duration) StartOption {
	return func(r *store.NewRun) { r.Debounce, r.After, r.AtMost = key, quiet, atMost }
}

// Tags gives the run tags: names with values by which lists, counts and actions on many runs find it
// (see [store.RunFilter].Tags), such as {"customer": "4711"}. A start that finds an existing run does
// not change that run's tags. Tags that [store.Tags.Validate] refuses make the start fail.
func Tags(tags map[string]string) StartOption {
	return func(r *store.NewRun) { r.Tags = store.Tags(tags).Clone() }
}

// WithTags returns a filter that selects the runs that have all of these tags.
func WithTags(tags map[string]string) store.RunFilter {
	var f store.RunFilter
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		f.Tags = append(f.Tags, store.TagMatch{Name: name, Values: []string{tags[name]}})
	}
	return f
}

// Started is the outcome of a start.
type Started struct {
	ID store.ID
	// Existing says that another run has the external id (see [ExternalID]), or was replaced (see
	// [Debounce]): ID is that of the other run, and no run was created.
	Existing bool
}

// Start creates a run of a workflow, by name, with an encoded input. The run is durable
// when Start returns. Concurrent starts share one write. Most programs use the typed Start
// of their workflow.
//
// It fails with
//
//   - [ErrUnknownWorkflow] or [ErrNoWorker]: see [Require];
//   - [ErrPlain]: the workflow's workers take only encrypted inputs, and this engine's codec
//     does not encrypt;
//   - store.ErrInvalid or store.ErrTooLarge;
//   - store.ErrConflict: the run that has the id is of another workflow or input;
//   - store.ErrAlreadyExists: see [Reject]; or another namespace has the [RunID];
//   - store.ErrFinished: see [WithSignal];
//   - after [RetryFor], store.ErrUnavailable if no run was created, or
//     store.ErrOutcomeUnknown if one may have been: start again with the same [RunID] or
//     [ExternalID].
//
// A start whose context ends may or may not have created a run.
func (e *Engine) Start(ctx context.Context, workflow string, input []byte, opts ...StartOption) (started Started, err error) {
	ctx, end := e.telemetry().StartRun(ctx, workflow)
	defer func() { end(started.ID, started.Existing, err) }()
	run := store.NewRun{Workflow: workflow, Input: input, Meta: telemetry.Inject(ctx)}
	fresh, err := e.prepare(ctx, &run, nil, opts)
	if err != nil {
		return Started{}, err
	}
	if e.root != nil {
		began := time.Now()
		runs := []store.NewRun{run}
		results, err := e.store.Create(ctx, store.CreateParams{Namespace: e.namespace, Runs: runs})
		e.telemetry().Made(runs, results, time.Since(began), err)
		if err == nil {
			err = results[0].Err
		}
		if err != nil {
			return Started{ID: run.ID}, startError(workflow, err)
		}
		return Started{ID: results[0].ID, Existing: !results[0].Created}, nil
	}
	// Only a run whose ID is new: one that was perhaps started before may be held by
	// the local worker already, under the very lease that a repetition is told.
	var worker bridge.LocalWorker
	if fresh && run.Signal == nil {
		worker = e.local.reserve(&run)
	}
	asked := time.Now()
	res, err := e.startOne(ctx, &run)
	if worker != nil {
		e.adopt(worker, run, asked, res, err)
	}
	if err != nil {
		return Started{ID: run.ID}, startError(workflow, err)
	}
	return Started{ID: res.ID, Existing: !res.Created}, nil
}

// Item is one of the starts of [Engine.StartMany].
type Item struct {
	Input   []byte // encoded
	Options []StartOption
}

// StartMany creates many runs of a workflow in few writes, of up to 1,000 runs and some
// megabytes each. The outcomes are in the order of the items. Errors are those of
// [Engine.Start]. If it fails, the outcomes with an ID are those of items that were started;
// other items may have been started too if the error matches store.ErrOutcomeUnknown.
func (e *Engine) StartMany(ctx context.Context, workflow string, items []Item) (started []Started, err error) {
	ctx, end := e.telemetry().StartMany(ctx, workflow, len(items))
	defer func() { end(err) }()
	meta := telemetry.Inject(ctx)
	started = make([]Started, len(items))
	runs := make([]store.NewRun, len(items))
	var known *knownQueue
	if len(items) > 0 {
		found, err := e.registered(ctx, workflow)
		if err != nil {
			return started, err
		}
		known = &found
	}
	for i, item := range items {
		runs[i] = store.NewRun{Workflow: workflow, Input: item.Input, Meta: meta}
		if _, err := e.prepare(ctx, &runs[i], known, item.Options); err != nil {
			return started, fmt.Errorf("item %d: %w", i, err)
		}
	}
	at := 0
	for part := range parts(runs) {
		results, err := e.createMany(ctx, part)
		for _, res := range results {
			if res.Err != nil {
				return started, fmt.Errorf("item %d: %w", at, startError(workflow, res.Err))
			}
			started[at] = Started{ID: res.ID, Existing: !res.Created}
			at++
		}
		if err != nil {
			return started, startError(workflow, err)
		}
	}
	return started, nil
}

// prepare fills in and checks a run that is to be made; known: what is registered of its
// workflow, if that was asked for already; fresh: it was given its ID.
func (e *Engine) prepare(ctx context.Context, run *store.NewRun, known *knownQueue, opts []StartOption) (fresh bool, err error) {
	if e.fault != nil {
		return false, startError(run.Workflow, e.fault)
	}
	for _, opt := range opts {
		opt(run)
	}
	if fresh = run.ID.IsZero(); fresh {
		run.ID = store.NewID()
	}
	if known == nil {
		found, err := e.registered(ctx, run.Workflow)
		if err != nil {
			return fresh, err
		}
		known = &found
	}
	if run.Queue == "" {
		run.Queue = known.queue
	}
	if run.Under, err = usesOf(run.Workflow, known.needs, run.Under); err != nil {
		return fresh, startError(run.Workflow, err)
	}
	if err := e.checkStart(run.Workflow, run.Input); err != nil {
		return fresh, err
	}
	if e.require == RequireOnline {
		if err := e.checkOnline(ctx, run.Queue, run.Workflow); err != nil {
			return fresh, err
		}
	}
	if err := e.compare(run, fresh); err != nil {
		return fresh, err
	}
	if run.Signal != nil {
		if err := e.prepareSignal(ctx, run); err != nil {
			return fresh, err
		}
	}
	if err := run.Validate(e.store.Limits()); err != nil {
		return fresh, startError(run.Workflow, err)
	}
	e.weigh("the input of workflow "+run.Workflow, run.Input)
	return fresh, nil
}

// weigh warns of a large payload.
func (e *Engine) weigh(what string, payload []byte) {
	if l := e.store.Limits(); l.Warn > 0 && len(payload) > l.Warn {
		e.log.Warn("large payload: keep the data elsewhere and pass a reference", "what", what, "bytes", len(payload), "limit", l.Payload)
	}
}

func startError(workflow string, err error) error {
	return fmt.Errorf("start of workflow %q: %w", workflow, err)
}

// know notes that this process has a worker for a workflow, so that starts need not ask the
// store.
func (e *Engine) know(workflow, queue string, needs []exec.LimitNeed) {
	e.base().known.Store(workflow, knownQueue{queue: queue, needs: needs})
}

// knownQueue is a workflow's queue, and what else starts must know of it.
type knownQueue struct {
	queue      string
	needs      []exec.LimitNeed // the limits that its runs are under
	encryption Encryption       // of its workers, where another process serves it
	until      time.Time        // zero: this process serves it
}

// A workflow that was looked up may be registered with another queue later.
const knownFor = time.Minute

// registered finds what some worker must have registered of a workflow. What was found is
// remembered for a while.
func (e *Engine) registered(ctx context.Context, workflow string) (knownQueue, error) {
	known := &e.base().known
	if v, ok := known.Load(workflow); ok {
		if k := v.(knownQueue); k.until.IsZero() || time.Now().Before(k.until) {
			return k, nil
		}
	}
	if err := store.ValidateName("workflow", workflow); err != nil {
		return knownQueue{}, err
	}
	var found []store.Workflow
	var err error
	if e.root != nil {
		found, err = e.listWorkflow(ctx, workflow)
	} else {
		// Starts of a workflow that nobody has registered yet ask each time, together.
		var l lookup
		if l, _, err = e.lookups.Do(ctx, workflow); err == nil {
			found, err = l.found, l.err
		}
	}
	switch {
	case err != nil:
		return knownQueue{}, startError(workflow, err)
	case len(found) > 0:
		return e.remember(found[0]), nil
	case e.require == RequireNothing:
		return knownQueue{queue: workflow}, nil
	}
	return knownQueue{}, fmt.Errorf("start of workflow %q in namespace %q: %w: no worker has ever registered it; check the name, register it with worker.Register and run that worker once, or let starts wait for one with engine.Require(engine.RequireNothing)",
		workflow, e.namespace, ErrUnknownWorkflow)
}

func (e *Engine) listWorkflow(ctx context.Context, names ...string) (found []store.Workflow, err error) {
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		found, err = store.AllWorkflows(ctx, e.store, store.ListWorkflowsParams{Namespace: e.namespace, Names: names})
		return err
	})
	return found, err
}

// lookup is what is known of a workflow: it, or nothing.
type lookup struct {
	found []store.Workflow
	err   error
}

// lookUp asks for the workflows of concurrent starts.
func (e *Engine) lookUp(names []string) ([]lookup, error) {
	out := make([]lookup, len(names))
	all := slices.Compact(slices.Sorted(slices.Values(names)))
	found, err := e.listWorkflow(context.Background(), all...)
	for i, name := range names {
		if out[i].err = err; err != nil {
			continue
		}
		for j := range found {
			if found[j].Name == name {
				out[i].found = found[j : j+1]
			}
		}
	}
	return out, nil
}
