package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/bench/peers"
)

func TestMain(m *testing.M) {
	if isWorker() {
		return
	}
	os.Exit(m.Run())
}

// Everything runs, at a size that measures nothing.
func TestEverything(t *testing.T) {
	for _, db := range []string{"sqlite", "postgres", "sqld"} {
		t.Run(db, func(t *testing.T) {
			t.Parallel()
			b := bench{db: db, runs: 100, reps: 1, dir: t.TempDir(), churned: 1000, crowd: 1000, idleFor: time.Second / 2, handles: 100, samples: 10, items: 100, scale: 10}
			if err := b.all(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, c := range b.curves {
				if len(c.Points) == 0 || c.Points[0].Y[0] <= 0 {
					t.Errorf("%s: %v", c.Name, c.Points)
				}
			}
			dir := t.TempDir()
			if err := b.draw(dir); err != nil {
				t.Error(err)
			}
			charts, err := os.ReadDir(dir)
			if err != nil || len(charts) < 3 {
				t.Errorf("charts: %v, %v", charts, err)
			}
			for _, r := range b.rows {
				if len(r.Pawl) == 0 || r.Pawl[0] < 0 {
					t.Errorf("%s: %v", r.Name, r.Pawl)
				}
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, db := range []string{"sqlite", "postgres", "sqld"} {
		for _, only := range []string{"limits", "fairness"} {
			t.Run(db+"/"+only, func(t *testing.T) {
				t.Parallel()
				b := bench{db: db, only: only, runs: 100, reps: 1, dir: t.TempDir(), crowd: 200, samples: 5}
				if err := b.all(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, r := range b.rows {
					if len(r.Pawl) == 0 || r.Pawl[0] <= 0 {
						t.Errorf("%s: %v", r.Name, r.Pawl)
					}
				}
			})
		}
	}
}

// Engines work under limits while a process is killed. Of Pawl the result is known.
func TestPeers(t *testing.T) {
	for only, patience := range map[string]time.Duration{
		"1 at once": time.Minute,
		"River":     time.Second, // jobs of a process that was killed are rescued after half a minute
	} {
		t.Run(only, func(t *testing.T) {
			t.Parallel()
			b := bench{db: "postgres", only: "peers", curve: only, runs: 40, reps: 1, dir: t.TempDir(), patience: patience}
			if err := b.all(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(b.trials) == 0 {
				t.Fatal("no trials")
			}
			for _, r := range b.trials {
				if r.Most == 0 || strings.HasPrefix(r.Engine, "Pawl") && (r.Overruns > 0 || r.Left > 0 || r.Given != r.Wanted) {
					t.Errorf("%+v", r)
				}
			}
			peers.Print(t.Output(), b.trials)
		})
	}
}
