package http

import (
	"context"
	"slices"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// flowsAtOnce is how many tubes' histograms are read before they are written.
const flowsAtOnce = 64

// A Page is the text of many tubes.
type Page struct {
	Operator *admin.Operator
	Sample   *admin.TubeSample
	Wanted   func(name string) bool // which tubes
	Groups   []string               // of tubeFamilies; see Groups

	Part Part
}

// A Part takes what was made of a page so far, and gives the buffer to go on with; false ends
// the page. Nothing is held meanwhile that others wait for.
type Part func(made []byte) (buf []byte, goOn bool)

// Write makes the page, family by family. The error is that of looking at tubes.
func (p *Page) Write(ctx context.Context) error {
	var rows []int
	for i := range p.Sample.Rows {
		if p.Wanted(p.Sample.Rows[i].Name) {
			rows = append(rows, i)
		}
	}
	buf, ok := p.Part(nil)
	if !ok {
		return nil
	}
	for i := range tubeFamilies {
		f := &tubeFamilies[i]
		if !slices.Contains(p.Groups, f.group) {
			continue
		}
		if buf, ok = p.numbers(buf, f, rows); !ok {
			return nil
		}
	}
	if !slices.Contains(p.Groups, latency) {
		return nil
	}
	for i := range histograms {
		var err error
		if buf, ok, err = p.times(ctx, buf, &histograms[i], rows); err != nil || !ok {
			return err
		}
	}
	return nil
}

// numbers adds a family of numbers.
func (p *Page) numbers(buf []byte, f *family, rows []int) (_ []byte, ok bool) {
	kind := Gauge
	if f.counter {
		kind = Counter
	}
	name := Prefix + f.name
	buf = AppendFamily(buf, name, kind, f.help)
	var labels []byte
	for _, i := range rows {
		t := &p.Sample.Rows[i]
		labels = AppendLabel(labels[:0], "tube", wire.ShownName(t.Name))
		own := len(labels)
		for _, s := range f.series {
			if f.label != "" {
				labels = AppendLabel(labels[:own], f.label, s.value)
			}
			buf = AppendSeries(buf, name, labels, s.of(t))
		}
		if buf, ok = p.Part(buf); !ok {
			return buf, false
		}
	}
	return p.Part(buf)
}

// times adds a family of histograms.
func (p *Page) times(ctx context.Context, buf []byte, h *timesFamily, rows []int) (_ []byte, ok bool, err error) {
	name := Prefix + h.name
	bucket, sum, count := name+"_bucket", name+"_sum", name+"_count"
	buf = AppendFamily(buf, name, Histogram, h.help)
	flows := make([]core.Flow, flowsAtOnce)
	var labels []byte
	for list := range slices.Chunk(rows, flowsAtOnce) {
		if err := p.Operator.Flows(ctx, p.Sample, list, flows); err != nil {
			return buf, false, err
		}
		for k, i := range list {
			t := h.of(&flows[k])
			labels = AppendLabel(labels[:0], "tube", wire.ShownName(p.Sample.Rows[i].Name))
			own := len(labels)
			n := cumulative(t, func(bound float64, n uint64) {
				labels = AppendBound(labels[:own], bound)
				buf = AppendSeries(buf, bucket, labels, float64(n))
			})
			labels = AppendLabel(labels[:own], "le", "+Inf")
			buf = AppendSeries(buf, bucket, labels, float64(n))
			buf = AppendSeries(buf, sum, labels[:own], t.Sum/1e9)
			buf = AppendSeries(buf, count, labels[:own], float64(n))
			if buf, ok = p.Part(buf); !ok {
				return buf, false, nil
			}
		}
	}
	buf, ok = p.Part(buf)
	return buf, ok, nil
}
