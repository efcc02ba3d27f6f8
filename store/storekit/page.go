package storekit

import (
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// A Bound counts the bytes that may still be returned. After the first item that did not fit,
// nothing fits any more.
type Bound struct {
	left int
	one  bool // the first item fits whatever its size
	full bool
}

// UpTo returns a bound of n bytes. If n is 0, only items of 0 bytes fit.
func UpTo(n int) *Bound { return &Bound{left: n} }

// FirstAndUpTo returns a bound of n bytes whose first item fits whatever its size. If n is 0, there
// is no limit.
func FirstAndUpTo(n int) *Bound {
	if n == 0 {
		n = math.MaxInt
	}
	return &Bound{left: n, one: true}
}

// Take counts an item of n bytes, and reports whether it fits.
func (b *Bound) Take(n int) bool {
	b.full = b.full || n > b.left && !b.one
	if !b.full {
		b.left, b.one = max(b.left-n, -1), false
	}
	return !b.full
}

// Collect takes items until there are limit of them or the bound is reached. more says that there are
// further items. size returns the bytes of an item; nil counts none. b must not be nil.
func Collect[T any](items iter.Seq[T], limit int, b *Bound, size func(*T) int) (out []T, more bool) {
	for item := range items {
		n := 0
		if size != nil {
			n = size(&item)
		}
		if len(out) == limit || !b.Take(n) {
			return out, true
		}
		out = append(out, item)
	}
	return out, false
}

// FailureSize returns the bytes of a failure, 0 for none.
func FailureSize(f *store.Failure) int {
	if f == nil {
		return 0
	}
	return len(f.Code) + len(f.Message) + len(f.Type) + len(f.Stack) + len(f.Details)
}

// RunSize returns the bytes that [store.GetParams].MaxBytes counts.
func RunSize(r *store.Run) int {
	return len(r.Input) + len(r.Output) + len(r.Meta) + FailureSize(r.Failure)
}

// ClaimSize returns the bytes that [store.ClaimParams].MaxBytes counts of a run.
func ClaimSize(r *store.Run) int { return len(r.Input) + len(r.Meta) + FailureSize(r.Failure) }

// StepSize returns the bytes that a bound on steps counts.
func StepSize(st *store.Step) int {
	n := len(st.Output) + FailureSize(st.Failure)
	for i := range st.Earlier {
		n += len(st.Earlier[i].Code) + len(st.Earlier[i].Message)
	}
	return n
}

// SignalSize returns the bytes that a bound on signals counts.
func SignalSize(s *store.Signal) int { return len(s.Payload) }

// EntrySize returns the bytes that a bound on state counts.
func EntrySize(e *store.StateEntry) int { return len(e.Value) }

// workerSize counts lists and maps as JSON.
func workerSize(w *store.Worker) int {
	n := len(w.Host)
	for _, v := range []any{w.Queues, w.Workflows, w.Labels, w.Limits, w.Takes} {
		text, err := json.Marshal(v)
		if err != nil {
			panic("storekit: " + err.Error()) // it has only strings and numbers
		}
		n += len(text)
	}
	return n
}

// Omit removes from a run what a call's limit omits.
func Omit(r *store.Run) {
	r.Input, r.Output, r.Meta, r.Failure, r.Omitted = nil, nil, nil, nil, true
}

// OmitBeyond removes the payloads of runs beyond maxBytes (0: no limit). The first run is always
// complete.
func OmitBeyond(runs []store.Run, maxBytes int) {
	b := FirstAndUpTo(maxBytes)
	for i := range runs {
		if !b.Take(RunSize(&runs[i])) {
			Omit(&runs[i])
		}
	}
}

// Matches reports whether a filter selects a run. anyStep reports whether the run has a step that
// satisfies a condition; it is called last, and only if the filter has conditions on steps.
func Matches(f *store.RunFilter, r *store.Run, anyStep func(like func(*store.Step) bool) bool) bool {
	failure := r.Failure
	if failure == nil {
		failure = &store.Failure{}
	}
	return f.Wants(r.Status) && inTime(f, r) &&
		(f.Workflow == "" || r.Workflow == f.Workflow) &&
		(f.Queue == "" || r.Queue == f.Queue) &&
		(f.Parent.IsZero() || r.Parent == f.Parent) &&
		(f.ExternalID == "" || r.ExternalID == f.ExternalID) &&
		strings.HasPrefix(idDigits(r.ID.String()), idDigits(strings.ToLower(f.IDPrefix))) &&
		(!f.Pinned || r.Pin != nil) &&
		(len(f.PinnedTo) == 0 || r.Pin != nil && slices.Contains(f.PinnedTo, r.Pin.Build)) &&
		f.MatchesTags(r.Tags) &&
		(f.FailureCode == "" || failure.Code == f.FailureCode) &&
		(f.FailureText == "" || strings.Contains(failure.Message, f.FailureText)) &&
		(f.FailedStep == "" || anyStep(func(st *store.Step) bool { return st.Status == store.StepFailed && st.Name == f.FailedStep })) &&
		(r.Attempt >= f.MinAttempt || anyStep(func(st *store.Step) bool { return !st.Status.Final() && st.Attempt >= f.MinAttempt }))
}

func idDigits(s string) string { return strings.ReplaceAll(s, "-", "") }

// inTime reports whether a run was created and ended within a filter's times.
func inTime(f *store.RunFilter, r *store.Run) bool {
	return (f.CreatedAfter.IsZero() || r.CreatedAt.After(Micro(f.CreatedAfter))) &&
		(f.CreatedBefore.IsZero() || r.CreatedAt.Before(Micro(f.CreatedBefore))) &&
		(f.FinishedAfter.IsZero() || r.FinishedAt.After(Micro(f.FinishedAfter))) &&
		(f.FinishedBefore.IsZero() || r.FinishedAt.Before(Micro(f.FinishedBefore)))
}
