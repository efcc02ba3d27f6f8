package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A line is one line of a journal: a process has begun or ended a job.
type line struct {
	Job  int
	Key  string
	PID  int
	From int64
	To   int64 // 0: it begins
}

// now is the machine's monotonic clock in microseconds, which all processes share.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every system that can stop and continue a process has it
	}
	return t.Nano() / 1000
}

// A journal is the file to which a process appends what it does. Each line is one write, so that kill
// -9 leaves whole lines.
type journal struct{ file *os.File }

func openJournal(dir string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.journal", os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{f}, err
}

func (j *journal) write(l line) error {
	l.PID = os.Getpid()
	b, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(b, '\n'))
	}
	return err
}

// readJournals reads what all processes have written.
func readJournals(dir string) ([]line, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil {
		return nil, err
	}
	var all []line
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for text := range bytes.Lines(data) {
			if !bytes.HasSuffix(text, []byte("\n")) {
				break // nobody has acted on an incomplete line
			}
			var l line
			if err := json.Unmarshal(text, &l); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, l)
		}
	}
	return all, nil
}
