package turso

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/store"
)

// FuzzParse parses URLs without opening them. No error contains a token.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "libsql://db.example", "libsql://db.example?authToken=sesame", "https://db.example/path?tls=1", "http://127.0.0.1:8080?migrate=false",
		"libsql://[::1]:8080?tls=0&timeout=1s&max_sleep=2s", "ws://db.example", "file:pawl.db", "libsql:pawl.db", "libsql://a b", "libsql://db.example?authToken=%zz",
		"libsql://u:sesame@db.example", "https://db.example?timeout=-1s", "libsql://db.example#x", "\x00://",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, location string) {
		c := config{timeout: time.Second, maxSleep: time.Second}
		if err := c.parse(location); err != nil {
			if !errors.Is(err, store.ErrInvalid) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("saw %q, expected an error of one line that matches ErrInvalid", err)
			}
			return
		}
		if c.url.Scheme != "http" && c.url.Scheme != "https" || c.url.Hostname() == "" || c.url.User != nil || c.url.RawQuery != "" {
			t.Fatalf("saw the URL %q", c.url)
		}
		if c.timeout <= 0 || c.maxSleep <= 0 {
			t.Fatalf("saw a timeout of %v and sleeps of %v", c.timeout, c.maxSleep)
		}
	})
}

// FuzzAnswer reads anything that a server may send.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"results":[{"type":"ok","response":{"type":"batch","result":{"step_results":[null,{"rows":[[{"type":"integer","value":"1"},{"type":"null"},{"type":"blob","base64":"AP8"},{"type":"text","value":"x"},{"type":"float","value":1.5}]],"affected_row_count":1,"rows_read":2}],"step_errors":[{"message":"m","code":"SQLITE_BUSY"}],"replication_index":"7"}}}]}`,
		`{"results":[{"type":"error","error":{"message":"x"}}]}`, `{"results":null}`, `{}`, `[]`, ``, `{"results":[{"type":"ok","response":{"result":{"replication_index":7}}}]}`,
		`{"results":[{"response":{"result":{"step_results":[{"rows":[[{"type":"blob","base64":"*"}]]}]}}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var a answer
		if json.Unmarshal(body, &a) != nil {
			return
		}
		for i := range a.Results {
			for n := range 4 {
				if steps, _ := a.Results[i].steps(n); len(steps) < n {
					t.Fatalf("saw %d steps, expected %d at least", len(steps), n)
				}
			}
		}
	})
}

// FuzzValue checks that the fast path and the general path read a value alike.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`{"type":"null"}`, `{"type":"null","value":"1"}`, `{"type":"integer","value":"-9223372036854775808"}`, `{"type":"integer","value":7}`,
		`{"type":"integer","value":"9223372036854775808"}`, `{"type":"text","value":"x"}`, `{"type":"text","value":""}`, `{"type":"text","value":"a\"b\n\u0000"}`,
		`{"value":"x","type":"text"}`, `{"type":"text","value":"x","base64":"AA"}`, `{"type":"text","value":"x","value":"y"}`, `{ "type": "text", "value": "x" }`,
		`{"type":"blob","base64":""}`, `{"type":"blob","base64":"AP8"}`, `{"type":"blob","base64":"AP8="}`, `{"type":"blob","base64":"*"}`, `{"type":"float","value":1.5}`,
		"{\"type\":\"text\",\"value\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var usual, other value
		if !json.Valid(b) || !usual.usual(b) {
			return
		}
		if err := other.anyForm(b); err != nil || !reflect.DeepEqual(usual.any, other.any) {
			t.Fatalf("saw %#v, expected %#v (%v)", usual.any, other.any, err)
		}
	})
}

// FuzzString writes text as encoding/json does.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a", `"\`, "\x00\x1f\n", "é\u2028😀", "\xff", "a\xed\xa0\x80b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatalf("saw %v for %q", err, s)
		}
		if want := string([]rune(s)); got != want {
			t.Fatalf("saw %q, expected %q", got, want)
		}
	})
}
