package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/api/internal/query"
	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// call is a request that is being answered.
type call struct {
	s      *server
	op     *operation
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	caller Caller
	eng    *engine.Engine
	space  *space
	began  bool // the answer has begun

	shows *bool // whether the caller may see payloads; nil: not asked yet
}

func (c *call) run() error {
	if err := c.enter(); err != nil {
		return err
	}
	if c.op.action != "" {
		if err := c.allow(c.op.action, c.target()); err != nil {
			return err
		}
	}
	return c.op.do(c)
}

// enter finds the namespace.
func (c *call) enter() error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return store.Invalid("parameters", err.Error())
	}
	c.space = c.s.own
	if name := values.Get("namespace"); name != "" {
		if c.space = c.s.spaces[name]; c.space == nil {
			return unknownNamespace(name)
		}
	}
	c.eng = c.space.eng
	return nil
}

func unknownNamespace(name string) error {
	return problem(http.StatusNotFound, wire.CodeNotFound, fmt.Sprintf("there is no namespace %q", cut(name, 100)))
}

// target is what the path names.
func (c *call) target() Target {
	t := Target{Namespace: c.eng.Namespace()}
	name := c.r.PathValue("name")
	switch {
	case strings.HasPrefix(c.op.path, "/v1/runs/{id}"):
		t.Run, _ = store.ParseID(c.r.PathValue("id"))
	case strings.HasPrefix(c.op.path, "/v1/schedules/"):
		t.Schedule = name
	case strings.HasPrefix(c.op.path, "/v1/queues/"):
		t.Queue = name
	case strings.HasPrefix(c.op.path, "/v1/workflows/"):
		t.Workflow = name
	case strings.HasPrefix(c.op.path, "/v1/workers/"):
		t.Worker = c.r.PathValue("id")
	case strings.HasPrefix(c.op.path, "/v1/limits/"):
		t.Limit = name
	case strings.HasPrefix(c.op.path, "/v1/webhooks/"):
		t.Webhook = name
	}
	return t
}

// allow asks whether the caller may do an action.
func (c *call) allow(a Action, t Target) error {
	err := c.s.authorize(c.ctx, a, t)
	switch {
	case err == nil:
		return nil
	case c.space != c.s.own:
		return unknownNamespace(t.Namespace)
	}
	p := problem(http.StatusForbidden, wire.CodeForbidden, err.Error())
	p.Action = string(a)
	return p
}

// payloads reports whether the caller may see payloads.
func (c *call) payloads() bool {
	if c.shows == nil {
		ok := c.s.authorize(c.ctx, ReadPayloads, c.target()) == nil
		c.shows = &ok
	}
	return *c.shows
}

// id is the run that the path names.
func (c *call) id() (store.ID, error) { return store.ParseID(c.r.PathValue("id")) }

// readQuery reads the parameters of the URL.
func (c *call) readQuery(v any) error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return store.Invalid("parameters", err.Error())
	}
	return query.Decode(values, v)
}

// readBody reads the JSON body. An empty one is the zero value, unless needed.
func (c *call) readBody(v any, needed bool) error {
	if c.r.Body == nil || c.r.Body == http.NoBody {
		if needed {
			return store.Invalid("body", "it is empty; want a JSON object")
		}
		return nil
	}
	data, err := c.read(c.s.maxBody)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		if needed {
			return store.Invalid("body", "it is empty; want a JSON object")
		}
		return nil
	}
	if err := c.isJSON(); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return store.Invalid("body", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return store.Invalid("body", "something follows the JSON object")
	}
	return check(reflect.ValueOf(v).Elem())
}

// read reads the body, up to a number of bytes.
func (c *call) read(most int64) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		p := problem(http.StatusRequestEntityTooLarge, wire.CodeTooLarge, fmt.Sprintf("the body has more than %d bytes", most))
		p.Field, p.Limit = "body", most
		return nil, p
	case err != nil:
		return nil, store.Invalid("body", "it could not be read: "+err.Error())
	}
	return data, nil
}

func (c *call) isJSON() error {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return problem(http.StatusUnsupportedMediaType, wire.CodeMediaType, "the Content-Type of the body must be application/json")
	}
	return nil
}

// check checks the tags enum, minimum and maximum of a body.
func check(v reflect.Value) error {
	for _, f := range query.Fields(v.Type()) {
		fv := v.FieldByIndex(f.Index)
		switch {
		case fv.Kind() == reflect.String && fv.String() != "":
			if err := query.Enum(f.Name, f.Tag, fv.String()); err != nil {
				return err
			}
		case fv.CanInt():
			if err := query.Range(f.Name, f.Tag, fv.Int()); err != nil {
				return err
			}
		case fv.Kind() == reflect.Struct:
			if err := check(fv); err != nil {
				return err
			}
		case fv.Kind() == reflect.Slice && fv.Type().Elem().Kind() == reflect.String:
			for i := range fv.Len() {
				if err := query.Enum(f.Name, f.Tag, fv.Index(i).String()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// answer writes JSON.
func (c *call) answer(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("the answer of %s: %w", c.op.id, err)
	}
	c.began = true
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body)
	return nil
}

// fail answers with the problem of an error.
func (c *call) fail(err error) {
	p := problemOf(err)
	if p.Code == wire.CodeInternal {
		c.eng.Logger().Error("the API failed", "operation", c.op.id, "error", err)
	}
	fail(c.w, p)
}

// payload is a payload as the caller may see it.
func (c *call) payload(b []byte, most int) *wire.Payload {
	switch {
	case b == nil:
		return nil
	case !c.payloads():
		return &wire.Payload{Size: -1, Hidden: true}
	}
	return showPayload(c.eng.Codec(), b, most)
}

// showPayload decodes a payload of at most that many bytes.
func showPayload(codec engine.Codec, b []byte, most int) *wire.Payload {
	p := &wire.Payload{Size: len(b)}
	if most == 0 {
		most = defaultPayload
	}
	switch {
	case len(b) > most:
		p.Omitted = true
	case json.Valid(b) && utf8.Valid(b):
		p.JSON = b
	default:
		var raw json.RawMessage
		err := codec.Unmarshal(b, &raw)
		switch {
		case err == nil && len(raw) > most:
			p.Omitted = true
		case err == nil && json.Valid(raw) && utf8.Valid(raw):
			p.JSON = raw
		default:
			p.Base64 = b
		}
	}
	return p
}

// defaultPayload is the limit of a payload that a request does not set.
const defaultPayload = 64 << 10

// encode makes a payload of JSON, or of bytes that are encoded already.
func (c *call) encode(field string, raw json.RawMessage, encoded []byte) ([]byte, error) {
	switch {
	case raw != nil && encoded != nil:
		return nil, store.Invalid(field, "it is given as JSON and in base64; want one")
	case raw == nil:
		return encoded, nil
	}
	data, err := c.eng.Codec().Marshal(raw)
	if err != nil {
		p := problem(http.StatusUnprocessableEntity, wire.CodeCodec, fmt.Sprintf("the engine's codec cannot encode JSON: %v; send it encoded, in base64", err))
		p.Field = field
		return nil, p
	}
	return data, nil
}

// duration reads a duration that is not negative.
func duration(field, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, store.Invalid(field, fmt.Sprintf("%q is not a duration such as 90s or 12h", cut(s, 100)))
	}
	return d, nil
}

func cut(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
