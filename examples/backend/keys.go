package backend

import (
	"slices"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// A key is one of the kinds below, followed by its parts.
type key = storekit.OrderedKey

type span = storekit.Span

// between is the span of the keys from <= key < to.
func between(from, to key) span { return span{From: from, To: to} }

// The kinds of keys. A run's own records begin with its ID, so that they lie together.
const (
	kindRun     = 'r' // id -> storekit.Run without payloads
	kindPayload = 'p' // id, which -> the bytes of an input, an output or a meta
	kindStep    = 's' // id, position -> store.Step
	kindStepKey = 'k' // id, branch, name, occurrence -> position
	kindGroup   = 'g' // id, name -> store.Group
	kindState   = 'v' // id, key -> store.StateEntry
	kindInbox   = 'i' // id, position -> store.Signal, unread
	kindSent    = 'o' // id, position -> ID of a signal, read or not
	kindHad     = 'h' // id, ID of a signal -> position
	kindAnswer  = 'a' // id, ID of a signal -> store.GivenAnswer
	kindItem    = 'n' // id, position -> store.StreamItem
	kindWriter  = 'w' // id, stream, branch, step, occurrence, generation -> storekit.StreamWriter
	kindStream  = 't' // id -> storekit.StreamHead

	// Indexes, each with a run's ID for its value.
	kindDue    = 'D' // namespace, queue, workflow, pin, priority, visible time, id: the runs that can be claimed
	kindHeld   = 'L' // namespace, worker, id: the runs that are leased
	kindHolder = 'X' // namespace, external id, suffix: the run that holds it
	kindNamed  = 'N' // namespace, external id, suffix, creation, id
	kindMade   = 'C' // namespace, status, creation, id
	kindEnded  = 'E' // namespace, status, end, id: the runs that are final
	kindChild  = 'P' // parent, group, ordinal, id
	kindInner  = 'I' // parent, id: the children that have groups
	kindPinned = 'B' // namespace, build, status, creation, id: the runs that are pinned to a build and not final
	kindTagged = 'G' // namespace, tag, value, creation, id
	kindKeyed  = 'b' // namespace, workflow, debounce key: the run that has not begun
	kindCloses = 'W' // parent, id: the children that are canceled with their parent

	// Starts that have replaced what a run was started with.
	kindStart   = 'd' // namespace, ID of the start -> storekit.Replacement
	kindStartOf = 'e' // id, time, ID of the start -> the key of the start

	// Limits.
	kindLimit    = 'l' // namespace, limit -> limitRecord
	kindLimitKey = 'q' // namespace, limit, key -> storekit.LimitKeyState
	kindTokens   = 'T' // namespace, time, limit, key -> storekit.LimitKeyID: keys to be looked at then
	kindMark     = 'm' // namespace, number -> markRecord: what no claim has taken in yet
	kindUse      = 'U' // namespace, limit, key, id -> ID of a run that is not final
	kindWaits    = 'A' // as kindDue: the runs that wait for limits
	kindFlowRun  = 'F' // namespace, hash of a flow, visible time, id -> ID of a run that waits for limits
	kindFlow     = 'f' // namespace, hash -> storekit.FlowState
	kindReady    = 'Y' // namespace, queue, workflow, pin, priority, head time, head -> storekit.FlowState
	kindParked   = 'Z' // namespace, limit, key, hash -> storekit.FlowState
	kindFair     = 'u' // namespace, limit, key, hash -> storekit.FlowState whose turn the key decides
	kindNeeds    = 'Q' // namespace, queue, workflow, pin, hash -> storekit.FlowState that waits for tokens

	// The outbox.
	kindSub       = 'S' // namespace, subscription -> store.Subscription
	kindChange    = 'c' // namespace, subscription, number -> waiting
	kindChangeRun = 'x' // id, namespace, subscription, number
	kindChangeDue = 'y' // namespace, subscription, due time, number
	kindChangeSeq = 'z' // -> the number of the last change

	kindRecord = 'R' // storekit.Kind, namespace, name -> a record of storekit
)

func keyOf(kind byte) key { return key{kind} }

func runKey(id store.ID) key                   { return keyOf(kindRun).ID(id) }
func payloadKey(id store.ID, which byte) key   { return keyOf(kindPayload).ID(id).And(which) }
func stepKey(id store.ID, position int64) key  { return keyOf(kindStep).ID(id).Number(position) }
func groupKey(id store.ID, name string) key    { return keyOf(kindGroup).ID(id).Name(name) }
func stateKey(id store.ID, name string) key    { return keyOf(kindState).ID(id).Name(name) }
func inboxKey(id store.ID, position int64) key { return keyOf(kindInbox).ID(id).Number(position) }
func sentKey(id store.ID, position int64) key  { return keyOf(kindSent).ID(id).Number(position) }
func answerKey(id, signal store.ID) key        { return keyOf(kindAnswer).ID(id).ID(signal) }
func hadKey(id, signal store.ID) key           { return keyOf(kindHad).ID(id).ID(signal) }

func startKey(namespace string, id store.ID) key { return keyOf(kindStart).Name(namespace).ID(id) }

func debounceKey(namespace, workflow, name string) key {
	return keyOf(kindKeyed).Name(namespace).Name(workflow).Name(name)
}

func stepNameKey(id store.ID, s store.StepKey) key {
	return keyOf(kindStepKey).ID(id).Name(s.Branch).Name(s.Name).Number(int64(s.Occurrence))
}

func itemKey(id store.ID, position int64) key { return keyOf(kindItem).ID(id).Number(position) }
func streamKey(id store.ID) key               { return keyOf(kindStream).ID(id) }

func writerKey(id store.ID, stream string, s store.StepKey, generation int) key {
	return keyOf(kindWriter).ID(id).Name(stream).Name(s.Branch).Name(s.Name).Number(int64(s.Occurrence)).Number(int64(generation))
}

func laneKey(namespace string, l storekit.Lane) key { return laneKind(kindDue, namespace, l) }

func laneKind(kind byte, namespace string, l storekit.Lane) key {
	return keyOf(kind).Name(namespace).Name(l.Queue).Name(l.Workflow).Name(l.Pin)
}

func holderKey(namespace, externalID, suffix string) key {
	return keyOf(kindHolder).Name(namespace).Name(externalID).Name(suffix)
}

func namedKey(namespace, externalID string) key {
	return keyOf(kindNamed).Name(namespace).Name(externalID)
}

func statusKey(kind byte, namespace string, status store.Status) key {
	return keyOf(kind).Name(namespace).And(byte(status))
}

func pinnedKey(namespace, build string, status store.Status) key {
	return keyOf(kindPinned).Name(namespace).Name(build).And(byte(status))
}

func tagKey(namespace, name, value string) key {
	return keyOf(kindTagged).Name(namespace).Name(name).Name(value)
}

func innerKey(r *storekit.Run) key { return keyOf(kindInner).ID(r.Parent).ID(r.ID) }

func childKey(parent store.ID, group string) key { return keyOf(kindChild).ID(parent).Name(group) }

func heldKey(namespace, worker string) key { return keyOf(kindHeld).Name(namespace).Name(worker) }

// indexKeys returns the keys of all indexes in which a run stands. They change only with the
// run, so the difference of two runs says what to write.
func indexKeys(r *storekit.Run) []key {
	keys := []key{statusKey(kindMade, r.Namespace, r.Status).Time(r.CreatedAt).ID(r.ID)}
	if r.Status.Final() {
		keys = append(keys, statusKey(kindEnded, r.Namespace, r.Status).Time(r.FinishedAt).ID(r.ID))
	}
	if f, waits := r.Waits(); waits {
		keys = append(keys,
			laneKind(kindWaits, r.Namespace, f.Lane).Priority(r.Priority).Time(r.VisibleAt).ID(r.ID),
			flowRunsKey(r.Namespace, &f).Time(r.VisibleAt).ID(r.ID))
	} else if r.Claimable() {
		keys = append(keys, laneKey(r.Namespace, r.LaneOf()).Priority(r.Priority).Time(r.VisibleAt).ID(r.ID))
	}
	if r.Pin != nil && !r.Status.Final() {
		keys = append(keys, pinnedKey(r.Namespace, r.Pin.Build, r.Status).Time(r.CreatedAt).ID(r.ID))
	}
	if r.Leased() {
		keys = append(keys, heldKey(r.Namespace, r.Worker).ID(r.ID))
	}
	if r.ExternalID != "" {
		keys = append(keys, namedKey(r.Namespace, r.ExternalID).Name(r.Suffix).Time(r.CreatedAt).ID(r.ID))
	}
	if r.HoldsExternalID() {
		keys = append(keys, holderKey(r.Namespace, r.ExternalID, r.Suffix))
	}
	if r.Replaceable() {
		keys = append(keys, debounceKey(r.Namespace, r.Workflow, r.Debounce))
	}
	if !r.Parent.IsZero() {
		keys = append(keys, childKey(r.Parent, r.Group).Number(r.Ordinal).ID(r.ID))
	}
	if !r.Status.Final() {
		for _, k := range storekit.KeysOf(slices.Concat(r.Under, r.StepUnder)) {
			keys = append(keys, keyOf(kindUse).Name(r.Namespace).Name(k.Limit).Name(k.Key).ID(r.ID))
		}
	}
	for name, value := range r.Tags {
		keys = append(keys, tagKey(r.Namespace, name, value).Time(r.CreatedAt).ID(r.ID))
	}
	if r.Closes() {
		keys = append(keys, keyOf(kindCloses).ID(r.Parent).ID(r.ID))
	}
	return keys
}
