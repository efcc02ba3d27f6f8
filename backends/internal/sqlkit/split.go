package sqlkit

import (
	"regexp"
	"strings"
)

// Split splits SQL at the semicolons that are neither in quotes nor in comments, and removes
// comments. A trigger is one statement: it ends with the END that follows a semicolon.
func Split(sql string) []string {
	var list []string
	var b strings.Builder
	end := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			list = append(list, s)
		}
		b.Reset()
	}
	for len(sql) > 0 {
		switch c := sql[0]; {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
			b.WriteByte('\n')
			continue
		case c == '\'' || c == '"':
			n := strings.IndexByte(sql[1:], c)
			if n < 0 {
				n = len(sql) - 2
			}
			b.WriteString(sql[:n+2])
			sql = sql[n+2:]
			continue
		case c == ';' && inTrigger(b.String()):
			b.WriteByte(c)
		case c == ';':
			end()
		default:
			b.WriteByte(c)
		}
		sql = sql[1:]
	}
	end()
	return list
}

var (
	trigger    = regexp.MustCompile(`(?i)^\s*CREATE\s+TRIGGER\s`)
	triggerEnd = regexp.MustCompile(`(?i);\s*END\s*$`)
)

// inTrigger reports whether a statement that begins with the given text goes on after a semicolon.
func inTrigger(text string) bool { return trigger.MatchString(text) && !triggerEnd.MatchString(text) }
