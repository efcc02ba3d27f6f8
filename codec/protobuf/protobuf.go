package protobuf

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/pawlhq/pawl/engine"
)

// Codec encodes values whose type is a message (a pointer, as in generated code) in the wire
// format, and all others with Other. A value is decoded according to its type at that time: if a
// type becomes a message, or is no longer one, its workflow needs a new version.
type Codec struct {
	Other engine.Codec // nil: engine.JSON
}

func (c Codec) other() engine.Codec {
	if c.Other == nil {
		return engine.JSON{}
	}
	return c.Other
}

// Marshal implements [engine.Codec].
func (c Codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return c.other().Marshal(v)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// Digest implements [engine.Digester] with [engine.DigestOf] the encoded bytes. The encodings of
// equal messages are equal unless their unknown fields are in different order. Values that are not
// messages are also compared by their bytes.
func (c Codec) Digest(data []byte) ([]byte, error) { return engine.DigestOf(data), nil }

// Unmarshal implements [engine.Codec]. V points to a message, or to a variable that holds a
// pointer to one, which may be nil.
func (c Codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		m, ok = target(v)
	}
	if !ok {
		return c.other().Unmarshal(data, v)
	}
	if err := engine.Unmarked(data); err != nil {
		return err
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("message %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

// target finds the message that v, a pointer to a pointer, is to hold.
func target(v any) (proto.Message, bool) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() || p.Elem().Kind() != reflect.Pointer || !p.Elem().Type().Implements(reflect.TypeFor[proto.Message]()) {
		return nil, false
	}
	if p.Elem().IsNil() {
		p.Elem().Set(reflect.New(p.Elem().Type().Elem()))
	}
	return p.Elem().Interface().(proto.Message), true
}
