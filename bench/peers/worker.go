package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// envWorker makes this program a process that works: the settings of one, as JSON.
const envWorker = "PAWL_BENCH_PEER"

// settings tell a process what it is.
type settings struct {
	Engine, Scenario string
	URL, Dir         string
	Index            int // the process that replaces another one has its index
}

// A worker is such a process.
type worker struct {
	settings
	scenario *scenario
	journal  *journal
}

// IsWorker says that this process was to work, and has done so until its standard input ended.
func IsWorker() bool {
	text, ok := os.LookupEnv(envWorker)
	if !ok {
		return false
	}
	if err := beWorker(text); err != nil {
		fmt.Fprintln(os.Stderr, "bench: peer:", err)
		os.Exit(1)
	}
	return true
}

func beWorker(text string) error {
	var w worker
	if err := json.Unmarshal([]byte(text), &w.settings); err != nil {
		return err
	}
	list := engines()
	e := slices.IndexFunc(list, func(e engine) bool { return e.name == w.Engine })
	s := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == w.Scenario })
	if e < 0 || s < 0 {
		return fmt.Errorf("no engine %q or no scenario %q", w.Engine, w.Scenario)
	}
	w.scenario = &scenarios[s]
	var err error
	if w.journal, err = openJournal(w.Dir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return list[e].work(ctx, &w)
}

// ready says that the process works.
func (w *worker) ready() { fmt.Println("ready") }

// do does a job.
func (w *worker) do(j job) error {
	l := line{Job: j.ID, Key: j.Key, From: now()}
	if err := w.journal.write(l); err != nil {
		return err
	}
	time.Sleep(j.For) // the work, in which the process may be hit
	l.To = now()
	return w.journal.write(l)
}
