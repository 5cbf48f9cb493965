package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"hilgate/model/link"
	"hilgate/model/permit"
)

const (
	standstill = 0.05                  // the velocity below which a joint rests, rad/s or m/s
	restEvery  = 20 * time.Millisecond // between two looks at whether they rest
)

// ErrMoving says that the joints were not seen to rest after they had been stopped.
var ErrMoving = errors.New("joints have not come to rest")

// Run ticks until ctx ends or the pacer has no more ticks, both of which are no error, or until the pacer
// fails. However it returns, also by a panic, it withholds the joints (permit.ShuttingDown), stops them,
// waits until they rest, but no longer than Config.StopWait, and closes the port. The error then says if a
// controller that had answered could not be stopped, or wraps ErrMoving. A loop runs once.
func (l *Loop) Run(ctx context.Context, pace Pacer) (err error) {
	defer func() { err = errors.Join(err, l.stop()) }()
	var first time.Time
	var origin time.Duration
	for {
		at, err := pace.Wait(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: waiting for the next tick: %w", l.config.Name, err)
		}
		if now := time.Now(); first.IsZero() {
			first, origin = now, at
		} else if l.config.Observe.Wakeup != nil {
			l.config.Observe.Wakeup(max(now.Sub(first)-(at-origin), 0).Seconds())
		}
		l.Tick(at)
	}
}

// stop takes the power from the joints, sees them come to rest, and closes the port.
func (l *Loop) stop() error {
	l.withhold(permit.ShuttingDown)
	l.progress.Active = false
	l.stops()
	defer func() { l.send(time.Now()) }()
	if l.group == nil {
		return nil
	}
	defer l.port.Close()
	err := l.group.Stop()
	if err != nil {
		err = l.group.Stop()
	}
	if !l.connected {
		return nil // it has not answered since the port was opened: it has no power from here
	}
	for end := time.Now().Add(l.config.StopWait); ; err = l.group.Stop() {
		rest := l.atRest()
		switch late := !time.Now().Before(end); {
		case err == nil && rest:
			return nil
		case err != nil && (late || link.Lost(err)):
			return fmt.Errorf("%s: stop: %w", l.config.Name, err)
		case late:
			return fmt.Errorf("%s: %w within %v", l.config.Name, ErrMoving, l.config.StopWait)
		}
		time.Sleep(min(restEvery, time.Until(end)))
	}
}

// atRest reads the joints once more and reports whether all of them rest. A joint that does not tell its
// velocity is taken at its word that it was stopped.
func (l *Loop) atRest() bool {
	copy(l.fresh, l.feedback)
	if err := l.group.Read(l.fresh); err != nil {
		return false
	}
	l.feedback, l.fresh = l.fresh, l.feedback
	for i := range l.feedback {
		l.controller.Rest(i, l.feedback[i].Position)
		if math.Abs(float64(l.feedback[i].Velocity)) > standstill {
			return false
		}
	}
	return true
}
