package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// ErrSilent is the error of a connection that was accepted and never answered with a greeting.
var ErrSilent = errors.New("it does not answer as a server of a cluster")

// Greet reports which server listens at an address. It needs no certificate: a server with TLS
// answers a plaintext greeting with a refusal, which names the server. The answer is not
// authenticated. ctx needs a deadline.
func Greet(ctx context.Context, addr string, from Identity) (Identity, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return Identity{}, err
	}
	if err := notItself(c); err != nil {
		return Identity{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	hello := greeting{kind: Admin, from: from}
	if _, err := c.Write(hello.append(nil)); err != nil {
		return Identity{}, ErrSilent
	}
	g, err := readGreeting(c)
	if _, foreign := errors.AsType[*foreignError](err); err != nil && !foreign {
		err = ErrSilent
	}
	return g.from, err
}

// explainPort finds out what listens at an address that accepted a connection and did not answer as
// a server. It returns err if it cannot tell. Clients' ports and HTTP answer an empty line, each in
// its own way.
func explainPort(ctx context.Context, addr string, err error) error {
	if _, foreign := errors.AsType[*foreignError](err); !foreign && !errors.Is(err, ErrSilent) && !errors.Is(err, errUnshown) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, failed := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if failed != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var b [16]byte
	fmt.Fprint(c, "\r\n\r\n")
	n, _ := io.ReadAtLeast(c, b[:], len("HTTP/"))
	for prefix, kind := range map[string]string{
		"HTTP/": "HTTP", "UNKNOWN_COMMAND": "beanstalkd's clients", "ERR ": "Gearman's clients",
	} {
		if strings.HasPrefix(string(b[:n]), prefix) {
			return fmt.Errorf("%s is a port for %s: give the address of --cluster-listen of a server of the cluster", addr, kind)
		}
	}
	return err
}
