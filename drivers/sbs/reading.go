package sbs

import (
	"fmt"
	"time"

	"hilgate/bms"
	"hilgate/model/unit"
)

// reading makes a Reading of what the pack told and what is not too old by now.
func (p *Pack) reading(at time.Time) bms.Reading {
	r := bms.Unmeasured()
	if p.presence != present {
		return r
	}
	p.expire(at)
	r.Present = true
	if w, ok := p.word(CmdVoltage); ok && w != 0xffff {
		r.Voltage = p.scale.DecodeVoltage(w)
	}
	if w, ok := p.word(CmdCurrent); ok {
		r.Current = p.scale.DecodeCurrent(w)
	}
	if w, ok := p.word(CmdAverageCurrent); ok {
		r.AverageCurrent = p.scale.DecodeCurrent(w)
	}
	if w, ok := p.word(CmdTemperature); ok {
		r.Temperature = DecodeTemperature(w)
	}
	if it := p.lookup(CmdBlockAccess, MACDAStatus2); it != nil && !it.good.IsZero() {
		if t, err := ParseTemperatures(it.block); err == nil {
			r.CellTemperatures = t.Sensors()
			if !unit.Known(r.Temperature) {
				r.Temperature = hottestOf(r.CellTemperatures)
			}
		}
	}
	r.Cells = p.cellVoltages()
	p.readCharge(&r)
	p.readTimes(&r)
	p.readCondition(&r)
	return r
}

// readCharge fills in charge and what is derived from it.
func (p *Pack) readCharge(r *bms.Reading) {
	r.Charge = p.capacity(CmdRemainingCapacity, r.Voltage)
	r.Capacity = p.capacity(CmdFullChargeCapacity, r.Voltage)
	r.DesignCapacity = p.capacity(CmdDesignCapacity, r.Voltage)
	if w, ok := p.word(CmdRelativeStateOfCharge); ok {
		r.SoC = DecodePercent(w)
	}
	if !unit.Known(r.SoC) && r.Capacity > 0 {
		r.SoC = unit.Clamp(unit.Ratio(r.Charge/r.Capacity), 0, 1)
	}
	if w, ok := p.word(CmdMaxError); ok {
		r.SoCError = DecodePercent(w)
	}
	if w, ok := p.word(CmdStateOfHealth); ok {
		r.SoH = StateOfHealth(w).Capacity()
	}
	if w, ok := p.word(CmdCycleCount); ok {
		r.Cycles = float64(w)
	}
}

// capacity converts one of the capacities, in the unit that BatteryMode has at present; a pack without that
// register counts in mAh. Energy is divided by the nominal voltage, not the present one, so that charge
// and capacity stay consistent while the pack empties.
func (p *Pack) capacity(cmd uint8, terminal unit.Volts) unit.AmpereHours {
	w, ok := p.word(cmd)
	mode, told := p.word(CmdBatteryMode)
	if !ok || !told && p.find(CmdBatteryMode).refusals == 0 {
		return unit.Unknown[unit.AmpereHours]()
	}
	if !told || Mode(mode)&CapacityMode == 0 {
		return p.scale.DecodeCharge(w)
	}
	nominal := p.nominal(terminal)
	if !(nominal > 0) {
		return unit.Unknown[unit.AmpereHours]()
	}
	return unit.AmpereHours(float64(p.scale.DecodeEnergy(w)) / float64(nominal))
}

// nominal is the pack's nominal voltage: as configured, or DesignVoltage. A BQ78350 may have that of one
// cell there, which shows by being far below the terminal voltage.
func (p *Pack) nominal(terminal unit.Volts) unit.Volts {
	if p.params.NominalVoltage > 0 {
		return p.params.NominalVoltage
	}
	w, ok := p.word(CmdDesignVoltage)
	if !ok {
		return unit.Unknown[unit.Volts]()
	}
	design := p.scale.DecodeVoltage(w)
	if design < 0.6*terminal && p.cells > 1 {
		return design * unit.Volts(p.cells)
	}
	return design
}

// readTimes fills in times, and what the pack wants of its charger. There, 65535 stands for "no bound".
func (p *Pack) readTimes(r *bms.Reading) {
	if w, ok := p.word(CmdAverageTimeToEmpty); ok {
		r.TimeToEmpty = DecodeMinutes(w)
	}
	if w, ok := p.word(CmdAverageTimeToFull); ok {
		r.TimeToFull = DecodeMinutes(w)
	}
	if w, ok := p.word(CmdChargingVoltage); ok && w != 0xffff {
		r.ChargingVoltage = DecodeMillivolts(w)
	}
	if w, ok := p.word(CmdChargingCurrent); ok && w != 0xffff {
		r.ChargingCurrent = DecodeMilliamperes(w)
	}
}

// readCondition fills in status, health and faults.
func (p *Pack) readCondition(r *bms.Reading) {
	var c condition
	status, told := p.word(CmdBatteryStatus)
	c.status, c.told = Status(status), told
	safety, _ := p.bits(MACSafetyStatus)
	failure, _ := p.bits(MACFailureStatus)
	operation, _ := p.bits(MACOperationStatus)
	c.safety = Safety(safety)
	c.failed = failure != 0 || Operation(operation)&FailureActive != 0
	r.Status = c.powerSupply(r.Current, p.params.CurrentDeadband)
	r.Health = c.health()
	r.Faults = c.faults()
	mode, _ := p.word(CmdBatteryMode)
	r.NotCalibrated = told && c.status&Initialized == 0 || Mode(mode)&ConditionFlag != 0
}

// condition is what the flags of a pack come down to.
type condition struct {
	status Status
	told   bool // status is known
	safety Safety
	failed bool // for good
}

// powerSupply tells where the current goes. The measured current is believed before the flag, which lags
// behind at a change.
func (c condition) powerSupply(i, deadband unit.Amperes) bms.Status {
	switch {
	case !c.told:
		return bms.StatusUnknown
	case i > deadband:
		return bms.Charging
	case i < -deadband:
		return bms.Discharging
	case c.status&FullyCharged != 0:
		return bms.Full
	case unit.Known(i):
		return bms.NotCharging
	case c.status&DischargingOrResting != 0:
		return bms.Discharging
	}
	return bms.Charging
}

// health is the first that applies. A pack that is merely empty is not dead.
func (c condition) health() bms.Health {
	switch {
	case !c.told:
		return bms.HealthUnknown
	case c.failed:
		return bms.Dead
	case c.status&OverTempAlarm != 0 || c.safety&(OTC|OTD|OTF) != 0:
		return bms.Overheat
	case c.status&OverChargedAlarm != 0 || c.safety&(COV|COVL) != 0:
		return bms.Overvoltage
	case c.safety&(UTC|UTD) != 0:
		return bms.Cold
	case c.safety&(PTO|CTO) != 0:
		return bms.SafetyTimerExpire
	case c.safety&HWD != 0:
		return bms.WatchdogTimerExpire
	case c.safety != 0:
		return bms.UnspecFailure
	}
	return bms.Good
}

func (c condition) faults() bms.Faults {
	f := c.safety.Faults()
	if c.failed {
		f |= bms.PermanentFailure
	}
	if c.told && c.status&OverTempAlarm != 0 {
		f |= bms.Overtemperature
	}
	if c.told && c.status&OverChargedAlarm != 0 {
		f |= bms.PackOvervoltage
	}
	return f
}

// cellVoltages lists the cells, NaN where one was not told lately; nil if the gauge tells of none.
func (p *Pack) cellVoltages() []unit.Volts {
	if p.cells == 0 {
		return nil
	}
	cells := make([]unit.Volts, p.cells)
	for i := range cells {
		cells[i] = unit.Unknown[unit.Volts]()
		if w, ok := p.word(CmdCell1 - uint8(i)); ok && p.chip != ChipBQ40Z80 {
			cells[i] = DecodeMillivolts(w)
		}
	}
	if p.chip != ChipBQ40Z80 {
		return cells
	}
	if it := p.lookup(CmdBlockAccess, MACDAStatus1); !it.good.IsZero() {
		if d, err := ParseDAStatus1(it.block); err == nil {
			copy(cells, d.Cells[:])
		}
	}
	if it := p.lookup(CmdBlockAccess, MACDAStatus3); it != nil && !it.good.IsZero() {
		if d, err := ParseDAStatus3(it.block); err == nil {
			copy(cells[4:], d.Cells[:])
		}
	}
	return cells
}

// identify makes the Identity of what the pack told of itself.
func (p *Pack) identify() {
	text := func(cmd uint8) string {
		if it := p.find(cmd); !it.good.IsZero() {
			return DecodeText(it.block)
		}
		return ""
	}
	id := bms.Identity{
		Manufacturer: text(CmdManufacturerName), Device: text(CmdDeviceName),
		Chemistry: DecodeChemistry(text(CmdDeviceChemistry)), Link: "no PEC",
	}
	if t := bms.Technology(p.params.Technology); t != bms.TechnologyUnknown {
		id.Chemistry = t
	}
	if w, ok := p.word(CmdSerialNumber); ok {
		id.Serial = fmt.Sprintf("%04x", w)
	}
	if w, ok := p.word(CmdManufactureDate); ok {
		id.Manufactured = Date(w).String()
	}
	if it := p.lookup(CmdBlockAccess, MACFirmwareVersion); it != nil && !it.good.IsZero() {
		if f, err := ParseFirmware(it.block); err == nil {
			id.Firmware = f.String()
		}
	}
	if p.dev.PEC {
		id.Link = "PEC"
	}
	p.identity = id
}
