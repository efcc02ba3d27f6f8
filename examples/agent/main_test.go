package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test's program is the example, too, so that a real process can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("AGENT_SERVES") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// served is a server in a process of its own.
type served struct {
	t   *testing.T
	url string
	cmd *exec.Cmd
}

func serve(t *testing.T, db, model string) *served {
	t.Helper()
	s := &served{t: t, cmd: exec.Command(os.Args[0], "-addr=127.0.0.1:0", "-db="+db, "-model="+model)}
	s.cmd.Env = append(os.Environ(), "AGENT_SERVES=1")
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.cmd.Stderr = os.Stderr
	require.NoError(t, s.cmd.Start())
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the server ended before it listened")
	s.url, _ = strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	return s
}

// kill is a kill -9.
func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *served) call(method, path, body string) (int, map[string]any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	out := map[string]any{}
	if len(data) > 0 {
		require.NoError(s.t, json.Unmarshal(data, &out), "%s", data)
	}
	return res.StatusCode, out
}

func (s *served) ask(question string) string {
	s.t.Helper()
	code, out := s.call("POST", "/questions", fmt.Sprintf(`{"question": %q}`, question))
	require.Equal(s.t, http.StatusCreated, code, "%v", out)
	return "/questions/" + out["id"].(string)
}

// event is a server-sent event.
type event struct{ name, id, data string }

// follow reads events behind one of them, until the stream ends or enough is true.
func (s *served) follow(path, after string, enough func(event) bool) (all []event) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+path+"/words", nil)
	require.NoError(s.t, err)
	req.Header.Set("Last-Event-ID", after)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	var e event
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			all = append(all, e)
			if enough(e) {
				return all
			}
			e = event{}
		}
	}
	return all
}

// until looks at a question until it is in a state, of its run or of its answer.
func (s *served) until(path, state string) map[string]any {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		code, out := s.call("GET", path, "")
		require.Equal(s.t, http.StatusOK, code, "%v", out)
		if out["status"] == state || out["progress"].(map[string]any)["state"] == state {
			return out
		}
		select {
		case <-late:
			require.Fail(s.t, "it did not become "+state, "%v", out)
		case <-tick.C:
		}
	}
}

// models is a model whose first answer to a plan stops after three words, until its caller is gone.
type models struct {
	mu      sync.Mutex
	calls   map[string]int
	stopped chan struct{}
}

func (m *models) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ Prompt string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	kind, _, _ := strings.Cut(in.Prompt, " ")
	m.mu.Lock()
	m.calls[kind]++
	first := m.calls[kind] == 1
	m.mu.Unlock()
	for i, word := range append(strings.Fields("one two three four of "+kind), "") {
		if kind == "Answer" && first && i == 3 {
			close(m.stopped)
			<-r.Context().Done()
			return
		}
		_, _ = fmt.Fprintf(w, "%q\n", word)
		_ = http.NewResponseController(w).Flush()
	}
}

func database(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "agent.db") }

func TestAnswerSurvivesACrash(t *testing.T) {
	t.Parallel()
	m := &models{calls: map[string]int{}, stopped: make(chan struct{})}
	provider := httptest.NewServer(m)
	t.Cleanup(provider.Close)
	db := database(t)
	s := serve(t, db, provider.URL)
	path := s.ask("what is a pawl?")
	out := s.until(path, "waiting")
	require.Equal(t, "one two three four of Plan", out["progress"].(map[string]any)["plan"])
	code, out := s.call("POST", path+"/approval", `{"approve": true}`)
	require.Equal(t, http.StatusBadRequest, code, "%v", out)
	require.Contains(t, out["error"], "say who you are")
	code, out = s.call("POST", path+"/approval", `{"approve": true, "by": "ann"}`)
	require.Equal(t, http.StatusOK, code, "%v", out)
	require.Equal(t, "answering", out["state"])

	<-m.stopped
	seen := s.follow(path, "", func(e event) bool { return e.data == `"of"` })
	plan := s.follow(path, seen[len(seen)-1].id, func(e event) bool { return e.data == `"three"` })
	last := plan[len(plan)-1]
	s.kill()
	s = serve(t, db, provider.URL)
	rest := s.follow(path, last.id, func(event) bool { return false })
	var said []string
	for _, e := range rest {
		said = append(said, strings.TrimSpace(e.name+" "+e.data))
	}
	require.Equal(t, []string{"reset answer", `"one"`, `"two"`, `"three"`, `"four"`, `"of"`, `"Answer"`, "end"}, said)
	require.Equal(t, "one two three four of Answer", s.until(path, "completed")["answer"])
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Equal(t, map[string]int{"Plan": 1, "Answer": 2}, m.calls, "calls of the model")
	code, out = s.call("POST", path+"/approval", `{"approve": false, "by": "bob"}`)
	require.Equal(t, http.StatusConflict, code, "%v", out)
}

func TestRejectedAndStopped(t *testing.T) {
	t.Parallel()
	s := serve(t, database(t), "")
	path := s.ask("why?")
	s.until(path, "waiting")
	code, out := s.call("POST", path+"/approval", `{"approve": false, "by": "bob"}`)
	require.Equal(t, http.StatusOK, code, "%v", out)
	require.Equal(t, "rejected", out["state"])
	out = s.until(path, "completed")
	require.Equal(t, "bob", out["progress"].(map[string]any)["by"])

	path = s.ask("and then?")
	s.until(path, "waiting")
	code, _ = s.call("DELETE", path, "")
	require.Equal(t, http.StatusNoContent, code)
	s.until(path, "canceled")
	code, out = s.call("POST", "/questions", `{"question": ""}`)
	require.Equal(t, http.StatusBadRequest, code, "%v", out)
	code, out = s.call("GET", "/questions/none", "")
	require.Equal(t, http.StatusNotFound, code, "%v", out)
}
