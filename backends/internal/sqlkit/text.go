// Package sqlkit contains what the SQL backends share: the names of statuses and other numbers in
// statements, the conversion of values to columns, and the rules of a commit that do not depend on
// a dialect. It imports no driver.
package sqlkit

import (
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// Bits of runs.parts: what a run has, or has had.
const (
	PartSteps = 1 << iota
	PartState
	PartSignals
	PartGroups
	PartLargeInput // the input has a row of its own; SQLite only
	PartChildren
	PartEnded // the holder of the lease made the run final; worker still names it
	// PartRecorded: a commit under the last lease has recorded a step, so that the run's Build is
	// that of the lease.
	PartRecorded

	// PartsOfStep are the bits that a commit with steps sets.
	PartsOfStep = PartSteps | PartRecorded

	partsToReplay = PartSteps | PartState | PartSignals | PartGroups
)

// WakeChildren is a bit of runs.wakes in addition to those of [store.WakeOn]: the run's sleep
// awaits children.
const WakeChildren = 4

// names are the numbers that statements have by name.
var names = map[string]int{
	"pending":   int(store.Pending),
	"running":   int(store.Running),
	"sleeping":  int(store.Sleeping),
	"paused":    int(store.Paused),
	"canceling": int(store.Canceling),
	"completed": int(store.Completed),
	"failed":    int(store.Failed),
	"canceled":  int(store.Canceled),
	"final":     int(store.Completed), // a run is final from this status on

	"stepCompleted": int(store.StepCompleted),
	"stepFailed":    int(store.StepFailed),
	"stepFinal":     int(store.StepCompleted), // a step is final from this status on
	"kindFunction":  int(store.KindFunction),

	"online": int(store.Online),

	"maxLimits": store.MaxLimits,

	"reuseAfterEnd": int(store.ReuseAfterEnd),
	"reuseNever":    int(store.ReuseNever),
	"closeCancel":   int(store.CloseCancel),

	"wakeSignal":   int(store.WakeSignal),
	"wakeChildren": WakeChildren,

	"partSteps":      PartSteps,
	"partState":      PartState,
	"partSignals":    PartSignals,
	"partGroups":     PartGroups,
	"partLargeInput": PartLargeInput,
	"partChildren":   PartChildren,
	"partEnded":      PartEnded,
	"partsToReplay":  partsToReplay,
	"partRecorded":   PartRecorded,
	"partsOfStep":    PartsOfStep,
}

// Text makes a statement of a template: it replaces each name in braces by its number.
// "status<{final}" becomes "status<6". The database sees literals, which it compares with the
// conditions of its partial indexes. Other braces are kept. Text is called when a package is
// initialized; it panics if a name is unknown.
func Text(template string) string {
	var b strings.Builder
	for rest := template; ; {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, behind, _ := strings.Cut(after, "}")
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			b.WriteByte('{') // such as that of an empty array
			rest = after
			continue
		}
		n, ok := names[name]
		if !ok {
			panic("sqlkit: a statement has the unknown name {" + name + "}")
		}
		b.WriteString(strconv.Itoa(n))
		rest = behind
	}
}
