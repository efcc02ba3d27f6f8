package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

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
