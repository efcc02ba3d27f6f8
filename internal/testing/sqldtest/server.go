package sqldtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// Server is a sqld server. Its methods may be called concurrently.
type Server struct {
	bin    string
	config config
	shared bool // no test may stop it
	dir    string

	mu                sync.Mutex
	user, admin, grpc int // ports; 0 before the first start
	proc              *testserver.Process
	asked             bool // the end of proc was requested
}

type config struct {
	args    []string
	key     ed25519.PrivateKey // signs tokens; nil: none are required
	primary *Server
}

// An Option changes a server that Start makes.
type Option func(*config)

// Flag gives the server a further command line argument.
func Flag(args ...string) Option { return func(c *config) { c.args = append(c.args, args...) } }

// Auth makes the server require tokens, which Token makes.
func Auth() Option {
	return func(c *config) {
		var err error
		if _, c.key, err = ed25519.GenerateKey(nil); err != nil {
			panic(err)
		}
	}
}

// ReplicaOf makes the server a read replica of another.
func ReplicaOf(primary *Server) Option { return func(c *config) { c.primary = primary } }

// Start makes a new server for this test only. The server is discarded after the test. If the
// server has ended by itself by then, the test fails.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	bin, err := binary()
	if err != nil {
		giveUp(t, err)
	}
	s, err := launch(bin, opts)
	if err != nil {
		giveUp(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of sqld's log:\n%s", testserver.Tail(s.logFile(), 0))
		}
		if err := s.discard(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// URL returns the URL of a database of the server. The host name selects the database; it cannot be
// resolved, so connections must be made with Dial.
func URL(namespace string) string { return fmt.Sprintf("http://%s.sqld.test", namespace) }

// Dial connects to the server, whatever the address.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", s.Addr())
}

// Addr is where the server listens: "127.0.0.1:port". It stays the same when the
// server is started again.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.user) }

// Token returns a token, signed with the server's key, that is valid until then.
func (s *Server) Token(until time.Time) string { return s.token(until, "rw") }

// ReadToken returns a token that only allows reads.
func (s *Server) ReadToken(until time.Time) string { return s.token(until, "ro") }

func (s *Server) token(until time.Time, access string) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]string{"alg": "EdDSA", "typ": "JWT"}) + "." + part(map[string]any{"a": access, "exp": until.Unix()})
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.config.key, []byte(text)))
}

// Namespace creates an empty database in the server and returns its URL. It is deleted after the
// test, if the server runs then. A replica needs none of its own, because it has the databases of
// its primary.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	name := uniqueName()
	s.NamespaceNamed(t, name)
	return URL(name)
}

// NamespaceNamed is Namespace with a name that the test chooses. The server uses the first label of
// a request's host as the name.
func (s *Server) NamespaceNamed(t testing.TB, name string) {
	t.Helper()
	if err := s.call("POST", "/v1/namespaces/"+name+"/create", []byte("{}")); err != nil {
		t.Fatal("sqldtest: making a namespace:", err)
	}
	t.Cleanup(func() {
		if s.running() {
			if err := s.call("DELETE", "/v1/namespaces/"+name, nil); err != nil {
				t.Error("sqldtest: deleting the test's namespace:", err)
			}
		}
	})
}

// Stop stops the server and returns when it has ended. If the server is already stopped, Stop does
// nothing.
func (s *Server) Stop() error { return s.stop(syscall.SIGTERM) }

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() error { return s.stop(syscall.SIGKILL) }

// Restart starts the server again, with the same ports and data; if it runs, it is stopped first.
// Restart returns when the server answers.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

func launch(bin string, opts []Option) (_ *Server, err error) {
	s := &Server{bin: bin}
	for _, opt := range opts {
		opt(&s.config)
	}
	if s.dir, err = os.MkdirTemp("", "pawl_sqld_"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// start starts the server, which is stopped, and waits until it answers. The
// first start chooses the ports. The caller holds mu.
func (s *Server) start() error {
	deadline := time.Now().Add(testserver.StartTimeout)
	choose := s.user == 0
	for {
		if choose {
			for _, port := range []*int{&s.user, &s.admin, &s.grpc} {
				var err error
				if *port, err = testserver.FreePort(); err != nil {
					return err
				}
			}
		}
		begin := testserver.Size(s.logFile())
		err := s.try(deadline)
		if err == nil {
			return nil
		}
		said := testserver.Tail(s.logFile(), begin)
		if !strings.Contains(said, "Address already in use") || time.Now().After(deadline) {
			return fmt.Errorf("sqldtest: sqld on port %d: %w; its log ends:\n%s", s.user, err, said)
		}
		if !choose {
			time.Sleep(testserver.Pause) // until the port's owner is gone
		}
	}
}

// try starts the server once. When it returns an error, nothing runs.
func (s *Server) try(deadline time.Time) error {
	at := func(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
	args := []string{
		"--db-path", filepath.Join(s.dir, "data"), "--http-listen-addr", at(s.user), "--admin-listen-addr", at(s.admin),
		"--enable-namespaces", "--no-welcome", "--disable-metrics", "--shutdown-timeout", "2",
		// A checkpoint with many open connections has blocked the write lock permanently.
		"--checkpoint-interval-s", "86400",
	}
	if p := s.config.primary; p != nil {
		args = append(args, "--primary-grpc-url", "http://"+at(p.grpc))
	} else {
		args = append(args, "--grpc-listen-addr", at(s.grpc))
	}
	cmd := exec.Command(s.bin, append(args, s.config.args...)...)
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, s.dir
	if s.config.key != nil {
		public := s.config.key.Public().(ed25519.PublicKey)
		cmd.Env = append(cmd.Env, "SQLD_AUTH_JWT_KEY="+base64.RawURLEncoding.EncodeToString(public))
	}
	p, err := testserver.Spawn(cmd, nil, syscall.SIGKILL, s.logFile())
	if err != nil {
		return err
	}
	if err := p.AwaitReady(deadline, s.ping); err != nil {
		p.Kill()
		return err
	}
	s.proc, s.asked = p, false
	return nil
}

// ping asks both of the server's ports.
func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, url := range []string{"http://" + s.Addr() + "/health", fmt.Sprintf("http://127.0.0.1:%d/v1/namespaces/default/config", s.admin)} {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		res, err := direct.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
	}
	return nil
}

// direct uses no proxy and keeps no connection.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testserver.StartTimeout}

// call calls the server's admin interface.
func (s *Server) call(method, path string, body []byte) error {
	req, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", s.admin, path), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := direct.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, said)
	}
	return nil
}

// Stats are the server's counts for a database, by which its owner is billed.
type Stats struct {
	RowsRead    int64 `json:"rows_read_count"`
	RowsWritten int64 `json:"rows_written_count"`
}

// Stats returns what the server has counted of the database of a URL that Namespace
// has returned.
func (s *Server) Stats(t testing.TB, location string) (stats Stats) {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(u.Host, ".")
	res, err := direct.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/namespaces/%s/stats", s.admin, name))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&stats); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal("sqldtest: statistics:", res.Status, err)
	}
	return stats
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.proc.Ended()
}

func (s *Server) stop(sig syscall.Signal) error {
	if s.shared {
		return errors.New("sqldtest: the shared server cannot be stopped; use Start")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	return s.proc.Stop(sig)
}

// discard ends the server and removes what it has written.
func (s *Server) discard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.proc.Ended() && !s.asked {
		errs = append(errs, fmt.Errorf("sqldtest: sqld ended by itself (%v); its log ends:\n%s", s.proc.Cmd.ProcessState, testserver.Tail(s.logFile(), 0)))
	}
	s.asked = true
	return errors.Join(append(errs, s.proc.Stop(syscall.SIGKILL), os.RemoveAll(s.dir))...)
}

// Copy copies the server's data directory, as a backup does, while the server is stopped. The
// function that it returns replaces the data with the copy, also while the server is stopped, once.
func (s *Server) Copy(t testing.TB) (back func()) {
	t.Helper()
	data, kept := filepath.Join(s.dir, "data"), filepath.Join(t.TempDir(), "data")
	stopped := func(do func() error) {
		t.Helper()
		err := s.Stop()
		if err == nil {
			err = errors.Join(do(), s.Restart())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stopped(func() error { return os.CopyFS(kept, os.DirFS(data)) })
	return func() {
		t.Helper()
		stopped(func() error { return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(kept))) })
	}
}
