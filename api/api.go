package api

import (
	"context"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Option configures the API.
type Option func(*server)

// Authorize sets the function that decides whether a caller may do an action; an error refuses it, and
// its text is shown to the caller. Actions on a namespace other than the engine's own
// are then answered as if the namespace did not exist. The function is called at least once
// for each request, with the request's context, which also has the [Caller]; it must be safe for concurrent
// use. The default is [LocalOnly].
func Authorize(f func(ctx context.Context, a Action, t Target) error) Option {
	return func(s *server) {
		if f != nil {
			s.authorize = f
		}
	}
}

// Actor sets who the journal says has done an action. The default is "api@" and the address that the
// request came from. Text over 255 bytes is cut off.
func Actor(f func(*http.Request) string) Option { return func(s *server) { s.actor = f } }

// Namespaces adds namespaces to that of the engine. A request names one with the parameter
// namespace.
func Namespaces(names ...string) Option {
	return func(s *server) { s.names = append(s.names, names...) }
}

// TrustOrigins lets pages of other origins, such as "https://ops.example.com", change things.
// It panics if one is not valid: see [net/http.CrossOriginProtection.AddTrustedOrigin].
func TrustOrigins(origins ...string) Option {
	return func(s *server) {
		for _, o := range origins {
			if err := s.origins.AddTrustedOrigin(o); err != nil {
				panic("api.TrustOrigins: " + err.Error())
			}
		}
	}
}

// MaxBody limits the bodies of requests in bytes. The default is 6 MiB, enough for a payload
// of [store.DefaultPayloadLimit] in base64. Larger ones are answered with 413.
func MaxBody(n int64) Option { return func(s *server) { s.maxBody = n } }

// MaxImport limits the bodies of imports in bytes. The default is 64 MiB.
func MaxImport(n int64) Option { return func(s *server) { s.maxImport = n } }

// MaxStreams limits the streams of events that are open at a time. The default is 512.
func MaxStreams(n int) Option { return func(s *server) { s.maxStreams = n } }

// FeedEvery sets how often the feed that all viewers share asks the store for changes, while there is
// a viewer. The default is a second. Hints of the store make it ask earlier, but not more than ten times
// a second.
func FeedEvery(d time.Duration) Option { return func(s *server) { s.every = d } }

// New makes the handler of the API on an engine. It does not access the database.
func New(eng *engine.Engine, opts ...Option) http.Handler {
	s := &server{
		authorize: LocalOnly, names: []string{eng.Namespace()}, origins: http.NewCrossOriginProtection(),
		maxBody: 6 << 20, maxImport: 64 << 20, maxStreams: 512, every: time.Second,
	}
	for _, opt := range opts {
		opt(s)
	}
	s.answered.init()
	s.spaces = map[string]*space{}
	for _, name := range s.names {
		own := eng
		if name != eng.Namespace() {
			own = engine.New(eng.Store(), engine.Namespace(name), engine.PayloadCodec(eng.Codec()), engine.Logger(eng.Logger()))
		}
		s.spaces[name] = &space{eng: own, feed: newFeed(own, s.every)}
	}
	slices.Sort(s.names)
	s.names = slices.Compact(s.names)
	s.own = s.spaces[eng.Namespace()]
	s.routes()
	return s
}

// server is the API.
type server struct {
	authorize  func(context.Context, Action, Target) error
	actor      func(*http.Request) string
	names      []string
	origins    *http.CrossOriginProtection
	maxBody    int64
	maxImport  int64
	maxStreams int
	every      time.Duration

	own      *space
	spaces   map[string]*space
	mux      *http.ServeMux
	streams  streams
	answered answered
}

// space is a namespace that the API serves.
type space struct {
	eng     *engine.Engine
	feed    *feed
	metrics recent[string]
	doctor  recent[wire.Doctor]
	pace    pace
}

func (s *server) routes() {
	s.mux = http.NewServeMux()
	for _, op := range operations() {
		s.mux.HandleFunc(op.method+" "+op.path, func(w http.ResponseWriter, r *http.Request) { s.serve(op, w, r) })
	}
}

// nowhere answers a request that no route takes.
func (s *server) nowhere(w http.ResponseWriter, r *http.Request) {
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := s.mux.Handler(other); pattern != "" && canonical(r) {
			methods = append(methods, m)
		}
	}
	if len(methods) > 0 {
		methodNotAllowed(w, methods)
		return
	}
	fail(w, problem(http.StatusNotFound, wire.CodeNotFound, "the API has no such path"))
}

// canonical reports whether a path is as the routes have it. The mux would redirect others, to a path
// without the prefix below which the API is mounted.
func canonical(r *http.Request) bool {
	p := r.URL.EscapedPath()
	return p == path.Clean(p)
}

// ServeHTTP serves the API.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	if err := s.origins.Check(r); err != nil {
		fail(w, problem(http.StatusForbidden, wire.CodeCrossOrigin, "a page of another origin must not change anything: "+err.Error()))
		return
	}
	if clean := r.URL.Path; clean == "" || clean[0] != '/' {
		r = r.Clone(r.Context())
		r.URL.Path = "/" + r.URL.Path
		if r.URL.RawPath != "" {
			r.URL.RawPath = "/" + r.URL.RawPath
		}
	}
	if _, pattern := s.mux.Handler(r); pattern == "" || !canonical(r) {
		s.nowhere(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// serve answers a request of an operation.
func (s *server) serve(op *operation, w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, op: op, w: w, r: r, caller: callerOf(r)}
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.own.eng.Logger().Error("the API failed", "operation", op.id, "panic", v, "stack", string(debug.Stack()))
			if !c.began {
				fail(w, problem(http.StatusInternalServerError, wire.CodeInternal, "the API failed; its log says why"))
			}
		}
	}()
	c.caller.Actor = s.actorOf(r, c.caller)
	c.ctx = engine.WithActor(context.WithValue(r.Context(), callerKey{}, c.caller), c.caller.Actor)
	if c.caller.Remote.IsValid() {
		c.ctx = engine.WithFrom(c.ctx, c.caller.Remote.String())
	}
	if err := c.run(); err != nil && !c.began {
		c.fail(err)
	}
}

func (s *server) actorOf(r *http.Request, c Caller) string {
	name := ""
	if s.actor != nil {
		name = s.actor(r)
	}
	if name == "" {
		from := "unknown"
		if c.Remote.IsValid() {
			from = c.Remote.String()
		}
		name = "api@" + from
	}
	return cut(name, store.MaxName)
}
