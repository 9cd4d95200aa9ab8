package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"polystalk/loadtest/compare"
)

// chartPalette is told apart by readers with colour blindness (Okabe and Ito),
// grey for the baseline.
var chartPalette = []color.Color{
	color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
}

// CheckChartName refuses a path whose ending is no format of a chart.
func CheckChartName(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg", ".png":
		return nil
	}
	return fmt.Errorf("chart %q: the name ends neither in .svg nor in .png", path)
}

// writeChart draws two panels of grouped bars, a group for each load and a bar
// for each server: CPU per operation (less is better) and throughput (more is
// better), relative to the baseline.
func writeChart(w io.Writer, name string, sums []compare.Summary, targets []compare.Target) error {
	var loads []string
	ratio := map[compare.Side]map[string]float64{}
	for _, s := range sums {
		if len(loads) == 0 || loads[len(loads)-1] != s.Load {
			loads = append(loads, s.Load)
		}
		ratio[compare.Side{Load: s.Load, Server: s.Server}] = s.Ratio
	}
	bar := 0.8 * vg.Centimeter // the figure above a bar just fits
	if len(loads) > 6 {
		bar = 0.4 * vg.Centimeter // it is turned to stand upright
	}
	width := max(18*vg.Centimeter, 3*vg.Centimeter+bar*vg.Length(float64(len(loads))*(float64(len(targets))+0.8)))
	panels := [][]*plot.Plot{{nil}, {nil}}
	for i, p := range []struct{ metric, title string }{
		{"cpu", "server CPU per operation, relative to " + targets[0].Name + " (less is better)"},
		{"ops", "operations per second, relative to " + targets[0].Name + " (more is better)"},
	} {
		pl, err := panel(p.title, loads, targets, bar, func(load, server string) float64 {
			return ratio[compare.Side{Load: load, Server: server}][p.metric]
		})
		if err != nil {
			return err
		}
		panels[i][0] = pl
	}
	size := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Centimeter / 2, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 4}
	height := 22 * vg.Centimeter
	var out io.WriterTo
	var canvas draw.Canvas
	if strings.EqualFold(filepath.Ext(name), ".png") {
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(120))}
		out, canvas = c, draw.New(c)
	} else {
		c := vgsvg.New(width, height)
		out, canvas = c, draw.New(c)
		// SVG is transparent by itself; dark pages would swallow the text.
		canvas.FillPolygon(color.White, []vg.Point{{}, {Y: height}, {X: width, Y: height}, {X: width}})
	}
	for i, row := range plot.Align(panels, size, canvas) {
		panels[i][0].Draw(row[0])
	}
	_, err := out.WriteTo(w)
	return err
}

func panel(title string, loads []string, targets []compare.Target, bar vg.Length, value func(load, server string) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = title
	p.Y.Min = 0
	p.Legend.Top = true
	top := 1.0
	for i, t := range targets {
		values := make(plotter.Values, len(loads))
		labels := plotter.XYLabels{XYs: make(plotter.XYs, len(loads)), Labels: make([]string, len(loads))}
		for j, l := range loads {
			v := value(l, t.Name)
			values[j] = v
			labels.XYs[j] = plotter.XY{X: float64(j), Y: v}
			if v != 0 {
				labels.Labels[j] = fmt.Sprintf("%.3g", v)
			}
			top = math.Max(top, v)
		}
		bars, err := plotter.NewBarChart(values, bar)
		if err != nil {
			return nil, err
		}
		bars.LineStyle.Width = 0
		bars.Color = chartPalette[i%len(chartPalette)]
		bars.Offset = vg.Length(float64(i)-float64(len(targets)-1)/2) * bar
		text, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, err
		}
		text.Offset = vg.Point{X: bars.Offset, Y: 2}
		for k := range text.TextStyle {
			text.TextStyle[k].XAlign = draw.XCenter
			text.TextStyle[k].Font.Size = 7
			if len(loads) > 6 {
				text.TextStyle[k].Rotation = math.Pi / 2
				text.TextStyle[k].XAlign, text.TextStyle[k].YAlign = draw.XLeft, draw.YCenter
			}
		}
		p.Add(bars, text)
		p.Legend.Add(t.Name, bars)
	}
	p.Y.Max = top * 1.25 // room for the legend
	p.NominalX(loads...)
	p.X.Min, p.X.Max = -0.6, float64(len(loads))-0.4
	if len(loads) > 4 {
		p.X.Tick.Label.Rotation = math.Pi / 6
		p.X.Tick.Label.XAlign = draw.XRight
		p.X.Tick.Label.YAlign = draw.YCenter
	}
	return p, nil
}
