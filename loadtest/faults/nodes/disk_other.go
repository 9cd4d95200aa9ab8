//go:build !linux

package nodes

import "errors"

var errNoDisk = errors.New("nodes have disks of their own on Linux alone")

func mount(string, string) error { return errNoDisk }
func unmount(string) error       { return errNoDisk }

// Fill leaves nothing free on n's disk.
func (n *Node) Fill() error { return errNoDisk }

// Drain gives back what Fill has taken.
func (n *Node) Drain() error { return errNoDisk }
