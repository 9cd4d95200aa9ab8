package http

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	wire "polystalk/codec/admin"
)

// The console is the files of the folder console:
//
//	index.html ─► app.mjs: the frame, keys, which page
//	                ├─► overview, tubes, tube, job, buried, connections, operations, server: a page each
//	                │     └─► jobs, act, body, graph: parts of several pages
//	                └─► state, live, api: the page's state, events, requests
//
// There is no build step: modules are sent as they are, except that the first ones are joined
// into one. vendor.sh writes libraries with their licences to console/vendor.
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

// showConsole serves the page. It needs no role, because the page itself contains no data.
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
	if err == nil {
		texts, err = joined(texts)
	}
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
// they see a change when they reload the page. Modules are not joined. The error names what is
// missing in the folder.
func ConsoleDir(dir string) (find func(name string) *File, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: give the folder router/http/console of the sources, or omit it for the console in the program", err)
	}
	for _, name := range []string{consoleIndex, firstModule} {
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

// firstModules are the modules that the frame and the overview need, each after its imports.
// They are sent as one: a browser requests a module's imports only after it has the module.
var firstModules = []string{"api.mjs", "format.mjs", "state.mjs", "live.mjs", "parts.mjs", "graph.mjs", "overview.mjs", firstModule}

// firstModule is the last of them, and the name of the joined module.
const firstModule = "app.mjs"

// importLine matches an import of another module, which must be alone on its line.
var importLine = regexp.MustCompile(`(?m)^import (.+) from '\./([^']+)';\n`)

// joined joins the first modules into one; texts has the text of each module. The joined module
// imports each other module once. Modules that import from a first module then import from the
// joined one. Its names must be unique; a test checks that.
func joined(texts map[string][]byte) (map[string][]byte, error) {
	out := maps.Clone(texts)
	imports := make(map[string]map[string]bool) // names by the module outside of the first ones
	var all bytes.Buffer
	for _, name := range firstModules {
		text, ok := texts[name]
		if !ok {
			return nil, fmt.Errorf("there is no %s", name)
		}
		delete(out, name)
		for _, m := range importLine.FindAllSubmatch(text, -1) {
			names, from := string(m[1]), string(m[2])
			if slices.Contains(firstModules, from) {
				continue
			}
			names, ok := strings.CutPrefix(strings.TrimSuffix(names, " }"), "{ ")
			if !ok {
				return nil, fmt.Errorf("%s imports %s from %s: the first modules import by name", name, m[1], from)
			}
			if imports[from] == nil {
				imports[from] = make(map[string]bool)
			}
			for n := range strings.SplitSeq(names, ", ") {
				imports[from][n] = true
			}
		}
		all.Write(importLine.ReplaceAll(text, nil))
	}
	var head bytes.Buffer
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&head, "import { %s } from './%s';\n", strings.Join(slices.Sorted(maps.Keys(imports[from])), ", "), from)
	}
	for name, text := range out {
		out[name] = importLine.ReplaceAllFunc(text, func(line []byte) []byte {
			m := importLine.FindSubmatch(line)
			if slices.Contains(firstModules, string(m[2])) {
				return fmt.Appendf(nil, "import %s from './%s';\n", m[1], firstModule)
			}
			return line
		})
	}
	out[firstModule] = append(head.Bytes(), all.Bytes()...)
	return out, nil
}
