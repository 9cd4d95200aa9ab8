package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// startWatchdog notifies the service manager's watchdog twice in each interval (WATCHDOG_USEC),
// as long as alive returns nil. Without a notification the service manager restarts the process.
// Without an interval startWatchdog does nothing. stop waits until the notifications have ended.
func startWatchdog(alive func() error, log *slog.Logger) (stop func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is not served", "err", err)
	}
	if err != nil || interval <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { feedWatchdog(ctx, interval/2, alive, log) })
	return func() {
		cancel()
		done.Wait()
	}
}

// feedWatchdog notifies the watchdog until ctx ends.
func feedWatchdog(ctx context.Context, every time.Duration, alive func() error, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := alive()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			notify(daemon.SdNotifyWatchdog, log)
		default:
			log.Error("the server makes no progress, so the service manager's watchdog is not notified", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
