package loop

import (
	"fmt"
	"time"

	"hilgate/model/permit"
	"hilgate/motor"
)

// open opens the port and arms the controller, once it is time to.
func (l *Loop) open(at time.Duration) {
	if at < l.openAt {
		return
	}
	group, port, err := l.config.Open()
	if err == nil {
		if err = group.Arm(); err != nil {
			_ = group.Stop() // it may still do what it was told before it was lost
			port.Close()
		}
	}
	if err != nil {
		l.openLater(at)
		if err := l.name(err); err.Error() != l.lost.Error() { // a standing fault is said once
			l.config.Log.Warn("motor controller does not start", "motor", l.config.Name, "err", err)
			l.lost = err
		}
		return
	}
	l.group, l.port, l.failures = group, port, 0
}

// answered notes that the controller has told something. The first time after the port was opened its
// joints may run, from where they are.
func (l *Loop) answered(at time.Duration) {
	if l.connected {
		return
	}
	l.connected, l.lost, l.retry = true, nil, firstRetry
	l.stepped = at - l.config.Period
	for i := range l.config.Joints {
		l.controller.Rest(i, l.feedback[i].Position)
	}
	if g, ok := l.group.(motor.Identifier); ok {
		if id, known := g.Identity(); known {
			l.identity.Store(&id)
		}
	}
	l.grant(permit.DeviceLost)
	l.config.Log.Info("motor controller answers", "motor", l.config.Name)
}

// lose closes the port; it is opened again after a wait.
func (l *Loop) lose(at time.Duration, err error) {
	l.withhold(permit.DeviceLost)
	for i := range l.config.Joints {
		if l.follows(i) {
			l.abandon(i, permit.DeviceLost, 0)
		}
	}
	_ = l.group.Stop()
	l.port.Close()
	if l.connected {
		l.counts.Losses++
	}
	l.group, l.port, l.connected, l.lost = nil, nil, false, l.name(err)
	l.openLater(at)
	l.stops()
	l.config.Log.Warn("motor controller lost", "motor", l.config.Name, "err", l.lost)
}

func (l *Loop) openLater(at time.Duration) {
	l.openAt = at + l.retry
	l.retry = min(2*l.retry, lastRetry)
}

func (l *Loop) name(err error) error { return fmt.Errorf("%s: %w", l.config.Name, err) }

// stops turns the commands of the joints that may not run into stops, and leaves the others as they were.
// It reports whether there is a stop among them.
func (l *Loop) stops() (any bool) {
	for i, word := range l.config.Permits {
		if r := word.Reasons(); r != 0 {
			l.reasons[i], l.commands[i], l.limited[i] = r, motor.Command{Mode: motor.ModeStop}, 0
			any = true
		}
	}
	return any
}
