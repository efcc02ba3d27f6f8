package sqlkit

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Begin returns the maximum number of items of a page, and the item after which it
// begins.
func Begin[P any](p interface {
	Validate() error
	Position() (P, error)
}, limit int) (most int, after P, err error) {
	if err = p.Validate(); err != nil {
		return 0, after, err
	}
	most, _ = store.Page(limit)
	after, err = p.Position()
	return most, after, err
}

// Keep adds an item to a list if it fits. If it does not fit, there is more.
func Keep[T any](list *[]T, more *bool, v T, fits bool) {
	if fits {
		*list = append(*list, v)
	} else {
		*more = true
	}
}

// Cut cuts a list that was read with one item more than the limit. It returns the last
// item of the page if more items follow, and otherwise nil.
func Cut[T any](list *[]T, limit int) *T {
	if len(*list) <= limit {
		return nil
	}
	*list = (*list)[:limit]
	return &(*list)[limit-1]
}

// All joins conditions; empty ones are left out.
func All(conds []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(conds), func(c string) bool { return c == "" }), " AND ")
}

// RunRow adds a run of a listing to its page. fits: the page is not full; ok: the filter selects
// the run; last: it is the last run that may be looked at.
func RunRow(p *store.ListParams, page *store.RunPage, more *bool, r *store.Run, fits, ok, last bool) {
	if ok || !fits {
		Keep(&page.Runs, more, *r, fits)
	}
	if fits && last {
		page.Next = p.CursorBehind(r)
	}
}

// FiringsBefore returns the time, in microseconds, before which the firings of a page
// lie.
func FiringsBefore(p *store.ListFiringsParams) (int64, error) {
	pos, err := p.Position()
	if err != nil || pos == "" {
		return 1<<63 - 1, err
	}
	t, err := time.Parse(time.RFC3339Nano, pos)
	if err != nil {
		return 0, store.Invalid("cursor", "it has no time; start without a cursor")
	}
	return t.UnixMicro(), nil
}

// FiringsPage cuts a page of firings.
func FiringsPage(p *store.ListFiringsParams, page *store.FiringPage, limit int) {
	if last := Cut(&page.Firings, limit); last != nil {
		page.Next = p.NextCursor(last.At.Format(time.RFC3339Nano))
	}
}
