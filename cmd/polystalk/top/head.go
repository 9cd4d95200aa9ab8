package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/client"
)

// headLines is how many lines the figures of the server take.
const headLines = 4

// head is the server in lines for a width, what is most important first in each; 0: there
// is room for all.
func (s *Sample) head(server string, every time.Duration, width int) [headLines]string {
	v := &s.server
	title := []string{"polystalk top", terminal.Safe(server)}
	if v.Draining {
		title = append(title, "DRAINING")
	}
	if v.State != "" && v.State != "serving" {
		title = append(title, strings.ToUpper(terminal.Safe(v.State)))
	}
	title = append(title, "up "+client.FormatAge(float64(v.UptimeSeconds)), "every "+short(every), "version "+terminal.Safe(v.Version))
	if width > 0 && wide(title[0])+wide(title[1])+len(gap) > width {
		title = title[1:]
	}
	count := func(name string, n uint64) string { return name + " " + strconv.FormatUint(n, 10) }
	jobs := []string{
		count("ready", v.Jobs.Ready), count("reserved", v.Jobs.Reserved), count("buried", v.Jobs.Buried), count("delayed", v.Jobs.Delayed),
		count("urgent", v.Jobs.Urgent), count("so far", v.JobsTotal), count("timeouts", v.JobTimeouts),
	}
	rate := func(name string, of func(f *flow) float64) string {
		if s.flow == nil {
			return name + " " + client.Missing
		}
		return name + " " + strconv.FormatFloat(of(s.flow), 'f', 1, 64) + "/s"
	}
	rates := []string{rate("put", func(f *flow) float64 { return f.put })}
	if s.whole {
		rates = append(rates, rate("reserve", func(f *flow) float64 { return f.reserve }))
	}
	rates = append(rates, rate("delete", func(f *flow) float64 { return f.delete }), rate("timeout", func(f *flow) float64 { return f.timeout }))
	c := &v.Connections
	clients := []string{fmt.Sprintf("connections %d", c.Open)}
	if c.Limit > 0 {
		clients[0] += fmt.Sprintf(" of %d", c.Limit)
	}
	clients = append(clients, fmt.Sprintf("workers %d", c.Workers), fmt.Sprintf("waiting %d", c.Waiting), fmt.Sprintf("producers %d", c.Producers))
	if c.Sleeping > 0 {
		clients = append(clients, fmt.Sprintf("sleeping %d", c.Sleeping))
	}
	return [headLines]string{join(title, width), join(jobs, width), join(rates, width), join(clients, width)}
}

// caption says which rows are shown of how many.
func (s *Sample) caption(from, shown, width int) string {
	which := fmt.Sprintf("no %s", s.of.view.name)
	if shown > 0 {
		which = fmt.Sprintf("%s %d–%d of %d", s.of.view.name, from+1, from+shown, s.matching)
	}
	if s.of.match != "" {
		which += fmt.Sprintf(" that match %s", terminal.Safe(s.of.match))
	}
	items := []string{which, "by " + s.of.sort}
	return join(items, width)
}

// short is a length of time as it is typed.
func short(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
