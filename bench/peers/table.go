package peers

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Print writes a table for each scenario, with a line for each engine. Figures of several repetitions stand one
// after the other.
func Print(w io.Writer, all []Trial) {
	type key struct{ scenario, engine string }
	trials := map[key][]Trial{}
	var engines []string
	for _, t := range all {
		if !strings.Contains(strings.Join(engines, "\n")+"\n", t.Engine+"\n") {
			engines = append(engines, t.Engine)
		}
		k := key{t.Scenario, t.Engine}
		trials[k] = append(trials[k], t)
	}
	for _, s := range scenarios {
		header := "\n" + s.name + "\tpromises\tpermitted\tmost at once\toverruns\tmost at once, all processes and keys\tgiven in the end\tunfinished\tcut off\tbegun again\ttook\n"
		if s.perSecond > 0 {
			header = "\n" + s.name + "\tpromises\tpermitted\tmost begun in 1 s\tin 0.8 s\tin 1 s, with those begun again\tunfinished\tcut off\tbegun again\ttook\n"
		}
		for _, name := range engines {
			list := trials[key{s.name, name}]
			if len(list) == 0 {
				continue
			}
			fmt.Fprint(w, header)
			header = ""
			fmt.Fprintf(w, "%s\t%s\t%d", name, list[0].Promises, list[0].Permitted)
			for _, figure := range s.figures() {
				fmt.Fprintf(w, "\t%s", each(list, figure))
			}
			fmt.Fprintln(w)
		}
	}
}

// figures are the columns of a scenario's table.
func (s *scenario) figures() []func(*Trial) string {
	number := func(of func(*Trial) int) func(*Trial) string {
		return func(t *Trial) string { return fmt.Sprint(of(t)) }
	}
	first := []func(*Trial) string{
		number(func(t *Trial) int { return t.Most }),
		number(func(t *Trial) int { return t.Overruns }),
		number(func(t *Trial) int { return t.MostInAll }),
		func(t *Trial) string { return fmt.Sprintf("%d of %d", t.Given, t.Wanted) },
	}
	if s.perSecond > 0 {
		first = []func(*Trial) string{
			number(func(t *Trial) int { return t.PerSecond }),
			number(func(t *Trial) int { return t.Surely }),
			number(func(t *Trial) int { return t.AnyBegin }),
		}
	}
	return append(first,
		number(func(t *Trial) int { return t.Left }),
		number(func(t *Trial) int { return t.Cut }),
		number(func(t *Trial) int { return t.Again }),
		func(t *Trial) string { return t.Took.Round(time.Second / 10).String() },
	)
}

func each(list []Trial, figure func(*Trial) string) string {
	var texts []string
	for i := range list {
		texts = append(texts, figure(&list[i]))
	}
	return strings.Join(texts, ", ")
}
