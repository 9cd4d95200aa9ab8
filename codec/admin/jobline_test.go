package admin

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestLinesOfJobsKeepThem, also bodies and names that are no text.
func TestLinesOfJobsKeepThem(t *testing.T) {
	for _, j := range []LineJob{
		{Tube: "mail", TTR: 60, Body: []byte("hello")},
		{Tube: "a/b %\x00\xff\"\n", Pri: math.MaxUint32, TTR: math.MaxUint32, Body: []byte("\x00\xff\n")},
		{Tube: "t", Delay: 1, TTR: 1, Body: []byte("<\"\\\n\r\t\u2028\ufffd>")},
		{Tube: "t", Delay: math.MaxUint32, TTR: 1, Body: []byte{}},
		{Tube: "t", Pri: 7, TTR: 0, Buried: true, Body: []byte("\xed\xa0\x80")},
		{Tube: "t", TTR: 2, Body: bytes.Repeat([]byte(`"`), 2*textMax)},
	} {
		line := j.AppendLine([]byte("before"))
		text, ok := strings.CutPrefix(string(line), "before")
		if n := strings.Count(text, "\n"); !ok || n != 1 || !strings.HasSuffix(text, "\n") || len(text) > 2*min(len(j.Body), textMax)+len(j.Body)*4/3+3*len(j.Tube)+160 {
			t.Errorf("%q has %d line ends and %d bytes", text, n, len(text))
		}
		got, err := ParseLine([]byte(text), 5)
		if err != nil || !reflect.DeepEqual(got, j) {
			t.Errorf("%q is read as %+v, %v; want %+v", text, got, err, j)
		}
	}
	if j, err := ParseLine([]byte(`{"body":""}`), 5); err != nil || j.Pri != 5 || j.TTR != DefaultTTR || j.Tube != "" {
		t.Errorf("%+v, %v", j, err)
	}
	for _, text := range []string{``, ` `, `7`, `null`, `[]`, `{}`, `{"body":"a"}{}`, `{"body":null}`, `{"body":"a","tube_path":"%"}`, `{"body":"a","state":"x"}`, `{"body":"` + strings.Repeat("[", 1000), strings.Repeat("[", 100000)} {
		_, err := ParseLine([]byte(text), 0)
		if _, ok := err.(*Problem); !ok {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	j := LineJob{Tube: "mail", TTR: 60, Body: []byte("line 123456")}
	line := j.AppendLine(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			line = j.AppendLine(line[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseLine(line, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}
