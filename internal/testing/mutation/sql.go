package main

import (
	"regexp"
	"strconv"
	"strings"
)

// change is a change of a text: text replaces [from:to].
type change struct {
	kind     string
	from, to int
	text     string
}

var sqlWords = regexp.MustCompile(`\b(SELECT|UPDATE|INSERT|DELETE|WHERE|AND|FROM|SET|VALUES|LIMIT|ORDER BY|CASE WHEN|RETURNING)\b`)

// looksLikeSQL recognizes statements, and parts of them.
func looksLikeSQL(literal string) bool { return sqlWords.MatchString(literal) }

// operator replaces what the pattern's first group matches.
type operator struct {
	kind    string
	pattern *regexp.Regexp
	text    func(string) string
}

func to(text string) func(string) string { return func(string) string { return text } }

func swap(pairs ...string) func(string) string {
	return func(s string) string {
		for i := 0; i < len(pairs); i += 2 {
			switch s {
			case pairs[i]:
				return pairs[i+1]
			case pairs[i+1]:
				return pairs[i]
			}
		}
		return s
	}
}

var operators = []operator{
	{"sql: lock removed", regexp.MustCompile(`( FOR (?:NO KEY )?(?:UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?)`), to("")},
	{"sql: lock that waits", regexp.MustCompile(`( SKIP LOCKED)`), to("")},
	{"sql: bound moved", regexp.MustCompile(`[\w)\]}]\s*(<=|>=|<|>)\s*[\w$(:{]`), swap("<=", "<", ">=", ">")},
	{"sql: comparison reversed", regexp.MustCompile(`[\w)\]}]\s*(<>)\s*[\w$('{-]`), to("=")},
	{"sql: number changed", regexp.MustCompile(`[^\w$.:'"](\d+)\b`), func(s string) string {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return s
		}
		if v > 1 {
			return strconv.FormatInt(v/2, 10)
		}
		return strconv.FormatInt(1-v, 10)
	}},
	{"sql: status changed", regexp.MustCompile(`(\{(?:pending|running|sleeping|paused|canceling|completed|failed|canceled|final)\})`),
		swap("{pending}", "{running}", "{sleeping}", "{paused}", "{completed}", "{failed}", "{canceling}", "{final}", "{canceled}", "{sleeping}")},
	{"sql: part changed", regexp.MustCompile(`(\{part\w+\})`),
		swap("{partSteps}", "{partState}", "{partSignals}", "{partGroups}", "{partLargeInput}", "{partSteps}", "{partChildren}", "{partEnded}", "{partsToReplay}", "{partEnded}")},
	{"sql: order reversed", regexp.MustCompile(`\b(DESC)\b`), to("ASC")},
	{"sql: order dropped", regexp.MustCompile(`( ORDER BY [\w.]+(?: DESC)?(?:, [\w.]+(?: DESC)?)*)`), to("")},
	{"sql: extreme reversed", regexp.MustCompile(`\b(least|greatest|min|max)\(`), swap("least", "greatest", "min", "max")},
	{"sql: existence reversed", regexp.MustCompile(`(NOT EXISTS)`), to("EXISTS")},
	{"sql: null reversed", regexp.MustCompile(`\b(IS NOT NULL|IS NULL)\b`), swap("IS NULL", "IS NOT NULL")},
	{"sql: condition dropped", regexp.MustCompile(`\bWHERE ([\w.]+\s*(?:=|<>|<=|>=|<|>)\s*(?:\{\w+\}|[$?]?[\w.:]+\b))`), to("true")},
	{"sql: logic reversed", regexp.MustCompile(`[^N] (OR) `), to("AND")},
	{"sql: assignment dropped", regexp.MustCompile(`\b(\w+=(?:\d+|\{\w+\}|NULL|true|false), )`), to("")},
	{"sql: increment dropped", regexp.MustCompile(`\w([+-]1)\b`), to("")},
}

// sqlChanges lists the mutations of a string literal of SQL.
func sqlChanges(literal string) []change {
	var out []change
	for _, op := range operators {
		for _, at := range op.pattern.FindAllStringSubmatchIndex(literal, -1) {
			old := literal[at[2]:at[3]]
			if strings.HasSuffix(literal[:at[2]], "(SELECT ") && strings.HasPrefix(literal[at[3]:], " FROM ") {
				continue // what is selected does not matter
			}
			if text := op.text(old); text != old {
				out = append(out, change{op.kind, at[2], at[3], text})
			}
		}
	}
	return append(out, conjuncts(literal)...)
}

// conjuncts drops each condition that follows an AND.
func conjuncts(literal string) []change {
	var out []change
	for at := 0; ; {
		i := strings.Index(literal[at:], " AND ")
		if i < 0 {
			return out
		}
		from := at + i
		at = from + len(" AND ")
		if strings.Contains(lastWords(literal[:from]), "BETWEEN") {
			continue
		}
		if end := conditionEnd(literal, at); end > at {
			out = append(out, change{"sql: condition dropped", from, end, ""})
		}
	}
}

// lastWords returns the last few words of a text.
func lastWords(text string) string {
	words := strings.Fields(text)
	return strings.Join(words[max(0, len(words)-3):], " ")
}

var afterCondition = regexp.MustCompile(`^(?:\s+(?:AND|OR|THEN|ORDER|GROUP|LIMIT|RETURNING|FOR|ON|UNION|ELSE|END|OFFSET|WINDOW)\b|[,)` + "`" + `"])`)

// conditionEnd finds where the condition that begins at from ends: 0 if it goes on beyond the
// literal, for then its end is not known.
func conditionEnd(text string, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		if depth == 0 && afterCondition.MatchString(text[i:]) {
			if text[i] == '`' || text[i] == '"' {
				return 0
			}
			return i
		}
		switch text[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
	}
	return 0
}
