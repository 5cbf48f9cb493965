package roboclaw

import (
	"math/bits"

	"hilgate/motor"
)

// Status is the reply to GetStatus. Modern firmware tells 32 bits, errors in the lower half and warnings in
// the upper; old firmware tells 16 bits in an order of its own. Which it is shows only in the length of the
// reply, so Firmware says by which list Word is to be read.
type Status struct {
	Word     uint32
	Firmware Firmware
}

// Errors of modern firmware. Any of them switches both outputs off.
const (
	ErrorEStop uint32 = 1 << iota
	ErrorTemperature
	ErrorTemperature2
	ErrorMainHigh
	ErrorLogicHigh
	ErrorLogicLow
	ErrorDriverM1
	ErrorDriverM2
	ErrorSpeedM1
	ErrorSpeedM2
	ErrorPositionM1
	ErrorPositionM2
	ErrorCurrentM1
	ErrorCurrentM2
	ErrorMainLow
	ErrorMainHighRecovering
)

// Warnings of modern firmware.
const (
	WarningCurrentM1 uint32 = 1 << (16 + iota)
	WarningCurrentM2
	WarningMainHigh
	WarningMainLow
	WarningTemperature
	WarningTemperature2
	WarningS4
	WarningS5
	WarningSpeedM1
	WarningSpeedM2
	WarningPositionM1
	WarningPositionM2
	WarningCAN
	WarningBooting
	WarningRegenerationM1
	WarningRegenerationM2
)

const errorBits = 0xffff

// Bits of old firmware, each as the bit of modern firmware that means the same. The two highest tell that
// a home switch was met, which is nothing to warn of.
var oldBits = [16]uint32{
	WarningCurrentM1, WarningCurrentM2, ErrorEStop, ErrorTemperature, ErrorTemperature2,
	ErrorMainHigh, ErrorLogicHigh, ErrorLogicLow, ErrorDriverM1, ErrorDriverM2,
	WarningMainHigh, WarningMainLow, WarningTemperature, WarningTemperature2, 0, 0,
}

// The names follow the vendor's manual.
var errorNames = [16]string{
	"estop", "temperature", "temperature2", "main_voltage_high", "logic_voltage_high", "logic_voltage_low",
	"m1_driver_fault", "m2_driver_fault", "m1_speed", "m2_speed", "m1_position", "m2_position",
	"m1_current", "m2_current", "main_voltage_low", "main_voltage_high_hysteresis",
}

var warningNames = [16]string{
	"m1_over_current", "m2_over_current", "main_voltage_high", "main_voltage_low", "temperature",
	"temperature2", "s4", "s5", "m1_speed", "m2_speed", "m1_position", "m2_position", "can", "booting",
	"m1_over_regeneration", "m2_over_regeneration",
}

// Bits is the status in the order of modern firmware.
func (s Status) Bits() uint32 {
	if s.Firmware == Modern {
		return s.Word
	}
	var b uint32
	for w := s.Word & errorBits; w != 0; w &= w - 1 {
		b |= oldBits[bits.TrailingZeros32(w)]
	}
	return b
}

// oldWord is the status as old firmware tells it; what it has no bit for is left out.
func oldWord(b uint32) uint32 {
	var w uint32
	for i, bit := range oldBits {
		if b&bit != 0 {
			w |= 1 << i
		}
	}
	return w
}

// Errors names what has switched the outputs off; nil if nothing has.
func (s Status) Errors() []string { return names(s.Bits()&errorBits, &errorNames) }

// Warnings names what the unit warns of; nil if nothing.
func (s Status) Warnings() []string { return names(s.Bits()>>16, &warningNames) }

func names(b uint32, of *[16]string) (set []string) {
	for i, name := range of {
		if b&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	return set
}

// What the bits mean for one motor: those of the unit, and those of M1 or, shifted by one, of M2.
var unitFaults = [...]struct {
	bits  uint32
	fault motor.Faults
}{
	{ErrorEStop, motor.FaultEStop},
	{ErrorTemperature | ErrorTemperature2, motor.FaultOvertemperature},
	{ErrorMainHigh | ErrorMainHighRecovering | ErrorLogicHigh, motor.FaultOvervoltage},
	{ErrorMainLow | ErrorLogicLow, motor.FaultUndervoltage},
	{WarningTemperature | WarningTemperature2, motor.WarnOvertemperature},
	{WarningMainHigh, motor.WarnOvervoltage},
	{WarningMainLow, motor.WarnUndervoltage},
	{WarningS4 | WarningS5 | WarningCAN | WarningBooting, motor.WarnOther},
}

var channelFaults = [...]struct {
	bits  uint32 // of M1; those of M2 are the next higher
	fault motor.Faults
}{
	{ErrorDriverM1, motor.FaultDriver},
	{ErrorSpeedM1 | ErrorPositionM1, motor.FaultFollowing},
	{ErrorCurrentM1, motor.FaultOvercurrent},
	{WarningCurrentM1, motor.WarnOvercurrent},
	{WarningSpeedM1 | WarningPositionM1 | WarningRegenerationM1, motor.WarnOther},
}

// Faults is what the status means for the motor on a channel, 1 or 2. An error of the other motor takes the
// power from this one too, and shows as FaultOther.
func (s Status) Faults(channel int) motor.Faults {
	b := s.Bits()
	var f motor.Faults
	for _, m := range unitFaults {
		if b&m.bits != 0 {
			f |= m.fault
		}
	}
	for _, m := range channelFaults {
		if b&(m.bits<<(channel-1)) != 0 {
			f |= m.fault
		}
	}
	if b&errorBits != 0 && f&motor.Disabling == 0 {
		f |= motor.FaultOther
	}
	return f
}
