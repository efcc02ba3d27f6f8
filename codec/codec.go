package codec

import (
	"fmt"

	"github.com/pawlhq/pawl/engine"
)

// Transform changes encoded payloads before they are stored, and changes them back when they are read.
// Its methods must be safe for concurrent use. [Chain] wraps their errors so that they match
// [engine.ErrCodec].
type Transform interface {
	// Seal returns what is stored for data. It must not change data.
	Seal(data []byte) ([]byte, error)
	// Open returns the data that Seal was called with. If sealed does not begin with the
	// transform's [Mark], Seal has not made it: then Open returns it unchanged, or an error if the
	// transform requires that all data is sealed. It must not change sealed.
	Open(sealed []byte) ([]byte, error)
}

// Chain returns a codec that encodes with base and then applies the transforms in their
// order. Decoding applies them in the opposite order; an empty payload is not opened, and goes to base
// as it is. If a transform cannot seal or open a payload, the error matches [engine.ErrCodec] and the
// transform's own error. base and the transforms must not be nil.
//
// The codec implements [engine.Digester]: with [AESGCM] in the chain, digests are keyed with the current
// key, and after a change of that key the inputs of older runs are not compared. If base is no
// Digester, inputs are not compared at all. It also implements [engine.Encrypter].
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

// unable wraps the error of a transform as [engine.Codec] requires.
func unable(err error) error { return fmt.Errorf("%w: %w", engine.ErrCodec, err) }

// Digest implements [engine.Digester], if the base does: the base digests what it encoded. With
// encryption in the chain, the digest is keyed with the current key, so that it reveals nothing
// without the key.
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

// Mark returns the two bytes with which the output of a transform begins: a zero byte, with
// which neither JSON nor Protocol Buffers begin, and the transform's own letter. Package zstd uses 'Z',
// and [AESGCM] uses 'E'.
func Mark(letter byte) [2]byte { return [2]byte{0, letter} }

// cut removes the mark. It returns false if there is none.
func cut(data []byte, mark [2]byte) ([]byte, bool) {
	if len(data) < len(mark) || [2]byte(data) != mark {
		return data, false
	}
	return data[len(mark):], true
}

func damaged(what string) error {
	return fmt.Errorf("the payload is marked as %s, but it is damaged or was made with another key", what)
}
