package sqldtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// envParent makes this binary start a server, report it, and wait to be killed.
const envParent = "PAWL_SQLDTEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(envParent) != "" {
		bin, err := binary()
		if err == nil {
			var s *Server
			if s, err = launch(bin, nil); err == nil {
				fmt.Println(s.dir, s.user)
				select {}
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Run(m)
}

// query runs a statement and returns the status and the first value of its answer.
func query(t *testing.T, s *Server, url, token, sql string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	body := fmt.Sprintf(`{"baton":null,"requests":[{"type":"execute","stmt":{"sql":%q}},{"type":"close"}]}`, sql)
	req, err := http.NewRequest("POST", url+"/v3/pipeline", strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	var answer struct {
		Results []struct {
			Error    struct{ Message string }
			Response struct {
				Result struct{ Rows [][]struct{ Value string } }
			}
		}
	}
	if res.StatusCode != http.StatusOK {
		return res.StatusCode, string(text)
	}
	require.NoError(t, json.Unmarshal(text, &answer), string(text))
	require.Empty(t, answer.Results[0].Error.Message)
	if rows := answer.Results[0].Response.Result.Rows; len(rows) > 0 {
		return res.StatusCode, rows[0][0].Value
	}
	return res.StatusCode, ""
}

func ask(t *testing.T, s *Server, url, sql string) string {
	t.Helper()
	status, value := query(t, s, url, "", sql)
	require.Equal(t, http.StatusOK, status, value)
	return value
}

func TestNamespaceIsOfOneTest(t *testing.T) {
	s := Shared(t)
	require.Same(t, s, Shared(t))
	var url string
	t.Run("test", func(t *testing.T) {
		url = Namespace(t)
		ask(t, s, url, "CREATE TABLE t (n)")
		require.Equal(t, "0", ask(t, s, Namespace(t), "SELECT count(*) FROM sqlite_schema"))
	})
	status, _ := query(t, s, url, "", "SELECT 1")
	require.Equal(t, http.StatusNotFound, status, "the namespace was not deleted")
	for _, stop := range []func() error{s.Stop, s.Kill, s.Restart} {
		require.Error(t, stop(), "a test can stop the server of all")
	}
}

func TestRestartKeepsAddressAndData(t *testing.T) {
	s := Start(t)
	addr, url := s.Addr(), s.Namespace(t)
	ask(t, s, url, "CREATE TABLE t (n)")
	steps := []struct {
		name string
		do   func() error
	}{
		{"restart", s.Restart},
		{"stopped", func() error {
			require.NoError(t, s.Stop())
			require.NoError(t, s.Stop(), "stopped twice")
			_, err := net.Dial("tcp", addr)
			require.Error(t, err, "a stopped server answers")
			return s.Restart()
		}},
		{"killed", func() error {
			require.NoError(t, s.Kill())
			return s.Restart()
		}},
	}
	for i, step := range steps {
		ask(t, s, url, "INSERT INTO t VALUES (1)")
		require.NoError(t, step.do(), step.name)
		require.Equal(t, addr, s.Addr(), step.name)
		require.Equal(t, strconv.Itoa(i+1), ask(t, s, url, "SELECT count(*) FROM t"), step.name)
	}
}

func TestTokens(t *testing.T) {
	s := Start(t, Auth())
	url := s.Namespace(t)
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"none":      {"", http.StatusUnauthorized},
		"valid":     {s.Token(time.Now().Add(time.Hour)), http.StatusOK},
		"expired":   {s.Token(time.Now().Add(-time.Hour)), http.StatusUnauthorized},
		"of others": {Start(t, Auth()).Token(time.Now().Add(time.Hour)), http.StatusUnauthorized},
	} {
		status, said := query(t, s, url, c.token, "SELECT 1")
		require.Equal(t, c.want, status, "%s: %s", name, said)
	}
}

func TestReplicaFollows(t *testing.T) {
	s := Start(t)
	replica, url := Start(t, ReplicaOf(s)), s.Namespace(t)
	ask(t, s, url, "CREATE TABLE t (n)")
	ask(t, replica, url, "INSERT INTO t VALUES (7)")
	require.Equal(t, "7", ask(t, s, url, "SELECT n FROM t"), "the replica has not passed a write on")
}

func TestServerThatEndsByItselfIsReported(t *testing.T) {
	bin, err := binary()
	if err != nil {
		giveUp(t, err)
	}
	s, err := launch(bin, nil)
	require.NoError(t, err)
	s.proc.Kill()
	require.ErrorContains(t, s.discard(), "ended by itself")
	require.NoDirExists(t, s.dir)
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	bin, err := binary()
	if err != nil {
		giveUp(t, err)
	}
	_, err = launch(bin, []Option{Flag("--max-log-size", "many")})
	require.ErrorContains(t, err, "invalid digit found in string")
}

// The signal that kills the parent leaves it no chance to stop anything.
func TestServerDiesWithItsProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process that its parent has died")
	}
	if _, err := binary(); err != nil {
		giveUp(t, err)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), envParent+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // "signal: killed"
	require.NoError(t, err, "the parent has not said where its server is")

	dir, port, _ := strings.Cut(strings.TrimSpace(line), " ")
	require.Equal(t, "pawl_sqld_", strings.TrimRight(filepath.Base(dir), "0123456789"))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, testserver.StopTimeout, testserver.Pause, "the server has outlived the process that started it")
}

func TestNPMPackageIsPinned(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	require.NoError(t, json.Unmarshal(npmLock, &lock))
	require.Contains(t, lock.Packages, "node_modules/"+npmName)
	for name, p := range lock.Packages {
		if name != "" {
			require.NotEmpty(t, p.Version, "%s has no version", name)
			require.NotEmpty(t, p.Integrity, "%s has no hash", name)
		}
		require.Empty(t, p.Resolved, "%s has an address", name)
	}
}
