package api

import (
	"reflect"
	"strings"
)

// required reports whether a field of a document is always there.
func required(f reflect.StructField) bool {
	name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	return !f.Anonymous && name != "" && name != "-" && !strings.Contains(rest, "omitempty")
}
