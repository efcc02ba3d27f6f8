package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func asTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func asID(id store.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// each converts a list. The result is not nil, so that an empty list is [] in JSON.
func each[From, To any](list []From, as func(*From) To) []To {
	out := make([]To, 0, len(list))
	for i := range list {
		out = append(out, as(&list[i]))
	}
	return out
}

func asFailure(f *store.Failure) *wire.Failure {
	if f == nil {
		return nil
	}
	return &wire.Failure{Code: f.Code, Message: f.Message, Type: f.Type, Stack: f.Stack, Permanent: f.Permanent}
}

// asRun converts a run without its payloads.
func asRun(r *store.Run) wire.Run {
	out := wire.Run{
		ID: r.ID.String(), Namespace: r.Namespace, Workflow: r.Workflow, Queue: r.Queue, Status: r.Status.String(), Priority: r.Priority,
		ExternalID: r.ExternalID, Suffix: r.Suffix, Parent: asID(r.Parent), Group: r.Group, Ordinal: r.Ordinal, ForkedFrom: asID(r.ForkedFrom),
		Attempt: r.Attempt, Crashes: engine.Crashes(r), Generation: r.Generation, Epoch: r.Epoch, Worker: r.Worker, Pausing: r.Pausing,
		VisibleAt: asTime(r.VisibleAt), CreatedAt: asTime(r.CreatedAt), StartedAt: asTime(r.StartedAt), FinishedAt: asTime(r.FinishedAt), Deadline: asTime(r.Deadline),
		Failure: asFailure(r.Failure), Build: r.Build, Tags: r.Tags, Under: asUses(r.Under), StepUnder: asUses(r.StepUnder),
	}
	if p := r.Pin; p != nil {
		out.Pin = &wire.Pin{Build: p.Build, By: p.By, Step: p.Step, Expected: p.Expected, Found: p.Found, Ramp: p.Ramp}
	}
	return out
}

func asUses(uses []store.LimitUse) (out []wire.LimitUse) {
	for _, u := range uses {
		out = append(out, wire.LimitUse{Limit: u.Limit, Key: u.Key, Tokens: u.Tokens})
	}
	return out
}

// run converts a run that was read alone.
func (c *call) run1(r *store.Run, most int) wire.Run {
	out := asRun(r)
	out.Schedule, _ = engine.ScheduledBy(*r)
	out.Input, out.Output = c.payload(r.Input, most), c.payload(r.Output, most)
	return out
}

// step converts a step. Spent is how many bytes of outputs the answer has.
func (c *call) step(s *store.Step, most int, spent *int) wire.Step {
	out := asStep(s)
	out.Output = c.payload(s.Output, most)
	if p := out.Output; p != nil && !p.Omitted && !p.Hidden {
		if *spent += p.Size; *spent > answerBytes && *spent > p.Size {
			*spent -= p.Size
			out.Output = &wire.Payload{Size: p.Size, Omitted: true}
		}
	}
	return out
}

// answerBytes limits the payloads of an answer together.
const answerBytes = 4 << 20

// asStep converts a step without its output.
func asStep(s *store.Step) wire.Step {
	out := wire.Step{
		Key: s.StepKey.String(), Branch: s.Branch, Name: s.Name, Occurrence: s.Occurrence, Kind: s.Kind.String(), Status: s.Status.String(),
		Position: s.Position, Attempt: s.Attempt, StartedAt: asTime(s.StartedAt), FinishedAt: asTime(s.FinishedAt), DueAt: asTime(s.DueAt), Failure: asFailure(s.Failure),
	}
	for _, e := range s.Earlier {
		out.Earlier = append(out.Earlier, wire.FailedAttempt{Attempt: e.Attempt, StartedAt: asTime(e.StartedAt), Code: e.Code, Message: e.Message})
	}
	return out
}

var active = []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}

// statuses reads statuses and the groups active and final.
func statuses(names []string) (list []store.Status, err error) {
	for _, name := range names {
		switch name {
		case "active", "final":
			for _, s := range store.Statuses() {
				if s.Final() == (name == "final") {
					list = append(list, s)
				}
			}
			continue
		}
		var s store.Status
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// filter reads a filter.
func (c *call) filter(w *wire.RunFilter) (f store.RunFilter, err error) {
	f = store.RunFilter{
		Workflow: w.Workflow, Queue: w.Queue, ExternalID: w.ExternalID, IDPrefix: w.IDPrefix,
		CreatedAfter: timeOf(w.CreatedAfter), CreatedBefore: timeOf(w.CreatedBefore), FinishedAfter: timeOf(w.FinishedAfter), FinishedBefore: timeOf(w.FinishedBefore),
		FailureCode: w.FailureCode, FailureText: w.FailureText, FailedStep: w.FailedStep, MinAttempt: w.MinAttempt, Pinned: w.Pinned, PinnedTo: w.PinnedTo,
	}
	if f.Tags, err = store.ParseTagMatches(w.Tag); err != nil {
		return f, err
	}
	if f.Statuses, err = statuses(w.Status); err != nil {
		return f, err
	}
	if w.Parent != "" {
		if f.Parent, err = store.ParseID(w.Parent); err != nil {
			return f, store.Invalid("parent", err.Error())
		}
	}
	if w.Stranded {
		err = c.stranded(&f)
	}
	return f, err
}

// stranded narrows a filter to the runs that are pinned to builds without an online worker.
func (c *call) stranded(f *store.RunFilter) error {
	builds, err := c.eng.Stranded(c.ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, b := range builds {
		if len(f.PinnedTo) == 0 || slices.Contains(f.PinnedTo, b.Name) {
			names = append(names, b.Name)
		}
	}
	if f.PinnedTo = names; len(names) == 0 { // an empty list would select all
		f.Pinned, f.CreatedBefore = true, time.Unix(0, 0)
	}
	if len(f.Statuses) == 0 {
		f.Statuses = active
	}
	for _, s := range f.Statuses {
		if s.Final() {
			return store.Invalid("stranded", fmt.Sprintf("no %s run is stranded", s))
		}
	}
	return nil
}

// onlyFinal reports whether a filter selects only final runs.
func onlyFinal(f *store.RunFilter) bool {
	return !f.FinishedAfter.IsZero() || !f.FinishedBefore.IsZero() ||
		len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, func(s store.Status) bool { return !s.Final() })
}
