package gearmantest

import (
	"fmt"
	"slices"
	"strings"
)

// exorcise takes out of a list of gearmand's what is to be gone (tag I):
// queued jobs that nobody wants any more, which it keeps until a worker looks, and
// the mark of running ones. A job that was once submitted in the background is a
// background job, whoever joins or leaves (tag I).
func (k *known) exorcise(list string, lines []string) []string {
	lines = slices.Clone(lines)
	for _, j := range k.jobs {
		if j.gone {
			continue
		}
		switch list {
		case "status":
			if j.ghost {
				decrement(lines, j.function, 1)
			}
		case "prioritystatus":
			if j.ghost {
				decrement(lines, j.function, 1+j.class)
			}
		case "show jobs":
			at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, j.handle+"\t") })
			if at < 0 {
				break
			}
			if j.ghost {
				lines = slices.Delete(lines, at, at+1)
				break
			}
			f := strings.Split(lines[at], "\t")
			f[2] = "0"
			if (j.background || j.joined) && !j.cancelled {
				f[3] = "1\n"
			}
			lines[at] = strings.Join(f, "\t")
		case "show unique jobs":
			if j.ghost {
				if at := slices.Index(lines, j.unique+"\n"); at >= 0 {
					lines = slices.Delete(lines, at, at+1)
				}
			}
		}
	}
	return lines
}

// decrement counts one less in a column of a function's line.
func decrement(lines []string, function string, column int) {
	for i, line := range lines {
		rest, ok := strings.CutPrefix(line, function+"\t")
		if !ok {
			continue
		}
		f := strings.Split(rest, "\t")
		var n int
		if _, err := fmt.Sscan(f[column-1], &n); err == nil {
			f[column-1] = fmt.Sprint(n - 1)
		}
		lines[i] = function + "\t" + strings.Join(f, "\t")
	}
}
