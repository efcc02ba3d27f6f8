package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
)

func seq(files ...FileStats) iter.Seq2[FileStats, error] {
	return func(yield func(FileStats, error) bool) {
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func TestReport(t *testing.T) {
	h := strings.Repeat("0123456789abcdef", 4)
	files := seq(
		FileStats{Path: "LICENSE", Hash: h, Bytes: 30, Lines: 3, Words: 9, Top: []Ident{{"the", 4}, {"b", 1}}},
		FileStats{Path: "a.go", Hash: h, Bytes: 100, Lines: 10, Words: 20, Top: []Ident{{"x", 7}, {"the", 1}}},
		FileStats{Path: "dir/b.go", Hash: h, Bytes: 50, Lines: 5, Words: 10, Top: []Ident{{"a", 1}}},
		FileStats{Path: "dir/new\nline.txt", Hash: h},
		FileStats{Path: "dir/with space", Hash: h, Words: 1, Bytes: 1, Lines: 1, Top: []Ident{{"b", 1}}},
		FileStats{Path: "locked", Err: "open: permission denied"},
		FileStats{Path: "pic.png", Hash: h, Bytes: 50, Binary: true},
	)
	want := `Totals
             7  files
             1  binary
             1  not read
           231  bytes
            19  lines
            40  words

By extension: files, bytes, lines, words
         2             31            4           10  (none)
         2            150           15           30  .go
         1             50            0            0  .png
         1              0            0            0  .txt

Most frequent identifiers, counted where they are among the first 10 of their file
             7  x
             5  the
             2  b
             1  a

Largest files: bytes
           100  a.go
            50  dir/b.go
            50  pic.png
            30  LICENSE
             1  "dir/with space"
             0  "dir/new\nline.txt"

Files: SHA-256, bytes, lines, words, path, identifiers
HASH         30        3        9 LICENSE the:4 b:1
HASH        100       10       20 a.go x:7 the:1
HASH         50        5       10 dir/b.go a:1
HASH          0        0        0 "dir/new\nline.txt"
HASH          1        1        1 "dir/with space" b:1
NONE          -        -        - locked not read: open: permission denied
HASH         50        -        - pic.png binary
`
	want = strings.ReplaceAll(want, "HASH", h)
	want = strings.ReplaceAll(want, "NONE", "-"+strings.Repeat(" ", 63))
	var got bytes.Buffer
	if err := WriteReport(&got, files); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestReportOfNothing(t *testing.T) {
	var got bytes.Buffer
	if err := WriteReport(&got, seq()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.String(), "Totals\n             0  files\n") {
		t.Errorf("got\n%s", got.String())
	}
}

func TestReportIsBounded(t *testing.T) {
	many := func(yield func(FileStats, error) bool) {
		for i := range 20_000 {
			f := FileStats{Path: fmt.Sprintf("f.%05d", i), Bytes: int64(i % 500), Top: []Ident{{fmt.Sprintf("id%d", i%100), 1}}}
			if !yield(f, nil) {
				return
			}
		}
	}
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := WriteReport(w, many); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two reports of the same files differ")
	}
	head, lines, _ := strings.Cut(first.String(), "\nFiles:")
	if n := strings.Count(lines, "\n"); n != 20_001 {
		t.Errorf("%d lines follow the summary, want one for each of 20000 files", n-1)
	}
	if n := strings.Count(head, "\n"); n > 100 {
		t.Errorf("the summary has %d lines", n)
	}
	if !strings.Contains(head, "(19971 others)") || !strings.Contains(head, "     19971 ") {
		t.Errorf("the rest of the extensions is not summed up:\n%s", head)
	}
	// Of the 40 largest, all of 499 bytes, the first 20 by path.
	if !strings.Contains(head, "499  f.00499\n") || !strings.Contains(head, "499  f.09999\n") || strings.Contains(head, "499  f.10499\n") {
		t.Errorf("the largest files are wrong:\n%s", head)
	}
}

func TestReportErrors(t *testing.T) {
	for _, order := range [][]FileStats{{{Path: "a"}, {Path: "a"}}, {{Path: "b"}, {Path: "a"}}, {{Path: ""}, {Path: ""}}} {
		if err := WriteReport(io.Discard, seq(order...)); err == nil || !strings.Contains(err.Error(), "order") {
			t.Errorf("files %v gave %v", order, err)
		}
	}

	broken := errors.New("store gone")
	failing := func(yield func(FileStats, error) bool) {
		_ = yield(FileStats{Path: "a"}, nil) && yield(FileStats{}, broken)
	}
	var got bytes.Buffer
	if err := WriteReport(&got, failing); !errors.Is(err, broken) || got.Len() > 0 {
		t.Errorf("a broken source gave %v and wrote %q", err, got.String())
	}

	calls := 0
	shrinking := func(yield func(FileStats, error) bool) {
		if calls++; calls == 1 {
			yield(FileStats{Path: "a"}, nil)
		}
	}
	if err := WriteReport(io.Discard, shrinking); err == nil || !strings.Contains(err.Error(), "1 files at first reading and 0 at the second") {
		t.Errorf("files that change gave %v", err)
	}

	pr, pw := io.Pipe()
	pr.CloseWithError(broken)
	if err := WriteReport(pw, seq(FileStats{Path: "a"})); !errors.Is(err, broken) {
		t.Errorf("a broken writer gave %v", err)
	}
}

func TestExtension(t *testing.T) {
	for name, want := range map[string]string{"a.go": ".go", "d.ir/a": "(none)", ".profile": "(none)", "a.tar.gz": ".gz", "a.": "(none)", "..x.y": ".y", "d/.x.md": ".md"} {
		if got := extension(name); got != want {
			t.Errorf("extension(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestWhole lists, measures and reports a small tree, twice in two places.
func TestWhole(t *testing.T) {
	report := func() string {
		root := t.TempDir()
		write(t, root, "b/two.go", "package b\n\nfunc two() int { return 2 }\n")
		write(t, root, "one.txt", "one\n")
		write(t, root, "zero", "\x00")
		files, err := list(t, root)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = WriteReport(&out, func(yield func(FileStats, error) bool) {
			for _, f := range files {
				st, err := Analyze(context.Background(), root, f.Path)
				if !yield(st, err) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), root) {
			t.Error("the report names the root's place")
		}
		return out.String()
	}
	if a, b := report(), report(); a != b {
		t.Errorf("two places, two reports:\n%s\n%s", a, b)
	}
}
