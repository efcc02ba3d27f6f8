package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
)

// served runs the command serve and returns its address. It is interrupted after the test.
func served(t *testing.T, s *shell, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	s.ctx, s.out = ctx, in
	ended := make(chan result, 1)
	go func() {
		r := s.run(append([]string{"serve", "--json", "--listen", "127.0.0.1:0"}, args...)...)
		_ = in.CloseWithError(errors.New(r.err))
		ended <- r
	}()
	t.Cleanup(func() {
		stop()
		r := <-ended
		require.Equal(t, exitOK, r.code, r.err)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	var at struct{ URL string }
	require.NoError(t, json.Unmarshal([]byte(line), &at))
	return at.URL
}

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(token+"\n"), 0o600))
	return path
}

func TestServeAnswersOnLoopback(t *testing.T) {
	s := fixture(t)
	url := served(t, s, "--mcp")
	c, err := client.New(url + "api/")
	require.NoError(t, err)
	page, err := c.ListRuns(t.Context(), wire.ListRuns{Limit: 1})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	run, err := c.GetRun(t.Context(), page.Runs[0].ID, wire.GetRun{})
	require.NoError(t, err)
	require.Equal(t, page.Runs[0].ID, run.ID)
	doc, err := c.GetOpenAPI(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(doc), `"openapi": "3.1.0"`)

	resp, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	session, err := sdk.NewClient(&sdk.Implementation{Name: "assistant"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "mcp", DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "list_queues", Arguments: map[string]any{}})
	require.NoError(t, err)
	require.False(t, res.IsError)
	require.NoError(t, session.Close())
}

func TestServeRefusesAHostThatOnlyPointsHere(t *testing.T) {
	url := served(t, fixture(t))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"api/v1/runs", nil)
	require.NoError(t, err)
	req.Host = "evil.example.com"
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

func TestServeWithATokenAnswersOnlyWithIt(t *testing.T) {
	token := "a long secret token"
	url := served(t, fixture(t), "--mcp", "--token-file", tokenFile(t, token))
	for _, path := range []string{"api/v1/runs", "api/openapi.json", "api/metrics", "mcp"} {
		resp, err := http.Get(url + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, path)
	}
	c, err := client.New(url+"api", client.Token(token))
	require.NoError(t, err)
	info, err := c.GetInfo(t.Context(), wire.In{})
	require.NoError(t, err)
	require.Equal(t, "token@127.0.0.1", info.Actor)
}

func TestServeReadOnlyChangesNothing(t *testing.T) {
	url := served(t, fixture(t), "--read-only")
	c, err := client.New(url + "api")
	require.NoError(t, err)
	_, err = c.PauseQueue(t.Context(), "mail")
	var p *wire.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, wire.CodeForbidden, p.Code)
	require.Contains(t, p.Detail, "--read-only")
	_, err = c.ListQueues(t.Context(), wire.In{})
	require.NoError(t, err)
}

func TestServeRefusesToBeReachedWithoutAToken(t *testing.T) {
	s := fixture(t)
	for args, want := range map[string]string{
		"--listen :0":                           "is not a loopback address",
		"--listen 0.0.0.0:0":                    "is not a loopback address",
		"--listen [::]:0":                       "is not a loopback address",
		"--listen nonsense":                     "--listen",
		"--token-file " + tokenFile(t, "short"): "at least 16",
		"--token-file missing":                  "--token-file",
		"--trust-origin nonsense":               "--trust-origin",
	} {
		r := s.run(append([]string{"serve"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, r.code, args)
		require.Contains(t, r.err, want, args)
	}
}
