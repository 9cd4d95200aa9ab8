package bench

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

// chartColors are distinct for readers with colour blindness (Okabe and Ito).
var chartColors = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"}

// chartStyle draws the paper, and gives text and axes other colours where dark pages are preferred.
const chartStyle = `<style>@media(prefers-color-scheme:dark){rect:first-of-type{fill:#0d1117}text{fill:#e6edf3}line{stroke:#30363d}line[stroke="#666"]{stroke:#9198a1}}</style>
<rect width="100%" height="100%" fill="#fff"/>
`

// Sizes of the chart, in pixels.
const (
	chartLabel = 110 // width of the names of loads
	chartPanel = 330
	chartGap   = 40
	chartTop   = 64
	chartBar   = 11
)

// chart draws an SVG with a row for each load and two panels: the CPU per operation and the
// throughput of each server relative to the first one, on a logarithmic scale around 1.
func chart(sums []summary, targets []Target) []byte {
	type row struct {
		load    string
		y, bars int // a row is as high as its bars
	}
	others := targets[min(1, len(targets)):]
	ratios := map[side]map[string]float64{}
	for _, s := range sums {
		ratios[side{s.Load, s.Server}] = s.Ratio
	}
	var rows []row
	height := chartTop
	for i, s := range sums {
		if i > 0 && sums[i-1].Load == s.Load {
			continue
		}
		r := row{load: s.Load, y: height}
		for _, t := range others {
			if ratios[side{s.Load, t.Name}]["cpu"] > 0 {
				r.bars++
			}
		}
		rows = append(rows, r)
		height += max(1, r.bars)*chartBar + 9
	}
	b := new(bytes.Buffer)
	width := chartLabel + 2*chartPanel + chartGap + 50
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="11">`+"\n", width, height+28)
	b.WriteString(chartStyle)
	text := func(x float64, y int, anchor, more, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
	}
	x := float64(chartLabel)
	for i, t := range others {
		fmt.Fprintf(b, `<rect x="%.1f" y="10" width="10" height="10" fill="%s"/>`+"\n", x, chartColors[i%len(chartColors)])
		text(x+14, 19, "start", "", t.Name)
		x += 34 + 7*float64(len(t.Name))
	}
	for _, r := range rows {
		text(chartLabel-8, r.y+r.bars*chartBar/2+4, "end", "", r.load)
	}
	for p, panel := range []struct{ metric, title string }{
		{"cpu", "CPU per operation, relative to %s: less is better"},
		{"ops", "operations per second, relative to %s: more is better"},
	} {
		left := float64(chartLabel + p*(chartPanel+chartGap))
		lo, hi := 0.0, 0.0 // of the decimal logarithm
		for _, r := range ratios {
			if v := r[panel.metric]; v > 0 {
				lo, hi = min(lo, math.Log10(v)), max(hi, math.Log10(v))
			}
		}
		lo, hi = math.Floor(lo-0.15), math.Ceil(hi)
		hi = max(hi, lo+1)
		at := func(v float64) float64 { return left + (math.Log10(v)-lo)/(hi-lo)*chartPanel }
		text(left, 44, "start", ` font-weight="bold"`, fmt.Sprintf(panel.title, targets[0].Name))
		for e := lo; e <= hi; e++ {
			color := "#ddd"
			if e == 0 {
				color = "#666"
			}
			v := math.Pow(10, e)
			fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%[1]f" y2="%[3]d" stroke="%[4]s"/>`+"\n", at(v), chartTop-10, height, color)
			text(at(v), height+16, "middle", ` fill="#666"`, fmt.Sprintf("%g", v))
		}
		for _, r := range rows {
			y := r.y
			for k, t := range others {
				v := ratios[side{r.load, t.Name}][panel.metric]
				if v <= 0 {
					continue
				}
				from, to := min(at(v), at(1)), max(at(v), at(1))
				fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", from, y, max(1, to-from), chartBar-2, chartColors[k%len(chartColors)])
				x, anchor := to+4, "start"
				if v < 1 {
					x, anchor = from-4, "end"
				}
				text(x, y+chartBar-2, anchor, ` font-size="10"`, fmt.Sprintf("%.3g", v))
				y += chartBar
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
