package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// TestScreenFits: no content is too wide or too high, or has control characters.
func TestScreenFits(t *testing.T) {
	for _, size := range [][2]int{{200, 60}, {120, 35}, {80, 24}, {40, 15}, {40, 12}, {20, 8}, {10, 5}, {3, 3}, {1, 1}, {0, 0}} {
		s := &fake{whole: true, tubes: tubesNamed(hostile...)}
		for i, name := range hostile {
			of := admin.NameOf(name)
			s.clients = append(s.clients, admin.Connection{ID: uint64(i), Peer: name, Protocol: name, Used: &of, Watched: []admin.TubeName{of, of}, Command: name, ClientID: name})
		}
		m := screenOf(t, s, size[0], size[1])
		gone := client.Errorf(client.System, "%s", strings.Join(hostile, "\x1b[2J"))
		states := map[string]model{
			"tubes": m, "help": press(t, m, "?"), "connections": press(t, m, "tab"), "filter": press(t, m, "/", "x", "\x1b", "メ"), "paused": press(t, m, "p"),
			"named": press(t, m, "left", "left", "left"), "gone": update(t, m, result{nil, gone, time.Unix(9, 0)}),
		}
		filtered := m
		filtered.match = strings.Join(hostile, "")
		states["filtered"] = update(t, filtered, key("enter"))
		plain := *m.sample
		plain.whole = false
		m.sample = &plain
		states["by the protocol"] = press(t, m, "?")
		for name, m := range states {
			lines := m.screen()
			if len(lines) != size[1] && size[0] > 0 {
				t.Errorf("%s at %v: %d lines", name, size, len(lines))
			}
			for _, line := range lines {
				if w := wide(line); w > size[0] {
					t.Errorf("%s at %v: %q is %d wide", name, size, line, w)
				}
				if bare := ansi.Strip(line); strings.ContainsAny(bare, "\x00\a\b\t\r\n\x1b\u0085\u009b\u202e\u200d") {
					t.Errorf("%s at %v: %q", name, size, bare)
				}
			}
		}
	}
}

// TestOnlyVisibleRowsAreRead.
func TestOnlyVisibleRowsAreRead(t *testing.T) {
	names := make([]string, 10000)
	for i := range names {
		names[i] = fmt.Sprintf("tube-%05d", i)
	}
	s := &fake{whole: true, tubes: tubesNamed(names...)}
	m := screenOf(t, s, 80, 24)
	seen := 24 - m.frame()
	rows := func(want int) {
		t.Helper()
		if got := s.last().Limit; got != want || len(shown(m)) != 24 {
			t.Errorf("%d rows are asked for, and there are %d lines; want %d, 24", got, len(shown(m)), want)
		}
	}
	rows(seen)
	wants(t, m, fmt.Sprintf("tubes 1–%d of 10000", seen))
	m = press(t, m, "j", "down")
	rows(seen + 2)
	wants(t, m, "tube-00002")
	before := len(s.queries)
	m = press(t, m, "k", "up", "up")
	if len(s.queries) != before || m.from != 0 {
		t.Errorf("what is there is asked for again, or the first row is %d", m.from)
	}
	m = press(t, m, "G")
	rows(rowsMax)
	wants(t, m, "tube-00999")
	m = press(t, m, "pgup")
	if m.from != rowsMax-seen-(seen-1) {
		t.Errorf("a page up from the end is row %d", m.from)
	}
	// Now there are fewer tubes.
	s.tubes = s.tubes[:5]
	m = update(t, m, due{m.turn})
	wants(t, m, "tubes 1–5 of 5")
	m = press(t, m, "home", "end", "pgdown", "b", "g", "j")
	if m.from != 0 {
		t.Errorf("five tubes are scrolled to %d", m.from)
	}
	s.tubes = nil
	wants(t, update(t, m, due{m.turn}), "no tubes")
	// A larger screen has room for more.
	s.tubes = tubesNamed(names...)
	m = update(t, update(t, m, due{m.turn}), tea.WindowSizeMsg{Width: 100, Height: 50})
	if got := s.last().Limit; got != 50-m.frame() {
		t.Errorf("%d rows after it has grown", got)
	}
}

func TestKeys(t *testing.T) {
	for keys, want := range map[string]string{
		"":                           "tubes -ready ",
		"right":                      "tubes -delayed ",
		"> r":                        "tubes delayed ",
		"r r":                        "tubes -ready ",
		"left":                       "tubes name ",
		"left < r":                   "tubes name ",
		"left right":                 "tubes -ready ",
		"> > > > > > > > > > > > >":  "tubes -using ",
		"/ m * enter":                "tubes -ready m*",
		"/ m x backspace enter":      "tubes -ready m",
		"/ m enter esc":              "tubes -ready ",
		"/ m esc":                    "tubes -ready ",
		"/ m enter / ctrl+u q enter": "tubes -ready q",
		"/ m enter tab":              "connections -holds ",
		"c > r":                      "connections for ",
		"tab > tab":                  "tubes -ready ",
		"tab > tab tab":              "connections -for ",
		"t c c t":                    "tubes -ready ",
		"? > >":                      "tubes -delayed ", // the first one ends the help
		"j k g G space b x":          "tubes -ready ",
	} {
		s := &fake{whole: true, tubes: tubesNamed("mail", "x")}
		m := screenOf(t, s, 120, 35)
		for name := range strings.FieldsSeq(keys) {
			if name == "space" {
				name = " "
			}
			m = press(t, m, name)
		}
		w := m.wanted()
		if got := w.view.name + " " + w.sort + " " + w.match; got != want {
			t.Errorf("%q: %q, want %q", keys, got, want)
		}
		if q := s.last(); q.Path != "/"+w.view.name || w.view == tubes && (q.Query.Get("sort") != w.sort || q.Query.Get("match") != glob(w.match)) {
			t.Errorf("%q: what is wanted was not looked at: %v", keys, q)
		}
	}
	for _, name := range []string{"q", "ctrl+c"} {
		m := screenOf(t, &fake{}, 80, 24)
		if _, cmd := begin(m, key(name)); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not end it", name)
		}
	}
	m := screenOf(t, &fake{}, 80, 24)
	if _, cmd := begin(m, key("ctrl+z")); cmd == nil || cmd() != tea.Suspend() {
		t.Error("ctrl+z does not suspend it")
	}
	m = press(t, m, "/", "q")
	if m.mode != filtering || m.typed != "q" {
		t.Errorf("a q in the filter: %q", m.typed)
	}
	m = update(t, m, tea.PasteMsg{Content: "a\x1b[2Jb"})
	wants(t, m, `/qa\x1B[2Jb_`)
	if m = update(t, m, tea.PasteMsg{Content: strings.Repeat("x", filterMax)}); len(m.typed) > filterMax {
		t.Errorf("%d letters are pasted into the filter", len(m.typed))
	}
	if _, cmd := begin(m, key("ctrl+c")); cmd == nil || cmd() != tea.Quit() {
		t.Error("ctrl+c does not end it in the filter")
	}
}

func TestHelpHasEveryKey(t *testing.T) {
	m := press(t, screenOf(t, &fake{whole: true}, 120, 35), "?")
	for _, k := range keys {
		wants(t, m, k.does)
	}
	wants(t, m, "any key goes back")
	if m = press(t, m, "q"); m.mode != browsing {
		t.Error("a key does not end the help")
	}
}

// TestOneUpdateAtATime: a key during an update starts the next one after it. Old waits start no
// update.
func TestOneUpdateAtATime(t *testing.T) {
	s := &fake{whole: true, tubes: tubesNamed("mail")}
	m := screenOf(t, s, 80, 24)
	old := m.turn
	m, look := begin(m, due{m.turn})
	if !m.reading || look == nil {
		t.Fatal("it does not look when it is due")
	}
	for _, name := range []string{">", "r", ">", "enter"} {
		var cmd tea.Cmd
		if m, cmd = begin(m, key(name)); cmd != nil {
			t.Errorf("%s begins a second look", name)
		}
	}
	m, look = begin(m, look())
	if !m.reading || look == nil {
		t.Fatal("it does not look at what was wanted meanwhile")
	}
	m, cmd := begin(m, look())
	if q := s.last(); q.Query.Get("sort") != "reserved" || m.reading || cmd == nil {
		t.Errorf("looked at %v", q)
	}
	asked := len(s.queries)
	for _, turn := range []int{old, m.turn - 1} {
		if m, cmd = begin(m, due{turn}); cmd != nil || m.reading {
			t.Error("a wait of before begins a look")
		}
	}
	if got, ok := m.wait()().(due); !ok || got.turn != m.turn || len(s.queries) != asked {
		t.Errorf("the wait ends with %v", got)
	}
}

func TestPauseStopsUpdates(t *testing.T) {
	s := &fake{whole: true, tubes: tubesNamed("mail")}
	m := press(t, screenOf(t, s, 120, 24), "p")
	wants(t, m, "PAUSED")
	asked := len(s.queries)
	if m = update(t, m, due{m.turn}); len(s.queries) != asked {
		t.Error("it looks while it is paused")
	}
	if m = press(t, m, "p"); len(s.queries) != asked+1 || m.paused {
		t.Error("it does not go on")
	}
	if m = press(t, m, "p", ">"); m.paused || len(s.queries) != asked+2 {
		t.Error("another order is not looked at")
	}
}

// TestOldFiguresStayWhileTheServerIsAway, with the time since the last update.
func TestOldFiguresStayWhileTheServerIsAway(t *testing.T) {
	s := &fake{whole: true, tubes: tubesNamed("mail")}
	m := screenOf(t, s, 120, 24)
	s.err = client.Errorf(client.System, "nobody is there: start it")
	m = update(t, m, due{m.turn})
	m = update(t, m, result{nil, s.err, time.Unix(76, 0)})
	m.since = time.Unix(1, 0)
	wants(t, m, "NO UPDATE for 1m15s: nobody is there: start it")
	wants(t, m, "mail")
	if all := strings.Join(m.screen(), "\n"); strings.Count(all, stale.String()) < 3 {
		t.Errorf("the figures of before look like new ones: %q", all)
	}
	s.err = client.Errorf(client.Refused, "a token is needed: give one")
	m = update(t, m, due{m.turn})
	wants(t, m, "a token is needed")
	s.err = nil
	m = update(t, m, due{m.turn})
	if all := strings.Join(shown(m), "\n"); strings.Contains(all, "NO UPDATE") || m.failure != nil {
		t.Errorf("it is back:\n%s", all)
	}
	// A wrong request does not make the figures old.
	s.err = client.Errorf(client.Usage, "the pattern cannot be read: mend it")
	m = press(t, m, "/", "[", "enter")
	wants(t, m, "the pattern cannot be read: mend it")
	if all := strings.Join(shown(m), "\n"); strings.Contains(all, "NO UPDATE") {
		t.Errorf("a bad pattern:\n%s", all)
	}
}

func TestCountLimitsUpdates(t *testing.T) {
	s := &fake{whole: true, tubes: tubesNamed("mail")}
	m := screenOf(t, s, 80, 24)
	m.left = 2
	asked := len(s.queries)
	m = update(t, m, due{m.turn})
	m = press(t, m, "enter") // an update by hand does not count
	m = update(t, m, due{m.turn})
	if len(s.queries) != asked+3 {
		t.Errorf("%d looks", len(s.queries)-asked)
	}
	if _, cmd := begin(m, due{m.turn}); cmd == nil || cmd() != tea.Quit() {
		t.Error("it does not end")
	}
}

// TestServersWithoutTheAPI have fewer columns and less frequent updates, and a message about it.
func TestServersWithoutTheAPI(t *testing.T) {
	s := &fake{tubes: tubesNamed("mail")}
	m := screenOf(t, s, 160, 24)
	m.sample.took = 700 * time.Millisecond
	m.every = 2 * time.Second
	if got := pace(m.sample, m.every); got != 6300*time.Millisecond {
		t.Errorf("it waits for %v after a look that took 0.7 s", got)
	}
	wants(t, m, "every 6.3s")
	for _, line := range shown(m) {
		if strings.Contains(line, "P99") || strings.Contains(line, "OLDEST") || strings.Contains(line, "Tab") {
			t.Errorf("%q", line)
		}
	}
	m = press(t, m, "tab")
	wants(t, m, onlyPolystalkd)
	if m.view != tubes {
		t.Error("it shows connections")
	}
	m = press(t, m, "> > > > > > > > >"[:1], ">", ">", ">", ">")
	if by := m.sorts[tubes]; by != "-watching" {
		t.Errorf("five columns to the right of -ready is %s", by)
	}
	s.whole = true
	m = update(t, m, due{m.turn})
	m.sample.took = 10 * time.Second
	if got := pace(m.sample, m.every); got != 2*time.Second {
		t.Errorf("it waits for %v for a server with the API", got)
	}
}
