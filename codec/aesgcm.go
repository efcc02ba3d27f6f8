package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/engine"
)

// Keyring contains AES keys by name, of 16, 24 or 32 random bytes each. The names have 1 to 255 bytes and
// are stored, readable, with each payload. To rotate keys, first give
// every program the new key, then make it Current. Keep the old key for as long as payloads exist
// that it has sealed: until their runs are deleted.
type Keyring struct {
	Current string            // the name of the key that seals
	Keys    map[string][]byte // all keys that open payloads, including Current
	// AllowPlain accepts payloads that were never sealed. Use it for a time, when
	// encryption is new to a store that has runs. An attacker who can write to the
	// database could then pass off payloads of their own.
	AllowPlain bool
}

// ErrKey means that a payload was sealed with a key that the keyring does not have, or the keyring is
// not valid. The error names the key.
var ErrKey = errors.New("no such key")

// ErrPlain is [engine.ErrPlain]: a payload was not sealed, and [Keyring].AllowPlain is not set.
var ErrPlain = engine.ErrPlain

// AESGCM returns a transform that seals payloads with AES-GCM (NIST SP 800-38D) under a
// random nonce of 12 bytes. One key should seal no more than 4,000,000,000 payloads. A
// payload is not bound to its run: an attacker who can write to the database can put one
// payload in another's place, but can neither read nor change it.
//
// If the keyring is not valid, each Seal and Open fails with [ErrKey]. Open fails with [ErrKey] for an
// unknown key, with [ErrPlain] for a payload that is not sealed, and with another error for one that
// was changed. Later changes of the map in keys have no effect.
func AESGCM(keys Keyring) Transform {
	t := &aesGCM{current: keys.Current, plain: keys.AllowPlain, ciphers: map[string]cipher.AEAD{}}
	for name, key := range keys.Keys {
		if name == "" || len(name) > 255 {
			t.err = fmt.Errorf("%w: a key's name has 1 to 255 bytes, not %d", ErrKey, len(name))
			continue
		}
		block, err := aes.NewCipher(key)
		if err == nil {
			t.ciphers[name], err = cipher.NewGCMWithRandomNonce(block)
		}
		if err != nil {
			t.err = fmt.Errorf("%w: key %q has %d bytes; AES takes 16, 24 or 32", ErrKey, name, len(key))
		}
	}
	mac := hmac.New(sha256.New, keys.Keys[keys.Current])
	mac.Write([]byte("pawl: digests of inputs"))
	t.digests = mac.Sum(nil)
	if t.err == nil && t.ciphers[t.current] == nil {
		t.err = fmt.Errorf("%w: the current key %q is not in the keyring, which has %s", ErrKey, t.current, t.names())
	}
	return t
}

type aesGCM struct {
	current string
	plain   bool
	ciphers map[string]cipher.AEAD
	digests []byte // the key of digests, made from the current key
	err     error
}

var sealedMark = Mark('E')

// Seal implements [Transform]: the mark, the length of the key's name, the name, the
// nonce, and the ciphertext with its tag.
func (t *aesGCM) Seal(data []byte) ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	c := t.ciphers[t.current]
	out := make([]byte, 0, len(sealedMark)+1+len(t.current)+len(data)+c.Overhead())
	out = append(out, sealedMark[:]...)
	out = append(out, byte(len(t.current)))
	out = append(out, t.current...)
	return c.Seal(out, nil, data, out), nil
}

func (t *aesGCM) takesPlain() bool { return t.plain }

// keyedDigest makes a digest that can only be made with the current key. The digest begins with
// bytes that identify the key: digests under different keys are not compared.
func (t *aesGCM) keyedDigest(digest []byte) ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	mac := hmac.New(sha256.New, t.digests)
	mac.Write([]byte("scheme"))
	name := mac.Sum(nil)[:8]
	mac.Reset()
	mac.Write([]byte("digest"))
	mac.Write(digest)
	return mac.Sum(name), nil
}

// Open implements [Transform].
func (t *aesGCM) Open(sealed []byte) ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	rest, ok := cut(sealed, sealedMark)
	if !ok {
		if t.plain {
			return sealed, nil
		}
		return nil, fmt.Errorf("%w: it predates encryption or is not from Pawl; Keyring.AllowPlain accepts such payloads", ErrPlain)
	}
	if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
		return nil, damaged("encrypted")
	}
	end := 1 + int(rest[0])
	name, head := string(rest[1:end]), sealed[:len(sealedMark)+end]
	c := t.ciphers[name]
	if c == nil {
		return nil, fmt.Errorf("%w: the payload is encrypted with key %.64q, but the keyring has %s; add that key to Keyring.Keys", ErrKey, name, t.names())
	}
	data, err := c.Open(nil, nil, rest[end:], head)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", name, damaged("encrypted"))
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

func (t *aesGCM) names() string {
	if len(t.ciphers) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(t.ciphers)), ", ")
}
