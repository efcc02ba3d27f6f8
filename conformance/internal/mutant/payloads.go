package mutant

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// payloads applies f to every payload that is written.
func (s *faulty) payloads(f func([]byte) []byte) {
	create, signal, set := s.create, s.signal, s.setState
	s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
		p.Runs = slices.Clone(p.Runs)
		for i := range p.Runs {
			p.Runs[i].Input = f(p.Runs[i].Input)
		}
		return create(ctx, p)
	}
	s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
		p.Signals = slices.Clone(p.Signals)
		for i := range p.Signals {
			p.Signals[i].Payload = f(p.Signals[i].Payload)
		}
		return signal(ctx, p)
	}
	s.setState = func(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
		p.Writes = slices.Clone(p.Writes)
		for i := range p.Writes {
			p.Writes[i].Value = f(p.Writes[i].Value)
		}
		return set(ctx, p)
	}
	s.beforeCommit(func(c *store.Commit) {
		c.Steps, c.State = slices.Clone(c.Steps), slices.Clone(c.State)
		for i := range c.Steps {
			c.Steps[i].Output = f(c.Steps[i].Output)
		}
		for i := range c.State {
			c.State[i].Value = f(c.State[i].Value)
		}
		if ended(c, store.CompleteRun) {
			c.Transition.Output = f(c.Transition.Output)
		}
	})
}

// These mutants break P12: they change payloads.
var payloadMutants = []Mutant{
	{"nil-becomes-empty", "P12", "a payload that is nil comes back empty", wrap(func(s *faulty) {
		s.payloads(func(b []byte) []byte { return append([]byte{}, b...) })
	})},
	{"empty-becomes-nil", "P12", "a payload that is empty comes back as nil", wrap(func(s *faulty) {
		s.payloads(func(b []byte) []byte { return append([]byte(nil), b...) })
	})},
	{"bytes-mangled", "P12", "payloads are kept as text: what is no UTF-8 is replaced", wrap(func(s *faulty) {
		s.payloads(func(b []byte) []byte {
			if b == nil {
				return nil
			}
			return bytes.ToValidUTF8(b, []byte("\ufffd"))
		})
	})},
	{"cut-at-a-zero-byte", "P12", "a payload ends at its first zero byte", wrap(func(s *faulty) {
		s.payloads(func(b []byte) []byte {
			if i := bytes.IndexByte(b, 0); i >= 0 {
				return b[:i]
			}
			return b
		})
	})},
	{"only-step-outputs-mangled", "P12", "the outputs of steps alone lose their trailing zero bytes", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i, st := range c.Steps {
				c.Steps[i].Output = bytes.TrimRight(st.Output, "\x00")
			}
		})
	})},
	{"limit-off-by-one", "P12", "a payload of exactly the limit is refused", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			limit := s.Limits().Payload
			out := make([]store.CreateResult, len(p.Runs))
			for i, n := range p.Runs {
				if len(n.Input) == limit {
					out[i].Err = &store.TooLargeError{Field: "input", Size: len(n.Input), Limit: limit}
					continue
				}
				res, err := create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: p.Runs[i : i+1], Now: p.Now})
				if err != nil {
					return nil, err
				}
				out[i] = res[0]
			}
			return out, nil
		}
	})},
	{"too-large-is-cut", "P12", "a payload over the limit is stored up to the limit", wrap(func(s *faulty) {
		s.payloads(func(b []byte) []byte { return b[:min(len(b), s.Limits().Payload)] })
	})},
	{"too-large-is-invalid", "P12", "a payload over the limit is refused without its size", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				if len(p.Runs[i].Input) > s.Limits().Payload {
					out[i].Err = fmt.Errorf("input: %w", store.ErrTooLarge)
				}
			}
			return out, err
		}
	})},
}
