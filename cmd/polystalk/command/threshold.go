package command

import (
	"strconv"
	"strings"

	"polystalk/cmd/polystalk/fault"
)

// A threshold says from which values on a figure is a warning, and from which it is
// critical: WARN:CRIT, either of which may be left out. A figure of which there may be too
// many is so at that value or above it, one of which there may be too few below it.
type threshold struct {
	warn, crit string // as numbers; empty: none
	few        bool
}

// A level is what a check has come to. It is the exit code of a plugin.
// Source: Monitoring Plugins Development Guidelines, "Plugin Return Codes".
type level int

const (
	levelOK level = iota
	levelWarning
	levelCritical
	levelUnknown
)

var levelNames = []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// readThreshold reads one; number reads each of its values.
func readThreshold(flag, text string, few bool, number func(flag, text string) (string, error)) (t threshold, err error) {
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

// countOf and spanOf read the values of thresholds.
func countOf(flag, text string) (string, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return "", fault.New(fault.Usage, "%s: %q is no number: give WARN:CRIT, such as 1000:10000", flag, text)
	}
	return strconv.FormatUint(n, 10), nil
}

func spanOf(flag, text string) (string, error) {
	n, err := readSpan(flag, text)
	return strconv.FormatUint(uint64(n), 10), err
}

// of is the level of a figure.
func (t threshold) of(v float64) level {
	beyond := func(limit string) bool {
		return limit != "" && (t.few && v < value(limit) || !t.few && v >= value(limit))
	}
	switch {
	case beyond(t.crit):
		return levelCritical
	case beyond(t.warn):
		return levelWarning
	}
	return levelOK
}

// ranges are the two as performance data has them: the values that alert.
// Source: Monitoring Plugins Development Guidelines, "Threshold and Ranges": 10: alerts
// below 10, and @10: from 10 on.
func (t threshold) ranges() string {
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
