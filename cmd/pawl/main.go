// Pawl is the command line of the durable workflow engine: it shows runs, steers
// them, and looks for what is wrong. docs/cli.md has all of it.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	level := new(slog.LevelVar)
	level.Set(slog.LevelError)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	code := run(ctx, world{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		getenv: os.Getenv, who: who, now: time.Now, zone: time.Local, open: openURL,
		verbose: func() { level.Set(slog.LevelDebug) },
		asks:    term.IsTerminal(int(os.Stdin.Fd())),
		size: func() (width, height int, ok bool) {
			width, height, err := term.GetSize(int(os.Stdout.Fd()))
			return width, height, err == nil
		},
		raw: func() (restore func(), err error) {
			old, err := term.MakeRaw(int(os.Stdin.Fd()))
			return func() { _ = term.Restore(int(os.Stdin.Fd()), old) }, err
		},
	}, os.Args[1:])
	stop()
	os.Exit(code)
}

func openURL(ctx context.Context, url string) (store.Store, error) { return backends.Open(ctx, url) }

// who is the user at this machine. Of somebody who acts as another by sudo, both are
// named.
func who() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" && by != name {
		name = by + " as " + name
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
