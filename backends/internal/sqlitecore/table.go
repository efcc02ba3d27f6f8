package sqlitecore

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pawlhq/pawl/store"
)

// table is the argument of a statement for many rows, for databases on which beginning a statement
// costs more than a row: ?1 is a JSON list of lists, for json_each, and ?2 all payloads,
// concatenated.
type table struct {
	list []byte
	data []byte
}

// maxTable limits the payloads of a table: they are one value, and libSQL accepts no value over
// five million bytes.
const maxTable = 4 << 20

// payload takes two columns: its offset in the data and its length. Both are NULL if it is nil, so
// that substr returns NULL.
type payload []byte

// row adds a row of nil, int64, string, store.ID (in hexadecimal) and payload.
func (t *table) row(values ...any) {
	sep := byte(',')
	if t.list == nil {
		t.list = append(t.list, '[')
		t.data = append(t.data, 0) // substr returns NULL for any part of an empty blob
		sep = ' '
	}
	t.list = append(t.list, sep, '[')
	for i, v := range values {
		if i > 0 {
			t.list = append(t.list, ',')
		}
		switch v := v.(type) {
		case nil:
			t.list = append(t.list, "null"...)
		case int64:
			t.list = strconv.AppendInt(t.list, v, 10)
		case string:
			text, err := json.Marshal(v)
			if err != nil {
				panic("sqlitecore: " + err.Error()) // cannot happen for a string
			}
			t.list = append(t.list, text...)
		case store.ID:
			t.list = append(hex.AppendEncode(append(t.list, '"'), v[:]), '"')
		case payload:
			if v == nil {
				t.list = append(t.list, "null,null"...)
				break
			}
			t.list = strconv.AppendInt(t.list, int64(len(t.data)+1), 10)
			t.list = strconv.AppendInt(append(t.list, ','), int64(len(v)), 10)
			t.data = append(t.data, v...)
		default:
			panic(fmt.Sprintf("sqlitecore: a column of type %T", v)) // a mistake in this package
		}
	}
	t.list = append(t.list, ']')
}

// args returns the arguments of a statement; more are the arguments after the table, from ?3.
func (t *table) args(more ...any) []any {
	return append([]any{string(t.list) + "]", t.data}, more...)
}
