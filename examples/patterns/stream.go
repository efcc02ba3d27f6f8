package patterns

import (
	"context"

	"github.com/pawlhq/pawl/workflow"
)

// Bucket lists its objects page by page. The token of a page leads to the next one; at
// the end it is empty.
type Bucket interface {
	List(ctx context.Context, token string) (keys []string, next string, err error)
	Scan(ctx context.Context, key string) error
}

// At is a place in the listing: behind an object of a page.
type At struct {
	Page string // its token
	Skip int    // objects of it that were yielded
}

// ScanBucket scans all objects of a bucket while it is still listing them.
func ScanBucket(b Bucket) (bucket *workflow.Workflow[struct{}, workflow.Generated], object *workflow.Workflow[string, struct{}]) {
	object = workflow.New("scan-object", func(ctx workflow.Context, key string) (struct{}, error) {
		return struct{}{}, workflow.Do(ctx, "scan", func(ctx context.Context) error { return b.Scan(ctx, key) })
	})

	list := func(ctx context.Context, from At, yield func(string, At) error) error {
		for {
			keys, next, err := b.List(ctx, from.Page)
			if err != nil {
				return err
			}
			for i, key := range keys[from.Skip:] {
				if err := yield(key, At{from.Page, from.Skip + i + 1}); err != nil {
					return err
				}
			}
			if next == "" {
				return nil
			}
			from = At{Page: next}
		}
	}
	bucket = workflow.New("scan-bucket", func(ctx workflow.Context, _ struct{}) (workflow.Generated, error) {
		return workflow.GenerateFrom(ctx, "objects", list, object,
			workflow.Window(5000), workflow.Tolerate(100), workflow.GeneratorStep(workflow.Attempts(20)))
	})
	return bucket, object
}
