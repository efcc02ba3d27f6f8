package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Outboxer is implemented by backends that keep the changes of runs for programs that pass them on, such
// as senders of webhooks. Without it, programs learn of changes by asking.
//
// A subscription selects changes of a namespace. Each change that a subscription selects waits in it until a
// call of Settle has settled it as delivered, or until it is too old. Where changes are sent, and with which secret, the
// store does not know.
//
// P31: a change is stored in the same transaction as the change of the run that it tells: either both are there or
// neither is, whatever the call: also in a program's transaction, for the children that a cancel reaches, and for runs
// that a fork, a firing or a debounced start creates. Each is stored once in each subscription that selects it when
// the write begins. A call that changes no status, such as a repeated one, stores none. [ChangeKind] lists what is a change.
//
// The changes of one run in a subscription have a total order, by Seq, which is the order in which they happened. Only the
// first one that waits can be read, so that the next one is not sent before it has been delivered. There is no order
// between changes of different runs.
//
// A namespace without subscriptions stores nothing, and its writes read nothing but that there are none.
type Outboxer interface {
	// PutSubscription creates a subscription, or replaces the rule of the one of that name, and returns it
	// as stored. The changes that wait stay, even if the new rule would not select them. The store sets the
	// fields that follow UpdatedAt, and those stay, too. P4: a repeated put stores the same rule.
	//
	// It returns ErrInvalid, also for a new subscription of a namespace that has [MaxSubscriptions]. Puts at the
	// same time may exceed that number.
	PutSubscription(ctx context.Context, p PutSubscriptionParams) (Subscription, error)

	// DeleteSubscription deletes a subscription and up to [MaxBatch] of the changes that wait in it. It reports whether
	// there are more: then call it again. Until they are gone, a subscription that is put under that name gets
	// them. [Outboxer.DropChanges] deletes what nobody asks for again.
	//
	// The Record is that of the deletion of the subscription: a call that finds only changes stores none.
	//
	// It returns ErrNotFound if there is neither the subscription nor a change of it, also if the call was applied,
	// its answer was lost, and it is sent again.
	DeleteSubscription(ctx context.Context, p DeleteSubscriptionParams) (more bool, err error)

	// ListSubscriptions returns the subscriptions of a namespace by name, all of them: there are few.
	ListSubscriptions(ctx context.Context, p ListSubscriptionsParams) ([]Subscription, error)

	// Changes returns the changes of a subscription that are due, and the time from which the next one is. A change is
	// due if it is the first one of its run that waits, and if its time has come after a failed delivery (P13). Those that became
	// due first come first, and of those that were never tried, the oldest.
	//
	// There is no cursor: a change stays until it is settled. The same changes may be returned to several
	// callers; [Registry.Lock] keeps senders apart.
	//
	// P18: what it reads does not depend on the changes that wait behind a failed delivery of their run, or that are not due.
	//
	// It returns ErrNotFound if there is no such subscription.
	Changes(ctx context.Context, p ChangesParams) (ChangePage, error)

	// Settle records what came of deliveries. A change that was delivered is deleted, and the next one of its run is due at
	// once. A change whose delivery failed has one more attempt and is due after a delay, and so are those that wait behind it.
	// The error, and the times of the last delivery and the last failure, are kept with the subscription.
	//
	// P4: a change that does not wait any more is ignored, and so is an attempt that was settled already.
	Settle(ctx context.Context, p SettleParams) error

	// DropChanges deletes changes that have waited for longer than their subscription keeps them, and those of deleted
	// subscriptions. In each subscription it looks at the Limit oldest changes. It returns how many it has deleted in each, and
	// adds that number to the Dropped of a subscription that exists. A purge of runs deletes no changes.
	DropChanges(ctx context.Context, p DropChangesParams) ([]DroppedChanges, error)
}

// ChangeKind is what a change tells of a run.
type ChangeKind uint8

// The kinds. A claim, a sleep, a retry, a release and a continuation are not changes, and neither is an import: it
// takes over a run that exists already.
const (
	RunCreated   ChangeKind = 1 + iota // the run was created
	RunCompleted                       // it is completed
	RunFailed                          // it has failed for good
	RunCanceled                        // it is canceled
	RunCanceling                       // it was canceled, and is to clean up
	RunPaused                          // it is paused
	RunResumed                         // it is not paused any more, and waits or sleeps as before
	RunRestarted                       // it failed or was canceled, and is pending again
)

var changeNames = [...]string{RunCreated: "created", RunCompleted: "completed", RunFailed: "failed", RunCanceled: "canceled",
	RunCanceling: "canceling", RunPaused: "paused", RunResumed: "resumed", RunRestarted: "restarted"}

// ChangeKinds lists every kind in order.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{RunCreated, RunCompleted, RunFailed, RunCanceled, RunCanceling, RunPaused, RunResumed, RunRestarted}
}

// ChangeOf returns the kind of a change of a status, or zero if it is not a change. A run that is created has no status before.
func ChangeOf(before, after Status) ChangeKind {
	switch {
	case before == after:
		return 0
	case before == 0:
		return RunCreated
	case after == Completed:
		return RunCompleted
	case after == Failed:
		return RunFailed
	case after == Canceled:
		return RunCanceled
	case after == Canceling:
		return RunCanceling
	case after == Paused:
		return RunPaused
	case before == Paused:
		return RunResumed
	case before.Final():
		return RunRestarted
	}
	return 0
}

// String returns the kind in lower case, such as "created", or the type's name with the number if k is none of the kinds.
func (k ChangeKind) String() string {
	if k.known() {
		return changeNames[k]
	}
	return fmt.Sprintf("ChangeKind(%d)", uint8(k))
}

func (k ChangeKind) known() bool { return k != 0 && int(k) < len(changeNames) }

// MarshalText writes the kind's name.
func (k ChangeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind's name.
func (k *ChangeKind) UnmarshalText(b []byte) error {
	for i, name := range changeNames {
		if i > 0 && name == string(b) {
			*k = ChangeKind(i)
			return nil
		}
	}
	return Invalid("kind of change", fmt.Sprintf("unknown kind %q; want created, completed, failed, canceled, canceling, paused, resumed or restarted", clip(string(b))))
}

// Subscription is a rule that selects changes, and how their delivery stands.
type Subscription struct {
	Name      string
	Workflows []string     // at most [MaxSelected]; empty: of all workflows
	Kinds     []ChangeKind // empty: of all kinds
	// Keep is how long a change waits at most; 0: [DefaultKeepChanges].
	Keep      time.Duration
	UpdatedAt time.Time // when it was last put

	CreatedAt   time.Time
	DeliveredAt time.Time // when a change was last settled as delivered; zero: never
	FailedAt    time.Time // when a delivery last failed; zero: never
	Error       string    // of that failure
	Dropped     int64     // changes that were too old
	// Waiting counts the changes that wait. It is a lower bound if it is [MaxWaitingChanges].
	Waiting  int64
	OldestAt time.Time // the At of the first one; zero: none
	Attempts int       // its failed attempts
}

// Selects reports whether the subscription selects a change.
func (s *Subscription) Selects(workflow string, kind ChangeKind) bool {
	return (len(s.Workflows) == 0 || slices.Contains(s.Workflows, workflow)) && (len(s.Kinds) == 0 || slices.Contains(s.Kinds, kind))
}

// Bounds of subscriptions.
const (
	MaxSubscriptions   = 32     // of a namespace
	MaxSelected        = 100    // names of workflows of a subscription
	MaxWaitingChanges  = 10_000 // what [Subscription.Waiting] counts at most
	MaxDeliveryError   = 1024   // bytes of [SettleParams.Error]
	DefaultKeepChanges = 3 * 24 * time.Hour
)

// Change tells that the status of a run has changed.
type Change struct {
	ChangeKey
	Kind       ChangeKind
	Run        ID
	Workflow   string
	Queue      string
	ExternalID string
	Suffix     string
	// At is when it happened: the run's CreatedAt or FinishedAt. Of a kind that sets neither, it is the time of the
	// database's clock, also if the call has set Now.
	At       time.Time
	Attempts int // deliveries that have failed
}

// ChangeKey identifies a change that waits.
type ChangeKey struct {
	Seq int64 // later changes of the run have a higher one
	ID  ID    // random
}

// PutSubscriptionParams is the input of [Outboxer.PutSubscription].
type PutSubscriptionParams struct {
	Namespace    string
	Subscription Subscription // the fields up to Keep
	Now          time.Time
	Record       []Action // see [Journal]
}

// DeleteSubscriptionParams is the input of [Outboxer.DeleteSubscription].
type DeleteSubscriptionParams struct {
	Namespace string
	Name      string
	Now       time.Time // of the Record
	Record    []Action  // see [Journal]
}

// ListSubscriptionsParams is the input of [Outboxer.ListSubscriptions].
type ListSubscriptionsParams struct {
	Namespace string
}

// ChangesParams is the input of [Outboxer.Changes].
type ChangesParams struct {
	Namespace    string
	Subscription string
	Limit        int // 0: 100; at most MaxPage
	Now          time.Time
}

// ChangePage has the changes that are due.
type ChangePage struct {
	Changes []Change
	More    bool      // more are due
	NextAt  time.Time // when the next one is due, of those that are not; zero: none waits for its time
	Now     time.Time // the store's clock
}

// SettleParams is the input of [Outboxer.Settle]. It has at most [MaxBatch] changes.
type SettleParams struct {
	Namespace    string
	Subscription string
	Delivered    []ChangeKey
	Failed       []FailedDelivery
	Error        string // why the last of Failed has failed
	Now          time.Time
}

// FailedDelivery is an attempt that has failed.
type FailedDelivery struct {
	ChangeKey
	Attempt int           // which one it was: 1 for the first
	After   time.Duration // until the next one
}

// DropChangesParams is the input of [Outboxer.DropChanges].
type DropChangesParams struct {
	Namespace string
	Limit     int // for each subscription; 0: 1000; at most MaxBatch
	Now       time.Time
}

// DroppedChanges says how many changes of a subscription were deleted.
type DroppedChanges struct {
	Subscription string
	Changes      int64
}

// Validate checks the call.
func (p *PutSubscriptionParams) Validate() error {
	s := &p.Subscription
	if len(s.Workflows) > MaxSelected {
		return Invalid("workflows", fmt.Sprintf("there are %d; a subscription selects at most %d by name", len(s.Workflows), MaxSelected))
	}
	for _, w := range s.Workflows {
		if err := ValidateName("workflow", w); err != nil {
			return err
		}
	}
	for _, k := range s.Kinds {
		if !k.known() {
			return Invalid("kind of change", fmt.Sprintf("%d is no kind", uint8(k)))
		}
	}
	return first(ValidateName("namespace", p.Namespace), ValidateName("subscription", s.Name), duration("age", s.Keep), validateRecord(p.Record, 1))
}

// Rule returns the fields of a subscription that a put sets, in the form in which they are stored and returned.
func (p *PutSubscriptionParams) Rule() Subscription {
	s := Subscription{Name: p.Subscription.Name, Keep: p.Subscription.Keep}
	if s.Workflows = slices.Compact(slices.Sorted(slices.Values(p.Subscription.Workflows))); len(s.Workflows) == 0 {
		s.Workflows = nil
	}
	if s.Kinds = slices.Compact(slices.Sorted(slices.Values(p.Subscription.Kinds))); len(s.Kinds) == 0 {
		s.Kinds = nil
	}
	if s.Keep == 0 {
		s.Keep = DefaultKeepChanges
	}
	return s
}

// TooManySubscriptions is the error for one that would exceed [MaxSubscriptions].
func TooManySubscriptions(name string) error {
	return Invalid("subscription", fmt.Sprintf("the namespace has %d, and %q would be one more; delete one that is not needed", MaxSubscriptions, clip(name)))
}

// Validate checks the call.
func (p *DeleteSubscriptionParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), ValidateName("subscription", p.Name), validateRecord(p.Record, 1))
}

// Validate checks the call.
func (p *ListSubscriptionsParams) Validate() error { return ValidateName("namespace", p.Namespace) }

// Validate checks the call.
func (p *ChangesParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), ValidateName("subscription", p.Subscription), err)
}

// Validate checks the call.
func (p *SettleParams) Validate() error {
	for _, f := range p.Failed {
		if f.Attempt < 1 || f.Attempt > maxCount {
			return Invalid("attempt", fmt.Sprintf("%d is not between 1 and %d", f.Attempt, maxCount))
		}
		if err := duration("delay", f.After); err != nil {
			return err
		}
	}
	return first(ValidateName("namespace", p.Namespace), ValidateName("subscription", p.Subscription), batch("changes", len(p.Delivered)+len(p.Failed)),
		plainText("error", p.Error), size("error", len(p.Error), MaxDeliveryError))
}

// Validate checks the call.
func (p *DropChangesParams) Validate() error {
	if p.Limit < 0 || p.Limit > MaxBatch {
		return Invalid("limit", fmt.Sprintf("%d is not between 0 and %d", p.Limit, MaxBatch))
	}
	return ValidateName("namespace", p.Namespace)
}
