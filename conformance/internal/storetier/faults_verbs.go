package storetier

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

var leaseVerbs = []verbUnderFault{
	{name: "Claim", prepare: func(c *C) attempt {
		id := c.create(store.NewRun{})
		p := c.claimParams(store.ClaimParams{ClaimID: 77})
		// A claim whose answer was lost is repeated with Again; if it had taken nothing, a new
		// claim is sent.
		claim := func(ctx context.Context, s store.Store, again bool) (int, error) {
			p.Again = again
			got, err := s.Claim(ctx, p)
			return len(got.Runs), err
		}
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) { return changed(second(claim(ctx, s, false))) },
			again: func(ctx context.Context, s store.Store) (bool, error) {
				n, err := claim(ctx, s, true)
				if err == nil && n == 0 {
					n, err = claim(ctx, s, false)
				}
				if err == nil {
					c.check(n == 1, "a claim sent again: saw %d runs, expected the one that it has leased, or leases", n)
				}
				return true, err
			},
			effect: func() int { return int(c.get(id).Epoch) },
		}
	}},
	{name: "Extend", prepare: func(c *C) attempt {
		run := c.start()
		later := c.now.Add(time.Second)
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Extend(ctx, store.ExtendParams{Namespace: c.ns, Worker: aWorker, Leases: []store.Lease{run.Lease}, LeaseFor: aLease, Now: later})
				c.check(err != nil || !res[0].Lost, "Extend: saw the lease lost, expected it extended")
				return true, err
			},
			effect: func() int { return int(c.get(run.Run.ID).VisibleAt.Sub(run.Run.VisibleAt) / time.Second) },
		}
	}},
	{name: "Commit of everything", prepare: func(c *C) attempt {
		id := c.create(store.NewRun{})
		sig := c.signal(id, "n", "")
		run := c.claim1()
		return c.commitOf(store.Commit{
			Lease: run.Lease, Seq: 1, Seen: run.Inbox.Events, Steps: []store.StepRecord{step(1, "a", "")}, Consumed: []store.SignalID{sig},
			State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Spawn: kids(1),
		}, func() int {
			in := c.inbox(id)
			parts := len(c.steps(id)) + len(in.State) + int(c.group(id).Total) + 1 - len(in.Signals)
			return parts/4 + 100*(parts%4)
		})
	}},
	{name: "Commit of an end", prepare: func(c *C) attempt {
		id := c.family(release(), kid(1))
		child := c.claimKid()
		return c.commitOf(store.Commit{Lease: child.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: complete("")}, func() int {
			n := len(c.steps(child.Run.ID)) + int(c.group(id).Completed)
			return n/2 + 100*(n%2)
		})
	}},
	{name: "Commit that passes permits on", prepare: passUnderFault},
	{name: "Commit of a retry", prepare: func(c *C) attempt {
		run := c.start()
		return c.commitOf(store.Commit{Lease: run.Lease, Seq: 1, Transition: retryIn(time.Hour)}, func() int { return c.get(run.Run.ID).Attempt - 1 })
	}},
}

// commitOf is a call of Commit.
func (c *C) commitOf(cm store.Commit, effect func() int) attempt {
	return attempt{
		call: func(ctx context.Context, s store.Store) (bool, error) {
			res, err := s.Commit(ctx, store.CommitParams{Namespace: c.ns, Commits: []store.Commit{cm}, Now: c.now})
			if err != nil {
				return false, err
			}
			return !res[0].Repeated, res[0].Err
		},
		effect: effect,
	}
}

var coordinationVerbs = []verbUnderFault{
	{name: "Signal", prepare: func(c *C) attempt {
		id := c.create(store.NewRun{})
		sig := store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: []byte("p")}
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Signal(ctx, store.SignalParams{Namespace: c.ns, Signals: []store.NewSignal{sig}, Now: c.now})
				if err != nil {
					return false, err
				}
				return true, res[0].Err
			},
			effect: func() int {
				in := c.inbox(id)
				return (len(in.Signals) + int(in.Events)) / 2
			},
		}
	}},
	{name: "Append", needs: has[store.Streamer], prepare: func(c *C) attempt {
		run := c.start()
		write := c.writes(run).write("a", "b")
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.(store.Streamer).Append(ctx, store.AppendParams{Namespace: c.ns, Lease: run.Lease, StreamWrite: write, Now: c.now})
				return !res.Repeated, err
			},
			effect: func() int { return len(c.items(run.Run.ID, "tokens", 0)) / 2 },
		}
	}},
	{name: "SetState", prepare: func(c *C) attempt {
		id, none := c.create(store.NewRun{}), int64(0)
		return attempt{
			refused: store.ErrConflict,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(second(s.SetState(ctx, store.SetStateParams{Namespace: c.ns, Run: id, Writes: []store.StateWrite{{Key: "k", IfVersion: &none}}, Now: c.now})))
			},
			effect: func() int { return int(c.inbox(id).Events) },
		}
	}},
}

var registryVerbs = []verbUnderFault{
	{name: "PutWorker", prepare: func(c *C) attempt {
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(s.PutWorker(ctx, store.PutWorkerParams{Namespace: c.ns, Worker: store.Worker{ID: "w", Status: store.Online, TTL: time.Minute}, Now: c.now}))
			},
			effect: func() int { return len(c.workers()) },
		}
	}},
	{name: "RemoveWorker", prepare: func(c *C) attempt {
		c.putWorker(store.Worker{ID: "w", TTL: time.Minute})
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(s.RemoveWorker(ctx, store.RemoveWorkerParams{Namespace: c.ns, ID: "w"}))
			},
			effect: func() int { return 1 - len(c.workers()) },
		}
	}},
	{name: "AskWorkers", prepare: func(c *C) attempt {
		c.putWorker(store.Worker{ID: "w", TTL: time.Hour, Answers: time.Minute})
		later := c.now.Add(10 * time.Minute)
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				n, err := s.AskWorkers(ctx, store.AskWorkersParams{Namespace: c.ns, Silent: time.Minute, Now: later})
				return n > 0, err
			},
			effect: func() int { return whether(!c.workers()[0].AskedAt.IsZero()) },
		}
	}},
	{name: "PutWorkflows", prepare: func(c *C) attempt {
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(s.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: c.ns, Workflows: []store.Workflow{{Name: "a", Queue: "q"}, {Name: "b", Queue: "q"}}, Now: c.now}))
			},
			effect: func() int { n := len(c.workflows()); return n/2 + 100*(n%2) },
		}
	}},
	{name: "PauseTarget", prepare: func(c *C) attempt {
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(s.PauseTarget(ctx, store.PauseTargetParams{Namespace: c.ns, Queue: "paused", Now: c.now}))
			},
			effect: func() int { return len(c.pausedTargets()) },
		}
	}},
	{name: "Lock", prepare: func(c *C) attempt {
		return attempt{
			mute: true, probes: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Lock(ctx, store.LockParams{Namespace: c.ns, Name: "l", Owner: "o", For: time.Minute, Now: c.now})
				c.check(err != nil || res.Held, "Lock: saw %+v, expected it held", res)
				return true, err
			},
			effect: func() int { return whether(c.lock("l", "other", 0).Owner == "o") },
		}
	}},
}

// pausedTargets lists what is paused.
func (c *C) pausedTargets() []store.PausedTarget {
	c.Helper()
	page, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns})
	c.ok("ListPaused", err)
	return page.Paused
}

var scheduleVerbs = []verbUnderFault{
	{name: "PutSchedule", prepare: func(c *C) attempt {
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(second(s.PutSchedule(ctx, store.PutScheduleParams{Namespace: c.ns, Schedule: c.schedule("s"), Now: c.now})))
			},
			effect: func() int { return len(c.schedules(store.ListSchedulesParams{}).Schedules) },
		}
	}},
	{name: "DeleteSchedule", prepare: func(c *C) attempt {
		c.putSchedule(c.schedule("s"))
		return attempt{
			refused: store.ErrNotFound,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(s.DeleteSchedule(ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: "s"}))
			},
			effect: func() int { return 1 - len(c.schedules(store.ListSchedulesParams{}).Schedules) },
		}
	}},
	{name: "Fire", prepare: func(c *C) attempt {
		c.putSchedule(c.schedule("s"))
		r := fill(store.NewRun{})
		p := store.FireParams{Namespace: c.ns, Schedule: "s", At: c.now, Next: c.now.Add(time.Hour), Run: &r, Now: c.now}
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				res, err := s.Fire(ctx, p)
				return res.Fired, err
			},
			effect: func() int {
				n := len(c.firings("s")) + len(c.gets(r.ID)) + whether(c.theSchedule("s").NextAt.Equal(p.Next))
				return n/3 + 100*(n%3)
			},
		}
	}},
}

var optionalVerbs = []verbUnderFault{
	{name: "Import", needs: has[store.Importer], prepare: func(c *C) attempt {
		rec := c.aRecord(store.Completed)
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return s.(store.Importer).Import(ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
			},
			effect: func() int {
				if len(c.gets(rec.Run.ID)) == 0 {
					return 0
				}
				n := len(c.steps(rec.Run.ID)) + len(c.getState(rec.Run.ID)) // 3 and 2
				return n/5 + 100*(n%5)
			},
		}
	}},
	{name: "Record", needs: has[store.Journal], prepare: func(c *C) attempt {
		a := store.Action{ID: store.NewID(), Actor: "ada", Verb: "cancel", Target: "t"}
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(s.(store.Journal).Record(ctx, store.RecordParams{Namespace: c.ns, Actions: []store.Action{a}, Now: c.now}))
			},
			effect: func() int { return len(c.actions(c.s.(store.Journal), store.ListActionsParams{})) },
		}
	}},
}

// reading is a verb that changes nothing: the store has some runs with everything that a run can
// have.
func reading[R any](name string, needs func(store.Store) bool, read func(ctx context.Context, c *C, s store.Store, id store.ID) (R, error)) verbUnderFault {
	return verbUnderFault{name: name, needs: needs, prepare: func(c *C) attempt {
		id := c.family(nil, kid(1))
		c.signal(id, "n", "p")
		c.setState(id, "k", "v")
		c.create(store.NewRun{ExternalID: "e"})
		return attempt{read: func(ctx context.Context, s store.Store) (any, error) { return read(ctx, c, s, id) }}
	}}
}

var readVerbs = []verbUnderFault{
	reading("Get", nil, func(ctx context.Context, c *C, s store.Store, id store.ID) ([]store.Run, error) {
		return s.Get(ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{id}})
	}),
	reading("Find", nil, func(ctx context.Context, c *C, s store.Store, _ store.ID) (store.Run, error) {
		return s.Find(ctx, store.FindParams{Namespace: c.ns, ExternalID: "e"})
	}),
	reading("List", nil, func(ctx context.Context, c *C, s store.Store, _ store.ID) (store.RunPage, error) {
		return s.List(ctx, store.ListParams{Namespace: c.ns})
	}),
	reading("Count", nil, func(ctx context.Context, c *C, s store.Store, _ store.ID) ([]store.RunCount, error) {
		return s.Count(ctx, store.CountParams{Namespace: c.ns})
	}),
	reading("Children", nil, func(ctx context.Context, c *C, s store.Store, id store.ID) (store.ChildPage, error) {
		return s.Children(ctx, store.ChildrenParams{Namespace: c.ns, Parent: id, Group: "g"})
	}),
	reading("Steps", nil, func(ctx context.Context, c *C, s store.Store, id store.ID) (store.StepPage, error) {
		return s.Steps(ctx, store.StepsParams{Namespace: c.ns, Run: id})
	}),
	reading("GetState", nil, func(ctx context.Context, c *C, s store.Store, id store.ID) ([]store.StateEntry, error) {
		return s.GetState(ctx, store.GetStateParams{Namespace: c.ns, Run: id})
	}),
	reading("Inbox", nil, func(ctx context.Context, c *C, s store.Store, id store.ID) (store.Inbox, error) {
		return s.Inbox(ctx, store.InboxParams{Namespace: c.ns, Run: id})
	}),
	{name: "Answers", prepare: func(c *C) attempt {
		run, sig := c.asked()
		c.commit(replies(run, output(sig, "yes"), nil))
		return attempt{read: func(ctx context.Context, s store.Store) (any, error) {
			return s.Answers(ctx, store.AnswersParams{Namespace: c.ns, Asks: []store.Ask{{Run: run.Run.ID, Signal: sig}}})
		}}
	}},
	reading("ListWorkers", nil, func(ctx context.Context, c *C, s store.Store, _ store.ID) (store.WorkerPage, error) {
		return s.ListWorkers(ctx, store.ListWorkersParams{Namespace: c.ns, Now: c.now})
	}),
	reading("ListWorkflows", nil, func(ctx context.Context, c *C, s store.Store, _ store.ID) (store.WorkflowPage, error) {
		return s.ListWorkflows(ctx, store.ListWorkflowsParams{Namespace: c.ns})
	}),
	reading("ListPaused", nil, func(ctx context.Context, c *C, s store.Store, _ store.ID) (store.PausedPage, error) {
		return s.ListPaused(ctx, store.ListPausedParams{Namespace: c.ns})
	}),
	reading("ListSchedules", nil, func(ctx context.Context, c *C, s store.Store, _ store.ID) (store.SchedulePage, error) {
		return s.ListSchedules(ctx, store.ListSchedulesParams{Namespace: c.ns, Now: c.now})
	}),
	{name: "ListFirings", prepare: func(c *C) attempt {
		c.putSchedule(c.schedule("s"))
		c.mustFire(store.FireParams{Schedule: "s", At: c.now, Next: c.now.Add(time.Hour)})
		return attempt{read: func(ctx context.Context, s store.Store) (any, error) {
			return s.ListFirings(ctx, store.ListFiringsParams{Namespace: c.ns, Schedule: "s"})
		}}
	}},
	// The clock advances: only the error counts.
	{name: "Clock", idle: true, prepare: func(*C) attempt {
		return attempt{read: func(ctx context.Context, s store.Store) (any, error) { return nil, second(s.Clock(ctx)) }}
	}},
	reading("ListActions", has[store.Journal], func(ctx context.Context, c *C, s store.Store, _ store.ID) (store.ActionPage, error) {
		return s.(store.Journal).ListActions(ctx, store.ListActionsParams{Namespace: c.ns})
	}),
	reading("Sent", has[store.Exporter], func(ctx context.Context, c *C, s store.Store, id store.ID) (store.SentPage, error) {
		return s.(store.Exporter).Sent(ctx, store.SentParams{Namespace: c.ns, Run: id})
	}),
	{name: "ReadStream", needs: has[store.Streamer], prepare: func(c *C) attempt {
		run := c.start()
		c.writes(run).append("a", "b")
		return attempt{read: func(ctx context.Context, s store.Store) (any, error) {
			return s.(store.Streamer).ReadStream(ctx, store.ReadStreamParams{Namespace: c.ns, Run: run.Run.ID})
		}}
	}},
	{name: "Tree", needs: has[store.TreeReader], prepare: func(c *C) attempt {
		root := c.family(sleepAwait(allOf), kids(2)...)
		return attempt{read: func(ctx context.Context, s store.Store) (any, error) {
			return s.(store.TreeReader).Tree(ctx, store.TreeParams{Namespace: c.ns, Run: root, Now: c.now})
		}}
	}},
	reading("Ahead", has[store.Ranker], func(ctx context.Context, c *C, s store.Store, id store.ID) (int, error) {
		return s.(store.Ranker).Ahead(ctx, store.AheadParams{Namespace: c.ns, Run: id, Now: c.now})
	}),
}
