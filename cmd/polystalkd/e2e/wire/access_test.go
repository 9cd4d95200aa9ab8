package wire

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// opsToken is the token of an identity that may do everything.
const opsToken = "a-token-of-the-operator"

// accessFlag writes an access file, and returns the flag that names it.
func accessFlag(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.toml")
	text += fmt.Sprintf("[identity.ops]\nrole = \"admin\"\ntokens = [\"sha256:%x\"]\n", sha256.Sum256([]byte(opsToken)))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--access-file", path}
}

// TestRefusedClientsGetErrors: after a refused put, watch or reserve each client library raises an
// error. None hangs, and no job is in another tube.
func TestRefusedClientsGetErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := daemon.Start(t, accessFlag(t, "[identity.default]\nput = [\"mine-*\"]\nwork = [\"mine-*\"]\n")...)
	host, port, _ := net.SplitHostPort(s.Address)
	runClients(t, []clientScript{
		{"ruby", "ruby", beaneaterProbe, "ruby and ruby-beaneater", "refused.rb", []string{s.Address}},
		{"php", "php", pheanstalkProbe, "php-cli and php-pda-pheanstalk", "refused.php", []string{host, port}},
		{"node", "node", jackdProbe, jackdInstall, "refused.js", []string{host, port}},
	})
	t.Run("go", func(t *testing.T) { goRefused(t, s.Address) })
	ops := daemon.Dial(t, s.Address)
	daemon.Says(t, ops, "auth "+opsToken+"\r\nlist-tubes\r\n", "AUTHENTICATED\r\nOK 14\r\n---\n- default\n\r\n")
}

// goRefused is a client of go-beanstalk, which does not wait for the reply to watch.
func goRefused(t *testing.T, address string) {
	dial := func() *beanstalk.Conn {
		t.Helper()
		nc, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(20 * time.Second)) // ends a test that hangs
		return beanstalk.NewConn(nc)
	}
	refused := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	c := dial()
	_, err := beanstalk.NewTube(c, "theirs").Put([]byte("put 0 0 60 1\r\nx\r\n"), 0, 0, time.Minute)
	refused("put", err, beanstalk.ErrUnknown)
	mine := beanstalk.NewTube(c, "mine-go")
	id, err := mine.Put([]byte("first"), 0, 0, time.Minute)
	refused("put of a permitted job", err, nil)
	_, err = mine.Kick(1)
	refused("kick", err, beanstalk.ErrUnknown)
	_, err = c.Stats()
	refused("stats", err, beanstalk.ErrUnknown)
	_, err = beanstalk.NewTube(c, "theirs").Stats()
	refused("stats-tube", err, beanstalk.ErrNotFound)
	_, _, err = c.Reserve(0)
	refused("reserve", err, beanstalk.ErrUnknown)
	_, _, err = beanstalk.NewTubeSet(c, "theirs", "mine-go").Reserve(time.Minute)
	refused("watch and reserve", err, beanstalk.ErrUnknown)

	c = dial()
	got, body, err := beanstalk.NewTubeSet(c, "mine-go").Reserve(10 * time.Second)
	if err != nil || got != id || string(body) != "first" {
		t.Errorf("reserve: %d, %q, %v", got, body, err)
	}
	refused("delete of a held job", c.Delete(id), nil)
}
