package mutant

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// arrange changes the signals that readers see.
func (s *faulty) arrange(f func([]store.Signal) []store.Signal) {
	inbox, claim := s.inbox, s.claim
	s.inbox = func(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
		in, err := inbox(ctx, p)
		in.Signals = f(in.Signals)
		return in, err
	}
	s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
		got, err := claim(ctx, p)
		for i := range got.Runs {
			got.Runs[i].Inbox.Signals = f(got.Runs[i].Inbox.Signals)
		}
		return got, err
	}
}

// These mutants break P17: they lose, repeat or reorder signals.
var signalMutants = []Mutant{
	{"signal-consumed-twice", "P17", "a consumed signal stays in the inbox", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.Consumed = nil })
	})},
	{"one-consumed-takes-its-elders", "P17", "a commit that consumes a signal takes all that came before it, too", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				c.Consumed = slices.Clone(c.Consumed)
				last := 0
				for i, sig := range *r.Signals {
					if slices.Contains(c.Consumed, sig.ID) {
						last = i
					}
				}
				for i := range last {
					c.Consumed = append(c.Consumed, (*r.Signals)[i].ID)
				}
			})
			return next(c)
		})
	})},
	{"signal-repeated-to-the-next-run", "P4", "a signal to an external id that is sent again reaches the run that holds it by now", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			out, err := signal(ctx, p)
			for i := range out {
				n := p.Signals[i]
				r, ok := s.row(out[i].Run)
				if err != nil || !ok || out[i].Err != nil || n.ExternalID == "" || !r.Status.Final() {
					continue
				}
				if now, err := s.find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix}); err == nil && !now.Status.Final() {
					n.Run, n.ExternalID, n.Suffix = now.ID, "", ""
					again, err := signal(ctx, store.SignalParams{Namespace: p.Namespace, Signals: []store.NewSignal{n}, Now: p.Now})
					if err != nil {
						return nil, err
					}
					out[i] = again[0]
				}
			}
			return out, err
		}
	})},
	{"import-forgets-what-was-read", "P4", "an imported run does not know the signals that it has consumed", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			if p.Validate(s.Limits()) == nil {
				p.Record.Consumed = nil
			}
			return imports(ctx, p)
		}
	})},
	{"import-forgets-the-start", "P13", "an imported run that waits for its start, or a retry, is due when it is resumed", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			p.Record.Run.VisibleAt = time.Time{}
			return imports(ctx, p)
		}
	})},
	{"sent-page-skips", "P14", "the last signal of a page is on none", wrap(func(s *faulty) {
		sent := s.sent
		s.sent = func(ctx context.Context, p store.SentParams) (store.SentPage, error) {
			page, err := sent(ctx, p)
			if limit, bad := store.Page(p.Limit); bad == nil && len(page.Signals) == limit && limit > 1 {
				page.Signals[limit-2].Position = page.Signals[limit-1].Position
				page.Signals = page.Signals[:limit-1]
			}
			return page, err
		}
	})},
	{"sent-tells-unread-only", "P17", "the signals that a run has consumed are left out of those that it has had", wrap(func(s *faulty) {
		sent := s.sent
		s.sent = func(ctx context.Context, p store.SentParams) (store.SentPage, error) {
			page, err := sent(ctx, p)
			page.Signals = slices.DeleteFunc(page.Signals, func(g store.SentSignal) bool { return g.Consumed })
			return page, err
		}
	})},
	{"signal-dropped-before-the-start", "P17", "a signal to a run that has not begun goes nowhere", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			out, err := signal(ctx, p)
			for _, res := range out {
				s.Tamper(res.Run, func(r model.Row) {
					if res.Err == nil && r.StartedAt.IsZero() {
						*r.Signals = nil
					}
				})
			}
			return out, err
		}
	})},
	{"retry-drops-signals", "P17", "a retry empties the inbox", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Retry) {
				s.Tamper(c.Lease.Run, func(r model.Row) { *r.Signals = nil })
			}
		})
	})},
	{"continue-drops-signals", "P17", "a run that continues as new begins with an empty inbox", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Continue) {
				s.Tamper(c.Lease.Run, func(r model.Row) { *r.Signals = nil })
			}
		})
	})},
	{"last-signal-of-its-name-stays", "P17", "of signals of one name the last one alone is kept", wrap(func(s *faulty) {
		s.arrange(func(in []store.Signal) []store.Signal {
			var out []store.Signal
			for i, sig := range in {
				if !slices.ContainsFunc(in[i+1:], func(later store.Signal) bool { return later.Name == sig.Name }) {
					out = append(out, sig)
				}
			}
			return out
		})
	})},
	{"signals-in-the-order-of-ids", "P17", "signals are read by ID, which the sender makes", wrap(func(s *faulty) {
		s.arrange(func(in []store.Signal) []store.Signal {
			slices.SortFunc(in, func(a, b store.Signal) int { return bytes.Compare(a.ID[:], b.ID[:]) })
			return in
		})
	})},
	{"signals-last-first", "P17", "the latest signal is read first", wrap(func(s *faulty) {
		s.arrange(func(in []store.Signal) []store.Signal {
			slices.Reverse(in)
			return in
		})
	})},
	{"concurrent-signals-lost", "P17", "the inbox is read, added to and written back: of signals at once some are lost", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			read := map[store.ID][]store.Signal{}
			for _, sig := range p.Signals {
				s.Tamper(sig.Run, func(r model.Row) { read[sig.Run] = slices.Clone(*r.Signals) })
			}
			roundTrip()
			out, err := signal(ctx, p)
			for id, had := range read {
				s.Tamper(id, func(r model.Row) {
					for _, sig := range *r.Signals {
						if slices.ContainsFunc(p.Signals, func(n store.NewSignal) bool { return n.ID == sig.ID }) && !slices.ContainsFunc(had, func(h store.Signal) bool { return h.ID == sig.ID }) {
							had = append(had, sig)
						}
					}
					*r.Signals = had
				})
			}
			return out, err
		}
	})},
}
