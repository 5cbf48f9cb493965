// Package sbs speaks the Smart Battery Data Specification 1.1 (SBS) to a pack on SMBus, and the extensions
// that gauges of the BQ40Z50, BQ4050, BQ40Z80 and BQ78350 families add to it.
//
// Almost everything is a register of two bytes, low byte first, or a block behind its length:
//
//	read word    S [0x16] [reg] Sr [0x17] [low] [high] ([PEC]) P
//	read block   S [0x16] [reg] Sr [0x17] [n] [data…] ([PEC]) P
//
// Voltage is in mV, current in mA with charging positive, temperature in 0.1 K, time in minutes, capacity in
// mAh or 10 mWh as BatteryMode says; SpecificationInfo may multiply voltage and current by powers of ten.
// The extensions hang on one port, ManufacturerBlockAccess:
//
//	select       S [0x16] [0x44] [2] [low] [high] ([PEC]) P
//	read         S [0x16] [0x44] Sr [0x17] [2+n] [low] [high] [data…] ([PEC]) P
//
// codec.go, flags.go, mac.go and system.go are pure. pack.go, with detect.go, schedule.go and reading.go, is
// the pack as a driver sees it; sim.go is the same pack from the other side.
package sbs

import (
	"fmt"
	"math"
	"strings"
	"time"

	"hilgate/bms"
	"hilgate/drivers/smbus"
	"hilgate/model/unit"
)

// Commands of SBS 1.1, section 5.1, and of TI's gauges from 0x3c on.
const (
	CmdManufacturerAccess     = 0x00 // word: selects a sub-command on TI's gauges
	CmdRemainingCapacityAlarm = 0x01 // capacity, 0 is off
	CmdRemainingTimeAlarm     = 0x02 // min, 0 is off
	CmdBatteryMode            = 0x03 // Mode
	CmdAtRate                 = 0x04 // mA or 10 mW, charging positive
	CmdAtRateTimeToFull       = 0x05 // min
	CmdAtRateTimeToEmpty      = 0x06 // min
	CmdAtRateOK               = 0x07 // 0 is no
	CmdTemperature            = 0x08 // 0.1 K
	CmdVoltage                = 0x09 // mV, scaled
	CmdCurrent                = 0x0a // mA, two's complement, scaled
	CmdAverageCurrent         = 0x0b // mA over a minute, as CmdCurrent
	CmdMaxError               = 0x0c // %
	CmdRelativeStateOfCharge  = 0x0d // % of FullChargeCapacity
	CmdAbsoluteStateOfCharge  = 0x0e // % of DesignCapacity
	CmdRemainingCapacity      = 0x0f // capacity, scaled
	CmdFullChargeCapacity     = 0x10 // capacity, scaled
	CmdRunTimeToEmpty         = 0x11 // min at the present current
	CmdAverageTimeToEmpty     = 0x12 // min at the average current
	CmdAverageTimeToFull      = 0x13 // min at the average current
	CmdChargingCurrent        = 0x14 // mA wanted from the charger, never scaled
	CmdChargingVoltage        = 0x15 // mV wanted from the charger, never scaled
	CmdBatteryStatus          = 0x16 // Status
	CmdCycleCount             = 0x17
	CmdDesignCapacity         = 0x18 // capacity, scaled
	CmdDesignVoltage          = 0x19 // mV, scaled
	CmdSpecificationInfo      = 0x1a // SpecInfo
	CmdManufactureDate        = 0x1b // Date
	CmdSerialNumber           = 0x1c
	CmdManufacturerName       = 0x20 // block: text
	CmdDeviceName             = 0x21 // block: text
	CmdDeviceChemistry        = 0x22 // block: text
	CmdManufacturerData       = 0x23 // block: answers CmdManufacturerAccess, without echo
	CmdCell1                  = 0x3f // mV, never scaled; cell 2 is at 0x3e, and so on downwards
	CmdBlockAccess            = 0x44 // block: selects a sub-command and answers it, with echo
	CmdStateOfHealth          = 0x4f // StateOfHealth
)

// MaxText is the longest text that SBS allows.
const MaxText = smbus.MaxBlock

// SpecInfo is SpecificationInfo (SBS 1.1, 5.1.25).
type SpecInfo struct {
	Revision uint8 // 1
	Version  uint8 // 1: SBS 1.0; 2: 1.1 without PEC; 3: 1.1 with PEC
	VScale   uint8 // voltages are times 10 to this power, 0 to 3
	IPScale  uint8 // currents and capacities are times 10 to this power, 0 to 3
}

// ParseSpecInfo unpacks the word; it takes any.
func ParseSpecInfo(w uint16) SpecInfo {
	return SpecInfo{
		Revision: uint8(w & 15), Version: uint8(w >> 4 & 15), VScale: uint8(w >> 8 & 15), IPScale: uint8(w >> 12),
	}
}

// Word packs s, of whose fields the low four bits count.
func (s SpecInfo) Word() uint16 {
	return uint16(s.Revision&15) | uint16(s.Version&15)<<4 | uint16(s.VScale&15)<<8 | uint16(s.IPScale&15)<<12
}

// ClaimsPEC reports whether the pack says that it has packet error codes. Some that say so have none.
func (s SpecInfo) ClaimsPEC() bool { return s.Version == 3 }

// Scale makes the factors of s. An exponent above 3 is invalid and counts as 0.
func (s SpecInfo) Scale() Scale {
	factors := [...]float64{1, 10, 100, 1000}
	scale := Scale{1, 1}
	if int(s.VScale) < len(factors) {
		scale.Voltage = factors[s.VScale]
	}
	if int(s.IPScale) < len(factors) {
		scale.Current = factors[s.IPScale]
	}
	return scale
}

// Scale holds the factors between a pack's words and thousandths of the SI unit. Power and energy are
// scaled by both (SBS 1.1, 5.1.25).
type Scale struct{ Voltage, Current float64 }

// DecodeVoltage converts Voltage or DesignVoltage.
func (s Scale) DecodeVoltage(w uint16) unit.Volts { return unit.Volts(float64(w) * s.Voltage / 1000) }

// DecodeCurrent converts Current or AverageCurrent; negative is discharging. −32768 is legal, and usually
// means that the gauge is at the end of its range.
func (s Scale) DecodeCurrent(w uint16) unit.Amperes {
	return unit.Amperes(float64(int16(w)) * s.Current / 1000)
}

// DecodeCharge converts a capacity of a pack whose mode is mAh.
func (s Scale) DecodeCharge(w uint16) unit.AmpereHours {
	return unit.AmpereHours(float64(w) * s.Current / 1000)
}

// DecodeEnergy converts a capacity of a pack whose mode is 10 mWh.
func (s Scale) DecodeEnergy(w uint16) unit.WattHours {
	return unit.WattHours(float64(w) * s.Current * s.Voltage / 100)
}

// EncodeVoltage is the word nearest to v.
func (s Scale) EncodeVoltage(v unit.Volts) uint16 { return word(float64(v) * 1000 / s.Voltage) }

// EncodeCurrent is the word nearest to i.
func (s Scale) EncodeCurrent(i unit.Amperes) uint16 { return signed(float64(i) * 1000 / s.Current) }

// EncodeCharge is the word nearest to q.
func (s Scale) EncodeCharge(q unit.AmpereHours) uint16 { return word(float64(q) * 1000 / s.Current) }

// EncodeEnergy is the word nearest to e.
func (s Scale) EncodeEnergy(e unit.WattHours) uint16 {
	return word(float64(e) * 100 / (s.Current * s.Voltage))
}

// word rounds x into the range of an unsigned word; NaN gives 0.
func word(x float64) uint16 {
	if math.IsNaN(x) {
		return 0
	}
	return uint16(math.Round(min(max(x, 0), math.MaxUint16)))
}

// signed rounds x into the range of a word in two's complement; NaN gives 0.
func signed(x float64) uint16 {
	if math.IsNaN(x) {
		return 0
	}
	return uint16(int16(math.Round(min(max(x, math.MinInt16), math.MaxInt16))))
}

// DecodeMillivolts converts a cell voltage or ChargingVoltage, which no scale touches.
func DecodeMillivolts(w uint16) unit.Volts { return unit.Volts(w) / 1000 }

// DecodeMilliamperes converts ChargingCurrent, which no scale touches; it is never negative.
func DecodeMilliamperes(w uint16) unit.Amperes { return unit.Amperes(w) / 1000 }

// The plausible window of a temperature, in 0.1 K: −59.95 to 149.95 °C.
const coldest, hottest = 2132, 4231

// DecodeTemperature converts 0.1 K; NaN outside the plausible window.
func DecodeTemperature(w uint16) unit.Celsius {
	if w < coldest || w > hottest {
		return unit.Unknown[unit.Celsius]()
	}
	return unit.Celsius(float64(w)/10 - 273.15)
}

// EncodeTemperature is the word nearest to t.
func EncodeTemperature(t unit.Celsius) uint16 { return word((float64(t) + 273.15) * 10) }

// endless is the time of a pack that is not on the way there.
const endless = 0xffff

// DecodeMinutes converts a time to full or to empty; NaN where the pack is not on the way there.
func DecodeMinutes(w uint16) unit.Seconds {
	if w == endless {
		return unit.Unknown[unit.Seconds]()
	}
	return unit.Seconds(w) * 60
}

// DecodePercent converts a state of charge or MaxError. A gauge may tell up to 120 %, which is full; above,
// the word is no percentage, and the ratio NaN.
func DecodePercent(w uint16) unit.Ratio {
	if w > 120 {
		return unit.Unknown[unit.Ratio]()
	}
	return unit.Ratio(min(w, 100)) / 100
}

// StateOfHealth is the word at 0x4f of a BQ40Z50.
type StateOfHealth uint16

// Capacity is what is left of the design capacity; NaN if the byte is no percentage.
func (s StateOfHealth) Capacity() unit.Ratio { return DecodePercent(uint16(s & 0xff)) }

// Energy is what is left of the design energy; NaN if the byte is no percentage.
func (s StateOfHealth) Energy() unit.Ratio { return DecodePercent(uint16(s >> 8)) }

// Date is ManufactureDate: day in bits 4..0, month in 8..5, years since 1980 in 15..9 (SBS 1.1, 5.1.26).
type Date uint16

// NewDate packs a day of the years 1980 to 2107.
func NewDate(year int, month time.Month, day int) Date {
	return Date((year-1980)<<9 | int(month)<<5 | day)
}

// String is the ISO date, as "2023-11-28"; empty if the word is no day of the calendar.
func (d Date) String() string {
	year, month, day := 1980+int(d>>9), time.Month(d>>5&15), int(d&31)
	if t := time.Date(year, month, day, 0, 0, 0, 0, time.UTC); t.Month() != month || t.Day() != day {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, int(month), day)
}

// DecodeText is the text of a block: cut at the first NUL and trimmed, other bytes than printable ASCII
// replaced by "?".
func DecodeText(b []byte) string {
	text := string(b)
	if end := strings.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	var out strings.Builder
	for _, c := range []byte(strings.Trim(text, " \t\r\n")) {
		if c < ' ' || c > '~' {
			c = '?'
		}
		out.WriteByte(c)
	}
	return out.String()
}

// DecodeChemistry finds the technology in the text of DeviceChemistry.
func DecodeChemistry(text string) bms.Technology {
	text = strings.ToUpper(strings.TrimSpace(text))
	for _, known := range [...]struct {
		prefix string
		is     bms.Technology
	}{
		{"LIFE", bms.LiFe}, {"LFP", bms.LiFe}, {"LION", bms.LiIon}, {"LI-ION", bms.LiIon}, {"LIP", bms.LiPo},
		{"LIMN", bms.LiMn}, {"NICD", bms.NiCd}, {"NIMH", bms.NiMH}, {"PBAC", bms.VRLA},
	} {
		if strings.HasPrefix(text, known.prefix) {
			return known.is
		}
	}
	return bms.TechnologyUnknown
}
