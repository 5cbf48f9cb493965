package sbs

import (
	"math"

	"hilgate/model/unit"
)

// access tells what the chip lets a host do with a command.
func (s *Sim) access(cmd uint8) access {
	extended := s.chip.extended()
	switch {
	case cmd <= CmdAtRate:
		return wordPort
	case cmd <= CmdSerialNumber, cmd >= CmdManufacturerName && cmd <= CmdManufacturerData:
		return readOnly
	case cmd <= CmdCell1 && cmd > CmdCell1-maxCellWords:
		if s.cellWord(int(CmdCell1-cmd)) >= 0 {
			return readOnly
		}
	case cmd == CmdBlockAccess && extended:
		return blockPort
	case cmd == CmdStateOfHealth && extended && s.chip != ChipBQ78350:
		return readOnly
	case Harmless(uint16(cmd)) && cmd >= MACSafetyAlert && extended && !s.sealed:
		return readOnly // the same as the sub-command of that number
	}
	return unknown
}

// cellWord is the word of cell i; −1 if the chip has none for it. A chip with words for its own cells has
// zero in those that are not connected.
func (s *Sim) cellWord(i int) int {
	switch {
	case s.chip == ChipBQ40Z80 || i >= s.chip.maxCells():
		return -1
	case i < len(s.gauge.cells):
		return int(word(float64(s.gauge.cells[i]) * 1000))
	case s.chip == ChipSBS:
		return -1
	}
	return 0
}

// appendRegister appends what a read of a command gives, without packet error code; ok is false if it is
// refused.
func (s *Sim) appendRegister(dst []byte, cmd uint8) (_ []byte, ok bool) {
	block := func(data []byte) []byte { return append(append(dst, byte(len(data))), data...) }
	switch cmd {
	case CmdManufacturerName:
		return block([]byte(s.label.Manufacturer)), true
	case CmdDeviceName:
		return block([]byte(s.label.Device)), true
	case CmdDeviceChemistry:
		return block([]byte(s.label.Chemistry)), true
	case CmdManufacturerData:
		if s.chip.extended() && s.selected {
			return block(s.appendSub(nil, s.sub)), true
		}
		return block(nil), true
	case CmdBlockAccess:
		s.intrude()
		if !s.selected {
			return dst, false
		}
		return block(s.appendSub(AppendMAC(nil, s.sub), s.sub)), true
	}
	if cmd >= MACSafetyAlert {
		return block(s.appendSub(nil, uint16(cmd))), true
	}
	return appendWord(dst, s.register(cmd)), true
}

// intrude is another master that selects something else before the host has read its answer.
func (s *Sim) intrude() {
	if s.faults.intrusions > 0 && s.selected {
		s.faults.intrusions--
		s.sub ^= MACSafetyStatus ^ MACOperationStatus
	}
}

// register is a register of one word.
func (s *Sim) register(cmd uint8) uint16 {
	g := &s.gauge
	switch cmd {
	case CmdManufacturerAccess:
		return uint16(s.operation())
	case CmdRemainingCapacityAlarm:
		if s.capSet {
			return s.capAlarm
		}
		return s.capacity(s.design() / 10)
	case CmdRemainingTimeAlarm:
		return s.timeAlarm
	case CmdBatteryMode:
		return uint16(s.mode)
	case CmdAtRate:
		return uint16(s.atRate)
	case CmdAtRateTimeToFull:
		return minutes(float64(g.full-g.remaining), s.rate())
	case CmdAtRateTimeToEmpty:
		return minutes(float64(g.remaining), -s.rate())
	case CmdAtRateOK:
		if s.rate() >= 0 || float64(g.remaining) > -s.rate()*10/3600 {
			return 1
		}
	case CmdTemperature:
		return EncodeTemperature(g.temperature)
	case CmdVoltage:
		return s.scale.EncodeVoltage(g.voltage)
	case CmdCurrent:
		return s.scale.EncodeCurrent(g.current)
	case CmdAverageCurrent:
		return s.scale.EncodeCurrent(g.average())
	case CmdMaxError:
		return 1
	case CmdRelativeStateOfCharge:
		return g.percent
	case CmdAbsoluteStateOfCharge:
		return word(100 * float64(g.remaining/s.design()))
	case CmdRemainingCapacity:
		return s.capacity(g.remaining)
	case CmdFullChargeCapacity:
		return s.capacity(g.full)
	case CmdRunTimeToEmpty:
		return minutes(float64(g.remaining), -float64(g.current))
	case CmdAverageTimeToEmpty:
		return minutes(float64(g.remaining), -float64(g.average()))
	case CmdAverageTimeToFull:
		return minutes(float64(g.full-g.remaining), float64(g.average()))
	case CmdChargingCurrent:
		if c := s.pack.Config(); !g.fullyCharged && c.ChargingTime > 0 {
			return word(1000 * float64(c.Capacity) / c.ChargingTime)
		}
	case CmdChargingVoltage:
		if !g.fullyCharged {
			return word(1000 * float64(s.pack.Config().E0))
		}
	case CmdBatteryStatus:
		return uint16(s.status())
	case CmdCycleCount:
		return word(math.Floor(g.discharged / float64(s.design())))
	case CmdDesignCapacity:
		return s.capacity(s.design())
	case CmdDesignVoltage:
		if s.chip == ChipBQ78350 { // of one cell (SLUUBD3D)
			return s.scale.EncodeVoltage(s.nominal / unit.Volts(s.pack.CellCount()))
		}
		return s.scale.EncodeVoltage(s.nominal)
	case CmdSpecificationInfo:
		return s.spec.Word()
	case CmdManufactureDate:
		return uint16(s.label.Manufactured)
	case CmdSerialNumber:
		return s.label.Serial
	case CmdStateOfHealth:
		health := word(min(100, 100*float64(g.full/s.design())))
		return health | health<<8
	default:
		return uint16(max(0, s.cellWord(int(CmdCell1)-int(cmd))))
	}
	return 0
}

// design is the capacity when new.
func (s *Sim) design() unit.AmpereHours { return s.pack.Config().Capacity }

// capacity is a capacity in the unit that BatteryMode has.
func (s *Sim) capacity(q unit.AmpereHours) uint16 {
	if s.mode&CapacityMode != 0 {
		return s.scale.EncodeEnergy(unit.WattHours(float64(q) * float64(s.nominal)))
	}
	return s.scale.EncodeCharge(q)
}

// rate is AtRate in amperes.
func (s *Sim) rate() float64 {
	if s.mode&CapacityMode != 0 {
		return float64(s.atRate) * s.scale.Current * s.scale.Voltage / 100 / float64(s.nominal)
	}
	return float64(s.atRate) * s.scale.Current / 1000
}

// minutes is how long a charge in Ah lasts at a rate in A; 65535 if it does not come to an end.
func minutes(charge, rate float64) uint16 {
	if rate <= 0 {
		return endless
	}
	return word(min(max(0, charge)/rate*60, endless-1))
}

func (s *Sim) status() Status {
	g := &s.gauge
	st := Initialized | Status(s.code)
	set := func(on bool, bits Status) {
		if on {
			st |= bits
		}
	}
	set(g.current <= 0, DischargingOrResting)
	set(g.fullyCharged, FullyCharged|TerminateChargeAlarm)
	set(g.fullyDischarged, FullyDischarged)
	set(g.percent == 0 || s.pack.Protected(), TerminateDischargeAlarm)
	set(s.protections()&(OTC|OTD|OTF) != 0, OverTempAlarm)
	set(s.protections()&(COV|COVL|OC) != 0, OverChargedAlarm)
	limit := s.register(CmdRemainingCapacityAlarm)
	set(limit > 0 && s.capacity(g.remaining) < limit, RemainingCapacityAlarm)
	set(s.timeAlarm > 0 && minutes(float64(g.remaining), -float64(g.average())) < s.timeAlarm, RemainingTimeAlarm)
	return st
}

// tooHot is where the gauge's protection against heat trips, in °C.
const tooHot unit.Celsius = 65

func (s *Sim) protections() Safety {
	tripped := s.safety
	if s.pack.Protected() {
		tripped |= CUV
	}
	if s.gauge.temperature > tooHot {
		tripped |= OTD
	}
	return tripped
}

func (s *Sim) operation() Operation {
	const pres, dsg, chg, xdsg = 1 << 0, 1 << 1, 1 << 2, 1 << 13
	op := Operation(pres | chg)
	if s.pack.Protected() {
		op |= xdsg
	} else {
		op |= dsg
	}
	security := Unsealed
	if s.sealed {
		security = Sealed
	}
	op |= Operation(security) << 8
	if s.protections() != 0 {
		op |= SafetyActive
	}
	if s.failure != 0 {
		op |= FailureActive
	}
	return op
}

// deviceType is what the chip says it is.
func (s *Sim) deviceType() uint16 {
	switch s.chip {
	case ChipBQ78350:
		return typeBQ78350
	case ChipBQ40Z50:
		return typeBQ40Z50
	}
	return 0x4000 // of the others no document at hand tells the number
}

// appendSub appends what a sub-command tells. One that this simulator knows nothing of tells zeros.
func (s *Sim) appendSub(dst []byte, sub uint16) []byte {
	g := &s.gauge
	switch sub {
	case MACDeviceType:
		return appendWord(dst, s.deviceType())
	case MACFirmwareVersion:
		return Firmware{Device: s.deviceType(), Version: 0x0208, Build: 0x21, Type: 1}.Append(dst)
	case MACSafetyStatus, MACSafetyAlert:
		return appendLong(dst, uint32(s.protections()))
	case MACFailureStatus, MACFailureAlert:
		return appendLong(dst, uint32(s.failure))
	case MACOperationStatus:
		return appendLong(dst, uint32(s.operation()))
	case MACDAStatus1:
		power := unit.Watts(float64(g.voltage) * float64(g.current))
		d := DAStatus1{
			Pack: g.voltage, Terminals: s.pack.Supply(), Power: power,
			AveragePower: unit.Watts(float64(g.voltage) * float64(g.average())),
		}
		for i := range min(4, len(g.cells)) {
			d.Cells[i], d.Currents[i] = g.cells[i], g.current
			d.Powers[i] = unit.Watts(float64(g.cells[i]) * float64(g.current))
		}
		return d.Append(dst)
	case MACDAStatus2:
		none := unit.Unknown[unit.Celsius]()
		t := g.temperature
		return Temperatures{t, t, none, none, none, t, t}.Append(dst)
	case MACDAStatus3:
		var d DAStatus3
		for i := 4; i < min(7, len(g.cells)); i++ {
			d.Cells[i-4], d.Currents[i-4] = g.cells[i], g.current
			d.Powers[i-4] = unit.Watts(float64(g.cells[i]) * float64(g.current))
		}
		return d.Append(dst)
	case MACStateOfHealth:
		dst = appendWord(dst, word(1000*float64(g.full)))
		return appendWord(dst, word(100*float64(g.full)*float64(s.nominal)))
	}
	return append(dst, make([]byte, macLen(sub))...)
}

func appendLong(dst []byte, bits uint32) []byte {
	return appendWord(appendWord(dst, uint16(bits)), uint16(bits>>16))
}
