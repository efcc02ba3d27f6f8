// Package mcp gives assistants tools with which they look into runs: a server of the Model Context
// Protocol over the HTTP API of Pawl.
//
//	mux.Handle("/mcp", mcp.New(client.Local(api.New(eng))))
//
// The tools only read: they list, show and explain runs, and run the doctor. With [Control] there are also
// tools that change runs. The API decides what the viewer of the request may do
// (api.Authorize), and hides payloads that he may not see. Programs that do not import this package do not contain the
// protocol's library.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
)

// Option configures the server.
type Option func(*server)

// Control adds tools that change runs: cancel, pause, resume, restart and signal.
func Control() Option { return func(s *server) { s.control = true } }

type server struct {
	c       *client.Client
	control bool
}

// New makes a handler that serves the protocol over HTTP, without sessions, at the path where it is
// mounted. Calls are made with c on behalf of the request's viewer (client.WithRequest).
func New(c *client.Client, opts ...Option) http.Handler {
	s := &server{c: c}
	for _, opt := range opts {
		opt(s)
	}
	h := sdk.NewStreamableHTTPHandler(s.serverOf, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: 1 << 20})
	return http.NewCrossOriginProtection().Handler(h)
}

// serverOf makes the server of one request, whose tools act for its viewer.
func (s *server) serverOf(r *http.Request) *sdk.Server {
	out := sdk.NewServer(&sdk.Implementation{Name: "pawl", Version: "1"}, &sdk.ServerOptions{
		Instructions: "Tools for durable workflows. To find out why something is stuck, find its run with find_run or list_runs, then call explain_run.",
	})
	s.readers(out, r)
	if s.control {
		s.writers(out, r)
	}
	return out
}

// add adds a tool that calls the API.
func add[In, Out any](s *sdk.Server, r *http.Request, name, about string, reads bool, do func(context.Context, In) (Out, error)) {
	changes := !reads
	tool := &sdk.Tool{Name: name, Description: about, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: reads, DestructiveHint: &changes}}
	sdk.AddTool(s, tool, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		out, err := do(client.WithRequest(ctx, r), in)
		if err != nil {
			return failed(err), nil, nil
		}
		data, err := json.Marshal(out)
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(data)}}}, nil, nil
	})
}

// failed is the result of a tool whose call was refused.
func failed(err error) *sdk.CallToolResult {
	text := err.Error()
	var p *wire.Problem
	if errors.As(err, &p) {
		if data, err := json.Marshal(p); err == nil {
			text = string(data)
		}
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
