package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

func stateOperations() []*operation {
	set := write(http.MethodPut, "setState", "/v1/runs/{id}/state/{key}", ChangeState, http.StatusOK,
		"Set a key of the flow state of a run. With If-Match it must have that version; with If-None-Match: * it must not exist.", setState)
	del := write(http.MethodDelete, "deleteState", "/v1/runs/{id}/state/{key}", ChangeState, http.StatusNoContent,
		"Delete a key of the flow state of a run. With If-Match it must have that version.", deleteState)
	set.headers = append(set.headers, "If-Match", "If-None-Match")
	del.headers = append(del.headers, "If-Match")
	return []*operation{
		read("listState", "/v1/runs/{id}/state", ReadRuns, "List the flow state of a run.", listState),
		read("getState", "/v1/runs/{id}/state/{key}", ReadRuns, "Get a key of the flow state of a run, with its version as ETag.", getState),
		set, del,
	}
}

// coordError is the key that workers read as text if they cannot decode it (workflow.CoordErrorState).
const coordError = "coord.error"

func (c *call) entry(e *store.StateEntry, most int) wire.StateEntry {
	return wire.StateEntry{Key: e.Key, Value: c.payload(e.Value, most), Version: e.Version, UpdatedAt: asTime(e.UpdatedAt)}
}

func listState(c *call, q *wire.GetRun) (out wire.StateList, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	box, err := c.eng.Store().Inbox(c.ctx, store.InboxParams{Namespace: c.eng.Namespace(), Run: id, After: store.NoSignals, MaxBytes: answerBytes})
	if err != nil {
		return out, err
	}
	return wire.StateList{State: each(box.State, func(e *store.StateEntry) wire.StateEntry { return c.entry(e, q.MaxPayload) }), More: box.MoreState}, nil
}

func getState(c *call, q *wire.GetRun) (out wire.StateEntry, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	key := c.r.PathValue("key")
	entries, err := c.eng.GetState(c.ctx, id, key)
	if err != nil {
		return out, err
	}
	if len(entries) == 0 {
		return out, fmt.Errorf("key %q of the state of run %s: %w", cut(key, 100), id, store.ErrNotFound)
	}
	c.w.Header().Set("ETag", etag(entries[0].Version))
	return c.entry(&entries[0], q.MaxPayload), nil
}

func etag(version int64) string { return `"v` + strconv.FormatInt(version, 10) + `"` }

// ifVersion reads If-Match and If-None-Match; nil: no version is asked for.
func (c *call) ifVersion() (*int64, error) {
	match, none := c.r.Header.Get("If-Match"), c.r.Header.Get("If-None-Match")
	switch {
	case match != "" && none != "":
		return nil, store.Invalid("If-Match", "it cannot be combined with If-None-Match")
	case none == "*":
		return new(int64), nil
	case none != "":
		return nil, store.Invalid("If-None-Match", "want *")
	case match == "":
		return nil, nil
	}
	digits, ok := strings.CutPrefix(match, `"v`)
	digits, closed := strings.CutSuffix(digits, `"`)
	v, err := strconv.ParseInt(digits, 10, 64)
	if !ok || !closed || err != nil || v < 1 {
		return nil, store.Invalid("If-Match", fmt.Sprintf("%q is not an ETag of this API; one looks like %q", cut(match, 100), etag(12)))
	}
	return &v, nil
}

func setState(c *call, _ *wire.In, b *wire.SetState) (out wire.StateEntry, err error) {
	value, err := c.encode("value", b.Value, b.ValueBase64)
	if err != nil {
		return out, err
	}
	if value == nil {
		return out, store.Invalid("value", "it is missing")
	}
	return c.writeState(store.StateWrite{Value: value})
}

func deleteState(c *call, _ *wire.In, _ *none) (none, error) {
	_, err := c.writeState(store.StateWrite{Delete: true})
	return none{}, err
}

func (c *call) writeState(w store.StateWrite) (out wire.StateEntry, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	w.Key = c.r.PathValue("key")
	if w.IfVersion, err = c.ifVersion(); err != nil {
		return out, err
	}
	if w.Key != coordError && !w.Delete {
		if err := c.eng.CheckPayload(c.ctx, id, w.Value); err != nil {
			return out, err
		}
	}
	entries, err := c.eng.SetState(c.ctx, id, w)
	if errors.Is(err, store.ErrConflict) && w.IfVersion != nil {
		return out, problem(http.StatusPreconditionFailed, wire.CodeVersionMismatch, err.Error())
	}
	if err != nil {
		return out, err
	}
	if !w.Delete {
		c.w.Header().Set("ETag", etag(entries[0].Version))
	}
	e := entries[0]
	e.Value = w.Value
	return c.entry(&e, 0), nil
}
