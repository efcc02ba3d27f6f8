package console_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/internal/testing/browsertest"
)

var shots = flag.String("shots", "", "write pictures of the pages into this directory")

func TestMain(m *testing.M) { browsertest.Run(m) }

func TestShots(t *testing.T) {
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	p := browsertest.Open(t)
	for name, path := range map[string]string{"overview": "", "runs": "runs", "run": "runs/" + s.ids["order-41"], "failed": "runs/" + s.ids["charge-9"], "parent": "runs/" + s.ids["pack-12"], "flow": "runs/" + s.ids["report-1"], "stranded": "runs/" + s.ids["account-8"], "schedules": "schedules", "schedule": "schedule?name=ten-minutes", "workflows": "workflows", "workflow": "workflow?name=nightly-report", "workers": "workers", "builds": "builds", "doctor": "doctor", "journal": "journal", "cancel": "do?action=run-cancel&run=" + s.ids["refund-7"], "bulk": "do?action=runs-cancel&status=active", "fork": "do?action=run-fork&run=" + s.ids["order-41"], "signal": "do?action=run-signal&run=" + s.ids["refund-7"]} {
		if status := p.Go(at + path); status != 200 {
			t.Errorf("%s: status %d: %s", name, status, p.Text("body"))
		}
		if *shots != "" {
			if err := os.WriteFile(filepath.Join(*shots, name+".png"), p.Screenshot(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range p.Audit() {
			t.Errorf("%s: %s: %s\n%v", name, v.Rule, v.Help, v.Elements)
		}
	}
}
