package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// The workflows of the tests.
type order struct{ Item string }

var (
	approved = workflow.NewSignal[string]("approved")

	ship = workflow.New("ship", func(ctx workflow.Context, o order) (string, error) {
		return workflow.Step(ctx, "pack", func(context.Context) (string, error) { return o.Item + " packed", nil })
	})
	approval = workflow.New("approval", func(ctx workflow.Context, o order) (string, error) {
		if _, err := workflow.Step(ctx, "ask", func(context.Context) (string, error) { return "asked", nil }); err != nil {
			return "", err
		}
		return approved.Receive(ctx)
	})
	broken = workflow.New("broken", func(ctx workflow.Context, _ order) (string, error) {
		return workflow.Step(ctx, "break", func(context.Context) (string, error) { return "", errors.New("<script>alert(1)</script>") }, workflow.Attempts(1))
	})
	raise   = workflow.NewUpdate[int, int]("raise")
	scarce  = limit.New("scarce", limit.Concurrency(1))
	moves   = workflow.NewStream[int]("moves")
	account = workflow.New("account", func(ctx workflow.Context, balance int) (int, error) {
		if err := moves.AppendInRun(ctx, balance); err != nil {
			return balance, err
		}
		err := raise.Handle(ctx, func(ctx workflow.Context, by int) (int, error) {
			balance += by
			return balance, moves.AppendInRun(ctx, balance)
		})
		return balance, err
	})
	busy = workflow.New("busy", func(ctx workflow.Context, _ order) (string, error) {
		return workflow.Step(ctx, "until it is canceled", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
	}, workflow.Under(scarce))
	family = workflow.New("family", func(ctx workflow.Context, items []order) ([]string, error) {
		return workflow.Map(ctx, "each", items, ship)
	})
)

// site is an API with its engine on a database of its own.
type site struct {
	t   *testing.T
	ctx context.Context
	eng *engine.Engine
	h   http.Handler
	c   *client.Client

	called  sync.Map       // operations that succeeded
	running sync.WaitGroup // requests
}

func open(t *testing.T, url string, opts ...api.Option) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	st, err := backends.Open(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	eng := engine.New(st)
	t.Cleanup(eng.Close)
	s := &site{t: t, ctx: ctx, eng: eng}
	t.Cleanup(s.running.Wait)
	s.serve(opts...)
	return s
}

func newSite(t *testing.T, opts ...api.Option) *site {
	return open(t, "sqlite:"+t.TempDir()+"/api.db", opts...)
}

// serve makes an API with other options.
func (s *site) serve(opts ...api.Option) {
	s.h = api.New(s.eng, append([]api.Option{api.FeedEvery(20 * time.Millisecond)}, opts...)...)
	s.c = client.Local(s.checked(s.h))
}

// work runs a worker until the test ends.
func (s *site) work(opts ...worker.Option) {
	s.t.Helper()
	w := worker.New(s.eng, append([]worker.Option{worker.Poll(20 * time.Millisecond)}, opts...)...)
	require.NoError(s.t, w.Register(ship, approval, broken, family, account, busy))
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		require.NoError(s.t, <-done)
	})
	s.registered()
}

// registered waits until the workflows are registered.
func (s *site) registered() {
	s.t.Helper()
	s.until("the workflows are registered", func() bool {
		flows, err := s.eng.Workflows(s.ctx)
		require.NoError(s.t, err)
		workers, err := s.eng.WorkersNow(s.ctx)
		require.NoError(s.t, err)
		return len(flows) == 6 && len(workers) == 1
	})
}

// until waits for a condition.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.t.Fatalf("%s: %v", what, s.ctx.Err())
		}
	}
}

// start starts a run.
func (s *site) start(b wire.Start, opts ...client.CallOption) string {
	s.t.Helper()
	started, err := s.c.StartRun(s.ctx, b, opts...)
	require.NoError(s.t, err)
	return started.ID
}

// ended waits for the end of a run.
func (s *site) ended(id string) wire.Run {
	s.t.Helper()
	res, err := s.c.AwaitRun(s.ctx, id, wire.AwaitRun{Wait: "60s"})
	require.NoError(s.t, err)
	require.True(s.t, res.Final, "the run is %s", res.Run.Status)
	return res.Run
}

// sleeping waits until a run sleeps.
func (s *site) sleeping(id string) {
	s.t.Helper()
	s.until("the run sleeps", func() bool {
		run, err := s.c.GetRun(s.ctx, id, wire.GetRun{})
		require.NoError(s.t, err)
		return run.Status == "sleeping"
	})
}

// refused checks that an error is a problem of that status and code.
func refused(t *testing.T, err error, status int, code string) *wire.Problem {
	t.Helper()
	var p *wire.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, code, p.Code, "%v", p)
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Title)
	require.Equal(t, "urn:pawl:problem:"+code, p.Type)
	return p
}

func TestRunsAreListedShownAndExplained(t *testing.T) {
	s := newSite(t)
	s.work()
	id := s.start(wire.Start{Workflow: "ship", Input: []byte(`{"Item":"a lamp"}`), ExternalID: "order-42"})
	run := s.ended(id)
	require.Equal(t, "completed", run.Status)
	require.JSONEq(t, `"a lamp packed"`, string(run.Output.JSON))
	require.JSONEq(t, `{"Item":"a lamp"}`, string(run.Input.JSON))

	page, err := s.c.ListRuns(s.ctx, wire.ListRuns{RunFilter: wire.RunFilter{Workflow: "ship", Status: []string{"final"}}})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	require.Nil(t, page.Runs[0].Output, "a list has no payloads")

	found, err := s.c.FindRun(s.ctx, wire.FindRun{ExternalID: "order-42"})
	require.NoError(t, err)
	require.Equal(t, id, found.ID)

	steps, err := s.c.ListSteps(s.ctx, id, wire.ListSteps{})
	require.NoError(t, err)
	require.Len(t, steps.Steps, 1)
	require.Equal(t, "pack", steps.Steps[0].Name)
	require.JSONEq(t, `"a lamp packed"`, string(steps.Steps[0].Output.JSON))

	x, err := s.c.ExplainRun(s.ctx, id, wire.In{})
	require.NoError(t, err)
	require.Equal(t, "completed", x.Reason)

	counts, err := s.c.CountRuns(s.ctx, wire.CountRuns{})
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Total)
}

func TestUnknownRunIsNotFound(t *testing.T) {
	s := newSite(t)
	_, err := s.c.GetRun(s.ctx, store.NewID().String(), wire.GetRun{})
	refused(t, err, 404, wire.CodeNotFound)
	_, err = s.c.GetRun(s.ctx, "x", wire.GetRun{})
	p := refused(t, err, 400, wire.CodeInvalid)
	require.True(t, strings.Contains(p.Field, "run id"))
}
