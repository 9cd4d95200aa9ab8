package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// hashed is a short digest of what an answer depends on.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// tagged gives the answer a tag, and reports whether the client has it already: then it is
// answered so. A weak tag is that of an answer whose unimportant parts may differ.
// Source: RFC 9110, section 13.1.2.
func (c *call) tagged(tag string, weak bool) (had bool) {
	tag = `"` + tag + `"`
	h := c.w.Header()
	h.Set("ETag", tag)
	if weak {
		h.Set("ETag", "W/"+tag)
	}
	// Whoever has an answer may show it again once he has asked whether it still holds.
	h.Set("Cache-Control", "private, no-cache")
	for _, list := range c.r.Header.Values("If-None-Match") {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimSpace(t)
			if t == "*" || strings.TrimPrefix(t, "W/") == tag {
				c.w.WriteHeader(http.StatusNotModified)
				return true
			}
		}
	}
	return false
}
