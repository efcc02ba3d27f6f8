package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
)

// history is the file with the results of earlier runs, a line of JSON each. The last line
// of a mutation counts.
type history struct {
	mu      sync.Mutex
	results map[key]Result
	file    *os.File // nil: nothing is written
}

// key tells mutations apart.
type key struct {
	file, kind, old, new string
	at                   int
}

func keyOf(m Mutation) key { return key{m.File, m.Kind, m.Old, m.New, m.At} }

// openHistory reads a file, which need not exist, and opens it for further results.
func openHistory(name string) (*history, error) {
	h := &history{results: map[key]Result{}}
	if name == "" {
		return h, nil
	}
	f, err := os.Open(name)
	switch {
	case err == nil:
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var res Result
			if err := json.Unmarshal(lines.Bytes(), &res); err != nil {
				return nil, err
			}
			h.results[keyOf(res.Mutation)] = res
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	h.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return h, err
}

// of returns the earlier result of a mutation.
func (h *history) of(m Mutation) Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.results[keyOf(m)]
}

func (h *history) add(res Result) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results[keyOf(res.Mutation)] = res
	if h.file == nil {
		return nil
	}
	return json.NewEncoder(h.file).Encode(res)
}

// pending lists the survivors that went through fewer tiers than there are, and then the mutations
// that have no result yet.
func (h *history) pending(list []Mutation, tiers int) []Mutation {
	var fresh, deeper []Mutation
	for _, m := range list {
		res, ok := h.results[keyOf(m)]
		switch {
		case m.Excuse != "":
		case !ok:
			fresh = append(fresh, m)
		case (res.Outcome == survived || res.Outcome == unsure) && m.Case == "" && res.Tiers < tiers:
			deeper = append(deeper, m)
		}
	}
	return append(deeper, fresh...)
}

// report counts the results of mutations, and those that are excluded.
func (h *history) report(list []Mutation) *report {
	rep := &report{}
	for _, m := range list {
		res, ok := h.results[keyOf(m)]
		switch {
		case m.Excuse != "":
			rep.add(Result{Mutation: m, Outcome: excluded})
		case ok:
			rep.add(res)
		}
	}
	return rep
}
