package store

// Size is how many bytes of payload a run to be made carries, as [CallBytes] counts them.
func (r *NewRun) Size() int { return len(r.Input) + len(r.Meta) }

// Size is how many bytes of payload a signal carries, as [CallBytes] counts them.
func (s *NewSignal) Size() int { return len(s.Payload) }

// Size is how many bytes of payload a record carries.
func (s *StepRecord) Size() int {
	n := len(s.Output) + s.Failure.size()
	for i := range s.Earlier {
		n += s.Earlier[i].size()
	}
	return n
}

// Size is how many bytes of payload a commit carries, as [CallBytes] counts them.
func (c *Commit) Size() int {
	n := 0
	for i := range c.Steps {
		n += c.Steps[i].Size()
	}
	for i := range c.State {
		n += len(c.State[i].Value)
	}
	for i := range c.Spawn {
		n += c.Spawn[i].Size()
	}
	if c.Transition != nil {
		n += c.Transition.Size()
	}
	return n
}

// Size is how many bytes of payload a transition carries.
func (t *Transition) Size() int { return len(t.Output) + len(t.Input) + t.Failure.size() }

func (f *Failure) size() int {
	if f == nil {
		return 0
	}
	return len(f.Code) + len(f.Message) + len(f.Type) + len(f.Stack) + len(f.Details)
}
