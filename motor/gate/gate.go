// Package gate has the last word before the wire: it looks at what a control law wants of one joint, at
// what the joint told, and at whether it may run, and lets through a command that is within every bound of
// the joint, or a stop.
//
// A joint is stopped
//
//   - while there is any reason to withhold it, or its controller reports a fault that disables it;
//   - where the command is not a finite number, or a bound is set on something that is not measured: what
//     cannot be checked is not allowed;
//   - from its limit of temperature on, until it has cooled down by Cooling;
//   - from a tracking error beyond its bound on, until Release.
//
// A tracking error is latched because stopping hides it: without power there is nothing to track, and a
// joint that was freed by itself would run into the same obstacle again and again. What ends it is an act:
// a new trajectory, or an emergency stop that was engaged and released. Note that Gazebo's stepped targets
// make every waypoint a tracking error at first; the bound must be above the largest step between two
// waypoints, or the trajectory be interpolated.
//
// Else the command is held within the bounds. Beyond a bound of position, and above that of velocity, what
// would lead further out is cut to nothing, while effort back in is allowed: a joint can always be brought
// back, and is never pushed. The controller's own limits and the mechanics come after this.
package gate

import (
	"math"

	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
)

// Cooling is how far below its limit of temperature a joint must be before it may run again. Our choice: a
// motor held at its limit would otherwise be switched at the rate of the loop.
const Cooling unit.Celsius = 5

// State is what the gate remembers of one joint. The zero State is that of a joint that may run.
type State struct{ tripped motor.Limit }

// Tripped is the bounds that stop the joint until it has cooled down or is released.
func (s *State) Tripped() motor.Limit { return s.tripped }

// Release forgives a tracking error.
func (s *State) Release() { s.tripped &^= motor.LimitTracking }

var stop = motor.Command{Mode: motor.ModeStop}

// Apply turns what is wanted of a joint into what it is told, and says which bounds made the difference.
// fb is what the joint told in this tick, target is where the trajectory wants it, withheld is why it may
// not run. It allocates nothing.
func Apply(j *motor.Joint, s *State, fb *motor.Feedback, target motor.Target, wanted motor.Command, withheld permit.Reason) (motor.Command, motor.Limit) {
	s.feel(j, fb)
	if withheld != 0 || fb.Faults&motor.Disabling != 0 {
		return stop, s.tripped
	}
	s.follow(j, fb, target)
	if limits := s.tripped | unmeasured(j, fb, wanted.Mode); limits != 0 {
		return stop, limits
	}
	switch wanted.Mode {
	case motor.ModeEffort:
		return effort(j, fb, wanted.Effort)
	case motor.ModeVelocity:
		return velocity(j, fb, wanted.Velocity)
	case motor.ModePosition:
		return position(j, wanted.Position, wanted.Velocity)
	}
	return stop, 0
}

// feel trips on heat, and forgets it once the joint has cooled down.
func (s *State) feel(j *motor.Joint, fb *motor.Feedback) {
	switch limit := j.Limits.Temperature; {
	case fb.Temperature >= limit:
		s.tripped |= motor.LimitTemperature
	case fb.Temperature < limit-Cooling:
		s.tripped &^= motor.LimitTemperature
	}
}

// follow trips on a tracking error.
func (s *State) follow(j *motor.Joint, fb *motor.Feedback, target motor.Target) {
	if math.Abs(float64(target.Position-fb.Position)) > float64(j.Limits.TrackingError) {
		s.tripped |= motor.LimitTracking
	}
}

// unmeasured is the bounds that are set on what the joint does not tell.
func unmeasured(j *motor.Joint, fb *motor.Feedback, mode motor.Mode) (limits motor.Limit) {
	if !unit.Finite(fb.Position) {
		if unit.Known(j.Limits.Lower) || unit.Known(j.Limits.Upper) {
			limits |= motor.LimitPosition
		}
		if unit.Known(j.Limits.TrackingError) {
			limits |= motor.LimitTracking
		}
	}
	if mode == motor.ModeEffort && unit.Known(j.Limits.Velocity) && !unit.Finite(fb.Velocity) {
		limits |= motor.LimitVelocity
	}
	if unit.Known(j.Limits.Temperature) && !unit.Finite(fb.Temperature) {
		limits |= motor.LimitTemperature
	}
	return limits
}

func effort(j *motor.Joint, fb *motor.Feedback, e unit.Effort) (motor.Command, motor.Limit) {
	if !unit.Finite(e) {
		return stop, motor.LimitEffort
	}
	var limits motor.Limit
	e = within(e, j.Limits.Effort, motor.LimitEffort, &limits)
	if unit.Known(j.Limits.Current) && j.TorqueConstant > 0 {
		driving := !(float64(e)*float64(fb.Velocity) < 0) // an unknown velocity allows the lesser effort
		most := j.JointEffort(j.TorqueConstant*float64(j.Limits.Current), driving)
		e = within(e, unit.Effort(math.Abs(float64(most))), motor.LimitCurrent, &limits)
	}
	if outwards(j, fb, float64(e)) {
		e, limits = 0, limits|motor.LimitPosition
	}
	if v := fb.Velocity; (v > j.Limits.Velocity && e > 0) || (v < -j.Limits.Velocity && e < 0) {
		e, limits = 0, limits|motor.LimitVelocity
	}
	return motor.Command{Mode: motor.ModeEffort, Effort: e}, limits
}

func velocity(j *motor.Joint, fb *motor.Feedback, v unit.Velocity) (motor.Command, motor.Limit) {
	if !unit.Finite(v) {
		return stop, motor.LimitVelocity
	}
	var limits motor.Limit
	v = within(v, j.Limits.Velocity, motor.LimitVelocity, &limits)
	if outwards(j, fb, float64(v)) {
		v, limits = 0, limits|motor.LimitPosition
	}
	return motor.Command{Mode: motor.ModeVelocity, Velocity: v}, limits
}

func position(j *motor.Joint, p unit.Position, v unit.Velocity) (motor.Command, motor.Limit) {
	if !unit.Finite(p) {
		return stop, motor.LimitPosition
	}
	if !unit.Finite(v) {
		return stop, motor.LimitVelocity
	}
	var limits motor.Limit
	v = within(v, j.Limits.Velocity, motor.LimitVelocity, &limits)
	if q := unit.Clamp(p, j.Limits.Lower, j.Limits.Upper); q != p {
		p, limits = q, limits|motor.LimitPosition
	}
	return motor.Command{Mode: motor.ModePosition, Position: p, Velocity: v}, limits
}

// within holds q within ±most and notes the limit if that changes it. NaN is no bound.
func within[Q ~float64](q, most Q, limit motor.Limit, limits *motor.Limit) Q {
	held := unit.Clamp(q, -most, most)
	if held != q {
		*limits |= limit
	}
	return held
}

// outwards reports whether a joint beyond a bound of its position is to be moved further out.
func outwards(j *motor.Joint, fb *motor.Feedback, direction float64) bool {
	return (direction > 0 && fb.Position > j.Limits.Upper) || (direction < 0 && fb.Position < j.Limits.Lower)
}
