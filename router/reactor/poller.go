package reactor

import (
	"fmt"
	"reflect"
)

// pollerOf is the descriptor of the poller (epoll, kqueue) of el, a gnet.EventLoop. gnet
// has no method for it; it is read by the names of the fields, so that another gnet is
// refused at the start.
func pollerOf(el any) (int, error) {
	if v := reflect.ValueOf(el); v.Kind() == reflect.Pointer {
		if p := v.Elem().FieldByName("poller"); p.Kind() == reflect.Pointer {
			if fd := p.Elem().FieldByName("fd"); fd.Kind() == reflect.Int {
				return int(fd.Int()), nil
			}
		}
	}
	return 0, fmt.Errorf("a gnet event loop of type %T is not the known one", el)
}
