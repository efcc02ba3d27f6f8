package indexer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// listed collects what a walk yields, in the order of the paths.
func listed(walk func(yield func(File) error) error) (files []File, err error) {
	err = walk(func(f File) error { files = append(files, f); return nil })
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, err
}

func list(t *testing.T, root string) ([]File, error) {
	return listed(func(yield func(File) error) error { return Walk(t.Context(), root, yield) })
}

func TestWalk(t *testing.T) {
	root := t.TempDir()
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
	got, err := list(t, root)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	if got, err := list(t, link); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("through a link: got %v, %v; want %v", got, err, want)
	}
}

func TestWalkRootErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "x")
	if _, err := list(t, filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing root gave %v", err)
	}
	if _, err := list(t, filepath.Join(dir, "file")); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a file as root gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Walk(ctx, dir, func(File) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled context gave %v", err)
	}
	broken := brokenFS{fstest.MapFS{"a": {}}, map[string]error{".": fs.ErrPermission}}
	if err := walk(t.Context(), broken, func(File) error { return nil }); !errors.Is(err, fs.ErrPermission) {
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
	got, err := listed(func(yield func(File) error) error { return walk(t.Context(), fsys, yield) })
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestWalkStopsWithYield(t *testing.T) {
	stop, n := errors.New("stop"), 0
	fsys := brokenFS{fstest.MapFS{"a": {}, "bad\xff/x": {}, "locked/x": {}}, map[string]error{"locked": fs.ErrPermission}}
	for at := range 3 {
		n = 0
		err := walk(t.Context(), fsys, func(File) error {
			if n++; n > at {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || n != at+1 {
			t.Errorf("stopped at %d: %v after %d files", at, err, n)
		}
	}
}
