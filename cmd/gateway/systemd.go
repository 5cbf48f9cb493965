package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"hilgate/cmd/gateway/internal/app"
)

// supervise tells systemd, if it asks, that the gateway is up, that it lives, and that it stops. It lives
// while the store publishes: a gateway that hangs is killed and started again, and the controllers' own
// timeouts stop the motors meanwhile.
func supervise(ctx context.Context, g *app.Gateway, log *slog.Logger) {
	notify := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("systemd does not listen", "err", err)
		}
	}
	select {
	case <-g.Changed(): // the store runs
	case <-ctx.Done():
		return
	}
	notify(daemon.SdNotifyReady)
	defer notify(daemon.SdNotifyStopping)
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if g.Healthy() == nil {
				notify(daemon.SdNotifyWatchdog)
			}
		}
	}
}
