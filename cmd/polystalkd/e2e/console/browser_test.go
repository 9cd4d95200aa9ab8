package console

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// patience is the timeout for a page. It is long, so that on a busy machine only a page that hangs
// exceeds it.
const patience = time.Minute

// A tab is a page with its own browser profile, and the messages of its JavaScript console.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu   sync.Mutex
	said []string
}

// A look is the way a user views the console: screen, theme, zoom.
type look struct {
	width  int64
	dark   bool
	zoomed bool // to 200 %
}

// chromium is the browser of all tests of the package, since a start takes longer than many tests.
// Each tab has another profile.
var chromium struct {
	once sync.Once
	ctx  context.Context
	err  error
	stop func()
}

// browser returns Debian's chromium; without it the test is skipped.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := daemon.Tool(t, "chromium", "chromium")
	chromium.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience),
			chromedp.Flag("host-resolver-rules", "MAP "+publicName+" 127.0.0.1"))
		ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, leave := chromedp.NewContext(ctx)
		chromium.stop = func() { leave(); stop() }
		chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
	})
	require(t, chromium.err == nil, "chromium does not start: %v", chromium.err)
	return chromium.ctx
}

// stopBrowser stops the browser, if a test has started it.
func stopBrowser() {
	if chromium.stop != nil {
		chromium.stop()
	}
}

// open opens a page of the console at base, in a tab that is closed when the test ends.
func open(t *testing.T, base, page string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.said = append(b.said, m.String())
			b.mu.Unlock()
		}
	}()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	if l.width == 0 {
		l.width = 1280
	}
	var scale []chromedp.EmulateViewportOption
	if l.zoomed { // like a browser: fewer and larger CSS pixels
		l.width /= 2
		scale = append(scale, chromedp.EmulateScale(2))
	}
	b.do(chromedp.EmulateViewport(l.width, 860, scale...))
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	noErr(t, err)
	b.do(chromedp.Navigate(base + "/#/" + page))
	return b
}

// do runs a step.
func (b *tab) do(a chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := chromedp.Do(ctx, a)
	require(b.t, err == nil, "%v\nthe page: %s", err, b.text())
}

// visit opens another page of the console.
func (b *tab) visit(page string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("location.hash = %q", "#/"+page))
}

// openRow opens the next row of a list by keys, once the list has come. hash is the row's page.
func (b *tab) openRow(hash string) {
	b.t.Helper()
	for range 500 {
		if b.keys("j", kb.Enter); b.eval("location.hash.startsWith("+strconv.Quote(hash)+")") == "true" {
			return
		}
	}
	b.t.Fatalf("no key opens %s", hash)
}

// eval returns the value of an expression, as text.
func (b *tab) eval(js string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[string]("(async () => String(await ("+js+")))()", chromedp.EvalAwaitPromise))
	require(b.t, err == nil, "%s: %v", js, err)
	return v
}

// text returns the visible text of the page.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return v
}

// shows waits until a condition holds on the page.
func (b *tab) shows(what, js string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		if b.eval("!!("+js+")") == "true" {
			return
		}
		if time.Now().After(end) {
			b.picture("missing")
			b.mu.Lock()
			said := strings.Join(b.said, "\n")
			b.mu.Unlock()
			b.t.Fatalf("the page does not show %s (%s): %s\nthe browser's console: %s", what, js, b.text(), said)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// reads waits until the page shows a text.
func (b *tab) reads(text string) {
	b.t.Helper()
	b.shows(text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// drawn waits until all graphs of the page are drawn.
func (b *tab) drawn() {
	b.t.Helper()
	b.shows("its graphs", "[...document.querySelectorAll('.plot')].every(x => x.querySelector('canvas'))")
}

// keys types texts. Like on a keyboard, a key and its character are one event: a page that handles
// the key gets no character.
func (b *tab) keys(texts ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for _, r := range strings.Join(texts, "") {
		events := kb.Encode(r)
		for _, e := range events {
			if e.Type == kb.KeyChar {
				events[0].Type, events[0].Text, events[0].UnmodifiedText = kb.KeyDown, e.Text, e.UnmodifiedText
			}
		}
		for _, e := range events {
			if e.Type == kb.KeyChar {
				continue
			}
			_, err := chromedp.Call(ctx, input.DispatchKeyEvent, *e)
			noErr(b.t, err)
		}
	}
}

// press moves the focus with Tab to the button or link with a text, and presses Enter.
func (b *tab) press(text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('dialog[open] button, dialog[open] a, body:not(:has(dialog)) button, body:not(:has(dialog)) a')].find(x => x.innerText.trim() === %q && !x.disabled && x.tabIndex >= 0 && x.checkVisibility())", text)
	b.shows("a button "+text, find)
	b.eval(find + ".focus()")
	b.keys(kb.Enter)
}

// answer types into the first field of the dialog that is open, or opens soon.
func (b *tab) answer(texts ...string) {
	b.t.Helper()
	b.shows("a dialog that asks for something", "document.activeElement.matches('dialog input, dialog textarea')")
	b.keys(texts...)
}

// quiet fails the test if the JavaScript console has messages that are not expected. The browser
// itself writes messages about error answers there.
func (b *tab) quiet(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.said {
		expect(b.t, slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(m, e) }), "the browser's console says: %s", m)
	}
	b.said = nil
}

// The browser's messages about error answers.
const (
	notThere = "status of 404"
	notKnown = "status of 401"
	noAnswer = "net::ERR_"
)

// picture saves a screenshot in the folder POLYSTALK_PICTURES, if it is set.
func (b *tab) picture(name string) {
	dir := os.Getenv("POLYSTALK_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		os.WriteFile(filepath.Join(dir, strings.NewReplacer("/", "_", " ", "_").Replace(name)+".png"), png, 0o644)
	}
}

// axe fails the test if axe-core finds an accessibility problem on the page.
func (b *tab) axe(source string) {
	b.t.Helper()
	b.eval("(window.axe || (() => {" + source + "})(), true)")
	text := b.eval(`axe.run().then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html + " " + n.failureSummary)}))))`)
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	noErr(b.t, json.Unmarshal([]byte(text), &found))
	for _, v := range found {
		b.t.Errorf("axe: %s (%s): %d, as %s", v.ID, v.Help, len(v.Nodes), v.Nodes[0])
	}
}

// axeSource returns the installed axe-core; without it the test is skipped.
func axeSource(t *testing.T) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("NODE_PATH")) {
		if b, err := os.ReadFile(filepath.Join(dir, "axe-core", "axe.min.js")); err == nil {
			return string(b)
		}
	}
	t.Skip("no axe-core in NODE_PATH: .ci/run installs it")
	return ""
}
