package roboclaw

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"hilgate/model/link"
	"hilgate/motor"
)

// Arm finds out who answers, takes the power from both motors, and makes the unit fail safe. It refuses a
// unit whose serial timeout, limits of current or gains do not read back as they must be.
//
// The power goes first: each exchange of Arm feeds the unit's timeout, so a motor that still runs would go
// on running for as long as somebody tries to arm.
func (g *Group) Arm() error {
	g.armed = false
	g.forget()
	if err := g.wait(g.params.ReplyTimeout); err != nil {
		return err
	}
	s := setup{Group: g, tries: 2 * attempts}
	version, err := s.version()
	if err != nil {
		return fmt.Errorf("no sign of a unit at address %#02x: %w", g.params.Address, err)
	}
	for _, step := range []func() error{
		s.stop, s.status, s.failsafe, s.currentLimits, s.gains, s.slew, s.probe, s.firstValues,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	g.identity, g.known = identify(version), true
	g.identity.Failsafe = "none: waived"
	if g.params.Timeout > 0 {
		g.identity.Failsafe = fmt.Sprintf("serial timeout %v", g.params.Timeout)
	}
	g.armed = true
	return nil
}

// identify takes a version text apart: "USB Roboclaw 2x15a v4.2.8\n".
func identify(version string) motor.Identity {
	text := strings.TrimSpace(version)
	if i := strings.LastIndex(text, " v"); i >= 0 {
		return motor.Identity{Model: text[:i], Firmware: text[i+2:]}
	}
	return motor.Identity{Model: text}
}

// setup is a run of Arm. All its steps may be repeated, but only so many may fail in all, so that Arm ends
// soon on a bad line.
type setup struct {
	*Group
	tries int
}

// again reports whether a step that failed with err is worth another try.
func (s *setup) again(err error) bool {
	s.tries--
	retry := s.tries > 0 && !link.Lost(err)
	if retry {
		s.counters.Retried()
	}
	return retry
}

// ask is the client's, repeated.
func (s *setup) ask(c Command, args ...int64) ([]int64, error) {
	for {
		v, err := s.Group.ask(c, args...)
		if err == nil || !s.again(err) {
			return v, err
		}
	}
}

func (s *setup) version() (string, error) {
	for {
		text, err := s.Group.version()
		if err == nil || !s.again(err) {
			return text, err
		}
	}
}

func (s *setup) stop() error {
	_, err := s.ask(DutyBoth, 0, 0)
	for i := range s.axes {
		s.axes[i].sent(order{}, err)
	}
	return err
}

// status learns which firmware it is from the width of the status.
func (s *setup) status() error {
	for {
		status, err := s.generation()
		if err == nil {
			s.Group.status = status
			return nil
		}
		if !s.again(err) {
			return err
		}
	}
}

// failsafe sets the unit's own timeout and reads it back.
func (s *setup) failsafe() error {
	raw := RawTimeout(s.params.Timeout)
	if _, err := s.ask(SetTimeout, raw); err != nil {
		return err
	}
	v, err := s.ask(GetTimeout)
	if err == nil && v[0] != raw {
		err = s.refuse("serial timeout reads %v, was set to %v",
			time.Duration(v[0])*timeoutStep, s.params.Timeout)
	}
	return err
}

// currentLimits has the unit fold back at the joints' limits of current, where they have one.
func (s *setup) currentLimits() error {
	for i := range s.axes {
		a := &s.axes[i]
		if !(a.joint.Limits.Current > 0) {
			continue
		}
		channel, raw := Command(a.channel), int64(float64(a.joint.Limits.Current)*100)
		if _, err := s.ask(SetMaxCurrentM1+channel, raw, 0); err != nil {
			return err
		}
		v, err := s.ask(GetMaxCurrentM1 + channel)
		if err == nil && v[0] != raw {
			err = s.refuse("max current M%d reads %v A, was set to %v A", a.channel+1, Amperes(v[0]), Amperes(raw))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gains compares the velocity loop's with those that are configured.
func (s *setup) gains() error {
	for channel, want := range [2]*VelocityPID{s.params.VelocityPIDM1, s.params.VelocityPIDM2} {
		if want == nil {
			continue
		}
		v, err := s.ask(GetVelocityPIDM1 + Command(channel))
		if err != nil {
			return err
		}
		if got := ParseVelocityPID(v); got.Written() != want.Written() {
			return s.refuse("velocity PID M%d is %+v, configured is %+v", channel+1, got, *want)
		}
	}
	return nil
}

// slew bounds the rise of duty, if that is configured. Its fall stays as fast as the unit can, so that a stop
// is one; old firmware has one setting for both.
func (s *setup) slew() error {
	if s.params.DutySlew == 0 {
		return nil
	}
	raw := int64(s.params.DutySlew * FullDuty)
	for i := range s.axes {
		args := []int64{raw, maxDutyAccel}
		if s.firmware == Old {
			args = args[:1]
		}
		if _, err := s.ask(SetDutyAccelM1+Command(s.axes[i].channel), args...); err != nil {
			return err
		}
	}
	return nil
}

// probe finds out which of the newer commands the firmware has. A command that it lacks is met by silence,
// as is one that was lost: so silence is believed the second time.
func (s *setup) probe() error {
	s.has = abilities{}
	for _, p := range []struct {
		command Command
		has     *bool
		needed  bool
	}{
		{GetEncoders, &s.has.encoders, len(s.axes) == 2},
		{GetRawSpeeds, &s.has.speeds, len(s.axes) == 2},
		{GetTemperatures, &s.has.temperatures, true},
	} {
		if !p.needed || !p.command.In(s.firmware) {
			continue
		}
		for range 2 {
			_, err := s.Group.ask(p.command)
			if err == nil {
				*p.has = true
				break
			}
			if !errors.Is(err, link.Timeout) && !s.again(err) {
				return err
			}
		}
	}
	return nil
}

// firstValues reads everything once, so that the first cycle tells it all.
func (s *setup) firstValues() error {
	reads := []func() error{
		func() error { return s.readSlow(GetMainVoltage) },
		s.readEncoders,
		s.readSpeeds,
		func() error { return s.readSlow(GetPWMs) },
		func() error { return s.readSlow(GetCurrents) },
		func() error { return s.readSlow(GetTemperatures) },
	}
	switch s.params.Feedback {
	case FeedbackEncoders:
		reads = append(reads[:2], reads[3:]...)
	case FeedbackBulk:
		if s.firmware == Old {
			return s.refuse("feedback: %s: old firmware cannot", FeedbackBulk)
		}
		reads = []func() error{s.readBulk}
	}
	for _, read := range reads {
		for {
			err := read()
			if err == nil {
				break
			}
			if !s.again(err) {
				return err
			}
		}
	}
	return nil
}

// refuse counts and makes the error of a unit that is not as it must be.
func (s *setup) refuse(format string, args ...any) error {
	s.counters.Failed(link.Refused)
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), link.Refused)
}
