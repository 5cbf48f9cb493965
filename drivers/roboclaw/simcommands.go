package roboclaw

import "math"

// obey carries out a write and reports whether the unit acknowledges it.
func (s *Sim) obey(r *Request) bool {
	v := r.Values[:r.N]
	m1, m2 := &s.motors[0], &s.motors[1]
	// own is the motor of a command that exists once for each: those of M2 have the next byte.
	own := func(ofM1 Command) *simMotor { return &s.motors[r.Command-ofM1] }

	switch r.Command {
	case ForwardM1, ForwardM2:
		s.motors[r.Command/ForwardM2].legacy(v[0])
	case BackwardM1, BackwardM2:
		s.motors[(r.Command-BackwardM1)/ForwardM2].legacy(-v[0])
	case DriveM1, DriveM2:
		own(DriveM1).legacy(centred(v[0]))
	case MixedForward, MixedBackward, MixedRight, MixedLeft, MixedDrive, MixedTurn:
		s.mix(r.Command, v[0])

	case DutyM1, DutyM2:
		own(DutyM1).beginDuty(v[0])
	case DutyBoth:
		m1.beginDuty(v[0])
		m2.beginDuty(v[1])
	case DutyAccelM1, DutyAccelM2:
		own(DutyAccelM1).begin(motion{goal: toDuty, duty: float64(Duty(v[0])), accel: v[1], decel: v[1]})
	case DutyAccelBoth:
		m1.begin(motion{goal: toDuty, duty: float64(Duty(v[0])), accel: v[1], decel: v[1]})
		m2.begin(motion{goal: toDuty, duty: float64(Duty(v[2])), accel: v[3], decel: v[3]})

	case SpeedM1, SpeedM2:
		own(SpeedM1).begin(motion{goal: toSpeed, speed: v[0]})
	case SpeedBoth:
		m1.begin(motion{goal: toSpeed, speed: v[0]})
		m2.begin(motion{goal: toSpeed, speed: v[1]})
	case SpeedAccelM1, SpeedAccelM2:
		own(SpeedAccelM1).begin(motion{goal: toSpeed, accel: v[0], speed: v[1]})
	case SpeedAccelBoth:
		m1.begin(motion{goal: toSpeed, accel: v[0], speed: v[1]})
		m2.begin(motion{goal: toSpeed, accel: v[0], speed: v[2]})
	case SpeedAccelBoth2:
		m1.begin(motion{goal: toSpeed, accel: v[0], speed: v[1]})
		m2.begin(motion{goal: toSpeed, accel: v[2], speed: v[3]})

	case SpeedDistanceM1, SpeedDistanceM2:
		own(SpeedDistanceM1).enqueue(motion{goal: toDistance, speed: v[0], target: v[1]}, v[2])
	case SpeedDistanceBoth:
		m1.enqueue(motion{goal: toDistance, speed: v[0], target: v[1]}, v[4])
		m2.enqueue(motion{goal: toDistance, speed: v[2], target: v[3]}, v[4])
	case SpeedAccelDistanceM1, SpeedAccelDistanceM2:
		own(SpeedAccelDistanceM1).enqueue(motion{goal: toDistance, accel: v[0], speed: v[1], target: v[2]}, v[3])
	case SpeedAccelDistanceBoth:
		m1.enqueue(motion{goal: toDistance, accel: v[0], speed: v[1], target: v[2]}, v[5])
		m2.enqueue(motion{goal: toDistance, accel: v[0], speed: v[3], target: v[4]}, v[5])
	case SpeedAccelDistanceBoth2:
		m1.enqueue(motion{goal: toDistance, accel: v[0], speed: v[1], target: v[2]}, v[6])
		m2.enqueue(motion{goal: toDistance, accel: v[3], speed: v[4], target: v[5]}, v[6])

	case PositionM1, PositionM2:
		own(PositionM1).enqueue(motion{goal: toPosition, accel: v[0], speed: v[1], decel: v[2], target: v[3]}, v[4])
	case PositionBoth:
		m1.enqueue(motion{goal: toPosition, accel: v[0], speed: v[1], decel: v[2], target: v[3]}, v[8])
		m2.enqueue(motion{goal: toPosition, accel: v[4], speed: v[5], decel: v[6], target: v[7]}, v[8])
	case DefaultPositionM1, DefaultPositionM2:
		m := own(DefaultPositionM1)
		m.enqueue(motion{goal: toPosition, speed: m.profile(), target: v[0]}, v[1])
	case DefaultPositionBoth:
		m1.enqueue(motion{goal: toPosition, speed: m1.profile(), target: v[0]}, v[2])
		m2.enqueue(motion{goal: toPosition, speed: m2.profile(), target: v[1]}, v[2])
	case SpeedPositionM1, SpeedPositionM2:
		own(SpeedPositionM1).enqueue(motion{goal: toPosition, speed: v[0], target: v[1]}, v[2])
	case SpeedPositionBoth:
		m1.enqueue(motion{goal: toPosition, speed: v[0], target: v[1]}, v[4])
		m2.enqueue(motion{goal: toPosition, speed: v[2], target: v[3]}, v[4])
	case PercentPositionM1, PercentPositionM2:
		m := own(PercentPositionM1)
		m.enqueue(motion{goal: toPosition, speed: m.profile(), target: m.percent(v[0])}, v[1])
	case PercentPositionBoth:
		m1.enqueue(motion{goal: toPosition, speed: m1.profile(), target: m1.percent(v[0])}, v[2])
		m2.enqueue(motion{goal: toPosition, speed: m2.profile(), target: m2.percent(v[1])}, v[2])

	case ResetEncoders:
		m1.preset(0)
		m2.preset(0)
	case SetEncoderM1, SetEncoderM2:
		own(SetEncoderM1).preset(v[0])

	case WriteNVM:
		if v[0] != Key {
			return false
		}
		s.stored = s.settings
	case ReadNVM:
		s.settings = s.stored
	case RestoreDefaults:
		if s.firmware == Modern && v[0] != Key {
			return false
		}
		s.settings = factory()
	case ResetEStop:
		if !s.pin && s.settings.lock[0] != LockHardware {
			s.stopped = false
		}
	case WriteEEPROM:
		s.eeprom[v[0]] = uint16(v[1])
	default:
		s.settings.set(r.Command, v)
	}
	return true
}

// centred is the value of a 7-bit command around 64, −127 to 127.
func centred(v int64) int64 { return max(-127, (v&0x7f)*2-128) }

// mix takes one half of a mixed-drive command. Nothing moves until both have come once.
func (s *Sim) mix(c Command, v int64) {
	v &= 0x7f
	switch c {
	case MixedForward:
		s.pace = mixed{v, true}
	case MixedBackward:
		s.pace = mixed{-v, true}
	case MixedRight:
		s.turn = mixed{v, true}
	case MixedLeft:
		s.turn = mixed{-v, true}
	case MixedDrive:
		s.pace = mixed{centred(v), true}
	case MixedTurn:
		s.turn = mixed{centred(v), true}
	}
	if s.pace.given && s.turn.given {
		s.motors[0].legacy(s.pace.value + s.turn.value)
		s.motors[1].legacy(s.pace.value - s.turn.value)
	}
}

// answer puts the values of a read into s.values and says how many they are.
func (s *Sim) answer(r *Request) int {
	m1, m2 := &s.motors[0], &s.motors[1]
	own := func(ofM1 Command) *simMotor { return &s.motors[r.Command-ofM1] }
	v := &s.values
	m1.look()
	m2.look()

	switch r.Command {
	case GetEncoderM1, GetEncoderM2:
		m := own(GetEncoderM1)
		v[0], v[1] = int64(m.count), m.flags()
		m.under, m.over = false, false
	case GetEncoders:
		v[0], v[1] = int64(m1.count), int64(m2.count)
	case GetEncoderStatus:
		v[0], v[1] = m1.flags(), m2.flags()
	case GetSpeedM1, GetSpeedM2:
		s.speed(own(GetSpeedM1).filtered)
	case GetRawSpeedM1, GetRawSpeedM2:
		s.speed(own(GetRawSpeedM1).raw)
	case GetRawSpeeds:
		v[0], v[1] = wire32(m1.raw), wire32(m2.raw)
	case GetSpeeds:
		v[0], v[1] = wire32(m1.filtered), wire32(m2.filtered)
	case GetMainVoltage:
		v[0] = s.mainVoltage()
	case GetLogicVoltage:
		v[0] = logicSupply
	case GetVoltages:
		v[0], v[1] = s.mainVoltage(), logicSupply
	case GetBuffers:
		v[0], v[1] = m1.buffer(), m2.buffer()
	case GetPWMs:
		v[0], v[1] = m1.rawDuty(), m2.rawDuty()
	case GetCurrents:
		v[0], v[1] = m1.rawCurrent(), m2.rawCurrent()
	case GetTemperature:
		v[0] = m1.rawTemperature()
	case GetTemperature2:
		v[0] = m2.rawTemperature()
	case GetTemperatures:
		v[0], v[1] = m1.rawTemperature(), m2.rawTemperature()
	case GetSpeedErrors:
		v[0], v[1] = wireU16(m1.speedError()), wireU16(m2.speedError())
	case GetPositionErrors:
		v[0], v[1] = wireU16(m1.positionError()), wireU16(m2.positionError())
	case GetStatus:
		v[0] = int64(s.status)
		if s.firmware == Old {
			v[0] = int64(oldWord(s.status))
		}
	case GetBulk:
		*v = [maxValues]int64{
			int64(s.ticks), int64(s.status), m1.rawTemperature(), m2.rawTemperature(),
			s.mainVoltage(), logicSupply, m1.rawDuty(), m2.rawDuty(), m1.rawCurrent(), m2.rawCurrent(),
			int64(m1.count), int64(m2.count), wire32(m1.setSpeed), wire32(m2.setSpeed),
			wire32(m1.filtered), wire32(m2.filtered), wire16(m1.speedError()), wire16(m2.speedError()),
			wire16(m1.positionError()), wire16(m2.positionError()),
		}
	case ReadEEPROM:
		v[0] = int64(s.eeprom[r.Values[0]])
	default:
		copy(v[:], s.settings.field(r.Command))
	}
	return len(r.Command.form(s.firmware).reply)
}

// speed answers with one motor's speed: signed from modern firmware, a magnitude from old.
func (s *Sim) speed(counts float64) {
	v := wire32(counts)
	s.values[0], s.values[1] = v, 0
	if v < 0 {
		s.values[1] = 1
		if s.firmware == Old {
			s.values[0] = -v
		}
	}
}

func wire32(v float64) int64  { return held(math.Round(v), -math.MaxInt32, math.MaxInt32) }
func wire16(v float64) int64  { return held(math.Round(v), math.MinInt16, math.MaxInt16) }
func wireU16(v float64) int64 { return held(math.Round(math.Abs(v)), 0, math.MaxUint16) }
