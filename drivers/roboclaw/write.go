package roboclaw

import (
	"math"

	"hilgate/model/unit"
	"hilgate/motor"
)

// kind is how the unit drives a motor.
type kind uint8

const (
	off kind = iota // duty 0
	byDuty
	bySpeed
	byPosition
	unsure // a command of another kind was sent, and not acknowledged
)

func kindOf(m motor.Mode) kind {
	switch m {
	case motor.ModeEffort:
		return byDuty
	case motor.ModeVelocity:
		return bySpeed
	case motor.ModePosition:
		return byPosition
	}
	return off
}

// order is a command for one motor, in the unit's own terms.
type order struct {
	kind  kind
	value int64 // duty, counts/s or count
	speed int64 // of a position, counts/s
}

// Write sends one command to each joint. A command that is no number, or that the unit cannot carry out
// now, is one to stop.
func (g *Group) Write(cmd []motor.Command) error {
	if !g.armed {
		return errNotArmed
	}
	var orders [2]order
	for i := range g.axes {
		a := &g.axes[i]
		o := a.order(&cmd[i], g.voltage)
		if o.kind != off && a.kind != off && a.kind != o.kind {
			o = order{} // the unit's loops must not meet: from one to the other by way of 0
		}
		orders[i] = o
	}
	if len(g.axes) == 2 && alike(orders[0].kind, orders[1].kind) {
		return g.sendBoth(orders)
	}
	for i := range g.axes {
		if err := g.sendOne(&g.axes[i], orders[i]); err != nil {
			return err
		}
	}
	return nil
}

// order makes a command into the unit's terms.
func (a *axis) order(cmd *motor.Command, supply unit.Volts) order {
	if a.unplugged {
		return order{}
	}
	switch cmd.Mode {
	case motor.ModeEffort:
		return order{kind: byDuty, value: RawDuty(a.dutyFor(cmd.Effort, supply))}
	case motor.ModeVelocity:
		if unit.Finite(cmd.Velocity) {
			return order{kind: bySpeed, value: a.counts(cmd.Velocity)}
		}
	case motor.ModePosition:
		target, speed := math.Round(float64(cmd.Position)*a.scale), cmd.Velocity
		if !unit.Finite(speed) || speed == 0 {
			speed = profileSpeed(&a.joint)
		}
		// The unit counts in 32 bits: what lies beyond them it would look for the long way round.
		if target >= math.MinInt32 && target <= math.MaxInt32 && a.count == int64(a.last) {
			return order{kind: byPosition, value: int64(target), speed: max(a.counts(speed), -a.counts(speed))}
		}
	}
	return order{}
}

// counts makes a finite velocity of the joint into counts/s, held within the motor's speed at full duty, and
// within the wire's 32 bits.
func (a *axis) counts(v unit.Velocity) int64 {
	most := float64(math.MaxInt32)
	if a.joint.MaxVelocity > 0 {
		most = min(most, math.Abs(float64(a.joint.MaxVelocity)*a.scale))
	}
	return int64(math.Round(unit.Clamp(float64(v)*a.scale, -most, most)))
}

// dutyFor is the duty that makes the motor give an effort at the joint now. The unit has no current loop,
// so the current is set by the voltage that drives it against winding and back-EMF:
//
//	i = τ/Kt,  V = i·R + Ke·ω,  duty = V/supply     with Ke = Kt in SI, τ at the motor
//
// with |i| = |V − Ke·ω|/R held within the joint's limit of current. It is 0 if a term is not known.
func (a *axis) dutyFor(effort unit.Effort, supply unit.Volts) unit.Ratio {
	w := a.motorSpeed()
	if !unit.Finite(effort) || !unit.Finite(w) || !(supply > 0) || !a.modelled() {
		return 0
	}
	k, r := a.joint.TorqueConstant, float64(a.joint.WindingResistance)
	driving := float64(effort)*float64(a.velocity()) >= 0
	i := a.joint.MotorTorque(effort, driving) / k
	if most := float64(a.joint.Limits.Current); unit.Known(most) {
		i = unit.Clamp(i, -most, most)
	}
	return unit.Clamp(unit.Ratio((i*r+k*w)/float64(supply)), -1, 1)
}

// alike reports whether one command can carry both orders: duty 0 is a duty.
func alike(a, b kind) bool { return max(a, byDuty) == max(b, byDuty) }

func bothCommand(k kind, accelerated bool) Command {
	switch {
	case k == byPosition:
		return PositionBoth
	case k == bySpeed && accelerated:
		return SpeedAccelBoth2
	case k == bySpeed:
		return SpeedBoth
	}
	return DutyBoth
}

// singleCommand is the command for M1 (channel 0) or M2; those of M2 follow those of M1.
func singleCommand(k kind, accelerated bool, channel int) Command {
	c := DutyM1
	switch {
	case k == byPosition:
		c = PositionM1
	case k == bySpeed && accelerated:
		c = SpeedAccelM1
	case k == bySpeed:
		c = SpeedM1
	}
	return c + Command(channel)
}

// atOnce is the buffer argument that drops the queue: so a command may be repeated.
const atOnce = 1

// sendBoth sends the orders of two joints in one packet, M1 first.
func (g *Group) sendBoth(orders [2]order) error {
	m1, m2 := 0, 1
	if g.axes[0].channel == 1 {
		m1, m2 = 1, 0
	}
	a, b := &g.axes[m1], &g.axes[m2]
	o, q := orders[m1], orders[m2]
	c := bothCommand(max(o.kind, q.kind), g.params.Acceleration > 0)
	var err error
	switch c {
	case PositionBoth:
		_, err = g.ask(c, g.accel(a), o.speed, g.decel(a), o.value, g.accel(b), q.speed, g.decel(b), q.value, atOnce)
	case SpeedAccelBoth2:
		_, err = g.ask(c, g.accel(a), o.value, g.accel(b), q.value)
	default:
		_, err = g.ask(c, o.value, q.value)
	}
	a.sent(o, err)
	b.sent(q, err)
	return err
}

// sendOne sends the order of one joint.
func (g *Group) sendOne(a *axis, o order) error {
	c := singleCommand(o.kind, g.params.Acceleration > 0, a.channel)
	var err error
	switch {
	case o.kind == byPosition:
		_, err = g.ask(c, g.accel(a), o.speed, g.decel(a), o.value, atOnce)
	case o.kind == bySpeed && g.params.Acceleration > 0:
		_, err = g.ask(c, g.accel(a), o.value)
	default:
		_, err = g.ask(c, o.value)
	}
	a.sent(o, err)
	return err
}

// sent notes an order: what the unit does now if it acknowledged, and else that nobody knows.
func (a *axis) sent(o order, err error) {
	switch {
	case err != nil && a.kind != o.kind:
		a.kind = unsure
	case err == nil:
		a.kind = o.kind
		if o.kind == off || o.kind == byDuty {
			a.duty = Duty(o.value)
		}
	}
}

// accel is the configured acceleration in counts/s².
func (g *Group) accel(a *axis) int64 { return rawAccel(g.params.Acceleration * a.scale) }

// decel is the configured deceleration in counts/s².
func (g *Group) decel(a *axis) int64 {
	if g.params.Deceleration == 0 {
		return g.accel(a)
	}
	return rawAccel(g.params.Deceleration * a.scale)
}

func rawAccel(counts float64) int64 {
	return int64(min(max(math.Round(math.Abs(counts)), 1), math.MaxUint32))
}
