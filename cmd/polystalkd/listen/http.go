package listen

import (
	"log/slog"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// listenHTTP opens the addresses of HTTP, unless the service manager has passed sockets for
// them. It refuses addresses that other machines can reach if neither tokens nor anonymous
// access are configured.
func (s *Sockets) listenHTTP(c *config.Config, opened opened, owners []int, log *slog.Logger) error {
	if len(s.HTTP) > 0 {
		for _, l := range s.HTTP {
			if err := c.CheckExposed(l.Addr(), "FileDescriptorName="+namedHTTP, l.Addr().String()); err != nil {
				return err
			}
		}
		return nil
	}
	for _, a := range c.HTTP.Addresses {
		if a.Path != "" {
			l, file, err := listenUnix(a.Path, owners)
			if err != nil {
				return fault.New(fault.System, "%s: %q: %v", a.From, a.Given, err)
			}
			s.HTTP = append(s.HTTP, l)
			s.files = append(s.files, file)
			continue
		}
		ls, err := opened.listen(&tcpConfig, a)
		s.HTTP = append(s.HTTP, ls...)
		if err != nil {
			return err
		}
		for _, l := range ls { // a name may resolve to any address
			if err := c.CheckExposed(l.Addr(), a.From, a.Given); err != nil {
				return err
			}
		}
	}
	return nil
}
