package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
)

// The API starts a run of a workflow by its name, for a program in any language. Callers of other
// machines may look, but not change anything.
func Example() {
	st, err := sqlite.Open(context.Background(), ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Require(engine.RequireNothing)) // no worker has registered greet yet
	defer eng.Close()
	mayLook := func(ctx context.Context, a api.Action, t api.Target) error {
		if strings.HasSuffix(string(a), ".read") || api.LocalOnly(ctx, a, t) == nil {
			return nil
		}
		return errors.New("only the operators may do this")
	}
	mux := http.NewServeMux()
	mux.Handle("/pawl/api/", http.StripPrefix("/pawl/api", api.New(eng, api.Authorize(mayLook))))

	srv := httptest.NewServer(mux)
	defer srv.Close()
	start := `{"workflow": "greet", "input": "Ann", "external_id": "ann"}`
	for range 2 {
		res, err := http.Post(srv.URL+"/pawl/api/v1/runs", "application/json", strings.NewReader(start))
		if err != nil {
			log.Fatal(err)
		}
		var started wire.Started
		if err := json.NewDecoder(res.Body).Decode(&started); err != nil {
			log.Fatal(err)
		}
		_ = res.Body.Close()
		fmt.Println(res.Status, "existing:", started.Existing)
	}
	// Output:
	// 201 Created existing: false
	// 201 Created existing: true
}
