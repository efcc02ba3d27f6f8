package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/console"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/browsertest"
	"github.com/pawlhq/pawl/store"
)

func read(t *testing.T, address string) string {
	t.Helper()
	status, text := get(t, address)
	require.Equal(t, http.StatusOK, status, "%s: %s", address, text)
	return text
}

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	res, err := http.Get(address)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

// only allows some actions.
func only(allowed ...api.Action) api.Option {
	return api.Authorize(func(_ context.Context, a api.Action, _ api.Target) error {
		for _, b := range allowed {
			if a == b {
				return nil
			}
		}
		return fmt.Errorf("%s is not for you", a)
	})
}

// TestAViewerWithoutRights reads everything but payloads, and may change nothing.
func TestAViewerWithoutRights(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	id, err := store.ParseID(s.ids["refund-7"])
	require.NoError(t, err)
	_, err = s.eng.SetState(s.ctx, id, store.StateWrite{Key: "progress", Value: []byte(`"Ada Lovelace was here"`)})
	require.NoError(t, err)
	require.NoError(t, s.eng.Signal(s.ctx, store.NewSignal{ID: store.SignalID(store.NewID()), Run: id, Name: "other", Payload: []byte(`"Ada Lovelace again"`)}))
	var reads []api.Action
	for _, a := range api.Actions() {
		if a.Reads() && a != api.ReadPayloads && a != api.ExportRuns {
			reads = append(reads, a)
		}
	}
	at := s.serve([]api.Option{only(reads...)})
	for _, what := range []string{"order-41", "refund-7", "report-1"} {
		text := read(t, at+"runs/"+s.ids[what])
		require.NotContains(t, text, "Ada Lovelace", what)
		require.NotContains(t, text, "parcel for", what)
		require.Contains(t, text, "Hidden: you may not see payloads", what)
		require.NotContains(t, text, "do?action=", what)
		require.NotContains(t, text, "runs/export", what)
		for _, of := range []string{"input", "output", "step&position=1", "state&key=progress", "signal&position=1"} {
			_, text := get(t, at+"runs/payload?run="+s.ids[what]+"&of="+of)
			require.NotContains(t, text, "Ada Lovelace", of)
			require.NotContains(t, text, "parcel for", of)
		}
		status, _ := get(t, at+"runs/export?run="+s.ids[what])
		require.Equal(t, http.StatusForbidden, status)
	}
	require.NotContains(t, read(t, at+"schedule?name=ten-minutes"), "everybody")
	status, text := get(t, at+"do?action=run-cancel&run="+s.ids["refund-7"])
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, text, "runs.cancel")
	res, err := http.PostForm(at+"do", url.Values{"action": {"run-cancel"}, "run": {s.ids["refund-7"]}})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	run, err := s.eng.Get(s.ctx, id)
	require.NoError(t, err)
	require.Equal(t, store.Sleeping, run.Status)

	p := browsertest.Open(t)
	p.Go(at)
	require.NotContains(t, p.Text("main"), "Pause")
	accessible(t, p, "overview without rights")
}

// TestAViewerOfLess sees only the sections that he may read.
func TestAViewerOfLess(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	at := s.serve([]api.Option{only(api.ReadInfo, api.ReadRuns)})
	text := read(t, at)
	require.NotContains(t, text, "eu-west")
	require.NotContains(t, text, ">Schedules<")
	for _, path := range []string{"schedules", "workers", "builds", "doctor", "journal", "workflows"} {
		status, _ := get(t, at+path)
		require.Equal(t, http.StatusForbidden, status, path)
	}
	contains(t, read(t, at+"runs/"+s.ids["order-41"]), "The run completed")
	status, _ := get(t, at+"runs?namespace=other")
	require.Equal(t, http.StatusNotFound, status, "another namespace does not exist for him")
}

func TestOtherMachinesAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	req, err := http.NewRequest("GET", at, nil)
	require.NoError(t, err)
	req.Host = "pawl.example.com" // a name that somebody made point here
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusForbidden, res.StatusCode)
}

// TestRequestsOfOtherOrigins: a page of another site cannot send a form.
func TestRequestsOfOtherOrigins(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"} {
		req, err := http.NewRequest("POST", at+"do", strings.NewReader(url.Values{"action": {"run-cancel"}, "run": {s.ids["refund-7"]}}.Encode()))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set(name, value)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusForbidden, res.StatusCode, name)
	}
}

// hostile is text that becomes code where it is not escaped.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>{{7}}` + "`javascript:alert(4)`"

// TestHostileText puts it into every name, payload and error.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t), engine.Actor(hostile))
	name := hostile[:100]
	id, parent := store.NewID(), store.NewID()
	made, err := s.st.Create(s.ctx, store.CreateParams{Namespace: "default", Runs: []store.NewRun{
		{ID: parent, Workflow: name, Queue: name, ExternalID: hostile, Suffix: hostile, Input: []byte(hostile), Worker: name, LeaseFor: time.Hour, Build: name},
	}})
	require.NoError(t, err)
	require.NoError(t, made[0].Err)
	failure := &store.Failure{Code: name, Message: hostile, Type: hostile, Stack: hostile}
	res, err := s.st.Commit(s.ctx, store.CommitParams{Namespace: "default", Commits: []store.Commit{{
		Lease: store.Lease{Run: parent, Worker: name, Epoch: 1}, Seq: 1,
		Steps: []store.StepRecord{
			{StepKey: store.StepKey{Branch: name, Name: name, Occurrence: 1}, Kind: store.KindFunction, Status: store.StepFailed, Position: 1, Attempt: 2, Failure: failure,
				Earlier: []store.FailedAttempt{{Attempt: 1, StartedAt: time.Now(), Code: "x", Message: hostile}}},
			{StepKey: store.StepKey{Name: name, Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 2, Attempt: 1, Output: []byte(`{"x":"</pre><script>alert(5)</script>"}`)},
		},
		State: []store.StateWrite{{Key: name, Value: []byte(hostile)}},
		Spawn: []store.NewRun{{ID: id, Workflow: name, Queue: name, Group: name, Ordinal: 1}},
	}}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
	require.NoError(t, s.eng.Signal(s.ctx, store.NewSignal{ID: store.SignalID(store.NewID()), Run: parent, Name: name, Payload: []byte(hostile)}))
	res, err = s.st.Commit(s.ctx, store.CommitParams{Namespace: "default", Commits: []store.Commit{{
		Lease: store.Lease{Run: parent, Worker: name, Epoch: 1}, Seq: 2, Seen: 99, Transition: &store.Transition{Kind: store.FailRun, Failure: failure},
	}}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
	graph := fmt.Sprintf(`{"name":%q,"nodes":[{"name":%q,"kind":"step","when":[%q]}]}`, name, name, name)
	w := store.Worker{ID: name, Host: name, Build: name, Queues: []string{name}, Workflows: []string{name}, Labels: map[string]string{name: name}, Slots: 1, Status: store.Online, TTL: time.Hour}
	require.NoError(t, s.st.PutWorker(s.ctx, store.PutWorkerParams{Namespace: "default", Worker: w}))
	require.NoError(t, s.st.PutWorkflows(s.ctx, store.PutWorkflowsParams{Namespace: "default", Workflows: []store.Workflow{{Name: name, Queue: name, Meta: []byte(`{"graph":` + graph + `}`)}}}))
	_, err = s.eng.PutSchedule(s.ctx, name, name, "0 2 * * *", []byte(hostile))
	require.NoError(t, err)
	require.NoError(t, s.eng.PauseWorkflow(s.ctx, name))

	at := s.serve([]api.Option{api.Actor(func(*http.Request) string { return hostile })}, console.Title(hostile))
	q := url.QueryEscape
	p := browsertest.Open(t)
	for _, path := range []string{
		"", "runs", "runs?external_id=" + q(hostile) + "&workflow=" + q(name) + "&code=" + q(name) + "&status=" + q("failed") + "&error=" + q(hostile),
		"runs/" + parent.String(), "runs/" + id.String(), "runs/payload?of=input&run=" + parent.String(), "runs/payload?of=step&position=2&run=" + parent.String(),
		"schedules", "schedule?name=" + q(name), "workflows", "workflow?name=" + q(name), "workers", "builds", "doctor", "journal", "journal?actor=" + q(hostile),
		"do?action=run-restart&run=" + parent.String(), "do?action=run-fork&run=" + parent.String(), "do?action=queue-pause&name=" + q(name), "do?action=runs-restart&status=failed&error=" + q("x"),
		"do?action=runs-cancel&workflow=" + q(name), "runs?after=" + q(hostile), "runs?status=" + q(hostile), "runs?cursor=" + q(hostile), q(hostile), "runs/" + q("<script>"), "do?action=" + q(hostile),
		"?done=" + q(hostile), "?namespace=" + q(hostile),
	} {
		p.Go(at + path)
		require.Equal(t, 2, browsertest.Eval[int](p, `document.querySelectorAll("script").length`), "%s: only the console's own scripts", path)
		require.Zero(t, browsertest.Eval[int](p, `document.querySelectorAll("img[src=x], svg[onload], [onerror], [onclick], a[href^='javascript:']").length`), path)
	}
	p.Go(at + "runs/" + parent.String())
	require.Contains(t, p.Text("main"), "<script>alert(1)</script>", "it is shown as the text that it is")
}

// TestTampering changes cursors and paths.
func TestTampering(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	for path, want := range map[string]int{
		"runs?cursor=AAAA": 400, "schedules?cursor=x": 400, "journal?cursor=x": 400, "runs?after=yesterday": 400, "runs?status=odd": 400, "runs?attempts=many": 400,
		"runs/not-an-id": 400, "runs/" + store.NewID().String(): 404, "schedule?name=none": 404, "workflow?name=none": 404, "nothing": 404,
		"assets/..%2fconsole.go": 404, "assets/../console.go": 404, "assets/none": 404, "live?page=/etc": 400, "live?page=live": 400, "do?action=odd": 404,
		"runs/payload?run=" + s.ids["order-41"] + "&of=odd": 404, "assets/console.css": 200, "": 200,
	} {
		status, text := get(t, at+path)
		require.Equal(t, want, status, "%s: %s", path, text)
	}
}

// TestBehindAProxy: a proxy that changes the path needs nothing else, because all links are relative.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	inner, err := url.Parse(s.serve([]api.Option{api.Authorize(func(context.Context, api.Action, api.Target) error { return nil })}))
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/ops/eu/console")
		r.SetURL(inner)
	}}
	at := listen(t, proxy) + "/ops/eu/console/"
	p := browsertest.Open(t)
	p.Go(at)
	for _, link := range []string{"Schedules", "nightly-report", "Runs", "sleeping", "Overview"} {
		require.Equal(t, http.StatusOK, p.FollowText(link), link)
	}
	p.Go(at + "runs/" + s.ids["refund-7"])
	p.FollowText("Pause")
	require.Equal(t, http.StatusOK, p.Follow("main form button"))
	require.Equal(t, at+"runs/"+s.ids["refund-7"]+"?done=paused", p.Where())
	p.WaitFor(`document.documentElement.classList.contains("live-on")`)
}

// TestSignIn asks for a token and leads back.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	h := api.New(s.eng)
	gate := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("key"); err != nil || c.Value != "open" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"type":"urn:pawl:problem:unauthorized","title":"A token is needed","status":401,"code":"unauthorized"}`)
			return
		}
		h.ServeHTTP(w, r)
	})
	in := func(w http.ResponseWriter, _ *http.Request, token string) error {
		if token != "sesame" {
			return errors.New("that is not the token")
		}
		http.SetCookie(w, &http.Cookie{Name: "key", Value: "open", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		return nil
	}
	out := func(w http.ResponseWriter) { http.SetCookie(w, &http.Cookie{Name: "key", MaxAge: -1}) }
	at := listen(t, console.New(gate, console.SignIn(in, out))) + "/"
	p := browsertest.Open(t)
	require.Equal(t, http.StatusUnauthorized, p.Go(at+"schedule?name=ten-minutes"))
	accessible(t, p, "sign in")
	p.Fill("#token", "wrong")
	require.Equal(t, http.StatusUnauthorized, p.Follow("main form button"))
	require.Contains(t, p.Text("main"), "that is not the token")
	p.Fill("#token", "sesame")
	require.Equal(t, http.StatusOK, p.Follow("main form button"))
	require.Equal(t, at+"schedule?name=ten-minutes", p.Where(), "the page that he wanted")
	p.FollowText("Sign out")
	require.Contains(t, p.Text("main"), "Sign in")
}

// TestManyViewersCostNoMoreThanOne counts the calls of the API while two hundred look at a page.
func TestManyViewersCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	h := api.New(s.eng)
	var calls atomic.Int64
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/queues" {
			calls.Add(1)
		}
		h.ServeHTTP(w, r)
	})
	const viewers = 200
	at := listen(t, console.New(counted, console.Refresh(200*time.Millisecond))) + "/"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told, done sync.WaitGroup
	for range viewers {
		told.Add(1)
		done.Go(func() { watch(ctx, t, at, told.Done) })
	}
	told.Wait() // each has been told that the page is there
	before := calls.Load()
	id, err := store.ParseID(s.ids["refund-7"])
	require.NoError(t, err)
	require.NoError(t, s.eng.Cancel(s.ctx, id, "")) // it changes the page
	for range viewers {
		req, err := http.NewRequest("GET", at, nil)
		require.NoError(t, err)
		req.Header.Set("HX-Request", "true")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
	}
	require.Less(t, calls.Load()-before, int64(viewers/4), "%d viewers fetched the page, and it was made anew too often", viewers)
	cancel()
	done.Wait()
}

// watch opens a stream of updates, as the page's script does.
func watch(ctx context.Context, t *testing.T, at string, told func()) {
	once := sync.OnceFunc(told)
	defer once()
	req, err := http.NewRequestWithContext(ctx, "GET", at+"live?page=", nil)
	if err != nil {
		t.Error(err)
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	buf := make([]byte, 4096)
	for seen := ""; ; {
		n, err := res.Body.Read(buf)
		if seen += string(buf[:n]); strings.Contains(seen, "event: changed") {
			once()
		}
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("the stream ended after %q: %v", seen, err)
			}
			return
		}
	}
}
