package indexer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func TestWalk(t *testing.T) {
	root := t.TempDir()
	// Ordered as paths, "a-b" stands before "a/b"; a walk meets them the other
	// way round.
	for _, name := range []string{"b", "a/b", "a-b", "a/c/d", ".hidden", "z/.keep"} {
		write(t, root, name, name)
	}
	if err := os.MkdirAll(filepath.Join(root, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "b", "linkdir": "a", "dangling": "nowhere", "loop": "."} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal("the test needs symbolic links:", err)
		}
	}
	want := []File{{Path: ".hidden"}, {Path: "a-b"}, {Path: "a/b"}, {Path: "a/c/d"}, {Path: "b"}, {Path: "z/.keep"}}
	got, err := Walk(t.Context(), root)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	if got, err := Walk(t.Context(), link); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("through a link: got %v, %v; want %v", got, err, want)
	}
}

func TestWalkRootErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "x")
	if _, err := Walk(t.Context(), filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing root gave %v", err)
	}
	if _, err := Walk(t.Context(), filepath.Join(dir, "file")); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a file as root gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Walk(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled context gave %v", err)
	}
	if _, err := walk(t.Context(), brokenFS{fstest.MapFS{"a": {}}, map[string]error{".": fs.ErrPermission}}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a root that cannot be read gave %v", err)
	}
}

// brokenFS refuses to read some directories.
type brokenFS struct {
	fstest.MapFS
	errs map[string]error
}

func (b brokenFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := b.errs[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return b.MapFS.ReadDir(name)
}

func TestWalkReportsWhatItCannotRead(t *testing.T) {
	fsys := brokenFS{
		fstest.MapFS{"a": {}, "locked/x": {}, "gone/y": {}, "bad\xff": {}, "worse\xfe/z": {}, "z": {}},
		map[string]error{"locked": fs.ErrPermission, "gone": fs.ErrNotExist},
	}
	want := []File{
		{Path: `"bad\xff"`, Err: "the name is not valid UTF-8"},
		{Path: `"worse\xfe"`, Err: "the name is not valid UTF-8"},
		{Path: "a"},
		{Path: "locked", Err: "open: permission denied"},
		{Path: "z"},
	}
	want[3].Err = "open: " + fs.ErrPermission.Error()
	got, err := walk(t.Context(), fsys)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}
