package exec

import (
	"bytes"
	"encoding/json"

	"github.com/pawlhq/pawl/store"
)

// Payload is a payload inside of a note: as it is where it is JSON without
// superfluous space, so that people can read it, else in base64.
type Payload struct {
	JSON json.RawMessage `json:"json,omitempty"`
	Raw  []byte          `json:"raw,omitempty"`
}

// NewPayload makes one of bytes; an empty payload comes back as nil.
func NewPayload(b []byte) *Payload {
	var compact bytes.Buffer
	if json.Compact(&compact, b) == nil && bytes.Equal(compact.Bytes(), b) {
		return &Payload{JSON: b}
	}
	return &Payload{Raw: b}
}

// Bytes gives the bytes back.
func (p *Payload) Bytes() []byte {
	if p == nil {
		return nil
	}
	if p.JSON != nil {
		return p.JSON
	}
	return p.Raw
}

// writeNote encodes a note. It leaves payloads as they are.
func writeNote(note any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(note); err != nil {
		panic("a note cannot be encoded: " + err.Error()) // it has no such values
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func readNote(data []byte, note any) error {
	if len(data) == 0 {
		return errNoNote
	}
	return json.Unmarshal(data, note)
}

// clipNote shortens a note for a message.
func clipNote(data []byte) string {
	if len(data) > 200 {
		return string(data[:200]) + "..."
	}
	return string(data)
}

// Progress is how far a step with children has come, as far as its record tells.
type Progress struct {
	Parent    store.ID // whose children they are; zero: the run's own
	Group     string
	Generator GeneratorStatus
	Spawned   int64
	Completed int64
	Failed    int64
	Canceled  int64
	Cursor    []byte
}

// ProgressOf reads the record of a child, map or generator step; ok is false for
// another.
func ProgressOf(s *store.Step) (p Progress, ok bool) {
	switch s.Kind {
	case store.KindChild:
		var note ChildNote
		if readNote(s.Output, &note) != nil {
			return p, false
		}
		p.Group, p.Spawned = note.Group, 1
		switch {
		case note.Group == "":
			return p, false // detached: nobody knows
		case note.Status == nil:
		case *note.Status == store.Completed:
			p.Completed = 1
		case *note.Status == store.Canceled:
			p.Canceled = 1
		default:
			p.Failed = 1
		}
		return p, true
	case store.KindMap, store.KindGenerator:
		var note ItemsNote
		if readNote(s.Output, &note) != nil {
			return p, false
		}
		return Progress{Parent: note.Parent, Group: note.Group, Generator: note.Status, Spawned: note.Spawned, Completed: note.Completed,
			Failed: note.Failed, Canceled: note.Canceled, Cursor: note.Cursor.Bytes()}, true
	}
	return p, false
}
