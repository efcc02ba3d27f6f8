package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// anybody allows everything to everybody.
func anybody(context.Context, api.Action, api.Target) error { return nil }

// direct sends a request to the handler as a server would.
func (s *site) direct(method, target, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.ctx, method, target, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "localhost:8080"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w
}

// problem reads the problem of an answer.
func (s *site) problem(w *httptest.ResponseRecorder) wire.Problem {
	s.t.Helper()
	require.Equal(s.t, "application/problem+json", w.Header().Get("Content-Type"), w.Body.String())
	var p wire.Problem
	require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(s.t, w.Code, p.Status)
	return p
}

func TestOnlyThisMachineIsAnsweredByDefault(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"loopback":        {nil, 200},
		"IPv6":            {func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:9", "[::1]:8080" }, 200},
		"IPv4 as IPv6":    {func(r *http.Request) { r.RemoteAddr = "[::ffff:127.0.0.1]:9" }, 200},
		"another machine": {func(r *http.Request) { r.RemoteAddr = "192.0.2.1:9" }, 403},
		"no address":      {func(r *http.Request) { r.RemoteAddr = "" }, 403},
		"a socket":        {func(r *http.Request) { r.RemoteAddr = "@" }, 403},
		"another host":    {func(r *http.Request) { r.Host = "evil.example.com" }, 403},
		"a host like it":  {func(r *http.Request) { r.Host = "localhost.evil.example.com" }, 403},
		"forwarded":       {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1") }, 403},
		"forwarded, RFC":  {func(r *http.Request) { r.Header.Set("Forwarded", "for=127.0.0.1") }, 403},
		"forwarded host":  {func(r *http.Request) { r.Header.Set("X-Forwarded-Host", "x") }, 403},
		"another listener": {func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}))
		}, 403},
		"its listener": {func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := s.direct("GET", "/v1/runs", "", c.change)
			require.Equal(t, c.want, w.Code, w.Body.String())
		})
	}
	for _, a := range api.Actions() {
		require.Error(t, api.LocalOnly(t.Context(), a, api.Target{}), "%s without a caller", a)
	}
}

func TestEveryOperationAsksWhetherTheCallerMay(t *testing.T) {
	s := newSite(t, api.Authorize(func(context.Context, api.Action, api.Target) error { return errors.New("go away") }))
	for path, methods := range readDocument().Paths {
		target := strings.NewReplacer("{id}", store.NewID().String(), "{name}", "x", "{key}", "x").Replace(path)
		for method, op := range methods {
			body := ""
			switch op.OperationID {
			case "bulkRuns":
				body = `{"action":"cancel","filter":{"workflow":"x"}}`
			case "startRun":
				body = `{"workflow":"x"}`
			case "putSchedule":
				body = `{"workflow":"x","spec":"@daily"}`
			case "findRun":
				target += "?external_id=x"
			case "previewSchedule":
				target += "?spec=@daily"
			}
			w := s.direct(strings.ToUpper(method), target, body, nil)
			if op.OperationID == "getOpenAPI" {
				require.Equal(t, 200, w.Code)
				continue
			}
			if op.OperationID == "getInfo" {
				require.Equal(t, 403, w.Code)
			}
			require.Equal(t, wire.CodeForbidden, s.problem(w).Code, "%s %s", method, target)
		}
	}
}

func TestAViewerWithoutRightsSeesNoPayloads(t *testing.T) {
	s := newSite(t)
	s.work()
	secret := "hush-4711"
	id := s.start(wire.Start{Workflow: "ship", Input: []byte(`{"Item":"` + secret + `"}`)})
	s.ended(id)
	waits := s.start(wire.Start{Workflow: "approval", Input: []byte(`{"Item":"` + secret + `"}`)})
	s.sleeping(waits)
	_, err := s.c.SetState(s.ctx, waits, "k", wire.SetState{Value: []byte(`"` + secret + `"`)})
	require.NoError(t, err)
	_, err = s.c.SendSignal(s.ctx, waits, wire.SendSignal{Name: "other", Payload: []byte(`"` + secret + `"`)})
	require.NoError(t, err)
	_, err = s.c.PutSchedule(s.ctx, "nightly", wire.PutSchedule{Workflow: "ship", Spec: "@daily", Input: []byte(`{"Item":"` + secret + `"}`)})
	require.NoError(t, err)

	paths := []string{
		"/v1/runs", "/v1/runs/" + id, "/v1/runs/" + id + "/steps", "/v1/runs/" + id + "/tree", "/v1/runs/" + id + "/result", "/v1/runs/" + id + "/events", "/v1/runs/" + id + "/explain",
		"/v1/runs/" + waits + "/state", "/v1/runs/" + waits + "/state/k", "/v1/runs/" + waits + "/signals", "/v1/schedules", "/v1/schedules/nightly", "/v1/actions", "/metrics",
	}
	shown := 0
	for _, path := range paths {
		if strings.Contains(s.direct("GET", path, "", nil).Body.String(), secret) {
			shown++
		}
	}
	require.GreaterOrEqual(t, shown, 8, "who may see payloads sees them")
	s.serve(api.Authorize(func(_ context.Context, a api.Action, _ api.Target) error {
		if a == api.ReadPayloads {
			return errors.New("payloads are hidden")
		}
		return nil
	}))
	for _, path := range paths {
		w := s.direct("GET", path, "", nil)
		require.Equal(t, 200, w.Code, path)
		require.NotContains(t, w.Body.String(), secret, path)
		require.NotContains(t, w.Body.String(), base64.StdEncoding.EncodeToString([]byte(secret)), path)
	}
	run, err := s.c.GetRun(s.ctx, id, wire.GetRun{})
	require.NoError(t, err)
	require.True(t, run.Output.Hidden)
	require.Equal(t, -1, run.Output.Size)
	refused(t, s.c.ExportRun(s.ctx, id, wire.Export{}, io.Discard), 403, wire.CodeForbidden)
	e, err := s.c.SetState(s.ctx, waits, "k", wire.SetState{Value: []byte(`2`)})
	require.NoError(t, err)
	require.True(t, e.Value.Hidden)
}

func TestOtherNamespacesAreNotKnown(t *testing.T) {
	s := newSite(t)
	other := engine.New(s.eng.Store(), engine.Namespace("tenant"), engine.Require(engine.RequireNothing))
	t.Cleanup(other.Close)
	started, err := other.Start(s.ctx, "ship", []byte(`{}`), engine.ExternalID("theirs"))
	require.NoError(t, err)

	_, err = s.c.GetRun(s.ctx, started.ID.String(), wire.GetRun{})
	refused(t, err, 404, wire.CodeNotFound)
	_, err = s.c.CancelRun(s.ctx, started.ID.String(), wire.Cancel{})
	refused(t, err, 404, wire.CodeNotFound)
	_, err = s.c.FindRun(s.ctx, wire.FindRun{ExternalID: "theirs"})
	refused(t, err, 404, wire.CodeNotFound)
	page, err := s.c.ListRuns(s.ctx, wire.ListRuns{})
	require.NoError(t, err)
	require.Empty(t, page.Runs)
	in := wire.In{Namespace: "tenant"}
	_, err = s.c.ListRuns(s.ctx, wire.ListRuns{In: in})
	unknown := refused(t, err, 404, wire.CodeNotFound)

	s.serve(api.Namespaces("tenant"), api.Authorize(func(_ context.Context, _ api.Action, to api.Target) error {
		if to.Namespace == "tenant" {
			return errors.New("not yours")
		}
		return nil
	}))
	_, err = s.c.ListRuns(s.ctx, wire.ListRuns{In: in})
	require.Equal(t, unknown, refused(t, err, 404, wire.CodeNotFound), "a namespace that may not be read is answered like one that does not exist")
	spaces, err := s.c.ListNamespaces(s.ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"default"}, spaces.Namespaces)

	s.serve(api.Namespaces("tenant"))
	run, err := s.c.GetRun(s.ctx, started.ID.String(), wire.GetRun{In: in})
	require.NoError(t, err)
	require.Equal(t, "tenant", run.Namespace)
	_, err = s.c.CancelRun(s.ctx, started.ID.String(), wire.Cancel{}, client.Namespace("tenant"))
	require.NoError(t, err)
}

func TestPagesOfOtherOriginsChangeNothing(t *testing.T) {
	s := newSite(t, api.TrustOrigins("https://ops.example.com"))
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"a program":       {nil, 200},
		"the same origin": {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
		"another site":    {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"the same site":   {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		"an old browser":  {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, 403},
		"a trusted one": {func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Origin", "https://ops.example.com")
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := s.direct("POST", "/v1/queues/mail/pause", "", c.change)
			require.Equal(t, c.want, w.Code)
			if c.want == 403 {
				require.Equal(t, wire.CodeCrossOrigin, s.problem(w).Code)
			}
		})
	}
	w := s.direct("POST", "/v1/runs", `{"workflow":"x"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	require.Equal(t, wire.CodeMediaType, s.problem(w).Code, "what a form can send is not taken")
}

func TestTextOfOthersIsNeverAPage(t *testing.T) {
	s := newSite(t)
	s.work()
	script := "<script>alert(1)</script>"
	id := s.start(wire.Start{Workflow: "broken", Input: []byte(`{"Item":"` + script + `"}`), ExternalID: script})
	s.ended(id)
	for _, path := range []string{"/v1/runs", "/v1/runs/" + id, "/v1/runs/" + id + "/explain", "/v1/runs/" + id + "/events", "/v1/runs/" + id + "/export", "/v1/queues/%3Cscript%3E/x", "/v1/workflows/%3Cscript%3E", "/metrics", "/v1/runs/find?external_id=%3Cscript%3E"} {
		w := s.direct("GET", path, "", nil)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", path)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"), path)
		require.NotContains(t, w.Header().Get("Content-Type"), "html", path)
		if !strings.HasSuffix(path, "/export") { // its payloads are byte for byte; it is JSON, and a download
			require.NotContains(t, w.Body.String(), "<script>", path)
		} else {
			require.Contains(t, w.Header().Get("Content-Disposition"), "attachment")
		}
	}
}

func TestPathsAreTakenAsTheyAre(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/../v1/runs", "/v1/../v1/runs", "//v1/runs", "/v1/runs/", "/v1", "/", "/etc/passwd", "/v1/runs/..%2f..%2fetc", "/v1/%2e%2e/v1/runs"} {
		w := s.direct("GET", path, "", nil)
		require.GreaterOrEqual(t, w.Code, 400, path)
		require.Less(t, w.Code, 500, path)
		s.problem(w)
	}
	for _, name := range []string{".", "..", "a/b", "%2F", "ä ö?#&", "a//b"} {
		held, err := s.c.PauseQueue(s.ctx, name)
		require.NoError(t, err, name)
		require.Equal(t, name, held.Name)
	}
	paused, err := s.eng.Paused(s.ctx)
	require.NoError(t, err)
	require.Len(t, paused, 6)
	w := s.direct("PATCH", "/v1/runs", "", nil)
	require.Equal(t, 405, w.Code)
	require.Equal(t, "GET, POST", w.Header().Get("Allow"))
	mux := http.NewServeMux()
	mux.Handle("/pawl/api/", http.StripPrefix("/pawl/api", s.h))
	s.h = mux
	require.Equal(t, 200, s.direct("GET", "/pawl/api/v1/runs", "", nil).Code, "below a prefix")
	require.Equal(t, 404, s.direct("GET", "/pawl/api/v1/workflows/a%2Fb", "", nil).Code)
}

func TestCursorsAreChecked(t *testing.T) {
	s := newSite(t)
	s.work()
	for range 3 {
		s.ended(s.start(wire.Start{Workflow: "ship", Input: []byte(`{}`)}))
	}
	page, err := s.c.ListRuns(s.ctx, wire.ListRuns{Limit: 1})
	require.NoError(t, err)
	for name, q := range map[string]wire.ListRuns{
		"of another query": {RunFilter: wire.RunFilter{Workflow: "ship"}, Cursor: page.Next},
		"cut off":          {Cursor: page.Next[:len(page.Next)/2]},
		"changed":          {Cursor: "A" + page.Next[1:] + "A"},
		"nonsense":         {Cursor: "../../etc/passwd"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.c.ListRuns(s.ctx, q)
			refused(t, err, 400, wire.CodeInvalid)
		})
	}
}

func TestLimits(t *testing.T) {
	s := newSite(t, api.MaxBody(1000), api.MaxImport(1000), api.MaxStreams(1))
	big := `{"workflow":"ship","input":"` + strings.Repeat("x", 2000) + `"}`
	p := s.problem(s.direct("POST", "/v1/runs", big, nil))
	require.Equal(t, wire.CodeTooLarge, p.Code)
	require.EqualValues(t, 1000, p.Limit)
	require.Equal(t, wire.CodeTooLarge, s.problem(s.direct("POST", "/v1/runs", big, func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") })).Code)
	require.Equal(t, wire.CodeTooLarge, s.problem(s.direct("POST", "/v1/runs/import", big, nil)).Code)
	for _, query := range []string{"limit=1001", "limit=-1", "limit=x", "limit=1&limit=2", "status=nonsense", "nonsense=1", "created_after=yesterday", "order=x", "parent=x", "min_attempt=-1", "%zz"} {
		require.Equal(t, wire.CodeInvalid, s.problem(s.direct("GET", "/v1/runs?"+query, "", nil)).Code, query)
	}
	for _, body := range []string{"", "[]", "{", `{"nonsense":1}`, `{"workflow":"x"} {}`, `{"workflow":"x","delay":"soon"}`, `{"workflow":"x","delay":"-1s"}`, `{"workflow":"x","priority":101}`,
		`{"workflow":"x","reuse":"x"}`, `{"workflow":"x","input":1,"input_base64":"eA=="}`, `{"workflow":"x","run_id":"x"}`} {
		require.Equal(t, wire.CodeInvalid, s.problem(s.direct("POST", "/v1/runs", body, nil)).Code, body)
	}
	require.Equal(t, wire.CodeInvalid, s.problem(s.direct("POST", "/v1/runs/bulk", `{"action":"cancel","filter":{}}`, nil)).Code, "a filter that selects everything")
	require.Equal(t, wire.CodeUnknownWorkflow, s.problem(s.direct("POST", "/v1/runs", `{"workflow":"x"}`, nil)).Code)

	ctx, leave := context.WithCancel(s.ctx)
	entered := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/runs/events", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		s.h.ServeHTTP(&firstByte{ResponseRecorder: httptest.NewRecorder(), seen: entered}, r)
	}()
	<-entered
	w := s.direct("GET", "/v1/runs/events", "", nil)
	require.Equal(t, wire.CodeTooManyStreams, s.problem(w).Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	leave()
	<-done
}

// firstByte closes seen when something is written.
type firstByte struct {
	*httptest.ResponseRecorder
	seen chan struct{}
}

func (f *firstByte) Write(b []byte) (int, error) {
	select {
	case <-f.seen:
	default:
		close(f.seen)
	}
	return f.ResponseRecorder.Write(b)
}

func TestRepeatsHaveOneEffect(t *testing.T) {
	s := newSite(t)
	s.work()
	key := client.IdempotencyKey("key-1")
	b := wire.Start{Workflow: "ship", Input: []byte(`{"Item":"a"}`)}
	first := s.start(b, key)
	require.Equal(t, first, s.start(b, key))
	_, err := s.c.StartRun(s.ctx, wire.Start{Workflow: "ship", Input: []byte(`{"Item":"b"}`)}, key)
	refused(t, err, 422, wire.CodeKeyReused)
	s.serve() // another process, which remembers nothing
	require.Equal(t, first, s.start(b, key))
	_, err = s.c.StartRun(s.ctx, wire.Start{Workflow: "ship", Input: []byte(`{"Item":"b"}`)}, client.IdempotencyKey("key-1"))
	refused(t, err, 422, wire.CodeKeyReused)
	s.serve()
	_, err = s.c.StartRun(s.ctx, wire.Start{Workflow: "ship", Input: []byte(`{"Item":"b"}`)}, key)
	refused(t, err, 409, wire.CodeConflict)

	failed := s.start(wire.Start{Workflow: "broken", Input: []byte(`{}`)})
	s.ended(failed)
	_, err = s.c.RestartRun(s.ctx, failed, client.IdempotencyKey("restart-1"))
	require.NoError(t, err)
	_, err = s.c.RestartRun(s.ctx, failed, client.IdempotencyKey("restart-1"))
	require.NoError(t, err, "the answer is repeated")

	waits := s.start(wire.Start{Workflow: "approval", Input: []byte(`{}`)})
	sent, err := s.c.SendSignal(s.ctx, waits, wire.SendSignal{Name: "other"}, client.IdempotencyKey("signal-1"))
	require.NoError(t, err)
	s.serve()
	again, err := s.c.SendSignal(s.ctx, waits, wire.SendSignal{Name: "other"}, client.IdempotencyKey("signal-1"))
	require.NoError(t, err)
	require.Equal(t, sent, again)
	signals, err := s.c.ListSignals(s.ctx, waits, wire.ListSignals{})
	require.NoError(t, err)
	require.Len(t, signals.Signals, 1)
}

func TestPayloadsAreShownAsTheyAre(t *testing.T) {
	s := newSite(t)
	s.work()
	id := s.start(wire.Start{Workflow: "ship", InputBase64: []byte{0xff, 1}, Delay: "1h"})
	run, err := s.c.GetRun(s.ctx, id, wire.GetRun{})
	require.NoError(t, err)
	require.Equal(t, []byte{0xff, 1}, run.Input.Base64)
	long := `"` + strings.Repeat("x", 70<<10) + `"`
	id = s.start(wire.Start{Workflow: "ship", Input: []byte(long), Delay: "1h"})
	run, err = s.c.GetRun(s.ctx, id, wire.GetRun{})
	require.NoError(t, err)
	require.True(t, run.Input.Omitted)
	require.Equal(t, len(long), run.Input.Size)
	run, err = s.c.GetRun(s.ctx, id, wire.GetRun{MaxPayload: 1 << 20})
	require.NoError(t, err)
	require.Len(t, run.Input.JSON, len(long))
}

func TestTheActorIsRecorded(t *testing.T) {
	s := newSite(t, api.Authorize(anybody), api.Actor(func(r *http.Request) string { return r.Header.Get("X-User") + "@" + r.RemoteAddr }))
	w := s.direct("POST", "/v1/queues/mail/pause", "", func(r *http.Request) {
		r.RemoteAddr = "192.0.2.1:9"
		r.Header.Set("X-User", "ada")
	})
	require.Equal(t, 200, w.Code)
	actions, err := s.c.ListActions(s.ctx, wire.ListActions{})
	require.NoError(t, err)
	require.Equal(t, "ada@192.0.2.1:9", actions.Actions[0].Actor)
	require.Equal(t, "queue mail", actions.Actions[0].Target)
}

func TestALocalClientActsForItsViewer(t *testing.T) {
	s := newSite(t)
	viewer := httptest.NewRequest("GET", "http://console.example.com/", nil)
	viewer.RemoteAddr = "192.0.2.1:9"
	_, err := s.c.ListRuns(client.WithRequest(s.ctx, viewer), wire.ListRuns{})
	refused(t, err, 403, wire.CodeForbidden)
	viewer.RemoteAddr, viewer.Host = "127.0.0.1:9", "localhost"
	ctx := client.WithRequest(s.ctx, viewer)
	_, err = s.c.ListRuns(ctx, wire.ListRuns{})
	require.NoError(t, err)
	viewer.Header.Set("Sec-Fetch-Site", "cross-site")
	_, err = s.c.PauseQueue(ctx, "mail")
	refused(t, err, 403, wire.CodeCrossOrigin)
}

func TestManyViewersShareOneFeed(t *testing.T) {
	s := newSite(t, api.FeedEvery(time.Hour))
	s.work()
	const viewers = 50
	ctx, leave := context.WithCancel(s.ctx)
	defer leave()
	seen := make(chan string, viewers)
	open := make(chan struct{}, viewers)
	first := s.start(wire.Start{Workflow: "ship", Input: []byte(`{}`)})
	s.ended(first)
	for range viewers {
		go func() {
			for e, err := range s.c.WatchRuns(ctx, wire.WatchRuns{Snapshot: true, RunFilter: wire.RunFilter{Status: []string{"completed"}}}) {
				switch {
				case err != nil:
					return
				case e.Run != nil && e.Run.ID == first:
					open <- struct{}{}
				case e.Run != nil:
					seen <- e.Run.ID
					return
				}
			}
		}()
	}
	for range viewers {
		<-open
	}
	id := s.start(wire.Start{Workflow: "ship", Input: []byte(`{}`)})
	for range viewers {
		require.Equal(t, id, <-seen)
	}
}

func TestBodiesThatAreNoExportAreRefused(t *testing.T) {
	s := newSite(t)
	for _, body := range []string{`{}`, `[]`, `{"format":"pawl-runs","version":99}`, `nonsense`} {
		_, err := s.c.ImportRuns(s.ctx, bytes.NewReader([]byte(body)))
		refused(t, err, 400, wire.CodeInvalid)
	}
}
