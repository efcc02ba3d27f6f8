package backends_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// TestExportFromPostgresToSQLite exports a run from PostgreSQL, imports it into SQLite, and shows
// and forks it there.
func TestExportFromPostgresToSQLite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(url string) *engine.Engine {
		st, err := backends.Open(ctx, url)
		require.NoError(t, err)
		eng := engine.New(st)
		t.Cleanup(func() { eng.Close(); _ = st.Close() })
		return eng
	}
	var broken bool
	wf := workflow.New("order", func(ctx workflow.Context, cents int) (string, error) {
		id, err := workflow.Step(ctx, "charge", func(context.Context) (string, error) { return fmt.Sprintf("charge-%d", cents), nil })
		if err != nil {
			return "", err
		}
		return workflow.Step(ctx, "ship", func(context.Context) (string, error) {
			if broken {
				return "", workflow.Permanent(fmt.Errorf("no such address"))
			}
			return "shipped " + id, nil
		})
	})
	work := func(eng *engine.Engine) (stop func()) {
		w := worker.New(eng)
		require.NoError(t, w.Register(wf))
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		return func() { cancel(); require.NoError(t, <-done) }
	}
	production, laptop := open(pgtest.Database(t)), open("sqlite:"+filepath.Join(t.TempDir(), "laptop.db"))

	broken = true
	stop := work(production)
	h, err := wf.Start(ctx, production, 4200, engine.ExternalID("order-42"))
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorIs(t, err, engine.ErrFailed)
	stop()
	var file bytes.Buffer
	require.NoError(t, production.Export(ctx, &file, h.ID()))

	made, err := laptop.Import(ctx, &file)
	require.NoError(t, err)
	require.Equal(t, []engine.Imported{{ID: h.ID(), Status: store.Failed}}, made)
	want, err := production.Get(ctx, h.ID())
	require.NoError(t, err)
	got, err := laptop.Get(ctx, h.ID())
	require.NoError(t, err)
	require.Equal(t, want, got)
	steps, err := production.Steps(ctx, h.ID())
	require.NoError(t, err)
	shown, err := laptop.Steps(ctx, h.ID())
	require.NoError(t, err)
	require.Equal(t, steps, shown)

	broken = false
	defer work(laptop)()
	f, err := laptop.Fork(ctx, h.ID(), engine.FromStep("ship"))
	require.NoError(t, err)
	require.Equal(t, []store.StepKey{{Name: "charge", Occurrence: 1}}, f.Kept)
	out, err := wf.Handle(laptop, f.ID).Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "shipped charge-4200", out)
}
