package store

// Size returns how many bytes of payload a new run has, as [CallBytes] counts them.
func (r *NewRun) Size() int {
	n := len(r.Input) + len(r.Meta) + len(r.Debounce) + r.Tags.size()
	if r.Signal != nil {
		n += len(r.Signal.Payload)
	}
	return n
}

// Size returns how many bytes of payload a signal has, as [CallBytes] counts them.
func (s *NewSignal) Size() int { return len(s.Payload) }

// Size returns how many bytes of payload a record has.
func (s *StepRecord) Size() int {
	n := len(s.Output) + s.Failure.size()
	for i := range s.Earlier {
		n += s.Earlier[i].size()
	}
	return n
}

// Size returns how many bytes of payload a commit has, as [CallBytes] counts them.
func (c *Commit) Size() int {
	n := c.Tags.size()
	for i := range c.Steps {
		n += c.Steps[i].Size()
	}
	for i := range c.State {
		n += len(c.State[i].Value)
	}
	for i := range c.Spawn {
		n += c.Spawn[i].Size()
	}
	for i := range c.Answers {
		n += c.Answers[i].Size()
	}
	for i := range c.Streams {
		n += c.Streams[i].Size()
	}
	if c.Transition != nil {
		n += c.Transition.Size()
	}
	return n
}

// Size returns how many bytes of payload a transition has.
func (t *Transition) Size() int { return len(t.Output) + len(t.Input) + t.Failure.size() }

func (f *Failure) size() int {
	if f == nil {
		return 0
	}
	return len(f.Code) + len(f.Message) + len(f.Type) + len(f.Stack) + len(f.Details)
}
