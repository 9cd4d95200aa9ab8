package journal

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

var verifyCommand = Command{
	Use:   "verify DIR",
	Short: "check a whole journal for damage", Reads: true,
	Long: `Reads and checks every byte. Each damage is a line with its file and offset; the search
continues after it. A torn end is not damage: the server ended during a write that it had not
acknowledged, and a start cuts the end off.`,
	New: func(*pflag.FlagSet) func([]string, io.Writer) error { return verify },
}

func verify(args []string, out io.Writer) error {
	s, err := openSource(args[0])
	if err != nil {
		return err
	}
	defer s.close()
	v, err := s.journal()
	if err != nil {
		return err
	}
	s.writeLosses(out)
	s.writeTorn(out, "a start cuts it off")
	if err := s.damaged(s.salvageAdvice()); err != nil {
		return err
	}
	fmt.Fprintf(out, "whole: %s, %s\n", counted(len(v.Segments), "segment", "segments"), counted(v.Batches, "batch", "batches"))
	return nil
}
