package client

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRepliesOfImpossibleSizesFail(t *testing.T) {
	const good = "USING default\r\nOK 10\r\nOK -5\r\nabc\r\nFOUND 1 3\r\nOK \r\nNOT_FOUND\r\nRESERVED 18446744073709551615 0\r\n\r\nKICKED 99999999999999\r\n"
	for _, text := range []string{good, good + "FOUND 1 1073741824\r\n", good + "OK 65536\r\n", "OK\r\n", ""} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := io.ReadAll(&replyReader{r: r, more: func() error { return nil }}); err != nil || string(got) != text {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		}
	}
	for _, text := range []string{
		good + "OK -1\r\n", good + "FOUND 1 1073741825\r\n", good + "OK 65537\r\n", "OK 99999999999999999999\r\n", "FOUND 1 x\r\n", "FOUND -3\r\n", "RESERVED 1 -9\n", strings.Repeat("x", 2000),
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if _, err := io.ReadAll(&replyReader{r: r, more: func() error { return nil }}); err == nil {
				t.Errorf("%.60q is accepted", text)
			}
		}
	}
}
