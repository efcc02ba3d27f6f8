// Package api is the HTTP API of Pawl: it shows, starts, controls and repairs runs of an engine's
// namespace, for programs in any language, for the console, and for assistants (package api/mcp).
//
//	mux.Handle("/pawl/api/", http.StripPrefix("/pawl/api", api.New(eng, api.Authorize(may))))
//
// The handler may be mounted below any prefix. Its routes begin with /v1/; /openapi.json describes
// them as an OpenAPI 3.1 document. Package api/client is the client for Go, and package api/wire has the
// documents that both exchange. docs/api.md introduces the API.
//
// # Who may do what
//
// Without [Authorize], the API answers only callers on the same machine; [Caller] says how that is
// decided. With it, the given function decides each [Action], including whether payloads are shown.
// A program that serves others puts its own authentication in front, in a middleware, and decides by the
// values that the middleware has put into the request's context; [NewGate] is a simple one, with one
// token. Requests that a browser sends on behalf of a page of another origin are always refused
// if they change anything ([net/http.CrossOriginProtection]).
//
// # Limits
//
// Pages, bodies, answers, counts and streams are bounded: see [MaxBody], [MaxImport] and [MaxStreams]. All
// viewers of a live list or of a run share one feed, which asks the store as often for two hundred of them
// as for one.
package api
