package slab

import "unsafe"

// smallPages has nothing to do: darwin does not merge pages behind our back.
func smallPages(unsafe.Pointer, int) {}
