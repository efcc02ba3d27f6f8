package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// curve is how a figure grows with something.
type curve struct {
	Name   string // of its chart's file, too
	X, Y   string // what is varied, and what measured
	Points []point
}

// point is what the repetitions gave for one X.
type point struct {
	X float64
	Y []float64
}

// point adds what a repetition gave.
func (b *bench) point(name, x, y string, at, value float64) {
	i := slices.IndexFunc(b.curves, func(c *curve) bool { return c.Name == name })
	if i < 0 {
		i = len(b.curves)
		b.curves = append(b.curves, &curve{Name: name, X: x, Y: y})
	}
	c := b.curves[i]
	k := slices.IndexFunc(c.Points, func(p point) bool { return p.X == at })
	if k < 0 {
		k = len(c.Points)
		c.Points = append(c.Points, point{X: at})
	}
	c.Points[k].Y = append(c.Points[k].Y, value)
}

// draw makes a chart of each curve, and one of the throughput: SVG files of this
// database's name in a directory.
func (b *bench) draw(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range b.curves {
		if len(c.Points) < 2 {
			continue // a line needs two
		}
		path := filepath.Join(dir, b.db+"-"+c.Name+".svg")
		if err := c.draw(path, b.what()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return b.drawThroughput(filepath.Join(dir, b.db+"-throughput.svg"))
}

// drawThroughput makes a chart of what was done in a second, by everybody.
func (b *bench) drawThroughput(path string) error {
	var rows []*row
	for _, r := range b.rows {
		if r.Unit == "/s" && strings.Contains(r.Name, "runs") && len(r.Limit) > 0 {
			rows = append(rows, r)
		}
	}
	if len(rows) < 2 {
		return nil
	}
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = b.what(), "runs a second"
	p.Title.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size, p.Legend.Top = vg.Points(11), vg.Points(11), true
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = strings.NewReplacer(" and worker at once", "", " of a backlog of", " of", ", ", "\n").Replace(r.Name)
	}
	p.NominalX(names...)
	width := vg.Points(11)
	for i, who := range []struct {
		name string
		of   func(*row) []float64
		in   color.Color
	}{
		{"hand-written", func(r *row) []float64 { return r.Limit }, color.RGBA{R: 190, G: 190, B: 190, A: 255}},
		{"Pawl", func(r *row) []float64 { return r.Pawl }, color.RGBA{R: 30, G: 90, B: 160, A: 255}},
		{"River", func(r *row) []float64 { return r.River }, color.RGBA{R: 200, G: 120, B: 40, A: 255}},
	} {
		values, some := make(plotter.Values, len(rows)), false
		for k, r := range rows {
			if v := who.of(r); len(v) > 0 {
				values[k], some = median(v), true
			}
		}
		if !some {
			continue
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width, bars.Offset = who.in, 0, vg.Length(i-1)*width
		p.Add(bars)
		p.Legend.Add(who.name, bars)
	}
	return p.Save(24*vg.Centimeter, 9*vg.Centimeter, path)
}

// draw makes the chart of medians.
func (c *curve) draw(path, title string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, c.X, c.Y
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(c.ticks())
	for _, s := range []*font.Length{&p.Title.TextStyle.Font.Size, &p.X.Label.TextStyle.Font.Size, &p.Y.Label.TextStyle.Font.Size} {
		*s = vg.Points(11)
	}
	xy := make(plotter.XYs, len(c.Points))
	for i, pt := range c.Points {
		xy[i] = plotter.XY{X: pt.X, Y: median(pt.Y)}
	}
	line, dots, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	line.Color = color.RGBA{R: 30, G: 90, B: 160, A: 255}
	line.Width, dots.Color = vg.Points(1.5), line.Color
	p.Add(plotter.NewGrid(), line, dots)
	p.Y.Min = 0
	return p.Save(14*vg.Centimeter, 8*vg.Centimeter, path)
}

// ticks are where something was measured.
func (c *curve) ticks() (list []plot.Tick) {
	for _, pt := range c.Points {
		list = append(list, plot.Tick{Value: pt.X, Label: short(pt.X)})
	}
	return list
}

// short writes 10000 as 10k.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
