package indexer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		name, file, content string
		want                FileStats // without Path, Hash and Bytes, which follow from the content
	}{
		{"empty", "a.txt", "", FileStats{}},
		{"one line", "a.txt", "one two\n", FileStats{Lines: 1, Words: 2, Top: []Ident{{"one", 1}, {"two", 1}}}},
		{"no newline at the end", "a.txt", "x\ny", FileStats{Lines: 2, Words: 2, Top: []Ident{{"x", 1}, {"y", 1}}}},
		{"only newlines", "a.txt", "\n\n\n", FileStats{Lines: 3}},
		{"white space of all kinds", "a.txt", " a\tb\v\fc\r\n d ", FileStats{Lines: 2, Words: 4, Top: []Ident{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}}},
		{"most frequent first, then by name", "a.txt", "b c a b c z b", FileStats{Lines: 1, Words: 7, Top: []Ident{{"b", 3}, {"c", 2}, {"a", 1}, {"z", 1}}}},
		{"Go keywords in Go", "a.go", "func f() { return f }", FileStats{Lines: 1, Words: 6, Top: []Ident{{"f", 2}}}},
		{"Go keywords elsewhere", "a.txt", "func f", FileStats{Lines: 1, Words: 2, Top: []Ident{{"f", 1}, {"func", 1}}}},
		{"numbers are no identifiers", "a.txt", "0x1F 12ab _1 a1", FileStats{Lines: 1, Words: 4, Top: []Ident{{"_1", 1}, {"a1", 1}}}},
		{"pieces of other words are none", "a.txt", "über naïve plain", FileStats{Lines: 1, Words: 3, Top: []Ident{{"plain", 1}}}},
		{"punctuation separates", "a.txt", "a.b(c,a)", FileStats{Lines: 1, Words: 1, Top: []Ident{{"a", 2}, {"b", 1}, {"c", 1}}}},
		{"at most ten", "a.txt", "l k j i h g f e d c b a", FileStats{Lines: 1, Words: 12,
			Top: []Ident{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1}, {"i", 1}, {"j", 1}}}},
		{"too long to be an identifier", "a.txt", strings.Repeat("x", 100) + " " + strings.Repeat("y", 101), FileStats{Lines: 1, Words: 2,
			Top: []Ident{{strings.Repeat("x", 100), 1}}}},
		{"binary: hash and size only", "a.go", "func f\n\x00", FileStats{Binary: true}},
		{"a NUL far behind is text", "a.txt", strings.Repeat("\n", sniffLen) + "\x00", FileStats{Lines: sniffLen + 1, Words: 1}},
		{"over the edge of a chunk", "a.txt", strings.Repeat(" ", chunkSize-2) + "word word", FileStats{Lines: 1, Words: 2, Top: []Ident{{"word", 2}}}},
		{"exactly a chunk", "a.txt", strings.Repeat("a\n", chunkSize/2), FileStats{Lines: chunkSize / 2, Words: chunkSize / 2, Top: []Ident{{"a", chunkSize / 2}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Path, c.want.Hash, c.want.Bytes = c.file, sha(c.content), int64(len(c.content))
			readers := map[string]io.Reader{"at once": strings.NewReader(c.content), "byte by byte": iotest.OneByteReader(strings.NewReader(c.content))}
			for how, r := range readers {
				got, err := measure(t.Context(), c.file, r)
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s: got %+v, %v\nwant %+v", how, got, err, c.want)
				}
			}
		})
	}
}

func TestMeasureErrors(t *testing.T) {
	broken := errors.New("disk gone")
	_, err := measure(t.Context(), "a", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "after 3 bytes") {
		t.Errorf("a read error came back as %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measure(ctx, "a", strings.NewReader("abc")); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled context gave %v", err)
	}
}

func TestAnalyze(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	write(t, root, "sub/a.go", "package a\n")
	write(t, dir, "secret", "s")

	got, err := Analyze(t.Context(), root, "sub/a.go")
	want := FileStats{Path: "sub/a.go", Hash: sha("package a\n"), Bytes: 10, Lines: 1, Words: 2, Top: []Ident{{"a", 1}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := Analyze(t.Context(), root, "../secret"); err == nil {
		t.Error("a path led out of the root")
	}

	_, err = Analyze(t.Context(), root, "gone")
	st := Failed("gone", err)
	if !errors.Is(err, os.ErrNotExist) || st.Path != "gone" || st.Err == "" || strings.Contains(st.Err, dir) {
		t.Errorf("a missing file gave %v, as stats %+v", err, st)
	}
	if _, err := Analyze(t.Context(), root, "sub"); err == nil {
		t.Error("a directory was measured")
	}
}

func TestFileStatsJSON(t *testing.T) {
	in := FileStats{Path: "a \"b\"", Hash: "00", Bytes: 1, Lines: 2, Words: 3, Binary: true, Top: []Ident{{"x", 4}}, Err: "e"}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out FileStats
	if err := json.Unmarshal(b, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%s came back as %+v, %v", b, out, err)
	}
}

func BenchmarkMeasure(b *testing.B) {
	text := bytes.Repeat([]byte("func (s *scanner) add(c byte) { s.token = append(s.token, c) }\n"), 300)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := measure(b.Context(), "a.go", bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
