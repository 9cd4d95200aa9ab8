package core

// Large is a body above slab.MaxSize, in pieces, so that a gigabyte is neither
// allocated nor copied in one go. It never changes once it is part of a job:
// replies and slow readers share it, and it outlives the job for them.
type Large [][]byte

// Len is the number of bytes.
func (l Large) Len() (n int) {
	for _, p := range l {
		n += len(p)
	}
	return n
}

// Append appends the bytes to dst.
func (l Large) Append(dst []byte) []byte {
	for _, p := range l {
		dst = append(dst, p...)
	}
	return dst
}
