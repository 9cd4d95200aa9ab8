package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/config"
)

// TestCertificateIsNotWaitedFor: a pipe without a writer must not block a reload, and with it
// SIGTERM, forever.
func TestCertificateIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	c := &config.Config{}
	c.HTTP.Cert, c.HTTP.Key = pipe, pipe
	if _, err := openCertificate(c); err == nil || !strings.Contains(err.Error(), "give two files in PEM") {
		t.Errorf("%v", err)
	}
}
