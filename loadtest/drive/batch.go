package drive

// Batch sends n requests over k, at most depth of them in flight, and reads
// their replies. write appends request i to k.Out; check judges reply i. Every
// request is counted in l, with its latency from the time that l gave for it.
func Batch[R any](k *Link, l *Lane, n, depth int, write func(i int), read func() (R, error), check func(i int, r R) error) error {
	for i := 0; i < n; i += depth {
		m := min(n, i+depth)
		for j := i; j < m; j++ {
			write(j)
		}
		t, err := l.Begin(m - i)
		if err != nil {
			return err
		}
		if err := k.Ask(); err != nil {
			return err
		}
		for j := i; j < m; j++ {
			r, err := read()
			if err != nil {
				return err
			}
			if err := check(j, r); err != nil {
				return err
			}
			l.Answered(t, k.At)
		}
	}
	return nil
}
