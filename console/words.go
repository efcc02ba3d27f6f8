package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/api/wire"
)

// words are the functions of the templates.
var words = template.FuncMap{
	"args":    args,
	"count":   count,
	"capped":  cappedCount,
	"exact":   exact,
	"when":    when,
	"stamp":   stamp,
	"span":    span,
	"seconds": func(s float64) string { return span(time.Duration(s * float64(time.Second))) },
	"size":    size,
	"short":   short,
	"clip":    clip,
	"payload": payloadText,
	"plural":  plural,
	"rule":    rule,
	"failing": failing,
	"ended":   func(p wire.TreeProgress) int64 { return p.Completed + p.Failed + p.Canceled },
	"percent": percent,
	"rate":    func(r float64) string { return strconv.FormatFloat(r, 'g', 2, 64) },
	"level":   func(i int) int { return i + 1 },
	"list":    func(items []string) string { return strings.Join(items, ", ") },
	"signed":  func(n int) string { return fmt.Sprintf("%+d", n) },
}

// args makes the data of a shared template from names and values.
func args(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// count writes a number with commas.
func count(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// cappedCount writes a number that may be a lower bound.
func cappedCount(n any, capped bool) string {
	if capped {
		return count(n) + "+"
	}
	return count(n)
}

// percent writes a part of a whole, rounded down.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0%"
	}
	return fmt.Sprintf("%d%%", int(100*float64(part)/float64(whole)))
}

func plural(n any, one, many string) string {
	if fmt.Sprint(n) == "1" {
		return one
	}
	return many
}

// exact writes a time as it is.
func exact(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// when marks up a time. The script of the page shows it relative to now.
func when(t *time.Time) template.HTML {
	if t == nil {
		return ""
	}
	return mark(*t, ` data-relative`)
}

// stamp marks up a time that stays as it is.
func stamp(t *time.Time) template.HTML {
	if t == nil {
		return ""
	}
	return mark(*t, "")
}

func mark(t time.Time, attribute string) template.HTML {
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s"%s>%s</time>`, t.Format(time.RFC3339Nano), attribute, t.Format("2006-01-02 15:04:05 UTC"))) //nolint:gosec // only digits
}

// span writes a duration in words.
func span(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.size, u.name)
		if i+1 < len(units) && d < 10*u.size {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// dayWords writes a time of a zone in words: "tomorrow at 02:00".
func dayWords(t, now time.Time, zone *time.Location) string {
	t, now = t.In(zone), now.In(zone)
	midnight := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	days := int(midnight(t).Sub(midnight(now)).Hours() / 24)
	clock := t.Format("15:04")
	if t.Second() != 0 {
		clock = t.Format("15:04:05")
	}
	switch {
	case days == 0:
		return "today at " + clock
	case days == 1:
		return "tomorrow at " + clock
	case days > 1 && days < 7:
		return t.Format("Monday") + " at " + clock
	}
	return t.Format("Monday, 2 January 2006") + " at " + clock
}

// size writes a number of bytes.
func size(n any) string {
	b, err := strconv.ParseFloat(fmt.Sprint(n), 64)
	switch {
	case err != nil || b < 0:
		return "unknown size"
	case b < 1024:
		return fmt.Sprintf("%.0f bytes", b)
	case b < 1<<20:
		return fmt.Sprintf("%.1f KiB", b/1024)
	}
	return fmt.Sprintf("%.1f MiB", b/(1<<20))
}

// short is the beginning and the end of a run's id.
func short(id string) string {
	if len(id) < 20 {
		return id
	}
	return id[:8] + "…" + id[len(id)-6:]
}

// clip shortens a text to one line of n characters.
func clip(n int, s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// payloadText writes a payload for people.
func payloadText(p *wire.Payload) string {
	switch {
	case p == nil:
		return ""
	case p.JSON != nil:
		var out bytes.Buffer
		if json.Indent(&out, p.JSON, "", "  ") == nil {
			return out.String()
		}
		return string(p.JSON)
	case utf8.Valid(p.Base64) && !bytes.ContainsAny(p.Base64, "\x00\x1b"):
		return string(p.Base64)
	}
	const most = 64 << 10
	return hexDump(p.Base64[:min(len(p.Base64), most)])
}

func hexDump(b []byte) string {
	var out strings.Builder
	for i := 0; i < len(b); i += 16 {
		line := b[i:min(i+16, len(b))]
		_, _ = fmt.Fprintf(&out, "%08x  % x\n", i, line)
	}
	return out.String()
}
