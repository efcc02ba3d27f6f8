package worker_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
)

// said hands on the attributes of log records with one message.
type said struct {
	slog.Handler
	message string
	with    []slog.Attr
	heard   chan map[string]string
}

func (s said) Enabled(context.Context, slog.Level) bool { return true }

func (s said) Handle(_ context.Context, r slog.Record) error {
	if r.Message != s.message {
		return nil
	}
	attrs := map[string]string{}
	for _, a := range s.with {
		attrs[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.String()
		return true
	})
	s.heard <- attrs
	return nil
}

func (s said) WithAttrs(attrs []slog.Attr) slog.Handler {
	s.with = append(s.with[:len(s.with):len(s.with)], attrs...)
	return s
}

// A step that does not heed its context is named in the log once its timeout has passed.
func TestStepPastItsTimeout(t *testing.T) {
	t.Parallel()
	heard := make(chan map[string]string, 1)
	log := slog.New(said{Handler: slog.DiscardHandler, message: "step runs past its timeout; its function ignores its context", heard: heard})
	p := newProcess(t, filepath.Join(t.TempDir(), "pawl.db"), engine.Logger(log))
	release := make(chan struct{})
	wf := workflow.New("stubborn", func(ctx workflow.Context, _ int) (int, error) {
		return workflow.Step(ctx, "deaf", func(context.Context) (int, error) {
			<-release
			return 1, nil
		}, workflow.Timeout(time.Millisecond))
	})
	p.work(t, wf)
	h, err := wf.Start(t.Context(), p.eng, 1)
	require.NoError(t, err)
	attrs := <-heard
	close(release)
	require.Equal(t, h.ID().String(), attrs["run"])
	require.Equal(t, "deaf", attrs["step"])
	require.Equal(t, "1ms", attrs["timeout"])
	_, err = h.Result(t.Context())
	require.NoError(t, err)
}
