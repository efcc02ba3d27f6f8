package indexer

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Rows of the report's summary.
const (
	reportExts    = 30
	reportIdents  = 25
	reportLargest = 20
)

// WriteReport writes the report of an index: totals, sums by extension, the most
// frequent identifiers, the largest files, then a line for each file. The same
// files give the same bytes: nothing of the time, the machine or the root's
// place is in it.
//
// Files are read twice, first for the summary and then for the lines, so that
// they need not all be in memory. Both times they must come in the order of
// their paths, each once; anything else is an error, as it would mean that a
// file was indexed twice.
func WriteReport(w io.Writer, files iter.Seq2[FileStats, error]) error {
	var sum Summary
	last, first := "", true
	for f, err := range files {
		if err != nil {
			return err
		}
		if !first && f.Path <= last {
			return fmt.Errorf("report: %q comes after %q: files must be in the order of their paths, each once", f.Path, last)
		}
		last, first = f.Path, false
		sum.Add(f)
	}
	out := bufio.NewWriter(w)
	sum.write(out)
	fmt.Fprintf(out, "\nFiles: SHA-256, bytes, lines, words, path, identifiers\n")
	var lines int64
	for f, err := range files {
		if err != nil {
			return err
		}
		writeLine(out, f)
		lines++
	}
	if lines != sum.Files {
		return fmt.Errorf("report: %d files at first reading and %d at the second", sum.Files, lines)
	}
	return out.Flush()
}

// Summary adds up files. Its size grows with the different extensions and
// identifiers, not with the files.
type Summary struct {
	Files, Binary, Failed int64
	Bytes, Lines, Words   int64

	exts    map[string]*extSum
	idents  map[string]int64
	largest []FileStats // at most reportLargest, largest first
}

type extSum struct {
	name                       string
	files, bytes, lines, words int64
}

func (e *extSum) add(o *extSum) {
	e.files += o.files
	e.bytes += o.bytes
	e.lines += o.lines
	e.words += o.words
}

// Add counts a file in.
func (s *Summary) Add(f FileStats) {
	s.Files++
	if f.Err != "" {
		s.Failed++
		return
	}
	if f.Binary {
		s.Binary++
	}
	s.Bytes += f.Bytes
	s.Lines += f.Lines
	s.Words += f.Words

	if s.exts == nil {
		s.exts, s.idents = map[string]*extSum{}, map[string]int64{}
	}
	ext := extension(f.Path)
	if s.exts[ext] == nil {
		s.exts[ext] = &extSum{name: ext}
	}
	s.exts[ext].add(&extSum{files: 1, bytes: f.Bytes, lines: f.Lines, words: f.Words})
	for _, id := range f.Top {
		s.idents[id.Name] += id.Count
	}

	at, _ := slices.BinarySearchFunc(s.largest, f, func(a, b FileStats) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Path, b.Path))
	})
	if at < reportLargest {
		s.largest = slices.Insert(s.largest, at, FileStats{Path: f.Path, Bytes: f.Bytes})
		s.largest = s.largest[:min(len(s.largest), reportLargest)]
	}
}

// extension is the end of the file's name from its last dot; a dot at the very
// beginning makes none.
func extension(name string) string {
	ext := path.Ext(strings.TrimLeft(path.Base(name), "."))
	if ext == "" || ext == "." {
		return "(none)"
	}
	return ext
}

func (s *Summary) write(w *bufio.Writer) {
	fmt.Fprintf(w, "Totals\n")
	for _, row := range []struct {
		name string
		n    int64
	}{{"files", s.Files}, {"binary", s.Binary}, {"not read", s.Failed}, {"bytes", s.Bytes}, {"lines", s.Lines}, {"words", s.Words}} {
		fmt.Fprintf(w, "%14d  %s\n", row.n, row.name)
	}

	exts := slices.SortedFunc(maps.Values(s.exts), func(a, b *extSum) int {
		return cmp.Or(cmp.Compare(b.files, a.files), cmp.Compare(a.name, b.name))
	})
	if len(exts) > reportExts {
		rest := &extSum{name: fmt.Sprintf("(%d others)", len(exts)-reportExts+1)}
		for _, e := range exts[reportExts-1:] {
			rest.add(e)
		}
		exts = append(exts[:reportExts-1:reportExts-1], rest)
	}
	fmt.Fprintf(w, "\nBy extension: files, bytes, lines, words\n")
	for _, e := range exts {
		fmt.Fprintf(w, "%10d %14d %12d %12d  %s\n", e.files, e.bytes, e.lines, e.words, oneLine(e.name))
	}

	fmt.Fprintf(w, "\nMost frequent identifiers, counted where they are among the first %d of their file\n", TopIdents)
	for _, id := range mostFrequent(s.idents, reportIdents) {
		fmt.Fprintf(w, "%14d  %s\n", id.Count, id.Name)
	}

	fmt.Fprintf(w, "\nLargest files: bytes\n")
	for _, f := range s.largest {
		fmt.Fprintf(w, "%14d  %s\n", f.Bytes, printable(f.Path))
	}
}

func writeLine(w *bufio.Writer, f FileStats) {
	switch {
	case f.Err != "":
		fmt.Fprintf(w, "%-64s %10s %8s %8s %s not read: %s\n", "-", "-", "-", "-", printable(f.Path), oneLine(f.Err))
		return
	case f.Binary:
		fmt.Fprintf(w, "%s %10d %8s %8s %s binary\n", f.Hash, f.Bytes, "-", "-", printable(f.Path))
		return
	}
	fmt.Fprintf(w, "%s %10d %8d %8d %s", f.Hash, f.Bytes, f.Lines, f.Words, printable(f.Path))
	for _, id := range f.Top {
		fmt.Fprintf(w, " %s:%d", id.Name, id.Count)
	}
	w.WriteByte('\n') // a write error stays in w until Flush
}

// printable makes a name one word: identifiers follow it on its line.
func printable(name string) string {
	if name == "" || name[0] == '"' || strings.Contains(name, " ") {
		return strconv.Quote(name)
	}
	return oneLine(name)
}

// oneLine quotes a text that would break its line or the terminal.
func oneLine(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
