package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// startFlags are the flags of a start.
type startFlags struct {
	file, externalID, suffix, queue, runID string
	raw, anyway, wait                      bool
	priority                               int
	delay, timeout, patience               time.Duration
	at                                     time.Time
	keyed                                  startDebounce
	sig                                    startSignal
	tags                                   []string
}

func (s *startFlags) flags(a *app, f *pflag.FlagSet) {
	f.StringVarP(&s.file, "input-file", "f", "", "read the input from a `file`; - means standard input")
	f.BoolVar(&s.raw, "raw", false, "pass the input as is; it need not be JSON")
	f.StringVar(&s.externalID, "external-id", "", "external `id`, which makes the start idempotent")
	f.StringVar(&s.suffix, "suffix", "", "idempotency `suffix` of the external id")
	f.StringVar(&s.runID, "run-id", "", "`id` for the run, which makes the command safe to repeat")
	f.StringVarP(&s.queue, "queue", "q", "", "queue `name`, if not the workflow's own queue")
	f.IntVar(&s.priority, "priority", 0, "priority from -100 to 100; higher is claimed first")
	f.Var(durationFlag{&s.delay}, "delay", "start this `time` from now: 90s, 12h, 30d")
	f.Var(momentFlag{a: a, to: &s.at, ahead: true}, "at", "do not start before this `time`")
	f.Var(durationFlag{&s.timeout}, "deadline", "fail the run if it is not final within this `time` from now")
	s.keyed.flags(f)
	s.sig.flags(f)
	f.StringArrayVar(&s.tags, "tag", nil, "give the run a tag, `name=value`; repeat it for further tags")
	f.BoolVar(&s.anyway, "any", false, "start the run even if no worker has ever registered the workflow")
	f.BoolVar(&s.wait, "wait", false, "wait until the run is final and print its output")
	f.Var(durationFlag{&s.patience}, "timeout", "with --wait: stop waiting after this `time`; the run continues")
}

// options returns the options of the start.
func (s *startFlags) options(a *app) ([]engine.StartOption, error) {
	opts := []engine.StartOption{
		engine.Priority(s.priority), engine.Delay(s.delay), engine.At(s.at), engine.Timeout(s.timeout), engine.Queue(s.queue),
		engine.ExternalID(s.externalID), engine.Suffix(s.suffix),
	}
	if s.runID != "" {
		id, err := store.ParseID(s.runID)
		if err != nil {
			return nil, err
		}
		opts = append(opts, engine.RunID(id))
	}
	if len(s.tags) > 0 {
		tags := map[string]string{}
		for _, text := range s.tags {
			name, value, given := strings.Cut(text, "=")
			if !given {
				return nil, usage("--tag %q has no value; write name=value", text)
			}
			tags[name] = value
		}
		opts = append(opts, engine.Tags(tags))
	}
	return s.sig.add(a, s.keyed.add(opts, s.delay), s.raw)
}

// startSignal is the signal of a start: name=payload.
type startSignal struct{ text, id string }

func (s *startSignal) flags(f *pflag.FlagSet) {
	f.StringVar(&s.text, "signal", "", "with --external-id: `name=payload` of a signal for the active run of the external id, which is started if there is none; the payload is JSON, or anything with --raw")
	f.StringVar(&s.id, "signal-id", "", "with --signal: `id` for the signal, which makes the command safe to repeat")
}

// add adds the signal, if there is one, to the options of a start.
func (s *startSignal) add(a *app, opts []engine.StartOption, raw bool) ([]engine.StartOption, error) {
	if s.text == "" {
		if s.id != "" {
			return nil, usage("--signal-id needs --signal")
		}
		return opts, nil
	}
	name, payload, given := strings.Cut(s.text, "=")
	sig := store.StartSignal{Name: name}
	var arg *string
	if given {
		arg = &payload
	}
	var err error
	if sig.Payload, err = a.readPayload(arg, "", raw); err != nil {
		return nil, err
	}
	if s.id != "" {
		if sig.ID, err = store.ParseID(s.id); err != nil {
			return nil, err
		}
	}
	return append(opts, engine.WithSignal(sig)), nil
}
