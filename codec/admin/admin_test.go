package admin

import (
	"encoding/json"
	"math"
	"net/url"
	"strings"
	"testing"
)

func TestShownNamesAreToldApart(t *testing.T) {
	for name, want := range map[string]string{
		"mail":      "mail",
		"a/b":       "a/b",
		"":          "",
		"Ünï":       "Ünï",
		"a\x00b":    `a\x00b`,
		"\xff":      `\xFF`,
		`\xFF`:      `\\xFF`,
		"\u0085":    `\xC2\x85`,
		"a\nb\\c":   `a\x0Ab\\c`,
		"\xed\xa0a": `\xED\xA0a`,
	} {
		if got := ShownName(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
}

func TestPathNamesAreReadBack(t *testing.T) {
	for _, name := range []string{"mail", "a/b", "..", ".", "%2F", "a b", "\x00", "\xff", "a?b#c", "+", "ä"} {
		p := PathName(name)
		if got, err := url.PathUnescape(p); err != nil || got != name || strings.ContainsAny(p, "/?#") || p == ".." {
			t.Errorf("%q in a path is %q, read back as %q, %v", name, p, got, err)
		}
	}
}

func TestContentIsTextOrBase64(t *testing.T) {
	for _, tt := range []struct {
		body string
		most int
		want string
	}{
		{"hello", 10, `{"body_bytes":5,"body":"hello"}`},
		{"", 10, `{"body_bytes":0,"body":""}`},
		{"a\nb\t", 10, `{"body_bytes":4,"body":"a\nb\t"}`},
		{"a\x00", 10, `{"body_bytes":2,"body_base64":"YQA="}`},
		{"\xff\xfe", 10, `{"body_bytes":2,"body_base64":"//4="}`},
		{"hello", 2, `{"body_bytes":5,"body":"he","body_truncated":true}`},
		{"aä", 2, `{"body_bytes":3,"body":"a","body_truncated":true}`},
		{"a\xff\xff", 2, `{"body_bytes":3,"body_base64":"Yf8=","body_truncated":true}`},
		{"hello", 0, `{"body_bytes":5,"body":"","body_truncated":true}`},
	} {
		got, err := json.Marshal(NewContent([]byte(tt.body)[:min(len(tt.body), tt.most)], len(tt.body)))
		if err != nil || string(got) != tt.want {
			t.Errorf("%q up to %d: %s, %v, want %s", tt.body, tt.most, got, err, tt.want)
		}
	}
}

func TestIDsAreStrings(t *testing.T) {
	got, err := json.Marshal(Put{ID: 1<<64 - 1})
	if err != nil || string(got) != `{"id":"18446744073709551615"}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestKindsSayWhatToDo(t *testing.T) {
	for slug, k := range Kinds {
		p := k.Problem("x")
		if p.Type != "/problems/"+slug || p.Status < 400 || p.Title == "" || p.Remedy == "" || k.Explain == "" {
			t.Errorf("%s: %+v", slug, p)
		}
	}
	if len(Kinds) < 20 {
		t.Errorf("only %d kinds: two have the same slug, or one is not listed", len(Kinds))
	}
}

func TestPointsInJSON(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		points Points
		want   string
	}{
		{nil, "[]"},
		{Points{nan}, "[null]"},
		{Points{0, 1, 2.5, nan, 0.1, 16777216, 1e-7, -3}, "[0,1,2.5,null,0.1,16777216,0.0000001,-3]"},
		{Points{3e20, float32(math.Inf(1))}, "[3e+20,null]"},
	} {
		got, err := json.Marshal(c.points)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
		var back Points
		if err := json.Unmarshal(got, &back); err != nil || len(back) != len(c.points) {
			t.Fatalf("%s: %v, %v", got, back, err)
		}
		for i, v := range back {
			if w := c.points[i]; v != w && (v == v || w == w && !math.IsInf(float64(w), 0)) {
				t.Errorf("%s: %v has come back", got, back)
			}
		}
	}
	for _, bad := range []string{`{}`, `["1"]`, `[1`, `[true]`} {
		if err := json.Unmarshal([]byte(bad), new(Points)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
