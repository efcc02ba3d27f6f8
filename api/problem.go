package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// titles say what the codes mean.
var titles = map[string]string{
	wire.CodeNotFound: "Not found", wire.CodeAlreadyExists: "Already exists", wire.CodeConflict: "The state does not allow it", wire.CodeFinished: "The run is finished",
	wire.CodeUnanswered: "The run has ended without an answer",
	wire.CodeInvalid:    "The request is not valid", wire.CodeTooLarge: "Too large", wire.CodeUnsupported: "The backend cannot do that", wire.CodeUnavailable: "The store is unavailable",
	wire.CodeOutcomeUnknown: "The outcome is unknown", wire.CodeUnknownWorkflow: "Unknown workflow", wire.CodeNoWorker: "No worker is online", wire.CodePlainPayload: "The payload is not encrypted",
	wire.CodeCodec: "The codec cannot encode the payload", wire.CodeForbidden: "Not allowed", wire.CodeUnauthorized: "Not authenticated", wire.CodeCrossOrigin: "Cross-origin request",
	wire.CodeVersionMismatch: "The version does not match", wire.CodeMediaType: "Unsupported media type", wire.CodeMethod: "Method not allowed", wire.CodeTooManyRequests: "Too many requests",
	wire.CodeTooManyStreams: "Too many streams", wire.CodeKeyReused: "The idempotency key was used with another request", wire.CodeInternal: "Internal error",
}

func problem(status int, code, detail string) *wire.Problem {
	return &wire.Problem{Type: "urn:pawl:problem:" + code, Title: titles[code], Status: status, Code: code, Detail: detail}
}

// problemOf turns an error into a problem.
func problemOf(err error) *wire.Problem {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p
	}
	status, code := http.StatusInternalServerError, wire.CodeInternal
	for _, m := range []struct {
		err    error
		status int
		code   string
	}{
		{engine.ErrUnknownWorkflow, http.StatusNotFound, wire.CodeUnknownWorkflow},
		{engine.ErrNoWorker, http.StatusConflict, wire.CodeNoWorker},
		{engine.ErrPlain, http.StatusUnprocessableEntity, wire.CodePlainPayload},
		{engine.ErrCodec, http.StatusUnprocessableEntity, wire.CodeCodec},
		{engine.ErrClosed, http.StatusServiceUnavailable, wire.CodeUnavailable},
		{store.ErrOutcomeUnknown, http.StatusGatewayTimeout, wire.CodeOutcomeUnknown},
		{store.ErrNotFound, http.StatusNotFound, wire.CodeNotFound},
		{store.ErrAlreadyExists, http.StatusConflict, wire.CodeAlreadyExists},
		{engine.ErrUnanswered, http.StatusConflict, wire.CodeUnanswered},
		{store.ErrFinished, http.StatusConflict, wire.CodeFinished},
		{store.ErrConflict, http.StatusConflict, wire.CodeConflict},
		{store.ErrLeaseLost, http.StatusConflict, wire.CodeConflict},
		{store.ErrInvalid, http.StatusBadRequest, wire.CodeInvalid},
		{store.ErrTooLarge, http.StatusRequestEntityTooLarge, wire.CodeTooLarge},
		{store.ErrUnsupported, http.StatusNotImplemented, wire.CodeUnsupported},
		{store.ErrUnavailable, http.StatusServiceUnavailable, wire.CodeUnavailable},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, wire.CodeUnavailable},
		{context.Canceled, http.StatusServiceUnavailable, wire.CodeUnavailable},
	} {
		if errors.Is(err, m.err) {
			status, code = m.status, m.code
			break
		}
	}
	p = problem(status, code, err.Error())
	if code == wire.CodeInternal {
		p.Detail = "the API failed; its log says why"
	}
	var invalid *store.InvalidError
	if errors.As(err, &invalid) {
		p.Field = invalid.Field
	}
	var large *store.TooLargeError
	if errors.As(err, &large) {
		p.Field, p.Size, p.Limit = large.Field, int64(large.Size), int64(large.Limit)
	}
	return p
}

// fail answers with a problem.
func fail(w http.ResponseWriter, p *wire.Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusGatewayTimeout:
		if h.Get("Retry-After") == "" {
			h.Set("Retry-After", "1")
		}
	}
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"status":500,"code":"internal"}`)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

func methodNotAllowed(w http.ResponseWriter, methods []string) {
	w.Header().Set("Allow", strings.Join(methods, ", "))
	fail(w, problem(http.StatusMethodNotAllowed, wire.CodeMethod, "the path takes "+strings.Join(methods, ", ")))
}
