package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// sections are those of docs/deploys.md whose commands are run.
var sections = []string{"Rolling deploy", "Blue-green", "Canary", "Rolling back", "Schema changes", "Long-running runs", "Stranded runs"}

var released = workflow.NewSignal[int]("released")

// orderOf is a workflow of these steps, which then waits to be released.
func orderOf(steps ...string) *workflow.Workflow[int, int] {
	return workflow.New("order", func(ctx workflow.Context, _ int) (int, error) {
		for _, name := range steps {
			if err := workflow.Do(ctx, name, func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
		}
		return released.Receive(ctx)
	})
}

// TestDeploysPage runs the commands of docs/deploys.md in their order, on a database with a
// stranded run. In the place of RUN it puts that run.
func TestDeploysPage(t *testing.T) {
	ctx, db := t.Context(), file(t)
	st, err := backends.Open(ctx, db)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	eng := engine.New(st)
	defer eng.Close()
	work := func(build string, order *workflow.Workflow[int, int]) {
		w := worker.New(eng, worker.Build(build))
		require.NoError(t, w.Register(order))
		_, err := w.RunUntilIdle(ctx)
		require.NoError(t, err)
	}
	before, after := orderOf("prepare", "charge"), orderOf("prepare", "check", "charge")
	work("v1", before)
	h, err := before.Start(ctx, eng, 0)
	require.NoError(t, err)
	work("v1", before)
	require.NoError(t, released.Send(ctx, eng, h.ID(), 7))
	work("v2", after)
	run, err := eng.Get(ctx, h.ID())
	require.NoError(t, err)
	require.Equal(t, "v1", run.PinnedTo(), "the stranded run")

	s := newShell(t, db)
	s.now = time.Now
	var seen []string
	for _, c := range commandsOf(t, "deploys.md") {
		args := strings.ReplaceAll(c.line, "RUN", run.ID.String())
		args, _, _ = strings.Cut(args, " > ")
		text, quoted, _ := strings.Cut(args, ` "`)
		fields := strings.Fields(text)[1:]
		if quoted != "" {
			fields = append(fields, strings.TrimSuffix(quoted, `"`))
		}
		s.must(fields...)
		if !slices.Contains(seen, c.section) {
			seen = append(seen, c.section)
		}
	}
	require.Equal(t, sections, seen, "sections of docs/deploys.md that have commands")

	page, err := eng.List(ctx, store.RunFilter{Workflow: "order"}, "", 10)
	require.NoError(t, err)
	require.Len(t, page.Runs, 2, "the stranded run and its fork")
	for _, r := range page.Runs {
		if r.ID == run.ID {
			require.Equal(t, store.Canceled, r.Status)
			continue
		}
		work("v2", after)
		require.NoError(t, released.Send(ctx, eng, r.ID, 8))
		work("v2", after)
		end, err := eng.Wait(ctx, r.ID)
		require.NoError(t, err)
		require.Equal(t, "8", string(end.Output))
	}
}

// command is a line of a document.
type command struct{ section, line string }

// commandsOf returns the lines of a document's shell blocks, which must call pawl.
func commandsOf(t *testing.T, page string) (list []command) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	require.NoError(t, err)
	section, shell := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch title, heading := strings.CutPrefix(line, "## "); {
		case strings.HasPrefix(line, "```"):
			shell = line == "```sh"
		case heading && !shell:
			section = title
		case shell:
			require.True(t, strings.HasPrefix(line, "pawl "), "%s: %q is no call of pawl", page, line)
			list = append(list, command{section, line})
		}
	}
	return list
}
