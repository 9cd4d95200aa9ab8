package forward

import (
	"bytes"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

var someHeaders = []header{
	{"beanstalkd", Client{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1).To4(), Port: 1234}}},
	{"Gearman", Client{&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 1}, true, "web:certificate"}},
	{"", Client{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 65535, Zone: "eth0"}, false, ":default"}},
	{strings.Repeat("p", textMax), Client{Addr: &net.UnixAddr{Net: "unix"}}},
	{strings.Repeat("p", textMax), Client{&net.UnixAddr{Net: "unix"}, true, strings.Repeat("i", textMax)}},
}

// Servers of older versions refuse a longer header.
func TestHeaderWithoutIdentityIsTheOldOne(t *testing.T) {
	h := header{"beanstalkd", Client{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1).To4(), Port: 1}, TLS: true}}
	if got, want := string(h.append(nil)), "\x18\x00\x01\x0abeanstalkd\x0b192.0.2.1:1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestHeadersSurviveTheWire(t *testing.T) {
	for _, h := range someHeaders {
		r := bytes.NewReader(append(h.append(nil), "the client's"...))
		got, err := readHeader(iotest.OneByteReader(r))
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("read %+v, %v, want %+v", got, err, h)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "the client's" {
			t.Errorf("%q is left, want all that is the client's", rest)
		}
	}
}

func TestMangledHeadersAreRefused(t *testing.T) {
	good := someHeaders[0].append(nil)
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	for name, b := range map[string][]byte{
		"nothing":                   nil,
		"half":                      good[:10],
		"a large size":              with(0, 0xff, 0xff),
		"no size":                   {0, 0},
		"a size beyond the address": append(with(0, good[0]+1), 'x'),
		"a network that is none":    with(2, 3),
		"a unix socket's address":   with(2, networkUnix),
		"a long protocol":           with(3, 255),
		"an address that is none":   with(15, 'x'),
		"TLS without an identity":   with(2, networkTCP|usesTLS),
		"an empty identity":         append(with(0, good[0]+1), 0),
		"half an identity":          append(with(0, good[0]+2), 2, 'x'),
		"a fourth text":             append(with(0, good[0]+3), 1, 'x', 0),
	} {
		if h, err := readHeader(bytes.NewReader(b)); err == nil {
			t.Errorf("%s: read %+v", name, h)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, h := range someHeaders {
		f.Add(h.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, err := readHeader(r)
		if used := len(b) - r.Len(); used > 2+headerMax {
			t.Fatalf("%d bytes were read of a header", used)
		}
		if err != nil {
			return
		}
		again, err := readHeader(bytes.NewReader(h.append(nil)))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v is read again as %+v, %v", h, again, err)
		}
	})
}
