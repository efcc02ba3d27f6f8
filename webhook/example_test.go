package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/webhook"
)

// A sender tells a receiver of a run that is started and canceled. The receiver checks the signature.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	defer eng.Close()

	secret := webhook.NewSecret() // usually from the environment
	var events []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := webhook.Verify(secret, r.Header, body, time.Now()); err != nil {
			http.Error(w, "not signed", http.StatusUnauthorized)
			return
		}
		if events = append(events, string(body[:bytes.IndexByte(body, ',')])); len(events) == 2 {
			stop()
		}
	}))
	defer receiver.Close()

	sender, err := webhook.New(eng, webhook.Endpoint{Name: "audit", URL: receiver.URL, Secret: secret})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := eng.Subscribe(ctx, sender.Subscription()); err != nil { // Run does it, too
		log.Fatal(err)
	}
	started, err := eng.Start(ctx, "order", []byte(`"book"`))
	if err != nil {
		log.Fatal(err)
	}
	if err := eng.Cancel(ctx, started.ID, "no stock"); err != nil {
		log.Fatal(err)
	}
	if err := sender.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(events)
	// Output:
	// [{"type":"run.created" {"type":"run.canceled"]
}
