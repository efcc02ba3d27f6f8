package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/store"
)

// controls reports whether a terminal would interpret a character instead of printing
// it: C0 and C1 controls (U+009B starts a sequence, as ESC [ does), and characters that
// change the direction of text.
func controls(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// clean makes text safe for one line of a terminal: it replaces line breaks and control
// characters.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case controls(r) || r == utf8.RuneError:
			return '?'
		}
		return r
	}, s)
}

// visible makes text of several lines safe for a terminal. It writes control characters
// other than line feeds and tabs as JSON escapes, and bytes that are not UTF-8 as U+FFFD.
// The meaning of JSON does not change.
func visible(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			out = utf8.AppendRune(out, utf8.RuneError)
		case r != '\n' && r != '\t' && controls(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

// visibleWriter applies [visible] to what is written to it. Two writes may split a
// character.
type visibleWriter struct {
	to   io.Writer
	rest []byte // of an incomplete character
}

func (w *visibleWriter) Write(b []byte) (int, error) {
	text := append(w.rest, b...)
	whole := len(text)
	for i := max(0, len(text)-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			whole = i
			break
		}
	}
	w.rest = bytes.Clone(text[whole:])
	if _, err := w.to.Write(visible(text[:whole])); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes the remaining bytes of an incomplete character.
func (w *visibleWriter) Flush() error {
	_, err := w.to.Write(visible(w.rest))
	w.rest = nil
	return err
}

// cut shortens text to width characters.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	if width < 1 {
		return ""
	}
	return string(r[:width-1]) + "…"
}

// Text styles of a terminal.
type style string

const (
	plain   style = ""
	bold    style = "1"
	dim     style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	blue    style = "34"
	magenta style = "35"
	cyan    style = "36"
)

// colors reports whether to use colors.
func (a *app) colors() bool {
	switch a.color {
	case "always":
		return true
	case "never":
		return false
	}
	if a.getenv("NO_COLOR") != "" || a.getenv("TERM") == "dumb" {
		return false
	}
	_, _, terminal := a.size()
	return terminal
}

func (a *app) paint(s style, text string) string {
	if s == plain || text == "" || !a.colors() {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func statusStyle(s store.Status) style {
	switch s {
	case store.Running:
		return cyan
	case store.Sleeping:
		return blue
	case store.Paused:
		return magenta
	case store.Canceling, store.Canceled:
		return yellow
	case store.Completed:
		return green
	case store.Failed:
		return red
	}
	return plain
}

// cell is a cell of a table.
type cell struct {
	text  string
	style style
	right bool
	long  bool // it may extend over the following columns, which are empty
}

func text(s string) cell             { return cell{text: clean(s)} }
func styled(st style, s string) cell { return cell{text: clean(s), style: st} }
func number[N int | int64](n N) cell { return cell{text: group3(int64(n)), right: true} }
func (c cell) isA(st style) cell     { c.style = st; return c }
func statusCell(s store.Status) cell { return styled(statusStyle(s), s.String()) }
func numberOrDot[N int | int64](n N) cell {
	if n == 0 {
		return cell{text: "·", style: dim, right: true}
	}
	return number(n)
}

// atLeast returns a cell with a number that may be a lower bound.
func atLeast(n int64, capped bool) cell { return cell{text: bound3(n, capped), right: true} }

// bound3 is group3, with a plus sign after a lower bound.
func bound3(n int64, capped bool) string {
	if capped {
		return group3(n) + "+"
	}
	return group3(n)
}

// capped returns the statuses whose counts are lower bounds.
func capped(counts []store.RunCount) (names []string) {
	for _, s := range store.Statuses() {
		if slices.ContainsFunc(counts, func(c store.RunCount) bool { return c.Status == s && c.Capped }) {
			names = append(names, s.String())
		}
	}
	return names
}

// group3 formats a number with its digits in groups of three.
func group3(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// table is a head and rows. A column whose cells are all empty is omitted.
type table struct {
	head []string
	rows [][]cell

	// more reports that more rows follow in a later print: the columns keep their widths,
	// and the head is printed once.
	more   bool
	widths []int // of the rows printed before
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// lines formats the table. If width is positive, the last column is cut so that lines
// have at most that many characters.
func (t *table) lines(a *app, width int) []string {
	widths := make([]int, len(t.head))
	copy(widths, t.widths)
	used := make([]bool, len(t.head))
	for i := range used {
		used[i] = t.more
	}
	for _, row := range t.rows {
		for i, c := range row {
			if !c.long {
				widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
			}
			used[i] = used[i] || c.text != ""
		}
	}
	last := 0
	for i, h := range t.head {
		widths[i] = max(widths[i], utf8.RuneCountInString(h))
		if used[i] {
			last = i
		}
	}
	right := make([]bool, len(t.head))
	for _, row := range t.rows {
		for i, c := range row {
			right[i] = right[i] || c.right
		}
	}
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{text: h, style: dim, right: right[i]}
	}
	rows := t.rows
	if t.widths == nil {
		rows = append([][]cell{head}, t.rows...)
	}
	if t.more {
		t.widths = slices.Clone(widths)
	}
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		at := 0
		for i, c := range row {
			if !used[i] {
				continue
			}
			if at > 0 {
				b.WriteString("  ")
				at += 2
			}
			if width > 0 {
				c.text = cut(c.text, max(width-at, 0))
			}
			pad := widths[i] - utf8.RuneCountInString(c.text)
			at += widths[i]
			if c.right && pad > 0 && (width <= 0 || at <= width) {
				b.WriteString(strings.Repeat(" ", pad))
				pad = 0
			}
			b.WriteString(a.paint(c.style, c.text))
			if i != last && pad > 0 && !c.long {
				b.WriteString(strings.Repeat(" ", pad))
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// least returns the width of all columns but the last.
func (t *table) least() (sum int) {
	widths := make([]int, len(t.head))
	last := 0
	for _, row := range t.rows {
		for i, c := range row {
			if c.text == "" || c.long {
				continue
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text), utf8.RuneCountInString(t.head[i]))
			last = max(last, i)
		}
	}
	for _, w := range widths[:last] {
		if w > 0 {
			sum += w + 2
		}
	}
	return sum
}

// leastNote is the minimum width of a cut last column; if less is left, nothing is cut.
const leastNote = 20

// printTable prints a table, or a sentence if it is empty. On a terminal, the last
// column is cut to fit, if enough of it would remain.
func (a *app) printTable(t *table, empty string, args ...any) {
	if len(t.rows) == 0 {
		a.note(empty+"\n", args...)
		return
	}
	width, _, ok := a.size()
	if !ok || width < t.least()+leastNote {
		width = 0
	}
	for _, line := range t.lines(a, width) {
		fmt.Fprintln(a.out, line)
	}
}

// ago formats a time relative to now.
func (a *app) ago(t time.Time) string {
	switch d := a.now().Sub(t); {
	case t.IsZero():
		return ""
	case d < -time.Second:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	default:
		return span(d) + " ago"
	}
}

// when formats a time in local time and relative to now.
func (a *app) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(a.zone).Format("2006-01-02 15:04:05 MST") + " (" + a.ago(t) + ")"
}

// span formats a duration.
func span(d time.Duration) string {
	d = max(d, 0)
	part := func(big time.Duration, b string, small time.Duration, s string) string {
		n, rest := d/big, d%big/small
		if rest == 0 {
			return fmt.Sprintf("%d%s", n, b)
		}
		return fmt.Sprintf("%d%s%d%s", n, b, rest, s)
	}
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Truncate(100*time.Millisecond).Seconds()), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return part(time.Minute, "m", time.Second, "s")
	case d < day:
		return part(time.Hour, "h", time.Minute, "m")
	case d < 365*day:
		return part(day, "d", time.Hour, "h")
	}
	return part(365*day, "y", day, "d")
}

// duration parses a duration, with days and weeks in addition to Go's units.
func duration(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	var sum time.Duration
	rest := s
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		digits, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil || !(n >= 0) || n*float64(unit.size) > float64(200*365*24*time.Hour) {
			return 0, fmt.Errorf("invalid duration %q; want for example 90s, 12h, 30d or 1w2d", s)
		}
		sum += time.Duration(n * float64(unit.size))
		rest = after
	}
	if rest != "" || s == "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return 0, fmt.Errorf("invalid duration %q; want for example 90s, 12h, 30d or 1w2d", s)
		}
		sum += d
	}
	return sum, nil
}

// durationFlag is a flag for [duration].
type durationFlag struct{ to *time.Duration }

func (f durationFlag) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return f.to.String()
}
func (f durationFlag) Set(s string) (err error) { *f.to, err = duration(s); return err }
func (durationFlag) Type() string               { return "time" }

// momentFlag is a flag for a moment: a time, or a duration before now (if ahead, after now).
type momentFlag struct {
	a     *app
	to    *time.Time
	ahead bool
}

func (f momentFlag) String() string {
	if f.to == nil || f.to.IsZero() {
		return ""
	}
	return f.to.Format(time.RFC3339)
}

func (f momentFlag) Set(s string) error {
	if d, err := duration(s); err == nil {
		if !f.ahead {
			d = -d
		}
		*f.to = f.a.now().Add(d)
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, f.a.zone); err == nil {
			*f.to = t
			return nil
		}
	}
	return fmt.Errorf("invalid time %q; want a duration such as 2h or 7d, or a time such as 2006-01-02, \"2006-01-02 15:04\" or 2006-01-02T15:04:05Z", s)
}
func (momentFlag) Type() string { return "time" }

// size formats a number of bytes.
func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// payload formats a payload in one line of at most width characters.
func payload(b []byte, width int) string {
	switch {
	case b == nil:
		return "none"
	case len(b) == 0:
		return "empty"
	}
	var compact bytes.Buffer
	if json.Compact(&compact, b) == nil {
		return cut(clean(compact.String()), width)
	}
	return size(len(b)) + ", not JSON"
}

// readPayload returns the payload of a command, from an argument or from a file ("-"
// means standard input). Unless raw is true, the payload must be JSON.
func (a *app) readPayload(arg *string, file string, raw bool) ([]byte, error) {
	var b []byte
	switch {
	case arg != nil && file != "":
		return nil, usage("payload given both as an argument and as a file; pass only one")
	case arg != nil:
		b = []byte(*arg)
	case file == "-":
		var err error
		if b, err = io.ReadAll(a.in); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	case file != "":
		var err error
		if b, err = readFile(file); err != nil {
			return nil, usage("%v", err)
		}
	default:
		return nil, nil
	}
	if !raw && !json.Valid(b) {
		return nil, usage("payload is not JSON (%s): quote a string as in '\"text\"', or pass --raw to send the bytes as is", cut(clean(string(b)), 40))
	}
	return b, nil
}
