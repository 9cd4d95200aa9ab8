package reactor

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A keyUpdater makes records of a client, also those that ask for new keys: package tls sends none.
type keyUpdater struct {
	secret, iv []byte
	sealer     cipher.AEAD
	sent       byte // records with this key
}

// expand is HKDF-Expand-Label of RFC 8446.
func (u *keyUpdater) expand(t *testing.T, label string, n int) []byte {
	t.Helper()
	label = "tls13 " + label
	b, err := hkdf.Expand(sha256.New, u.secret, string([]byte{0, byte(n), byte(len(label))})+label+"\x00", n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// use begins to use a secret.
func (u *keyUpdater) use(t *testing.T, secret []byte) {
	t.Helper()
	u.secret, u.sent = secret, 0
	u.iv = u.expand(t, "iv", 12)
	block, err := aes.NewCipher(u.expand(t, "key", 16))
	if err == nil {
		u.sealer, err = cipher.NewGCM(block)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The types of records.
const (
	isHandshake = 22
	isData      = 23
)

// append appends a record to b.
func (u *keyUpdater) append(b []byte, kind byte, text ...byte) []byte {
	header := []byte{isData, 3, 3, 0, byte(len(text) + 1 + u.sealer.Overhead())}
	nonce := bytes.Clone(u.iv)
	nonce[len(nonce)-1] ^= u.sent
	u.sent++
	return u.sealer.Seal(append(b, header...), nonce, append(text, kind), header)
}

// TestUnreadAnswersToRequestsForNewKeysAreBounded: package tls answers each request at once, while the
// session has no output that could pause it. A byte of a body between the requests keeps package tls
// from ending the connection after 16 of them.
func TestUnreadAnswersToRequestsForNewKeysAreBounded(t *testing.T) {
	small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10) })
	}}
	l, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveSecure(t, newReactor(t, Options{Loops: 1}), l, testConfig)
	nc := s.dial(t)
	var log strings.Builder
	c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &log})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if suite := c.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("the processor has no instructions for AES: ", tls.CipherSuiteName(suite))
	}
	_, line, _ := strings.Cut(log.String(), "CLIENT_TRAFFIC_SECRET_0 ")
	line, _, _ = strings.Cut(line, "\n")
	secret, err := hex.DecodeString(line[strings.IndexByte(line, ' ')+1:])
	if err != nil {
		t.Fatal(err)
	}
	u := new(keyUpdater)
	u.use(t, secret)
	for err == nil {
		b := u.append(nil, isData, '?')
		for range 16 {
			b = u.append(b, isHandshake, 24, 0, 0, 1, 1) // key_update, update_requested
			u.use(t, u.expand(t, "traffic upd", sha256.Size))
		}
		_, err = nc.Write(b)
		if n := s.host.Account.Sum(); n > 1<<20 {
			t.Fatalf("the server keeps %d bytes", n)
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection goes on")
	}
	eventually(t, func() bool { open, behind := s.Connections(); return open == 0 && behind == 0 })
	s.stop(t)
}
