package http

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	wire "polystalk/codec/admin"
)

// The console is the files of the folder console:
//
//	index.html ─► app.mjs: the frame, keys, which page; the overview
//	                ├─► tubes, tube, job, policies, buried, connections, operations, server: a page each
//	                │     └─► jobs, act, body: for several pages
//	                ├─► parts.mjs: components, formats, graphs
//	                └─► state.mjs: the page's state, events, requests
//
// There is no build step: modules are sent as they are. index.html names the modules of the first
// page, so that a browser need not read one to request the next. vendor.sh writes libraries with
// their licences to console/vendor.
//
//go:embed console
var consoleFS embed.FS

// consolePolicy is the page's Content-Security-Policy: it allows only scripts and styles from
// files of this server. Inline scripts are forbidden, and no text can become a script.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// consoleIndex is the page itself.
const consoleIndex = "index.html"

// A File is one file of the console. It never changes.
type File struct {
	kind   string // media type
	plain  []byte
	zipped []byte // nil: compression does not help
	sum    uint64 // of plain
}

// showConsole serves the page. It needs no right, because the page itself contains no data.
func (a *API) showConsole(c *call) error { return a.sendFile(c, consoleIndex) }

// showAsset serves a file that the page loads.
func (a *API) showAsset(c *call) error { return a.sendFile(c, c.R.PathValue("file")) }

func (a *API) sendFile(c *call, name string) error {
	f := a.opts.Console(name)
	if f == nil {
		return wire.NotFound.Problem("the console has no such file")
	}
	h := c.W.Header()
	h.Set("Content-Security-Policy", consolePolicy)
	h.Set("Cache-Control", "no-cache") // the next request may get the file of another version
	h.Add("Vary", "Accept-Encoding")
	b, form := f.plain, "p"
	if f.zipped != nil && acceptsGzip(c.R.Header) {
		b, form = f.zipped, "z"
	}
	if c.tagged(fmt.Sprintf("%016x%s", f.sum, form), false) {
		return nil
	}
	if form == "z" {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	return c.send(http.StatusOK, f.kind, b)
}

// assets has the files in the program, by their paths in the folder console.
var assets = sync.OnceValue(func() map[string]*File {
	texts := make(map[string][]byte)
	err := fs.WalkDir(consoleFS, "console", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			texts[strings.TrimPrefix(name, "console/")], err = consoleFS.ReadFile(name)
		}
		return err
	})
	if err != nil {
		panic("the files of the console: " + err.Error())
	}
	all := make(map[string]*File)
	for name, b := range texts {
		if kind := mediaType(name); kind != "" {
			all[name] = &File{kind: kind, plain: b, zipped: zipped(b), sum: xxhash.Sum64(b)}
		}
	}
	return all
})

func findAsset(name string) *File { return assets()[name] }

// mediaType returns the media type of a file; empty: the file is not served.
func mediaType(name string) string {
	kinds := map[string]string{".mjs": "text/javascript", ".html": "text/html", ".css": "text/css"}
	if kind := kinds[path.Ext(name)]; kind != "" {
		return kind + "; charset=utf-8"
	}
	return ""
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	z.Write(b)
	z.Close()
	if out.Len() >= len(b) {
		return nil
	}
	return out.Bytes()
}

// ConsoleDir reads files from a folder instead of the program, for developers of the console:
// they see a change when they reload the page. The error names what is missing in the folder.
func ConsoleDir(dir string) (find func(name string) *File, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: give the folder router/http/console of the sources, or omit it for the console in the program", err)
	}
	for _, name := range []string{consoleIndex, "app.mjs"} {
		if _, err := root.Stat(name); err != nil {
			return nil, fmt.Errorf("%s has no %s: give the folder router/http/console of the sources", dir, name)
		}
	}
	return func(name string) *File {
		kind := mediaType(name)
		b, err := root.ReadFile(name)
		if err != nil || kind == "" {
			return nil
		}
		return &File{kind: kind, plain: b, sum: xxhash.Sum64(b)}
	}, nil
}
