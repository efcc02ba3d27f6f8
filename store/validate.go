package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sizes that every backend holds to, in bytes.
const (
	MaxName       = 255       // namespaces, queues, workflows, steps, keys, ...
	MaxExternalID = 512       // external ids and suffixes
	MaxMeta       = 64 << 10  // Meta fields
	MaxFailure    = 256 << 10 // a failure's fields together
)

// MaxBatch bounds the items of one call. Larger work is to be split. Case:
// errors/too-many-items.
const MaxBatch = 10_000

// clip shortens what a message repeats of a user's input.
func clip(s string) string {
	if len(s) > 64 {
		return s[:61] + "..."
	}
	return s
}

// ValidateName checks a name: 1 to [MaxName] bytes of UTF-8 without control
// characters and without space at either end. Every name of the contract follows
// this rule; branch paths are names too. Cases: errors/names, errors/good-names.
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

// Page works out the rows of a page: the default for 0, an error for what is
// out of range.
func Page(limit int) (int, error) {
	switch {
	case limit == 0:
		return 100, nil
	case limit < 0 || limit > MaxPage:
		return 0, Invalid("limit", fmt.Sprintf("%d is not between 0 and %d", limit, MaxPage))
	}
	return limit, nil
}

// FewIDs is from how many characters on a prefix of IDs selects few runs: those of
// [NewID] that have eight digits in common were made within about a minute.
const FewIDs = 8

// Few says of a filter that it selects few runs, by an index of its own.
func (f *RunFilter) Few() bool {
	return !f.Parent.IsZero() || f.ExternalID != "" || len(f.IDPrefix) >= FewIDs
}

// Wants says whether a filter may select runs of a status.
func (f *RunFilter) Wants(s Status) bool {
	if !s.Final() && !(f.FinishedAfter.IsZero() && f.FinishedBefore.IsZero()) {
		return false
	}
	return len(f.Statuses) == 0 || slices.Contains(f.Statuses, s)
}

// IDRange gives the lowest and the highest ID whose text begins with prefix.
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

// Validate checks a run that Create is to make.
func (r *NewRun) Validate(l Limits) error {
	if r.Group != "" || r.Ordinal != 0 || r.OnClose != CloseCancel {
		return Invalid("group", "only a child has one; spawn it by a commit of its parent")
	}
	if r.Worker == "" && r.LeaseFor != 0 {
		return Invalid("worker", "a lease duration without a worker")
	}
	if r.Worker != "" {
		if r.After != 0 || !r.At.IsZero() {
			return Invalid("worker", "a run that starts later cannot be leased at once")
		}
		if err := lease(r.Worker, r.LeaseFor); err != nil {
			return err
		}
	}
	return r.validate(l)
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
		ValidateName("workflow", r.Workflow),
		ValidateName("queue", r.Queue),
		externalID("external id", r.ExternalID),
		externalID("suffix", r.Suffix),
		size("input", len(r.Input), l.Payload),
		size("meta", len(r.Meta), MaxMeta),
		duration("start delay", r.After),
		duration("timeout", r.Timeout),
	)
}

func (r *NewRun) validateChild(l Limits) error {
	switch {
	case r.ExternalID != "":
		return Invalid("external id", "a child is named by its parent and cannot have one")
	case r.Worker != "":
		return Invalid("worker", "a child cannot be leased as it is made")
	case len(r.Digest) > 0:
		return Invalid("digest", "a child is named by its parent and is compared with none")
	case r.Group == "" && r.Ordinal != 0:
		return Invalid("ordinal", "it needs a group")
	case r.Group != "" && r.Ordinal < 1:
		return Invalid("ordinal", "ordinals in a group start at 1")
	case r.OnClose > CloseAbandon:
		return Invalid("close policy", "it is neither cancel nor abandon")
	}
	return first(optionalName("group", r.Group), r.validate(l))
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
			return Invalid("status", fmt.Sprintf("%v is none", s))
		}
	}
	if f.MinAttempt < 0 {
		return Invalid("attempts", fmt.Sprintf("%d is negative", f.MinAttempt))
	}
	_, _, err := IDRange(f.IDPrefix)
	return first(err, optionalName("workflow", f.Workflow), optionalName("queue", f.Queue),
		plainText("failure code", f.FailureCode), plainText("failure text", f.FailureText), plainText("step name", f.FailedStep))
}

// plainText checks text that is looked for.
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
	return first(ValidateName("namespace", p.Namespace), batch("ids", len(p.IDs)), size("reason", len(p.Reason), MaxFailure))
}

// Validate checks the call.
func (p *PauseParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("ids", len(p.IDs)))
}

// Validate checks the call.
func (p *RestartParams) Validate() error { return ValidateName("namespace", p.Namespace) }

// Validate checks the call.
func (p *ForkParams) Validate() error {
	if p.New.IsZero() {
		return Invalid("run id", "the fork needs an id of its own")
	}
	return ValidateName("namespace", p.Namespace)
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
	return first(ValidateName("namespace", p.Namespace), optionalName("workflow", p.Workflow), duration("age", p.OlderThan))
}

// Validate checks the call.
func (p *ClaimParams) Validate() error {
	for _, d := range p.Demands {
		if d.Max < 0 {
			return Invalid("demand", fmt.Sprintf("%d runs of queue %q asked for", d.Max, clip(d.Queue)))
		}
	}
	if p.Max < 0 {
		return Invalid("max", fmt.Sprintf("%d runs asked for", p.Max))
	}
	if p.ClaimID < 0 || p.Again && p.ClaimID == 0 {
		return Invalid("claim id", fmt.Sprintf("%d; a claim that may be asked for again has one above zero", p.ClaimID))
	}
	return first(ValidateName("namespace", p.Namespace), lease(p.Worker, p.LeaseFor), maxBytes(p.MaxBytes))
}

// Wanted is how many runs the claim asks for in all.
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
	for i := range c.Steps {
		if err := c.Steps[i].validate(l); err != nil {
			return err
		}
		for j := range i { // few: a commit carries what one run did since its last
			if c.Steps[j].StepKey == c.Steps[i].StepKey {
				return Invalid("step "+strconv.Quote(clip(c.Steps[i].String())), "it is recorded twice in one commit")
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
		return Invalid("commit", fmt.Sprintf("Crashes of %d are not from 0 to %d", c.Crashes, maxCrashes))
	case c.Crashes > 0 && t != nil && t.Kind != Release:
		return Invalid("commit", "a "+t.Kind.String()+" is progress: only a release, or a commit without a transition, keeps Crashes")
	}
	if err := first(batch("steps", len(c.Steps)), batch("children", len(c.Spawn)), batch("signals", len(c.Consumed))); err != nil {
		return err
	}
	if c.Transition != nil {
		return c.Transition.validate(l)
	}
	return nil
}

// maxCrashes leaves room for leases that run out in 32 bits.
const maxCrashes = 1 << 30

func (s *StepRecord) validate(l Limits) error {
	name := "step " + strconv.Quote(clip(s.Name))
	switch {
	case s.Kind < KindFunction || s.Kind > KindState:
		return Invalid(name, "it has no kind")
	case s.Status < StepPending || s.Status > StepFailed:
		return Invalid(name, "it has no status")
	case s.Position < 1:
		return Invalid(name, "positions start at 1")
	case s.Occurrence < 1:
		return Invalid(name, "occurrences start at 1")
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
		if err := first(size(name+" earlier code", len(attempts[i].Code), MaxEarlierText), size(name+" earlier message", len(attempts[i].Message), MaxEarlierText)); err != nil {
			return err
		}
	}
	return nil
}

// stepOutput bounds a step's output: that of a signal step is a signal's payload, of
// any allowed size, and what it was received as.
func (l Limits) stepOutput(kind StepKind) int {
	if kind == KindSignal {
		return l.Payload + MaxName + 20
	}
	return l.Payload
}

func (t *Transition) validate(l Limits) error {
	switch {
	case t.Kind < Complete || t.Kind > Continue:
		return Invalid("transition", "it has no kind")
	case t.Kind != Complete && t.Output != nil:
		return Invalid("transition", "only a completion has an output")
	case t.Kind != Continue && t.Input != nil:
		return Invalid("transition", "only a continuation has an input")
	case (t.Kind == Fail) && t.Failure == nil:
		return Invalid("transition", "a failed run needs its failure")
	case t.Kind != Sleep && (t.Wakes != 0 || len(t.Await) > 0):
		return Invalid("transition", "only a sleep is woken")
	case t.Kind != Sleep && t.Kind != Retry && t.Kind != Release && (t.After != 0 || !t.At.IsZero()):
		return Invalid("transition", "only a sleep, a retry or a release has a time")
	}
	for _, a := range t.Await {
		if a.Open < 0 || a.Failures < 0 {
			return Invalid("await", "counts are not negative")
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
	)
}

// Validate checks the call; each signal is checked by [NewSignal.Validate].
func (p *SignalParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("signals", len(p.Signals)))
}

// Validate checks one signal.
func (s *NewSignal) Validate(l Limits) error {
	switch {
	case s.ID.IsZero():
		return Invalid("signal id", "it is zero; make one with NewID")
	case s.Run.IsZero() == (s.ExternalID == ""):
		return Invalid("signal", "it goes either to a run id or to an external id")
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
	return first(ValidateName("namespace", p.Namespace), validateWrites(p.Writes, l))
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
		return Invalid("worker status", "a worker is put as online or draining")
	}
	return first(ValidateName("namespace", p.Namespace), ValidateName("worker", w.ID))
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
func (p *SetPausedParams) Validate() error {
	if (p.Queue == "") == (p.Workflow == "") {
		return Invalid("pause", "name either a queue or a workflow")
	}
	return first(ValidateName("namespace", p.Namespace), optionalName("queue", p.Queue), optionalName("workflow", p.Workflow))
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
		size("spec", len(s.Spec), MaxMeta), size("input", len(s.Input), l.Payload), size("meta", len(s.Meta), MaxMeta),
	)
}

// Validate checks the call.
func (p *DeleteScheduleParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), ValidateName("schedule", p.Name))
}

// Validate checks the call, without its cursor.
func (p *ListSchedulesParams) Validate() error {
	_, err := Page(p.Limit)
	if len(p.Except) > 0 && !p.Due {
		err = Invalid("except", "names are left out of a list of what is due, and of no other")
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
			return Invalid("worker", "a fired run is not leased as it is made")
		}
		if p.Run.Reuse != ReuseAfterEnd || p.Run.MustBeNew || len(p.Run.Digest) > 0 {
			return Invalid("reuse policy", "a fired run holds its external id while it is active, and is compared with none")
		}
		if err := p.Run.Validate(l); err != nil {
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
