package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// browser is a running Chromium.
type browser struct {
	dir  string
	proc *testserver.Process
	root context.Context // of the first tab, which keeps the connection; others derive from it
	end  context.CancelFunc
}

var shared = sync.OnceValues(func() (*browser, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	b, err := launch(path)
	if err != nil {
		return nil, err
	}
	atEnd = b.discard
	return b, nil
})

// launch starts Chromium, and returns when it answers. Chromium itself chooses a free port and writes
// it to a file.
func launch(path string) (_ *browser, err error) {
	b := &browser{}
	if b.dir, err = os.MkdirTemp("", "pawl_browser_"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.discard())
		}
	}()
	args := []string{
		"--headless=new", "--remote-debugging-address=127.0.0.1", "--remote-debugging-port=0", "--user-data-dir=" + filepath.Join(b.dir, "profile"),
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-extensions", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--no-proxy-server",
		"--force-color-profile=srgb", "--font-render-hinting=none", "--lang=en-US",
	}
	if os.Geteuid() == 0 { // Chromium's sandbox refuses to run as root; it only sees the tests' own pages
		args = append(args, "--no-sandbox")
	}
	cmd := exec.Command(path, append(args, "about:blank")...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "TZ=UTC", "LC_ALL=C.UTF-8"}
	cmd.Dir = b.dir
	if b.proc, err = testserver.Spawn(cmd, nil, syscall.SIGKILL, b.logFile()); err != nil {
		return nil, err
	}
	var address string
	find := func() (err error) {
		address, err = readAddress(filepath.Join(b.dir, "profile", "DevToolsActivePort"))
		return err
	}
	if err := b.proc.AwaitReady(time.Now().Add(testserver.StartTimeout), find); err != nil {
		return nil, fmt.Errorf("browsertest: Chromium: %w; its log ends:\n%s", err, testserver.Tail(b.logFile(), 0))
	}
	alloc, endAlloc := remote.NewAllocator(context.Background(), address, remote.NoModifyURL)
	root, endRoot := chromedp.NewContext(alloc)
	b.root, b.end = root, func() { endRoot(); endAlloc() }
	if err := chromedp.Do(root); err != nil {
		return nil, fmt.Errorf("browsertest: Chromium: %w; its log ends:\n%s", err, testserver.Tail(b.logFile(), 0))
	}
	return b, nil
}

// readAddress reads where Chromium listens: a port, and the path of its first socket.
func readAddress(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	port, path, ok := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if !ok {
		return "", errors.New("the port is not written yet")
	}
	return "ws://127.0.0.1:" + port + path, nil
}

func (b *browser) logFile() string { return filepath.Join(b.dir, "log") }

// discard ends the browser and removes what it has written.
func (b *browser) discard() error {
	if b.end != nil {
		b.end()
	}
	if b.proc != nil {
		b.proc.Kill()
	}
	for range 50 { // its helpers end by themselves, and write until then
		if os.RemoveAll(b.dir) == nil {
			return nil
		}
		time.Sleep(testserver.Pause)
	}
	return os.RemoveAll(b.dir)
}
