//go:build !linux

package main

import "errors"

var errNoDisk = errors.New("nodes have disks of their own on Linux only")

func mount(string, string) error { return errNoDisk }
func unmount(string) error       { return errNoDisk }
func (n *node) fillDisk() error  { return errNoDisk }
func (n *node) freeDisk() error  { return errNoDisk }
