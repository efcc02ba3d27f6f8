package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// mark begins the part of docs/cli.md that is made from the help.
const mark = "<!-- Generated from the help of the commands: go test ./cmd/pawl/cli -run TestDocs -update -->\n"

// TestDocs holds docs/cli.md to what the commands say of themselves.
func TestDocs(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "cli.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	intro, _, ok := strings.Cut(string(text), mark)
	require.True(t, ok, "docs/cli.md has no line %q", strings.TrimSpace(mark))
	require.Contains(t, intro, exitCodes, "the exit codes stand in the introduction as the help has them")
	var b strings.Builder
	b.WriteString(intro + mark + "\n## Commands\n")
	a := &app{world: world{getenv: func(string) string { return "" }, now: time.Now, zone: time.UTC, size: func() (int, int, bool) { return 0, 0, false }}}
	document(&b, a.root())
	if got := b.String(); *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	} else {
		want := strings.Split(string(text), "\n")
		for i, line := range strings.Split(got, "\n") {
			require.Less(t, i, len(want), "docs/cli.md ends too soon; generate it again: go test ./cmd/pawl/cli -run TestDocs -update")
			require.Equal(t, want[i], line, "docs/cli.md, line %d; generate it again: go test ./cmd/pawl/cli -run TestDocs -update", i+1)
		}
		require.Equal(t, len(want), len(strings.Split(got, "\n")), "docs/cli.md is too long; generate it again: go test ./cmd/pawl/cli -run TestDocs -update")
	}
}

// document writes a command and those below it.
func document(b *strings.Builder, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.Name() == "completion" || c.Name() == "help" || c.Hidden {
			continue
		}
		if c.HasSubCommands() {
			b.WriteString("\n### " + c.CommandPath() + "\n\n" + strings.TrimSpace(c.Long) + "\n")
			document(b, c)
			continue
		}
		c.InitDefaultHelpFlag()
		about := c.Long
		if about == "" {
			about = c.Short + "."
		}
		b.WriteString("\n#### " + c.CommandPath() + "\n\n```text\n" + strings.TrimSpace(about) + "\n\nUsage:\n  " + c.UseLine() + "\n")
		if c.Example != "" {
			b.WriteString("\nExamples:\n" + c.Example + "\n")
		}
		if flags := strings.TrimRight(c.LocalNonPersistentFlags().FlagUsages(), "\n"); flags != "" {
			b.WriteString("\nFlags:\n" + flags + "\n")
		}
		b.WriteString("```\n")
	}
}

// TestHelpIsWhole: each command says what it does and how it is used, in lines
// that fit a terminal.
func TestHelpIsWhole(t *testing.T) {
	a := &app{world: world{getenv: func(string) string { return "" }, now: time.Now, zone: time.UTC, size: func() (int, int, bool) { return 0, 0, false }}}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() == "completion" || sub.Name() == "help" {
				continue
			}
			path := sub.CommandPath()
			require.NotEmpty(t, sub.Short, path)
			require.NotContains(t, strings.TrimSuffix(sub.Short, "..."), ".", "%s: Short is no sentence", path)
			for line := range strings.Lines(sub.Long + "\n" + sub.Example) {
				require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 82, "%s: %s", path, line)
			}
			if !sub.HasSubCommands() {
				require.NotEmpty(t, sub.Example, "%s has no example", path)
				for line := range strings.Lines(sub.Example) {
					require.True(t, strings.HasPrefix(line, "  pawl "), "%s: %s", path, line)
				}
			}
			walk(sub)
		}
	}
	walk(a.root())
}

// TestText holds what is written for people.
func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 900: "0µs", 1500: "1µs", 2 * time.Millisecond: "2ms", 1234 * time.Millisecond: "1.2s", 9999 * time.Millisecond: "9.9s", 59 * time.Second: "59s",
		60 * time.Second: "1m", 61 * time.Second: "1m1s", time.Hour: "1h", 25*time.Hour + 30*time.Minute: "1d1h", 400 * 24 * time.Hour: "1y35d", -time.Second: "0s",
	} {
		require.Equal(t, want, span(d), "%d", d)
	}
	const day = 24 * time.Hour
	for s, want := range map[string]time.Duration{"90s": 90 * time.Second, "30d": 30 * day, "1w2d": 9 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "2w": 14 * day, "0s": 0} {
		d, err := duration(s)
		require.NoError(t, err, s)
		require.Equal(t, want, d, s)
	}
	for _, s := range []string{"", "d", "5", "3x", "1d2w", "-3d", "1dd", "9999999999w", "d5"} {
		_, err := duration(s)
		require.Error(t, err, s)
	}
	require.Equal(t, "a b?[31m c?", clean("a\nb\x1b[31m\tc\x00"))
	require.Equal(t, "?abc", clean("\u202eabc"), "text that turns the direction of what follows")
	require.Equal(t, "-1,234,567", group3(-1234567))
	require.Equal(t, "123", group3(123))
	require.Equal(t, "ab…", cut("abcd", 3))
	require.Equal(t, `{"a":1}`, payload([]byte(" { \"a\" : 1 }\n"), 20))
	require.Equal(t, "3 B, not JSON", payload([]byte{0xff, 1, 2}, 20))
	require.Equal(t, "none", payload(nil, 20))
	require.Equal(t, "empty", payload([]byte{}, 20))
}

// FuzzDuration: whatever is typed, a duration or an error comes of it.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"30d", "1w2d3h", "1e300d", "-1d", "∞d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := duration(s); err == nil && strings.ContainsAny(s, "dw") && d < 0 {
			t.Fatalf("%q: saw %v", s, d)
		}
	})
}

// TestTopFits: a view is never larger than the terminal, whatever there is to show.
func TestTopFits(t *testing.T) {
	s := &snapshot{at: noon}
	for i := range 60 {
		name := strings.Repeat("q", i)
		s.queues = append(s.queues, &line{Name: name, Runs: map[string]int64{"pending": int64(i) * 1_000_000}})
		s.workers = append(s.workers, store.Worker{ID: strings.Repeat("w", i), Host: "h" + name, Status: store.Online, Slots: i, Queues: []string{name}})
		s.failed = append(s.failed, store.Run{ID: id(byte(i)), Workflow: name, Failure: &store.Failure{Message: "\x1b[2J" + strings.Repeat("é", i)}})
		s.counts = append(s.counts, store.RunCount{Queue: name, Workflow: name, Status: store.Completed, Count: 1e9})
	}
	a := &app{color: "never", world: world{now: func() time.Time { return noon }, zone: time.UTC, getenv: func(string) string { return "" }}, db: "postgres://user:secret@host/x"}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 100}, {20, 5}} {
		lines := a.frame(s, s, size[0], size[1], "q quits")
		require.LessOrEqual(t, len(lines), size[1])
		for _, l := range lines {
			require.LessOrEqual(t, len([]rune(l)), size[0], "%q", l)
			require.NotContains(t, l, "\x1b")
			require.NotContains(t, l, "secret")
		}
	}
	require.Equal(t, []int{2, 4, 4}, shares(10, []int{2, 50, 50}))
	require.Equal(t, []int{1, 1}, shares(9, []int{1, 1}))
}

// TestLive: the live view answers to its keys and leaves the terminal as it was.
func TestLive(t *testing.T) {
	s := fixture(t)
	s.width, s.asks = 80, true
	for keys, want := range map[string]int{"q": 1, " q": 2, "ppq": 1, "x \x03": 2, "": 1} {
		s.in = keys
		looks := 0
		now := s.now
		s.now = func() time.Time { return now() }
		out := s.must("top", "--interval", "1h")
		looks = strings.Count(out, "\x1b[H")
		require.GreaterOrEqual(t, looks, want, "%q", keys)
		require.True(t, strings.HasPrefix(out, otherScreen) && strings.HasSuffix(out, backAgain), "%q", keys)
		s.now = now
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = ctx
	require.Equal(t, exitInterrupted, s.run("top").code)
}
