package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/console"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Order is the input of the scene's workflows.
type Order struct {
	Number   int    `json:"number"`
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
	Note     string `json:"note,omitempty"`
}

var (
	approved = workflow.NewSignal[string]("approved")
	tracking = workflow.NewStream[string]("tracking")
)

// scene is a database with runs in every state, and what an operator may have to find in it.
type scene struct {
	t   *testing.T
	ctx context.Context
	st  store.Store
	eng *engine.Engine
	ids map[string]string // runs by what they are
}

func sqliteFile(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "pawl.db") }

// open opens a database.
func open(t *testing.T, url string, opts ...engine.Option) *scene {
	t.Helper()
	st, err := backends.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	eng := engine.New(st, append([]engine.Option{engine.Logger(slog.New(slog.DiscardHandler)), engine.Require(engine.RequireNothing)}, opts...)...)
	t.Cleanup(eng.Close)
	return &scene{t: t, ctx: t.Context(), st: st, eng: eng, ids: map[string]string{}}
}

// serve serves the console below a prefix, on a port of its own, and returns its address.
func (s *scene) serve(apiOptions []api.Option, options ...console.Option) string {
	h := api.New(s.eng, apiOptions...)
	mux := http.NewServeMux()
	mux.Handle("/pawl/api/", http.StripPrefix("/pawl/api", h))
	mux.Handle("/pawl/", http.StripPrefix("/pawl", console.New(h, append([]console.Option{console.Refresh(300 * time.Millisecond)}, options...)...)))
	return listen(s.t, mux) + "/pawl/"
}

// work lets a worker of a build do what is due.
func (s *scene) work(build string, defs ...workflow.Definition) {
	s.t.Helper()
	w := worker.New(s.eng, worker.Build(build), worker.ID("setup-"+build))
	require.NoError(s.t, w.Register(defs...))
	_, err := w.RunUntilIdle(s.ctx)
	require.NoError(s.t, err)
}

func start[In, Out any](s *scene, what string, wf *workflow.Workflow[In, Out], in In, opts ...engine.StartOption) {
	s.t.Helper()
	h, err := wf.Start(s.ctx, s.eng, in, append([]engine.StartOption{engine.ExternalID(what)}, opts...)...)
	require.NoError(s.t, err)
	s.ids[what] = h.ID().String()
}

func nothing(context.Context) error { return nil }

// The workflows of the scene.
var (
	fulfil = workflow.New("fulfil-order", func(ctx workflow.Context, o Order) (string, error) {
		if err := workflow.Do(ctx, "reserve", nothing); err != nil {
			return "", err
		}
		err := workflow.Do(ctx, "charge", func(ctx context.Context) error {
			if workflow.Attempt(ctx) < 3 {
				return fmt.Errorf("the bank did not answer (attempt %d)", workflow.Attempt(ctx))
			}
			return nil
		}, workflow.Attempts(5), workflow.Backoff(20*time.Millisecond, 2, time.Second))
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "cooling off", 60*time.Millisecond); err != nil {
			return "", err
		}
		return workflow.Step(ctx, "ship", func(ctx context.Context) (string, error) {
			parcel := "parcel for " + o.Customer
			return parcel, tracking.Append(ctx, "1 packed", "2 weighed", "3 labeled", "4 stamped", "5 handed over", parcel)
		})
	})
	approve = workflow.New("approve-refund", func(ctx workflow.Context, _ Order) (string, error) {
		if err := workflow.Do(ctx, "ask the manager", nothing); err != nil {
			return "", err
		}
		return approved.Receive(ctx)
	})
	refuse = workflow.New("charge-card", func(ctx workflow.Context, o Order) (string, error) {
		return workflow.Step(ctx, "charge", func(context.Context) (string, error) {
			return "", workflow.Coded("card-declined", fmt.Errorf("the card of %s was declined", o.Customer))
		}, workflow.Attempts(3), workflow.Backoff(10*time.Millisecond, 1, time.Second))
	})
	deadlocked = workflow.New("reconcile", func(ctx workflow.Context, _ Order) (string, error) {
		var right *workflow.Future[string]
		known := make(chan struct{}) // closed when right is set
		left := workflow.Go(ctx, "left", func(ctx workflow.Context) (string, error) {
			<-known
			return right.Get(ctx)
		})
		right = workflow.Go(ctx, "right", func(ctx workflow.Context) (string, error) { return left.Get(ctx) })
		close(known)
		return left.Get(ctx)
	})
	patient = workflow.New("await-payment", func(ctx workflow.Context, _ Order) (string, error) {
		return approved.Receive(ctx)
	})
	item = workflow.New("pack-item", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Step(ctx, "pack", func(context.Context) (int, error) {
			if n == 3 {
				return 0, workflow.Permanent(errors.New("item 3 is out of stock"))
			}
			return n, nil
		})
	})
	pack = workflow.New("pack-order", func(ctx workflow.Context, _ Order) ([]int, error) {
		return workflow.Map(ctx, "items", []int{1, 2, 3, 4}, item)
	})
	mail = workflow.New("send-mail", func(ctx workflow.Context, _ Order) (string, error) {
		return workflow.Step(ctx, "send", func(context.Context) (string, error) { return "sent", nil })
	})
	report = func() *workflow.Workflow[Order, string] {
		f := flow.New[Order, string]("nightly-report")
		orders := flow.Then(f, "load orders", f.Input(), func(_ context.Context, o Order) (int, error) { return o.Number, nil })
		stock := flow.Then(f, "load stock", f.Input(), func(_ context.Context, o Order) (int, error) { return o.Cents, nil })
		sum := flow.Join2(f, "compare", orders, stock, func(_ context.Context, a, b int) (int, error) { return a + b, nil })
		page := flow.Then(f, "render", sum, func(_ context.Context, n int) (string, error) { return fmt.Sprint("report ", n), nil })
		f.Output(page)
		return f.Must()
	}()
	legacy  = workflow.New("legacy-import", func(workflow.Context, Order) (string, error) { return "", nil })
	rollout = func(steps ...string) *workflow.Workflow[Order, string] {
		return workflow.New("migrate-account", func(ctx workflow.Context, _ Order) (string, error) {
			for _, name := range steps {
				if err := workflow.Do(ctx, name, nothing); err != nil {
					return "", err
				}
			}
			return approved.Receive(ctx)
		})
	}
)

// fill makes runs in every state, and ten faults.
func (s *scene) fill() *scene {
	s.t.Helper()
	order := func(n int) Order { return Order{Number: n, Customer: "Ada Lovelace", Cents: 100 * n} }
	all := []workflow.Definition{fulfil, approve, refuse, deadlocked, patient, item, pack, report}
	s.work("v2", all...)
	start(s, "order-41", fulfil, order(41), engine.Tags(map[string]string{"customer": "4711", "region": "eu-west"}))
	start(s, "refund-7", approve, order(7)) // its signal is never sent
	start(s, "charge-9", refuse, order(9))
	start(s, "reconcile-2", deadlocked, order(2))
	start(s, "payment-5", patient, order(5), engine.Timeout(time.Millisecond)) // its deadline expires
	start(s, "pack-12", pack, order(12))                                       // a child fails
	start(s, "report-1", report, order(1))
	s.work("v2", all...)
	s.story()
	s.pastHour()
	s.strand()
	s.poison()
	s.work("v2", mail)
	require.NoError(s.t, s.eng.PauseQueue(s.ctx, "send-mail"))
	s.subscribe()
	start(s, "mail-3", mail, order(3)) // its queue is paused
	start(s, "mail-4", mail, order(4))
	s.undelivered()
	start(s, "import-1", legacy, order(6), engine.Queue("legacy-import")) // no worker knows it
	s.hold()
	s.schedules()
	s.workers()
	return s
}

// story makes a run as it would look after a day, for the pictures of the documents.
func (s *scene) story() {
	id := store.NewID()
	s.ids["order-40"] = id.String()
	began := time.Now().Add(-80 * time.Minute)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	const ns = "default"
	made, err := s.st.Create(s.ctx, store.CreateParams{Namespace: ns, Now: began, Runs: []store.NewRun{{
		ID: id, Workflow: "fulfil-order", Queue: "fulfil-order", ExternalID: "order-40", Worker: "eu-west-1a-7", LeaseFor: 24 * time.Hour, Build: "v2",
		Input: []byte(`{"number":40,"customer":"Grace Hopper","cents":4200}`),
	}}})
	require.NoError(s.t, err)
	require.NoError(s.t, made[0].Err)
	step := func(n int64, name string, kind store.StepKind, took time.Duration, earlier ...store.FailedAttempt) store.StepRecord {
		return store.StepRecord{StepKey: store.StepKey{Name: name, Occurrence: 1}, Kind: kind, Status: store.StepCompleted, Position: n, Attempt: len(earlier) + 1, Took: took, Earlier: earlier}
	}
	bank := func(n int, d time.Duration) store.FailedAttempt {
		return store.FailedAttempt{Attempt: n, StartedAt: at(d), Code: "error", Message: "the bank did not answer"}
	}
	for i, c := range []struct {
		at   time.Duration
		step store.StepRecord
	}{
		{4 * time.Minute, step(1, "reserve", store.KindFunction, 3*time.Minute)},
		{26 * time.Minute, step(2, "charge", store.KindFunction, 5*time.Minute, bank(1, 5*time.Minute), bank(2, 12*time.Minute))},
		{66 * time.Minute, step(3, "cooling off", store.KindSleep, 40*time.Minute)},
		{75 * time.Minute, step(4, "ship", store.KindFunction, 9*time.Minute)},
	} {
		commit := store.Commit{Lease: store.Lease{Run: id, Worker: "eu-west-1a-7", Epoch: 1}, Seq: int64(i + 1), Seen: 99, Steps: []store.StepRecord{c.step}}
		if i == 3 {
			commit.Transition = &store.Transition{Kind: store.CompleteRun, Output: []byte(`"parcel for Grace Hopper"`)}
		}
		res, err := s.st.Commit(s.ctx, store.CommitParams{Namespace: ns, Now: at(c.at), Commits: []store.Commit{commit}})
		require.NoError(s.t, err)
		require.NoError(s.t, res[0].Err)
	}
}

// pastHour makes mails that were sent in the past hour, more of them in the middle of it.
func (s *scene) pastHour() {
	const ns = "default"
	now := time.Now()
	for m := 1; m <= 60; m++ {
		at := now.Add(-time.Duration(m) * time.Minute)
		runs := make([]store.NewRun, 2+m*(60-m)/90)
		for i := range runs {
			runs[i] = store.NewRun{ID: store.NewID(), Workflow: "send-mail", Queue: "send-mail", Worker: "eu-west-1a-7", LeaseFor: time.Hour, Build: "v2"}
		}
		made, err := s.st.Create(s.ctx, store.CreateParams{Namespace: ns, Now: at, Runs: runs})
		require.NoError(s.t, err)
		p := store.CommitParams{Namespace: ns, Now: at}
		for i, r := range made {
			end := &store.Transition{Kind: store.CompleteRun}
			if i == 0 && m%9 == 0 {
				end = &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "mailbox-full", Message: "the mailbox of the customer is full"}}
			}
			p.Commits = append(p.Commits, store.Commit{Lease: r.Lease, Seq: 1, Transition: end})
		}
		res, err := s.st.Commit(s.ctx, p)
		require.NoError(s.t, err)
		for _, r := range res {
			require.NoError(s.t, r.Err)
		}
	}
}

// strand makes a run that is pinned to a build without a worker.
func (s *scene) strand() {
	before, after := rollout("prepare", "copy"), rollout("prepare", "verify", "copy")
	s.work("v1", before)
	start(s, "account-8", before, Order{Number: 8})
	s.work("v1", before)
	id, err := store.ParseID(s.ids["account-8"])
	require.NoError(s.t, err)
	require.NoError(s.t, approved.Send(s.ctx, s.eng, id, "go"))
	s.work("v2", after)
}

// hold makes runs that wait for a limit whose only permit another run has.
func (s *scene) hold() {
	require.NoError(s.t, s.eng.SetLimit(s.ctx, "partner", store.LimitRule{Concurrency: 1}))
	made, err := s.st.Create(s.ctx, store.CreateParams{Namespace: "default", Now: time.Now().Add(-12 * time.Minute), Runs: []store.NewRun{
		{ID: store.NewID(), Workflow: "await-payment", Queue: "await-payment", ExternalID: "payout-1", Under: []store.LimitUse{{Limit: "partner", Key: "acme"}}},
	}})
	require.NoError(s.t, err)
	require.NoError(s.t, made[0].Err)
	got, err := s.st.Claim(s.ctx, store.ClaimParams{Namespace: "default", Worker: "eu-west-1a-7", LeaseFor: 24 * time.Hour,
		Demands: []store.Demand{{Queue: "await-payment", Workflows: []string{"await-payment"}, Max: 1}}})
	require.NoError(s.t, err)
	require.Len(s.t, got.Runs, 1)
	for _, what := range []string{"payout-2", "payout-3"} {
		start(s, what, patient, Order{Number: 2}, engine.Under(store.LimitUse{Limit: "partner", Key: "acme"}))
	}
}

// subscribe puts two webhooks.
func (s *scene) subscribe() {
	for _, sub := range []store.Subscription{
		{Name: "audit", Workflows: []string{"send-mail"}, Kinds: []store.ChangeKind{store.RunCreated}},
		{Name: "billing", Kinds: []store.ChangeKind{store.RunRestarted}, Keep: time.Hour},
	} {
		_, err := s.eng.Subscribe(s.ctx, sub)
		require.NoError(s.t, err)
	}
}

// undelivered lets the receiver of a webhook fail.
func (s *scene) undelivered() {
	page, err := s.eng.Changes(s.ctx, "audit", 1)
	require.NoError(s.t, err)
	require.Len(s.t, page.Changes, 1)
	require.NoError(s.t, s.eng.Settle(s.ctx, store.SettleParams{Subscription: "audit", Error: "the receiver has answered 503 Service Unavailable",
		Failed: []store.FailedDelivery{{ChangeKey: page.Changes[0].ChangeKey, Attempt: 1, After: time.Hour}}}))
}

// poison makes a run that ended its workers' processes, as a worker would find it.
func (s *scene) poison() {
	id := store.NewID()
	s.ids["resize-6"] = id.String()
	made, err := s.st.Create(s.ctx, store.CreateParams{Namespace: "default", Runs: []store.NewRun{
		{ID: id, Workflow: "resize-image", Queue: "resize-image", ExternalID: "resize-6", Worker: "w-1", LeaseFor: time.Hour},
	}})
	require.NoError(s.t, err)
	require.NoError(s.t, made[0].Err)
	res, err := s.st.Commit(s.ctx, store.CommitParams{Namespace: "default", Commits: []store.Commit{{
		Lease: store.Lease{Run: id, Worker: "w-1", Epoch: 1}, Seq: 1, Seen: 99,
		Transition: &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "crashed", Message: "its workers' processes ended 11 times in a row while they executed it; the last time it was alone"}},
	}}})
	require.NoError(s.t, err)
	require.NoError(s.t, res[0].Err)
}

func (s *scene) schedules() {
	input := []byte(`{"number":1,"customer":"everybody","cents":0}`)
	_, err := s.eng.PutSchedule(s.ctx, "nightly-report", "nightly-report", "0 2 * * *", input, engine.ScheduleTimeZone("Europe/Berlin"))
	require.NoError(s.t, err)
	_, err = s.eng.PutSchedule(s.ctx, "hourly-sync", "fulfil-order", "@hourly", input, engine.SchedulePaused())
	require.NoError(s.t, err)
	_, err = s.eng.TriggerSchedule(s.ctx, "nightly-report")
	require.NoError(s.t, err)
	_, err = s.eng.PutSchedule(s.ctx, "ten-minutes", "fulfil-order", "*/10 * * * *", input)
	require.NoError(s.t, err)
	page, err := s.st.ListSchedules(s.ctx, store.ListSchedulesParams{Namespace: "default", Names: []string{"ten-minutes"}})
	require.NoError(s.t, err)
	late := page.Schedules[0]
	late.NextAt = time.Now().Add(-42 * time.Minute).Truncate(time.Minute)
	_, err = s.st.PutSchedule(s.ctx, store.PutScheduleParams{Namespace: "default", Schedule: late})
	require.NoError(s.t, err)
}

// workers registers workers that seem to be online, and one that is not.
func (s *scene) workers() {
	names := []string{"approve-refund", "await-payment", "charge-card", "fulfil-order", "migrate-account", "nightly-report", "pack-item", "pack-order", "reconcile", "send-mail"}
	takes := map[string][]string{}
	for _, n := range names {
		takes[n] = []string{n}
	}
	for i, w := range []store.Worker{{ID: "eu-west-1a-7", Build: "v2", PID: 4711}, {ID: "eu-west-1b-2", Build: "v2", PID: 815}} {
		w.Host, w.Queues, w.Workflows, w.Takes, w.Slots, w.Status, w.TTL = fmt.Sprintf("node-%d", i+1), names, names, takes, 100, store.Online, time.Hour
		require.NoError(s.t, s.st.PutWorker(s.ctx, store.PutWorkerParams{Namespace: "default", Worker: w}))
	}
	gone := store.Worker{ID: "eu-west-1c-9", Build: "v1", PID: 99, Host: "node-3", Queues: names, Workflows: names, Takes: takes, Slots: 100, Status: store.Online, TTL: time.Microsecond}
	require.NoError(s.t, s.st.PutWorker(s.ctx, store.PutWorkerParams{Namespace: "default", Worker: gone}))
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("the page does not say %q; it says:\n%s", p, text)
		}
	}
}

// listen serves a handler on a port of its own, and returns its address without a slash.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	// The context ends the streams: if their connections were closed, a browser would open others.
	ctx, end := context.WithCancel(context.Background())
	server := httptest.NewUnstartedServer(h)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	t.Cleanup(func() {
		end()
		server.Close()
	})
	return server.URL
}
