package store

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Size limits of every backend, in bytes.
const (
	MaxName       = 255       // namespaces, queues, workflows, steps, keys, ...
	MaxExternalID = 512       // external ids and suffixes
	MaxMeta       = 64 << 10  // Meta fields
	MaxFailure    = 256 << 10 // a failure's fields together
)

// MaxBatch limits the items of one call. Split larger work: a call with more items is ErrInvalid as
// a whole.
const MaxBatch = 10_000

// clip shortens user input for an error message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:61] + "..."
	}
	return s
}

// ValidateName checks a name: 1 to [MaxName] bytes of UTF-8 without control characters and without
// space at either end. Every name of the contract follows this rule, including branch paths.
func ValidateName(field, s string) error {
	switch {
	case s == "":
		return Invalid(field, "it is empty; give it a name")
	case len(s) > MaxName:
		return Invalid(field, fmt.Sprintf("%q has %d bytes; at most %d are allowed", clip(s), len(s), MaxName))
	case !utf8.ValidString(s):
		return Invalid(field, fmt.Sprintf("%q is not valid UTF-8", clip(s)))
	case strings.TrimSpace(s) != s:
		return Invalid(field, fmt.Sprintf("%q begins or ends with space", clip(s)))
	case strings.ContainsFunc(s, unicode.IsControl):
		return Invalid(field, fmt.Sprintf("%q contains a control character", clip(s)))
	}
	return nil
}

func optionalName(field, s string) error {
	if s == "" {
		return nil
	}
	return ValidateName(field, s)
}

func externalID(field, s string) error {
	switch {
	case len(s) > MaxExternalID:
		return Invalid(field, fmt.Sprintf("%q has %d bytes; at most %d are allowed", clip(s), len(s), MaxExternalID))
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return Invalid(field, fmt.Sprintf("%q is not valid UTF-8 text", clip(s)))
	}
	return nil
}

func size(field string, n, limit int) error {
	if n > limit {
		return &TooLargeError{Field: field, Size: n, Limit: limit}
	}
	return nil
}

func failureSize(field string, f *Failure) error {
	return size(field, f.size(), MaxFailure)
}

func batch(field string, n int) error {
	if n > MaxBatch {
		return Invalid(field, fmt.Sprintf("%d items in one call; at most %d are allowed", n, MaxBatch))
	}
	return nil
}

func maxBytes(n int) error {
	if n < 0 {
		return Invalid("max bytes", fmt.Sprintf("%d is negative", n))
	}
	return nil
}

func duration(field string, d time.Duration) error {
	if d < 0 {
		return Invalid(field, fmt.Sprintf("%v is negative", d))
	}
	return nil
}

func lease(worker string, d time.Duration) error {
	if d <= 0 {
		return Invalid("lease duration", fmt.Sprintf("%v is not positive", d))
	}
	return ValidateName("worker", worker)
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Page returns the number of rows of a page: the default for 0, and an error for a number out of
// range.
func Page(limit int) (int, error) {
	switch {
	case limit == 0:
		return 100, nil
	case limit < 0 || limit > MaxPage:
		return 0, Invalid("limit", fmt.Sprintf("%d is not between 0 and %d", limit, MaxPage))
	}
	return limit, nil
}

// FewIDs is the length from which a prefix of IDs selects few runs: IDs of [NewID] that share eight
// digits were made within about a minute.
const FewIDs = 8

// Few reports whether a filter selects few runs, with an index of its own.
func (f *RunFilter) Few() bool {
	return !f.Parent.IsZero() || f.ExternalID != "" || len(f.IDPrefix) >= FewIDs
}

// FewBuilds is the largest number of builds in PinnedTo for which an index on the build is read.
const FewBuilds = 16

// ByBuild reports whether a filter selects unfinished runs by an index on their build.
func (f *RunFilter) ByBuild() bool {
	return len(f.PinnedTo) > 0 && len(f.PinnedTo) <= FewBuilds && !f.Few() && f.ByTag() == nil
}

// Wants reports whether a filter may select runs of a status.
func (f *RunFilter) Wants(s Status) bool {
	if !s.Final() && !(f.FinishedAfter.IsZero() && f.FinishedBefore.IsZero()) {
		return false
	}
	return len(f.Statuses) == 0 || slices.Contains(f.Statuses, s)
}

// Wanted lists the statuses of which a filter may select runs.
func (f *RunFilter) Wanted() []Status {
	return slices.DeleteFunc(Statuses(), func(s Status) bool { return !f.Wants(s) })
}

// IDRange returns the lowest and the highest ID whose text begins with prefix.
func IDRange(prefix string) (lo, hi ID, err error) {
	digits := strings.ReplaceAll(strings.ToLower(prefix), "-", "")
	if len(digits) > 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return lo, hi, Invalid("id prefix", fmt.Sprintf("%q does not begin a run id", clip(prefix)))
	}
	for i := range 32 {
		l, h := uint64(0), uint64(15)
		if i < len(digits) {
			l, _ = strconv.ParseUint(digits[i:i+1], 16, 8)
			h = l
		}
		shift := 4 * (1 - i%2)
		lo[i/2] |= byte(l << shift)
		hi[i/2] |= byte(h << shift)
	}
	return lo, hi, nil
}

// Validate checks the call; each run is checked by [NewRun.Validate].
func (p *CreateParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("runs", len(p.Runs)))
}

// Validate checks a run that Create is to create.
func (r *NewRun) Validate(l Limits) error {
	if r.Group != "" || r.Ordinal != 0 || r.OnClose != CloseCancel {
		return Invalid("group", "only a child has a group; spawn children in a commit of their parent")
	}
	if r.Worker == "" && r.Build != "" {
		return Invalid("build", "a run without a worker cannot have a build")
	}
	if r.Worker == "" && r.LeaseFor != 0 {
		return Invalid("worker", "it is empty, but a lease duration is set")
	}
	if r.Worker != "" {
		if r.After != 0 || !r.At.IsZero() {
			return Invalid("worker", "a run that starts later cannot be leased at its creation")
		}
		if err := lease(r.Worker, r.LeaseFor); err != nil {
			return err
		}
	}
	return first(r.validateSignal(l), r.validate(l))
}

func (r *NewRun) validate(l Limits) error {
	if r.ID.IsZero() {
		return Invalid("run id", "it is zero; make one with NewID or DeriveID")
	}
	if r.Priority < MinPriority || r.Priority > MaxPriority {
		return Invalid("priority", fmt.Sprintf("%d is not between %d and %d", r.Priority, MinPriority, MaxPriority))
	}
	if r.ExternalID == "" && r.Suffix != "" {
		return Invalid("suffix", "it needs an external id")
	}
	return first(
		r.validateReuse(),
		r.validateDebounce(),
		ValidateName("workflow", r.Workflow),
		ValidateName("queue", r.Queue),
		externalID("external id", r.ExternalID),
		externalID("suffix", r.Suffix),
		optionalName("build", r.Build),
		size("input", len(r.Input), l.Payload),
		size("meta", len(r.Meta), MaxMeta),
		duration("start delay", r.After),
		duration("timeout", r.Timeout),
		CheckUses(r.Under, nil),
		r.Tags.Validate(),
	)
}

func (r *NewRun) validateChild(l Limits) error {
	switch {
	case r.ExternalID != "":
		return Invalid("external id", "a child cannot have an external id")
	case r.Worker != "" || r.Build != "":
		return Invalid("worker", "a child cannot be leased at its creation")
	case len(r.Digest) > 0:
		return Invalid("digest", "a child has no digest")
	case r.Signal != nil:
		return Invalid("signal", "a child cannot be created with a signal")
	case r.Group == "" && r.Ordinal != 0:
		return Invalid("ordinal", "it needs a group")
	case r.Group != "" && r.Ordinal < 1:
		return Invalid("ordinal", "ordinals in a group start at 1")
	case r.OnClose > CloseAbandon:
		return Invalid("close policy", "it is neither cancel nor abandon")
	}
	return first(optionalName("group", r.Group), noDebounce("a child", r), r.validate(l))
}

// Validate checks the call.
func (p *GetParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("ids", len(p.IDs)), maxBytes(p.MaxBytes))
}

// Validate checks the call.
func (p *FindParams) Validate() error {
	if p.ExternalID == "" {
		return Invalid("external id", "it is empty")
	}
	return ValidateName("namespace", p.Namespace)
}

func (f *RunFilter) validate() error {
	for _, s := range f.Statuses {
		if s < Pending || s > Canceled {
			return Invalid("status", fmt.Sprintf("unknown status %v", s))
		}
	}
	if f.MinAttempt < 0 {
		return Invalid("attempts", fmt.Sprintf("%d is negative", f.MinAttempt))
	}
	_, _, err := IDRange(f.IDPrefix)
	return first(err, validateBuilds(f.PinnedTo), f.validateTags(), optionalName("workflow", f.Workflow), optionalName("queue", f.Queue),
		plainText("failure code", f.FailureCode), plainText("failure text", f.FailureText), plainText("step name", f.FailedStep))
}

// plainText checks a text to search for.
func plainText(field, s string) error {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return Invalid(field, fmt.Sprintf("%q is not valid UTF-8 text", clip(s)))
	}
	return size(field, len(s), MaxFailure)
}

// Validate checks the call, without its cursor.
func (p *ListParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), p.Filter.validate(), err, maxScan(p.MaxScan))
}

// Validate checks the call.
func (p *CountParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), p.Filter.validate(), maxScan(p.MaxScan))
}

func maxScan(n int) error {
	if n < 0 {
		return Invalid("runs to look at", fmt.Sprintf("%d is negative", n))
	}
	return nil
}

// Validate checks the call.
func (p *ChildrenParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), ValidateName("group", p.Group), err, maxBytes(p.MaxBytes))
}

// Validate checks the call.
func (p *StepsParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err, maxBytes(p.MaxBytes))
}

// Validate checks the call.
func (p *CancelParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("ids", len(p.IDs)), size("reason", len(p.Reason), MaxFailure), recordOf(p.Record, p.IDs))
}

// Validate checks the call.
func (p *PauseParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("ids", len(p.IDs)), recordOf(p.Record, p.IDs))
}

// Validate checks the call.
func (p *RestartParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("ids", len(p.IDs)), recordOf(p.Record, p.IDs))
}

// Validate checks the call.
func (p *ForkParams) Validate() error {
	if p.New.IsZero() {
		return Invalid("run id", "the fork needs a new run id")
	}
	return first(ValidateName("namespace", p.Namespace), validateRecord(p.Record, 1))
}

// Validate checks the call.
func (p *PurgeParams) Validate() error {
	for _, s := range p.Statuses {
		if !s.Final() {
			return Invalid("status", fmt.Sprintf("%v is not final; only final runs are purged", s))
		}
	}
	if p.Limit < 0 || p.Limit > MaxBatch {
		return Invalid("limit", fmt.Sprintf("%d is not between 0 and %d", p.Limit, MaxBatch))
	}
	return first(ValidateName("namespace", p.Namespace), optionalName("workflow", p.Workflow), duration("age", p.OlderThan), validateRecord(p.Record, 1))
}

// Validate checks the call.
func (p *ClaimParams) Validate() error {
	for _, d := range p.Demands {
		if d.Max < 0 {
			return Invalid("demand", fmt.Sprintf("the maximum of queue %[2]q is negative: %[1]d", d.Max, clip(d.Queue)))
		}
	}
	if p.Max < 0 {
		return Invalid("max", fmt.Sprintf("%d is negative", p.Max))
	}
	if p.ClaimID < 0 || p.Again && p.ClaimID == 0 {
		return Invalid("claim id", fmt.Sprintf("%d is not positive; a claim that can be repeated needs a positive id", p.ClaimID))
	}
	return first(ValidateName("namespace", p.Namespace), lease(p.Worker, p.LeaseFor), optionalName("build", p.Build), maxBytes(p.MaxBytes))
}

// Wanted returns how many runs the claim asks for in total.
func (p *ClaimParams) Wanted() int {
	sum := 0
	for _, d := range p.Demands {
		if len(d.Workflows) > 0 {
			sum += d.Max
		}
	}
	if p.Max > 0 && p.Max < sum {
		return p.Max
	}
	return sum
}

// Validate checks the call.
func (p *ExtendParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), lease(p.Worker, p.LeaseFor), batch("leases", len(p.Leases)))
}

// Validate checks the call; each commit is checked by [Commit.Validate].
func (p *CommitParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("commits", len(p.Commits)))
}

// Validate checks one commit.
func (c *Commit) Validate(l Limits) error {
	if c.Seq < 1 {
		return Invalid("seq", "commits under a lease are numbered from 1")
	}
	if c.Seen < 0 {
		return Invalid("seen", fmt.Sprintf("%d is negative", c.Seen))
	}
	for i := range c.Steps {
		if err := c.Steps[i].validate(l); err != nil {
			return err
		}
		for j := range i { // few: a commit contains what one run did since its last
			if c.Steps[j].StepKey == c.Steps[i].StepKey {
				return Invalid("step "+strconv.Quote(clip(c.Steps[i].String())), "it is recorded twice in one commit")
			}
			if c.Steps[j].Position == c.Steps[i].Position {
				return Invalid("step "+strconv.Quote(clip(c.Steps[i].String())), fmt.Sprintf("another step of the commit has position %d", c.Steps[i].Position))
			}
		}
	}
	if err := validateWrites(c.State, l); err != nil {
		return err
	}
	for _, w := range c.State {
		if w.IfVersion != nil {
			return Invalid("state "+strconv.Quote(clip(w.Key)), "a commit cannot compare versions; use SetState")
		}
	}
	for i := range c.Spawn {
		if err := c.Spawn[i].validateChild(l); err != nil {
			return fmt.Errorf("child %d: %w", i, err)
		}
	}
	switch t := c.Transition; {
	case c.Crashes < 0 || c.Crashes > maxCrashes:
		return Invalid("commit", fmt.Sprintf("Crashes of %d is not between 0 and %d", c.Crashes, maxCrashes))
	case c.Crashes > 0 && t != nil && t.Kind != Release && len(t.Under) == 0:
		return Invalid("commit", "a "+t.Kind.String()+" is progress and cannot keep Crashes; only a release, a wait for permits, or a commit without a transition, can")
	}
	if err := first(c.validatePin(), c.validateTags(), c.validateAnswers(l), c.validateStreams(l), batch("steps", len(c.Steps)), batch("children", len(c.Spawn)), batch("signals", len(c.Consumed))); err != nil {
		return err
	}
	if c.Transition != nil {
		return c.Transition.validate(l)
	}
	return nil
}

// maxCrashes leaves room for expired leases within 32 bits.
const maxCrashes = 1 << 30

// maxCount limits counts of type int: a backend stores them in 32 bits.
const maxCount = math.MaxInt32

func (s *StepRecord) validate(l Limits) error {
	name := "step " + strconv.Quote(clip(s.Name))
	switch {
	case s.Kind < KindFunction || s.Kind > KindMark:
		return Invalid(name, "it has no kind")
	case s.Status < StepPending || s.Status > StepFailed:
		return Invalid(name, "it has no status")
	case s.Position < 1:
		return Invalid(name, "positions start at 1")
	case s.Occurrence < 1:
		return Invalid(name, "occurrences start at 1")
	case s.Index < 0 || s.Attempt < 0:
		return Invalid(name, "its index or attempt is negative")
	case max(s.Occurrence, s.Index, s.Attempt) > maxCount:
		return Invalid(name, fmt.Sprintf("its occurrence, index or attempt is above %d", maxCount))
	}
	return first(
		ValidateName("step name", s.Name),
		optionalName("branch", s.Branch),
		size(name+" output", len(s.Output), l.stepOutput(s.Kind)),
		failureSize(name+" failure", s.Failure),
		earlier(name, s.Earlier),
		duration(name+" duration", s.Took),
		duration(name+" delay", s.DueIn),
	)
}

func earlier(name string, attempts []FailedAttempt) error {
	if len(attempts) > MaxEarlier {
		return Invalid(name, fmt.Sprintf("it has %d earlier attempts; a record keeps %d, the first one and the last ones", len(attempts), MaxEarlier))
	}
	for i := range attempts {
		if n := attempts[i].Attempt; n < 0 || n > maxCount {
			return Invalid(name, fmt.Sprintf("number %d of an earlier attempt is not between 0 and %d", n, maxCount))
		}
		if err := first(size(name+" earlier code", len(attempts[i].Code), MaxEarlierText), size(name+" earlier message", len(attempts[i].Message), MaxEarlierText)); err != nil {
			return err
		}
	}
	return nil
}

// stepOutput returns the limit of a step's output: that of a signal step is a signal's payload, of
// any allowed size, and the name under which it was received, or its ID.
func (l Limits) stepOutput(kind StepKind) int {
	if kind == KindSignal {
		return l.Payload + MaxName + 60
	}
	return l.Payload
}

func (t *Transition) validate(l Limits) error {
	switch {
	case t.Kind < CompleteRun || t.Kind > GiveBack:
		return Invalid("transition", "it has no kind")
	case t.Kind != CompleteRun && t.Output != nil:
		return Invalid("transition", "only a completion has an output")
	case t.Kind != Continue && t.Input != nil:
		return Invalid("transition", "only a continuation has an input")
	case (t.Kind == FailRun) && t.Failure == nil:
		return Invalid("transition", "a failed run needs a failure")
	case t.Kind == GiveBack && t.Failure != nil:
		return Invalid("transition", "a run that is given back keeps its failure; give the reason in the commit's Pin")
	case t.Kind != Sleep && (t.Wakes != 0 || len(t.Await) > 0):
		return Invalid("transition", "only a sleep has wake conditions")
	case t.Kind != Sleep && t.Kind != Retry && t.Kind != Release && (t.After != 0 || !t.At.IsZero()):
		return Invalid("transition", "only a sleep, a retry or a release has a time")
	case t.Kind != Sleep && t.Kind != Release && len(t.Under) > 0:
		return Invalid("transition", "only a sleep or a release waits for the limits of a step")
	case t.PassOn != 0 && t.Kind != CompleteRun && t.Kind != FailRun:
		return Invalid("transition", "only a completion or a failure passes permits on")
	}
	for _, a := range t.Await {
		if a.Open < 0 || a.Failures < 0 {
			return Invalid("await", "its counts must not be negative")
		}
		if err := ValidateName("group", a.Group); err != nil {
			return err
		}
	}
	return first(
		size("output", len(t.Output), l.Payload),
		size("input", len(t.Input), l.Payload),
		failureSize("failure", t.Failure),
		duration("delay", t.After),
		duration("pass on", t.PassOn),
		CheckUses(nil, t.Under),
	)
}

// Validate checks the call; each signal is checked by [NewSignal.Validate].
func (p *SignalParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("signals", len(p.Signals)), validateRecord(p.Record, len(p.Signals)))
}

// Validate checks one signal.
func (s *NewSignal) Validate(l Limits) error {
	switch {
	case s.ID.IsZero():
		return Invalid("signal id", "it is zero; make one with NewID")
	case s.Run.IsZero() == (s.ExternalID == ""):
		return Invalid("signal", "set exactly one of run id and external id")
	}
	return first(ValidateName("signal name", s.Name), size("signal payload", len(s.Payload), l.Payload))
}

func validateWrites(writes []StateWrite, l Limits) error {
	seen := make(map[string]bool, len(writes))
	for _, w := range writes {
		if err := first(ValidateName("state key", w.Key), size("state "+strconv.Quote(clip(w.Key)), len(w.Value), l.Payload)); err != nil {
			return err
		}
		if seen[w.Key] {
			return Invalid("state "+strconv.Quote(clip(w.Key)), "it is written twice in one request")
		}
		seen[w.Key] = true
	}
	return batch("state writes", len(writes))
}

// Validate checks the call.
func (p *SetStateParams) Validate(l Limits) error {
	return first(ValidateName("namespace", p.Namespace), validateWrites(p.Writes, l), validateRecord(p.Record, 1))
}

// Validate checks the call.
func (p *GetStateParams) Validate() error {
	if p.Limit < 0 {
		return Invalid("limit", fmt.Sprintf("%d is negative", p.Limit))
	}
	return first(ValidateName("namespace", p.Namespace), maxBytes(p.MaxBytes))
}

// Validate checks the call.
func (p *InboxParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), optionalName("signal name", p.Name), optionalName("group", p.Group), maxBytes(p.MaxBytes))
}

// Validate checks the call.
func (p *PutWorkerParams) Validate() error {
	w := &p.Worker
	if w.TTL <= 0 {
		return Invalid("ttl", fmt.Sprintf("%v is not positive", w.TTL))
	}
	if w.Answers < 0 {
		return Invalid("answers", fmt.Sprintf("%v is negative", w.Answers))
	}
	if w.Status != Online && w.Status != Draining {
		return Invalid("worker status", "want online or draining")
	}
	if min(w.PID, w.Slots) < 0 || max(w.PID, w.Slots) > maxCount {
		return Invalid("worker", fmt.Sprintf("its process id or slots are not between 0 and %d", maxCount))
	}
	for workflow, n := range w.Limits {
		if n < 0 || n > maxCount {
			return Invalid("limit of workflow "+strconv.Quote(clip(workflow)), fmt.Sprintf("%d is not between 0 and %d", n, maxCount))
		}
	}
	return first(ValidateName("namespace", p.Namespace), ValidateName("worker", w.ID), optionalName("build", w.Build))
}

// Validate checks the call.
func (p *RemoveWorkerParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), ValidateName("worker", p.ID))
}

// Validate checks the call.
func (p *AskWorkersParams) Validate() error {
	if p.Silent <= 0 {
		return Invalid("silent", fmt.Sprintf("%v is not positive", p.Silent))
	}
	return ValidateName("namespace", p.Namespace)
}

// Validate checks the call, without its cursor.
func (p *ListWorkersParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err)
}

// Validate checks the call.
func (p *PutWorkflowsParams) Validate() error {
	for _, w := range p.Workflows {
		if err := first(ValidateName("workflow", w.Name), ValidateName("queue", w.Queue), size("meta", len(w.Meta), MaxMeta)); err != nil {
			return err
		}
	}
	return first(ValidateName("namespace", p.Namespace), batch("workflows", len(p.Workflows)))
}

// Validate checks the call, without its cursor.
func (p *ListWorkflowsParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err)
}

// Validate checks the call.
func (p *PauseTargetParams) Validate() error {
	if (p.Queue == "") == (p.Workflow == "") {
		return Invalid("pause", "name exactly one of queue and workflow")
	}
	return first(ValidateName("namespace", p.Namespace), optionalName("queue", p.Queue), optionalName("workflow", p.Workflow), validateRecord(p.Record, 1))
}

// Validate checks the call, without its cursor.
func (p *ListPausedParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err)
}

// Validate checks the call.
func (p *LockParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), ValidateName("lock", p.Name), ValidateName("lock owner", p.Owner), duration("lock duration", p.For))
}

// Validate checks the call.
func (p *PutScheduleParams) Validate(l Limits) error {
	s := &p.Schedule
	return first(
		ValidateName("namespace", p.Namespace), ValidateName("schedule", s.Name),
		ValidateName("workflow", s.Workflow), ValidateName("queue", s.Queue),
		size("spec", len(s.Spec), MaxMeta), size("input", len(s.Input), l.Payload), size("meta", len(s.Meta), MaxMeta), validateRecord(p.Record, 1),
	)
}

// Validate checks the call.
func (p *DeleteScheduleParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), ValidateName("schedule", p.Name), validateRecord(p.Record, 1))
}

// Validate checks the call, without its cursor.
func (p *ListSchedulesParams) Validate() error {
	_, err := Page(p.Limit)
	if len(p.Except) > 0 && !p.Due {
		err = Invalid("except", "only a listing of due schedules can exclude names")
	}
	return first(ValidateName("namespace", p.Namespace), err, batch("except", len(p.Except)))
}

// Validate checks the call.
func (p *FireParams) Validate(l Limits) error {
	if p.At.IsZero() {
		return Invalid("fire time", "it is zero")
	}
	if !p.Next.IsZero() && !p.Next.After(p.At) {
		return Invalid("next fire time", "it is not after the fire time")
	}
	if p.Forget.After(p.At) {
		return Invalid("time before which firings are forgotten", "it is after the fire time")
	}
	if p.Run != nil {
		if p.Run.Worker != "" {
			return Invalid("worker", "a fired run cannot be leased at its creation")
		}
		if p.Run.Reuse != ReuseAfterEnd || p.Run.MustBeNew || len(p.Run.Digest) > 0 {
			return Invalid("reuse policy", "a fired run holds its external id only while it is active and has no digest")
		}
		if p.Run.Signal != nil {
			return Invalid("signal", "a fired run cannot be created with a signal")
		}
		if err := first(noDebounce("a fired run", p.Run), p.Run.Validate(l)); err != nil {
			return err
		}
	}
	return first(ValidateName("namespace", p.Namespace), ValidateName("schedule", p.Schedule))
}

// Validate checks the call, without its cursor.
func (p *ListFiringsParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), ValidateName("schedule", p.Schedule), err)
}
