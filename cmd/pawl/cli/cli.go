// Package cli implements the command line pawl. To add a URL scheme, write a program that
// imports this package and a package that registers a backend:
//
//	package main
//
//	import (
//		"os"
//
//		"github.com/pawlhq/pawl/cmd/pawl/cli"
//
//		_ "example.com/bolt" // calls backends.Register in its init
//	)
//
//	func main() { os.Exit(cli.Main()) }
//
// docs/cli.md describes the commands, their output and the exit codes. The command line
// adds the parameter migrate=true or migrate=false to each URL; see [backends.Backend].
package cli

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

// Main executes the program's arguments and returns the exit code. SIGINT and SIGTERM
// interrupt the command.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, os.Args[1:]...)
}

// Run executes args, which do not include the program's name, and returns the exit code. It
// uses the standard streams and the environment of the process, and sets [slog.Default],
// to which backends log. The end of ctx interrupts the command.
func Run(ctx context.Context, args ...string) int {
	level := new(slog.LevelVar)
	level.Set(slog.LevelError)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	return run(ctx, world{
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
	}, args)
}

func openURL(ctx context.Context, url string) (store.Store, error) { return backends.Open(ctx, url) }

// who returns the user and the host. Under sudo, it names both the calling and the target
// user.
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
