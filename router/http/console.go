package http

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
)

// showConsole serves the page of the console. It is for everybody, since it shows nothing by
// itself: what it shows it asks for, with the role of who looks at it.
func (a *API) showConsole(c *Call) error { return a.sendFile(c, Index) }

// showAsset serves a file that the page needs.
func (a *API) showAsset(c *Call) error { return a.sendFile(c, c.R.PathValue("file")) }

func (a *API) sendFile(c *Call, name string) error {
	f := a.opts.Console(name)
	if f == nil {
		return wire.NotFound.Problem("the console has no such file")
	}
	h := c.W.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cache-Control", "no-cache") // to be kept, and asked about: another version may be served here next
	h.Add("Vary", "Accept-Encoding")
	b, form := f.Plain, "p"
	if f.Zipped != nil && strings.Contains(c.R.Header.Get("Accept-Encoding"), "gzip") {
		b, form = f.Zipped, "z"
	}
	if c.Tagged(fmt.Sprintf("%016x%s", f.Sum, form), false) {
		return nil
	}
	if form == "z" {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.Type)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method != http.MethodHead {
		c.W.Write(b)
	}
	return nil
}
