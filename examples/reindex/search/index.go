// Package search is a full-text index that can be built anew while it is in use: one
// index serves the readers through an alias, the next one is filled beside it by a
// backfill and a consumer of the change log at the same time, and then the alias is
// switched.
//
// The indices are bleve's, on disk. One process at a time may have an index open
// (bleve holds a lock on its files, which the system releases when the process
// dies, however it dies), so readers live in the process that writes.
package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/en" // the analyzer "en"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"

	"github.com/pawlhq/pawl/examples/reindex/source"
)

// Index is one index. Each write is durable and visible when the call returns, as a
// whole or not at all, and is compared with what is there: whatever the order in
// which documents and changes come, and however often, the newest version stays.
//
// While the index is filled, a deletion leaves a tombstone with its version behind,
// or a backfill that has read the document before could bring it back. An index
// that is complete is sealed: then only changes behind its offset count, no backfill
// writes any more, and deletions leave nothing.
type Index struct {
	name  string
	bleve bleve.Index

	mu     sync.Mutex // held by the one who compares and writes
	closed bool
	offset atomic.Int64
	sealed atomic.Bool
}

// What an index knows of itself, written in the batches that make it so.
var progressKey = []byte("progress")

type progress struct {
	Offset int64 // all changes up to it are in the index
	Sealed bool
}

// entry is what is indexed: a document, or the tombstone of one. The version is
// text, for that is stored exactly.
type entry struct {
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Title   string `json:"title,omitempty"`
	Body    string `json:"body,omitempty"`
}

const (
	document  = "document"
	tombstone = "tombstone"
)

func schema(analyzer string) mapping.IndexMapping {
	text := bleve.NewTextFieldMapping()
	text.Analyzer = analyzer
	text.IncludeTermVectors, text.DocValues = false, false
	exact := bleve.NewKeywordFieldMapping()
	exact.IncludeInAll, exact.DocValues = false, false
	doc := bleve.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt("title", text)
	doc.AddFieldMappingsAt("body", text)
	doc.AddFieldMappingsAt("version", exact)
	doc.AddFieldMappingsAt("kind", exact)
	m := bleve.NewIndexMapping()
	m.DefaultMapping, m.DefaultAnalyzer = doc, analyzer
	return m
}

// create makes an index that takes the log from an offset on. It makes it beside its
// place first: a directory in its place is a whole index.
func create(path, analyzer string, from int64) error {
	beside := path + ".new"
	if err := os.RemoveAll(beside); err != nil { // what a crash has left
		return err
	}
	b, err := bleve.New(beside, schema(analyzer))
	if err != nil {
		return err
	}
	text, err := json.Marshal(progress{Offset: from})
	if err == nil {
		err = b.SetInternal(progressKey, text)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	if err := os.Rename(beside, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func open(path string) (*Index, error) {
	b, err := bleve.OpenUsing(path, map[string]any{"bolt_timeout": "2s"})
	if err != nil {
		return nil, fmt.Errorf("index %s does not open; one process at a time may have it open: %w", path, err)
	}
	x := &Index{name: filepath.Base(path), bleve: b}
	var p progress
	text, err := b.GetInternal(progressKey)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("index %s does not tell its offset: %w", path, err), b.Close())
	}
	x.offset.Store(p.Offset)
	x.sealed.Store(p.Sealed)
	return x, nil
}

// Name is the index's.
func (x *Index) Name() string { return x.name }

// Offset is how far the log is in the index.
func (x *Index) Offset() int64 { return x.offset.Load() }

// Sealed says whether the index is.
func (x *Index) Sealed() bool { return x.sealed.Load() }

// Fill writes documents as they were at some time. A sealed index has them already.
func (x *Index) Fill(docs []source.Document) error {
	changes := make([]source.Change, len(docs))
	for i, d := range docs {
		changes[i].Document = d
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.Sealed() {
		return nil
	}
	return x.write(changes, progress{Offset: x.Offset()})
}

// Apply writes changes: all of the log behind one offset and up to another, in any
// order, some of them perhaps twice. The offset after must not be behind the
// index's own, or changes would be missing.
func (x *Index) Apply(after, upTo int64, changes []source.Change) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.apply(after, upTo, changes)
}

func (x *Index) apply(after, upTo int64, changes []source.Change) error {
	offset := x.Offset()
	if after > offset {
		return fmt.Errorf("index %s is at offset %d: changes behind %d leave a gap", x.name, offset, after)
	}
	if x.Sealed() {
		changes = slices.DeleteFunc(slices.Clone(changes), func(c source.Change) bool { return c.Offset() <= offset })
	}
	return x.write(changes, progress{max(offset, upTo), x.Sealed()})
}

// write writes the newest version of each document, where it is newer than what the
// index has, and the progress, in one batch.
func (x *Index) write(changes []source.Change, p progress) error {
	newest := make(map[string]source.Change, len(changes))
	for _, c := range changes {
		if n, ok := newest[c.ID]; !ok || c.Version > n.Version {
			newest[c.ID] = c
		}
	}
	r, err := x.reader()
	if err != nil {
		return err
	}
	defer r.Close()
	batch := x.bleve.NewBatch()
	for id, c := range newest {
		had, err := x.version(r, id)
		switch {
		case err != nil:
			return err
		case had >= c.Version:
		case !c.Deleted:
			err = batch.Index(id, entry{strconv.FormatInt(c.Version, 10), document, c.Title, c.Body})
		case p.Sealed:
			batch.Delete(id)
		default:
			err = batch.Index(id, entry{Version: strconv.FormatInt(c.Version, 10), Kind: tombstone})
		}
		if err != nil {
			return err
		}
	}
	return x.commit(batch, p)
}

// commit returns when the batch is on disk.
func (x *Index) commit(batch *bleve.Batch, p progress) error {
	if p.Offset != x.Offset() || p.Sealed != x.Sealed() {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		batch.SetInternal(progressKey, text)
	}
	if batch.Size() == 0 {
		return nil
	}
	if err := x.bleve.Batch(batch); err != nil {
		return fmt.Errorf("index %s: %w", x.name, err)
	}
	x.offset.Store(p.Offset)
	x.sealed.Store(p.Sealed)
	return nil
}

// Seal ends the filling, when the backfill is done. The seal comes first and is
// durable; then the tombstones go. A crash in between leaves some, which the next
// call removes.
func (x *Index) Seal(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.commit(x.bleve.NewBatch(), progress{x.Offset(), true}); err != nil {
		return err
	}
	for {
		kind := bleve.NewTermQuery(tombstone)
		kind.SetField("kind")
		found, err := x.bleve.SearchInContext(ctx, bleve.NewSearchRequestOptions(kind, 1000, 0, false))
		if err != nil {
			return err
		}
		if len(found.Hits) == 0 {
			return nil
		}
		batch := x.bleve.NewBatch()
		for _, hit := range found.Hits {
			batch.Delete(hit.ID)
		}
		if err := x.commit(batch, progress{x.Offset(), true}); err != nil {
			return err
		}
	}
}

const followed = 500 // changes in a batch

// advance writes the changes behind the index's offset, those of one batch at most,
// and returns how many. Seen is told how old each was when readers could see it.
func (x *Index) advance(ctx context.Context, src *source.Source, seen func(age time.Duration)) (int, error) {
	after := x.Offset()
	changes, err := src.Changes(ctx, after, followed)
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	if err := x.Apply(after, changes[len(changes)-1].Offset(), changes); err != nil {
		return 0, err
	}
	now := time.Now()
	for _, c := range changes {
		seen(now.Sub(c.At))
	}
	return len(changes), nil
}

// errClosed: the index was dropped, or the catalog closed, meanwhile.
var errClosed = errors.New("the index is closed")

// reader is the index as it is now; later writes do not change what it reads, and
// closing the index does not either. bleve gives a nil reader of a closed index.
func (x *Index) reader() (index.IndexReader, error) {
	if x.closed {
		return nil, fmt.Errorf("index %s: %w", x.name, errClosed)
	}
	adv, err := x.bleve.Advanced()
	if err != nil {
		return nil, err
	}
	return adv.Reader()
}

// version is 0 when the index knows nothing of the document.
func (x *Index) version(r index.IndexReader, id string) (int64, error) {
	e, err := stored(r, id)
	if err != nil || e == nil {
		return 0, err
	}
	return e.version()
}

func (e *entry) version() (int64, error) { return strconv.ParseInt(e.Version, 10, 64) }

// stored is what the index has stored under an id; nil: nothing.
func stored(r index.IndexReader, id string) (*entry, error) {
	d, err := r.Document(id)
	if err != nil || d == nil {
		return nil, err
	}
	var e entry
	d.VisitFields(func(f index.Field) {
		switch f.Name() {
		case "version":
			e.Version = string(f.Value())
		case "kind":
			e.Kind = string(f.Value())
		case "title":
			e.Title = string(f.Value())
		case "body":
			e.Body = string(f.Value())
		}
	})
	return &e, nil
}

// close waits for the write that is under way.
func (x *Index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	return x.bleve.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
