package indexer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"unicode/utf8"
)

// File is one line of a listing. Err is set, and the file not to be measured,
// when the listing itself could not get at the file or directory.
type File struct {
	Path string `json:"path"` // below the root, with slashes
	Err  string `json:"err,omitempty"`
}

// Walk calls yield for each regular file below root, while it finds them.
// Symbolic links, devices and the like are left out, except root itself, which
// may be a link to a directory. A directory or file that cannot be read is
// yielded with its error; Walk itself fails only when root cannot be read, yield
// fails or ctx is done.
func Walk(ctx context.Context, root string, yield func(File) error) error {
	if info, err := os.Stat(root); err != nil {
		return fmt.Errorf("index: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("index: %s is not a directory", root)
	}
	if err := walk(ctx, os.DirFS(root), yield); err != nil {
		return fmt.Errorf("index: cannot list %s: %w", root, err)
	}
	return nil
}

func walk(ctx context.Context, fsys fs.FS, yield func(File) error) error {
	return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
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
			return yield(File{Path: legible(path), Err: reason(err)})
		case !utf8.ValidString(path):
			// Such a name would not survive being recorded as JSON. Of a
			// directory, one line stands for all that is below.
			err := yield(File{Path: legible(path), Err: "the name is not valid UTF-8"})
			if err == nil && d.IsDir() {
				return fs.SkipDir
			}
			return err
		case d.Type().IsRegular():
			return yield(File{Path: path})
		}
		return nil
	})
}

// legible writes a path that is not UTF-8 so that different ones stay different.
func legible(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return strconv.QuoteToASCII(path)
}
