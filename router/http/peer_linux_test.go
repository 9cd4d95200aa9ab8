package http

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// asUser runs f on a thread with an effective user.
func asUser(uid int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	keep := ^uintptr(0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(uid), keep)
	defer syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(os.Getuid()), keep)
	f()
}

// TestUsersOfAUnixSocket: root and the server's own user are admin, and the audit names them. Other
// users, and clients behind a proxy, have the role of requests without a token.
func TestUsersOfAUnixSocket(t *testing.T) {
	w := newWorld(t, setup{anonymous: "read"})
	dir, err := os.MkdirTemp("", "ps") // short enough for a socket
	noErr(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	noErr(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	noErr(t, err)
	noErr(t, os.Chmod(path, 0o777))
	go func() { _ = w.web.Serve(l, Door{Anonymous: "read"}) }()
	w.url = "http://localhost"
	from := func(uid int) {
		w.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (c net.Conn, err error) {
			asUser(uid, func() { c, err = net.Dial("unix", path) })
			return c, err
		}}
	}
	from(os.Getuid())
	w.do("PUT", "/api/v1/drain", ask{}).wants(t, 200, "")
	w.do("GET", "/api/v1/audit", ask{}).wants(t, 200, "").has(t, fmt.Sprintf(`"name":"uid %d"`, os.Getuid()))
	for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
		w.do("PUT", "/api/v1/drain", ask{header: map[string]string{header: ""}}).wants(t, 403, "not-permitted")
	}
	w.do("PUT", "/api/v1/drain", ask{token: readToken}).wants(t, 403, "not-permitted") // the token counts
	w.do("PUT", "/api/v1/drain", ask{token: "wrong"}).wants(t, 401, "no-token")
	if os.Getuid() != 0 {
		t.Skip("only root can act as another user")
	}
	from(65534)
	w.do("PUT", "/api/v1/drain", ask{}).wants(t, 403, "not-permitted")
	w.do("GET", "/api/v1/server", ask{}).wants(t, 200, "")

	// Only the access file gives rights to a user, except where the server itself gives them.
	w.reload(accessText() + "[identity.nobody]\nusers = [\"65534\"]\nserver = \"read\"\n")
	path += "2"
	l, err = net.Listen("unix", path)
	noErr(t, err)
	noErr(t, os.Chmod(path, 0o777))
	go func() { _ = w.web.Serve(l, Door{}) }()
	w.do("GET", "/api/v1/session", ask{}).wants(t, 200, "").has(t, `"name":"nobody"`, `"method":"user"`)
	w.do("GET", "/api/v1/server", ask{}).wants(t, 200, "")
	w.do("GET", "/api/v1/server", ask{header: map[string]string{"X-Forwarded-For": ""}}).wants(t, 401, "no-token")
	from(0)
	w.do("GET", "/api/v1/server", ask{}).wants(t, 401, "no-token")
	path += "3"
	l, err = net.Listen("unix", path)
	noErr(t, err)
	go func() { _ = w.web.Serve(l, Door{Anonymous: "admin"}) }()
	w.do("GET", "/api/v1/session", ask{}).wants(t, 200, "").has(t, `"name":"uid 0"`, `"role":"admin"`)
}
