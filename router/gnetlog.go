package router

import (
	"fmt"
	"log/slog"
)

// gnetLog passes gnet's log on. Its debug and info lines are about its own
// inside, so they are debug here.
type gnetLog struct{ log *slog.Logger }

func (g gnetLog) Debugf(f string, a ...any) { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Infof(f string, a ...any)  { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Warnf(f string, a ...any)  { g.log.Warn("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Errorf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Fatalf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }
