package sbs

import (
	"encoding/binary"
	"fmt"
	"math"

	"hilgate/model/link"
	"hilgate/model/unit"
)

// Sub-commands of ManufacturerAccess that only read (TI SLUUCH2 13.1, SLUUBD3D, SLUUBT5C).
const (
	MACDeviceType          = 0x0001 // word, low byte first
	MACFirmwareVersion     = 0x0002 // Firmware
	MACChemID              = 0x0006
	MACSafetyAlert         = 0x0050 // Safety
	MACSafetyStatus        = 0x0051 // Safety
	MACFailureAlert        = 0x0052 // Failure
	MACFailureStatus       = 0x0053 // Failure
	MACOperationStatus     = 0x0054 // Operation
	MACChargingStatus      = 0x0055
	MACGaugingStatus       = 0x0056 // Gauging
	MACManufacturingStatus = 0x0057
	MACLifetime1           = 0x0060
	MACLifetime5           = 0x0064
	MACDAStatus1           = 0x0071 // DAStatus1
	MACDAStatus2           = 0x0072 // Temperatures
	MACGauging1            = 0x0073
	MACGauging3            = 0x0075
	MACStateOfHealth       = 0x0077
	MACFilteredCapacity    = 0x0078
	MACDAStatus3           = 0x007b // DAStatus3
)

// MaxMAC is the longest answer at CmdBlockAccess: the echo and 32 bytes.
const MaxMAC = 2 + 32

// Harmless reports whether a sub-command only reads. All others change the pack, some for good (fuse, seal,
// shutdown, ROM mode, data flash): a driver must not send them.
func Harmless(sub uint16) bool {
	switch {
	case sub == MACDeviceType, sub == MACFirmwareVersion, sub == MACChemID,
		sub >= MACSafetyAlert && sub <= MACManufacturingStatus,
		sub >= MACLifetime1 && sub <= MACLifetime5,
		sub >= MACDAStatus1 && sub <= MACGauging3,
		sub == MACStateOfHealth, sub == MACFilteredCapacity, sub == MACDAStatus3:
		return true
	}
	return false
}

// macLen is how many bytes a sub-command answers; the most that there can be where chips differ.
func macLen(sub uint16) int {
	switch sub {
	case MACDeviceType, MACChemID, MACManufacturingStatus:
		return 2
	case MACGaugingStatus, MACChargingStatus:
		return 3
	case MACSafetyAlert, MACSafetyStatus, MACFailureAlert, MACFailureStatus, MACOperationStatus:
		return 4
	case MACFirmwareVersion:
		return 11
	case MACDAStatus2:
		return 14
	case MACDAStatus3:
		return 18
	}
	return 32
}

// AppendMAC appends what selects a sub-command, or heads its answer: its number, low byte first.
func AppendMAC(dst []byte, sub uint16) []byte { return binary.LittleEndian.AppendUint16(dst, sub) }

// ParseMAC cuts the echo of the sub-command off the block read at CmdBlockAccess. A wrong echo is
// link.Malformed: another master selected something else in between. A block without echo is link.Short.
func ParseMAC(block []byte, sub uint16) (data []byte, err error) {
	if len(block) < 2 {
		return nil, fmt.Errorf("block of %d bytes has no echo: %w", len(block), link.Short)
	}
	if echo := binary.LittleEndian.Uint16(block); echo != sub {
		return nil, fmt.Errorf("echo of 0x%04x, asked for 0x%04x: %w", echo, sub, link.Malformed)
	}
	return block[2:], nil
}

// ParseBits reads the 2, 3 or 4 bytes of a status sub-command; another length is link.Short.
func ParseBits(data []byte) (uint32, error) {
	if len(data) < 2 || len(data) > 4 {
		return 0, fmt.Errorf("status of %d bytes: %w", len(data), link.Short)
	}
	var b [4]byte
	copy(b[:], data)
	return binary.LittleEndian.Uint32(b[:]), nil
}

// DAStatus1 is sub-command 0x0071: the first four cells.
type DAStatus1 struct {
	Cells        [4]unit.Volts   // cell 1 first
	Pack         unit.Volts      // at the cell stack (pin BAT)
	Terminals    unit.Volts      // behind the transistors (pin PACK)
	Currents     [4]unit.Amperes // while each cell was measured
	Powers       [4]unit.Watts
	Power        unit.Watts // voltage by current; negative discharging
	AveragePower unit.Watts
}

const lenDAStatus1, lenDAStatus2, lenDAStatus3 = 32, 14, 18

// ParseDAStatus1 decodes the data behind the echo; fewer than 32 bytes are link.Short.
func ParseDAStatus1(data []byte) (d DAStatus1, err error) {
	if len(data) < lenDAStatus1 {
		return d, fmt.Errorf("DAStatus1 of %d bytes: %w", len(data), link.Short)
	}
	for i := range 4 {
		d.Cells[i] = DecodeMillivolts(at(data, i))
		d.Currents[i] = unit.Amperes(int16(at(data, 6+i))) / 1000
		d.Powers[i] = unit.Watts(int16(at(data, 10+i))) / 100
	}
	d.Pack, d.Terminals = DecodeMillivolts(at(data, 4)), DecodeMillivolts(at(data, 5))
	d.Power, d.AveragePower = unit.Watts(int16(at(data, 14)))/100, unit.Watts(int16(at(data, 15)))/100
	return d, nil
}

// Append appends the 32 bytes of d.
func (d DAStatus1) Append(dst []byte) []byte {
	for _, c := range d.Cells {
		dst = appendWord(dst, word(float64(c)*1000))
	}
	dst = appendWord(appendWord(dst, word(float64(d.Pack)*1000)), word(float64(d.Terminals)*1000))
	for _, i := range d.Currents {
		dst = appendWord(dst, signed(float64(i)*1000))
	}
	for _, p := range d.Powers {
		dst = appendWord(dst, signed(float64(p)*100))
	}
	return appendWord(appendWord(dst, signed(float64(d.Power)*100)), signed(float64(d.AveragePower)*100))
}

// DAStatus3 is sub-command 0x007b of a BQ40Z80: cells 5 to 7.
type DAStatus3 struct {
	Cells    [3]unit.Volts
	Currents [3]unit.Amperes
	Powers   [3]unit.Watts
}

// ParseDAStatus3 decodes the data behind the echo; fewer than 18 bytes are link.Short.
func ParseDAStatus3(data []byte) (d DAStatus3, err error) {
	if len(data) < lenDAStatus3 {
		return d, fmt.Errorf("DAStatus3 of %d bytes: %w", len(data), link.Short)
	}
	for i := range 3 {
		d.Cells[i] = DecodeMillivolts(at(data, 3*i))
		d.Currents[i] = unit.Amperes(int16(at(data, 3*i+1))) / 1000
		d.Powers[i] = unit.Watts(int16(at(data, 3*i+2))) / 100
	}
	return d, nil
}

// Append appends the 18 bytes of d.
func (d DAStatus3) Append(dst []byte) []byte {
	for i := range 3 {
		dst = appendWord(dst, word(float64(d.Cells[i])*1000))
		dst = appendWord(dst, signed(float64(d.Currents[i])*1000))
		dst = appendWord(dst, signed(float64(d.Powers[i])*100))
	}
	return dst
}

// Temperatures is DAStatus2, sub-command 0x0072: internal, TS1 to TS4, cell and transistors, as
// TemperatureNames has them. NaN is a sensor that is not fitted.
type Temperatures [7]unit.Celsius

// TemperatureNames names the sensors of Temperatures.
func TemperatureNames() []string {
	return []string{"internal", "ts1", "ts2", "ts3", "ts4", "cell", "fet"}
}

// ParseTemperatures decodes the data behind the echo; fewer than 14 bytes are link.Short.
func ParseTemperatures(data []byte) (t Temperatures, err error) {
	if len(data) < lenDAStatus2 {
		return t, fmt.Errorf("DAStatus2 of %d bytes: %w", len(data), link.Short)
	}
	for i := range t {
		t[i] = DecodeTemperature(at(data, i)) // 0, not fitted, is outside the window
	}
	return t, nil
}

// Append appends the 14 bytes of t; NaN becomes 0.
func (t Temperatures) Append(dst []byte) []byte {
	for _, c := range t {
		dst = appendWord(dst, EncodeTemperature(c))
	}
	return dst
}

// Sensors are the temperatures of the cells: those of TS1 to TS4 that are fitted; nil if none is.
func (t Temperatures) Sensors() []unit.Celsius {
	var fitted []unit.Celsius
	for _, c := range t[1:5] {
		if unit.Known(c) {
			fitted = append(fitted, c)
		}
	}
	return fitted
}

// Firmware is sub-command 0x0002, whose words are big-endian.
type Firmware struct {
	Device, Version, Build uint16
	Type                   uint8
}

// ParseFirmware decodes the data behind the echo; fewer than 7 bytes are link.Short. What follows them
// tells of the gauging algorithm and is left alone.
func ParseFirmware(data []byte) (Firmware, error) {
	if len(data) < 7 {
		return Firmware{}, fmt.Errorf("firmware version of %d bytes: %w", len(data), link.Short)
	}
	return Firmware{
		Device: binary.BigEndian.Uint16(data), Version: binary.BigEndian.Uint16(data[2:]),
		Build: binary.BigEndian.Uint16(data[4:]), Type: data[6],
	}, nil
}

// Append appends the 11 bytes of f.
func (f Firmware) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, f.Device)
	dst = binary.BigEndian.AppendUint16(dst, f.Version)
	dst = binary.BigEndian.AppendUint16(dst, f.Build)
	return append(dst, f.Type, 0, 0, 0, 0)
}

// String is as "4500 v2.08 build 21": TI writes these numbers in hexadecimal digits.
func (f Firmware) String() string {
	return fmt.Sprintf("%04x v%x.%02x build %x", f.Device, f.Version>>8, f.Version&0xff, f.Build)
}

// at is the i-th little-endian word of b.
func at(b []byte, i int) uint16 { return binary.LittleEndian.Uint16(b[2*i:]) }

func appendWord(dst []byte, w uint16) []byte { return binary.LittleEndian.AppendUint16(dst, w) }

// hottestOf is the greatest known temperature; NaN if none is known.
func hottestOf(ts []unit.Celsius) unit.Celsius {
	most := unit.Celsius(math.NaN())
	for _, t := range ts {
		if unit.Known(t) && !(t <= most) {
			most = t
		}
	}
	return most
}
