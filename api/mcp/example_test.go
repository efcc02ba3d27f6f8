package mcp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/mcp"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
)

// An assistant sees the tools that only read.
func Example() {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.New(client.Local(api.New(eng))))

	srv := httptest.NewServer(mux)
	defer srv.Close()
	assistant := sdk.NewClient(&sdk.Implementation{Name: "assistant"}, nil)
	session, err := assistant.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: srv.URL + "/mcp", DisableStandaloneSSE: true}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tools.Tools {
		fmt.Println(t.Name)
	}
	// Output:
	// count_runs
	// doctor
	// explain_run
	// find_run
	// list_actions
	// list_builds
	// list_limits
	// list_queues
	// list_runs
	// list_schedules
	// list_steps
	// list_workers
	// read_stream
	// show_limit
	// show_progress
	// show_run
	// show_tree
}
