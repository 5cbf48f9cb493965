package roboclaw

import (
	"fmt"
	"math"

	"hilgate/model/link"
	"hilgate/model/unit"
	"hilgate/motor"
)

// rotation is the order in which slow values are read: currents and status more often than the rest. The
// serial timeout is among them because a unit that restarted within a cycle answers as if nothing had
// happened, with its timeout switched off.
var rotation = [...]Command{
	GetCurrents, GetStatus, GetMainVoltage, GetPWMs, GetCurrents, GetStatus, GetTemperatures, GetTimeout,
}

// Read asks the unit once. A cycle never reads more than CycleBytes allows.
func (g *Group) Read(fb []motor.Feedback) error {
	if !g.armed {
		return errNotArmed
	}
	if err := g.read(); err != nil {
		return err
	}
	for i := range g.axes {
		g.axes[i].tell(&fb[i], g)
	}
	return nil
}

func (g *Group) read() error {
	g.cycle++
	slow := g.cycle%g.params.SlowEvery == 0
	if g.params.Feedback == FeedbackBulk {
		if err := g.readBulk(); err != nil || !slow {
			return err
		}
		return g.readSlow(GetTimeout)
	}
	if err := g.readEncoders(); err != nil {
		return err
	}
	if slow {
		c := rotation[g.turn]
		g.turn = (g.turn + 1) % len(rotation)
		if err := g.readSlow(c); err != nil || c == GetCurrents {
			return err
		}
	} else if g.params.Feedback == FeedbackSpeeds {
		if err := g.readSpeeds(); err != nil {
			return err
		}
	}
	for i := range g.axes {
		g.axes[i].estimate(g.voltage)
	}
	return nil
}

// readEncoders reads the counts of all joints.
func (g *Group) readEncoders() error {
	if len(g.axes) == 2 && g.has.encoders {
		v, err := g.ask(GetEncoders)
		if err != nil {
			return err
		}
		for i := range g.axes {
			g.take(&g.axes[i], v[g.axes[i].channel])
		}
		return nil
	}
	for i := range g.axes {
		v, err := g.ask(GetEncoderM1 + Command(g.axes[i].channel))
		if err != nil {
			return err
		}
		g.take(&g.axes[i], v[0])
	}
	return nil
}

// readSpeeds reads the speeds of all joints over the last 1/300 s.
func (g *Group) readSpeeds() error {
	if len(g.axes) == 2 && g.has.speeds {
		v, err := g.ask(GetRawSpeeds)
		if err != nil {
			return err
		}
		for i := range g.axes {
			g.axes[i].speed = float64(v[g.axes[i].channel])
		}
		return nil
	}
	for i := range g.axes {
		v, err := g.ask(GetRawSpeedM1 + Command(g.axes[i].channel))
		if err != nil {
			return err
		}
		g.axes[i].speed = float64(SignedSpeed(v[0], v[1]))
	}
	return nil
}

// readBulk reads everything at once.
func (g *Group) readBulk() error {
	v, err := g.ask(GetBulk)
	if err != nil {
		return err
	}
	b := ParseBulk(v)
	g.voltage, g.status = b.Main, b.Status
	g.temperature = max(b.Temperature[0], b.Temperature[1])
	for i := range g.axes {
		a := &g.axes[i]
		g.take(a, int64(b.Count[a.channel]))
		a.speed = float64(b.Speed[a.channel])
		a.duty = b.Duty[a.channel]
		a.measure(b.Current[a.channel], g.voltage)
	}
	return nil
}

// readSlow reads one of the values that change slowly.
func (g *Group) readSlow(c Command) error {
	if c == GetTemperatures && !g.has.temperatures {
		c = GetTemperature
	}
	v, err := g.ask(c)
	if err != nil {
		return err
	}
	switch c {
	case GetCurrents:
		for i := range g.axes {
			g.axes[i].measure(Amperes(v[g.axes[i].channel]), g.voltage)
		}
	case GetPWMs:
		for i := range g.axes {
			g.axes[i].duty = Duty(v[g.axes[i].channel])
		}
	case GetMainVoltage:
		g.voltage = Volts(v[0])
	case GetStatus:
		g.status = Status{Word: uint32(v[0]), Firmware: g.firmware}
	case GetTemperature:
		g.temperature = Degrees(v[0])
	case GetTemperatures:
		g.temperature = max(Degrees(v[0]), Degrees(v[1]))
	case GetTimeout:
		if want := RawTimeout(g.params.Timeout); v[0] != want {
			g.armed = false
			g.counters.Failed(link.Refused)
			return fmt.Errorf("serial timeout reads %d × 0.1 s, was set to %d: the unit has restarted: %w", v[0], want, link.Refused)
		}
	}
	return nil
}

// take takes a count and judges whether the encoder is connected.
func (g *Group) take(a *axis, count int64) {
	before := a.count
	a.advance(int32(count))
	if a.count != before {
		a.still, a.unplugged = 0, false
		return
	}
	closed := a.kind == bySpeed || a.kind == byPosition
	if !closed || math.Abs(float64(a.duty)) <= float64(g.params.GuardDuty) {
		a.still = 0
		return
	}
	a.still++
	if g.params.GuardCycles > 0 && a.still >= g.params.GuardCycles {
		a.unplugged = true
	}
}

// measure takes the current in the winding, and with it effort and power. The unit's sign is that of the
// motor's torque, as duty and speed have it.
func (a *axis) measure(current unit.Amperes, supply unit.Volts) {
	a.current = current
	a.apply(current, supply, motor.EffortMeasured)
}

// estimate reckons effort and power from duty and speed: i = (duty·supply − Ke·ω)/R. It stands until the
// current is measured again.
func (a *axis) estimate(supply unit.Volts) {
	if !a.modelled() || (a.kind != byDuty && a.kind != off) {
		return
	}
	v := float64(a.duty) * float64(supply)
	i := unit.Amperes((v - a.joint.TorqueConstant*a.motorSpeed()) / float64(a.joint.WindingResistance))
	if unit.Known(i) {
		a.apply(i, supply, motor.EffortEstimated)
	}
}

func (a *axis) apply(i unit.Amperes, supply unit.Volts, source motor.EffortSource) {
	a.power = unit.Watts(float64(a.duty) * float64(supply) * float64(i))
	if a.joint.TorqueConstant > 0 {
		torque := a.joint.TorqueConstant * float64(i)
		driving := torque*a.motorSpeed() >= 0
		a.effort, a.source = a.joint.JointEffort(torque, driving), source
	}
}

// tell writes what is known of the joint. Current is positive with positive effort at the joint.
func (a *axis) tell(fb *motor.Feedback, g *Group) {
	fb.Position, fb.Velocity = a.position(), a.velocity()
	fb.Effort, fb.EffortSource = a.effort, a.source
	fb.Current, fb.Power = a.current, a.power
	if a.scale < 0 {
		fb.Current = -a.current
	}
	fb.Temperature, fb.Voltage = g.temperature, g.voltage
	fb.Faults = g.status.Faults(a.channel + 1)
	if a.unplugged {
		fb.Faults |= motor.FaultEncoder
	}
}
