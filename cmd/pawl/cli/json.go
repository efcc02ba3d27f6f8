package cli

import (
	"encoding/json"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// The JSON output. Fields may be added, but none is renamed or removed. Times are
// RFC 3339 in UTC. Optional fields without a value are omitted.

type payloadJSON struct {
	Size   int             `json:"size"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Base64 []byte          `json:"base64,omitempty"` // if the payload is not JSON
}

func asPayload(b []byte) *payloadJSON {
	switch {
	case b == nil:
		return nil
	case json.Valid(b):
		return &payloadJSON{Size: len(b), JSON: b}
	}
	return &payloadJSON{Size: len(b), Base64: b}
}

func asTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

type runJSON struct {
	ID         store.ID         `json:"id"`
	Namespace  string           `json:"namespace"`
	Workflow   string           `json:"workflow"`
	Queue      string           `json:"queue"`
	Status     store.Status     `json:"status"`
	Priority   int              `json:"priority"`
	ExternalID string           `json:"external_id,omitempty"`
	Suffix     string           `json:"suffix,omitempty"`
	Parent     *store.ID        `json:"parent,omitempty"`
	Group      string           `json:"group,omitempty"`
	Ordinal    int64            `json:"ordinal,omitempty"`
	ForkedFrom *store.ID        `json:"forked_from,omitempty"`
	Attempt    int              `json:"attempt"`
	Crashes    int              `json:"crashes"`
	Generation int              `json:"generation"`
	Epoch      int64            `json:"epoch"`
	Worker     string           `json:"worker,omitempty"`
	Pausing    bool             `json:"pausing,omitempty"`
	VisibleAt  *time.Time       `json:"visible_at,omitempty"`
	CreatedAt  *time.Time       `json:"created_at"`
	StartedAt  *time.Time       `json:"started_at,omitempty"`
	FinishedAt *time.Time       `json:"finished_at,omitempty"`
	Deadline   *time.Time       `json:"deadline,omitempty"`
	Failure    *store.Failure   `json:"failure,omitempty"`
	Pin        *store.Pin       `json:"pin,omitempty"`
	Under      []store.LimitUse `json:"under,omitempty"`
	StepUnder  []store.LimitUse `json:"step_under,omitempty"`
	Tags       store.Tags       `json:"tags,omitempty"`
	Input      *payloadJSON     `json:"input,omitempty"`
	Output     *payloadJSON     `json:"output,omitempty"`
}

func asID(id store.ID) *store.ID {
	if id.IsZero() {
		return nil
	}
	return &id
}

func asRun(r store.Run) runJSON {
	return runJSON{
		ID: r.ID, Namespace: r.Namespace, Workflow: r.Workflow, Queue: r.Queue, Status: r.Status, Priority: r.Priority,
		ExternalID: r.ExternalID, Suffix: r.Suffix, Parent: asID(r.Parent), Group: r.Group, Ordinal: r.Ordinal, ForkedFrom: asID(r.ForkedFrom),
		Attempt: r.Attempt, Crashes: engine.Crashes(&r), Generation: r.Generation, Epoch: r.Epoch, Worker: r.Worker, Pausing: r.Pausing,
		VisibleAt: asTime(r.VisibleAt), CreatedAt: asTime(r.CreatedAt), StartedAt: asTime(r.StartedAt), FinishedAt: asTime(r.FinishedAt), Deadline: asTime(r.Deadline),
		Failure: r.Failure, Pin: r.Pin, Under: r.Under, StepUnder: r.StepUnder, Tags: r.Tags, Input: asPayload(r.Input), Output: asPayload(r.Output),
	}
}

type stepJSON struct {
	Key        string         `json:"key"`
	Branch     string         `json:"branch,omitempty"`
	Name       string         `json:"name"`
	Occurrence int            `json:"occurrence"`
	Kind       string         `json:"kind"`
	Status     string         `json:"status"`
	Position   int64          `json:"position"`
	Attempt    int            `json:"attempt"`
	StartedAt  *time.Time     `json:"started_at,omitempty"`
	FinishedAt *time.Time     `json:"finished_at,omitempty"`
	DueAt      *time.Time     `json:"due_at,omitempty"`
	Failure    *store.Failure `json:"failure,omitempty"`
	Output     *payloadJSON   `json:"output,omitempty"`

	Earlier []store.FailedAttempt `json:"earlier,omitempty"`
}

func asStep(s store.Step) stepJSON {
	return stepJSON{
		Key: s.StepKey.String(), Branch: s.Branch, Name: s.Name, Occurrence: s.Occurrence, Kind: s.Kind.String(), Status: s.Status.String(),
		Position: s.Position, Attempt: s.Attempt, StartedAt: asTime(s.StartedAt), FinishedAt: asTime(s.FinishedAt), DueAt: asTime(s.DueAt),
		Failure: s.Failure, Output: asPayload(s.Output), Earlier: s.Earlier,
	}
}

type stateJSON struct {
	Key       string       `json:"key"`
	Value     *payloadJSON `json:"value,omitempty"`
	Version   int64        `json:"version"`
	UpdatedAt *time.Time   `json:"updated_at,omitempty"`
}

func asState(e store.StateEntry) stateJSON {
	return stateJSON{Key: e.Key, Value: asPayload(e.Value), Version: e.Version, UpdatedAt: asTime(e.UpdatedAt)}
}

type signalJSON struct {
	ID      store.ID     `json:"id"`
	Name    string       `json:"name"`
	Payload *payloadJSON `json:"payload,omitempty"`
	SentAt  *time.Time   `json:"sent_at"`
}

// each converts a list. The result is not nil, so that an empty list is [] in JSON.
func each[From, To any](list []From, as func(From) To) []To {
	out := make([]To, 0, len(list))
	for _, v := range list {
		out = append(out, as(v))
	}
	return out
}
