// Package console is the web console: the files of the page, as a browser is sent them. What
// the page shows it asks of the API, so nothing here knows of jobs.
//
//	assets/index.html ─► app.mjs: the frame, keys, which page
//	                       ├─► overview, tubes, tube, job, buried, connections, operations, server: a page each
//	                       │     └─► jobs, act, body, graph: what several pages are made of
//	                       └─► state, live, api: where one is, the stream of events, requests
//
// There is no build step: the modules are sent as they are written, those that the first page
// needs as one (first.go). assets/vendor has what others wrote, each with its licence;
// vendor.sh there says how it got there.
//
// Libraries: preact with htm draws the page from functions of its state, without unsafe-eval
// and inline scripts; uPlot draws graphs in a tenth of the code and time of others.
package http

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io/fs"
	"mime"
	"path"
	"sync"

	"github.com/cespare/xxhash/v2"
)

//go:embed console
var assets embed.FS

// Policy is the Content-Security-Policy of the page: scripts and styles come from this server
// alone, none of them stands in the page, and no text becomes a script.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// A File is one file of the console. It never changes.
type File struct {
	Type   string // its media type
	Plain  []byte
	Zipped []byte // by gzip; nil: that is no smaller
	Sum    uint64 // of Plain
}

// Index is the name of the page itself.
const Index = "index.html"

var files = sync.OnceValue(func() map[string]*File {
	texts := make(map[string][]byte)
	err := fs.WalkDir(assets, "console", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		texts[name[len("console/"):]], err = assets.ReadFile(name)
		return err
	})
	if err == nil {
		texts, err = joined(texts)
	}
	if err != nil {
		panic("console: the files in the program are not those of a console: " + err.Error())
	}
	all := make(map[string]*File)
	for name, b := range texts {
		if t := mediaType(name); t != "" {
			all[name] = &File{Type: t, Plain: b, Zipped: zipped(b), Sum: xxhash.Sum64(b)}
		}
	}
	return all
})

// Find finds a file by its path below assets; nil: there is none.
func Find(name string) *File { return files()[name] }

// mediaType is that of what browsers are sent; empty: they are not sent it.
func mediaType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".mjs":
		return "text/javascript; charset=utf-8"
	case ".html", ".css":
		return mime.TypeByExtension(ext)
	}
	return ""
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is one
	z.Write(b)
	z.Close()
	if out.Len() >= len(b) {
		return nil
	}
	return out.Bytes()
}
