package beanstalkd

// anchors puts one long-delayed job into each tube, so that the tubes exist,
// and returns the jobs' ids.
func (c *conn) anchors(n int, tube func(i int) string) ([]uint64, error) {
	ids := make([]uint64, 0, n)
	const some = 128
	for i := 0; i < n; i += some {
		m := min(n, i+some)
		for j := i; j < m; j++ {
			c.named("use", tube(j))
			c.putBody(jobPri, anchorIn, uint64(j))
		}
		if err := c.Flush(); err != nil {
			return ids, err
		}
		for range m - i {
			r, err := c.read()
			if err == nil {
				err = c.expect("use", kindUsing, r)
			}
			if err != nil {
				return ids, err
			}
			if r, err = c.read(); err == nil {
				err = c.expect("put", kindInserted, r)
			}
			if err != nil {
				return ids, err
			}
			ids = append(ids, r.num)
		}
	}
	return ids, nil
}
