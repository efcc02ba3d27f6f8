package mutant

import (
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// breaksDebounce makes a store that breaks a rule of debounced starts.
func breaksDebounce(f model.DebounceFault) func(*model.Store) store.Store {
	return wrap(func(s *faulty) { s.Store.BreakDebounce(f) })
}

// These mutants break P28, and what P4 says of debounced starts.
var debounceMutants = []Mutant{
	{"debounce-ignored", "P28", "each start creates a run", createdWith(func(r *store.NewRun) { r.Debounce, r.AtMost = "", 0 })},
	{"debounce-keeps-input", "P28", "the first start's input stays", breaksDebounce(model.DebounceKeepsInput)},
	{"debounce-keeps-time", "P28", "the first start's time stays", breaksDebounce(model.DebounceKeepsTime)},
	{"debounce-keeps-limits", "P28", "the first start's limits stay", breaksDebounce(model.DebounceKeepsLimits)},
	{"debounce-keeps-tags", "P28", "the first start's tags stay", breaksDebounce(model.DebounceKeepsTags)},
	{"debounce-keeps-deadline", "P28", "the first start's deadline stays", breaksDebounce(model.DebounceKeepsDeadline)},
	{"debounce-without-limit", "P28", "AtMost does not limit the delay", breaksDebounce(model.DebounceForgetsAtMost)},
	{"debounce-at-most-anew", "P28", "AtMost counts from each start", breaksDebounce(model.DebounceAtMostAnew)},
	{"debounce-replaces-begun", "P28", "a run that has begun and waits again is replaced", breaksDebounce(model.DebounceReplacesBegun)},
	{"debounce-replaces-ended", "P28", "a run that was canceled before it began is replaced", breaksDebounce(model.DebounceReplacesEnded)},
	{"debounce-ignores-paused", "P28", "a paused run is not replaced", breaksDebounce(model.DebounceIgnoresPaused)},
	{"debounce-across-workflows", "P28", "workflows share their keys", breaksDebounce(model.DebounceAcrossWorkflows)},
	{"debounce-forgets-starts", "P4", "a start that is sent again replaces again", breaksDebounce(model.DebounceForgetsStarts)},
	{"debounce-knows-for-ever", "P4", "a start is known after DebounceMemory", breaksDebounce(model.DebounceKnowsForEver)},
}
