package top

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// hostile has names with control characters, with unusual widths, or with syntax of other programs.
var hostile = []string{
	"mail", "\x1b[2J\x1b]0;title\x07", "a\nb\r\tc", "\u202eleft", "メール送信メール送信メール送信メール送信", "e\u0301\u0301\u0301", "👩\u200d👩\u200d👧", "\u0085\u009b31m",
	strings.Repeat("long-", 40), `"q" 'q'`, "<script>alert(1)</script>", "", "\x00",
}

// document returns v in JSON.
func document(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

// tubesNamed returns tubes with different figures.
func tubesNamed(names ...string) (all []admin.Tube) {
	for i, name := range names {
		all = append(all, admin.Tube{Name: name, Path: admin.PathName(name), Jobs: admin.Counts{Ready: uint64(1000 - i), Buried: uint64(i % 3)}, OldestReadySeconds: float64(i)})
	}
	return all
}

// screenOf returns a model with its first sample.
func screenOf(t *testing.T, s *fake, width, height int) model {
	t.Helper()
	s.server = []byte(`{"version":"1.0","state":"serving"}`)
	m := model{
		ctx: t.Context(), read: sourceOf(s).read, name: "http://127.0.0.1:11380", every: time.Millisecond, left: -1, view: tubes,
		sorts: map[*view]string{tubes: tubes.sort, connections: connections.sort}, since: time.Unix(1, 0),
	}
	var err error
	if m.sample, err = m.read(t.Context(), m.wanted()); err != nil {
		t.Fatal(err)
	}
	return update(t, m, tea.WindowSizeMsg{Width: width, Height: height})
}

// update sends a message to a model, and then the result of the update that follows.
func update(t *testing.T, m model, msg tea.Msg) model {
	t.Helper()
	m, cmd := begin(m, msg)
	for m.reading && cmd != nil {
		m, cmd = begin(m, cmd())
	}
	return m
}

// begin sends a message to a model.
func begin(m model, msg tea.Msg) (model, tea.Cmd) {
	next, cmd := m.Update(msg)
	return next.(model), cmd
}

// key returns a key by its name or its text.
func key(name string) tea.KeyPressMsg {
	named := map[string]rune{
		"esc": tea.KeyEscape, "enter": tea.KeyEnter, "tab": tea.KeyTab, "left": tea.KeyLeft, "right": tea.KeyRight, "up": tea.KeyUp, "down": tea.KeyDown,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace,
	}
	if code, ok := named[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if letter, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

func press(t *testing.T, m model, names ...string) model {
	t.Helper()
	for _, name := range names {
		m = update(t, m, key(name))
	}
	return m
}

// shown returns the lines of a screen without styles.
func shown(m model) []string {
	lines := m.screen()
	for i := range lines {
		lines[i] = ansi.Strip(lines[i])
	}
	return lines
}

// wants expects a text on the screen.
func wants(t *testing.T, m model, text string) {
	t.Helper()
	if all := strings.Join(shown(m), "\n"); !strings.Contains(all, text) {
		t.Errorf("%q is not on the screen:\n%s", text, all)
	}
}

// sourceOf returns a source of one server.
func sourceOf(s client.Server) *Source {
	return &Source{Dial: func(context.Context) (client.Server, error) { return s, nil }}
}

// A fake is a server with given tubes and connections, or with given parts of lists.
type fake struct {
	client.Server
	server  []byte
	tubes   []admin.Tube
	clients []admin.Connection
	parts   [][]byte // nil: tubes or clients
	err     error
	queries []client.Request
	closed  int
	whole   bool // it has the API
}

func (f *fake) Ask(context.Context, client.Request) (client.Answer, error) {
	return client.Answer{Document: f.server}, f.err
}

func (f *fake) List(_ context.Context, q client.Request, page func([]byte) error) error {
	f.queries = append(f.queries, q)
	parts := f.parts
	if parts == nil {
		list := map[string]any{"connections": append([]admin.Connection{}, f.clients...)}
		if q.Path == "/tubes" {
			list = map[string]any{"tubes": append([]admin.Tube{}, f.tubes[:min(len(f.tubes), q.Limit)]...), "matching": len(f.tubes)}
		}
		part, err := json.Marshal(list)
		if err != nil {
			return err
		}
		parts = [][]byte{part}
	}
	for _, part := range parts {
		if err := page(part); err != nil {
			return err
		}
	}
	return f.err
}

// last returns the last request for a list.
func (f *fake) last() client.Request { return f.queries[len(f.queries)-1] }

func (f *fake) HasAPI() bool { return f.whole }

func (f *fake) Close() { f.closed++ }

// cells returns the texts of a column.
func cells(rows []any, path string) (all []string) {
	for _, row := range rows {
		all = append(all, client.Column{Path: path}.Cell(row))
	}
	return slices.Clip(all)
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
