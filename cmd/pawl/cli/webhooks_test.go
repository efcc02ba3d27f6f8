package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/webhook"
)

// TestWebhooks: serve delivers changes, and subscriptions are listed and deleted.
func TestWebhooks(t *testing.T) {
	db := databases(t)["sqlite"](t)
	s := migrated(t, db)
	st, err := backends.Open(t.Context(), db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.Contains(t, s.run("webhooks", "list").err, "has no subscriptions yet")
	require.Equal(t, exitNotFound, s.run("webhooks", "delete", "audit").code)

	_, err = st.(store.Outboxer).PutSubscription(t.Context(), store.PutSubscriptionParams{Namespace: "default", Subscription: store.Subscription{Name: "audit"}})
	require.NoError(t, err)
	run := store.NewRun{ID: store.NewID(), Workflow: "mail", Queue: "mail"}
	_, err = st.Create(t.Context(), store.CreateParams{Namespace: "default", Runs: []store.NewRun{run}})
	require.NoError(t, err)
	var list struct{ Webhooks []subscriptionJSON }
	require.NoError(t, json.Unmarshal([]byte(s.must("webhooks", "list", "--json")), &list))
	require.Len(t, list.Webhooks, 1)
	require.Equal(t, []any{"audit", int64(1), "72h0m0s"}, []any{list.Webhooks[0].Name, list.Webhooks[0].Waiting, list.Webhooks[0].Keep})
	require.Contains(t, s.must("webhooks", "list"), "audit")

	secret, got := webhook.NewSecret(), make(chan webhook.Event, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		var e webhook.Event
		if webhook.Verify(secret, r.Header, content, time.Now()) != nil || json.Unmarshal(content, &e) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got <- e
	}))
	t.Cleanup(receiver.Close)
	file := filepath.Join(t.TempDir(), "audit.json")
	write := func(content string) { require.NoError(t, os.WriteFile(file, []byte(content), 0o600)) }
	for _, bad := range []string{``, `{"name":"audit","colour":"red"}`, `{"name":"audit","url":"https://hidden.example","secret":"whsec_hidden"}`, `{"name":"audit","keep":"long"}`} {
		write(bad)
		r := s.run("serve", "--listen", "127.0.0.1:0", "--webhook", file)
		require.Equal(t, exitUsage, r.code, bad)
		require.NotContains(t, r.err, "hidden")
	}
	content, err := json.Marshal(map[string]any{"name": "audit", "url": receiver.URL, "secret": string(secret), "kinds": []string{"created", "canceled"}, "keep": "1h"})
	require.NoError(t, err)
	write(string(content))
	served(t, s, "--webhook", file)
	e := <-got
	require.Equal(t, []string{"run.created", run.ID.String(), "mail"}, []string{e.Type, e.Data.Run, e.Data.Workflow})
	again := migrated(t, db)
	again.must("webhooks", "delete", "audit")
}
