package conformance_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// What follows, to "end of the glue", is the code of docs/new-backend.md.

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		New: func(t testing.TB) store.Store {
			return open(t, filepath.Join(t.TempDir(), "data"))
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			return open(t, s.(*Store).Path())
		},
		Unmeasured: "it is in memory, and looks at all that it holds",
		Exceptions: map[string]string{
			"close/leaves-the-data": "the data is in memory and goes with the first handle",
			"close/tells-first":     "the hints go with it",
		},
	})
}

func open(t testing.TB, path string) store.Store {
	t.Helper()
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// end of the glue

// Store stands for a backend: the model store, found again by a path.
type Store struct {
	*model.Store
	path string
}

var opened sync.Map

func Open(_ context.Context, path string) (*Store, error) {
	m, _ := opened.LoadOrStore(path, model.New(model.Options{}))
	return &Store{m.(*model.Store), path}, nil
}

func (s *Store) Path() string { return s.path }

// The document shows the glue as it is compiled here.
func TestGlueIsInTheDocument(t *testing.T) {
	code, err := os.ReadFile("glue_test.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/new-backend.md")
	if err != nil {
		t.Fatal(err)
	}
	_, glue, _ := strings.Cut(string(code), "of docs/new-backend.md.\n")
	glue, _, _ = strings.Cut(glue, "// end of the glue")
	if glue = strings.TrimSpace(glue); !strings.Contains(string(doc), glue) {
		t.Errorf("docs/new-backend.md does not contain the glue of glue_test.go:\n%s", glue)
	}
}
