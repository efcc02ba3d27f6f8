package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// The format that [Engine.Export] writes.
const (
	exportFormat  = "pawl-runs"
	exportVersion = 2
)

// ExportOption configures an export.
type ExportOption func(*exportPlan)

type exportPlan struct{ children bool }

// WithChildren exports the run's descendants as well.
func WithChildren() ExportOption { return func(p *exportPlan) { p.children = true } }

// Export writes a run as JSON to w: the run with its steps, flow state, unread signals, the
// ids of the signals that it has read, with its answers to them, the items of its streams, and the counts of its children. [Engine.Import]
// reads it, for example to bring a production run to a laptop's SQLite. A run may be
// exported at any time. One that is executed meanwhile is exported as it is at some moment
// of the export, and parts of it may be of a later moment. Export fails with
// store.ErrNotFound.
//
// Payloads are written as JSON if they are valid, compact JSON, and in base64 otherwise.
// Either way they come back byte for byte. What the engine's codec has encrypted stays
// encrypted: the importing side needs the same keys. The export contains whatever the run's
// payloads contain, so protect it like the database.
func (e *Engine) Export(ctx context.Context, w io.Writer, id store.ID, opts ...ExportOption) error {
	var plan exportPlan
	for _, opt := range opts {
		opt(&plan)
	}
	doc := exportDoc{Format: exportFormat, Version: exportVersion, Namespace: e.namespace, Backend: e.store.Features().Name}
	ids := []store.ID{id}
	for len(ids) > 0 {
		r, err := e.exportRun(ctx, ids[0])
		if err != nil {
			if len(doc.Runs) > 0 && errors.Is(err, store.ErrNotFound) {
				ids = ids[1:] // a descendant that was purged in the meantime
				continue
			}
			return fmt.Errorf("export: %w", err)
		}
		doc.Runs = append(doc.Runs, r)
		if plan.children {
			children, err := e.childIDs(ctx, ids[0])
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			ids = append(ids, children...)
		}
		ids = ids[1:]
	}
	clock, err := e.store.Clock(ctx)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	doc.ExportedAt = clock
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("export of run %s: %w", id, err)
	}
	return nil
}

func (e *Engine) childIDs(ctx context.Context, parent store.ID) (ids []store.ID, err error) {
	for cursor := ""; ; {
		page, err := e.List(ctx, store.RunFilter{Parent: parent}, cursor, store.MaxPage)
		if err != nil {
			return nil, fmt.Errorf("children of run %s: %w", parent, err)
		}
		for i := range page.Runs {
			ids = append(ids, page.Runs[i].ID)
		}
		if cursor = page.Next; cursor == "" {
			return ids, nil
		}
	}
}

func (e *Engine) exportRun(ctx context.Context, id store.ID) (exportedRun, error) {
	// The run is read first: later changes only add to the rest.
	run, err := e.Get(ctx, id)
	if err != nil {
		return exportedRun{}, err
	}
	steps, err := e.Steps(ctx, id)
	if err != nil {
		return exportedRun{}, err
	}
	var box store.Inbox
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		box, err = exec.ReadInbox(ctx, e.store, e.namespace, id, exec.Look{State: true})
		return err
	})
	if err == nil && box.MoreGroups {
		box.Groups, err = e.groups(ctx, id)
	}
	if err != nil {
		return exportedRun{}, fmt.Errorf("inbox of run %s: %w", id, err)
	}
	rec := store.RunRecord{Run: run, Steps: steps, State: box.State, Groups: box.Groups}
	if err := e.sent(ctx, &rec, &box); err != nil {
		return exportedRun{}, fmt.Errorf("signals of run %s: %w", id, err)
	}
	if err := e.streamItems(ctx, &rec); err != nil {
		return exportedRun{}, fmt.Errorf("streams of run %s: %w", id, err)
	}
	// Signals that arrived between the reads are events too.
	rec.Run.Events = max(run.Events, box.Events, int64(len(rec.Signals)+len(rec.Consumed)))
	return newExportedRun(&rec), nil
}

// streamItems reads all items of the run's streams, but those of a lease or a generation that the run as it was read
// had not reached.
func (e *Engine) streamItems(ctx context.Context, rec *store.RunRecord) error {
	if !store.Able(e.store, store.Streams) {
		return nil
	}
	p := store.ReadStreamParams{Run: rec.Run.ID, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes}
	for {
		var page store.StreamPage
		err := e.retry(ctx, func(ctx context.Context) (err error) {
			page, err = e.ReadStream(ctx, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			if it.Epoch <= rec.Run.Epoch && it.Generation <= rec.Run.Generation {
				rec.Streams = append(rec.Streams, it)
			}
		}
		if p.After = page.Next; p.After == 0 {
			return nil
		}
	}
}

// sent reads all signals that the run has received.
func (e *Engine) sent(ctx context.Context, rec *store.RunRecord, box *store.Inbox) error {
	x, ok := e.store.(store.Exporter)
	if !ok {
		return e.unread(ctx, rec, box)
	}
	limit := sentPage
	for after := int64(0); ; {
		var page store.SentPage
		err := e.retry(ctx, func(ctx context.Context) (err error) {
			page, err = x.Sent(ctx, store.SentParams{Namespace: e.namespace, Run: rec.Run.ID, After: after, Limit: limit})
			return err
		})
		if err != nil {
			return err
		}
		bytes := 0
		for _, s := range page.Signals {
			bytes += len(s.Payload)
			if s.Consumed {
				rec.Consumed = append(rec.Consumed, s.ID)
				if s.Given != nil {
					rec.Answers = append(rec.Answers, *s.Given)
					bytes += s.Given.Size()
				}
			} else {
				rec.Signals = append(rec.Signals, s.Signal)
			}
		}
		switch {
		case page.Next == 0:
			return nil
		case bytes < store.DefaultClaimBytes/2:
			limit = min(2*limit, store.MaxPage)
		case bytes > store.DefaultClaimBytes:
			limit = max(1, limit/2)
		}
		after = page.Next
	}
}

// sentPage is the first page: an answer with payloads of the usual limit stays small.
const sentPage = 4

// unread reads the unconsumed signals of a run, if the backend cannot list the others.
func (e *Engine) unread(ctx context.Context, rec *store.RunRecord, box *store.Inbox) error {
	page := *box
	for {
		rec.Signals = append(rec.Signals, page.Signals...)
		if !page.MoreSignals {
			return nil
		}
		after := page.Signals[len(page.Signals)-1].Position
		err := e.retry(ctx, func(ctx context.Context) (err error) {
			page, err = e.store.Inbox(ctx, store.InboxParams{Namespace: e.namespace, Run: rec.Run.ID, After: after, NoState: true, MaxBytes: store.DefaultClaimBytes})
			return err
		})
		if err != nil {
			return err
		}
	}
}

// Imported is one run of an import.
type Imported struct {
	ID     store.ID
	Status store.Status // paused, or final
	// Existing says that the namespace has a run of that ID, which was left alone.
	Existing bool
}

// Import creates the runs of an [Engine.Export] in the engine's namespace, with their IDs.
// Runs that were final stay final: they can be looked at, forked and restarted. All others
// are paused, so that no worker takes them by accident: they can be looked at and forked,
// and [Engine.Resume] lets them continue here, with the same effects on the outside world. Never
// resume a run whose original still runs.
//
// Runs are imported one by one, ancestors first. When Import fails, the runs that it
// returns were created, and the same import again does the rest. It fails with
// store.ErrInvalid for data that is no export, or one of a newer version; with
// store.ErrAlreadyExists if another namespace has a run's ID, or another active run its
// external id; and with store.ErrUnsupported if the backend cannot import.
func (e *Engine) Import(ctx context.Context, r io.Reader) ([]Imported, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	imp, ok := e.store.(store.Importer)
	if !ok {
		return nil, fmt.Errorf("import: the %s backend cannot import runs: %w", e.store.Features().Name, store.ErrUnsupported)
	}
	doc, err := readExport(r)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	var made []Imported
	for i := range doc.Runs {
		rec, err := doc.Runs[i].record()
		if err != nil {
			return made, fmt.Errorf("import of run %s: %w", doc.Runs[i].ID, err)
		}
		if len(rec.Streams) > 0 && !store.Able(e.store, store.Streams) {
			return made, fmt.Errorf("import of run %s: the %s backend has no streams, and the run has %d items in its streams; remove \"streams\" from the export to import the run without them: %w",
				rec.Run.ID, e.store.Features().Name, len(rec.Streams), store.ErrUnsupported)
		}
		p := store.ImportParams{Namespace: e.namespace, Record: rec}
		var created bool
		err = e.retry(ctx, func(ctx context.Context) (err error) {
			created, err = imp.Import(ctx, p)
			return err
		})
		if err != nil {
			return made, fmt.Errorf("import of run %s into namespace %q: %w", rec.Run.ID, e.namespace, err)
		}
		if created && !rec.Run.Status.Final() {
			e.telemetry().Started(telemetry.FromImport, store.RunCount{Queue: rec.Run.Queue, Workflow: rec.Run.Workflow, Count: 1})
		}
		made = append(made, Imported{ID: rec.Run.ID, Status: p.Imported().Status, Existing: !created})
	}
	return made, nil
}

// readExport reads what [Engine.Export] has written.
func readExport(r io.Reader) (doc exportDoc, err error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return doc, err
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return doc, store.Invalid("export", "it is not valid JSON: "+err.Error())
	}
	switch {
	case head.Format != exportFormat:
		return doc, store.Invalid("export", fmt.Sprintf("its format is %q, want %q; use the output of a Pawl export", head.Format, exportFormat))
	case head.Version < 1 || head.Version > exportVersion:
		return doc, store.Invalid("export", fmt.Sprintf("its version is %d, but this program supports versions up to %d; use a newer program", head.Version, exportVersion))
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return doc, store.Invalid("export", err.Error())
	}
	return doc, nil
}

// exported returns the runs of an export, with their records.
func exported(r io.Reader) ([]store.RunRecord, error) {
	doc, err := readExport(r)
	if err != nil {
		return nil, err
	}
	records := make([]store.RunRecord, len(doc.Runs))
	for i := range doc.Runs {
		if records[i], err = doc.Runs[i].record(); err != nil {
			return nil, fmt.Errorf("run %s: %w", doc.Runs[i].ID, err)
		}
	}
	return records, nil
}

// The format's own types: what the store's become does not change a file that was
// written before.

type exportDoc struct {
	Format     string        `json:"format"`
	Version    int           `json:"version"`
	ExportedAt time.Time     `json:"exported_at"`
	Backend    string        `json:"backend"`
	Namespace  string        `json:"namespace"`
	Runs       []exportedRun `json:"runs"` // a parent comes before its children
}

type exportedRun struct {
	ID         store.ID     `json:"id"`
	Workflow   string       `json:"workflow"`
	Queue      string       `json:"queue"`
	Status     store.Status `json:"status"`
	Priority   int          `json:"priority,omitempty"`
	ExternalID string       `json:"external_id,omitempty"`
	Suffix     string       `json:"suffix,omitempty"`

	Parent     store.ID `json:"parent,omitzero"`
	Reuse      string   `json:"reuse,omitempty"`  // of the external id: "never", or absent (version 2)
	Digest     []byte   `json:"digest,omitempty"` // (version 2)
	Group      string   `json:"group,omitempty"`
	Ordinal    int64    `json:"ordinal,omitempty"`
	OnClose    string   `json:"on_close,omitempty"` // "abandon", or absent
	ForkedFrom store.ID `json:"forked_from,omitzero"`

	VisibleAt  time.Time `json:"visible_at,omitzero"` // of a start or a retry to come (version 2)
	CreatedAt  time.Time `json:"created_at"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	Deadline   time.Time `json:"deadline,omitzero"`

	Attempt    int   `json:"attempt"`
	Crashes    int   `json:"crashes,omitempty"`
	Generation int   `json:"generation,omitempty"`
	Epoch      int64 `json:"epoch"`
	Events     int64 `json:"events"`

	Worker string `json:"worker,omitempty"` // the worker that ended the run (version 2)

	Build string     `json:"build,omitempty"` // that recorded the last step
	Pin   *store.Pin `json:"pin,omitempty"`   // the build that takes the run, and why
	Tags  store.Tags `json:"tags,omitempty"`

	Under []exportedUse `json:"under,omitempty"` // the limits that the run is under

	Input   *payload       `json:"input,omitempty"`
	Output  *payload       `json:"output,omitempty"`
	Meta    *payload       `json:"meta,omitempty"`
	Failure *store.Failure `json:"failure,omitempty"`

	Steps   []exportedStep   `json:"steps,omitempty"`
	State   []exportedState  `json:"state,omitempty"`
	Signals []exportedSignal `json:"signals,omitempty"`
	Read    []store.ID       `json:"read_signals,omitempty"` // (version 2)
	Answers []exportedAnswer `json:"answers,omitempty"`      // to signals that were read
	Groups  []exportedGroup  `json:"groups,omitempty"`
	Streams []exportedItem   `json:"streams,omitempty"` // the items of all streams, in order
}

type exportedUse struct {
	Limit  string `json:"limit"`
	Key    string `json:"key,omitempty"`
	Tokens int64  `json:"tokens,omitempty"`
}

type exportedStep struct {
	Branch     string         `json:"branch,omitempty"`
	Name       string         `json:"name"`
	Occurrence int            `json:"occurrence"`
	Kind       string         `json:"kind"`
	Status     string         `json:"status"`
	Position   int64          `json:"position"`
	Index      int            `json:"index"`
	Attempt    int            `json:"attempt"`
	Epoch      int64          `json:"epoch"`
	StartedAt  time.Time      `json:"started_at"`
	FinishedAt time.Time      `json:"finished_at,omitzero"`
	DueAt      time.Time      `json:"due_at,omitzero"`
	Output     *payload       `json:"output,omitempty"`
	Failure    *store.Failure `json:"failure,omitempty"`

	Earlier []store.FailedAttempt `json:"earlier,omitempty"` // earlier, failed attempts (version 2)
}

type exportedState struct {
	Key       string    `json:"key"`
	Value     *payload  `json:"value,omitempty"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
}

type exportedSignal struct {
	ID      store.ID  `json:"id"`
	Name    string    `json:"name"`
	Payload *payload  `json:"payload,omitempty"`
	SentAt  time.Time `json:"sent_at"`
}

type exportedAnswer struct {
	Signal     store.ID       `json:"signal"`
	Output     *payload       `json:"output,omitempty"`
	Failure    *store.Failure `json:"failure,omitempty"`
	AnsweredAt time.Time      `json:"answered_at"`
}

type exportedItem struct {
	Position   int64     `json:"position"`
	Stream     string    `json:"stream"`
	Branch     string    `json:"branch,omitempty"`
	Step       string    `json:"step"`
	Occurrence int       `json:"occurrence"`
	Attempt    int       `json:"attempt"`
	Epoch      int64     `json:"epoch"`
	Generation int       `json:"generation,omitempty"`
	Number     int64     `json:"number"`
	Reset      bool      `json:"reset,omitempty"`
	At         time.Time `json:"at"`
	Payload    *payload  `json:"payload,omitempty"`
}

type exportedGroup struct {
	Name      string `json:"name"`
	Total     int64  `json:"total"`
	Open      int64  `json:"open,omitempty"`
	Completed int64  `json:"completed,omitempty"`
	Failed    int64  `json:"failed,omitempty"`
	Canceled  int64  `json:"canceled,omitempty"`
}

// payload holds bytes as a file shows them: compact, valid JSON unchanged, anything else
// in base64. An absent payload is a nil pointer.
type payload struct {
	JSON   json.RawMessage `json:"json,omitempty"`
	Base64 *[]byte         `json:"base64,omitempty"`
}

func newPayload(b []byte) *payload {
	if b == nil {
		return nil
	}
	var compact bytes.Buffer
	if utf8.Valid(b) && json.Compact(&compact, b) == nil && compact.Len() > 0 && bytes.Equal(compact.Bytes(), b) {
		return &payload{JSON: b}
	}
	return &payload{Base64: &b}
}

func (p *payload) bytes(what string) ([]byte, error) {
	switch {
	case p == nil:
		return nil, nil
	case p.JSON != nil && p.Base64 == nil:
		var compact bytes.Buffer
		if err := json.Compact(&compact, p.JSON); err != nil {
			return nil, store.Invalid(what, err.Error())
		}
		return compact.Bytes(), nil
	case p.JSON == nil && p.Base64 != nil:
		if *p.Base64 == nil {
			return []byte{}, nil
		}
		return *p.Base64, nil
	}
	return nil, store.Invalid(what, `it must have exactly one of "json" and "base64"`)
}

func newExportedRun(rec *store.RunRecord) exportedRun {
	r := &rec.Run
	out := exportedRun{
		ID: r.ID, Workflow: r.Workflow, Queue: r.Queue, Status: r.Status, Priority: r.Priority, ExternalID: r.ExternalID, Suffix: r.Suffix,
		Parent: r.Parent, Group: r.Group, Ordinal: r.Ordinal, ForkedFrom: r.ForkedFrom,
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, Deadline: r.Deadline,
		Attempt: r.Attempt, Crashes: Crashes(r), Generation: r.Generation, Epoch: r.Epoch, Events: r.Events,
		Input: newPayload(r.Input), Output: newPayload(r.Output), Meta: newPayload(r.Meta), Failure: r.Failure,
	}
	if r.OnClose == store.CloseAbandon {
		out.OnClose = "abandon"
	}
	if r.Reuse == store.ReuseNever {
		out.Reuse = "never"
	}
	out.Digest, out.Read = r.Digest, rec.Consumed
	out.Build, out.Pin, out.Tags = r.Build, r.Pin, r.Tags
	if rec.Waits() {
		out.VisibleAt = r.VisibleAt
	}
	if r.Status.Final() {
		out.Worker = r.Worker
	}
	for _, u := range r.Under {
		out.Under = append(out.Under, exportedUse(u))
	}
	for i := range rec.Steps {
		s := &rec.Steps[i]
		out.Steps = append(out.Steps, exportedStep{
			Branch: s.Branch, Name: s.Name, Occurrence: s.Occurrence, Kind: s.Kind.String(), Status: s.Status.String(), Position: s.Position, Index: s.Index,
			Attempt: s.Attempt, Epoch: s.Epoch, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, DueAt: s.DueAt, Output: newPayload(s.Output), Failure: s.Failure, Earlier: s.Earlier,
		})
	}
	for _, s := range rec.State {
		out.State = append(out.State, exportedState{Key: s.Key, Value: newPayload(s.Value), Version: s.Version, UpdatedAt: s.UpdatedAt})
	}
	for _, s := range rec.Signals {
		out.Signals = append(out.Signals, exportedSignal{ID: s.ID, Name: s.Name, Payload: newPayload(s.Payload), SentAt: s.SentAt})
	}
	for _, a := range rec.Answers {
		out.Answers = append(out.Answers, exportedAnswer{Signal: a.Signal, Output: newPayload(a.Output), Failure: a.Failure, AnsweredAt: a.At})
	}
	for _, it := range rec.Streams {
		out.Streams = append(out.Streams, exportedItem{
			Position: it.Position, Stream: it.Stream, Branch: it.Step.Branch, Step: it.Step.Name, Occurrence: it.Step.Occurrence, Attempt: it.Attempt, Epoch: it.Epoch,
			Generation: it.Generation, Number: it.Number, Reset: it.Reset, At: it.At, Payload: newPayload(it.Payload),
		})
	}
	for _, g := range rec.Groups {
		out.Groups = append(out.Groups, exportedGroup(g))
	}
	return out
}

func (x *exportedRun) record() (rec store.RunRecord, err error) {
	var errs []error
	read := func(what string, p *payload) []byte {
		b, err := p.bytes(what)
		errs = append(errs, err)
		return b
	}
	r := &rec.Run
	*r = store.Run{
		ID: x.ID, Workflow: x.Workflow, Queue: x.Queue, Status: x.Status, Priority: x.Priority, ExternalID: x.ExternalID, Suffix: x.Suffix,
		Parent: x.Parent, Group: x.Group, Ordinal: x.Ordinal, ForkedFrom: x.ForkedFrom,
		CreatedAt: x.CreatedAt, StartedAt: x.StartedAt, FinishedAt: x.FinishedAt, Deadline: x.Deadline,
		Attempt: x.Attempt, Crashes: x.Crashes, Generation: x.Generation, Epoch: x.Epoch, Events: x.Events,
		Input: read("input", x.Input), Output: read("output", x.Output), Meta: read("meta", x.Meta), Failure: x.Failure,
	}
	switch x.OnClose {
	case "":
	case "abandon":
		r.OnClose = store.CloseAbandon
	default:
		errs = append(errs, store.Invalid("on_close", fmt.Sprintf(`unknown value %q; want "abandon" or no value`, x.OnClose)))
	}
	switch x.Reuse {
	case "":
	case "never":
		r.Reuse = store.ReuseNever
	default:
		errs = append(errs, store.Invalid("reuse", fmt.Sprintf(`unknown value %q; want "never" or no value`, x.Reuse)))
	}
	r.Digest, r.VisibleAt, r.Worker, rec.Consumed = x.Digest, x.VisibleAt, x.Worker, x.Read
	r.Build, r.Pin, r.Tags = x.Build, x.Pin, x.Tags
	for _, u := range x.Under {
		r.Under = append(r.Under, store.LimitUse(u))
	}
	for i := range x.Steps {
		s := &x.Steps[i]
		kind, err := byName(s.Kind, store.KindFunction, store.KindMark)
		errs = append(errs, err)
		status, err := byName(s.Status, store.StepPending, store.StepFailed)
		errs = append(errs, err)
		rec.Steps = append(rec.Steps, store.Step{
			StepKey: store.StepKey{Branch: s.Branch, Name: s.Name, Occurrence: s.Occurrence}, Kind: kind, Status: status, Position: s.Position, Index: s.Index,
			Attempt: s.Attempt, Epoch: s.Epoch, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, DueAt: s.DueAt,
			Output: read("output of step "+s.Name, s.Output), Failure: s.Failure, Earlier: s.Earlier,
		})
	}
	for _, s := range x.State {
		rec.State = append(rec.State, store.StateEntry{Key: s.Key, Value: read("state "+s.Key, s.Value), Version: s.Version, UpdatedAt: s.UpdatedAt})
	}
	for _, s := range x.Signals {
		rec.Signals = append(rec.Signals, store.Signal{ID: s.ID, Name: s.Name, Payload: read("signal "+s.Name, s.Payload), SentAt: s.SentAt})
	}
	for _, a := range x.Answers {
		rec.Answers = append(rec.Answers, store.GivenAnswer{Answer: store.Answer{Signal: a.Signal, Output: read("answer", a.Output), Failure: a.Failure}, At: a.AnsweredAt})
	}
	for _, it := range x.Streams {
		rec.Streams = append(rec.Streams, store.StreamItem{
			Position: it.Position, Stream: it.Stream, Step: store.StepKey{Branch: it.Branch, Name: it.Step, Occurrence: it.Occurrence}, Attempt: it.Attempt, Epoch: it.Epoch,
			Generation: it.Generation, Number: it.Number, Reset: it.Reset, At: it.At, Payload: read("item of a stream", it.Payload),
		})
	}
	for _, g := range x.Groups {
		rec.Groups = append(rec.Groups, store.Group(g))
	}
	return rec, errors.Join(errs...)
}

// byName returns the value between first and last with a given name.
func byName[T interface {
	~uint8
	fmt.Stringer
}](name string, first, last T) (T, error) {
	for v := first; v <= last; v++ {
		if v.String() == name {
			return v, nil
		}
	}
	return 0, store.Invalid("step", fmt.Sprintf("unknown kind or status %q", name))
}
