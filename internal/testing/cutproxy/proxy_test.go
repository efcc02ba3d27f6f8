package cutproxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shouter answers each line in capitals, and records what it received.
type shouter struct {
	addr string
	mu   sync.Mutex
	said []string
	ends chan error // how each of its connections ended; nil: by the end of the stream
}

func startShouter(t *testing.T) *shouter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &shouter{addr: l.Addr().String(), ends: make(chan error, 10)}
	var tasks sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		tasks.Wait()
	})
	tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() {
				defer c.Close()
				lines := bufio.NewReader(c)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						if errors.Is(err, io.EOF) {
							err = nil
						}
						s.ends <- err
						return
					}
					s.mu.Lock()
					s.said = append(s.said, strings.TrimSpace(line))
					s.mu.Unlock()
					_, _ = io.WriteString(c, strings.ToUpper(line))
				}
			})
		}
	})
	return s
}

func (s *shouter) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.said...)
}

func start(t *testing.T, target string, hook func() Hook) *Proxy {
	p, err := New(target, hook)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// caller is a client of the shouter.
type caller struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *caller {
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

func (c *caller) say(line string) {
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

func (c *caller) ask(line string) (string, error) {
	c.say(line)
	return c.lines.ReadString('\n')
}

// knock connects and returns the outcome.
func knock(p *Proxy) error {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return err // the reset may arrive this early
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	return err
}

func TestPassing(t *testing.T) {
	t.Parallel()
	s := startShouter(t)
	p := start(t, s.addr, nil)
	c := dial(t, p)
	for _, line := range []string{"one", strings.Repeat("long", 100_000)} {
		answer, err := c.ask(line)
		require.NoError(t, err)
		require.Equal(t, strings.ToUpper(line)+"\n", answer)
	}
	assert.Len(t, p.Ports(), 1)
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	require.NoError(t, <-s.ends, "the end of the stream arrives as such")
	_, err := c.lines.ReadString('\n')
	assert.ErrorIs(t, err, io.EOF, "and the server's end, too")
}

func TestCutOnDemand(t *testing.T) {
	t.Parallel()
	s := startShouter(t)
	p := start(t, s.addr, nil)
	c := dial(t, p)
	_, err := c.ask("one")
	require.NoError(t, err)
	assert.Equal(t, 1, p.Cut())
	_, err = c.lines.ReadString('\n')
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.NoError(t, <-s.ends)
	assert.Empty(t, p.Ports())
	answer, err := dial(t, p).ask("two")
	require.NoError(t, err)
	assert.Equal(t, "TWO\n", answer)
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	s := startShouter(t)
	p := start(t, s.addr, nil)
	p.Refuse(true)
	assert.ErrorIs(t, knock(p), syscall.ECONNRESET)
	p.Refuse(false)
	_, err := dial(t, p).ask("one")
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, s.heard())
}

func TestServerThatIsAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := start(t, l.Addr().String(), nil)
	require.NoError(t, l.Close())
	assert.ErrorIs(t, knock(p), syscall.ECONNRESET)
}

// A connection that hangs is silent until the client leaves; then the server is told.
func TestHang(t *testing.T) {
	t.Parallel()
	s := startShouter(t)
	p := start(t, s.addr, nil)
	c := dial(t, p)
	_, err := c.ask("one")
	require.NoError(t, err)
	assert.Equal(t, 1, p.Hang())
	assert.Zero(t, p.Hang(), "it hangs already")
	c.say("two")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.lines.ReadString('\n')
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)
	assert.Len(t, p.Ports(), 1)
	require.NoError(t, c.Close())
	require.NoError(t, <-s.ends)
	assert.Equal(t, []string{"one"}, s.heard())
}

// The client of a connection that hangs does not see the server leave.
func TestHangHidesTheServersEnd(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p := start(t, l.Addr().String(), nil)
	c := dial(t, p)
	server, err := l.Accept()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.Hang() == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, server.Close())
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.lines.ReadString('\n')
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)
}

func TestDelay(t *testing.T) {
	t.Parallel()
	s := startShouter(t)
	p := start(t, s.addr, nil)
	p.Delay(20 * time.Millisecond)
	c, began := dial(t, p), time.Now()
	_, err := c.ask("one")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(began), 40*time.Millisecond, "there and back")
}

func newline(tail []byte) bool { return bytes.HasSuffix(tail, []byte("\n")) }

// The verdict on a request depends on its text.
func TestAnswers(t *testing.T) {
	t.Parallel()
	fates := map[string]Verdict{"lost": Drop, "cut": Cut, "behind": CutBehind, "hang": Hang}
	for fate, arrives := range map[string]bool{"lost": true, "cut": false, "behind": true} {
		t.Run(fate, func(t *testing.T) {
			t.Parallel()
			s := startShouter(t)
			p := start(t, s.addr, func() Hook {
				return Answers(func(request []byte) Verdict { return fates[strings.TrimSpace(string(request))] }, newline)
			})
			c := dial(t, p)
			answer, err := c.ask("one")
			require.NoError(t, err)
			require.Equal(t, "ONE\n", answer)
			_, err = c.ask(fate)
			require.ErrorIs(t, err, syscall.ECONNRESET)
			if fate == "lost" {
				assert.Equal(t, []string{"one", fate}, s.heard(), "it was done before the client saw anything")
			}
			require.NoError(t, <-s.ends, "the server sees the end of the stream, behind all that arrived")
			want := []string{"one"}
			if arrives {
				want = append(want, fate)
			}
			assert.Equal(t, want, s.heard())
		})
	}
	t.Run("hang", func(t *testing.T) {
		t.Parallel()
		s := startShouter(t)
		p := start(t, s.addr, func() Hook { return Answers(func([]byte) Verdict { return Hang }, newline) })
		c := dial(t, p)
		c.say("one")
		require.NoError(t, c.Close())
		require.NoError(t, <-s.ends)
		assert.Empty(t, s.heard())
	})
}

// An answer in several chunks is complete with its last chunk.
func TestAnswerInPieces(t *testing.T) {
	t.Parallel()
	h := Answers(func([]byte) Verdict { return Drop }, func(tail []byte) bool { return bytes.HasSuffix(tail, []byte("end")) })
	assert.Equal(t, Pass, h(Client, []byte("a")))
	assert.Equal(t, Pass, h(Client, []byte("b")), "the rest of the request")
	assert.Equal(t, Drop, h(Server, bytes.Repeat([]byte("x"), 1000)))
	assert.Equal(t, Drop, h(Server, []byte("e")))
	assert.Equal(t, Cut, h(Server, []byte("nd")))
}

// The proxy does not know its protocol: a POST over HTTP is executed, and its answer is lost.
func TestHTTP(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = io.WriteString(w, "done")
	}))
	defer server.Close()
	first := true
	p := start(t, server.Listener.Addr().String(), func() Hook {
		lose := first // connections are sequential here
		first = false
		return Answers(func([]byte) Verdict {
			if lose {
				return Drop
			}
			return Pass
		}, func(tail []byte) bool { return bytes.HasSuffix(tail, []byte("done")) })
	})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	_, err := client.Post("http://"+p.Addr(), "text/plain", strings.NewReader("x"))
	require.Error(t, err)
	assert.EqualValues(t, 1, served.Load())
	answer, err := client.Post("http://"+p.Addr(), "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "done", string(text))
	assert.EqualValues(t, 2, served.Load())
}
