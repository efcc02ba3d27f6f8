package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// The test's program is the example, too, so that a real process can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("APPROVAL_SERVES") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// served is a server in a process of its own.
type served struct {
	t    *testing.T
	url  string
	cmd  *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
	over chan struct{}
}

func serve(t *testing.T, db string, remind, timeout time.Duration) *served {
	t.Helper()
	s := &served{t: t, cmd: exec.Command(os.Args[0], "-addr=127.0.0.1:0", "-db="+db, "-remind="+remind.String(), "-timeout="+timeout.String()), over: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "APPROVAL_SERVES=1")
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.cmd.Stderr = os.Stderr
	require.NoError(t, s.cmd.Start())
	t.Cleanup(s.kill)
	lines := bufio.NewReader(out)
	for s.url == "" {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "the server ended before it listened")
		s.url, _ = strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	}
	go func() {
		defer close(s.over)
		for {
			line, err := lines.ReadString('\n')
			s.mu.Lock()
			s.said.WriteString(line)
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// kill is a kill -9.
func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	<-s.over
	_ = s.cmd.Wait()
}

func (s *served) mails(to string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.said.String(), to)
}

// call sends a request and returns the answer's status and body.
func (s *served) call(method, path, key, body string) (int, map[string]any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	var out map[string]any
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		require.NoError(s.t, json.Unmarshal(data, &out), "%s", data)
	}
	return res.StatusCode, out
}

func (s *served) request(key, title string) string {
	s.t.Helper()
	code, out := s.call("POST", "/requests", key, `{"title": "`+title+`", "approver": "ann"}`)
	require.Equal(s.t, http.StatusCreated, code, "%v", out)
	return "/requests/" + out["id"].(string)
}

// until looks at a request until it is as it should be.
func (s *served) until(path, what string, is func(map[string]any) bool) map[string]any {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		code, out := s.call("GET", path, "", "")
		require.Equal(s.t, http.StatusOK, code, "%v", out)
		if is(out) {
			return out
		}
		select {
		case <-late:
			require.Fail(s.t, "it did not become so: "+what, "%v", out)
		case <-tick.C:
		}
	}
}

func database(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "approval.db") }

func TestDecisions(t *testing.T) {
	t.Parallel()
	s := serve(t, database(t), time.Hour, 24*time.Hour)
	path := s.request("", "a chair")
	code, out := s.call("POST", path+"/decision", "k1", `{"approve": true, "by": "ann", "comment": "sit well"}`)
	require.Equal(t, http.StatusOK, code, "%v", out)
	require.Equal(t, "approved", out["status"])
	require.Equal(t, "sit well", out["outcome"].(map[string]any)["comment"])

	code, again := s.call("POST", path+"/decision", "k1", `{"approve": true, "by": "ann", "comment": "sit well"}`)
	require.Equal(t, http.StatusOK, code, "the same decision again: %v", again)
	require.Equal(t, out, again)
	code, out = s.call("POST", path+"/decision", "", `{"approve": false, "by": "bob"}`)
	require.Equal(t, http.StatusConflict, code)
	require.Equal(t, "the request is approved, by ann", out["error"])

	path = s.request("", "a throne")
	code, out = s.call("POST", path+"/decision", "", `{"approve": false, "by": "ann"}`)
	require.Equal(t, http.StatusOK, code, "%v", out)
	require.Equal(t, "rejected", out["status"])
}

func TestOneOfManyDecisionsCounts(t *testing.T) {
	t.Parallel()
	s := serve(t, database(t), time.Hour, 24*time.Hour)
	path := s.request("", "a chair")
	var mu sync.Mutex
	var all sync.WaitGroup
	codes := map[int]int{}
	for range 8 {
		all.Go(func() {
			code, _ := s.call("POST", path+"/decision", "", `{"approve": true, "by": "ann"}`)
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusConflict: 7}, codes)
}

func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := serve(t, db, time.Second, 24*time.Hour)
	path := s.request("order-7", "a chair")
	s.until(path, "reminded", func(st map[string]any) bool { return st["reminders"].(float64) >= 1 })
	s.kill()

	s = serve(t, db, time.Second, 24*time.Hour)
	require.Equal(t, path, s.request("order-7", "a chair"), "the same request again")
	st := s.until(path, "reminded by the second server", func(st map[string]any) bool { return st["reminders"].(float64) >= 2 })
	require.Equal(t, "waiting", st["status"])
	s.kill()

	s = serve(t, db, time.Second, 24*time.Hour)
	require.Zero(t, s.mails("please decide"), "the approver was asked again")
	code, out := s.call("POST", path+"/decision", "k", `{"approve": true, "by": "ann"}`)
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, code, "%v", out)
	s.until(path, "approved", func(st map[string]any) bool { return st["status"] == "approved" })
	s.kill()

	s = serve(t, db, time.Second, 24*time.Hour)
	code, out = s.call("POST", path+"/decision", "k", `{"approve": true, "by": "ann"}`)
	require.Equal(t, http.StatusOK, code, "the same decision again: %v", out)
}

func TestTimesOut(t *testing.T) {
	t.Parallel()
	s := serve(t, database(t), 200*time.Millisecond, 700*time.Millisecond)
	path := s.request("", "a chair")
	st := s.until(path, "timed out", func(st map[string]any) bool { return st["status"] == "timed out" })
	require.EqualValues(t, 3, st["reminders"])
	code, out := s.call("POST", path+"/decision", "", `{"approve": true, "by": "ann"}`)
	require.Equal(t, http.StatusConflict, code)
	require.Equal(t, "the request has ended: timed out", out["error"])
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, database(t), time.Hour, 24*time.Hour)
	path := s.request("", "a chair")
	for _, tt := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/requests", `{"title": "a chair"}`, http.StatusBadRequest, "approver"},
		{"POST", "/requests", `chair`, http.StatusBadRequest, "title"},
		{"POST", path + "/decision", `{"by": "ann"}`, http.StatusBadRequest, "approve"},
		{"GET", "/requests/7", "", http.StatusNotFound, `no request "7"`},
		{"GET", "/requests/" + store.NewID().String(), "", http.StatusNotFound, "no such request"},
		{"POST", "/requests/" + store.NewID().String() + "/decision", `{"approve": true, "by": "ann"}`, http.StatusNotFound, "no such request"},
	} {
		code, out := s.call(tt.method, tt.path, "", tt.body)
		require.Equal(t, tt.code, code, "%s %s %s: %v", tt.method, tt.path, tt.body, out)
		require.Contains(t, out["error"], tt.says)
	}
}
