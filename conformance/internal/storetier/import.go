package storetier

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// importer returns the store's Importer, or skips the case.
func (c *C) importer(s store.Store) store.Importer {
	c.Helper()
	imp, ok := s.(store.Importer)
	if !ok {
		c.Skip("the backend imports no runs")
	}
	return imp
}

// imports imports a record into the case's namespace.
func (c *C) imports(rec store.RunRecord) bool {
	c.Helper()
	created, err := c.importer(c.s).Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
	c.ok("Import", err)
	return created
}

// record reads a run with everything that belongs to it.
func (c *C) record(id store.ID) store.RunRecord {
	c.Helper()
	runs, err := c.s.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{id}})
	c.ok("Get", err)
	c.eq("runs", len(runs), 1)
	page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: id, Limit: store.MaxPage})
	c.ok("Steps", err)
	box, err := c.s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: id})
	c.ok("Inbox", err)
	return store.RunRecord{Run: runs[0], Steps: page.Steps, State: box.State, Signals: unplaced(box.Signals), Groups: box.Groups}
}

// aRecord returns a run that has everything that a run can have.
func (c *C) aRecord(status store.Status) store.RunRecord {
	at := func(n int) time.Time { return c.now.Add(time.Duration(n-1000) * time.Hour) }
	rec := store.RunRecord{
		Run: store.Run{
			ID: store.NewID(), Workflow: aWorkflow, Queue: aQueue, Status: status, Priority: -3, ExternalID: "order-" + c.ns, Suffix: "s",
			Parent: store.NewID(), Group: "g", Ordinal: 7, OnClose: store.CloseAbandon, Input: slices.Repeat([]byte("in"), 1000), Meta: []byte{},
			Attempt: 3, Crashes: 1, Generation: 2, Epoch: 9, Worker: "gone", Events: 12, Pausing: true, VisibleAt: at(500),
			CreatedAt: at(1), StartedAt: at(2), Deadline: at(4000), ForkedFrom: store.NewID(),
			Failure: &store.Failure{Code: "c", Message: "m", Details: []byte{}, Permanent: true},
		},
		Steps: []store.Step{
			{StepKey: store.StepKey{Name: "a", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 2, Epoch: 3, Output: []byte{}, StartedAt: at(3), FinishedAt: at(4),
				Earlier: []store.FailedAttempt{{Attempt: 1, StartedAt: at(2), Code: "error", Message: "no money"}}},
			{StepKey: store.StepKey{Branch: "b", Name: "a", Occurrence: 2}, Kind: store.KindSleep, Status: store.StepRunning, Position: 4, Index: 2, Attempt: 1, Epoch: 9, StartedAt: at(5), DueAt: at(3000)},
			{StepKey: store.StepKey{Name: "z", Occurrence: 1}, Kind: store.KindChild, Status: store.StepFailed, Position: 5, Index: 1, Attempt: 1, Epoch: 9, StartedAt: at(5), FinishedAt: at(6), Failure: &store.Failure{Code: "x", Message: "y"}},
		},
		State:   []store.StateEntry{{Key: "k", Value: []byte("v"), Version: 12, UpdatedAt: at(6)}, {Key: "n", Version: 3, UpdatedAt: at(5)}},
		Signals: []store.Signal{{ID: store.NewID(), Name: "s", Payload: []byte("2"), SentAt: at(8)}, {ID: store.NewID(), Name: "s", SentAt: at(7)}},
		Groups:  []store.Group{{Name: "kids", Total: 9, Open: 1, Completed: 5, Failed: 2, Canceled: 1}},
	}
	if status.Final() {
		rec.Run.FinishedAt = at(900)
	}
	if status == store.Completed {
		rec.Run.Output = []byte("out")
	}
	return rec
}

var importCases = []Case{
	{"import/as-recorded", "", "a final run is imported as it was, with its steps, state, signals and groups", func(c *C) {
		c.importer(c.s)
		for _, status := range []store.Status{store.Completed, store.Failed, store.Canceled} {
			rec := c.aRecord(status)
			c.eq("created", c.imports(rec), true)
			want := rec
			want.Run.Namespace, want.Run.Pausing, want.Run.VisibleAt = c.ns, false, time.Time{}
			c.eq("record", c.record(rec.Run.ID), want)
		}
		c.eq("claimable runs", len(c.claim(store.ClaimParams{Now: c.now.Add(10000 * time.Hour)}).Runs), 0)
	}},
	{"import/open-run-is-paused", "P1", "a run that is not final is imported as paused, whatever its status was, and cannot be claimed before it is resumed; then it is pending", func(c *C) {
		c.importer(c.s)
		for _, status := range []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling} {
			rec := c.aRecord(status)
			rec.Run.ExternalID, rec.Run.Suffix, rec.Run.Deadline = "", "", time.Time{}
			c.eq("created", c.imports(rec), true)
			want := rec
			want.Run.Namespace, want.Run.Worker, want.Run.Pausing, want.Run.VisibleAt = c.ns, "", false, c.now
			want.Run.Status, want.Run.Crashes = store.Paused, 0
			c.eq("record", c.record(rec.Run.ID), want)
			c.eq("claimable runs", len(c.claimN(1)), 0)
			_, err := c.s.Pause(c.ctx, store.PauseParams{Namespace: c.ns, IDs: []store.ID{rec.Run.ID}, Resume: true, Now: c.now})
			c.ok("Pause", err)
			got := c.claimN(1)
			c.eq("claimed behind the resume", len(got), 1)
			if len(got) == 1 {
				c.eq("epoch, recovered", []any{got[0].Run.Epoch, got[0].Recovered}, []any{int64(10), false})
				c.eq("steps that come along", got[0].Steps, rec.Steps)
				c.eq("inbox that comes along", unplaced(got[0].Inbox.Signals), rec.Signals)
			}
		}
	}},
	{"import/repeat", "P4", "the same import sent again changes nothing", func(c *C) {
		c.importer(c.s)
		rec := c.aRecord(store.Sleeping)
		c.eq("created", c.imports(rec), true)
		before := c.record(rec.Run.ID)
		c.advance(time.Hour)
		rec.Run.Workflow, rec.Steps = "another", nil
		c.eq("created again", c.imports(rec), false)
		c.eq("record", c.record(rec.Run.ID), before)
	}},
	{"import/taken", "P8", "a run whose ID another namespace has, or whose external id another active run, is not imported", func(c *C) {
		imp := c.importer(c.s)
		rec := c.aRecord(store.Sleeping)
		c.eq("created", c.imports(rec), true)
		_, err := imp.Import(c.ctx, store.ImportParams{Namespace: c.ns + "-other", Record: rec, Now: c.now})
		c.fails("import of an ID of another namespace", err, store.ErrAlreadyExists)
		twin := c.aRecord(store.Pending)
		_, err = imp.Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: twin, Now: c.now})
		c.fails("import of an active external id", err, store.ErrAlreadyExists)
		runs, err := c.s.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{twin.Run.ID}})
		c.ok("Get", err)
		c.eq("runs of the refused import", len(runs), 0)
		past := c.aRecord(store.Failed)
		c.eq("created as a final run", c.imports(past), true)
	}},
	{"import/state-goes-on", "P17", "in an imported run state, signals and restart work as in any other", func(c *C) {
		c.importer(c.s)
		rec := c.aRecord(store.Failed)
		c.imports(rec)
		id := rec.Run.ID
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
		got := c.claimN(1)
		c.eq("claimed", len(got), 1)
		entries, err := c.s.SetState(c.ctx, store.SetStateParams{Namespace: c.ns, Run: id, Writes: []store.StateWrite{{Key: "new"}}, Now: c.now})
		c.ok("SetState", err)
		c.eq("version", entries[0].Version, int64(13))
		sig := store.NewSignal{ID: store.NewID(), Run: id, Name: "s"}
		for _, s := range []store.NewSignal{sig, {ID: rec.Signals[0].ID, Run: id, Name: "s"}} { // the second was sent before
			res, err := c.s.Signal(c.ctx, store.SignalParams{Namespace: c.ns, Signals: []store.NewSignal{s}, Now: c.now})
			c.ok("Signal", err)
			c.ok("Signal", res[0].Err)
		}
		var ids []store.ID
		for _, s := range c.record(id).Signals {
			ids = append(ids, s.ID)
		}
		c.eq("signals", ids, []store.ID{rec.Signals[0].ID, rec.Signals[1].ID, sig.ID})
	}},
	{"import/refused", "P16", "a record that cannot belong to a run is refused, and nothing of it is stored", func(c *C) {
		imp := c.importer(c.s)
		for what, spoil := range map[string]func(r *store.RunRecord){
			"without a workflow":        func(r *store.RunRecord) { r.Run.Workflow = "" },
			"without an ID":             func(r *store.RunRecord) { r.Run.ID = store.ID{} },
			"without a status":          func(r *store.RunRecord) { r.Run.Status = 0 },
			"final without an end":      func(r *store.RunRecord) { r.Run.FinishedAt = time.Time{} },
			"failed without a failure":  func(r *store.RunRecord) { r.Run.Failure = nil },
			"failed with an output":     func(r *store.RunRecord) { r.Run.Output = []byte("x") },
			"attempt 0":                 func(r *store.RunRecord) { r.Run.Attempt = 0 },
			"two steps of one key":      func(r *store.RunRecord) { r.Steps[1].StepKey = r.Steps[0].StepKey },
			"two steps at one position": func(r *store.RunRecord) { r.Steps[1].Position = r.Steps[0].Position },
			"step without a kind":       func(r *store.RunRecord) { r.Steps[0].Kind = 0 },
			"state twice":               func(r *store.RunRecord) { r.State[1].Key = r.State[0].Key },
			"state of a later event":    func(r *store.RunRecord) { r.State[0].Version = 13 },
			"signal twice":              func(r *store.RunRecord) { r.Signals[1].ID = r.Signals[0].ID },
			"more signals than events":  func(r *store.RunRecord) { r.Run.Events, r.State = 1, nil },
			"group twice":               func(r *store.RunRecord) { r.Groups = append(r.Groups, r.Groups[0]) },
		} {
			rec := c.aRecord(store.Failed)
			spoil(&rec)
			_, err := imp.Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
			c.fails("record "+what, err, store.ErrInvalid)
		}
		rec := c.aRecord(store.Completed)
		rec.Run.Output = make([]byte, c.s.Limits().Payload+1)
		_, err := imp.Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
		c.fails("record with too large an output", err, store.ErrTooLarge)
		page, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns})
		c.ok("List", err)
		c.eq("runs", len(page.Runs), 0)
	}},
}
