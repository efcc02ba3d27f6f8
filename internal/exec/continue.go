package exec

// Continuation is the error by which a workflow's function asks that its run begin anew.
type Continuation struct {
	In   any    // as the function passed it
	Data []byte // encoded, by the definition
}

func (c *Continuation) Error() string {
	return "the run continues as new: return the error of ContinueAsNew from the workflow's function"
}
