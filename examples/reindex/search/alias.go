package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/pawlhq/pawl/examples/reindex/source"
)

// ErrMoved: the alias was switched by somebody else meanwhile.
var ErrMoved = errors.New("the alias has moved on")

// Alias says where the readers' queries go. It is a file that is replaced as a
// whole: whenever a process dies, the next one finds the old target or the new one.
type Alias struct {
	Target     string
	Previous   string // the target before, for a rollback; empty: none
	Generation int64  // how often the alias was switched
}

// Catalog is a directory with indices and the alias, open in one process.
type Catalog struct {
	dir string

	mu      sync.Mutex
	at      Alias
	indices map[string]*Index
	alias   bleve.IndexAlias
}

// Open opens the directory, which is made if there is none, with the indices that
// the alias names.
func Open(dir string) (*Catalog, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &Catalog{dir: dir, indices: map[string]*Index{}, alias: bleve.NewIndexAlias()}
	text, err := os.ReadFile(c.file())
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c.at)
	}
	if err != nil {
		return nil, fmt.Errorf("alias: %w", err)
	}
	for _, name := range []string{c.at.Target, c.at.Previous} {
		if name == "" {
			continue
		}
		if _, err := c.Index(name); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	c.alias.Add(c.indices[c.at.Target].bleve)
	return c, nil
}

func (c *Catalog) file() string { return filepath.Join(c.dir, "alias.json") }

// Close closes all indices.
func (c *Catalog) Close() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.indices {
		err = errors.Join(err, x.close())
	}
	clear(c.indices)
	return err
}

// Alias is where queries go.
func (c *Catalog) Alias() Alias {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Create makes an index that takes the log from an offset on. One that is there
// already is left as it is: its offset is the one that counts.
func (c *Catalog) Create(name, analyzer string, from int64) (*Index, error) {
	path := filepath.Join(c.dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path, analyzer, from); err != nil {
			return nil, fmt.Errorf("create index %s: %w", name, err)
		}
	}
	return c.Index(name)
}

// Index returns an index of the directory, which is opened if need be.
func (c *Catalog) Index(name string) (*Index, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.indices[name]; x != nil {
		return x, nil
	}
	x, err := open(filepath.Join(c.dir, name))
	if err != nil {
		return nil, err
	}
	c.indices[name] = x
	return x, nil
}

// Follow keeps the indices that the alias names at the end of the log until ctx ends:
// the target for its readers, the one before for a rollback. Seen is told how old
// each change was when the target's readers could see it.
func (c *Catalog) Follow(ctx context.Context, src *source.Source, seen func(age time.Duration)) error {
	for {
		behind := false
		for i, x := range c.live() {
			tell := seen
			if i > 0 {
				tell = func(time.Duration) {}
			}
			n, err := x.advance(ctx, src, tell)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil && !errors.Is(err, errClosed) { // else it was dropped meanwhile
				return fmt.Errorf("follow the log: %w", err)
			}
			behind = behind || n == followed
		}
		if behind {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// live are the alias's target and the one before it.
func (c *Catalog) live() (live []*Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{c.at.Target, c.at.Previous} {
		if x := c.indices[name]; x != nil {
			live = append(live, x)
		}
	}
	return live
}

// Switch moves the alias from a generation on to an index, which becomes the next
// generation's target. The same switch again changes nothing. It fails with
// ErrMoved when somebody else has switched: a switch that is done again after a
// crash does not undo a rollback that came in between.
func (c *Catalog) Switch(from int64, to string) error {
	x, err := c.Index(to)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.Generation == from+1 && c.at.Target == to {
		return nil
	}
	if c.at.Generation != from || c.at.Target == to {
		return fmt.Errorf("%w: it is at %s, generation %d, where the switch to %s was to come behind generation %d",
			ErrMoved, c.at.Target, c.at.Generation, to, from)
	}
	next := Alias{Target: to, Previous: c.at.Target, Generation: from + 1}
	if err := c.save(next); err != nil {
		return fmt.Errorf("alias: %w", err)
	}
	var out []bleve.Index
	if old := c.indices[c.at.Target]; old != nil {
		out = append(out, old.bleve)
	}
	c.alias.Swap([]bleve.Index{x.bleve}, out) // for queries, at one moment
	c.at = next
	return nil
}

// save replaces the file: it is written beside its place, and on disk before it
// gets its name.
func (c *Catalog) save(a Alias) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.Create(c.file() + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), c.file()); err != nil {
		return err
	}
	return syncDir(c.dir)
}

// Drop closes and removes an index. The alias's target is not dropped; the one
// before is, and then there is no way back.
func (c *Catalog) Drop(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" || name != filepath.Base(name) {
		return fmt.Errorf("drop index: %q is not the name of one", name)
	}
	if name == c.at.Target {
		return fmt.Errorf("index %s is the alias's target: switch first", name)
	}
	if name == c.at.Previous {
		next := c.at
		next.Previous = ""
		if err := c.save(next); err != nil {
			return fmt.Errorf("alias: %w", err)
		}
		c.at = next
	}
	if x := c.indices[name]; x != nil {
		delete(c.indices, name)
		if err := x.close(); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(c.dir, name))
}

// Count is how many documents the readers' index has.
func (c *Catalog) Count(ctx context.Context) (uint64, error) {
	q := bleve.NewTermQuery(document)
	q.SetField("kind")
	return c.total(ctx, q)
}

// Has says whether the readers' index has a document.
func (c *Catalog) Has(ctx context.Context, id string) (bool, error) {
	n, err := c.total(ctx, bleve.NewDocIDQuery([]string{id}))
	return n == 1, err
}

// Match is how many documents have one of the words, as the index's analyzer reads
// them.
func (c *Catalog) Match(ctx context.Context, words string) (uint64, error) {
	return c.total(ctx, bleve.NewMatchQuery(words))
}

func (c *Catalog) total(ctx context.Context, q query.Query) (uint64, error) {
	found, err := c.alias.SearchInContext(ctx, bleve.NewSearchRequestOptions(q, 0, 0, false))
	if err != nil {
		return 0, err
	}
	return found.Total, nil
}
