package console_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/browsertest"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
)

var shots = flag.String("shots", "", "write the pictures of the documents into this directory, such as docs/images")

func TestMain(m *testing.M) { browsertest.Run(m) }

// screen is a page of the console, and what it says of the scene.
type screen struct {
	name, path string
	says       []string
}

func (s *scene) screens() []screen {
	run := func(what string) string { return "runs/" + s.ids[what] }
	return []screen{
		{"overview", "", []string{"Needs attention", "Limits that hold runs back", "legacy-import", "stranded", "ten-minutes", "send-mail", "Ended, last", "failed"}},
		{"runs", "runs", []string{"order-41", "refund-7", "resize-6", "card-declined"}},
		{"runs that failed", "runs?status=failed&ended_after=1h", []string{"charge-9", "Restart all"}},
		{"runs by tags", "runs?tags=customer%3D4711,region%3Deu-*", []string{"order-41"}},
		{"no run", "runs?external_id=nobody", []string{"No run matches"}},
		{"run", run("order-41"), []string{"The run completed", "cooling off", "the bank did not answer (attempt 1)", "Ada Lovelace", "parcel for Ada Lovelace", "customer=4711", "Streams", "tracking 6 items", "5 handed over"}},
		{"run that failed", run("charge-9"), []string{"card-declined", "the card of Ada Lovelace was declined", "Restart it"}},
		{"run that waits", run("refund-7"), []string{"waits for signal approved", "Send it the signal"}},
		{"parent", run("pack-12"), []string{"4 of 4 descendants have ended (100%), 1 failed", "4 started, 3 completed, 1 failed", "pack-item", "item 3 is out of stock"}},
		{"flow", run("report-1"), []string{"compare", "Graph"}},
		{"stranded", run("account-8"), []string{"it is stranded", "Unpin", "Unread signals"}},
		{"schedules", "schedules", []string{"nightly-report", "Europe/Berlin", "at 02:00", "late", "paused"}},
		{"schedule", "schedule?name=ten-minutes", []string{"The schedule is late", "start a worker", "Next times"}},
		{"workflows", "workflows", []string{"fulfil-order", "legacy-import"}},
		{"workflow", "workflow?name=nightly-report", []string{"load orders", "Graph"}},
		{"unknown workflow", "workflow?name=legacy-import", []string{"No worker has ever registered", "Start a worker that registers the workflow"}},
		{"workers", "workers", []string{"eu-west-1a-7", "offline", "node-3"}},
		{"builds", "builds", []string{"v1", "stranded", "v2"}},
		{"limits", "limits", []string{"partner", "1 at a time", "set by an operator", "full"}},
		{"limit", "limit?name=partner", []string{"acme", "Set what it allows"}},
		{"set a limit", "do?action=limit-set&name=partner", []string{"At work at a time", "Burst"}},
		{"run under a limit", run("payout-2"), []string{"Under limits", "partner, key acme", "1 of 1 held"}},
		{"webhooks", "webhooks", []string{"audit", "of send-mail", "1 attempt for the oldest", "503 Service Unavailable", "billing", "restarted"}},
		{"delete a webhook", "do?action=webhook-delete&name=audit", []string{"What will happen", "never delivered"}},
		{"doctor", "doctor", []string{"schema", "ten-minutes"}},
		{"journal", "journal", []string{"Who did what"}},
		{"cancel", "do?action=run-cancel&run=" + s.ids["refund-7"], []string{"What will happen", "Back, change nothing"}},
		{"cancel many", "do?action=runs-cancel&status=active", []string{"The first of them", "Cancel 9 runs"}},
		{"fork", "do?action=run-fork&run=" + s.ids["order-41"], []string{"from step charge"}},
		{"signal", "do?action=run-signal&run=" + s.ids["refund-7"], []string{"Payload, as JSON"}},
	}
}

// TestScreens opens every page: it says what it should, axe-core finds nothing, in light and dark, and it
// fits on a telephone.
func TestScreens(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	const halves = 2 // pages at a time
	all := s.screens()
	for half := range halves {
		t.Run(fmt.Sprint(half), func(t *testing.T) {
			t.Parallel()
			p := browsertest.Open(t)
			for i := half; i < len(all); i += halves {
				s := all[i]
				p.Size(1200, 900)
				p.Dark(false)
				require.Equal(t, http.StatusOK, p.Go(at+s.path), s.name)
				text := p.Text("body")
				for _, want := range s.says {
					require.Contains(t, text, want, s.name)
				}
				require.LessOrEqual(t, p.Width(), 1200, s.name)
				accessible(t, p, s.name)
				p.Size(320, 640)
				p.Dark(true)
				require.LessOrEqual(t, p.Width(), 320, "%s: the page is wider than a telephone", s.name)
				accessible(t, p, s.name+", narrow and dark", "color-contrast", "scrollable-region-focusable", "target-size")
			}
		})
	}
}

func accessible(t *testing.T, p *browsertest.Page, name string, rules ...string) {
	t.Helper()
	for _, v := range p.Audit(rules...) {
		t.Errorf("%s: axe-core: %s (%s):\n%s", name, v.Rule, v.Help, strings.Join(v.Elements, "\n"))
	}
}

// TestDatabases opens the main pages, and does something, on the other databases.
func TestDatabases(t *testing.T) {
	t.Parallel()
	databases := map[string]func(t *testing.T) string{
		"postgres": func(t *testing.T) string { return pgtest.Start(t).URL() },
		"libsql": func(t *testing.T) string {
			server := sqldtest.Start(t)
			server.NamespaceNamed(t, "127") // the first label of the host
			return "http://" + server.Addr()
		},
	}
	for name, url := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, url(t)).fill()
			at := s.serve(nil)
			p := browsertest.Open(t)
			for _, screen := range s.screens() {
				require.Equal(t, http.StatusOK, p.Go(at+screen.path), screen.name)
				text := p.Text("body")
				for _, want := range screen.says {
					require.Contains(t, text, want, screen.name)
				}
			}
			p.Go(at + "runs/" + s.ids["refund-7"])
			p.FollowText("Cancel")
			p.Fill("#x-reason", "a mistake")
			p.Follow("main form button")
			p.WaitText("a mistake")
			require.Contains(t, p.Text("body"), "Who did what")
		})
	}
}

// TestShots makes the pictures of docs/console.md.
func TestShots(t *testing.T) {
	if *shots == "" {
		return // they are made on demand: go test ./console -run TestShots -shots ../docs/images
	}
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	p := browsertest.Open(t)
	for _, shot := range []struct {
		name, path    string
		width, height int64
		dark          bool
	}{
		{"console-overview", "", 1200, 880, false},
		{"console-run", "runs/" + s.ids["order-40"], 1200, 900, false},
		{"console-stranded-dark", "runs/" + s.ids["account-8"], 1200, 800, true},
		{"console-runs-dark", "runs", 1200, 800, true},
		{"console-limit", "limit?name=partner", 1200, 620, false},
		{"console-confirm", "do?action=runs-cancel&status=active", 1200, 760, false},
		{"console-overview-phone", "", 360, 740, false},
		{"console-run-phone-dark", "runs/" + s.ids["refund-7"], 360, 740, true},
	} {
		p.Size(shot.width, shot.height)
		p.Dark(shot.dark)
		p.Go(at + shot.path)
		picture := shrink(t, p.Screenshot())
		require.Less(t, len(picture), 150<<10, shot.name)
		require.NoError(t, os.WriteFile(filepath.Join(*shots, shot.name+".png"), picture, 0o644))
	}
}

// shrink gives a picture a palette of its most frequent colors, which a page without photographs does
// not show.
func shrink(t *testing.T, data []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	times := map[color.Color]int{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			times[img.At(x, y)]++
		}
	}
	palette := color.Palette(slices.SortedFunc(maps.Keys(times), func(a, b color.Color) int { return times[b] - times[a] }))
	palette = palette[:min(len(palette), 256)]
	index := map[color.Color]uint8{}
	for c := range times {
		index[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			small.SetColorIndex(x, y, index[img.At(x, y)])
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&out, small))
	return out.Bytes()
}
