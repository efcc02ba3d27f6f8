package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

// takeToken signs a viewer in, and leads back to the page that he wanted.
func (c *console) takeToken(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	back := r.FormValue("back")
	if err := c.signIn(w, r, r.PostFormValue("token")); err != nil {
		status, body := execute(view{Site: c.title, Base: base(r), Template: "error", Title: "Sign in", Now: time.Now(), Data: &failed{
			Problem: &wire.Problem{Status: http.StatusUnauthorized, Title: "Sign in", Detail: "The console needs a token."},
			SignIn:  true, Back: back, Error: err.Error(),
		}}, http.StatusUnauthorized)
		write(w, status, body)
		return
	}
	w.Header().Set("Location", "./"+inside(back))
	w.WriteHeader(http.StatusSeeOther)
}

// dropToken signs a viewer out.
func (c *console) dropToken(w http.ResponseWriter, _ *http.Request) {
	c.signOut(w)
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// inside returns an address that is certainly one of the console's own pages.
func inside(address string) string {
	path, _, _ := strings.Cut(address, "?")
	if strings.HasPrefix(path, "/") || strings.ContainsAny(path, ":\\") || strings.Contains(path, "..") {
		return ""
	}
	return address
}
