package patterns

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/webhook"
)

// Ends sends the ends of runs of a workflow to a URL. Call its Run.
func Ends(eng *engine.Engine, url string, secret webhook.Secret) (*webhook.Sender, error) {
	return webhook.New(eng, webhook.Endpoint{
		Name:      "ends of orders",
		URL:       url,
		Secret:    secret,
		Workflows: []string{"order"},
		Kinds:     []store.ChangeKind{store.RunCompleted, store.RunFailed, store.RunCanceled},
	})
}

// Receiver accepts webhooks. New reports whether an id has not been seen before, and remembers it; it fails if it cannot tell.
type Receiver struct {
	Secret webhook.Secret
	New    func(id string) (bool, error)
	Handle func(webhook.Event) error
}

// ServeHTTP answers 204 when the event has been handled. After any other answer, the sender sends it again.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 64<<10))
	if err != nil || webhook.Verify(r.Secret, req.Header, body, time.Now()) != nil {
		http.Error(w, "not signed", http.StatusUnauthorized)
		return
	}
	var e webhook.Event
	if err := json.Unmarshal(body, &e); err != nil {
		http.Error(w, "no event", http.StatusBadRequest)
		return
	}
	fresh, err := r.New(req.Header.Get(webhook.HeaderID))
	if err == nil && fresh {
		err = r.Handle(e)
	}
	if err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
