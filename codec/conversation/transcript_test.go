package conversation

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the installed reference's replies into testdata/*.txt")

func reference(t *testing.T) (string, bool) {
	t.Helper()
	program, unquoted, err := Reference()
	if err != nil {
		t.Skip(err)
	}
	return program, unquoted
}

// TestReferenceTranscripts keeps the files honest: they say what the installed
// reference says.
func TestReferenceTranscripts(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, unquoted := reference(t)
	if *rewrite && unquoted {
		t.Fatal("-rewrite needs beanstalkd 1.13 or later; name one in BEANSTALKD")
	}
	all, err := Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range all {
		if tr.SimOnly || tr.OursOnly || tr.Needs113 && unquoted {
			continue
		}
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			if *rewrite {
				rewriteFile(t, program, tr)
				return
			}
			// The reference forgets to end a reservation when it looks at
			// it in the very microsecond of its deadline, and as it spins
			// through the last millisecond that is not rare.
			tries := 1
			if tr.Sleeps() {
				tries = 6
			}
			var err error
			for range tries {
				if err = playFile(t, program, tr, Options{Unquoted: unquoted}); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

func playFile(t *testing.T, program string, tr *Transcript, o Options) error {
	t.Helper()
	s, err := StartServer(program, tr.Flags...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	d := &NetDriver{Network: "tcp", Address: s.Address, Signal: s.Drain}
	defer d.Shutdown()
	return Play(tr, d, o)
}

func rewriteFile(t *testing.T, program string, tr *Transcript) {
	t.Helper()
	s, err := StartServer(program, tr.Flags...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	d := &NetDriver{Network: "tcp", Address: s.Address, Signal: s.Drain}
	defer d.Shutdown()
	text, err := Rewrite(tr, d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", tr.Name+".txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
