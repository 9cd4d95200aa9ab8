package exchange

import (
	"fmt"
	"slices"
	"strings"

	"polystalk/shard/wal"
)

// The names of the marker.
const (
	begun   = "exchange.begun"
	cleared = "exchange.cleared"
)

// ours is the prefix of the file names of a directory's journal, and theirs of the new journal.
// The rest of a name is the same in both.
const (
	ours   = "journal."
	theirs = "incoming."
)

// A Found is what Resume found, for the log.
type Found uint8

// What Resume finds.
const (
	Nothing   Found = iota // no exchange was in progress
	Leftover               // an incomplete new journal; it is removed
	Exchanged              // an exchange in progress; it is finished
)

// Resume finishes an exchange that had begun when the process ended. If none had begun, it removes
// the files of a new journal. After an error the journal must not be used; the next Resume
// continues.
//
// Resume begins with a sync of the directory, since visible names need not be durable: otherwise
// a removed marker could come back with a power cut much later.
func Resume(d wal.Disk) (Found, error) {
	if err := d.Sync(); err != nil {
		return Nothing, err
	}
	names, err := d.List()
	if err != nil {
		return Nothing, err
	}
	switch {
	case slices.Contains(names, cleared):
		err = bring(d)
	case slices.Contains(names, begun):
		err = run(d)
	default:
		n, err := removeAll(d, theirs)
		if err != nil {
			return Nothing, fmt.Errorf("removing an incomplete new journal: %w", err)
		}
		if n == 0 {
			return Nothing, nil
		}
		return Leftover, nil
	}
	if err != nil {
		return Nothing, fmt.Errorf("finishing the replacement of the journal by another: %w", err)
	}
	return Exchanged, nil
}

// Begin replaces the journal of d, which must not be open, by the staged one, which must be
// complete. If the disk has no room for the marker, nothing has changed; after any other error
// only Resume may continue.
func Begin(d wal.Disk) error {
	// The names of the new journal are durable before the marker says that it is complete.
	if err := d.Sync(); err != nil {
		return err
	}
	if err := mark(d); err != nil {
		return fmt.Errorf("starting the replacement of the journal by another: %w", err)
	}
	if err := run(d); err != nil {
		return fmt.Errorf("replacing the journal by another: %w", err)
	}
	return nil
}

// mark makes the marker, and makes it durable.
func mark(d wal.Disk) error {
	f, err := d.Create(begun)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return d.Sync()
}

// run does an exchange from its beginning. Steps that were done before make no difference.
func run(d wal.Disk) error {
	if _, err := removeAll(d, ours); err != nil {
		return err
	}
	// The note of an earlier exchange is about the old journal.
	if err := DropNote(d); err != nil {
		return err
	}
	if err := d.Rename(begun, cleared); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	return bring(d)
}

// bring gives the files of the new journal their names, and removes the marker.
func bring(d wal.Disk) error {
	names, err := named(d, theirs)
	if err != nil {
		return err
	}
	for _, name := range names {
		to := ours + strings.TrimPrefix(name, theirs)
		if name == stagedNote {
			to = note
		}
		if err := d.Rename(name, to); err != nil {
			return err
		}
	}
	if err := d.Sync(); err != nil {
		return err
	}
	// Both names of the marker can exist only if a rename is not atomic.
	for _, name := range []string{begun, cleared} {
		if err := remove(d, name); err != nil {
			return err
		}
	}
	return d.Sync()
}

// removeAll removes the files of one of the two journals, syncs the directory, and returns how
// many there were.
func removeAll(d wal.Disk, prefix string) (n int, err error) {
	names, err := named(d, prefix)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	for _, name := range names {
		if err := remove(d, name); err != nil {
			return 0, err
		}
	}
	return len(names), d.Sync()
}

// named returns the files of one of the two journals, in order: its prefix and a number, perhaps
// with .tmp, and for the new journal the note. Other files may belong to an operator.
func named(d wal.Disk, prefix string) ([]string, error) {
	all, err := d.List()
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(name string) bool {
		if name == stagedNote {
			return prefix != theirs
		}
		number, ok := strings.CutPrefix(name, prefix)
		number = strings.TrimSuffix(number, ".tmp")
		return !ok || number == "" || strings.Trim(number, "0123456789") != ""
	})
	slices.Sort(names)
	return names, nil
}
