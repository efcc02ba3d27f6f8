package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/api/client"
)

// Option configures a console.
type Option func(*console)

// Title is shown beside the name, for example the name of the environment: "staging".
func Title(text string) Option { return func(c *console) { c.title = text } }

// Refresh sets how often a page that somebody looks at is rendered again. The default, also for 0 or
// less, is 2 s. While nobody looks at a page, the console reads nothing.
func Refresh(d time.Duration) Option {
	return func(c *console) {
		if d > 0 {
			c.refresh = d
		}
	}
}

// Viewers says which viewers see the same: those for whom identify returns the same text. A page that
// several of them look at is rendered once for all, so that they cost the database no more than one.
// Requests with an empty text share nothing. By default, requests are of the same viewer if they come from the
// same address with the same headers, except for those that do not tell who sends them.
//
// With an Authorize function that gives all users the same rights, return the same text for all that
// it lets in. The actor is not part of what a page shows.
func Viewers(identify func(*http.Request) string) Option {
	return func(c *console) { c.identify = identify }
}

// SignIn adds a form that asks for a token where the API answers that one is missing. The function in
// checks the token and sets a cookie with which the API accepts the viewer's later requests; its error is
// shown. The function out removes the cookie.
func SignIn(in func(w http.ResponseWriter, r *http.Request, token string) error, out func(w http.ResponseWriter)) Option {
	return func(c *console) { c.signIn, c.signOut = in, out }
}

// TrustOrigins allows pages of other origins, such as "https://ops.example.com", to send forms to the
// console. By default only its own pages may.
func TrustOrigins(origins ...string) Option {
	return func(c *console) { c.origins = append(c.origins, origins...) }
}

type console struct {
	api      *client.Client
	title    string
	refresh  time.Duration
	identify func(*http.Request) string
	signIn   func(http.ResponseWriter, *http.Request, string) error
	signOut  func(http.ResponseWriter)
	origins  []string

	mux   *http.ServeMux
	feeds feeds
	notes memory
}

// New makes a console over the handler of an API (see package api), which it calls in process. It
// serves below any path: give it requests without the path's prefix, as [http.StripPrefix] does.
//
// New panics if an origin of [TrustOrigins] is not valid.
func New(api http.Handler, opts ...Option) http.Handler {
	c := &console{api: client.Local(api), refresh: 2 * time.Second, identify: identify}
	for _, opt := range opts {
		opt(c)
	}
	c.feeds.console = c
	c.routes()
	guard := http.NewCrossOriginProtection()
	for _, origin := range c.origins {
		if err := guard.AddTrustedOrigin(origin); err != nil {
			panic("console: " + err.Error())
		}
	}
	return headers(rooted(guard.Handler(c.mux)))
}

func (c *console) routes() {
	c.mux = http.NewServeMux()
	c.mux.HandleFunc("GET /assets/{name}", serveAsset)
	c.mux.HandleFunc("GET /live", c.live)
	if c.signIn != nil {
		c.mux.HandleFunc("POST /sign-in", c.takeToken)
		c.mux.HandleFunc("POST /sign-out", c.dropToken)
	}
	for path, page := range map[string]page{
		"/{$}":          {section: "overview", template: "overview", live: true, load: overview},
		"/runs":         {section: "runs", template: "runs", live: true, load: listRuns},
		"/runs/{id}":    {section: "runs", template: "run", live: true, load: showRun},
		"/schedules":    {section: "schedules", template: "schedules", live: true, load: listSchedules},
		"/schedule":     {section: "schedules", template: "schedule", live: true, load: showSchedule},
		"/workflows":    {section: "workflows", template: "workflows", live: true, load: listWorkflows},
		"/workflow":     {section: "workflows", template: "workflow", live: true, load: showWorkflow},
		"/workers":      {section: "workers", template: "workers", live: true, load: listWorkers},
		"/builds":       {section: "builds", template: "builds", live: true, load: listBuilds},
		"/limits":       {section: "limits", template: "limits", live: true, load: listLimits},
		"/limit":        {section: "limits", template: "limit", live: true, load: showLimit},
		"/webhooks":     {section: "webhooks", template: "webhooks", live: true, load: listWebhooks},
		"/doctor":       {section: "doctor", template: "doctor", load: showDoctor},
		"/journal":      {section: "journal", template: "journal", live: true, load: showJournal},
		"/runs/payload": {section: "runs", template: "payload", load: showPayload},
	} {
		c.mux.Handle("GET "+path, c.show(page))
	}
	c.mux.HandleFunc("GET /runs/export", c.export)
	c.mux.Handle("GET /do", c.show(page{template: "confirm", load: confirm}))
	c.mux.HandleFunc("POST /do", c.do)
	c.mux.Handle("GET /", c.show(page{template: "error", load: func(*call) (any, error) { return nil, errNoPage }}))
}

// rooted makes the root of the console one path, with or without a slash: StripPrefix may leave neither.
func rooted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/") {
			r2 := r.Clone(r.Context())
			r2.URL.Path, r2.URL.RawPath = "/"+r.URL.Path, ""
			r = r2
		}
		next.ServeHTTP(w, r)
	})
}

// headers forbids what the pages do not need: scripts and styles of others, and of the page itself.
func headers(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
