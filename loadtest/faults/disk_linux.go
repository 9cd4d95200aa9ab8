package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// mount mounts a disk in memory on a directory.
func mount(dir, size string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		return fmt.Errorf("a disk of %s for %s: %w: run it as root", size, dir, err)
	}
	return nil
}

// unmount removes the disk. It retries, because the process that used it may still be ending.
func unmount(dir string) (err error) {
	for range 100 {
		if err = syscall.Unmount(dir, 0); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// ballast is a file that fills a node's disk.
const ballast = "ballast"

// fillDisk uses up all free space on n's disk.
func (n *node) fillDisk() error {
	f, err := os.Create(filepath.Join(n.dir, ballast))
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size >= 4096; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

// freeDisk undoes fillDisk.
func (n *node) freeDisk() error { return os.Remove(filepath.Join(n.dir, ballast)) }
