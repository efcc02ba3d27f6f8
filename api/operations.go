package api

import (
	"net/http"
	"reflect"

	"github.com/pawlhq/pawl/api/wire"
)

// operation is a route of the API. The OpenAPI document is made of this table and of the types
// of package wire.
type operation struct {
	id, method, path, about string
	action                  Action // empty: the handler asks itself
	query, body, answers    reflect.Type
	status                  int
	media                   string // of an answer that is not JSON
	headers                 []string
	do                      func(*call) error
}

// none is the type of an absent body or answer.
type none struct{}

var noneType = reflect.TypeFor[none]()

// read makes an operation that changes nothing.
func read[Q, A any](id, path string, action Action, about string, do func(*call, *Q) (A, error)) *operation {
	return &operation{id: id, method: http.MethodGet, path: path, about: about, action: action,
		query: reflect.TypeFor[Q](), body: noneType, answers: reflect.TypeFor[A](), status: http.StatusOK,
		do: func(c *call) error {
			var q Q
			if err := c.readQuery(&q); err != nil {
				return err
			}
			a, err := do(c, &q)
			if err != nil {
				return err
			}
			return c.answer(http.StatusOK, a)
		}}
}

// write makes an operation that changes something.
func write[Q, B, A any](method, id, path string, action Action, status int, about string, do func(*call, *Q, *B) (A, error)) *operation {
	op := &operation{id: id, method: method, path: path, about: about, action: action,
		query: reflect.TypeFor[Q](), body: reflect.TypeFor[B](), answers: reflect.TypeFor[A](), status: status,
		headers: []string{"Idempotency-Key"}}
	op.do = func(c *call) error {
		return c.once(func() error {
			var q Q
			var b B
			if err := c.readQuery(&q); err != nil {
				return err
			}
			if op.body != noneType {
				if err := c.readBody(&b, op.body.NumField() > 0 && needsBody(op.body)); err != nil {
					return err
				}
			}
			a, err := do(c, &q, &b)
			if err != nil {
				return err
			}
			if op.answers == noneType {
				c.began = true
				c.w.WriteHeader(http.StatusNoContent)
				return nil
			}
			return c.answer(status, a)
		})
	}
	return op
}

// post makes an operation with the method POST and no parameters.
func post[B, A any](id, path string, action Action, status int, about string, do func(*call, *B) (A, error)) *operation {
	return write(http.MethodPost, id, path, action, status, about, func(c *call, _ *wire.In, b *B) (A, error) { return do(c, b) })
}

// raw makes an operation that reads and writes by itself.
func raw(method, id, path string, action Action, query, body, answers reflect.Type, media, about string, do func(*call) error) *operation {
	return &operation{id: id, method: method, path: path, about: about, action: action, query: query, body: body, answers: answers, status: http.StatusOK, media: media, do: do}
}

// needsBody reports whether a body has a field that must be given.
func needsBody(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); required(f) || f.Anonymous && needsBody(f.Type) {
			return true
		}
	}
	return false
}

// operations is the table of all routes.
func operations() []*operation {
	var all []*operation
	for _, part := range [][]*operation{metaOperations(), runOperations(), runControl(), stateOperations(), scheduleOperations(), workOperations(), limitOperations(), webhookOperations(), paceOperations(), streamOperations(), metricOperations()} {
		all = append(all, part...)
	}
	return all
}
