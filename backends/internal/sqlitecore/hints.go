package sqlitecore

import "github.com/pawlhq/pawl/store"

// hints gathers what a write is to tell, at most one hint for a queue.
type hints struct {
	namespace string
	queues    map[string]struct{}
	list      []store.Hint
}

func newHints(namespace string) *hints { return &hints{namespace: namespace} }

func (h *hints) queue(name string) {
	if _, ok := h.queues[name]; ok {
		return
	}
	if h.queues == nil {
		h.queues = map[string]struct{}{}
	}
	h.queues[name] = struct{}{}
	h.list = append(h.list, store.Hint{Kind: store.HintQueue, Namespace: h.namespace, Queue: name})
}

func (h *hints) event(run store.ID) {
	h.list = append(h.list, store.Hint{Kind: store.HintEvent, Namespace: h.namespace, Run: run})
}

func (h *hints) state(run store.ID) {
	h.list = append(h.list, store.Hint{Kind: store.HintState, Namespace: h.namespace, Run: run})
}

func (h *hints) final(run store.ID) {
	h.list = append(h.list, store.Hint{Kind: store.HintFinal, Namespace: h.namespace, Run: run})
}

func (h *hints) send(c *Core) {
	if len(h.list) > 0 {
		c.publish(h.list...)
	}
}
