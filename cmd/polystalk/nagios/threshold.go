// Package nagios has the thresholds of plugins of Nagios, and of what reads the same.
package nagios

import (
	"strconv"
	"strings"

	"polystalk/cmd/polystalk/fault"
)

// A Threshold says from which values on a figure is a warning, and from which it is
// critical: WARN:CRIT, either of which may be left out. A figure of which there may be too
// many is so at that value or above it, one of which there may be too few below it.
type Threshold struct {
	warn, crit string // as numbers; empty: none
	few        bool
}

// A Level is what a check has come to. It is the exit code of a plugin.
// Source: Monitoring Plugins Development Guidelines, "Plugin Return Codes".
type Level int

// The levels.
const (
	OK Level = iota
	Warning
	Critical
	Unknown
)

// String is the level as the line of a plugin begins.
func (l Level) String() string {
	return []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[l]
}

// Read reads one; number reads each of its values.
func Read(flag, text string, few bool, number func(flag, text string) (string, error)) (t Threshold, err error) {
	t.few = few
	warn, crit, _ := strings.Cut(text, ":")
	if warn == "" && crit == "" {
		return t, fault.New(fault.Usage, "%s %q has no number: give WARN:CRIT, WARN or :CRIT", flag, text)
	}
	for _, v := range []struct {
		text string
		to   *string
	}{{warn, &t.warn}, {crit, &t.crit}} {
		if v.text == "" {
			continue
		}
		if *v.to, err = number(flag, v.text); err != nil {
			return t, err
		}
	}
	w, c := value(t.warn), value(t.crit)
	if t.warn != "" && t.crit != "" && (few && w < c || !few && w > c) {
		return t, fault.New(fault.Usage, "%s %q is critical before it is a warning: give them the other way round", flag, text)
	}
	return t, nil
}

// value is the number in a text that was read as one.
func value(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// Of is the level of a figure.
func (t Threshold) Of(v float64) Level {
	beyond := func(limit string) bool {
		return limit != "" && (t.few && v < value(limit) || !t.few && v >= value(limit))
	}
	switch {
	case beyond(t.crit):
		return Critical
	case beyond(t.warn):
		return Warning
	}
	return OK
}

// Ranges are the two as performance data has them: the values that alert.
// Source: Monitoring Plugins Development Guidelines, "Threshold and Ranges": 10: alerts
// below 10, and @10: from 10 on.
func (t Threshold) Ranges() string {
	one := func(limit string) string {
		switch {
		case limit == "":
			return ""
		case t.few:
			return limit + ":"
		}
		return "@" + limit + ":"
	}
	return one(t.warn) + ";" + one(t.crit)
}
