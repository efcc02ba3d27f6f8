package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// wantInvalid reports an error that is not an *InvalidError with a readable text: whatever the
// input was, the text is for people.
func wantInvalid(t *testing.T, err error) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) {
		t.Fatalf("saw %T %q, expected an *InvalidError", err, err)
	}
	text := err.Error()
	if len(text) > 1000 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		t.Fatalf("saw the message %q, expected one line of readable text", text)
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "0191a5c2-7e9a-7cc1-b3f0-6b1f0c6e2d11", "0191A5C2-7E9A-7CC1-B3F0-6B1F0C6E2D11", "0191a5c27e9a7cc1b3f06b1f0c6e2d11", "0191a5c2-7e9a-7cc1-b3f0-6b1f0c6e2d1g", "--------"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			wantInvalid(t, err)
			return
		}
		if got := id.String(); got != strings.ToLower(s) {
			t.Fatalf("%q: saw %q come back", s, got)
		}
		text, err := id.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var again ID
		if err := again.UnmarshalText(text); err != nil || again != id {
			t.Fatalf("%v: saw %v, %v come back from its text %q", id, again, err, text)
		}
	})
}

func FuzzIDRange(f *testing.F) {
	id := []byte("\x01\x91\xa5\xc2\x7e\x9a\x7c\xc1\xb3\xf0\x6b\x1f\x0c\x6e\x2d\x11")
	for _, s := range []string{"", "0", "0191a5c2", "0191A5C2-7", "0191a5c2-7e9a-7cc1-b3f0-6b1f0c6e2d11", "x", "--", "ffffffff-ffff-ffff-ffff-ffffffffffff0"} {
		f.Add(s, id)
	}
	f.Fuzz(func(t *testing.T, prefix string, b []byte) {
		lo, hi, err := IDRange(prefix)
		if err != nil {
			wantInvalid(t, err)
			return
		}
		var id ID
		copy(id[:], b)
		digits := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "") }
		for _, id := range []ID{id, lo, hi} {
			in := bytes.Compare(lo[:], id[:]) <= 0 && bytes.Compare(id[:], hi[:]) <= 0
			if begins := strings.HasPrefix(digits(id.String()), digits(prefix)); in != begins {
				t.Fatalf("%v in the range of %q: saw %v, expected %v", id, prefix, in, begins)
			}
		}
	})
}

func FuzzDecodeCursor(f *testing.F) {
	f.Add("runs", "a", "", []byte(nil))
	f.Add("runs", "a", EncodeCursor("runs", "a", []byte("position")), []byte("position"))
	f.Add("runs", "a", EncodeCursor("runs", "b", nil), []byte{})
	f.Add("", "\xff", "AQ", []byte{0})
	f.Add("firings", "a", "not base64!", []byte{255})
	f.Fuzz(func(t *testing.T, kind, query, cursor string, pos []byte) {
		if _, err := DecodeCursor(kind, query, cursor); err != nil {
			wantInvalid(t, err)
		}
		made := EncodeCursor(kind, query, pos)
		got, err := DecodeCursor(kind, query, made)
		if err != nil || got == nil || !bytes.Equal(got, pos) {
			t.Fatalf("position %q: saw %q, %v come back", pos, got, err)
		}
		if _, err := DecodeCursor(kind, query+"x", made); err == nil {
			t.Fatalf("the cursor of query %q is taken for that of %q", query, query+"x")
		}
	})
}

// FuzzPosition passes listings cursors that they have not made.
func FuzzPosition(f *testing.F) {
	id := NewID()
	made := ListParams{Namespace: "a"}
	f.Add("a", "", "", made.NextCursor(RunPosition{time.UnixMicro(1), id}), int64(0), false)
	f.Add("a", "q", "01", "", int64(1), true)
	f.Add("a", "\xff", "", EncodeCursor(cursorRuns, made.query(), []byte("short")), int64(-1), false)
	f.Fuzz(func(t *testing.T, namespace, queue, prefix, cursor string, after int64, oldest bool) {
		p := ListParams{Namespace: namespace, Cursor: cursor, OldestFirst: oldest, Filter: RunFilter{
			Queue: queue, IDPrefix: prefix, Statuses: Statuses(), CreatedAfter: time.Unix(0, after),
		}}
		if _, err := p.Position(); err != nil {
			wantInvalid(t, err)
		}
		last := RunPosition{time.UnixMicro(after).UTC(), id}
		p.Cursor = p.NextCursor(last)
		if got, err := p.Position(); err != nil || got != last {
			t.Fatalf("saw %v, %v come back, expected %v", got, err, last)
		}
		s := ListSchedulesParams{Namespace: namespace, Names: []string{queue}, Cursor: cursor}
		if _, err := s.Position(); err != nil {
			wantInvalid(t, err)
		}
		s.Cursor = s.NextCursor(queue)
		if got, err := s.Position(); err != nil || got != queue {
			t.Fatalf("saw %q, %v come back, expected %q", got, err, queue)
		}
		r := ListFiringsParams{Namespace: namespace, Schedule: queue, Cursor: cursor}
		if _, err := r.Position(); err != nil {
			wantInvalid(t, err)
		}
		r.Cursor = s.Cursor
		if _, err := r.Position(); s.Cursor != "" && err == nil {
			t.Fatal("the cursor of a listing of schedules is taken for one of firings")
		}
		w := ListWorkersParams{Namespace: namespace, Cursor: cursor}
		if _, err := w.Position(); err != nil {
			wantInvalid(t, err)
		}
		w.Cursor = w.NextCursor(queue)
		if got, err := w.Position(); err != nil || got != queue {
			t.Fatalf("saw %q, %v come back, expected %q", got, err, queue)
		}
		d := ListWorkflowsParams{Namespace: namespace, Names: []string{queue}, Cursor: cursor}
		if _, err := d.Position(); err != nil {
			wantInvalid(t, err)
		}
		d.Cursor = d.NextCursor(queue)
		if got, err := d.Position(); err != nil || got != queue {
			t.Fatalf("saw %q, %v come back, expected %q", got, err, queue)
		}
		q := ListPausedParams{Namespace: namespace, Cursor: cursor}
		if _, err := q.Position(); err != nil {
			wantInvalid(t, err)
		}
		if ValidateName("queue", queue) == nil {
			want := PausedTarget{Queue: queue}
			q.Cursor = q.NextCursor(want)
			if got, err := q.Position(); err != nil || got != want {
				t.Fatalf("saw %+v, %v come back, expected %+v", got, err, want)
			}
		}
	})
}

func FuzzValidateName(f *testing.F) {
	for _, s := range []string{"", "a", "größe", " a", "a\u00a0", "a\x00", "a\u0085b", "\xff", "\u2028", strings.Repeat("é", 127), strings.Repeat("é", 128), "a/b c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		good := len(s) >= 1 && len(s) <= MaxName && utf8.ValidString(s)
		for i, r := range s {
			edge := i == 0 || i+utf8.RuneLen(r) == len(s)
			if unicode.IsControl(r) || edge && unicode.IsSpace(r) {
				good = false
			}
		}
		err := ValidateName("name", s)
		if (err == nil) != good {
			t.Fatalf("%q: saw %v, expected it to be good: %v", s, err, good)
		}
		if err != nil {
			wantInvalid(t, err)
		}
	})
}

func FuzzStatusText(f *testing.F) {
	for _, s := range Statuses() {
		f.Add([]byte(s.String()))
	}
	f.Add([]byte(""))
	f.Add([]byte("Status(0)"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := Status(99)
		if err := s.UnmarshalText(b); err != nil {
			wantInvalid(t, err)
			if s != 99 {
				t.Fatalf("%q is refused, but sets %v", b, s)
			}
			return
		}
		if text, err := s.MarshalText(); err != nil || !bytes.Equal(text, b) || s < Pending || s > Canceled {
			t.Fatalf("%q: saw %q, %v come back", b, text, err)
		}
	})
}

// FuzzFailureJSON reads failures that others have written, and reads back what it wrote itself.
// JSON is text: bytes that are not UTF-8 do not survive.
func FuzzFailureJSON(f *testing.F) {
	f.Add([]byte(`{"code":"error","message":"went wrong"}`), "error", "m\x00", []byte{0xff})
	f.Add([]byte(`{"details":"!"}`), "", "\xff", []byte(nil))
	f.Add([]byte(`null`), "panic", "\u2028<>&", []byte{})
	f.Fuzz(func(t *testing.T, data []byte, code, message string, details []byte) {
		var read Failure
		_ = json.Unmarshal(data, &read)
		_ = read.Error()
		wrote := Failure{
			Code: strings.ToValidUTF8(code, "?"), Message: strings.ToValidUTF8(message, "?"), Stack: strings.ToValidUTF8(code+message, "?"),
			Details: details, Permanent: len(details)%2 == 1,
		}
		for _, want := range []Failure{wrote, read} {
			b, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var got Failure
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("saw %+v come back, expected %+v", got, want)
			}
		}
	})
}
