// Package openmetrics writes metrics as text, for pages with more series than a library
// that keeps each as an object can have: 50,000 tubes with a dozen each. What it writes is
// both Prometheus's text format 0.0.4 and, as far as names and types go, OpenMetrics.
//
// Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format".
package http

import "strconv"

// A Kind is the type of a family.
type Kind string

// The kinds.
const (
	Counter Kind = "counter"
	Gauge   Kind = "gauge"

	// Histogram has the series _bucket, with the label le, _sum and _count.
	Histogram Kind = "histogram"
)

// ContentType is that of the text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// AppendFamily begins a family: its samples are to follow, and no other's. The help must
// have neither line ends nor backslashes.
func AppendFamily(dst []byte, name string, k Kind, help string) []byte {
	dst = append(dst, "# HELP "...)
	dst = append(dst, name...)
	dst = append(dst, ' ')
	dst = append(dst, help...)
	dst = append(dst, "\n# TYPE "...)
	dst = append(dst, name...)
	dst = append(dst, ' ')
	dst = append(dst, k...)
	return append(dst, '\n')
}

// AppendSample adds a sample of a family with at most one label; an empty one is none. The
// value must be UTF-8.
func AppendSample(dst []byte, name, label, value string, n uint64) []byte {
	dst = append(dst, name...)
	if label != "" {
		dst = append(dst, '{')
		dst = append(dst, label...)
		dst = append(dst, `="`...)
		dst = appendEscaped(dst, value)
		dst = append(dst, `"}`...)
	}
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, n, 10)
	return append(dst, '\n')
}

// AppendLabel adds a label to those of a series. The value must be UTF-8.
func AppendLabel(dst []byte, label, value string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, label...)
	dst = append(dst, `="`...)
	dst = appendEscaped(dst, value)
	return append(dst, '"')
}

// AppendBound adds the label le of a bucket: what it counts does not exceed the bound.
func AppendBound(dst []byte, bound float64) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, `le="`...)
	dst = appendNumber(dst, bound)
	return append(dst, '"')
}

// AppendSeries adds a sample with the labels that AppendLabel has made, at least one.
func AppendSeries(dst []byte, name string, labels []byte, v float64) []byte {
	dst = append(dst, name...)
	dst = append(dst, '{')
	dst = append(dst, labels...)
	dst = append(dst, "} "...)
	dst = appendNumber(dst, v)
	return append(dst, '\n')
}

// appendNumber adds a number as it is written shortest; whole ones, which most are, quickly.
func appendNumber(dst []byte, v float64) []byte {
	if n := int64(v); v >= 0 && v < 1<<53 && float64(n) == v {
		return strconv.AppendInt(dst, n, 10)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		switch s[i] {
		case '\\':
			dst = append(dst, `\\`...)
		case '"':
			dst = append(dst, `\"`...)
		case '\n':
			dst = append(dst, `\n`...)
		default:
			dst = append(dst, s[i])
		}
	}
	return dst
}
