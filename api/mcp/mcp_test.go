package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/mcp"
	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// connect serves the protocol on an engine of its own, and connects an assistant.
func connect(t *testing.T, opts []api.Option, tools ...mcp.Option) (*sdk.ClientSession, *engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	st, err := sqlite.Open(ctx, t.TempDir()+"/mcp.db")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	t.Cleanup(eng.Close)
	srv := httptest.NewServer(mcp.New(client.Local(api.New(eng, opts...)), tools...))
	t.Cleanup(srv.Close)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "assistant"}, nil).Connect(ctx, &sdk.StreamableClientTransport{Endpoint: srv.URL, DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session, eng
}

// call calls a tool and decodes its answer.
func call(t *testing.T, s *sdk.ClientSession, tool string, in, out any) (failed bool) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: in})
	require.NoError(t, err)
	text := res.Content[0].(*sdk.TextContent).Text
	require.NoError(t, json.Unmarshal([]byte(text), out), text)
	return res.IsError
}

func TestAssistantExplainsAStuckOrder(t *testing.T) {
	s, eng := connect(t, nil)
	_, err := eng.Start(t.Context(), "fulfil-order", []byte(`{}`), engine.ExternalID("order-42"))
	require.NoError(t, err)
	var run wire.Run
	require.False(t, call(t, s, "find_run", map[string]any{"external_id": "order-42"}, &run))
	var x wire.Explanation
	require.False(t, call(t, s, "explain_run", map[string]any{"run": run.ID}, &x))
	require.Equal(t, "never-served", x.Reason)
	require.NotEmpty(t, x.Summary)
	var page wire.RunPage
	require.False(t, call(t, s, "list_runs", map[string]any{"status": []string{"active"}}, &page))
	require.Len(t, page.Runs, 1)
	var p wire.Problem
	require.True(t, call(t, s, "explain_run", map[string]any{"run": "nonsense"}, &p))
	require.Equal(t, wire.CodeInvalid, p.Code)
}

func TestEveryReadingToolAnswers(t *testing.T) {
	s, eng := connect(t, nil)
	started, err := eng.Start(t.Context(), "ship", []byte(`{}`))
	require.NoError(t, err)
	require.NoError(t, eng.SetLimit(t.Context(), "partner", store.LimitRule{Concurrency: 1}))
	tools, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, tools.Tools)
	for _, tool := range tools.Tools {
		require.True(t, tool.Annotations.ReadOnlyHint, tool.Name)
		if tool.Name == "find_run" {
			continue
		}
		in := map[string]any{}
		schema, err := json.Marshal(tool.InputSchema)
		require.NoError(t, err)
		var needs struct{ Required []string }
		require.NoError(t, json.Unmarshal(schema, &needs))
		for _, name := range needs.Required {
			if in[name] = started.ID.String(); name == "limit" {
				in[name] = "partner"
			}
		}
		var out map[string]any
		require.False(t, call(t, s, tool.Name, in, &out), "%s: %v", tool.Name, out)
	}
}

func TestControlIsOffByDefault(t *testing.T) {
	s, eng := connect(t, nil)
	started, err := eng.Start(t.Context(), "ship", []byte(`{}`))
	require.NoError(t, err)
	_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "cancel_run", Arguments: map[string]any{"run": started.ID.String(), "reason": "x"}})
	require.Error(t, err)

	s, eng = connect(t, nil, mcp.Control())
	started, err = eng.Start(t.Context(), "ship", []byte(`{}`))
	require.NoError(t, err)
	var run wire.Run
	require.False(t, call(t, s, "cancel_run", map[string]any{"run": started.ID.String(), "reason": "a test"}, &run))
	require.Equal(t, "canceled", run.Status)
}

func TestToolsActForTheViewer(t *testing.T) {
	var seen string
	s, _ := connect(t, []api.Option{api.Authorize(func(ctx context.Context, a api.Action, _ api.Target) error {
		c, _ := api.CallerOf(ctx)
		seen = c.Remote.String()
		return http.ErrNoLocation
	})})
	var p wire.Problem
	require.True(t, call(t, s, "doctor", map[string]any{}, &p))
	require.Equal(t, wire.CodeForbidden, p.Code)
	require.Equal(t, "127.0.0.1", seen)
}

func TestAssistantReadsAStream(t *testing.T) {
	s, eng := connect(t, nil)
	log := workflow.NewStream[string]("log")
	wf := workflow.New("copy", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Step(ctx, "rows", func(ctx context.Context) (int, error) {
			for i := range n {
				if err := log.Append(ctx, strings.Repeat("x", i*20)); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
	})
	w := worker.New(eng)
	require.NoError(t, w.Register(wf))
	h, err := wf.Start(t.Context(), eng, 130)
	require.NoError(t, err)
	_, err = w.RunUntilIdle(t.Context())
	require.NoError(t, err)

	var page, rest wire.StreamPage
	require.False(t, call(t, s, "read_stream", map[string]any{"run": h.ID().String(), "name": "log"}, &page))
	require.Len(t, page.Items, 100, "a page is bounded")
	require.JSONEq(t, `"xxxxxxxxxxxxxxxxxxxx"`, string(page.Items[1].Payload.JSON))
	require.True(t, page.Items[99].Payload.Omitted, "a long item is left out")
	require.False(t, page.Ended)
	require.False(t, call(t, s, "read_stream", map[string]any{"run": h.ID().String(), "after": page.After}, &rest))
	require.Len(t, rest.Items, 30)
	var progress wire.ProgressList
	require.False(t, call(t, s, "show_progress", map[string]any{"run": h.ID().String()}, &progress))
	require.Zero(t, progress.Tree.Total)
}
