package search

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	index "github.com/blevesearch/bleve_index_api"

	"github.com/pawlhq/pawl/examples/reindex/source"
)

// Verification is a comparison of an index with the source, at one offset.
type Verification struct {
	Index     string
	Offset    int64
	Documents int // in the source
	Indexed   int // in the index
	Equal     int // of the same version and contents

	Differences []string // the first few
}

// OK says that the index has exactly what the source has.
func (v Verification) OK() bool {
	return v.Documents == v.Indexed && v.Documents == v.Equal && len(v.Differences) == 0
}

func (v Verification) String() string {
	if v.OK() {
		return fmt.Sprintf("index %s equals the source at offset %d: %d documents, each of the same version and hash", v.Index, v.Offset, v.Documents)
	}
	return fmt.Sprintf("index %s DIFFERS from the source at offset %d: %d documents, %d indexed, %d equal: %s",
		v.Index, v.Offset, v.Documents, v.Indexed, v.Equal, strings.Join(v.Differences, "; "))
}

func (v *Verification) differs(format string, args ...any) {
	if len(v.Differences) < 10 {
		v.Differences = append(v.Differences, fmt.Sprintf(format, args...))
	}
}

// Verify compares the index with the source as both are at one offset, to the last
// document, while writers and readers go on: it takes a snapshot of the source,
// brings the index to the snapshot's offset, and takes a snapshot of the index. The
// comparison itself holds nobody up.
func (x *Index) Verify(ctx context.Context, src *source.Source) (v Verification, err error) {
	snap, r, err := x.cut(ctx, src)
	if err != nil {
		return v, fmt.Errorf("verify index %s: %w", x.name, err)
	}
	defer func() { err = errors.Join(err, r.Close(), snap.Close()) }()

	v.Index, v.Offset = x.name, snap.End()
	indexed, err := contents(r)
	if err != nil {
		return v, err
	}
	v.Indexed = len(indexed)
	for d, err := range snap.Documents(ctx) {
		if err != nil {
			return v, err
		}
		v.Documents++
		got, ok := indexed[d.ID]
		delete(indexed, d.ID)
		switch {
		case !ok:
			v.differs("%s is missing", d.ID)
		case got.version != d.Version:
			v.differs("%s has version %d instead of %d", d.ID, got.version, d.Version)
		case got.hash != d.Hash():
			v.differs("%s, version %d, has other contents", d.ID, d.Version)
		default:
			v.Equal++
		}
	}
	for id, got := range indexed {
		v.differs("%s, version %d, does not exist", id, got.version)
	}
	return v, nil
}

// cut takes a snapshot of the source and one of the index, at the same offset.
func (x *Index) cut(ctx context.Context, src *source.Source) (_ *source.Snapshot, _ index.IndexReader, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.Sealed() {
		return nil, nil, errors.New("it is still being filled")
	}
	// Nobody else advances the index now, so the snapshot's end is not behind it.
	snap, err := src.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, snap.Close())
		}
	}()
	for x.Offset() < snap.End() {
		after := x.Offset()
		changes, err := src.Changes(ctx, after, int(min(followed, snap.End()-after)))
		if err != nil {
			return nil, nil, err
		}
		if len(changes) == 0 {
			return nil, nil, fmt.Errorf("the log ends at offset %d, before %d", after, snap.End())
		}
		if err := x.apply(after, changes[len(changes)-1].Offset(), changes); err != nil {
			return nil, nil, err
		}
	}
	if x.Offset() != snap.End() {
		return nil, nil, fmt.Errorf("the index is at offset %d, the source at %d", x.Offset(), snap.End())
	}
	r, err := x.reader()
	return snap, r, err
}

type indexed struct {
	version int64
	hash    [sha256.Size]byte
}

// contents reads all documents of an index, from what it has stored.
func contents(r index.IndexReader) (map[string]indexed, error) {
	all, err := r.DocIDReaderAll()
	if err != nil {
		return nil, err
	}
	defer all.Close()
	docs := map[string]indexed{}
	for {
		internal, err := all.Next()
		if err != nil {
			return nil, err
		}
		if internal == nil {
			return docs, nil
		}
		id, err := r.ExternalID(internal)
		if err != nil {
			return nil, err
		}
		e, err := stored(r, id)
		if err != nil {
			return nil, err
		}
		if e == nil || e.Kind == tombstone {
			continue
		}
		version, err := e.version()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		docs[id] = indexed{version, source.Document{Title: e.Title, Body: e.Body}.Hash()}
	}
}
