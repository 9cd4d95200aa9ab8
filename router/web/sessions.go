package web

import (
	"net/http"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// sessionCookie has no Path, so that it goes with the paths that the API has before the
// browser, whatever prefix a proxy puts before them.
const sessionCookie = "polystalk-session"

// Login begins the session of a browser, which has no place to keep a token in.
func (s *Server) Login(c *Call) error {
	var in wire.Login
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	if s.sessions == nil {
		return wire.NotFound.With("", "the server has no tokens, so there are no sessions", "give --http-tokens-file")
	}
	id, g, ok := s.sessions.Begin(in.Token, time.Now())
	if !ok {
		return s.strangeToken(c)
	}
	http.SetCookie(c.W, c.cookie(id, int(access.SessionIdle/time.Second)))
	c.Grant = g
	return s.Whoami(c)
}

// Whoami says what who asks may do.
func (s *Server) Whoami(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	g := c.Grant
	return c.Answer(http.StatusOK, wire.Session{Name: g.Name, Role: g.Role.String(), Bodies: g.Sees(s.rules.Load().Bodies).String()})
}

// Logout ends the session that the request shows, if it shows one.
func (s *Server) Logout(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	if cookie, err := c.R.Cookie(sessionCookie); err == nil && s.sessions != nil {
		s.sessions.End(cookie.Value)
	}
	http.SetCookie(c.W, c.cookie("", -1))
	return c.Done()
}

func (c *Call) cookie(id string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: id, MaxAge: maxAge,
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteStrictMode,
	}
}
