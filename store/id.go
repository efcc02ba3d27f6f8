package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// ID identifies a run: 16 bytes, written as a UUID. IDs made by [NewID] sort by the time at which
// they were made.
type ID [16]byte

var lastID struct {
	sync.Mutex
	ms  int64
	seq uint16
}

// NewID makes a random ID that sorts after every one that this process made
// before: a UUID of version 7 (RFC 9562) with a counter in the 12 bits behind
// the milliseconds.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[8:]) // never fails since Go 1.24
	lastID.Lock()
	if ms := time.Now().UnixMilli(); ms > lastID.ms {
		lastID.ms, lastID.seq = ms, 0
	} else if lastID.seq++; lastID.seq > 0xfff {
		lastID.ms, lastID.seq = lastID.ms+1, 0
	}
	ms, seq := lastID.ms, lastID.seq
	lastID.Unlock()
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16|uint64(seq))
	id[6] = 0x70 | id[6]&0x0f
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// DeriveID makes the ID that belongs to a key below a parent: always the same ID for the same pair,
// so that a child that is spawned twice is one child. It has the parent's leading time bits, which
// keeps parents and children together in an index.
func DeriveID(parent ID, key string) ID {
	h := sha256.New()
	h.Write(parent[:])
	h.Write([]byte(key))
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	id := parent
	copy(id[6:], sum[:])
	id[6] = 0x80 | id[6]&0x0f // version 8: custom
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// DeriveIDAt is DeriveID for the members of a sequence. After the time, the ID has 12 bits of the
// place, 64 places for each value, so that IDs made together are adjacent; an index by ID then
// touches fewer pages. The remaining 62 bits are from the key's hash, as many as a random ID has.
func DeriveIDAt(parent ID, key string, place int64) ID {
	id := DeriveID(parent, key)
	binary.BigEndian.PutUint16(id[6:8], 0x8000|uint16(place/64)&0x0fff)
	return id
}

// ParseID reads the form that [ID.String] writes. Its error matches
// [ErrInvalid].
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
		if _, err := hex.Decode(id[:], []byte(digits)); err == nil {
			return id, nil
		}
	}
	return ID{}, Invalid("run id", fmt.Sprintf("%q is not a run id; one looks like 0191a5c2-7e9a-7cc1-b3f0-6b1f0c6e2d11", clip(s)))
}

// IsZero reports whether the ID is unset.
func (id ID) IsZero() bool { return id == ID{} }

// String writes the ID as a UUID in lower case.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

// MarshalText writes the ID as [ID.String] does; the zero ID is empty.
func (id ID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads what [ID.MarshalText] wrote.
func (id *ID) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	*id, err = ParseID(string(b))
	return err
}
