package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) topCommand() *cobra.Command {
	every := 2 * time.Second
	var once bool
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Show a live view of queues, workers and failures",
		Long: `Show a live view of the namespace: runs by status, queues with their backlog and
throughput, workers, and the latest failed runs of the last 24 hours. It fits a
terminal of 80 by 24 characters.

Keys: q quits, space refreshes, p pauses and resumes the view.

Each refresh counts the runs of the namespace, and may read all of them. If that
is slow, the view refreshes less often, so that it reads at most a tenth of the
time. Without a terminal, the command prints one view.`,
		Example: "  pawl top\n  pawl top --once",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Var(durationFlag{&every}, "interval", "`time` between refreshes")
	cmd.Flags().BoolVar(&once, "once", false, "print one view and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if every < 100*time.Millisecond {
			return usage("invalid --interval %v; want at least 100ms", every)
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		_, _, terminal := a.size()
		if a.json || once || !terminal || !a.asks {
			s, err := a.snapshot(ctx, eng, nil)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s.json())
			}
			width, height, ok := a.size()
			if !ok {
				width, height = 0, 0
			}
			for _, line := range a.frame(s, nil, width, height, "") {
				fmt.Fprintln(a.out, line)
			}
			return nil
		}
		return a.live(ctx, eng, every)
	}
	return cmd
}

// recently is how far back top looks for failures.
const recently = 24 * time.Hour

// snapshot is what one refresh has read.
type snapshot struct {
	at      time.Time
	took    time.Duration
	counts  []store.RunCount
	ended   []store.RunCount // since the previous snapshot
	queues  []*line
	workers []store.Worker
	failed  []store.Run
}

func (a *app) snapshot(ctx context.Context, eng *engine.Engine, before *snapshot) (s *snapshot, err error) {
	s = &snapshot{at: a.now()}
	began := time.Now()
	if before != nil {
		if s.ended, err = eng.Count(ctx, store.RunFilter{FinishedAfter: before.at}); err != nil {
			return nil, err
		}
	}
	if s.counts, err = eng.Count(ctx, store.RunFilter{}); err != nil {
		return nil, err
	}
	if s.workers, err = eng.WorkersNow(ctx); err != nil {
		return nil, err
	}
	if s.queues, err = lines(ctx, eng, s.workers, false); err != nil {
		return nil, err
	}
	page, err := eng.ListEnded(ctx, store.RunFilter{Statuses: []store.Status{store.Failed}, FinishedAfter: s.at.Add(-recently)}, "", 20)
	s.failed, s.took = page.Runs, time.Since(began)
	return s, err
}

func (s *snapshot) json() any {
	byStatus := map[string]int64{}
	for _, st := range store.Statuses() {
		byStatus[st.String()] = s.total(st, "")
	}
	return struct {
		Runs    map[string]int64 `json:"runs"`
		Capped  []string         `json:"capped,omitempty"` // statuses of which there may be more
		Queues  []*line          `json:"queues"`
		Workers []workerJSON     `json:"workers"`
		Failed  []runJSON        `json:"last_failed"`
	}{byStatus, capped(s.counts), append([]*line{}, s.queues...), each(s.workers, asWorker), each(s.failed, asRun)}
}

// total counts the runs of a status, in one queue or, if queue is empty, in all.
func (s *snapshot) total(st store.Status, queue string) (n int64) {
	for _, c := range s.counts {
		if c.Status == st && (queue == "" || c.Queue == queue) {
			n += c.Count
		}
	}
	return n
}

// speed returns how many runs per second have ended since the previous snapshot.
func (s *snapshot) speed(before *snapshot, queue string) float64 {
	if before == nil || !s.at.After(before.at) {
		return 0
	}
	var n int64
	for _, c := range s.ended {
		if queue == "" || c.Queue == queue {
			n += c.Count
		}
	}
	return float64(n) / s.at.Sub(before.at).Seconds()
}

func rate(v float64) string {
	switch {
	case v == 0:
		return "·"
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	}
	return group3(int64(v))
}

// frame formats a view. Width and height 0 mean as large as needed.
func (a *app) frame(s, before *snapshot, width, height int, says string) []string {
	room := 1 << 20
	if height > 0 {
		room = height
	}
	out := a.frameHead(s, before, width, says)
	w := table{head: []string{"WORKER", "HOST", "STATUS", "HELD", "SLOTS", "SEEN", "QUEUES"}}
	for _, v := range s.workers {
		w.add(text(cut(v.ID, 28)), text(cut(v.Host, 16)), styled(workerStyle(v.Status), v.Status.String()), numberOrDot(v.Held), number(v.Slots), text(a.ago(v.SeenAt)), text(strings.Join(v.Queues, ", ")))
	}
	f := table{head: []string{"FAILED RUN", "WORKFLOW", "ENDED", "WHY"}}
	for _, r := range s.failed {
		why := ""
		if r.Failure != nil {
			why = r.Failure.Message
		}
		f.add(text(r.ID.String()), text(cut(r.Workflow, 20)), text(a.ago(r.FinishedAt)), text(why))
	}

	// Each table gets a third of the remaining lines, and lines that the others do not need.
	tables := [][]string{queueTable(s, before).lines(a, width), w.lines(a, width), f.lines(a, width)}
	empty := []string{"no queues", "no workers", "no failures"}
	room -= len(out) + len(tables)
	want := make([]int, len(tables))
	for i := range tables {
		if len(tables[i]) == 1 {
			tables[i] = []string{a.paint(dim, empty[i])}
		}
		want[i] = len(tables[i])
	}
	for i, n := range shares(room, want) {
		out = append(out, "")
		lines := tables[i]
		if n < len(lines) && n > 0 {
			lines = append(slices.Clone(lines[:n-1]), a.paint(dim, fmt.Sprintf("and %d more", len(lines)-n+1)))
		}
		out = append(out, lines[:min(n, len(lines))]...)
	}
	if height > 0 && len(out) > height {
		out = out[:height]
	}
	return out
}

// frameHead returns the lines above the tables: the title, runs by status, and throughput.
func (a *app) frameHead(s, before *snapshot, width int, says string) (out []string) {
	wide := width
	if wide <= 0 {
		wide = 100
	}
	left := fmt.Sprintf("pawl top  %s  namespace %s", a.where(), a.space())
	right := s.at.In(a.zone).Format("15:04:05")
	if says != "" {
		right = says + "  " + right
	}
	left = cut(clean(left), max(wide-utf8.RuneCountInString(right)-2, 0))
	out = append(out, a.paint(bold, left)+strings.Repeat(" ", max(1, wide-utf8.RuneCountInString(left)-utf8.RuneCountInString(right)))+right)

	var parts, shown []string
	more := capped(s.counts)
	for _, st := range store.Statuses() {
		n := s.total(st, "")
		if n == 0 && (st == store.Paused || st == store.Canceling || st == store.Canceled) {
			continue
		}
		part := fmt.Sprintf("%s %s", st, bound3(n, slices.Contains(more, st.String())))
		if len(strings.Join(append(parts, part), "   ")) > wide {
			break
		}
		parts = append(parts, part)
		style := statusStyle(st)
		if n == 0 {
			style = dim
		}
		shown = append(shown, a.paint(style, part))
	}
	out = append(out, strings.Join(shown, "   "))
	if before != nil {
		out = append(out, fmt.Sprintf("ended %s/s", rate(s.speed(before, ""))))
	}
	return out
}

// queueTable lists the queues, the largest backlog first.
func queueTable(s, before *snapshot) *table {
	more := capped(s.counts)
	queues := slices.Clone(s.queues)
	slices.SortStableFunc(queues, func(x, y *line) int { return int(y.waiting() - x.waiting()) })
	t := table{head: []string{"QUEUE", "PENDING", "RUNNING", "SLEEPING", "FAILED", "ENDED/S", "WORKERS", "SLOTS", "NOTE"}}
	for _, l := range queues {
		workers, note := number(l.Workers), cell{}
		switch {
		case l.Paused != nil:
			note = styled(magenta, "paused")
		case l.Workers == 0 && l.waiting()+l.Runs["running"] > 0:
			note = styled(red, "no worker")
		}
		failed := numberOrDot(s.total(store.Failed, l.Name))
		if slices.Contains(more, store.Failed.String()) {
			failed = atLeast(s.total(store.Failed, l.Name), true)
		}
		speed := cell{text: "", right: true}
		if before != nil {
			speed.text = rate(s.speed(before, l.Name))
		}
		t.add(text(cut(l.Name, 24)), l.count("pending"), l.count("running"), l.count("sleeping"), failed, speed, workers, numberOrDot(l.Slots), note)
	}
	return &t
}

// shares divides room: each gets what it wants, or an equal share of what
// the others leave.
func shares(room int, want []int) []int {
	got := make([]int, len(want))
	for room > 0 {
		var open []int
		for i := range want {
			if got[i] < want[i] {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			break
		}
		for _, i := range open {
			if room == 0 {
				break
			}
			got[i]++
			room--
		}
	}
	return got
}

const (
	otherScreen = "\x1b[?1049h\x1b[?25l"
	backAgain   = "\x1b[?25h\x1b[?1049l"
)

// live shows the view until q is pressed.
func (a *app) live(ctx context.Context, eng *engine.Engine, every time.Duration) error {
	restore, err := a.raw()
	if err != nil {
		return fmt.Errorf("cannot read single keys from the terminal: %w; use --once", err)
	}
	defer restore()
	fmt.Fprint(a.out, otherScreen)
	defer fmt.Fprint(a.out, backAgain)
	keys := a.keys(ctx)
	var last, before *snapshot
	stopped := false
	var trouble string
	look := func() error {
		s, err := a.snapshot(ctx, eng, last)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && last == nil:
			return err
		case err != nil:
			trouble = err.Error()
			return nil
		}
		trouble, before, last = "", last, s
		return nil
	}
	draw := func() {
		width, height, ok := a.size()
		if !ok {
			width, height = 80, 24
		}
		says := "q quits"
		if stopped {
			says = "paused, p resumes"
		}
		if trouble != "" {
			says = "refresh failed, retrying"
		}
		lines := a.frame(last, before, width, height, says)
		fmt.Fprint(a.out, "\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J")
	}
	if err := look(); err != nil {
		return err
	}
	for {
		draw()
		pause := max(every, 10*last.took)
		timer := time.NewTimer(pause)
		due := timer.C
		if stopped {
			due = nil
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case key, ok := <-keys:
			timer.Stop()
			switch {
			case !ok, key == 'q', key == 'Q', key == 3: // Ctrl-C
				return nil
			case key == 'p':
				stopped = !stopped
				continue
			case key != ' ':
				continue
			}
		case <-due:
		}
		if err := look(); err != nil {
			return err
		}
	}
}

// keys returns the keys that are pressed, until ctx or the input ends.
func (a *app) keys(ctx context.Context) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(a.in, b); err != nil {
				return
			}
			select {
			case keys <- b[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return keys
}
