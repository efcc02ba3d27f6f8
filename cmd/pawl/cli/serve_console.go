package cli

import (
	"net/http"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/engine"
)

// consoleHandler is what serve has at /. gate is nil if there is no token.
func consoleHandler(_ *engine.Engine, _ http.Handler, _ *api.Gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write([]byte("Pawl serves its HTTP API below /api/. /api/openapi.json describes it.\n"))
	})
}
