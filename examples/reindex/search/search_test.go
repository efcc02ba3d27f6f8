package search

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/examples/reindex/source"
)

// With this variable the binary is a process that fills the index of a directory.
const envFill = "PAWL_REINDEX_FILL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envFill); dir != "" {
		if err := fill(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func newSource(t *testing.T, dir string, docs int) *source.Source {
	src, err := source.Open(t.Context(), filepath.Join(dir, "source.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	require.NoError(t, src.Load(t.Context(), docs))
	return src
}

func newCatalog(t *testing.T, dir string) *Catalog {
	c, err := Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// newIndex makes an index with all that the source has.
func newIndex(t *testing.T, c *Catalog, name, analyzer string, src *source.Source) *Index {
	end, err := src.End(t.Context())
	require.NoError(t, err)
	x, err := c.Create(name, analyzer, end)
	require.NoError(t, err)
	page, err := src.Page(t.Context(), "", 1_000_000)
	require.NoError(t, err)
	require.NoError(t, x.Fill(page))
	require.NoError(t, x.Seal(t.Context()))
	return x
}

// change writes a few changes to few documents, so that they meet often: some are
// deleted, some of those made again.
func change(t *testing.T, src *source.Source, random *rand.Rand) {
	require.NoError(t, src.Write(t.Context(), func(tx *source.Tx) error {
		for range 1 + random.IntN(4) {
			id := source.ID(random.IntN(30))
			has, err := tx.Has(t.Context(), id)
			if err != nil {
				return err
			}
			if has && random.IntN(2) == 0 {
				_, err = tx.Delete(t.Context(), id)
			} else {
				_, err = tx.Put(t.Context(), id, "title", strconv.Itoa(random.Int()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Pages of the backfill that were read long ago, changes that come late, early,
// in the wrong order, twice and again: in the end the index is what the source is.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inAnyOrder(t, seed)
		})
	}
}

// anyOrder brings pages and changes into an index in any order.
type anyOrder struct {
	t      *testing.T
	random *rand.Rand
	src    *source.Source
	index  *Index
	start  int64
	read   [][]source.Document // and not yet written
}

// write writes one of the pages that were read. It may come again.
func (o *anyOrder) write() {
	i := o.random.IntN(len(o.read))
	require.NoError(o.t, o.index.Fill(o.read[i]))
	if o.random.IntN(3) > 0 { // else it comes again
		o.read = append(o.read[:i], o.read[i+1:]...)
	}
}

// consume applies the next changes, with some of those before and behind, in any order.
func (o *anyOrder) consume() {
	after := o.index.Offset()
	changes, err := o.src.Changes(o.t.Context(), after, 1+o.random.IntN(10))
	require.NoError(o.t, err)
	if len(changes) == 0 {
		return
	}
	upTo := changes[len(changes)-1].Offset()
	all, err := o.src.Changes(o.t.Context(), o.start, 10_000)
	require.NoError(o.t, err)
	for range o.random.IntN(5) { // some of before and behind
		changes = append(changes, all[o.random.IntN(len(all))])
	}
	o.random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	require.NoError(o.t, o.index.Apply(after-o.random.Int64N(after-o.start+1), upTo, changes))
}

// scan reads the next page, and returns its last document; empty: there is none.
func (o *anyOrder) scan(last string) string {
	page, err := o.src.Page(o.t.Context(), last, 5)
	require.NoError(o.t, err)
	if len(page) == 0 {
		return ""
	}
	o.read = append(o.read, page)
	return page[len(page)-1].ID
}

func inAnyOrder(t *testing.T, seed uint64) {
	dir, random := t.TempDir(), rand.New(rand.NewPCG(seed, 1))
	src, c := newSource(t, dir, 20), newCatalog(t, filepath.Join(dir, "indices"))
	start, err := src.End(t.Context())
	require.NoError(t, err)
	x, err := c.Create("x", "standard", start)
	require.NoError(t, err)

	o := &anyOrder{t: t, random: random, src: src, index: x, start: start}
	last := o.scan("")
	for done := false; !done; {
		switch random.IntN(4) {
		case 0:
			change(t, src, random)
		case 1:
			last = o.scan(last)
			done = last == ""
		case 2:
			o.consume()
		case 3:
			if len(o.read) > 0 {
				o.write()
			}
		}
	}
	zombie := o.read
	for len(o.read) > 0 {
		o.write()
	}
	require.NoError(t, x.Seal(t.Context()))
	// Once it is sealed, who has slept through it does no harm.
	for _, page := range zombie {
		require.NoError(t, x.Fill(page))
	}
	old, err := src.Changes(t.Context(), start, int(x.Offset()-start))
	require.NoError(t, err)
	require.NoError(t, x.Apply(start, x.Offset(), old))
	for range 5 {
		change(t, src, random)
		o.consume()
	}
	v, err := x.Verify(t.Context(), src)
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
	end, err := src.End(t.Context())
	require.NoError(t, err)
	require.Equal(t, end, v.Offset)
	docs, err := x.bleve.DocCount()
	require.NoError(t, err)
	require.EqualValues(t, v.Documents, docs, "tombstones are gone")
}

func TestGap(t *testing.T) {
	dir := t.TempDir()
	src, c := newSource(t, dir, 20), newCatalog(t, filepath.Join(dir, "indices"))
	x, err := c.Create("x", "standard", 5)
	require.NoError(t, err)
	changes, err := src.Changes(t.Context(), 7, 3)
	require.NoError(t, err)
	require.ErrorContains(t, x.Apply(7, 10, changes), "index x is at offset 5: changes behind 7 leave a gap")
	require.EqualValues(t, 5, x.Offset())
	_, err = x.Verify(t.Context(), src)
	require.ErrorContains(t, err, "still being filled")
}

// A seal that a crash cut off before all tombstones were gone.
func TestSealAgain(t *testing.T) {
	dir := t.TempDir()
	src, c := newSource(t, dir, 2), newCatalog(t, filepath.Join(dir, "indices"))
	x, err := c.Create("x", "standard", 2)
	require.NoError(t, err)
	require.NoError(t, src.Write(t.Context(), func(tx *source.Tx) error {
		_, err := tx.Delete(t.Context(), source.ID(0))
		return err
	}))
	_, err = x.advance(t.Context(), src, func(time.Duration) {})
	require.NoError(t, err)
	page, err := src.Page(t.Context(), "", 10)
	require.NoError(t, err)
	require.NoError(t, x.Fill(page))

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, x.Seal(gone), context.Canceled)
	require.True(t, x.Sealed())
	docs, err := x.bleve.DocCount()
	require.NoError(t, err)
	require.EqualValues(t, 2, docs, "a document and a tombstone")
	v, err := x.Verify(t.Context(), src)
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
	require.NoError(t, x.Seal(t.Context()))
	docs, err = x.bleve.DocCount()
	require.NoError(t, err)
	require.EqualValues(t, 1, docs)
}

func TestVerifyFindsDifferences(t *testing.T) {
	dir := t.TempDir()
	src, c := newSource(t, dir, 20), newCatalog(t, filepath.Join(dir, "indices"))
	x := newIndex(t, c, "x", "standard", src)
	for want, spoil := range map[string]func(docs []source.Document) error{
		source.ID(3) + " is missing":       func([]source.Document) error { return x.bleve.Delete(source.ID(3)) },
		"ghost, version 7, does not exist": func([]source.Document) error { return x.bleve.Index("ghost", entry{Version: "7", Kind: document}) },
		source.ID(4) + " has version 1 instead of 5": func(d []source.Document) error {
			return x.bleve.Index(source.ID(4), entry{"1", document, d[4].Title, d[4].Body})
		},
		source.ID(4) + ", version 5, has other contents": func(d []source.Document) error {
			return x.bleve.Index(source.ID(4), entry{"5", document, d[4].Title, "other"})
		},
		"20 documents, 20 indexed, 19 equal: " + source.ID(0): func(d []source.Document) error {
			return x.bleve.Index(source.ID(0), entry{"1", document, "other", d[0].Body})
		},
	} {
		docs, err := src.Page(t.Context(), "", 100)
		require.NoError(t, err)
		require.NoError(t, spoil(docs))
		v, err := x.Verify(t.Context(), src)
		require.NoError(t, err)
		require.False(t, v.OK())
		require.Contains(t, v.String(), "DIFFERS")
		require.Contains(t, v.String(), want)
		restore := x.bleve.NewBatch()
		restore.Delete("ghost")
		for _, d := range docs {
			require.NoError(t, restore.Index(d.ID, entry{strconv.FormatInt(d.Version, 10), document, d.Title, d.Body}))
		}
		require.NoError(t, x.bleve.Batch(restore))
		v, err = x.Verify(t.Context(), src)
		require.NoError(t, err)
		require.True(t, v.OK(), v.String())
		require.Contains(t, v.String(), "equals the source at offset 20: 20 documents")
	}
}

// The index is verified while a writer writes, followers follow and a backfill that
// should be gone still writes.
func TestVerifyWhileWritersWrite(t *testing.T) {
	dir := t.TempDir()
	src, c := newSource(t, dir, 100), newCatalog(t, filepath.Join(dir, "indices"))
	x := newIndex(t, c, "x", "standard", src)
	require.NoError(t, c.Switch(0, "x"))
	old, err := src.Page(t.Context(), "", 1000)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	var ages []time.Duration
	others.Go(func() { require.NoError(t, source.Writer{Source: src, Docs: 100, Rate: 500}.Run(ctx)) })
	others.Go(func() {
		require.NoError(t, c.Follow(ctx, src, func(age time.Duration) { ages = append(ages, age) }))
	})
	others.Go(func() {
		for ctx.Err() == nil {
			require.NoError(t, x.Fill(old))
		}
	})
	last := int64(0)
	for range 10 {
		v, err := x.Verify(t.Context(), src)
		require.NoError(t, err)
		require.True(t, v.OK(), v.String())
		require.GreaterOrEqual(t, v.Offset, last)
		last = v.Offset
	}
	require.Eventually(t, func() bool { return x.Offset() > last+50 }, 20*time.Second, time.Millisecond, "it is followed")
	stop()
	others.Wait()
	require.NotEmpty(t, ages)
}

// The alias is switched there and back under its readers.
func TestAlias(t *testing.T) {
	dir := t.TempDir()
	src, c := newSource(t, dir, 100), newCatalog(t, filepath.Join(dir, "indices"))
	_, err := c.Count(t.Context())
	require.Error(t, err, "there is no index")
	newIndex(t, c, "one", "standard", src)
	require.NoError(t, c.Switch(0, "one"))
	newIndex(t, c, "two", "en", src)
	plain, err := c.Match(t.Context(), "engine")
	require.NoError(t, err)
	require.Zero(t, plain, "the old index knows no word forms")

	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				n, err := c.Count(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 100, n)
				has, err := c.Has(t.Context(), source.ID(0))
				require.NoError(t, err)
				require.True(t, has)
			}
		})
	}
	at := []string{"one", "two"}
	for i := int64(1); i < 50; i++ {
		require.NoError(t, c.Switch(i, at[i%2]))
		require.NoError(t, c.Switch(i, at[i%2]), "again")
		require.Equal(t, Alias{at[i%2], at[(i+1)%2], i + 1}, c.Alias())
	}
	stop()
	readers.Wait()

	require.NoError(t, c.Switch(50, "one"))
	require.NoError(t, c.Switch(51, "two"))
	require.ErrorIs(t, c.Switch(50, "two"), ErrMoved, "the one before")
	require.ErrorIs(t, c.Switch(49, "one"), ErrMoved, "long ago")
	require.ErrorIs(t, c.Switch(53, "one"), ErrMoved, "not yet")
	require.ErrorIs(t, c.Switch(52, "two"), ErrMoved, "there already, by another switch")
	require.ErrorContains(t, c.Switch(52, "none"), "none")
	stemmed, err := c.Match(t.Context(), "engine")
	require.NoError(t, err)
	require.NotZero(t, stemmed)

	require.NoError(t, c.Close())
	c = newCatalog(t, filepath.Join(dir, "indices"))
	require.Equal(t, Alias{"two", "one", 52}, c.Alias())
	require.ErrorContains(t, c.Drop("two"), "is the alias's target")
	require.ErrorContains(t, c.Drop("../indices"), "is not the name of one")
	require.NoError(t, c.Drop("one"))
	require.NoError(t, c.Drop("one"))
	require.Equal(t, Alias{"two", "", 52}, c.Alias())
	n, err := c.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 100, n)
	require.NoError(t, c.Close())
	require.Equal(t, Alias{"two", "", 52}, newCatalog(t, filepath.Join(dir, "indices")).Alias())
}

// An index is dropped under those who write to it.
func TestDropped(t *testing.T) {
	dir := t.TempDir()
	src, c := newSource(t, dir, 20), newCatalog(t, filepath.Join(dir, "indices"))
	newIndex(t, c, "index-0", "standard", src)
	require.NoError(t, c.Switch(0, "index-0"))
	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { require.NoError(t, source.Writer{Source: src, Docs: 20, Rate: 500}.Run(ctx)) })
	beside.Go(func() { require.NoError(t, c.Follow(ctx, src, func(time.Duration) {})) })
	for i := int64(1); i < 10; i++ {
		x := c.live()[0]
		newIndex(t, c, fmt.Sprint("index-", i), "standard", src)
		require.NoError(t, c.Switch(i, fmt.Sprint("index-", i)))
		after := x.Offset()
		require.Eventually(t, func() bool { return x.Offset() > after }, 20*time.Second, time.Millisecond, "it is followed")
		require.NoError(t, c.Drop(x.Name()))

		changes, err := src.Changes(t.Context(), x.Offset(), 1)
		require.NoError(t, err)
		require.ErrorIs(t, x.Apply(x.Offset(), x.Offset()+1, changes), errClosed)
		_, err = x.Verify(t.Context(), src)
		require.ErrorIs(t, err, errClosed)
	}
}

// Created twice, also behind a crash that came in the middle of it.
func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "indices")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "x.new", "store"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.new", "index_meta.json"), []byte("{"), 0o600))
	c := newCatalog(t, dir)
	x, err := c.Create("x", "standard", 7)
	require.NoError(t, err)
	require.EqualValues(t, 7, x.Offset())
	again, err := c.Create("x", "standard", 9)
	require.NoError(t, err)
	require.Same(t, x, again)
	require.EqualValues(t, 7, again.Offset(), "the first one counts")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alias.json"), []byte("{"), 0o600))
	_, err = Open(dir)
	require.ErrorContains(t, err, "alias")
}

// fill is the process that is killed: it fills and consumes, says each offset that
// is durable, and starts over with filling when it is done.
func fill(ctx context.Context, dir string) error {
	src, err := source.Open(ctx, filepath.Join(dir, "source.db"))
	if err != nil {
		return err
	}
	c, err := Open(filepath.Join(dir, "indices"))
	if err != nil {
		return err
	}
	x, err := c.Create("x", "standard", 50)
	if err != nil {
		return err
	}
	fmt.Println(x.Offset())
	for last := ""; ; {
		page, err := src.Page(ctx, last, 20)
		if err != nil {
			return err
		}
		last = ""
		if len(page) > 0 {
			last = page[len(page)-1].ID
		}
		if err := x.Fill(page); err != nil {
			return err
		}
		after := x.Offset()
		changes, err := src.Changes(ctx, after, 3)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			if err := x.Apply(after, changes[len(changes)-1].Offset(), changes); err != nil {
				return err
			}
		}
		fmt.Println(x.Offset())
	}
}

// An index whose process is killed opens again, with all that was durable, and
// nobody else opens it before.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	src := newSource(t, dir, 100)
	random := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		change(t, src, random)
	}
	offset := int64(50)
	for kill := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envFill+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan(), "it lives")
		first, err := strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, first, offset, "what was durable is there")
		if kill == 0 {
			c, err := Open(filepath.Join(dir, "indices"))
			require.NoError(t, err)
			_, err = c.Index("x")
			require.ErrorContains(t, err, "one process at a time may have it open")
		}
		time.AfterFunc(time.Duration(random.IntN(150))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for lines.Scan() {
			offset, err = strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
			require.NoError(t, err)
		}
		require.Error(t, cmd.Wait())
	}
	c := newCatalog(t, filepath.Join(dir, "indices"))
	x, err := c.Index("x")
	require.NoError(t, err)
	require.GreaterOrEqual(t, x.Offset(), offset)
	t.Logf("offset %d after the last kill", x.Offset())
	page, err := src.Page(t.Context(), "", 1000)
	require.NoError(t, err)
	require.NoError(t, x.Fill(page))
	require.NoError(t, x.Seal(t.Context()))
	v, err := x.Verify(t.Context(), src)
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
}
