package roboclaw

import (
	"math"
	"time"

	"hilgate/model/unit"
)

// FullDuty is the duty of 100 %.
const FullDuty = 32767

// Duty is a PWM as the wire has it, −1 to 1.
func Duty(raw int64) unit.Ratio { return unit.Ratio(raw) / FullDuty }

// RawDuty is a duty for the wire; what is beyond ±1 is held there, and NaN is 0.
func RawDuty(d unit.Ratio) int64 {
	if !unit.Known(d) {
		return 0
	}
	return int64(math.Round(float64(unit.Clamp(d, -1, 1)) * FullDuty))
}

// Volts is a voltage as the wire has it, in 0.1 V.
func Volts(raw int64) unit.Volts { return unit.Volts(raw) / 10 }

// Amperes is a current as the wire has it, in 10 mA.
func Amperes(raw int64) unit.Amperes { return unit.Amperes(raw) / 100 }

// Degrees is a temperature as the wire has it, in 0.1 °C.
func Degrees(raw int64) unit.Celsius { return unit.Celsius(raw) / 10 }

// timeoutStep is the unit of the serial timeout, and longestTimeout the most that it can be.
const (
	timeoutStep    = 100 * time.Millisecond
	longestTimeout = 255 * timeoutStep
)

// RawTimeout is a serial timeout for the wire, rounded down to 0.1 s. What is above 0 stays at least one
// step, since 0 switches the timeout off.
func RawTimeout(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(min(max(d, timeoutStep), longestTimeout) / timeoutStep)
}

// Encoder status bits of GetEncoderM1 and GetEncoderStatus.
const (
	EncoderUnderflow = 1 << iota // the count went below the least; reading clears it
	EncoderBackward
	EncoderOverflow // the count went above the most; reading clears it
)

// SignedSpeed is the speed of a reply to GetSpeed or GetRawSpeed of one motor. Old firmware tells magnitude
// and direction, modern firmware a signed number and the direction once more.
func SignedSpeed(speed, backward int64) int64 {
	if backward == 1 && speed > 0 {
		return -speed
	}
	return speed
}

// Buffer is the state of a motor's queue as GetBuffers tells it: 0 while the last command runs, else how
// many commands wait, or BufferIdle.
type Buffer uint8

// BufferIdle is a queue that is empty with no command running.
const BufferIdle Buffer = 0x80

// Idle reports whether no command runs or waits.
func (b Buffer) Idle() bool { return b == BufferIdle }

// Queued is how many commands wait behind the one that runs.
func (b Buffer) Queued() int {
	if b.Idle() {
		return 0
	}
	return int(b)
}

// Bulk is the reply to GetBulk. Pairs are of M1 and M2.
type Bulk struct {
	Tick          uint32 // of the unit's own clock
	Status        Status
	Temperature   [2]unit.Celsius
	Main, Logic   unit.Volts
	Duty          [2]unit.Ratio // −1 to 1
	Current       [2]unit.Amperes
	Count         [2]int32
	SetSpeed      [2]int32 // counts/s
	Speed         [2]int32 // counts/s
	SpeedError    [2]int16 // counts/s
	PositionError [2]int16 // counts
}

// ParseBulk gives the values of a reply to GetBulk their names.
func ParseBulk(v []int64) (b Bulk) {
	_ = v[19]
	b.Tick = uint32(v[0])
	b.Status = Status{Word: uint32(v[1])}
	b.Main, b.Logic = Volts(v[4]), Volts(v[5])
	for i := range 2 {
		b.Temperature[i] = Degrees(v[2+i])
		b.Duty[i] = Duty(v[6+i])
		b.Current[i] = Amperes(v[8+i])
		b.Count[i] = int32(v[10+i])
		b.SetSpeed[i] = int32(v[12+i])
		b.Speed[i] = int32(v[14+i])
		b.SpeedError[i] = int16(v[16+i])
		b.PositionError[i] = int16(v[18+i])
	}
	return b
}

// VelocityPID are the gains of the unit's velocity loop. QPPS is the speed at 100 % duty without load,
// counts/s: the loop feeds it forward.
//
// The unit wants them in the order D, P, I, QPPS and tells them in the order P, I, D, QPPS.
type VelocityPID struct {
	P    float64 `yaml:"p"`
	I    float64 `yaml:"i"`
	D    float64 `yaml:"d"`
	QPPS uint32  `yaml:"qpps"`
}

// DefaultVelocityPID is what a unit has when it is new.
var DefaultVelocityPID = VelocityPID{P: 1, I: 0.5, D: 0.25, QPPS: 44000}

const (
	velocityGain = 1 << 16 // of the velocity loop's fixed point
	positionGain = 1 << 10 // of the position loop's
)

// Written is the gains as the arguments of SetVelocityPIDM1.
func (g VelocityPID) Written() [4]int64 {
	return [4]int64{
		int64(g.D * velocityGain), int64(g.P * velocityGain), int64(g.I * velocityGain), int64(g.QPPS),
	}
}

// ParseVelocityPID gives the values of a reply to GetVelocityPIDM1 their names.
func ParseVelocityPID(v []int64) VelocityPID {
	return VelocityPID{
		P: float64(v[0]) / velocityGain, I: float64(v[1]) / velocityGain, D: float64(v[2]) / velocityGain,
		QPPS: uint32(v[3]),
	}
}

// PositionPID are the gains of the unit's position loop, and the range of positions that it accepts, in
// counts. Their order on the wire differs as that of VelocityPID does.
type PositionPID struct {
	P, I, D  float64
	MaxI     uint32
	DeadZone uint32
	Min, Max int32
}

// Written is the gains as the arguments of SetPositionPIDM1.
func (g PositionPID) Written() [7]int64 {
	return [7]int64{
		int64(g.D * positionGain), int64(g.P * positionGain), int64(g.I * positionGain),
		int64(g.MaxI), int64(g.DeadZone), int64(g.Min), int64(g.Max),
	}
}

// ParsePositionPID gives the values of a reply to GetPositionPIDM1 their names.
func ParsePositionPID(v []int64) PositionPID {
	return PositionPID{
		P: float64(v[0]) / positionGain, I: float64(v[1]) / positionGain, D: float64(v[2]) / positionGain,
		MaxI: uint32(v[3]), DeadZone: uint32(v[4]), Min: int32(v[5]), Max: int32(v[6]),
	}
}
