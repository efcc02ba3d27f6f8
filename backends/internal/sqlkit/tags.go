package sqlkit

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// TagsText returns the tags of a run as their column stores them: a JSON object; empty, for NULL, if
// there are none. Triggers of the database keep the rows of run_tags.
func TagsText(t store.Tags) string {
	if len(t) == 0 {
		return ""
	}
	return JSON(t)
}

type tagsColumn struct{ dst *store.Tags }

// TagsOf reads a column that [TagsText] has written.
func TagsOf(dst *store.Tags) tagsColumn { return tagsColumn{dst} }

func (c tagsColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.dst = nil
	case string:
		*c.dst = nil
		if err := json.Unmarshal([]byte(v), c.dst); err != nil {
			return fmt.Errorf("stored tags: %w", err)
		}
	default:
		return wrong("tags", v)
	}
	return nil
}

// tagged adds the conditions on tags. The one that an index answers is left to arms.
func (q *selection) tagged(f *store.RunFilter, column string) {
	if column == "r.created_at" {
		q.tag = f.ByTag()
	}
	for i := range f.Tags {
		if m := &f.Tags[i]; m != q.tag {
			q.look(q.hasTag(m))
		}
	}
}

// hasTag is the condition that a run has a tag that is selected.
func (q *selection) hasTag(m *store.TagMatch) string {
	name := q.arg(m.Name, "text")
	value := q.d.pick("(r.tags::json->>"+name+")", "t.value")
	is := value + " IS NOT NULL"
	switch {
	case len(m.Values) > 0:
		list := make([]string, len(m.Values))
		for i, v := range m.Values {
			list[i] = q.arg(v, "text")
		}
		is = value + " IN (" + strings.Join(list, ", ") + ")"
	case m.Prefix != "":
		prefix := q.arg(m.Prefix, "text")
		is = q.d.pick("starts_with("+value+", "+prefix+")", "substr("+value+", 1, length("+prefix+"))="+prefix)
	}
	return q.d.pick(is, "EXISTS (SELECT 1 FROM json_each(r.tags) t WHERE t.key="+name+" AND "+is+")")
}

// byTag returns an arm for each value of the tag: the primary key of run_tags. The values of a tag
// exclude each other.
func (q *selection) byTag(wanted []store.Status) (list []arm) {
	rest := ""
	if len(wanted) < int(store.Canceled) {
		rest = among(wanted)
	}
	name := "t.name=" + q.arg(q.tag.Name, "text") + " AND t.value="
	seen := map[string]bool{}
	for _, v := range q.tag.Values {
		if !seen[v] {
			list = append(list, armOf("t."+strings.TrimPrefix(q.namespace, "r.")+" AND "+name+q.arg(v, "text"), rest, wanted...))
		}
		seen[v] = true
	}
	return list
}

// from returns the tables of an arm, the time that gives the order, and the ID that follows it.
func (q *selection) from(column string) (tables, at, id string) {
	if q.tag == nil {
		return "pawl.runs r", column, "r.id"
	}
	return "pawl.run_tags t " + q.d.pick("", "CROSS ") + "JOIN pawl.runs r ON r.id=t.run_id", "t.created_at", "t.run_id"
}
