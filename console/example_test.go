package console_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/console"
	"github.com/pawlhq/pawl/engine"
)

// A program serves the console beside its own pages.
func Example() {
	st, err := sqlite.Open(context.Background(), ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	h := api.New(eng)
	mux := http.NewServeMux()
	mux.Handle("/pawl/api/", http.StripPrefix("/pawl/api", h))
	mux.Handle("/pawl/", http.StripPrefix("/pawl", console.New(h, console.Title("staging"))))

	srv := httptest.NewServer(mux)
	defer srv.Close()
	res, err := http.Get(srv.URL + "/pawl/runs")
	if err != nil {
		log.Fatal(err)
	}
	_ = res.Body.Close()
	fmt.Println(res.Status, res.Header.Get("Content-Type"))
	// Output:
	// 200 OK text/html; charset=utf-8
}
