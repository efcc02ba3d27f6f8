package storekit

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// OrderedKey is a key of a database that orders keys by their bytes. It consists of parts, and keys
// sort as their parts do. Its methods return a new key, so that one key may be the prefix of
// several.
type OrderedKey []byte

// And appends bytes.
func (k OrderedKey) And(b ...byte) OrderedKey { return append(k[:len(k):len(k)], b...) }

// ID appends the ID of a run or a signal.
func (k OrderedKey) ID(id store.ID) OrderedKey { return k.And(id[:]...) }

// Name appends a name or an external id, followed by a zero byte, which names do not contain.
func (k OrderedKey) Name(s string) OrderedKey { return append(k.And([]byte(s)...), 0) }

// Number appends a number.
func (k OrderedKey) Number(n int64) OrderedKey {
	return binary.BigEndian.AppendUint64(k.And(), uint64(n)^1<<63)
}

// Time appends a time, in microseconds.
func (k OrderedKey) Time(t time.Time) OrderedKey { return k.Number(t.UnixMicro()) }

// Priority appends a run's priority. The highest comes first.
func (k OrderedKey) Priority(p int) OrderedKey { return k.And(byte(store.MaxPriority - p)) }

// Next returns the first key after k.
func (k OrderedKey) Next() OrderedKey { return k.And(0) }

// End returns the first key after all keys that begin with k. At least one byte of k must be below
// 0xff.
func (k OrderedKey) End() OrderedKey {
	out := slices.Clone(k)
	for i := len(out) - 1; ; i-- {
		if out[i]++; out[i] != 0 {
			return out[:i+1]
		}
	}
}

// All returns the span of the keys that begin with k.
func (k OrderedKey) All() Span { return Span{k, k.End()} }

// LastID returns the ID at the end of a key.
func LastID(key []byte) (id store.ID) {
	copy(id[:], key[len(key)-len(id):])
	return id
}

// LastNumber returns the number at the end of a key.
func LastNumber(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(key)-8:]) ^ 1<<63)
}

// Span is a range of keys: From <= key < To.
type Span struct{ From, To OrderedKey }

// Behind returns the part of the span that follows a key: the keys above it, or, backwards, those
// below it. A page begins with it, after the last row of the previous page.
func (s Span) Behind(k OrderedKey, backwards bool) Span {
	switch {
	case !backwards && bytes.Compare(k, s.From) >= 0:
		s.From = k.Next()
	case backwards && bytes.Compare(k, s.To) < 0:
		s.To = k
	}
	return s
}

// Line is a span that is merged with others. They are ordered by the rest of their keys after the
// first Skip bytes.
type Line struct {
	Span
	Skip int
}

// Merge yields the keys of several lines in one order, each with the number of its line. scan reads
// a span; the key that it yields is valid until the next one. Merge reads a line no further than
// necessary, and stops reading a line that is not wanted any more; a nil wanted wants all.
func Merge(lines []Line, backwards bool, scan func(Span) iter.Seq[[]byte], wanted func(line int) bool) iter.Seq2[int, OrderedKey] {
	return func(yield func(int, OrderedKey) bool) {
		heads, pull := make([]OrderedKey, len(lines)), make([]func() ([]byte, bool), len(lines))
		advance := func(i int) {
			k, _ := pull[i]()
			heads[i] = bytes.Clone(k)
		}
		for i, l := range lines {
			next, stop := iter.Pull(scan(l.Span))
			defer stop()
			pull[i] = next
			advance(i)
		}
		for {
			first := -1
			for i, k := range heads {
				if k == nil || wanted != nil && !wanted(i) {
					continue
				}
				if first < 0 || bytes.Compare(k[lines[i].Skip:], heads[first][lines[first].Skip:]) < 0 != backwards {
					first = i
				}
			}
			if first < 0 || !yield(first, heads[first]) {
				return
			}
			advance(first)
		}
	}
}
