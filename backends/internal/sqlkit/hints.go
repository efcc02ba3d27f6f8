package sqlkit

import "github.com/pawlhq/pawl/store"

// Hint is a hint with the data that a backend needs to address it.
type Hint struct {
	store.Hint
	Runs   int  // HintQueue: how many runs became claimable; 0: unknown
	Leased bool // HintEvent: a worker may hold the run
}

// Hints collects the hints of a write, at most one for each queue.
type Hints struct {
	List      []Hint
	namespace string
	queues    map[string]int // indexes into List
}

// NewHints returns an empty list of hints for a write in a namespace.
func NewHints(namespace string) *Hints { return &Hints{namespace: namespace} }

// Reset discards all hints, because the transaction begins again.
func (h *Hints) Reset() { *h = Hints{namespace: h.namespace} }

// Plain returns the hints as a hub publishes them.
func (h *Hints) Plain() []store.Hint { return Hinted(h.List) }

// Hinted returns the hints as a hub publishes them.
func Hinted(list []Hint) []store.Hint {
	out := make([]store.Hint, len(list))
	for i := range list {
		out[i] = list[i].Hint
	}
	return out
}

// Queue adds the hint that one more run of the queue may be claimed, or has a new due time.
func (h *Hints) Queue(name string) {
	h.List[h.queue(name)].Runs++
}

// WholeQueue adds the hint that any number of runs of the queue may be claimed.
func (h *Hints) WholeQueue(name string) { h.List[h.queue(name)].Runs = 0 }

// queue returns the index of the queue's hint.
func (h *Hints) queue(name string) int {
	i, ok := h.queues[name]
	if !ok {
		if h.queues == nil {
			h.queues = map[string]int{}
		}
		i = len(h.List)
		h.queues[name] = i
		h.List = append(h.List, Hint{Hint: store.Hint{Kind: store.HintQueue, Namespace: h.namespace, Queue: name}})
	}
	return i
}

// Event adds the hint, for the run's holder if there may be one, that an event has reached the run.
func (h *Hints) Event(run store.ID, leased bool) {
	h.add(store.HintEvent, run)
	h.List[len(h.List)-1].Leased = leased
}

// State adds the hint that the holder has changed the run's state.
func (h *Hints) State(run store.ID) { h.add(store.HintState, run) }

// Answer adds the hint that the run has answered a signal, if the commit has answers.
func (h *Hints) Answer(c *store.Commit) {
	if len(c.Answers) > 0 {
		h.add(store.HintAnswer, c.Lease.Run)
	}
}

// Final adds the hint that the run is final.
func (h *Hints) Final(run store.ID) { h.add(store.HintFinal, run) }

func (h *Hints) add(kind store.HintKind, run store.ID) {
	h.List = append(h.List, Hint{Hint: store.Hint{Kind: kind, Namespace: h.namespace, Run: run}})
}

// WokenRow reads a run that has had an event, and adds a hint for it: its id, queue, and
// whether it is due. Due may be NULL.
func (h *Hints) WokenRow(scan Scan, id *store.ID, more ...any) error {
	var queue string
	var due *bool
	err := scan(append([]any{ID(id), &queue, &due}, more...)...)
	woken := due != nil && *due
	h.Event(*id, !woken)
	if woken {
		h.Queue(queue)
	}
	return err
}

// ParentRows reads parents that the end of a child has woken, and adds hints for them:
// id, queue and status.
func (h *Hints) ParentRows(scan Scan) error {
	var id store.ID
	var queue string
	var status int16
	if err := scan(ID(&id), &queue, &status); err != nil {
		return err
	}
	asleep := store.Status(status) == store.Sleeping
	h.Event(id, !asleep)
	if asleep {
		h.Queue(queue)
	}
	return nil
}

// TreeRows reads the runs of a canceled tree, adds hints for them, and counts those that
// ended: id, status, queue, workflow and whether a worker holds it.
func (h *Hints) TreeRows(ended *[]store.RunCount) func(Scan) error {
	return func(scan Scan) error {
		var id store.ID
		var queue, workflow string
		var status int16
		var leased bool
		if err := scan(ID(&id), &status, &queue, &workflow, &leased); err != nil {
			return err
		}
		if store.Status(status).Final() {
			h.Final(id)
			*ended = store.Tally(*ended, queue, workflow, store.Status(status), 1)
			return nil
		}
		h.Event(id, leased)
		if !leased { // it can be claimed
			h.Queue(queue)
		}
		return nil
	}
}
