package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// build is the default of [Build].
var build = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	if revision := revisionOf(info); revision != "" {
		return revision[:min(len(revision), maxDigits)]
	}
	return executable()
})

// maxDigits is how many digits of a hash name a build. Every lease stores the name.
const maxDigits = 12

// revisionOf is the VCS revision that a program was built from; empty if it was built without
// one, or from a tree that was modified since.
func revisionOf(info *debug.BuildInfo) (revision string) {
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			return ""
		}
	}
	return revision
}

// executable is a hash of the program's file; empty if the file cannot be read.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return "sha256-" + hex.EncodeToString(h.Sum(nil))[:maxDigits]
}

// misfits logs the runs that are given back to another build: the first one of each workflow
// and build, with the commands that help.
type misfits struct{ known sync.Map }

func (m *misfits) log(inv *exec.Invocation, pin *store.Pin) {
	workflow := inv.Run().Workflow
	if pin.Ramp {
		return // the history has nothing yet
	}
	if _, known := m.known.LoadOrStore([2]string{workflow, pin.Build}, true); known {
		return
	}
	inv.Logger().Warn("another build recorded runs of this workflow that do not fit this build; each waits for a worker of that build. "+
		"Start one, or unpin the run, restart it from a step, or purge it",
		append([]any{"build", pin.Build, "this build", pin.By, "step", pin.Step, "expected", pin.Expected, "found", pin.Found}, remedies(inv.Run(), pin)...)...)
}

// remedies are the commands for a run that was given back, as attributes of a log line.
func remedies(run *store.Run, pin *store.Pin) []any {
	in := ""
	if run.Namespace != engine.DefaultNamespace {
		in = " --namespace " + quoted(run.Namespace)
	}
	fork := "pawl runs fork " + run.ID.String()
	if pin.Step != "" {
		fork += " --from " + quoted(pin.Step)
	}
	return []any{
		"to unpin", "pawl runs unpin " + run.ID.String() + in,
		"to restart from a step", fork + in,
		"to purge", "pawl runs cancel --force " + run.ID.String() + in + " && pawl purge --older-than 0s --status canceled --workflow " + quoted(run.Workflow) + in,
	}
}

// quoted writes a word for a shell.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./@:", r))
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
