package store

import (
	"math"
	"time"
)

// SignalID names one signal; the sender makes it, so that sending again is safe.
type SignalID = ID

// NewSignal is a signal to be sent, to a run by its ID or to the active run of
// an external id.
type NewSignal struct {
	ID         SignalID
	Run        ID
	ExternalID string
	Suffix     string
	Name       string
	Payload    []byte
}

// SignalParams is the input of Signal, which stores messages for runs.
//
// P17: signals wait for their reader, in the order of sending per run and name,
// and leave the inbox when a commit has Consumed them. Cases: signal/order,
// signal/consumed-once, signal/waits-for-reader, signal/external-id,
// signal/every-live-status, signal/concurrent-senders.
//
// P4: a signal ID that the run has had is the same signal sent again, consumed
// or not. To an external id, it is the same if any run that holds it or has held it, and
// is still kept, has had that ID: the result names that run, and another run that holds
// the external id by now hears nothing. Such a signal costs a look at each run that has
// held the external id and is kept. Cases: signal/repeat, signal/repeat-after-consumed,
// signal/repeat-after-finish, signal/repeat-race, signal/repeat-to-the-next-run.
//
// Further cases: signal/as-sent, signal/leaves-the-lease, signal/wakes-sleeper,
// signal/no-wake-unasked.
type SignalParams struct {
	Namespace string
	Signals   []NewSignal
	Now       time.Time
}

// SignalResult is the outcome of one signal: the run that got it. Err matches
// ErrNotFound (no such run, or none that holds that external id), ErrFinished,
// ErrInvalid or ErrTooLarge. Cases: signal/finished, signal/unknown-run,
// signal/finished-holder.
type SignalResult struct {
	Run ID
	Err error
}

// Signal is a stored signal.
type Signal struct {
	ID      SignalID
	Name    string
	Payload []byte
	SentAt  time.Time
	// Position grows in the order in which the signals of a run were stored.
	Position int64
}

// StateWrite changes one key of a run's flow state.
type StateWrite struct {
	Key    string
	Value  []byte
	Delete bool
	// IfVersion makes the write conditional: the key's present version, 0 for a
	// key that must not exist.
	IfVersion *int64
}

// StateEntry is one key of a run's flow state. Versions grow with every change
// of the run's state and never repeat in a run, so that a key deleted and made
// again is told apart.
type StateEntry struct {
	Key       string
	Value     []byte
	Version   int64
	UpdatedAt time.Time
}

// SetStateParams is the input of SetState, which changes flow state from outside
// the run's lease: all writes or none, each an event of the run. It returns the
// entries as written, in the order of the writes (of a deleted key only Key and
// Version). ErrConflict when an IfVersion does not hold; ErrNotFound;
// ErrFinished; ErrInvalid; ErrTooLarge. Cases: state/set-and-get,
// state/replaces, state/delete, state/by-commit, state/is-the-runs-own,
// state/compare-and-set, state/compare-and-set-race, state/all-or-nothing,
// state/wakes-sleeper, state/deletion-wakes-sleeper,
// state/versions-never-repeat, state/finished.
type SetStateParams struct {
	Namespace string
	Run       ID
	Writes    []StateWrite
	Now       time.Time
}

// GetStateParams is the input of GetState, which returns the entries of the
// given keys that exist, or all (Keys empty), in the order of the keys' bytes.
// It works on final runs too. ErrNotFound. Cases: state/byte-order,
// state/unknown-run, state/pages.
type GetStateParams struct {
	Namespace string
	Run       ID
	Keys      []string
	After     string // only keys above it; empty begins
	Limit     int    // the most entries; 0: no bound
	// MaxBytes ends the answer before the entry whose value would exceed it; 0: no
	// bound. The first entry always comes: an empty answer is the end.
	MaxBytes int
}

// InboxParams is the input of Inbox, which reads what has reached a run.
// ErrNotFound. Cases: inbox/reads-all, inbox/of-one-moment, inbox/bounded,
// inbox/bounded-in-bytes, inbox/of-one-name, inbox/pages-of-signals,
// inbox/without-state, inbox/pages-of-groups, inbox/of-one-group.
type InboxParams struct {
	Namespace  string
	Run        ID
	Name       string // signals of this name alone; empty: of every name
	After      int64  // only signals of a Position above it; 0 begins, NoSignals leaves all unread
	NoState    bool   // leave the state unread
	Group      string // this group alone; empty: every group
	AfterGroup string // only groups above it; empty begins
	// MaxBytes bounds the payloads of the signals and the values of the state, each
	// on its own; 0: no bound. The first signal and the first entry always come.
	MaxBytes int
}

// NoSignals is no signal's Position, and above all of them.
const NoSignals = math.MaxInt64

// Inbox is what has reached a run: everything of it at one moment, or the beginning of
// it, where MoreSignals, MoreState or MoreGroups says that a bound cut it off.
type Inbox struct {
	Status      Status
	Events      int64
	Signals     []Signal     // unread, in the order of sending, at most MaxPage
	MoreSignals bool         // further signals follow the last
	State       []StateEntry // in the order of the keys, at most MaxPage
	MoreState   bool         // further entries follow the last; GetState has them
	Groups      []Group      // by name, at most MaxPage
	MoreGroups  bool         // further groups follow the last
}
