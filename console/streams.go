package console

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

const (
	shownItems = 5    // of each stream, the last ones
	shownItem  = 1000 // bytes of each
	itemsPage  = 1000 // as many as a page may have
	itemPages  = 5    // that are read
)

// streamData is a stream of a run.
type streamData struct {
	Name  string
	Count int // items that are not void
	Last  []wire.StreamItem
}

// streamsRead is what was read of the streams of a run.
type streamsRead struct {
	streams []streamData
	cutOff  bool
}

// loadStreams reads the streams of a run, up to a number of items. Not every backend has streams. What was read is
// kept for a moment, because the page is rendered again and again while somebody looks.
func (d *runData) loadStreams(c *call, id string) error {
	read, err := recall(&c.notes, c.identify(c.r), "streams "+c.in.Namespace+" "+id, time.Second, func() (streamsRead, error) { return readStreams(c, id) })
	if unsupported(err) {
		return nil
	}
	d.Streams, d.CutOff = read.streams, read.cutOff
	return err
}

func readStreams(c *call, id string) (out streamsRead, err error) {
	type writer struct{ stream, step string }
	byName := map[string][]wire.StreamItem{}
	after := int64(0)
	for n := range itemPages {
		page, err := c.api.ReadStream(c.ctx, id, wire.ReadStream{In: c.in, After: after, Limit: itemsPage, MaxPayload: shownItem})
		if err != nil {
			return out, err
		}
		for _, it := range page.Items {
			items := byName[it.Stream]
			if it.Reset { // what the step has appended before is void
				items = slices.DeleteFunc(items, func(old wire.StreamItem) bool {
					return writer{old.Stream, old.Step} == writer{it.Stream, it.Step}
				})
			}
			byName[it.Stream] = append(items, it)
		}
		after = page.After
		if len(page.Items) == 0 {
			break
		}
		out.cutOff = n == itemPages-1
	}
	for name, items := range byName {
		last := slices.Clone(items[max(0, len(items)-shownItems):]) // the others are not kept
		out.streams = append(out.streams, streamData{name, len(items), last})
	}
	slices.SortFunc(out.streams, func(a, b streamData) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
