package console

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// newKey makes a key for a form, so that a form that is sent twice has one effect. It is a UUID of
// version 7, because it also becomes the id of what the form makes.
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it does not fail
	ms := time.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
