package sqlkit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// UsesText returns the limits that a run is under as their column stores them: a JSON list of
// [limit, key, tokens]; empty, for NULL, if there are none. Two lists have one text only if they are
// the same.
func UsesText(uses []store.LimitUse) string {
	if len(uses) == 0 {
		return ""
	}
	list := make([][3]any, len(uses))
	for i, u := range store.SortUses(uses) {
		list[i] = [3]any{u.Limit, u.Key, u.Tokens}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(list); err != nil {
		panic("sqlkit: " + err.Error()) // strings and numbers
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

// ParseUses reads what [UsesText] has written.
func ParseUses(text string) ([]store.LimitUse, error) {
	if text == "" {
		return nil, nil
	}
	var raw [][3]any // a limit, a key, and up to MaxTokens tokens
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("stored limits: %w", err)
	}
	uses := make([]store.LimitUse, len(raw))
	for i, u := range raw {
		limit, isName := u[0].(string)
		key, isKey := u[1].(string)
		tokens, isNumber := u[2].(float64)
		if !isName || !isKey || !isNumber {
			return nil, fmt.Errorf("stored limits: %s", text)
		}
		uses[i] = store.LimitUse{Limit: limit, Key: key, Tokens: int64(tokens)}
	}
	return uses, nil
}

type usesColumn struct{ dst *[]store.LimitUse }

// Uses reads a column that [UsesText] has written.
func Uses(dst *[]store.LimitUse) usesColumn { return usesColumn{dst} }

func (c usesColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = nil
	case string:
		var err error
		*c.dst, err = ParseUses(v)
		return err
	default:
		return wrong("limits", v)
	}
	return nil
}
