package report

import (
	"fmt"
	"io"
	"os"
	"time"

	"polystalk/loadtest/measure"
)

// A Display shows live progress: one line that is rewritten on a terminal,
// one line per run elsewhere.
type Display struct {
	w     io.Writer
	tty   bool
	title string
	width int
}

// NewDisplay is one on f; quiet: one that shows nothing.
func NewDisplay(f *os.File, quiet bool) *Display {
	if quiet {
		return &Display{w: io.Discard}
	}
	info, err := f.Stat()
	return &Display{w: f, tty: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Begin names the run that starts.
func (d *Display) Begin(title string) {
	d.title = title
	d.line("starting")
}

// Progress shows how fast it is so far.
func (d *Display) Progress(ops int64, since time.Duration) {
	d.line(fmt.Sprintf("%.1f s  %.0f ops/s", since.Seconds(), float64(ops)/since.Seconds()))
}

func (d *Display) line(text string) {
	if !d.tty {
		return
	}
	text = d.title + "  " + text
	fmt.Fprintf(d.w, "\r%-*s", d.width, text)
	d.width = max(d.width, len(text))
}

// End shows its figures.
func (d *Display) End(r measure.Run) {
	text := fmt.Sprintf("%s  %.0f ops/s  cpu %.3f µs/op (server busy %.0f%%)  p50 %.0f  p99 %.0f  p99.9 %.0f  max %.0f µs",
		d.title, r.OpsRate, r.CPU, 100*r.Busy, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	if r.Memory != nil {
		text += fmt.Sprintf("  %.0f bytes/job, %.0f%% kept", r.Memory.BytesPerJob(), 100*r.Memory.Kept())
	}
	if r.Growth != nil {
		text += fmt.Sprintf("  first tenth %.0f/s, last tenth %.0f/s", r.Growth.Early, r.Growth.Late)
	}
	if r.Unsent > 0 {
		text += fmt.Sprintf("  TOO SLOW: %d arrivals were due and never sent", r.Unsent)
	}
	if d.tty {
		fmt.Fprintf(d.w, "\r%-*s\n", d.width, text)
		d.width = 0
		return
	}
	fmt.Fprintln(d.w, text)
}
