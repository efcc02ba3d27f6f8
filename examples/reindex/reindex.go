package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/examples/reindex/search"
	"github.com/pawlhq/pawl/examples/reindex/source"
	"github.com/pawlhq/pawl/workflow"
)

// Plan says which index is to be built.
type Plan struct {
	To       string // its name
	Analyzer string // how it reads words
	Batch    int    // documents, or changes, that are written at a time
}

// The parts of a reindex watch each other through the run's state, and so does who
// watches it from outside.
var (
	// ConsumerOffset is how far the consumer has brought the log into the new index.
	ConsumerOffset = workflow.NewState[int64]("consumer_offset")
	// TargetWatermark is where the log ended when the backfill was done.
	TargetWatermark = workflow.NewState[int64]("target_watermark")
	// Backfilled is how far the backfill has come.
	Backfilled = workflow.NewState[Progress]("backfilled")
	// SwitchOver ends the consumer: the alias is switched, or never will be.
	SwitchOver = workflow.NewState[bool]("switch_over")
)

// Progress of the backfill: the last document, and how many there were.
type Progress struct {
	Last string
	Docs int64
}

// indexer is what the steps work on.
type indexer struct {
	source  *source.Source
	indices *search.Catalog
}

// reindex builds a new index beside the one that is in use, and switches the alias to
// it when it has caught up:
//
//	create-index ──┬── backfill ───────── target_watermark ──┐
//	               ├── consume-changes ── consumer_offset ───┤        (ends after the switch)
//	               └── caught-up: consumer_offset >= target_watermark ── seal-index ── switch-alias ── verify
//
// The backfill reads documents at different times, while they are changed, so its
// part of the index is of no one moment. It has seen no change beyond the log's end
// at its own end; that is the target watermark. When the consumer has applied
// all changes up to there, the index is what the source was at the consumer's
// offset, and from then on as fresh as the log.
func (s *indexer) reindex() *workflow.Workflow[Plan, search.Verification] {
	return workflow.New("reindex", func(ctx workflow.Context, p Plan) (v search.Verification, err error) {
		begin, err := workflow.Step(ctx, "create-index", func(ctx context.Context) (start, error) { return s.create(ctx, p) }, patiently...)
		if err != nil {
			return v, err
		}
		parts := workflow.NewGroup(ctx)
		// A part that fails for good tells the others, which would wait for it for ever.
		part := func(name string, fn func(ctx workflow.Context) error) {
			parts.Go(name, func(ctx workflow.Context) error {
				err := fn(ctx)
				if err != nil {
					err = errors.Join(err, workflow.CoordErrorState.Set(ctx, name+": "+err.Error()))
				}
				return err
			})
		}
		part("backfill", func(ctx workflow.Context) error {
			return workflow.Do(ctx, "backfill", func(ctx context.Context) error { return s.backfill(ctx, p) }, patiently...)
		})
		part("consume", func(ctx workflow.Context) error {
			return workflow.Do(ctx, "consume-changes", func(ctx context.Context) error { return s.consume(ctx, p, begin.Offset) }, patiently...)
		})
		part("switch", func(ctx workflow.Context) error {
			err := s.cutOver(ctx, p, begin.Generation)
			return errors.Join(err, SwitchOver.Set(ctx, true))
		})
		if err := parts.Wait(); err != nil {
			return v, err
		}

		v, err = workflow.Step(ctx, "verify", func(ctx context.Context) (search.Verification, error) { return s.verify(ctx, p) }, patiently...)
		if err != nil || v.OK() {
			return v, err
		}
		// Readers are better off with the old index, which was kept fresh.
		err = s.moveAlias(ctx, "switch-back", search.Alias{Target: begin.Old, Generation: begin.Generation + 1})
		return v, workflow.Permanent(errors.Join(errors.New(v.String()), err))
	})
}

// patiently: what fails is tried again until it succeeds or the run is canceled. Who
// watches sees that the offset or the backfill stands still.
var patiently = []workflow.StepOption{workflow.Attempts(-1), workflow.Backoff(100*time.Millisecond, 2, 10*time.Second)}

// start is what is true before the first document is read.
type start struct {
	Offset     int64  // changes behind it are the consumer's
	Generation int64  // of the alias
	Old        string // its target
}

func (s *indexer) create(ctx context.Context, p Plan) (start, error) {
	at := s.indices.Alias()
	if p.To == at.Target {
		return start{}, workflow.Permanent(fmt.Errorf("%s is in use: give the new index another name", p.To))
	}
	// Another reindex is the end of the way back behind the last one.
	if at.Previous != "" {
		if err := s.indices.Drop(at.Previous); err != nil {
			return start{}, err
		}
	}
	end, err := s.source.End(ctx)
	if err != nil {
		return start{}, err
	}
	x, err := s.indices.Create(p.To, p.Analyzer, end)
	if err != nil {
		return start{}, err
	}
	// Created by an earlier attempt, it has the offset of then.
	return start{x.Offset(), at.Generation, at.Target}, nil
}

// backfill writes all documents into the new index. Its progress is noted when a
// batch is on disk, so after a crash it repeats one batch at most.
func (s *indexer) backfill(ctx context.Context, p Plan) error {
	run := workflow.InStep(ctx)
	if _, done, err := TargetWatermark.Get(run); done || err != nil {
		return err
	}
	x, err := s.indices.Index(p.To)
	if err != nil {
		return err
	}
	at, _, err := Backfilled.Get(run)
	if err != nil {
		return err
	}
	for {
		page, err := s.source.Page(ctx, at.Last, p.Batch)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		if err := x.Fill(page); err != nil {
			return err
		}
		at = Progress{page[len(page)-1].ID, at.Docs + int64(len(page))}
		if err := Backfilled.Set(run, at); err != nil {
			return err
		}
	}
	// Read behind the last page: no document in the index is newer.
	end, err := s.source.End(ctx)
	if err != nil {
		return err
	}
	return TargetWatermark.Set(run, end)
}

// consume applies the log to the new index from where the index began, until the
// switch is over. The offset is noted behind the batch that has reached the disk, never
// before: a crash repeats changes, which changes nothing, and skips none.
func (s *indexer) consume(ctx context.Context, p Plan, from int64) error {
	run := workflow.InStep(ctx)
	x, err := s.indices.Index(p.To)
	if err != nil {
		return err
	}
	offset, ok, err := ConsumerOffset.Get(run)
	if err != nil {
		return err
	}
	if !ok {
		// Noted at once: where nothing is written, the gate opens all the same.
		offset = from
		if err := ConsumerOffset.Set(run, offset); err != nil {
			return err
		}
	}
	for {
		changes, err := s.source.Changes(ctx, offset, p.Batch)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			upTo := changes[len(changes)-1].Offset()
			if err := x.Apply(offset, upTo, changes); err != nil {
				return err
			}
			offset = upTo
			if err := ConsumerOffset.Set(run, offset); err != nil {
				return err
			}
		}
		// Asked however much there is to do: behind the switch the new index is followed as
		// the alias's target is, and who cannot keep up must not go on for ever.
		over, _, err := SwitchOver.Get(run)
		if over || err != nil {
			return err
		}
		if len(changes) == p.Batch {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// cutOver waits at the gate and switches.
func (s *indexer) cutOver(ctx workflow.Context, p Plan, generation int64) error {
	if err := workflow.WaitForState(ctx, "caught-up", caughtUp); err != nil {
		return err
	}
	err := workflow.Do(ctx, "seal-index", func(ctx context.Context) error {
		x, err := s.indices.Index(p.To)
		if err != nil {
			return err
		}
		return x.Seal(ctx)
	}, patiently...)
	if err != nil {
		return err
	}
	return s.moveAlias(ctx, "switch-alias", search.Alias{Target: p.To, Generation: generation})
}

// caughtUp is the watermark gate.
func caughtUp(r workflow.FlowStateReader) (bool, error) {
	target, done, err := TargetWatermark.Read(r)
	if !done || err != nil {
		return false, err
	}
	offset, ok, err := ConsumerOffset.Read(r)
	return ok && offset >= target, err
}

// moveAlias switches from a generation on. A step that has switched and then died is
// done again and finds it done; if somebody has switched again meanwhile, theirs
// stays.
func (s *indexer) moveAlias(ctx workflow.Context, name string, to search.Alias) error {
	return workflow.Do(ctx, name, func(context.Context) error {
		err := s.indices.Switch(to.Generation, to.Target)
		if errors.Is(err, search.ErrMoved) {
			return workflow.Permanent(err)
		}
		return err
	}, patiently...)
}

func (s *indexer) verify(ctx context.Context, p Plan) (search.Verification, error) {
	x, err := s.indices.Index(p.To)
	if err != nil {
		return search.Verification{}, err
	}
	return x.Verify(ctx, s.source)
}

// rollback puts the alias back to the index before. The indices belong to the
// process that serves them, so an operator asks it by starting a run.
func (s *indexer) rollback() *workflow.Workflow[struct{}, search.Alias] {
	return workflow.New("rollback-alias", func(ctx workflow.Context, _ struct{}) (search.Alias, error) {
		at, err := workflow.Value(ctx, "alias", s.indices.Alias)
		if err != nil {
			return at, err
		}
		if at.Previous == "" {
			return at, workflow.Permanent(fmt.Errorf("there is no index behind %s to go back to", at.Target))
		}
		back := search.Alias{Target: at.Previous, Previous: at.Target, Generation: at.Generation + 1}
		return back, s.moveAlias(ctx, "switch-alias", search.Alias{Target: at.Previous, Generation: at.Generation})
	})
}

// drop removes an index that is not the alias's target: the one before, when nobody
// wants to go back to it any more, or one that a canceled reindex has left.
func (s *indexer) drop() *workflow.Workflow[string, string] {
	return workflow.New("drop-index", func(ctx workflow.Context, name string) (string, error) {
		return name, workflow.Do(ctx, "drop", func(context.Context) error { return s.indices.Drop(name) }, workflow.Attempts(1))
	})
}
