package web

import (
	_ "embed"
	"net/http"
)

// description is the API's, in OpenAPI 3.1. What is not served is not in it: a test holds
// it against the table of routes, and every answer of the tests against it.
//
//go:embed openapi.json
var description []byte

func (s *Server) describe(c *call) error {
	if c.tagged(hashed(string(description)), false) {
		return nil
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		c.w.Write(description)
	}
	return nil
}
