package gearman

import (
	"strings"
	"testing"
)

// Names and uniques are any bytes, and an administrator's program reads lines: one
// that holds a line end must not be read as two, nor as another column.
func TestLinesCannotBeForged(t *testing.T) {
	forgeries := []string{
		"f\n.\n", "f\ng\t9\t9\t9", "f\t0\t0\t1", "f\rg", "\x00", "a\x0bb", "a\x0cb", "a\x1cb", "\x7f", "\x1b[2J", "a\u0085b", "a\u2028b", "\u2029",
		`"a\nb"`, `"\x00"`, `"\"a\\nb\""`,
	}
	for _, name := range forgeries {
		quoted := string(AppendQuoted(nil, []byte(name)))
		if strings.ContainsAny(quoted, "\n\t\r") {
			t.Fatalf("%q is quoted as %q", name, quoted)
		}
		st := &FunctionStatus{Running: 1, Workers: 2}
		for _, tt := range []struct{ got, want string }{
			{string(AppendStatusLine(nil, name, st)), quoted + "\t1\t1\t2\n"},
			{string(AppendPriorityStatusLine(nil, name, st)), quoted + "\t0\t0\t0\t2\n"},
			{string(appendWorkersLine(nil, 1, "::1", []byte("-"), []string{"a", name})), "1 ::1 - : a " + quoted + "\n"},
			{string(AppendUniqueLine(nil, name)), quoted + "\n"},
		} {
			if tt.got != tt.want {
				t.Errorf("%q makes the line %q, want %q", name, tt.got, tt.want)
			}
		}
	}
	// A unique that is a dot would end the list.
	if got := string(AppendUniqueLine(nil, ".")); got != "\".\"\n" {
		t.Errorf("the unique . makes the line %q", got)
	}
}

// What cannot be taken for anything else stands there as gearmand shows it.
func TestLinesShowNamesAsTheyAre(t *testing.T) {
	for _, name := range []string{"", "f", "a b", "-", ".", "üx", "\xfcx", "\xff\xc3", "名前", `say "hi"`, `"`, `"f"`, `"a\\nb"`, `"a\nb`, `back\slash`, "x:y"} {
		if got := string(AppendStatusLine(nil, name, &FunctionStatus{})); got != name+"\t0\t0\t0\n" {
			t.Errorf("%q makes the line %q", name, got)
		}
	}
}

// No two names look the same in a list.
func FuzzListedIsUnique(f *testing.F) {
	for _, name := range []string{"", "f", "a\nb", `"a\nb"`, `"\"a\\nb\""`, `"f"`, "\u2028"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		shown := string(appendListed(nil, name))
		if strings.ContainsAny(shown, "\n\r\t\x00") {
			t.Fatalf("%q is shown as %q", name, shown)
		}
		if shown == name {
			return
		}
		// It is quoted; the name that looks like that must look otherwise.
		if got, ok := AppendUnquoted(nil, []byte(shown)); !ok || string(got) != name {
			t.Fatalf("%q is shown as %q, which is %q", name, shown, got)
		}
		if again := string(appendListed(nil, shown)); again == shown {
			t.Fatalf("%q and %q are both shown as %q", name, shown, shown)
		}
	})
}

func appendWorkersLine(dst []byte, fd uint64, address string, id []byte, functions []string) []byte {
	dst = AppendWorkersHead(dst, fd, address, id)
	for _, name := range functions {
		dst = AppendWorkersFunction(dst, name)
	}
	return append(dst, MsgWorkersEnd...)
}
