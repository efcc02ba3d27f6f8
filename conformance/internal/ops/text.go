package ops

import (
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/store"
)

// Names writes values in such a way that equal ones, and only those, get equal
// texts, and that a person can read a sequence: IDs and namespaces by short
// names, times since the sequence began, fields of zero left out. nil bytes and
// empty ones differ; other nil and empty lists do not.
type Names struct {
	IDs   map[store.ID]string
	Texts map[string]string
}

// Outcome writes a result, or its error's class.
func (n *Names) Outcome(v any, err error) string {
	if err != nil {
		return errorClass(err)
	}
	return n.Write(v)
}

// errorClass names the sentinels that an error matches.
func errorClass(err error) string {
	var out []string
	for _, s := range kit.Sentinels {
		if errors.Is(err, s) {
			out = append(out, s.Error())
		}
	}
	if len(out) == 0 {
		return fmt.Sprintf("error of no class: %v", err)
	}
	return "error(" + strings.Join(out, " and ") + ")"
}

// Write writes a value.
func (n *Names) Write(v any) string {
	var b strings.Builder
	n.value(&b, reflect.ValueOf(v))
	return b.String()
}

func (n *Names) value(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
		b.WriteString("nil")
		return
	case reflect.Interface:
		if err, ok := v.Interface().(error); ok {
			b.WriteString(errorClass(err))
			return
		}
		n.value(b, v.Elem())
		return
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		n.value(b, v.Elem())
		return
	}
	switch x := v.Interface().(type) {
	case store.ID:
		b.WriteString(n.id(x))
		return
	case time.Time:
		b.WriteString(instant(x))
		return
	case []byte:
		b.WriteString(payload(x))
		return
	case store.StepKey:
		b.WriteString(text(x.String()))
		return
	case fmt.Stringer: // statuses, kinds, durations
		if v.Kind() != reflect.Struct { // a step has its key's method
			b.WriteString(x.String())
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		n.fields(b, v)
	case reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(' ')
			}
			n.value(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.String:
		if short, ok := n.Texts[v.String()]; ok {
			b.WriteString(short)
		} else {
			b.WriteString(text(v.String()))
		}
	default:
		fmt.Fprintf(b, "%v", v.Interface())
	}
}

func (n *Names) fields(b *strings.Builder, v reflect.Value) {
	b.WriteByte('{')
	wrote := false
	for i := range v.NumField() {
		f, val := v.Type().Field(i), v.Field(i)
		if SkipField(val) {
			continue
		}
		if wrote {
			b.WriteByte(' ')
		}
		wrote = true
		switch {
		case f.Type == reflect.TypeFor[bool]():
			b.WriteString(f.Name)
			continue
		case f.Name == "Cursor" || f.Name == "Next" && f.Type.Kind() == reflect.String:
			b.WriteString(f.Name)
			continue // its bytes hold the sequence's own IDs
		case f.Anonymous && f.Type.Kind() == reflect.Struct: // a step's key
			b.WriteString("Key:")
			n.value(b, val)
			continue
		}
		b.WriteString(f.Name)
		b.WriteByte(':')
		n.value(b, val)
	}
	b.WriteByte('}')
}

// SkipField tells whether a field is left out: it is zero, or an empty list.
func SkipField(v reflect.Value) bool {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 {
		return v.Len() == 0
	}
	return v.IsZero()
}

func (n *Names) id(id store.ID) string {
	if name, ok := n.IDs[id]; ok {
		return name
	}
	return id.String()
}

// instant writes a time as the span since the sequence began.
func instant(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := t.Sub(kit.Began)
	s := "+" + d.String()
	if d < 0 {
		s = d.String()
	}
	if t.Location() != time.UTC {
		s += "(not UTC)"
	}
	return s
}

// payload writes bytes; a long one by its size and a sum.
func payload(b []byte) string {
	switch {
	case b == nil:
		return "nil"
	case len(b) > 64:
		return fmt.Sprintf("%d bytes %q.. of sum %08x", len(b), b[:4], crc32.ChecksumIEEE(b))
	}
	return strconv.Quote(string(b))
}

// text writes a string, in quotes where it needs them.
func text(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_#/.", r)
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return strconv.Quote(s)
	}
	return s
}
