package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs sends the requests of docs/api.md in their order; each must succeed.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/api.md")
	require.NoError(t, err)
	s := newSite(t)
	s.work()
	srv := httptest.NewServer(http.StripPrefix("/api", s.h))
	t.Cleanup(srv.Close)
	run, signal, n := "", "", 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.NewReplacer("$API", srv.URL+"/api", "$RUN", run, "$SIGNAL", signal).Replace(strings.TrimSpace(line))
			id := s.curl(line)
			switch n++; {
			case id == "" || !strings.Contains(line, "POST"):
			case strings.Contains(line, "/v1/runs "):
				run = id
			case strings.Contains(line, "/signals "):
				signal = id
			}
		}
	}
	require.Greater(t, n, 25)
}

var words = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)

// curl does what curl does with a line, as far as the page needs it, and returns the id in the answer.
func (s *site) curl(line string) (id string) {
	s.t.Helper()
	list := words.FindAllString(line, -1)
	require.Equal(s.t, "curl", list[0])
	method, url, body := http.MethodGet, "", ""
	header := http.Header{}
	for i := 1; i < len(list); i++ {
		value := func() string {
			i++
			return strings.Trim(list[i], `'`)
		}
		switch list[i] {
		case "-X":
			method = value()
		case "-d":
			body = value()
		case "-H":
			name, v, _ := strings.Cut(value(), ": ")
			header.Set(name, v)
		default:
			url = strings.Trim(list[i], `"`)
		}
	}
	req, err := http.NewRequestWithContext(s.ctx, method, url, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	var answer struct{ ID, Detail string }
	if strings.HasSuffix(resp.Header.Get("Content-Type"), "json") {
		require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&answer))
	}
	require.Less(s.t, resp.StatusCode, 300, "%s: %s", line, answer.Detail)
	return answer.ID
}
