package patterns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

type shrinker struct{}

func (shrinker) Shrink(_ context.Context, picture string) (Thumb, error) {
	if picture == "broken" {
		return Thumb{}, workflow.Permanent(errors.New("not a picture"))
	}
	return Thumb{picture, int64(len(picture))}, nil
}

func TestAlbum(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		album := NewAlbum(shrinker{})
		env.Register(album.Thumbnail)
		require.Equal(t, []Thumb{{"a", 1}, {"bb", 2}}, workflowtest.Start(env, album.Thumbs, []string{"a", "bb"}).Result())
		require.EqualValues(t, 6, workflowtest.Start(env, album.Size, []string{"a", "bb", "ccc"}).Result())

		_, err := workflowtest.Start(env, album.Thumbs, []string{"a", "broken", "ccc"}).Wait()
		require.ErrorContains(t, err, "not a picture")
	})
}

// bucket lists ten objects on each of five pages, and fails now and then.
type bucket struct {
	mu      sync.Mutex
	lists   int
	scanned map[string]int
}

func (b *bucket) List(_ context.Context, token string) (keys []string, next string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists++; b.lists%3 == 0 {
		return nil, "", errors.New("slow down")
	}
	page := 0
	_, _ = fmt.Sscan(token, &page)
	for i := range 10 {
		keys = append(keys, fmt.Sprintf("%d-%d", page, i))
	}
	if page < 4 {
		next = fmt.Sprint(page + 1)
	}
	return keys, next, nil
}

func (b *bucket) Scan(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scanned[key]++
	return nil
}

func TestScanBucket(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		b := &bucket{scanned: map[string]int{}}
		all, object := ScanBucket(b)
		env.Register(object)
		require.Equal(t, workflow.Generated{Spawned: 50, Completed: 50}, workflowtest.Start(env, all, struct{}{}).Result())
		require.Len(t, b.scanned, 50)
		for key, n := range b.scanned {
			require.Equal(t, 1, n, key)
		}
		require.Less(t, b.lists, 15, "it goes on where it was")
	})
}
