package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var someGreetings = []greeting{
	{kind: Raft, from: Identity{1, 2, "a"}, to: 3, addr: "127.0.0.1:1"},
	{kind: Admin, from: Identity{0, ^uint64(0), strings.Repeat("n", nameMax)}, addr: "[::1]:11400"},
	{kind: Forward, from: Identity{1, 2, ""}, reason: "because of ü"},
	{},
}

func TestLongTextsAreCutBetweenCharacters(t *testing.T) {
	g := greeting{reason: strings.Repeat("ü", textMax)}
	got, err := readGreeting(bytes.NewReader(g.append(nil)))
	if want := strings.Repeat("ü", textMax/2); err != nil || got.reason != want {
		t.Errorf("read %q, %v, want %q", got.reason, err, want)
	}
}

func TestMangledGreetingsAreRefused(t *testing.T) {
	good := someGreetings[0].append(nil)
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "EOF"},
		{"half a head", good[:5], "unexpected EOF"},
		{"half a body", good[:20], "unexpected EOF"},
		{"another magic", with(0, 'x'), "not a server of a cluster"},
		{"a browser", []byte("GET / HTTP/1.1\r\n\r\n"), `"GET / HT"`},
		{"TLS", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0}, "it speaks TLS"},
		{"another version", with(8, 9), "version 9"},
		{"a large size", with(10, 0xff, 0xff), "mangled"},
		{"a small size", with(10, 10, 0)[:headSize+10], "mangled"},
		{"a name beyond the end", with(headSize+25, 200), "mangled"},
		{"bytes behind the last text", with(headSize+25, 0), "mangled"},
		{"no characters", with(headSize+26, 0xff), "mangled"},
	} {
		if g, err := readGreeting(bytes.NewReader(tt.b)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: read %+v, %v, want an error with %q", tt.name, g, err, tt.want)
		}
	}
}

func FuzzGreeting(f *testing.F) {
	for _, g := range someGreetings {
		f.Add(append(g.append(nil), "behind it"...))
		if got, err := readGreeting(bytes.NewReader(g.append(nil))); err != nil || got != g {
			f.Errorf("read %+v, %v, want %+v", got, err, g)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		g, err := readGreeting(iotest.OneByteReader(r))
		used := len(b) - r.Len()
		if used > headSize+greetingMax {
			t.Fatalf("%d bytes were read of a greeting", used)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(g.append(nil), b[:used]) {
			t.Fatalf("%q was read as %+v, which is written %q", b[:used], g, g.append(nil))
		}
	})
}

// A stingy reader records the largest read beyond its remaining bytes.
type stingy struct {
	r     io.Reader
	given int
	worst int
}

func (s *stingy) Read(p []byte) (int, error) {
	s.worst = max(s.worst, len(p)-s.given)
	n, err := s.r.Read(p)
	s.given += n
	return n, err
}

func TestFramesThatAreNoneAreRefused(t *testing.T) {
	for _, head := range [][]byte{
		appendHead(nil, 0, 0),
		appendHead(nil, 4, 8),
		appendHead(nil, frameRoom, intSize-1),
		appendHead(nil, frameMessage, messageMax+1),
		appendHead(nil, frameMessage, 1<<32-1),
		appendHead(nil, frameClock, intSize+1),
		appendHead(nil, frameClock, 0),
	} {
		if _, _, err := readFrame(bytes.NewReader(append(head, make([]byte, 64)...))); err == nil {
			t.Errorf("a frame with the head %x was read", head)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(append(appendHead(nil, frameMessage, 5), "hello"...))
	f.Add(binary.LittleEndian.AppendUint64(appendHead(nil, frameClock, intSize), 1))
	f.Add(appendInt(nil, frameRoom, 1))
	for _, sent := range []int{0, 10, 5 * pieceMax} {
		f.Add(append(appendHead(nil, frameMessage, messageMax), make([]byte, sent)...))
	}
	for _, size := range []int{0, pieceMax - 1, pieceMax, pieceMax + 1, 3*pieceMax + 7} {
		f.Add(append(appendHead(nil, frameMessage, size), bytes.Repeat([]byte("x"), size)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		r := &stingy{r: bytes.NewReader(b)}
		for {
			kind, body, err := readFrame(r)
			if err != nil {
				if len(again) == 0 && len(b) >= frameHead && b[0] == frameMessage && len(b)-frameHead == int(binary.LittleEndian.Uint32(b[1:])) {
					t.Fatalf("a message of %d bytes: %v", len(b)-frameHead, err)
				}
				break
			}
			again = append(appendHead(again, kind, len(body)), body...)
			if !bytes.HasPrefix(b, again) {
				t.Fatalf("%q was read as %q", b, again)
			}
		}
		if r.worst > pieceMax {
			t.Fatalf("room for %d bytes that had not come", r.worst)
		}
	})
}
