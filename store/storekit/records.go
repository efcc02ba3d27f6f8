package storekit

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Records are small named records, inside a transaction of the backend: registry, schedules and
// journal consist of them. Names are bytes, without meaning for the backend, and ordered by their
// bytes. In SQL they are one table with the columns kind, namespace, name and value, whose primary
// key is the first three.
type Records interface {
	// Get returns a record's value, nil if there is none.
	Get(k Key) ([]byte, error)
	// Put creates a record, or replaces its value.
	Put(k Key, value []byte) error
	// Delete deletes a record, if there is one.
	Delete(k Key) error
	// Scan yields the records of a kind and a namespace with from <= name < to, in the order of
	// their names, or backwards. An empty to means no limit. Nothing is written during a scan.
	Scan(kind Kind, namespace, from, to string, backwards bool) iter.Seq2[Record, error]
}

// Key names a record.
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
}

// Record is a record as [Records.Scan] yields it.
type Record struct {
	Name  string
	Value []byte
}

// Kind is a kind of records. Backends store its number.
type Kind byte

// The kinds.
const (
	KindWorker   Kind = 1 + iota // by ID
	KindWorkflow                 // by name
	KindPaused                   // by queue and workflow
	KindLock                     // by name
	KindSchedule                 // by name
	KindNext                     // schedules that are not paused, by their next fire time
	KindFiring                   // by schedule and fire time
	KindAction                   // by time and ID
	KindActionID                 // the name of an action, by its ID
	KindActionOf                 // actions of a run, by the run, time and ID
)

// get reads a record into v, and reports whether there is one.
func get(t Records, k Key, v any) (bool, error) {
	b, err := t.Get(k)
	if err != nil || b == nil {
		return false, err
	}
	return true, decode(k, b, v)
}

func put(t Records, k Key, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return store.Invalid("record", err.Error()) // a time that JSON cannot represent
	}
	return t.Put(k, b)
}

func decode(k Key, b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("record %q of kind %d is damaged: %w: %w", k.Name, k.Kind, store.ErrUnavailable, err)
	}
	return nil
}

// each yields the records of a scan, decoded. It yields the first error and ends.
func each[T any](t Records, kind Kind, namespace, from, to string, backwards bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for rec, err := range t.Scan(kind, namespace, from, to, backwards) {
			var v T
			if err == nil {
				err = decode(Key{kind, namespace, rec.Name}, rec.Value, &v)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// page collects items up to a limit and [store.PageBytes].
func page[T any](items iter.Seq2[T, error], limit int, size func(*T) int) (out []T, more bool, err error) {
	values := func(yield func(T) bool) {
		for v, e := range items {
			if e != nil {
				err = e
				return
			}
			if !yield(v) {
				return
			}
		}
	}
	limit, _ = store.Page(limit) // Validate has checked it
	out, more = Collect(values, limit, FirstAndUpTo(store.PageBytes), size)
	return out, more, err
}

// where yields the items that satisfy a condition.
func where[T any](items iter.Seq2[T, error], like func(*T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range items {
			if (err != nil || like(&v)) && !yield(v, err) {
				return
			}
		}
	}
}

// behind returns the name that immediately follows a name; for an empty name, the first one.
func behind(name string) string {
	if name == "" {
		return ""
	}
	return name + "\x00"
}

// TimeKey encodes a time, in microseconds, so that its bytes sort as times do.
func TimeKey(t time.Time) string { return string(OrderedKey(nil).Time(t)) }

// KeyTime decodes what [TimeKey] has encoded.
func KeyTime(key string) time.Time { return time.UnixMicro(LastNumber([]byte(key))).UTC() }
