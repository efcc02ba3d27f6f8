package storetier

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// sent returns a run's signals from a store that exports runs, or skips the case.
func (c *C) sent(p store.SentParams) store.SentPage {
	c.Helper()
	x, ok := c.s.(store.Exporter)
	if !ok {
		c.Skip("the backend exports no runs")
	}
	p.Namespace = c.ns
	sent, err := x.Sent(c.ctx, p)
	c.ok("Sent", err)
	return sent
}

var exportCases = []Case{
	{"export/sent", "P17", "Sent returns all signals that a run has received, in the order of sending; for consumed ones only the ID", func(c *C) {
		run := c.start()
		id := run.Run.ID
		c.signal(c.create(store.NewRun{}), "n", "of another run")
		c.eq("signals of a run that has had none", len(c.sent(store.SentParams{Run: id}).Signals), 0)
		a, b, d := c.signal(id, "n", "a"), c.signal(id, "n", "b"), c.signal(id, "n", "d")
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{b}})
		got := c.sent(store.SentParams{Run: id}).Signals
		for i := range got {
			c.check(got[i].Position > 0 && (i == 0 || got[i].Position > got[i-1].Position), "positions: saw %+v, expected them to grow from above 0", got)
		}
		for i := range got {
			got[i].Position = 0
		}
		c.eq("signals", got, []store.SentSignal{
			{Signal: store.Signal{ID: a, Name: "n", Payload: []byte("a"), SentAt: c.now}}, {Signal: store.Signal{ID: b}, Consumed: true},
			{Signal: store.Signal{ID: d, Name: "n", Payload: []byte("d"), SentAt: c.now}},
		})
		_, err := c.s.(store.Exporter).Sent(c.ctx, store.SentParams{Namespace: c.ns + "-other", Run: id})
		c.fails("Sent in another namespace", err, store.ErrNotFound)
		_, err = c.s.(store.Exporter).Sent(c.ctx, store.SentParams{Namespace: c.ns, Run: id, Limit: -1})
		c.fails("Sent of a negative limit", err, store.ErrInvalid)
	}},
	{"export/sent-pages", "P14", "the pages of Sent contain every signal once, also more than a page of the inbox", func(c *C) {
		id := c.create(store.NewRun{})
		want := make([]store.ID, store.MaxPage+101)
		sigs := make([]store.NewSignal, len(want))
		for i := range want {
			want[i] = store.NewID()
			sigs[i] = store.NewSignal{ID: want[i], Run: id, Name: "n"}
		}
		c.signalsInTurn(sigs)
		for _, limit := range []int{0, 300, store.MaxPage} {
			var got []store.ID
			for after := int64(0); ; {
				page := c.sent(store.SentParams{Run: id, After: after, Limit: limit})
				for _, s := range page.Signals {
					got = append(got, s.ID)
				}
				if after = page.Next; after == 0 || len(got) > len(want) {
					break
				}
				c.eq("Next", after, page.Signals[len(page.Signals)-1].Position)
			}
			c.eq("signals", got, want)
		}
	}},
	{"import/start-time", "P13", "a run that waits for its start or a retry waits as long where it is imported, once it is resumed", func(c *C) {
		c.importer(c.s)
		at := c.now.Add(time.Hour)
		for what, spoil := range map[string]func(r *store.Run){
			"pending":              func(r *store.Run) { r.Status = store.Pending },
			"paused, never begun":  func(r *store.Run) { r.StartedAt, r.Failure = time.Time{}, nil },
			"paused, to try again": func(r *store.Run) {},
		} {
			rec := c.aRecord(store.Paused)
			rec.Run.ExternalID, rec.Run.Suffix, rec.Run.VisibleAt, rec.Run.Deadline = "", "", at, time.Time{}
			spoil(&rec.Run)
			c.imports(rec)
			c.eq("status and time of the run that was "+what, []any{c.get(rec.Run.ID).Status, c.get(rec.Run.ID).VisibleAt}, []any{store.Paused, at})
			c.resume(rec.Run.ID)
		}
		sleeper := c.aRecord(store.Sleeping)
		sleeper.Run.ExternalID, sleeper.Run.Suffix, sleeper.Run.VisibleAt = "", "", at
		c.imports(sleeper)
		c.eq("time of a sleeper, whose replay finds what it waits for", c.get(sleeper.Run.ID).VisibleAt, c.now)
		c.claimNone("they wait for an hour")
		c.advance(time.Hour)
		c.eq("claimed when it is time", len(c.claimN(5)), 3)
	}},
	{"import/consumed-signals", "P4", "a signal that an imported run has consumed before is not received again", func(c *C) {
		c.importer(c.s)
		rec := c.aRecord(store.Sleeping)
		rec.Consumed = []store.SignalID{store.NewID(), store.NewID()}
		c.imports(rec)
		for _, id := range append(rec.Consumed, rec.Signals[0].ID) {
			for _, to := range []store.NewSignal{{Run: rec.Run.ID}, {ExternalID: rec.Run.ExternalID, Suffix: rec.Run.Suffix}} {
				to.ID, to.Name = id, "s"
				c.eq("the result of sending again", c.signals(to)[0], store.SignalResult{Run: rec.Run.ID})
			}
		}
		c.eq("signals and events", []any{c.record(rec.Run.ID).Signals, c.get(rec.Run.ID).Events}, []any{rec.Signals, rec.Run.Events})
		var ids []store.ID
		for _, s := range c.sent(store.SentParams{Run: rec.Run.ID}).Signals {
			ids = append(ids, s.ID)
		}
		c.eq("signals that the run has had", ids, append(rec.Consumed, rec.Signals[0].ID, rec.Signals[1].ID))
		rec = c.aRecord(store.Failed)
		rec.Consumed = []store.SignalID{rec.Signals[0].ID}
		_, err := c.importer(c.s).Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
		c.fails("a signal that is consumed and unread", err, store.ErrInvalid)
	}},
}
