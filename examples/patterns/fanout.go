package patterns

import (
	"context"

	"github.com/pawlhq/pawl/workflow"
)

// Thumb is a picture made small.
type Thumb struct {
	Name  string
	Bytes int64
}

// Shrinker makes pictures small.
type Shrinker interface {
	Shrink(ctx context.Context, picture string) (Thumb, error)
}

// Album makes all pictures of an album small. Each is a run of its own, which any
// worker takes; the album's own run sleeps until they are done.
type Album struct {
	Thumbnail *workflow.Workflow[string, Thumb]
	Thumbs    *workflow.Workflow[[]string, []Thumb]
	Size      *workflow.Workflow[[]string, int64]
}

// NewAlbum makes its workflows. The worker registers all of them.
func NewAlbum(pictures Shrinker) (a Album) {
	a.Thumbnail = workflow.New("thumbnail", func(ctx workflow.Context, picture string) (Thumb, error) {
		return workflow.Step(ctx, "shrink", func(ctx context.Context) (Thumb, error) {
			return pictures.Shrink(ctx, picture)
		}, workflow.Attempts(3))
	})

	a.Thumbs = workflow.New("thumbs", func(ctx workflow.Context, album []string) ([]Thumb, error) {
		return workflow.Map(ctx, "thumbnails", album, a.Thumbnail, workflow.AtOnce(200), workflow.Collect())
	})

	a.Size = workflow.New("album-size", func(ctx workflow.Context, album []string) (int64, error) {
		return workflow.Reduce(ctx, "thumbnails", album, a.Thumbnail, 0, func(sum int64, _ int, t Thumb) (int64, error) {
			return sum + t.Bytes, nil
		})
	})
	return a
}
