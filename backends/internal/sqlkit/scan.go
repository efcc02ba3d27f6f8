package sqlkit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// The types below are [database/sql.Scanner]s that read a column into the contract's types. Each is
// one pointer, so that a list of them needs no allocations.

// Scan reads a row into destinations.
type Scan = func(dest ...any) error

// One reads a single row.
func One(dest ...any) func(Scan) error {
	return func(scan Scan) error { return scan(dest...) }
}

func wrong(what string, v any) error { return fmt.Errorf("%s stored as %T", what, v) }

type timeColumn struct{ dst *time.Time }

// Time reads microseconds; NULL is the zero time.
func Time(dst *time.Time) timeColumn { return timeColumn{dst} }

func (c timeColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = time.Time{}
	case int64:
		*c.dst = Micro(v)
	default:
		return wrong("time", v)
	}
	return nil
}

type idColumn struct{ dst *store.ID }

// ID reads an ID, of sixteen bytes or as text; NULL is the zero ID.
func ID(dst *store.ID) idColumn { return idColumn{dst} }

func (c idColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = store.ID{}
	case []byte:
		if copy(c.dst[:], v) != len(c.dst) {
			return fmt.Errorf("id stored as %d bytes", len(v))
		}
	case [16]byte:
		*c.dst = v
	case string:
		id, err := store.ParseID(v)
		*c.dst = id
		return err
	default:
		return wrong("id", v)
	}
	return nil
}

type textColumn struct{ dst *string }

// TextOrNull reads a string; NULL is the empty string.
func TextOrNull(dst *string) textColumn { return textColumn{dst} }

func (c textColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = ""
	case string:
		*c.dst = v
	default:
		return wrong("text", v)
	}
	return nil
}

type blobColumn struct{ dst *[]byte }

// Blob reads bytes and distinguishes an empty blob from NULL. database/sql cannot do this, because
// SQLite drivers return an empty blob as a nil slice.
func Blob(dst *[]byte) blobColumn { return blobColumn{dst} }

func (c blobColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = nil
	case []byte:
		*c.dst = append(make([]byte, 0, len(v)), v...)
	default:
		return wrong("bytes", v)
	}
	return nil
}

type failureColumn struct{ dst **store.Failure }

// Failure reads a column that [FailureText] has written.
func Failure(dst **store.Failure) failureColumn { return failureColumn{dst} }

func (c failureColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = nil
	case string:
		var f storedFailure
		if err := json.Unmarshal([]byte(v), &f); err != nil {
			return fmt.Errorf("decode the stored failure: %w", err)
		}
		*c.dst = (*store.Failure)(&f)
	default:
		return wrong("failure", v)
	}
	return nil
}

type pinColumn struct{ dst **store.Pin }

// Pin reads a column that [PinText] has written.
func Pin(dst **store.Pin) pinColumn { return pinColumn{dst} }

func (c pinColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = nil
	case string:
		*c.dst = new(store.Pin)
		if err := json.Unmarshal([]byte(v), *c.dst); err != nil {
			return fmt.Errorf("stored pin: %w", err)
		}
	default:
		return wrong("pin", v)
	}
	return nil
}

type stepFailureColumn struct{ step *store.Step }

// StepFailure reads a column that [StepFailureText] has written.
func StepFailure(step *store.Step) stepFailureColumn { return stepFailureColumn{step} }

func (c stepFailureColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		c.step.Failure, c.step.Earlier = nil, nil
		return nil
	case string:
		var stored storedStepFailure
		return stored.read(v, c.step)
	}
	return wrong("failure", v)
}

type jsonColumn[T any] struct{ dst *T }

// FromJSON reads a column that [JSON] has written.
func FromJSON[T any](dst *T) jsonColumn[T] { return jsonColumn[T]{dst} }

func (c jsonColumn[T]) Scan(v any) error {
	s, ok := v.(string)
	if !ok {
		return wrong("JSON", v)
	}
	return json.Unmarshal([]byte(s), c.dst)
}
