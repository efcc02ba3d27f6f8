package mutant

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

type external struct{ namespace, id, suffix string }

// known are the namespaces that a store has seen.
type known struct {
	mu  sync.Mutex
	all []string
}

func (k *known) add(namespace string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.all, namespace) {
		k.all = append(k.all, namespace)
	}
	return slices.Clone(k.all)
}

// identity returns an error with the same text that matches no other error.
func identity(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.New(err.Error())
}

// These mutants break P8, P10, P14, P15 and P16, and rules without a number: creating, finding and
// listing runs, firings, errors, hints.
var runMutants = []Mutant{
	{"external-id-twice-at-once", "P8", "whether an external id is taken is read in one statement, and the run inserted in the next", wrap(func(s *faulty) {
		var mu sync.Mutex
		held := map[external]store.ID{}
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			if p.Validate() != nil || !slices.ContainsFunc(p.Runs, func(n store.NewRun) bool { return n.ExternalID != "" }) {
				return create(ctx, p)
			}
			var out []store.CreateResult
			for _, n := range p.Runs {
				key := external{p.Namespace, n.ExternalID, n.Suffix}
				mu.Lock()
				id, taken := held[key]
				mu.Unlock()
				if r, ok := s.row(id); taken && ok && !r.Status.Final() && id != n.ID {
					if _, repeat := s.row(n.ID); !repeat {
						out = append(out, store.CreateResult{ID: id})
						continue
					}
				}
				if n.ExternalID != "" {
					roundTrip()
				}
				plain := n
				plain.ExternalID, plain.Suffix = "", ""
				res, err := create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{plain}, Now: p.Now})
				if err != nil {
					return nil, err
				}
				if res[0].Created && n.ExternalID != "" {
					s.Tamper(n.ID, func(r model.Row) { r.ExternalID, r.Suffix = n.ExternalID, n.Suffix })
					mu.Lock()
					held[key] = n.ID
					mu.Unlock()
				}
				out = append(out, res[0])
			}
			return out, nil
		}
	})},
	{"external-id-never-freed", "P8", "a final run keeps its external id", wrap(func(s *faulty) {
		var mu sync.Mutex
		had := map[external]store.ID{}
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			for i, n := range p.Runs {
				key := external{p.Namespace, n.ExternalID, n.Suffix}
				if err == nil && n.ExternalID != "" && out[i].Created {
					if first, again := had[key]; again && first != n.ID {
						out[i] = store.CreateResult{ID: first}
						continue
					}
					had[key] = n.ID
				}
			}
			return out, err
		}
	})},
	{"external-id-folds-case", "P8", "external ids that differ in case alone are one", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				p.Runs[i].ExternalID = strings.ToLower(p.Runs[i].ExternalID)
			}
			return create(ctx, p)
		}
	})},
	{"suffix-ignored", "P8", "an external id is taken whatever suffix it is taken with", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				p.Runs[i].Suffix = ""
			}
			return create(ctx, p)
		}
	})},

	{"for-ever-ends-with-the-run", "P8", "a run of ReuseNever frees its external id at its end", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				if p.Runs[i].ExternalID != "" {
					p.Runs[i].Reuse = store.ReuseAfterEnd
				}
			}
			return create(ctx, p)
		}
	})},
	{"for-ever-twice-at-once", "P8", "whether an external id was held for ever is read in one statement, and the run inserted in the next", wrap(func(s *faulty) {
		var mu sync.Mutex
		var turns atomic.Int64
		held := map[external]store.ID{}
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			if p.Validate() != nil || len(p.Runs) != 1 || p.Runs[0].Reuse != store.ReuseNever {
				return create(ctx, p)
			}
			n := p.Runs[0]
			key := external{p.Namespace, n.ExternalID, n.Suffix}
			mu.Lock()
			id, taken := held[key]
			mu.Unlock()
			if taken && id != n.ID {
				if r, ok := s.row(id); ok {
					return []store.CreateResult{n.Meets(id, r.Workflow, r.Digest)}, nil
				}
			}
			for range turns.Add(1) { // one comes after the other has ended its run
				roundTrip()
			}
			p.Runs = []store.NewRun{n}
			p.Runs[0].Reuse = store.ReuseAfterEnd
			out, err := create(ctx, p)
			if err == nil && out[0].Created {
				mu.Lock()
				held[key] = n.ID
				mu.Unlock()
			}
			return out, err
		}
	})},
	{"for-ever-survives-the-purge", "P8", "an external id that was held for ever is not free when its run is purged", wrap(func(s *faulty) {
		var mu sync.Mutex
		had := map[external]store.ID{}
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			for i, n := range p.Runs {
				key := external{p.Namespace, n.ExternalID, n.Suffix}
				if err == nil && n.Reuse == store.ReuseNever && out[i].Created {
					if first, again := had[key]; again && first != n.ID {
						out[i] = store.CreateResult{ID: first}
						continue
					}
					had[key] = n.ID
				}
			}
			return out, err
		}
	})},
	{"digest-not-compared", "P8", "a start is told of the run that holds its external id, whatever that was started with", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				if errors.Is(out[i].Err, store.ErrConflict) && out[i].ID != p.Runs[i].ID {
					out[i].Err = nil
				}
			}
			return out, err
		}
	})},
	{"digest-of-a-repeat-not-compared", "P4", "a start is told that the run of its ID was made, whatever that was started with", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				if errors.Is(out[i].Err, store.ErrConflict) && out[i].ID == p.Runs[i].ID {
					out[i].Err, out[i].Created = nil, true
				}
			}
			return out, err
		}
	})},
	{"digest-of-the-present-input", "P8", "a run that continues as new forgets what it was started with", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			if err == nil && res.Err == nil && c.Transition != nil && c.Transition.Kind == store.Continue {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Digest = nil })
			}
			return res, err
		})
	})},
	{"must-be-new-ignored", "P8", "a start that is to be new gets the run that holds its external id", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				p.Runs[i].MustBeNew = false
			}
			return create(ctx, p)
		}
	})},
	{"listed-by-id", "P14", "runs are listed in the order of their IDs", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			all := p
			all.Limit, all.Cursor = store.MaxPage, ""
			limit, err := store.Page(p.Limit)
			pos, err2 := p.Position()
			page, err3 := list(ctx, all)
			if errors.Join(err, err2, err3) != nil || page.Next != "" {
				return list(ctx, p)
			}
			slices.SortFunc(page.Runs, func(a, b store.Run) int {
				if p.OldestFirst {
					return bytes.Compare(a.ID[:], b.ID[:])
				}
				return bytes.Compare(b.ID[:], a.ID[:])
			})
			if p.Cursor != "" {
				page.Runs = slices.DeleteFunc(page.Runs, func(r store.Run) bool {
					c := bytes.Compare(r.ID[:], pos.ID[:])
					return c == 0 || c > 0 != p.OldestFirst
				})
			}
			if len(page.Runs) > limit {
				page.Runs = page.Runs[:limit]
				page.Next = p.CursorBehind(&page.Runs[limit-1])
			}
			return page, nil
		}
	})},

	{"continue-frees-the-external-id", "P8", "a run that has continued as new no longer holds its external id", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				r, ok := s.row(out[i].ID)
				if n := p.Runs[i]; ok && out[i].Err == nil && !out[i].Created && r.Generation > 0 {
					plain := n
					plain.ExternalID, plain.Suffix = "", ""
					one, err := create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{plain}, Now: p.Now})
					if err != nil {
						return nil, err
					}
					s.Tamper(n.ID, func(r model.Row) { r.ExternalID, r.Suffix = n.ExternalID, n.Suffix })
					out[i] = one[0]
				}
			}
			return out, err
		}
	})},
	{"find-prefers-the-oldest", "P8", "Find returns the run of an external id that was made first", wrap(func(s *faulty) {
		find := s.find
		s.find = func(ctx context.Context, p store.FindParams) (store.Run, error) {
			page, err := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{ExternalID: p.ExternalID}, OldestFirst: true})
			for _, r := range page.Runs {
				if err == nil && r.Suffix == p.Suffix {
					return r, nil
				}
			}
			return find(ctx, p)
		}
	})},

	{"fired-twice", "P10", "a fire time that comes again makes another run", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if err == nil && !res.Fired && p.Run != nil {
				_, err = s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{*p.Run}, Now: p.Now})
				return store.FireResult{Fired: true, Run: p.Run.ID}, err
			}
			return res, err
		}
	})},
	{"fired-again-after-a-purge", "P10", "a fire time that comes again makes its run if it is gone", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if err == nil && !res.Fired && p.Run != nil && res.Run == p.Run.ID {
				_, err = s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{*p.Run}, Now: p.Now})
			}
			return res, err
		}
	})},
	{"fired-time-advances", "P10", "a fire time that comes again advances a schedule that was put back to an earlier one", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			page, _ := s.ListSchedules(ctx, store.ListSchedulesParams{Namespace: p.Namespace, Names: []string{p.Schedule}, Now: p.Now})
			res, err := fire(ctx, p)
			if err == nil && !res.Fired && len(page.Schedules) == 1 && page.Schedules[0].NextAt.Before(p.At) {
				next := page.Schedules[0]
				next.NextAt = p.Next
				_, err = s.putSchedule(ctx, store.PutScheduleParams{Namespace: p.Namespace, Schedule: next, Now: p.Now})
			}
			return res, err
		}
	})},
	{"firing-finds-another-run", "P10", "a fire time that comes again names the run that has its external id by now", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if err == nil && !res.Fired && p.Run != nil && p.Run.ExternalID != "" {
				if r, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: p.Run.ExternalID, Suffix: p.Run.Suffix}); err == nil {
					res.Run = r.ID
				}
			}
			return res, err
		}
	})},
	{"firing-drops-a-large-input", "P10", "the run of a firing loses an input of more than 1 kB", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			if p.Run != nil && len(p.Run.Input) > 1<<10 && len(p.Run.Input) <= s.Limits().Payload {
				run := *p.Run
				run.Input = nil
				p.Run = &run
			}
			return fire(ctx, p)
		}
	})},
	{"firing-takes-a-foreign-run", "P15", "a firing whose run's ID is that of a run of another namespace names that run", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if errors.Is(err, store.ErrAlreadyExists) {
				return store.FireResult{Fired: true, Run: p.Run.ID}, nil
			}
			return res, err
		}
	})},
	{"fired-twice-at-once", "P10", "schedulers that see a fire time due at the same moment all fire it", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			page, err := s.ListFirings(ctx, store.ListFiringsParams{Namespace: p.Namespace, Schedule: p.Schedule})
			if err != nil || p.Run == nil || slices.ContainsFunc(page.Firings, func(f store.Firing) bool { return f.At.Equal(clock(p.At)) }) {
				return fire(ctx, p)
			}
			roundTrip()
			res, err := fire(ctx, p)
			if err == nil && !res.Fired {
				_, err = s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{*p.Run}, Now: p.Now})
				return store.FireResult{Fired: true, Run: p.Run.ID}, err
			}
			return res, err
		}
	})},
	{"fired-already-is-an-error", "P10", "the scheduler that comes second gets a conflict", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if err == nil && !res.Fired {
				return res, fmt.Errorf("fired already: %w", store.ErrConflict)
			}
			return res, err
		}
	})},
	{"fired-by-an-old-rule", "P13", "a firing does not ask whether the schedule was put since it was read", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			p.Seen = time.Time{}
			return fire(ctx, p)
		}
	})},
	{"firing-skips-the-next", "P10", "a firing that had no run does not move its schedule on", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			res, err := fire(ctx, p)
			if err != nil || !res.Fired || p.Run != nil {
				return res, err
			}
			page, err := s.Store.ListSchedules(ctx, store.ListSchedulesParams{Namespace: p.Namespace, Names: []string{p.Schedule}})
			if err == nil && len(page.Schedules) == 1 {
				page.Schedules[0].NextAt = p.At
				_, err = s.PutSchedule(ctx, store.PutScheduleParams{Namespace: p.Namespace, Schedule: page.Schedules[0], Now: p.Now})
			}
			return res, err
		}
	})},

	{"page-skips", "P14", "the row at which a page ends is on neither page", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			page, err := list(ctx, p)
			if n := len(page.Runs); page.Next != "" && n > 0 {
				page.Runs = page.Runs[:n-1]
			}
			return page, err
		}
	})},
	{"page-repeats", "P14", "a page begins with the row at which the last one ended", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			page, err := list(ctx, p)
			if n := len(page.Runs); page.Next != "" && n > 1 {
				page.Next = p.CursorBehind(&page.Runs[n-2])
			}
			return page, err
		}
	})},
	{"pages-by-offset", "P14", "a cursor is a number of rows to leave out", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			limit, err := store.Page(p.Limit)
			pos, err2 := p.Position()
			if err != nil || err2 != nil {
				return list(ctx, p)
			}
			from := 0
			if p.Cursor != "" {
				from = int(pos.ID[0])<<8 | int(pos.ID[1])
			}
			all, rest := p, p
			all.Cursor, all.Limit = "", store.MaxPage
			page, err := list(ctx, all)
			if err != nil || page.Next != "" {
				return page, err
			}
			rest.Cursor = ""
			out := store.RunPage{Runs: page.Runs[min(from, len(page.Runs)):]}
			if len(out.Runs) > limit {
				out.Runs = out.Runs[:limit]
				out.Next = rest.NextCursor(store.RunPosition{ID: store.ID{byte((from + limit) >> 8), byte(from + limit)}})
			}
			return out, nil
		}
	})},
	{"page-by-end-loses-ties", "P14", "a page by the end goes on behind the moment at which the last run ended", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			page, err := list(ctx, p)
			if n := len(page.Runs); page.Next != "" && p.ByEnd && n > 0 {
				last := page.Runs[n-1]
				last.ID = store.ID{}
				if p.OldestFirst {
					for i := range last.ID {
						last.ID[i] = 0xff
					}
				}
				page.Next = p.CursorBehind(&last)
			}
			return page, err
		}
	})},
	{"ends-are-creations", "P14", "what asks for runs by their end gets them by their creation", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			q := p
			q.Filter.CreatedAfter, q.Filter.FinishedAfter = p.Filter.FinishedAfter, time.Time{}
			if p.Cursor != "" {
				return list(ctx, p)
			}
			page, err := list(ctx, q)
			if n := len(page.Runs); page.Next != "" && n > 0 {
				page.Next = p.CursorBehind(&page.Runs[n-1])
			}
			return page, err
		}
	})},
	{"failure-text-folds-case", "P14", "the text of a failure is found in either case", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			if p.Filter.FailureText == "" || p.Cursor != "" {
				return list(ctx, p)
			}
			q := p
			q.Filter.FailureText, q.Limit = "", store.MaxPage
			page, err := list(ctx, q)
			page.Runs = slices.DeleteFunc(page.Runs, func(r store.Run) bool {
				return r.Failure == nil || !strings.Contains(strings.ToLower(r.Failure.Message), strings.ToLower(p.Filter.FailureText))
			})
			return store.RunPage{Runs: page.Runs}, err
		}
	})},
	{"force-waits-for-the-holder", "P11", "a forced cancel is an ordinary one: a leased run stays canceling", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			p.Force = false
			return cancel(ctx, p)
		}
	})},
	{"force-leaves-the-lease", "P2", "the holder of a run that was ended by force may still complete it", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			var held []store.Run
			for _, id := range p.IDs {
				if r, ok := s.row(id); ok && p.Force && r.Worker != "" {
					held = append(held, r)
				}
			}
			out, err := cancel(ctx, p)
			for _, r := range held {
				s.Tamper(r.ID, func(row model.Row) { row.Worker, row.Epoch = r.Worker, r.Epoch })
			}
			return out, err
		}
	})},
	{"foreign-cursor-accepted", "P14", "a listing goes on from the cursor of another query", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			if raw, err := base64.RawURLEncoding.DecodeString(p.Cursor); err == nil && len(raw) == 33 {
				p.Cursor = p.NextCursor(store.RunPosition{At: time.UnixMicro(int64(binary.BigEndian.Uint64(raw[9:]))), ID: store.ID(raw[17:])})
			}
			return list(ctx, p)
		}
	})},
	{"last-page-has-a-next", "P14", "a page that is exactly full names a next one, which is empty", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			page, err := list(ctx, p)
			if limit, bad := store.Page(p.Limit); err == nil && bad == nil && len(page.Runs) == limit && page.Next == "" {
				page.Next = p.CursorBehind(&page.Runs[limit-1])
			}
			return page, err
		}
	})},

	{"claim-sees-all-namespaces", "P15", "a claim that finds nothing in its namespace looks in the others", wrap(func(s *faulty) {
		var seen known
		create, claim := s.create, s.claim
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			seen.add(p.Namespace)
			return create(ctx, p)
		}
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			for _, ns := range seen.add(p.Namespace) {
				if err == nil && len(got.Runs) == 0 {
					p.Namespace = ns
					got, err = claim(ctx, p)
				}
			}
			return got, err
		}
	})},
	{"run-read-from-any-namespace", "P15", "a run is found by its ID alone", wrap(func(s *faulty) {
		get := s.get
		s.get = func(ctx context.Context, p store.GetParams) ([]store.Run, error) {
			if p.Validate() != nil {
				return get(ctx, p)
			}
			var out []store.Run
			for _, id := range p.IDs {
				q := p
				q.IDs = []store.ID{id}
				if r, ok := s.row(id); ok {
					q.Namespace = r.Namespace
				}
				runs, err := get(ctx, q)
				if err != nil {
					return nil, err
				}
				out = append(out, runs...)
			}
			return out, nil
		}
	})},
	{"signal-crosses-namespaces", "P15", "a signal finds its run by the ID alone", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			out, err := signal(ctx, p)
			for i := range out {
				if r, ok := s.row(p.Signals[i].Run); ok && errors.Is(out[i].Err, store.ErrNotFound) {
					one, err := signal(ctx, store.SignalParams{Namespace: r.Namespace, Signals: p.Signals[i : i+1], Now: p.Now})
					if err != nil {
						return nil, err
					}
					out[i] = one[0]
				}
			}
			return out, err
		}
	})},

	{"errors-match-nothing", "P16", "errors are text alone", wrap(func(s *faulty) {
		create, claim, commit, cancel, signal, inbox := s.create, s.claim, s.commit, s.cancel, s.signal, s.inbox
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				out[i].Err = identity(out[i].Err)
			}
			return out, identity(err)
		}
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			out, err := claim(ctx, p)
			return out, identity(err)
		}
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			out, err := commit(ctx, p)
			for i := range out {
				out[i].Err = identity(out[i].Err)
			}
			return out, identity(err)
		}
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			out, err := cancel(ctx, p)
			for i := range out {
				out[i].Err = identity(out[i].Err)
			}
			return out, identity(err)
		}
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			out, err := signal(ctx, p)
			for i := range out {
				out[i].Err = identity(out[i].Err)
			}
			return out, identity(err)
		}
		s.inbox = func(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
			out, err := inbox(ctx, p)
			return out, identity(err)
		}
	})},
	{"error-matches-two", "P16", "an error of what is not there matches ErrUnavailable, too, so that callers try for ever", wrap(func(s *faulty) {
		inbox := s.inbox
		s.inbox = func(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
			out, err := inbox(ctx, p)
			if errors.Is(err, store.ErrNotFound) {
				err = errors.Join(err, store.ErrUnavailable)
			}
			return out, err
		}
	})},
	{"bad-item-fails-the-batch", "P16", "one bad run of a batch fails the whole call", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			for i := range p.Runs {
				if err := p.Runs[i].Validate(s.Limits()); err != nil && p.Validate() == nil {
					return nil, err
				}
			}
			return create(ctx, p)
		}
	})},
	{"canceled-call-is-unavailable", "P16", "a call with a canceled context is told that the store is not there", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			if ctx.Err() != nil {
				return store.Claimed{}, store.ErrUnavailable
			}
			return claim(ctx, p)
		}
	})},
	{"diagnosis-without-advice", "P16", "a diagnosis warns and does not say what to do", wrap(func(s *faulty) {
		diagnose := s.diagnose
		s.diagnose = func(ctx context.Context) ([]store.Finding, error) {
			list, err := diagnose(ctx)
			if len(list) > 0 {
				list[0].Level = store.Warning
			}
			return list, err
		}
	})},
	{"diagnosis-of-nothing", "P16", "the diagnosis of a store that is out of reach finds nothing, and no error", wrap(func(s *faulty) {
		diagnose := s.diagnose
		s.diagnose = func(ctx context.Context) ([]store.Finding, error) {
			list, _ := diagnose(ctx)
			return list, nil
		}
	})},
	{"final-run-takes-signals", "P16", "a signal to a final run succeeds and goes nowhere", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			out, err := signal(ctx, p)
			for i := range out {
				if errors.Is(out[i].Err, store.ErrFinished) {
					out[i] = store.SignalResult{Run: p.Signals[i].Run}
				}
			}
			return out, err
		}
	})},

	{"no-hint-of-the-end", "", "a run that becomes final is not hinted", wrap(func(s *faulty) { s.dropHints(store.HintFinal) })},
	{"no-hint-of-events", "", "an event is not hinted", wrap(func(s *faulty) { s.dropHints(store.HintEvent) })},
	{"no-hint-of-state", "", "a commit's state write is not hinted", wrap(func(s *faulty) { s.dropHints(store.HintState) })},
	{"no-hint-of-work", "", "a queue that has work is not hinted", wrap(func(s *faulty) { s.dropHints(store.HintQueue) })},
	{"no-hint-of-a-schedule", "", "a schedule that is put is not hinted", wrap(func(s *faulty) { s.dropHints(store.HintRescan) })},
}

func (s *faulty) dropHints(kind store.HintKind) {
	hints := s.hints
	s.hints = func(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
		in, err := hints(ctx, topics...)
		if err != nil {
			return nil, err
		}
		out := make(chan []store.Hint)
		go func() {
			defer close(out)
			for batch := range in {
				batch = slices.DeleteFunc(slices.Clone(batch), func(h store.Hint) bool { return h.Kind == kind })
				if len(batch) == 0 {
					continue
				}
				select {
				case out <- batch:
				case <-ctx.Done():
					return
				}
			}
		}()
		return out, nil
	}
}
