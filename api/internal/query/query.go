// Package query turns structs into the parameters of a URL and back. It uses the json tags, and knows
// the types that package wire needs: strings, numbers, booleans, times, and lists of strings.
package query

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Field is a parameter.
type Field struct {
	Name  string
	Tag   reflect.StructTag
	Field reflect.StructField
	Index []int
}

// Fields lists the parameters of a struct, with those of the structs that it embeds.
func Fields(t reflect.Type) (list []Field) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		list = append(list, Field{name, f.Tag, f, f.Index})
	}
	return list
}

// Encode returns the parameters of the fields that are not zero.
func Encode(v any) url.Values {
	values := url.Values{}
	if v == nil {
		return values
	}
	rv := reflect.ValueOf(v)
	for _, f := range Fields(rv.Type()) {
		fv := rv.FieldByIndex(f.Index)
		if fv.IsZero() {
			continue
		}
		switch x := fv.Interface().(type) {
		case *time.Time:
			values.Set(f.Name, x.UTC().Format(time.RFC3339Nano))
		case []string:
			values[f.Name] = x
		default:
			values.Set(f.Name, fmt.Sprint(x))
		}
	}
	return values
}

// Decode reads parameters into the struct that v points to. An unknown parameter, one that is given
// twice and is no list, and a value out of range are store.ErrInvalid.
func Decode(values url.Values, v any) error {
	rv := reflect.ValueOf(v).Elem()
	fields := map[string]Field{}
	for _, f := range Fields(rv.Type()) {
		fields[f.Name] = f
		if f.Tag.Get("required") != "" && values.Get(f.Name) == "" {
			return store.Invalid(f.Name, "it is required")
		}
	}
	for name, list := range values {
		f, ok := fields[name]
		if !ok {
			return store.Invalid("parameter", fmt.Sprintf("unknown parameter %q", clip(name)))
		}
		if err := set(rv.FieldByIndex(f.Index), f, list); err != nil {
			return err
		}
	}
	return nil
}

func set(fv reflect.Value, f Field, list []string) error {
	if _, ok := fv.Interface().([]string); ok {
		all := list
		if f.Tag.Get("enum") != "" {
			all = strings.Split(strings.Join(list, ","), ",") // these values have no commas
		}
		for _, s := range all {
			if err := enum(f, s); err != nil {
				return err
			}
		}
		fv.Set(reflect.ValueOf(all))
		return nil
	}
	if len(list) != 1 {
		return store.Invalid(f.Name, "it is given more than once")
	}
	s := list[0]
	if s == "" {
		return nil
	}
	switch fv.Interface().(type) {
	case *time.Time:
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return store.Invalid(f.Name, fmt.Sprintf("%q is not a time such as 2006-01-02T15:04:05Z", clip(s)))
		}
		fv.Set(reflect.ValueOf(&t))
		return nil
	}
	switch fv.Kind() {
	case reflect.String:
		if err := enum(f, s); err != nil {
			return err
		}
		fv.SetString(s)
	case reflect.Bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return store.Invalid(f.Name, fmt.Sprintf("%q is neither true nor false", clip(s)))
		}
		fv.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return store.Invalid(f.Name, fmt.Sprintf("%q is not a whole number", clip(s)))
		}
		if err := Range(f.Name, f.Tag, n); err != nil {
			return err
		}
		fv.SetInt(n)
	default:
		panic("query: the type of " + f.Name + " is not supported")
	}
	return nil
}

// Range checks a number against the tags minimum and maximum.
func Range(name string, tag reflect.StructTag, n int64) error {
	if least, err := strconv.ParseInt(tag.Get("minimum"), 10, 64); err == nil && n < least {
		return store.Invalid(name, fmt.Sprintf("%d is below %d", n, least))
	}
	if most, err := strconv.ParseInt(tag.Get("maximum"), 10, 64); err == nil && n > most {
		return store.Invalid(name, fmt.Sprintf("%d is above %d", n, most))
	}
	return nil
}

// enum checks a text against the tag enum.
func enum(f Field, s string) error {
	return Enum(f.Name, f.Tag, s)
}

// Enum checks a text against the tag enum.
func Enum(name string, tag reflect.StructTag, s string) error {
	all := tag.Get("enum")
	if all == "" {
		return nil
	}
	for one := range strings.SplitSeq(all, ",") {
		if s == one {
			return nil
		}
	}
	return store.Invalid(name, fmt.Sprintf("unknown value %q; want %s", clip(s), strings.ReplaceAll(all, ",", ", ")))
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
