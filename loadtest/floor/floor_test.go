package floor

import "testing"

func TestAnswer(t *testing.T) {
	h := &handler{reserved: []byte("RESERVED 1 2\r\nxx\r\n")}
	for _, c := range []struct {
		in, out string
		quit    bool
	}{
		{"put 1 0 60 3\r\nabc\r\n", "INSERTED 1\r\n", false},
		{"put 1 0 60 0\r\n\r\n", "INSERTED 1\r\n", false},
		{"put 1 0 60\r\n", "BAD_FORMAT\r\n", false},
		{"put 1 0 60 3 4\r\n", "BAD_FORMAT\r\n", false},
		{"put 1 0 60 x\r\n", "BAD_FORMAT\r\n", false},
		{"reserve\r\n", "RESERVED 1 2\r\nxx\r\n", false},
		{"reserve-with-timeout 0\r\n", "RESERVED 1 2\r\nxx\r\n", false},
		{"delete 1\r\n", "DELETED\r\n", false},
		{"delete x\r\n", "BAD_FORMAT\r\n", false},
		{"use a\r\n", "USING a\r\n", false},
		{"watch a\r\n", "WATCHING 1\r\n", false},
		{"ignore a\r\n", "WATCHING 1\r\n", false},
		{"stats\r\n", "UNKNOWN_COMMAND\r\n", false},
		{"quit\r\n", "", true},
	} {
		out, n, quit := h.answer(nil, []byte(c.in+"delete 2\r\n"))
		if string(out) != c.out || n != len(c.in) || quit != c.quit {
			t.Errorf("%q: %q, %d bytes of %d, quit %v", c.in, out, n, len(c.in), quit)
		}
		for cut := range len(c.in) {
			if out, n, _ := h.answer(nil, []byte(c.in[:cut])); n != 0 && string(out) != "BAD_FORMAT\r\n" || n == 0 && len(out) > 0 {
				t.Errorf("%q cut to %d bytes: %q, %d bytes", c.in, cut, out, n)
			}
		}
	}
}
