package roboclaw

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

// Spec is the driver as the registry lists it.
func Spec() drivers.Spec {
	return drivers.SerialGroup("roboclaw", "Basicmicro RoboClaw and MCP, two brushed motors, packet serial",
		DefaultParams(), drivers.GroupDriver[Params]{
			Open: func(port io.ReadWriter, p Params, joints []motor.Joint) (motor.Group, error) {
				g, err := Open(port, p, joints)
				if err != nil {
					return nil, err // not a nil *Group in an interface
				}
				return g, nil
			},
			Peer: func(p Params, joints []motor.Joint, axes []*plant.Joint) sim.Peer {
				return NewSim(p, joints, axes)
			},
			CycleBytes: CycleBytes,
			Joint:      CheckJoint,
		})
}

// Feedback says what one cycle reads.
type Feedback string

const (
	// FeedbackSpeeds reads encoders and raw speeds; each slow_every-th cycle reads a slow value (currents,
	// voltage, status, PWM, temperature, timeout, in turn) in the place of the speeds.
	FeedbackSpeeds Feedback = "speeds"

	// FeedbackEncoders reads encoders only, and each slow_every-th cycle a slow value too: the fastest. There
	// is no velocity, so that joints cannot be commanded by effort.
	FeedbackEncoders Feedback = "encoders"

	// FeedbackBulk reads everything at once, which only modern firmware can: the fewest exchanges, so the
	// best choice on USB, and the most bytes.
	FeedbackBulk Feedback = "bulk"
)

// Params are the driver's keys in the configuration.
type Params struct {
	Address byte `yaml:"address"` // 0x80 to 0x87

	// Timeout is the unit's own: without a valid packet for that long it stops its motors. 100 ms to 25.5 s in
	// steps of 100 ms. 0 switches it off, which WaiveTimeout must say is meant.
	Timeout      time.Duration `yaml:"timeout"`
	WaiveTimeout bool          `yaml:"waive_timeout"`

	// ReplyTimeout is how long the port waits for the next byte of a reply. It is also the pause that brings
	// gateway and unit together again after a failure, so it must be longer than 10 ms.
	ReplyTimeout time.Duration `yaml:"reply_timeout"`

	Feedback  Feedback `yaml:"feedback"`
	SlowEvery int      `yaml:"slow_every"` // cycles between two slow values, 2 to 100

	DutySlew     float64 `yaml:"duty_slew"`    // fastest rise of duty, 1/s; old firmware: of its fall too; 0 leaves the unit's own setting
	Acceleration float64 `yaml:"acceleration"` // for velocity and position, rad/s² or m/s²; 0 is the unit's own for velocity
	Deceleration float64 `yaml:"deceleration"` // for position; 0 is as Acceleration

	// The gains that the unit must have, if they are to be compared at the start.
	VelocityPIDM1 *VelocityPID `yaml:"velocity_pid_m1"`
	VelocityPIDM2 *VelocityPID `yaml:"velocity_pid_m2"`

	// The unit's own loops drive a motor at full power when its encoder is unplugged. A motor that is to turn
	// and gets more than GuardDuty while its encoder stands still for GuardCycles is stopped. 0 cycles: never.
	GuardDuty   unit.Ratio `yaml:"encoder_guard_duty"`
	GuardCycles int        `yaml:"encoder_guard_cycles"`
}

// DefaultParams are those of a unit at its default address, failing safe after 300 ms.
func DefaultParams() Params {
	return Params{
		Address: FirstAddress, Timeout: 300 * time.Millisecond, ReplyTimeout: 30 * time.Millisecond,
		Feedback: FeedbackSpeeds, SlowEvery: 5, GuardDuty: 0.3, GuardCycles: 50,
	}
}

// Check tells every value that is out of bounds, by its key.
func (p Params) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Address < FirstAddress || p.Address > LastAddress {
		fault("address: %#02x: want %#02x to %#02x", p.Address, FirstAddress, LastAddress)
	}
	switch {
	case p.Timeout == 0 && !p.WaiveTimeout:
		fault("timeout: 0 lets the motors run on after the gateway has died: want %v to %v, or waive_timeout: true",
			timeoutStep, longestTimeout)
	case p.Timeout < 0 || p.Timeout > longestTimeout || p.Timeout%timeoutStep != 0:
		fault("timeout: %v: want %v to %v in steps of %v", p.Timeout, timeoutStep, longestTimeout, timeoutStep)
	}
	if p.ReplyTimeout <= quietGap || p.ReplyTimeout > time.Second {
		fault("reply_timeout: %v: want more than %v, up to 1s", p.ReplyTimeout, quietGap)
	}
	switch p.Feedback {
	case FeedbackSpeeds, FeedbackEncoders, FeedbackBulk:
	default:
		fault("feedback: %q: want %s, %s or %s", p.Feedback, FeedbackSpeeds, FeedbackEncoders, FeedbackBulk)
	}
	if p.SlowEvery < 2 || p.SlowEvery > 100 {
		fault("slow_every: %d: want 2 to 100", p.SlowEvery)
	}
	for _, r := range []struct {
		key   string
		value float64
		most  float64
	}{
		{"duty_slew", p.DutySlew, maxDutyAccel / FullDuty},
		{"acceleration", p.Acceleration, math.MaxFloat64},
		{"deceleration", p.Deceleration, math.MaxFloat64},
		{"encoder_guard_duty", float64(p.GuardDuty), 1},
	} {
		if !(r.value >= 0 && r.value <= r.most) { // so that NaN is refused too
			fault("%s: %v: want 0 to %.4g", r.key, r.value, r.most)
		}
	}
	if p.GuardCycles < 0 {
		fault("encoder_guard_cycles: %d: want 0 or more", p.GuardCycles)
	}
	return errors.Join(faults...)
}

// maxDutyAccel is the most that the unit takes as an acceleration of duty: from 0 to full in 50 ms.
const maxDutyAccel = 655359

// CheckJoint checks what the driver needs of a joint: a channel, a way from motor to joint, an encoder, and
// for effort the motor.
func CheckJoint(j *motor.Joint) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if j.Channel != 1 && j.Channel != 2 {
		fault("channel: %d: want 1 or 2", j.Channel)
	}
	if t := j.Transmission(); t == 0 || !unit.Finite(t) {
		fault("gear_ratio: %v, lead: %v m: want more than 0", j.GearRatio, j.Lead)
	}
	if !(j.CountsPerRevolution > 0) {
		fault("counts_per_revolution: %v: want more than 0: four times the encoder's lines", j.CountsPerRevolution)
	}
	if j.Command == motor.ModeEffort {
		if !(j.TorqueConstant > 0) {
			fault("torque_constant: %v: want more than 0 N·m/A where command is effort", j.TorqueConstant)
		}
		if !(j.WindingResistance > 0) {
			fault("winding_resistance: %v: want more than 0 Ω where command is effort", float64(j.WindingResistance))
		}
		if !(j.Efficiency > 0 && j.Efficiency <= 1) {
			fault("efficiency: %v: want more than 0, up to 1", float64(j.Efficiency))
		}
	}
	if c := j.Limits.Current; c <= 0 || float64(c)*100 > math.MaxUint32 {
		fault("limits.current: %v: want more than 0 A", float64(c))
	}
	return errors.Join(faults...)
}

// check is what Open checks: the joints one by one, with each other, and against the parameters.
func (p Params) check(joints []motor.Joint) error {
	if len(joints) < 1 || len(joints) > 2 {
		return fmt.Errorf("%d joints: a RoboClaw has 1 or 2", len(joints))
	}
	faults := []error{p.Check()}
	for i := range joints {
		j := &joints[i]
		fault := func(err error) {
			if err != nil {
				faults = append(faults, fmt.Errorf("joint %q: %w", j.Name, err))
			}
		}
		fault(CheckJoint(j))
		switch {
		case j.Command == motor.ModeEffort && p.Feedback == FeedbackEncoders:
			fault(fmt.Errorf("command: effort needs the velocity: feedback must be %s or %s", FeedbackSpeeds, FeedbackBulk))
		case j.Command == motor.ModePosition && p.Acceleration == 0:
			fault(errors.New("command: position needs acceleration above 0"))
		case j.Command == motor.ModePosition && !(profileSpeed(j) > 0):
			fault(errors.New("command: position needs limits.velocity or max_velocity"))
		}
	}
	if len(joints) == 2 && joints[0].Channel == joints[1].Channel {
		faults = append(faults, fmt.Errorf("joints %q and %q are both on channel %d",
			joints[0].Name, joints[1].Name, joints[0].Channel))
	}
	return errors.Join(faults...)
}

// profileSpeed is the speed of position commands that name none: the joint's bound, else its motor's.
func profileSpeed(j *motor.Joint) unit.Velocity {
	if unit.Known(j.Limits.Velocity) {
		return j.Limits.Velocity
	}
	return j.MaxVelocity
}

// CycleBytes is how many bytes the longest cycle moves, both ways together, with a unit of modern firmware.
// Old firmware takes 6 more for each pair of values of two joints.
func CycleBytes(p Params, joints []motor.Joint) int {
	write := func(c Command) int { return 2 + size(c.form(Modern).args) + 2 + 1 }
	read := func(c Command) int { return 2 + size(c.form(Modern).reply) + 2 }

	kinds := make([]kind, 0, 2)
	for i := range joints {
		kinds = append(kinds, kindOf(joints[i].Command))
	}
	accelerated := p.Acceleration > 0
	total := 0
	if len(kinds) == 2 && kinds[0] == kinds[1] {
		total = write(bothCommand(kinds[0], accelerated))
	} else {
		for i, k := range kinds {
			total += write(singleCommand(k, accelerated, i))
		}
	}
	encoders, speeds := GetEncoderM1, GetRawSpeedM1
	if len(kinds) == 2 {
		encoders, speeds = GetEncoders, GetRawSpeeds
	}
	slow := 0
	for _, c := range rotation {
		slow = max(slow, read(c))
	}
	switch p.Feedback {
	case FeedbackBulk:
		return total + read(GetBulk) + read(GetTimeout)
	case FeedbackEncoders:
		return total + read(encoders) + slow
	}
	return total + read(encoders) + max(read(speeds), slow)
}
