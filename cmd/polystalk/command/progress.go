package command

import (
	"fmt"
	"strings"
	"time"

	"polystalk/cmd/polystalk/output"
)

// A progress is a line on a terminal that says how far something is. On anything else than
// a terminal it says nothing.
type progress struct {
	a      *App
	what   string
	began  time.Time
	shown  time.Time
	length int // of what the line shows
}

func (a *App) progress(what string) *progress {
	return &progress{a: a, what: what, began: time.Now()}
}

// progressEach is how often the line changes.
const progressEach = 200 * time.Millisecond

// at says how much was done of how much; of may be 0, if that is not known.
func (p *progress) at(done, of uint64) {
	now := time.Now()
	if !p.a.Screens.Err || now.Sub(p.shown) < progressEach {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%s: %d", p.what, done)
	if of > 0 {
		done = min(done, of)
		line += fmt.Sprintf(" of about %d, %d %%", of, done*100/of)
		if took := now.Sub(p.began).Seconds(); done > 0 && took > 1 {
			line += ", " + output.FormatAge(took/float64(done)*float64(of-done)) + " left"
		}
	}
	p.write(line)
}

// end clears the line.
func (p *progress) end() {
	if p.length > 0 {
		p.write("")
		fmt.Fprint(p.a.Err, "\r")
	}
}

func (p *progress) write(line string) {
	fmt.Fprint(p.a.Err, "\r", line, strings.Repeat(" ", max(0, p.length-len(line))))
	p.length = len(line)
}
