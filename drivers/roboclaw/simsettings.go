package roboclaw

import "math"

// settings is what a unit keeps in its NVM, each in the order in which it is read back.
type settings struct {
	timeout       [1]int64
	velocity      [2][4]int64 // P, I, D, QPPS
	position      [2][7]int64 // P, I, D, most I, dead zone, least, most
	dutyAccel     [4]int64    // M1 up, M1 down, M2 up, M2 down; 0 is at once
	positionSpeed [2]int64
	mainLimits    [3]int64 // least, most, offset
	logicLimits   [2]int64
	maxCurrent    [2][2]int64
	speedError    [2]int64
	positionError [2]int64
	winding       [2][2]int64
	pins          [5]int64
	encoderMode   [2]int64
	pwmMode       [2]int64
	config        [1]int64
	lock          [1]int64
}

// Bits of the encoder mode.
const (
	motorReversed   = 1 << 5
	encoderReversed = 1 << 6
)

// signMagnitude is the PWM mode in which duty 0 leaves the winding open; the other one brakes.
const signMagnitude = 1

// serialMode is the part of the configuration word that holds packet serial at 0x80.
const serialMode = 3

// factory is a unit that nobody has set.
func factory() settings {
	s := settings{
		positionSpeed: [2]int64{2000, 2000},
		mainLimits:    [3]int64{60, 340, 0},
		logicLimits:   [2]int64{55, 340},
		maxCurrent:    [2][2]int64{{3000, 0}, {3000, 0}},
		config:        [1]int64{serialMode},
	}
	for i := range 2 {
		v := DefaultVelocityPID.Written()
		s.velocity[i] = [4]int64{v[1], v[2], v[0], v[3]}
		s.position[i] = [7]int64{10 * positionGain, 0, 0, 0, 0, math.MinInt32, math.MaxInt32}
	}
	return s
}

// field is the setting that a command sets or reads; nil if it is about something else.
func (s *settings) field(c Command) []int64 {
	switch c {
	case SetTimeout, GetTimeout:
		return s.timeout[:]
	case SetVelocityPIDM1, GetVelocityPIDM1:
		return s.velocity[0][:]
	case SetVelocityPIDM2, GetVelocityPIDM2:
		return s.velocity[1][:]
	case SetPositionPIDM1, GetPositionPIDM1:
		return s.position[0][:]
	case SetPositionPIDM2, GetPositionPIDM2:
		return s.position[1][:]
	case SetDutyAccelM1:
		return s.dutyAccel[:2]
	case SetDutyAccelM2:
		return s.dutyAccel[2:]
	case GetDutyAccels:
		return s.dutyAccel[:]
	case SetPositionSpeedM1:
		return s.positionSpeed[:1]
	case SetPositionSpeedM2:
		return s.positionSpeed[1:]
	case GetPositionSpeeds:
		return s.positionSpeed[:]
	case SetMainLimits, GetMainLimits:
		return s.mainLimits[:]
	case SetLogicLimits, GetLogicLimits:
		return s.logicLimits[:]
	case SetMaxCurrentM1, GetMaxCurrentM1:
		return s.maxCurrent[0][:]
	case SetMaxCurrentM2, GetMaxCurrentM2:
		return s.maxCurrent[1][:]
	case SetSpeedErrorLimit, GetSpeedErrorLimit:
		return s.speedError[:]
	case SetPositionErrorLimit, GetPositionErrorLimit:
		return s.positionError[:]
	case SetWindingM1, GetWindingM1:
		return s.winding[0][:]
	case SetWindingM2, GetWindingM2:
		return s.winding[1][:]
	case SetPins, GetPins:
		return s.pins[:]
	case SetEncoderModeM1:
		return s.encoderMode[:1]
	case SetEncoderModeM2:
		return s.encoderMode[1:]
	case GetEncoderModes:
		return s.encoderMode[:]
	case SetPWMMode, GetPWMMode:
		return s.pwmMode[:]
	case SetConfig, GetConfig:
		return s.config[:]
	case SetEStopLock, GetEStopLock:
		return s.lock[:]
	}
	return nil
}

// set takes the arguments of a setting. Gains come as D, P, I and are kept as P, I, D; where old firmware
// sends one value for two, it counts for both.
func (s *settings) set(c Command, values []int64) {
	field := s.field(c)
	switch c {
	case SetVelocityPIDM1, SetVelocityPIDM2, SetPositionPIDM1, SetPositionPIDM2:
		copy(field, values)
		field[0], field[1], field[2] = values[1], values[2], values[0]
		return
	case SetDutyAccelM1, SetDutyAccelM2, SetPWMMode:
		field[1] = values[0]
	}
	copy(field, values)
}
