package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/internal/query"
	"github.com/pawlhq/pawl/api/wire"
)

var rewrite = flag.Bool("update", false, "write openapi.json")

// TestDocumentIsThatOfTheRoutes checks the committed document against the table of operations and the
// types of package wire, from which it is made.
func TestDocumentIsThatOfTheRoutes(t *testing.T) {
	g := &generator{comments: readComments(t), schemas: map[string]any{}}
	want, err := json.MarshalIndent(g.document(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *rewrite {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("openapi.json is not the document of the routes; run go test ./api -run TestDocumentIsThatOfTheRoutes -update")
	}
}

// TestEveryOperationIsInTheClient checks that the client has a method for each operation, which takes its
// parameters and its body.
func TestEveryOperationIsInTheClient(t *testing.T) {
	methods := map[string]bool{}
	for _, op := range operations() {
		name := strings.ToUpper(op.id[:1]) + op.id[1:]
		methods[name] = true
		m, ok := reflect.TypeFor[*client.Client]().MethodByName(name)
		if !ok {
			t.Errorf("the client has no method %s", name)
			continue
		}
		takes := func(want reflect.Type) bool {
			for i := range m.Type.NumIn() {
				if m.Type.In(i) == want {
					return true
				}
			}
			return want == noneType || want == nil || want == reflect.TypeFor[wire.In]()
		}
		for _, want := range []reflect.Type{op.query, op.body} {
			if !takes(want) {
				t.Errorf("%s does not take a %v", name, want)
			}
		}
	}
	c := reflect.TypeFor[*client.Client]()
	for i := range c.NumMethod() {
		if name := c.Method(i).Name; !methods[name] {
			t.Errorf("the client has a method %s, which is no operation", name)
		}
	}
}

// generator makes the document.
type generator struct {
	comments map[string]string // "Type" and "Type.Field" -> comment
	schemas  map[string]any
}

type object = map[string]any

func (g *generator) document() object {
	paths := object{}
	for _, op := range operations() {
		at, _ := paths[op.path].(object)
		if at == nil {
			at = object{}
			paths[op.path] = at
		}
		at[strings.ToLower(op.method)] = g.operation(op)
	}
	g.schema(reflect.TypeFor[wire.Problem]())
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Pawl", "version": "1",
			"description": "Shows, starts, controls and repairs runs of durable workflows. Fields may be added to answers; none is renamed or removed.",
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []any{object{"url": "./"}},
		"paths":      paths,
		"components": object{"schemas": g.schemas},
	}
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

func (g *generator) operation(op *operation) object {
	var params []any
	for _, m := range pathParam.FindAllStringSubmatch(op.path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, f := range query.Fields(op.query) {
		p := object{"name": f.Name, "in": "query", "schema": g.field(f.Field)}
		if f.Tag.Get("required") != "" {
			p["required"] = true
		}
		if text := g.comment(op.query, f.Field); text != "" {
			p["description"] = text
		}
		params = append(params, p)
	}
	for _, h := range op.headers {
		params = append(params, object{"name": h, "in": "header", "schema": object{"type": "string"}})
	}
	out := object{"operationId": op.id, "summary": op.about, "responses": object{
		strconv.Itoa(op.status): g.answer(op),
		"default": object{"description": "A problem, as in RFC 9457.",
			"content": object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}},
	}}
	if op.action != "" {
		out["x-action"] = string(op.action)
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	switch {
	case op.body == nil:
		out["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": object{"type": "object"}}}}
	case op.body != noneType:
		out["requestBody"] = object{"required": needsBody(op.body), "content": object{"application/json": object{"schema": g.schema(op.body)}}}
	}
	return out
}

func (g *generator) answer(op *operation) object {
	out := object{"description": http.StatusText(op.status)}
	media := op.media
	if media == "" {
		media = "application/json"
	}
	switch {
	case op.answers == nil && media == "application/json":
		out["content"] = object{media: object{"schema": object{"type": "object"}}}
	case op.answers == nil:
		out["content"] = object{media: object{"schema": object{"type": "string"}}}
	case op.answers != noneType:
		out["content"] = object{media: object{"schema": g.schema(op.answers)}}
	}
	return out
}

// schema returns the schema of a type, and adds those of structs to the document.
func (g *generator) schema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.schema(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": g.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.schema(t.Elem())}
	case reflect.Struct:
		return g.structure(t)
	}
	panic("no schema for " + t.String())
}

func (g *generator) structure(t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if g.schemas[t.Name()] != nil {
		return ref
	}
	out := object{"type": "object"}
	g.schemas[t.Name()] = out
	props, needed := object{}, []any{}
	for _, f := range query.Fields(t) {
		schema := g.field(f.Field)
		if text := g.comment(t, f.Field); text != "" {
			schema["description"] = text
		}
		props[f.Name] = schema
		if required(f.Field) {
			needed = append(needed, f.Name)
		}
	}
	out["properties"] = props
	if len(needed) > 0 {
		out["required"] = needed
	}
	if text := g.comments[t.Name()]; text != "" {
		out["description"] = text
	}
	return ref
}

// field returns the schema of a field, with its limits.
func (g *generator) field(f reflect.StructField) object {
	out := g.schema(f.Type)
	for _, limit := range []string{"minimum", "maximum"} {
		if n, err := strconv.Atoi(f.Tag.Get(limit)); err == nil {
			out[limit] = n
		}
	}
	if enum := f.Tag.Get("enum"); enum != "" {
		at := out
		if items, ok := out["items"].(object); ok {
			at = items
		}
		at["enum"] = strings.Split(enum, ",")
	}
	return out
}

// comment is that of a field, which may be of an embedded struct.
func (g *generator) comment(t reflect.Type, f reflect.StructField) string {
	if len(f.Index) > 1 {
		for _, i := range f.Index[:len(f.Index)-1] {
			t = t.Field(i).Type
		}
	}
	return g.comments[t.Name()+"."+f.Name]
}

// readComments reads the doc comments of package wire.
func readComments(t *testing.T) map[string]string {
	files, err := filepath.Glob("wire/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of package wire: %v", err)
	}
	comments := map[string]string{}
	text := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				ts := spec.(*ast.TypeSpec)
				comments[ts.Name.Name] = text(gen.Doc)
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range st.Fields.List {
					for _, n := range f.Names {
						comments[ts.Name.Name+"."+n.Name] = text(f.Doc)
					}
				}
			}
		}
	}
	return comments
}
