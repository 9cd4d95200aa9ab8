package disk

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// HandSize is enough for the files that a Journal needs at a time, besides those that
// it has had open since it began: the next segment and one after that, one that is
// prepared, one that is read, the directory.
const HandSize = 6

// A hand holds descriptors that nobody else in the process can have, since its clients
// may have all others: without a file for the next segment nobody could write until they
// leave. One is closed right before a file is opened, and opened again once one is closed.
type hand struct {
	mu    sync.Mutex
	most  int
	files []*os.File
}

// fill takes up what is missing, as far as there are any.
func (h *hand) fill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.files) < h.most {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		h.files = append(h.files, f)
	}
}

// lend gives one up. It reports false when there is none.
func (h *hand) lend() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.files) - 1
	if n >= 0 {
		h.files[n].Close()
		h.files = h.files[:n]
	}
	return n >= 0
}

// short reports whether some are missing.
func (h *hand) short() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.files) < h.most
}

// hold sets how many there are to be.
func (h *hand) hold(n int) {
	h.mu.Lock()
	h.most = n
	h.mu.Unlock()
	for n == 0 && h.lend() {
	}
	h.fill()
}

// A Handed is a Disk whose files can be opened as long as its hand has descriptors. Its fields
// are set before it is used.
type Handed struct {
	Disk
	hand hand
}

// Hold sets how many descriptors are to be in hand; with zero those that are there are given up.
func (d *Handed) Hold(n int) { d.hand.hold(n) }

// Short reports whether some are missing in hand.
func (d *Handed) Short() bool { return d.hand.short() }

// Fill takes up those that are missing, as far as there are any.
func (d *Handed) Fill() { d.hand.fill() }

// Create implements Disk.
func (d *Handed) Create(name string) (File, error) { return d.open(name, d.Disk.Create) }

// Open implements Disk.
func (d *Handed) Open(name string) (File, error) { return d.open(name, d.Disk.Open) }

func (d *Handed) open(name string, open func(string) (File, error)) (File, error) {
	f, err := open(name)
	for NoDescriptor(err) && d.hand.lend() {
		f, err = open(name) // somebody else may have been quicker
	}
	if err != nil {
		d.hand.fill()
		return nil, err
	}
	return &handFile{f, &d.hand}, nil
}

// Sync implements Disk: it may have to open the directory.
func (d *Handed) Sync() error {
	err := d.Disk.Sync()
	lent := false
	for NoDescriptor(err) && d.hand.lend() {
		lent = true
		err = d.Disk.Sync()
	}
	if lent {
		d.hand.fill()
	}
	return err
}

// handFile is one of its files.
type handFile struct {
	File
	hand *hand
}

// Close implements File.
func (f *handFile) Close() error {
	err := f.File.Close()
	if f.hand.short() {
		f.hand.fill()
	}
	return err
}

// NoDescriptor reports whether a file could not be opened for want of a descriptor.
func NoDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// CopyOnWrite implements CopyOnWriter.
func (f *handFile) CopyOnWrite() string {
	if c, ok := f.File.(CopyOnWriter); ok {
		return c.CopyOnWrite()
	}
	return ""
}
