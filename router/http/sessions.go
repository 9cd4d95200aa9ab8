package http

import (
	"net/http"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// newCookieName makes the name of a server's cookie. Browsers send a cookie to all ports of a host,
// so servers with one name would overwrite each other's. The name is new with each process, as
// sessions are.
func newCookieName() string { return "polystalk-session-" + newID() }

// Login begins the session of a browser, which has no place to keep a token in.
func (s *server) Login(c *Call) error {
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
	http.SetCookie(c.W, s.cookieOf(c, id, int(access.SessionIdle/time.Second)))
	c.Grant = g
	return s.Whoami(c)
}

// Whoami says what who asks may do.
func (s *server) Whoami(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	g := c.Grant
	return c.Answer(http.StatusOK, wire.Session{Name: g.Name, Role: g.Role.String(), Bodies: g.Sees(s.rules.Load().Bodies).String()})
}

// Logout ends the session that the request shows, if it shows one.
func (s *server) Logout(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	if cookie, err := c.R.Cookie(s.cookie); err == nil && s.sessions != nil {
		s.sessions.End(cookie.Value)
	}
	http.SetCookie(c.W, s.cookieOf(c, "", -1))
	return c.Done()
}

// cookieOf makes a cookie. It has no Path, so the browser sends it to the API alone, behind whatever
// prefix a proxy puts before the paths.
func (s *server) cookieOf(c *Call, id string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: s.cookie, Value: id, MaxAge: maxAge,
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteStrictMode,
	}
}
