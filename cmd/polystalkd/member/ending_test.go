package member

import (
	"strings"
	"testing"
	"time"

	"polystalk/router/cluster/transport"
)

// TestEndingIsToldInTime: within three weeks of the end once a day, from the start on, and once when
// it has come; of a certificate that is read in its place, anew.
func TestEndingIsToldInTime(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2026, 11, 22, 17, 57, 8, 0, time.UTC)
	first := transport.Ending{At: end, Flag: "cluster-cert", File: "a.crt"}
	next := transport.Ending{At: end.Add(10 * day), Flag: "cluster-ca", File: "ca.crt"}
	late := transport.Ending{At: end.Add(800 * day), Flag: "cluster-cert", File: "a.crt"}
	var w endingWatch
	for i, tt := range []struct {
		of   transport.Ending
		at   time.Duration // from the end of the first
		want string
	}{
		{first, -21*day - time.Second, ""},
		{first, -21 * day, endsSoon},
		{first, -20*day - time.Second, ""},
		{first, -20 * day, endsSoon},
		{first, -time.Second, endsSoon},
		{first, 0, hasEnded},
		{first, time.Second, ""},
		{first, 3 * day, ""},
		{next, 3 * day, endsSoon},
		{next, 3*day + time.Minute, ""},
		{late, 3*day + 2*time.Minute, ""},
		{first, 4 * day, hasEnded},
	} {
		if got := w.look(tt.of, end.Add(tt.at)); got != tt.want {
			t.Errorf("look %d: %q, want %q", i, got, tt.want)
		}
	}
}

// TestDisbelievedSaysWhatToDo once the certificate has ended, and nothing before.
func TestDisbelievedSaysWhatToDo(t *testing.T) {
	end := time.Date(2026, 11, 22, 17, 57, 8, 0, time.UTC)
	for flag, remedy := range map[string]string{"cluster-cert": "have the authority sign it again, then send SIGHUP", "cluster-ca": "give all servers another certificate"} {
		of := transport.Ending{At: end, Flag: flag, File: "f.crt"}
		if got := disbelieved(of, end.Add(-time.Second)); got != "" {
			t.Errorf("before its end: %q", got)
		}
		got := disbelieved(of, end)
		if want := "--" + flag + ` "f.crt" was valid until 2026-11-22 17:57:08 UTC`; !strings.HasPrefix(got, want) || !strings.Contains(got, remedy) {
			t.Errorf("at its end: %q, want %q and %q", got, want, remedy)
		}
	}
}
