package storekit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A Flow is what runs under limits have in common if the limits treat them alike: all runs of a flow need
// the same permits and tokens, so that inside a flow P7 is VisibleAt, then ID, and none of them can be
// claimed before the first.
type Flow struct {
	Lane
	Priority int
	// Uses are the limits, by name. Tokens are those that the next claim takes: 0 if it takes none.
	Uses []store.LimitUse
}

// FlowOf returns the flow in which the run waits. It has no Uses if the run is under no limit.
func FlowOf(r *Run) Flow {
	return Flow{Lane: r.LaneOf(), Priority: r.Priority, Uses: FlowUses(r.Under, r.StepUnder, r.Charged)}
}

// FlowUses returns the uses of a flow: those of the run and those of its step. charged says that the
// run's attempt has taken its tokens ([Run.Charged]).
func FlowUses(under, step []store.LimitUse, charged bool) []store.LimitUse {
	own := store.SortUses(under)
	for i := range own {
		if charged {
			own[i].Tokens = 0
		}
	}
	uses := append(own, store.SortUses(step)...)
	slices.SortFunc(uses, func(a, b store.LimitUse) int { return cmp.Compare(a.Limit, b.Limit) })
	return uses
}

// Limited reports whether the flow is under a limit.
func (f *Flow) Limited() bool { return len(f.Uses) > 0 }

// flowText is the form of a flow as text.
type flowText struct {
	Queue    string           `json:"q"`
	Workflow string           `json:"w"`
	Pin      string           `json:"b,omitempty"`
	Priority int              `json:"p,omitempty"`
	Uses     []store.LimitUse `json:"u"`
}

// Text returns the flow's canonical text, which is the same for equal flows only. [ParseFlow] reads it.
func (f *Flow) Text() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(flowText{f.Queue, f.Workflow, f.Pin, f.Priority, f.Uses}); err != nil {
		panic("storekit: " + err.Error()) // strings and numbers can always be written
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// Hash returns a hash of the flow's text, for stores that index flows: 16 bytes.
func (f *Flow) Hash() [16]byte {
	sum := sha256.Sum256([]byte(f.Text()))
	return [16]byte(sum[:16])
}

// ParseFlow reads the text of a flow.
func ParseFlow(text string) (Flow, error) {
	var t flowText
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Flow{}, err
	}
	return Flow{Lane{t.Queue, t.Workflow, t.Pin}, t.Priority, t.Uses}, nil
}

// LimitKeyID names a key of a limit.
type LimitKeyID struct{ Limit, Key string }

// KeysOf returns the keys that uses count under.
func KeysOf(uses []store.LimitUse) []LimitKeyID {
	ids := make([]LimitKeyID, len(uses))
	for i, u := range uses {
		ids[i] = LimitKeyID{u.Limit, u.Key}
	}
	return ids
}

// LimitKeyState is what a store keeps of a key. A key without a row has the zero state.
type LimitKeyState struct {
	LimitKeyID
	Held   int64 // leases under it, as of the marks that were folded
	TAT    int64 // the time of the rate (P22), in microseconds; 0: in the past
	VTime  int64 // the virtual time (P23)
	Weight int64 // 0: 1
	Parked int64 // flows that are parked at it
	// Need is the least number of tokens for which a flow that is parked at the key waits; 0: none waits for
	// tokens. NextAt is when there are as many, in microseconds.
	Need   int64
	NextAt int64
}

// fairCost is what a token costs in virtual time, at weight 1.
const fairCost = 1_000_000

// farAway bounds times in microseconds, so that sums of them do not overflow.
const farAway = 1 << 60

// most returns how many leases the key takes in addition.
func (k *LimitKeyState) most(r store.LimitRule) int64 {
	if r.Concurrency == 0 {
		return farAway
	}
	return max(0, r.Concurrency-k.Held)
}

// tokens returns how many tokens the key has at a time.
func (k *LimitKeyState) tokens(r store.LimitRule, now int64) int64 {
	every := r.Every()
	if every == 0 {
		return farAway
	}
	return max(0, (now+r.Most()*every-max(k.TAT, now))/every)
}

// tokensAt returns when the key has n tokens: now, or a later time.
func (k *LimitKeyState) tokensAt(r store.LimitRule, n, now int64) int64 {
	every := r.Every()
	if every == 0 {
		return now
	}
	return max(now, k.TAT-(r.Most()-min(n, r.Most()))*every)
}

// take counts a lease that takes n tokens.
func (k *LimitKeyState) take(r store.LimitRule, n, now int64) {
	k.Held++
	if every := r.Every(); every > 0 && n > 0 {
		k.TAT = min(farAway, max(k.TAT, now)+min(n, farAway/every)*every)
	}
}

// start returns the virtual time at which the key's next claim begins.
func (k *LimitKeyState) start(clock int64) int64 { return max(k.VTime, clock) }

// turn gives the key its turn, and returns the limit's clock.
func (k *LimitKeyState) turn(n, clock int64) int64 {
	start := k.start(clock)
	k.VTime = min(farAway, start+fairCost*max(1, n)/max(1, k.Weight))
	return start
}

// Idle reports whether the key's state says nothing that a key without a row does not say, so that the
// store may delete it. clock is the virtual clock of its limit.
func (k *LimitKeyState) Idle(clock int64, now time.Time) bool {
	return k.Held == 0 && k.Parked == 0 && k.Weight <= 1 && k.TAT <= now.UnixMicro() && k.VTime <= clock
}

// LimitMarksOf returns the marks that a write leaves that has changed a run: none, unless the run is or was
// under limits. before is the zero Run for a new run, and after is for one that was deleted. The leases that a
// claim gives leave no marks: its plan counts them.
func LimitMarksOf(before, after *Run) (marks []LimitMark) {
	old, waited := before.Waits()
	next, waits := after.Waits()
	moved := waited != waits || !before.VisibleAt.Equal(after.VisibleAt) || waits && old.Text() != next.Text()
	if waited && moved {
		marks = append(marks, LimitMark{News: old})
	}
	if waits && moved && !(waited && old.Text() == next.Text()) {
		marks = append(marks, LimitMark{News: next})
	}
	had, has := slices.Concat(before.Under, before.StepUnder), slices.Concat(after.Under, after.StepUnder)
	if !before.Leased() {
		had = nil
	}
	if !after.Leased() {
		has = nil
	}
	freed := slices.DeleteFunc(had, func(u store.LimitUse) bool { return slices.Contains(has, u) })
	if len(freed) > 0 {
		marks = append(marks, LimitMark{Freed: freed})
	}
	return marks
}

// RateAt returns when the key has a token again; zero: it has one, or the rule has no rate.
func (k *LimitKeyState) RateAt(r store.LimitRule, now time.Time) time.Time {
	at := k.tokensAt(r, 1, now.UnixMicro())
	if at <= now.UnixMicro() {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}
