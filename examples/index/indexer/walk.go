package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"
)

// File is one line of a listing. Err is set, and the file not to be measured,
// when the listing itself could not get at the file or directory.
type File struct {
	Path string `json:"path"` // below the root, with slashes
	Err  string `json:"err,omitempty"`
}

// Walk lists the regular files below root in the order of their paths' bytes,
// the same at every call as long as the tree does not change. Symbolic links,
// devices and the like are left out, except root itself, which may be a link to
// a directory. A directory or file that cannot be read is listed with its error;
// Walk itself fails only when root cannot be read or ctx is done.
func Walk(ctx context.Context, root string) ([]File, error) {
	if info, err := os.Stat(root); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("index: %s is not a directory", root)
	}
	files, err := walk(ctx, os.DirFS(root))
	if err != nil {
		return nil, fmt.Errorf("index: cannot list %s: %w", root, err)
	}
	return files, nil
}

func walk(ctx context.Context, fsys fs.FS) ([]File, error) {
	var files []File
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case err != nil && path == ".":
			return err
		case err != nil && errors.Is(err, fs.ErrNotExist):
			// It was removed since its directory was read, as if it had been
			// before.
		case err != nil:
			files = append(files, File{Path: legible(path), Err: reason(err)})
		case !utf8.ValidString(path):
			// Such a name would not survive being recorded as JSON. Of a
			// directory, one line stands for all that is below.
			files = append(files, File{Path: legible(path), Err: "the name is not valid UTF-8"})
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			files = append(files, File{Path: path})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// legible writes a path that is not UTF-8 so that different ones stay different.
func legible(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return strconv.QuoteToASCII(path)
}
