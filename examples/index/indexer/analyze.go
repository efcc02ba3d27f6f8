package indexer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// FileStats is what the index keeps of one file. Of a file that could not be
// read, only Path and Err are set.
type FileStats struct {
	Path   string  `json:"path"` // below the root, with slashes
	Hash   string  `json:"hash,omitempty"`
	Bytes  int64   `json:"bytes,omitempty"`
	Lines  int64   `json:"lines,omitempty"` // a last line without its newline counts
	Words  int64   `json:"words,omitempty"` // between ASCII white space
	Binary bool    `json:"binary,omitempty"`
	Top    []Ident `json:"top,omitempty"` // at most TopIdents, most frequent first
	Err    string  `json:"err,omitempty"`
}

// Ident is an identifier and how often it was seen.
type Ident struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// TopIdents is how many identifiers a file's stats keep.
const TopIdents = 10

// maxIdent bounds the identifiers that are counted, in bytes: a line of base64
// is not one.
const maxIdent = 100

// A file is binary when a NUL stands among its first bytes, which is also what
// git goes by.
const sniffLen = 8000

const chunkSize = 64 << 10

// Analyze measures one file below root. A file that cannot be opened or read is
// an error; [Failed] turns it into stats for the report. The path cannot lead
// out of root, not even through a symbolic link.
func Analyze(ctx context.Context, root, name string) (FileStats, error) {
	f, err := os.OpenInRoot(root, name)
	if err != nil {
		return FileStats{}, err
	}
	defer f.Close()
	return measure(ctx, name, f)
}

// Failed gives the stats of a file that could not be measured.
func Failed(name string, err error) FileStats {
	return FileStats{Path: name, Err: reason(err)}
}

// reason leaves the path out of an error: the report names the file by its own
// path and should be the same wherever the tree lies.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Op + ": " + pe.Err.Error()
	}
	return err.Error()
}

func measure(ctx context.Context, name string, r io.Reader) (FileStats, error) {
	st := FileStats{Path: name}
	hash := sha256.New()
	text := scanner{counts: map[string]*int64{}}
	buf := make([]byte, chunkSize)
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return FileStats{}, err
		}
		n, err := io.ReadFull(r, buf)
		chunk := buf[:n]
		if first {
			st.Binary = bytes.IndexByte(chunk[:min(n, sniffLen)], 0) >= 0
		}
		st.Bytes += int64(n)
		hash.Write(chunk)
		if !st.Binary {
			text.scan(chunk)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return FileStats{}, fmt.Errorf("after %d bytes: %w", st.Bytes, err)
		}
	}
	st.Hash = hex.EncodeToString(hash.Sum(nil))
	if !st.Binary {
		text.end()
		st.Lines, st.Words = text.lines, text.words
		st.Top = text.top(path.Ext(name) == ".go")
	}
	return st, nil
}

// A scanner counts the lines, words and identifiers of a text that comes in
// pieces.
type scanner struct {
	lines, words int64
	counts       map[string]*int64

	inLine, inWord bool
	token          []byte // letters, digits, underscores and bytes beyond ASCII so far
	skip           bool   // the token is no identifier
}

// scan takes the next piece. An identifier is [A-Za-z_][A-Za-z0-9_]* between
// other characters: not the end of a number such as 0x1F, and not a piece of a
// word that goes on beyond ASCII.
func (s *scanner) scan(chunk []byte) {
	for _, c := range chunk {
		s.inLine = true
		space := false
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_':
			s.add(c)
		case '0' <= c && c <= '9':
			s.skip = s.skip || len(s.token) == 0
			s.add(c)
		case c >= 0x80:
			s.skip = true
			s.add(c)
		default:
			s.endToken()
			if c == '\n' {
				s.lines++
				s.inLine = false
			}
			space = c == ' ' || '\t' <= c && c <= '\r'
		}
		if !space && !s.inWord {
			s.words++
		}
		s.inWord = !space
	}
}

func (s *scanner) add(c byte) {
	if len(s.token) < maxIdent {
		s.token = append(s.token, c)
	} else {
		s.skip = true
	}
}

func (s *scanner) endToken() {
	if len(s.token) > 0 && !s.skip {
		if n := s.counts[string(s.token)]; n != nil {
			*n++
		} else {
			s.counts[string(s.token)] = new(int64(1))
		}
	}
	s.token, s.skip = s.token[:0], false
}

func (s *scanner) end() {
	s.endToken()
	if s.inLine {
		s.lines++
	}
}

func (s *scanner) top(isGo bool) []Ident {
	counts := make(map[string]int64, len(s.counts))
	for name, n := range s.counts {
		if !isGo || !token.IsKeyword(name) {
			counts[name] = *n
		}
	}
	return mostFrequent(counts, TopIdents)
}

// mostFrequent orders by count, most first, then by name.
func mostFrequent(counts map[string]int64, limit int) []Ident {
	idents := make([]Ident, 0, len(counts))
	for name, n := range counts {
		idents = append(idents, Ident{name, n})
	}
	slices.SortFunc(idents, func(a, b Ident) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	if len(idents) == 0 {
		return nil
	}
	return slices.Clone(idents[:min(limit, len(idents))])
}
