package store

import (
	"context"
	"math"
	"time"
)

// Coordination lets a run receive signals and state changes from outside. The rules at [Store] hold
// for every method.
type Coordination interface {
	// Signal stores messages for runs and returns one result per signal, in order. A signal is sent
	// to a run by its ID, or to the run that holds an external id and suffix (see [Reuse]). Each
	// signal that is stored is an event of its run. It wakes a sleeping run that asked for signals,
	// does not change the lease of a run, and sends a hint. A run accepts signals in every status
	// that is not final.
	//
	// P17: signals stay in the inbox, in the order of sending per run and name, until a commit has
	// Consumed them. They survive sleeps, retries, crashes and continuations. No signal of
	// concurrent senders is lost, and the order of each sender is kept.
	//
	// P4: a signal whose ID the run has already received is the same signal sent again, consumed or
	// not, even if the run has finished since: nothing changes and the result succeeds. A signal to
	// an external id is the same signal if any stored run that holds the external id, or has held
	// it, has received that ID: the result names that run, and another run that now holds the
	// external id receives nothing. This is so even if the run has ended and no run holds the
	// external id any more. Such a signal costs a lookup for each stored run that has held the
	// external id. If the answer is lost, send the call again.
	//
	// P12: a payload is stored unchanged, also nil and empty. A call takes at most [MaxBatch]
	// signals, and at least [CallBytes] of payloads.
	//
	// An item's Err matches ErrNotFound (no such run, or none that holds that external id),
	// ErrFinished (the run is final), ErrInvalid or ErrTooLarge. If Err is set, Run is zero.
	Signal(ctx context.Context, p SignalParams) ([]SignalResult, error)

	// SetState changes a run's flow state from outside its lease: all writes or none (P3). Each
	// write, also a deletion, is an event of the run, and wakes a sleeping run that asked for
	// state. It returns the entries as written, in the order of the writes; for a deleted key only
	// Key and Version are set.
	//
	// Versions are the run's event count: they increase with every change of any key and never
	// repeat in a run, so that a key that was deleted and created again has a different version. A
	// write with IfVersion is applied only if the key has that version, 0 for a key that must not
	// exist; otherwise the call is ErrConflict. Of concurrent writes to one version, one succeeds.
	//
	// A call has at most [MaxBatch] writes, no two for one key. It returns ErrNotFound,
	// ErrFinished for a final run, ErrConflict, ErrInvalid or ErrTooLarge (P12). If the
	// answer is lost, the same call sent again writes again; with IfVersion it finds what
	// the first one did and returns ErrConflict.
	SetState(ctx context.Context, p SetStateParams) ([]StateEntry, error)

	// GetState returns the entries of a run's flow state that exist, of the given keys or of all,
	// in the order of the keys' bytes: those above After, up to Limit entries and up to MaxBytes of
	// values, but at least one. Without limits it returns all. An empty answer is the end. P14:
	// After need not name a key that still exists. It works on final runs too, and returns
	// ErrNotFound if there is no such run.
	GetState(ctx context.Context, p GetStateParams) ([]StateEntry, error)

	// Inbox reads what has reached a run: its status and event count, its unread signals in the
	// order of sending, its flow state by key and its groups by name. Everything is read at one
	// moment (P5): the effect of each event that the count includes is in the answer. Inbox works
	// on final runs too, and returns ErrNotFound if there is no such run.
	//
	// It returns at most [MaxPage] signals, state entries and groups each. MaxBytes limits the
	// payloads and the values, each separately; the first signal and the first entry are always
	// returned. MoreSignals, MoreState and MoreGroups say what was cut off. Signals that Name or
	// After exclude, and groups that Group or AfterGroup exclude, do not count toward the limits.
	// With NoState the state is not read and MoreState is false.
	//
	// P17: pages by After contain each unread signal once, in order, also if After is the position
	// of a signal that was consumed in the meantime.
	Inbox(ctx context.Context, p InboxParams) (Inbox, error)

	// Answers reads the answers to signals and returns one result per ask, in order: the answer if
	// a commit of the run has given one (see [Commit].Answers), and the run's status. Each result is
	// of one moment: a signal of a final run without an answer stays unanswered, unless the run is
	// restarted.
	//
	// P25: once a reader has seen an answer, every later one sees the same. An answer is kept for
	// as long as its run.
	//
	// P12: outputs and failures are returned unchanged. MaxBytes limits them, over all results, in
	// the order of the asks: once the limit has cut off an answer, it and those after it are
	// returned with Omitted set; the first answer is always complete. A failure counts with its
	// stored size, which may be somewhat larger than that of its fields.
	//
	// A call takes at most [MaxBatch] asks. An item's Err matches ErrNotFound if there is no such
	// run, or if the run has not received the signal; then all other fields are zero. P18: a call
	// costs two lookups for each ask.
	Answers(ctx context.Context, p AnswersParams) ([]AnswerResult, error)
}

// SignalID identifies one signal. The sender creates it, so that sending again is safe.
type SignalID = ID

// NewSignal is a signal to be sent, to a run by its ID or to the run that holds an external
// id: exactly one of Run and ExternalID is set.
type NewSignal struct {
	ID         SignalID
	Run        ID
	ExternalID string
	Suffix     string
	Name       string
	Payload    []byte
}

// SignalParams is the input of [Coordination.Signal].
type SignalParams struct {
	Namespace string
	Signals   []NewSignal
	Now       time.Time
	Record    []Action // of each signal; see [Journal]
}

// SignalResult is the outcome of one signal: the run that received it.
type SignalResult struct {
	Run ID
	Err error
}

// Signal is a stored signal.
type Signal struct {
	ID      SignalID
	Name    string
	Payload []byte
	SentAt  time.Time // when it was stored, by the store's clock
	// Position increases in the order in which the signals of a run were stored.
	Position int64
}

// StateWrite changes one key of a run's flow state.
type StateWrite struct {
	Key    string
	Value  []byte // ignored with Delete
	Delete bool   // remove the key; removing one that does not exist is not an error
	// IfVersion makes the write conditional: the write is applied only if this is the key's
	// version; 0 means that the key must not exist. Nil: the write is not conditional.
	IfVersion *int64
}

// StateEntry is one key of a run's flow state. Versions increase with every change of the run's
// state and never repeat in a run, so that a key that was deleted and created again has a different
// version.
type StateEntry struct {
	Key       string
	Value     []byte
	Version   int64
	UpdatedAt time.Time
}

// SetStateParams is the input of [Coordination.SetState].
type SetStateParams struct {
	Namespace string
	Run       ID
	Writes    []StateWrite
	Now       time.Time
	Record    []Action // see [Journal]
}

// GetStateParams is the input of [Coordination.GetState].
type GetStateParams struct {
	Namespace string
	Run       ID
	Keys      []string // empty: all
	After     string   // only keys above it; empty begins
	Limit     int      // the maximum number of entries; 0: no limit
	// MaxBytes ends the answer before the entry whose value would exceed it; 0: no limit. The first
	// entry is always returned: an empty answer is the end.
	MaxBytes int
}

// InboxParams is the input of [Coordination.Inbox].
type InboxParams struct {
	Namespace  string
	Run        ID
	Name       string // only signals of this name; empty: of every name
	After      int64  // only signals of a Position above it; 0: from the beginning, NoSignals: none
	NoState    bool   // do not read the state
	Group      string // only this group; empty: every group
	AfterGroup string // only groups above it; empty: from the beginning
	// MaxBytes limits the payloads of the signals and the values of the state, each separately; 0:
	// no limit. The first signal and the first entry are always returned.
	MaxBytes int
}

// NoSignals is above the Position of every signal.
const NoSignals = math.MaxInt64

// Inbox is what has reached a run, all of it at one moment. MoreSignals, MoreState or MoreGroups
// says that a limit cut it off.
type Inbox struct {
	Status      Status
	Events      int64
	Signals     []Signal     // unread, in the order of sending, at most MaxPage
	MoreSignals bool         // further signals follow the last
	State       []StateEntry // in the order of the keys, at most MaxPage
	MoreState   bool         // further entries follow the last; GetState returns them
	Groups      []Group      // by name, at most MaxPage
	MoreGroups  bool         // further groups follow the last
}
