package access

import (
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"
)

const (
	// SessionIdle is how long an unused session lasts.
	SessionIdle = 12 * time.Hour
	// sessionsMax bounds the sessions of one token, and so the memory of all sessions.
	sessionsMax = 100
)

// Sessions are the sessions of browsers, which send an id instead of the token. They are only in
// memory, so a restart ends them. All methods may be called concurrently.
type Sessions struct {
	identities *Identities

	mu   sync.Mutex
	open map[digest]*session // by the digest of the id, so that the time of a look-up reveals nothing
}

type session struct {
	by   *Credential // of the token that began the session
	used time.Time
}

// NewSessions returns an empty set of sessions for the holders of tokens.
func NewSessions(t *Identities) *Sessions {
	return &Sessions{identities: t, open: make(map[digest]*session)}
}

// Begin begins a session for the holder of a token. If the token has sessionsMax sessions, the
// session that was idle for longest ends. It returns a nil credential for an unknown token.
func (s *Sessions) Begin(token string, now time.Time) (id string, c *Credential) {
	if c = s.identities.Token(token); c == nil {
		return "", nil
	}
	var b [32]byte
	rand.Read(b[:]) // never fails
	id = base64.RawURLEncoding.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(c, now)
	s.open[DigestOf(id)] = &session{by: c, used: now}
	return id, c
}

// makeRoom makes room for another session of a token. It also ends all sessions that were idle
// for too long. The caller must hold mu.
func (s *Sessions) makeRoom(by *Credential, now time.Time) {
	held := 0
	var oldest digest
	var used time.Time
	for d, v := range s.open {
		switch {
		case now.Sub(v.used) > SessionIdle:
			delete(s.open, d)
		case v.by == by:
			if held++; held == 1 || v.used.Before(used) {
				oldest, used = d, v.used
			}
		}
	}
	if held >= sessionsMax {
		delete(s.open, oldest)
	}
}

// Find returns the credential of a session; nil: there is no such session. The removal of a token
// ends its sessions.
func (s *Sessions) Find(id string, now time.Time) *Credential {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := DigestOf(id)
	v := s.open[d]
	if v == nil {
		return nil
	}
	if v.by.Identity() == nil || now.Sub(v.used) > SessionIdle {
		delete(s.open, d)
		return nil
	}
	v.used = now
	return v.by
}

// End ends a session, if there is one.
func (s *Sessions) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, DigestOf(id))
}
