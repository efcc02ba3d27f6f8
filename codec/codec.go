// Package codec puts further encodings behind the engine's: compression (package
// codec/zstd), encryption ([AESGCM]), Protocol Buffers (package codec/protobuf).
// The store sees none of it.
//
//	keys := codec.Keyring{Current: "2026-11", Keys: map[string][]byte{"2026-11": key}}
//	eng := engine.New(st, engine.Encoding(codec.Chain(engine.JSON{}, zstd.New(), codec.AESGCM(keys))))
//
// All engines and workers of a namespace need the same codec. What a [Transform] has
// written begins with a mark, so that payloads from before it was added are still
// read; so add it to every program first, and take it out never. Payload limits
// count the encoded bytes. Names, external ids, state keys and the texts of errors
// are no payloads: they are stored as they are.
package codec

import (
	"fmt"

	"github.com/pawlhq/pawl/engine"
)

// Transform changes encoded payloads on their way to the store and back. It may be
// used by many goroutines.
type Transform interface {
	// Seal returns what is stored for data.
	Seal(data []byte) ([]byte, error)
	// Open returns the data of what Seal has returned. What Seal has not made comes
	// back as it is, unless the transform insists on it.
	Open(sealed []byte) ([]byte, error)
}

// Chain is a codec that encodes by base and sends the bytes through the transforms, in
// their order, and back in the opposite one. An absent payload stays absent. What a
// transform cannot seal or open matches [engine.ErrCodec].
func Chain(base engine.Codec, transforms ...Transform) engine.Codec {
	return chain{base, transforms}
}

type chain struct {
	base       engine.Codec
	transforms []Transform
}

func (c chain) Marshal(v any) ([]byte, error) {
	data, err := c.base.Marshal(v)
	for i := 0; i < len(c.transforms) && err == nil; i++ {
		if data, err = c.transforms[i].Seal(data); err != nil {
			err = unable(err)
		}
	}
	return data, err
}

// unable is the error of a transform, as [engine.Codec] has it.
func unable(err error) error { return fmt.Errorf("%w: %w", engine.ErrCodec, err) }

// Digest implements [engine.Digester], where the base does: of what was encoded, by the
// base; with encryption in the chain under its current key, so that the hash tells
// nothing to those who do not have it.
func (c chain) Digest(data []byte) ([]byte, error) {
	base, ok := c.base.(engine.Digester)
	if !ok {
		return make([]byte, 8), nil // inputs are not compared
	}
	for i := len(c.transforms) - 1; i >= 0 && len(data) > 0; i-- {
		var err error
		if data, err = c.transforms[i].Open(data); err != nil {
			return nil, err
		}
	}
	digest, err := base.Digest(data)
	for _, t := range c.transforms {
		if k, ok := t.(keyed); ok && err == nil {
			digest, err = k.keyedDigest(digest)
		}
	}
	return digest, err
}

// Encryption implements [engine.Encrypter].
func (c chain) Encryption() engine.Encryption {
	enc := engine.EncryptionOf(c.base)
	for _, t := range c.transforms {
		if k, ok := t.(keyed); ok && enc != engine.EncryptionRequired {
			if enc = engine.EncryptionRequired; k.takesPlain() {
				enc = engine.EncryptionOptional
			}
		}
	}
	return enc
}

// keyed is implemented by transforms that keep payloads secret.
type keyed interface {
	keyedDigest(digest []byte) ([]byte, error)
	takesPlain() bool
}

func (c chain) Unmarshal(data []byte, v any) error {
	if len(data) > 0 {
		for i := len(c.transforms) - 1; i >= 0; i-- {
			var err error
			if data, err = c.transforms[i].Open(data); err != nil {
				return unable(err)
			}
		}
	}
	return c.base.Unmarshal(data, v)
}

// Mark begins what a transform has sealed: a zero byte, with which neither JSON nor
// Protocol Buffers begin, and a letter of the transform's.
func Mark(letter byte) [2]byte { return [2]byte{0, letter} }

// cut takes the mark away; false: it is not there.
func cut(data []byte, mark [2]byte) ([]byte, bool) {
	if len(data) < len(mark) || [2]byte(data) != mark {
		return data, false
	}
	return data[len(mark):], true
}

func damaged(what string) error {
	return fmt.Errorf("the payload is marked as %s, but it is damaged or was made with another key", what)
}
