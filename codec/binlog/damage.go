package binlog

import "fmt"

// A damage is a place where a file does not hold what beanstalkd writes. As an
// error it is what ended the reading.
type damage struct {
	Path   string
	Offset int64 // of the record, in bytes from the start of the file
	Reason string
	// Torn: the file ends here in a record half written, with nothing but zeros
	// after it: a server was killed within a put that it had not answered. No
	// error; reading goes on with the next file.
	Torn bool
	// Skipped is how many bytes were passed over before a record was found
	// again, or the end of the file.
	Skipped int64
}

func (d damage) Error() string {
	return fmt.Sprintf("%s: offset %d: %s", d.Path, d.Offset, d.Reason)
}
