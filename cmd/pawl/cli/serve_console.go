package cli

import (
	"net/http"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/console"
	"github.com/pawlhq/pawl/engine"
)

// consoleHandler is what serve has at /. gate is nil if there is no token. With one, the console asks for
// it and keeps it as a session.
func consoleHandler(_ *engine.Engine, h http.Handler, gate *api.Gate) http.Handler {
	if gate == nil {
		return console.New(h)
	}
	signIn := func(w http.ResponseWriter, r *http.Request, token string) error {
		if p := gate.Login(w, r, token); p != nil {
			return p
		}
		return nil
	}
	return console.New(gate.Wrap(h), console.SignIn(signIn, gate.Logout))
}
