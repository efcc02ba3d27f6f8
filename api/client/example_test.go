package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
)

// A client starts a run and reads it. An error says what the API has refused, and why.
func Example() {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Require(engine.RequireNothing)) // no worker has registered greet yet
	defer eng.Close()

	c := client.Local(api.New(eng)) // client.New(url) calls the API of another program
	started, err := c.StartRun(ctx, wire.Start{Workflow: "greet", Input: []byte(`"Ann"`)})
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.GetRun(ctx, started.ID, wire.GetRun{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Workflow, run.Status, string(run.Input.JSON))

	_, err = c.GetRun(ctx, "ann", wire.GetRun{})
	var p *wire.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Code)
	}
	// Output:
	// greet pending "Ann"
	// 400 invalid
}
