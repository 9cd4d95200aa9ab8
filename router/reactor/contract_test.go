package reactor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// testCertificate is a certificate for servers that no client trusts.
var testCertificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

func testConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{testCertificate()}, DynamicRecordSizingDisabled: true}
}

// securePair returns both ends of a TLS connection after its handshake. Records wait in their links.
func securePair(t testing.TB, version uint16) (client, server *secure) {
	t.Helper()
	a, b := net.Pipe()
	config := testConfig()
	config.SessionTicketsDisabled = true
	client, server = &secure{link: link{Conn: a}}, &secure{link: link{Conn: b}}
	client.Conn = tls.Client(&client.link, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
	server.Conn = tls.Server(&server.link, config)
	done := make(chan error, 1)
	go func() { done <- client.Conn.Handshake() }()
	if err := errors.Join(server.Conn.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	client.link.Conn, server.link.Conn = nil, nil
	return client, server
}

// receive gives s received records, and appends the plaintext to dst.
func (s *secure) receive(dst, records []byte) ([]byte, error) {
	s.link.in = records
	for {
		b := make([]byte, 20_000)
		n, err := s.Read(b)
		dst = append(dst, b[:n]...)
		if err != nil {
			return dst, err
		}
	}
}

// records returns the records that carry text, written in pieces of random sizes.
func (s *secure) records(t testing.TB, rng *rand.Rand, text []byte) []byte {
	t.Helper()
	s.link.out = nil
	for len(text) > 0 {
		n := min(len(text), 1+rng.IntN(40_000))
		if _, err := s.Write(text[:n]); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	return s.link.out
}

func randomText(rng *rand.Rand, n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	return text
}

var tlsVersions = []uint16{tls.VersionTLS12, tls.VersionTLS13}

// TestContractOfTLS: package tls continues after the error of a deadline, wherever it interrupts the
// records. The server depends on it. If a version of Go breaks this, one goroutine per direction
// can copy between each client and a socket pair, as package forward does.
func TestContractOfTLS(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, version := range tlsVersions {
		for _, most := range []int{1, 7, 100, 5_000, 70_000} {
			client, server := securePair(t, version)
			text := randomText(rng, min(most*20_000, 128<<10+rng.IntN(900_000)))
			for _, way := range []struct{ from, to *secure }{{client, server}, {server, client}} {
				records := way.from.records(t, rng, text)
				var got []byte
				for len(records) > 0 {
					n := min(len(records), 1+rng.IntN(most))
					var err error
					if got, err = way.to.receive(got, records[:n]); err != errNoInput {
						t.Fatalf("%#x, pieces of %d: %v", version, most, err)
					}
					if len(way.to.link.in) > 0 {
						t.Fatal("input is left")
					}
					records = records[n:]
				}
				if !bytes.Equal(got, text) {
					t.Fatalf("%#x, pieces of %d: %d bytes arrived of %d, or others", version, most, len(got), len(text))
				}
			}
			for _, way := range []struct{ from, to *secure }{{client, server}, {server, client}} {
				way.from.link.out = nil
				way.from.CloseWrite()
				for range 2 {
					if _, err := way.to.receive(nil, way.from.link.out); err != io.EOF {
						t.Errorf("%#x: close_notify is reported as %v", version, err)
					}
				}
			}
		}
	}
}

// TestCorruptedRecordsEndTheConnection: nothing is read after the first changed byte.
func TestCorruptedRecordsEndTheConnection(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		corrupted(t, tlsVersions[i%2], rng)
	}
}

func corrupted(t testing.TB, version uint16, rng *rand.Rand) {
	t.Helper()
	client, server := securePair(t, version)
	text := randomText(rng, 1+rng.IntN(100_000))
	records := client.records(t, rng, text)
	at := rng.IntN(len(records))
	records[at] ^= 1 << rng.IntN(8)
	whole := bytes.Clone(records)
	var got []byte
	err := error(errNoInput)
	for most := []int{1, 100, 70_000}[rng.IntN(3)] + 20; len(records) > 0 && err == errNoInput; {
		n := min(len(records), 1+rng.IntN(most))
		got, err = server.receive(got, records[:n])
		records = records[n:]
	}
	if !bytes.HasPrefix(text, got) || len(got) > at {
		t.Fatalf("%#x: %d bytes were read, byte %d was changed", version, len(got), at)
	}
	if err == errNoInput { // the length was changed: more is expected
		if got, err = server.receive(got, whole); err == errNoInput || len(got) > at {
			t.Fatalf("%#x: %d bytes were read, then %v", version, len(got), err)
		}
	}
	more, again := server.receive(nil, client.records(t, rng, text))
	if len(more) > 0 || again == errNoInput {
		t.Fatalf("%#x: after %v: %d bytes, %v", version, err, len(more), again)
	}
}

// FuzzRecords gives a server records in any pieces, with any changes.
func FuzzRecords(f *testing.F) {
	f.Add(uint64(1), uint16(1), uint32(5), byte(1))
	f.Add(uint64(2), uint16(70), uint32(90_000), byte(0))
	f.Fuzz(func(t *testing.T, seed uint64, most uint16, at uint32, change byte) {
		rng := rand.New(rand.NewPCG(seed, 0))
		client, server := securePair(t, tlsVersions[seed%2])
		text := randomText(rng, 1+rng.IntN(200_000))
		records := client.records(t, rng, text)
		i := int(at) % len(records)
		records[i] ^= change
		var got []byte
		err := error(errNoInput)
		for len(records) > 0 && err == errNoInput {
			n := min(len(records), 1+rng.IntN(int(most)+1))
			got, err = server.receive(got, records[:n])
			records = records[n:]
			if len(server.link.out) > restMax {
				t.Fatalf("%d bytes of records", len(server.link.out))
			}
		}
		if !bytes.HasPrefix(text, got) || change != 0 && len(got) > i || change == 0 && (err != errNoInput || len(got) != len(text)) {
			t.Fatal(fmt.Sprintf("%d bytes of %d, byte %d changed by %#x", len(got), len(text), i, change), err)
		}
	})
}
