package kit

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// mostDifferences bounds how many are printed.
const mostDifferences = 8

// Differences lists the fields in which two values differ, each as its path with what was
// seen and what was expected; empty: they do not, or are of different types.
func Differences(got, want any) []string {
	var d differing
	d.walk("", reflect.ValueOf(got), reflect.ValueOf(want))
	if n := len(d.lines); n > mostDifferences {
		return append(d.lines[:mostDifferences], fmt.Sprintf("and %d more", n-mostDifferences))
	}
	return d.lines
}

type differing struct{ lines []string }

func (d *differing) add(path, format string, args ...any) {
	if path = strings.TrimPrefix(path, "."); path == "" {
		path = "the value"
	}
	d.lines = append(d.lines, path+": "+fmt.Sprintf(format, args...))
}

func (d *differing) walk(path string, got, want reflect.Value) {
	if !got.IsValid() || !want.IsValid() || got.Type() != want.Type() {
		if got.IsValid() || want.IsValid() {
			d.add(path, "saw %s, expected %s", shown(got), shown(want))
		}
		return
	}
	if reflect.DeepEqual(got.Interface(), want.Interface()) {
		return
	}
	switch g := got.Interface().(type) {
	case []byte:
		d.add(path, "%s", BytesDiffer(g, want.Interface().([]byte)))
		return
	case string:
		w := want.Interface().(string)
		if len(g)+len(w) > 200 {
			d.add(path, "%s", BytesDiffer([]byte(g), []byte(w)))
			return
		}
	case store.ID, time.Time:
		d.add(path, "saw %s, expected %s", shown(got), shown(want))
		return
	}
	switch got.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !got.IsNil() && !want.IsNil() {
			d.walk(path, got.Elem(), want.Elem())
			return
		}
	case reflect.Struct:
		d.fields(path, got, want)
		return
	case reflect.Slice, reflect.Array:
		d.items(path, got, want)
		return
	}
	d.add(path, "saw %s, expected %s", shown(got), shown(want))
}

func (d *differing) fields(path string, got, want reflect.Value) {
	before := len(d.lines)
	for i := range got.NumField() {
		if f := got.Type().Field(i); f.IsExported() {
			d.walk(path+"."+f.Name, got.Field(i), want.Field(i))
		}
	}
	if len(d.lines) == before {
		d.add(path, "saw %s, expected %s", shown(got), shown(want))
	}
}

func (d *differing) items(path string, got, want reflect.Value) {
	switch {
	case got.Len() != want.Len():
		d.add(path, "saw %d items, expected %d", got.Len(), want.Len())
	case got.Len() == 0: // one is nil
		d.add(path, "saw %#v, expected %#v", got.Interface(), want.Interface())
	}
	for i := range min(got.Len(), want.Len()) {
		d.walk(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i))
	}
}

// shown writes a value, not at length.
func shown(v reflect.Value) string {
	if !v.IsValid() {
		return "nil"
	}
	s := Show(v.Interface())
	if len(s) > 300 {
		return fmt.Sprintf("%s... (%d characters)", s[:200], len(s))
	}
	return s
}

// BytesDiffer says where two payloads part.
func BytesDiffer(got, want []byte) string {
	if len(got) <= 100 && len(want) <= 100 {
		return fmt.Sprintf("saw %s, expected %s", Show(got), Show(want))
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	if bytes.Equal(got, want) {
		return fmt.Sprintf("saw %s, expected %s", Show(got), Show(want))
	}
	part := func(b []byte) string { return fmt.Sprintf("%q", b[min(at, len(b)):min(at+20, len(b))]) }
	return fmt.Sprintf("saw %d bytes, expected %d; they part at byte %d: saw %s, expected %s", len(got), len(want), at, part(got), part(want))
}
