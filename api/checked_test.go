package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/api"
)

// document is the OpenAPI document, as far as the tests need it.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	OperationID string
	Responses   map[string]struct {
		Content map[string]struct{ Schema schema }
	}
}

// schema is the part of JSON Schema that the document uses.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Format               string
	ContentEncoding      string
	Enum                 []string
	Properties           map[string]schema
	Required             []string
	Items                *schema
	AdditionalProperties *schema
	Minimum, Maximum     *float64
}

var readDocument = sync.OnceValue(func() document {
	var d document
	if err := json.Unmarshal(api.OpenAPI(), &d); err != nil {
		panic(err)
	}
	return d
})

// checked checks each answer of a handler against the document, and notes the operations that succeeded.
func (s *site) checked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.Add(1)
		defer s.running.Done()
		rec := &answer{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(rec, r)
		if err := rec.check(r, &s.called); err != nil {
			s.t.Errorf("%s %s is answered with %d, against the document: %v\n%s", r.Method, r.URL, rec.status, err, rec.body.Bytes())
		}
	})
}

// answer keeps what is answered.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.body.Write(b)
	return a.ResponseWriter.Write(b)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) check(r *http.Request, called *sync.Map) error {
	d := readDocument()
	op, ok := d.find(r)
	if !ok {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			return fmt.Errorf("no operation of the document has this path and method")
		}
		op = operation{}
	}
	if a.status < 300 {
		called.Store(op.OperationID, true)
	}
	kind := a.Header().Get("Content-Type")
	if a.Header().Get("X-Content-Type-Options") != "nosniff" {
		return fmt.Errorf("the header X-Content-Type-Options is missing")
	}
	if a.status >= 400 {
		if kind != "application/problem+json" {
			return fmt.Errorf("the type of a problem is %q", kind)
		}
		return d.checkJSON(schema{Ref: "#/components/schemas/Problem"}, a.body.Bytes())
	}
	want, ok := op.Responses[strconv.Itoa(a.status)]
	if !ok {
		return fmt.Errorf("the document has no such status for %s", op.OperationID)
	}
	if len(want.Content) == 0 {
		if a.body.Len() > 0 {
			return fmt.Errorf("there is a body, and the document has none")
		}
		return nil
	}
	content, ok := want.Content[kind]
	if !ok {
		return fmt.Errorf("the type is %q, and the document has another", kind)
	}
	switch kind {
	case "application/json":
		return d.checkJSON(content.Schema, a.body.Bytes())
	case "text/event-stream":
		for line := range strings.Lines(a.body.String()) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				if err := d.checkJSON(content.Schema, []byte(data)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

var pathParam = regexp.MustCompile(`\\\{\w+\\\}`)

// find finds the operation of a request: the path with the fewest parameters.
func (d *document) find(r *http.Request) (operation, bool) {
	best, found := operation{}, ""
	for path, methods := range d.Paths {
		op, ok := methods[strings.ToLower(r.Method)]
		pattern := "^" + pathParam.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$"
		if ok && regexp.MustCompile(pattern).MatchString(r.URL.EscapedPath()) && (found == "" || strings.Count(path, "{") < strings.Count(found, "{")) {
			best, found = op, path
		}
	}
	return best, found != ""
}

func (d *document) checkJSON(s schema, data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("something follows the document")
	}
	return d.check("$", s, v)
}

// check checks a value. A property that the schema does not have is an error.
func (d *document) check(at string, s schema, v any) error {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		named, ok := d.Components.Schemas[name]
		if !ok {
			return fmt.Errorf("%s: the document has no schema %q", at, name)
		}
		return d.check(at, named, v)
	}
	switch s.Type {
	case "":
		return nil
	case "string":
		text, ok := v.(string)
		if !ok || len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
			return fmt.Errorf("%s: %v is no string of %v", at, v, s.Enum)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return fmt.Errorf("%s: %v is not true or false", at, v)
		}
	case "integer", "number":
		n, ok := v.(json.Number)
		if !ok || s.Type == "integer" && strings.ContainsAny(n.String(), ".eE") {
			return fmt.Errorf("%s: %v is no %s", at, v, s.Type)
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%s: %v is no list", at, v)
		}
		for i, item := range list {
			if err := d.check(fmt.Sprintf("%s[%d]", at, i), *s.Items, item); err != nil {
				return err
			}
		}
	case "object":
		return d.checkObject(at, s, v)
	default:
		return fmt.Errorf("%s: the checker does not know the type %q", at, s.Type)
	}
	return nil
}

func (d *document) checkObject(at string, s schema, v any) error {
	obj, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %v is no object", at, v)
	}
	for _, name := range s.Required {
		if _, ok := obj[name]; !ok {
			return fmt.Errorf("%s: %q is missing", at, name)
		}
	}
	for name, item := range obj {
		of, ok := s.Properties[name]
		switch {
		case ok:
		case s.AdditionalProperties != nil:
			of = *s.AdditionalProperties
		case s.Properties == nil:
			continue
		default:
			return fmt.Errorf("%s: the document has no property %q", at, name)
		}
		if err := d.check(at+"."+name, of, item); err != nil {
			return err
		}
	}
	return nil
}
