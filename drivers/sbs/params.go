package sbs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hilgate/bms"
	"hilgate/drivers/smbus"
	"hilgate/model/unit"
)

// Params are the driver's keys in a configuration.
type Params struct {
	Address uint16 `yaml:"address"` // 7 bits; 0x0b unless the pack is strapped to another

	// PEC says whether packet error codes are asked for and checked. auto tries a pack that claims to
	// have them, since some claim it and have none.
	PEC PECPolicy `yaml:"pec"`

	// Chip says which extensions the gauge has beyond SBS; auto asks it.
	Chip Chip `yaml:"chip"`

	Cells int `yaml:"cells"` // in series; 0 counts those that the gauge tells of

	// NominalVoltage of the pack, by which a gauge that counts in 10 mWh is converted to ampere-hours;
	// 0 takes DesignVoltage.
	NominalVoltage unit.Volts `yaml:"nominal_voltage"`

	// Factors on top of what SpecificationInfo says, for gauges that were set to divide and do not tell:
	// the one for currents and capacities, the other for pack and design voltage.
	CurrentMultiplier float64 `yaml:"current_multiplier"`
	VoltageMultiplier float64 `yaml:"voltage_multiplier"`

	// WritePolicy bounds what is ever written to the pack, beyond selecting what to read.
	WritePolicy WritePolicy `yaml:"write_policy"`

	Technology      Technology   `yaml:"technology"`       // auto takes DeviceChemistry
	CurrentDeadband unit.Amperes `yaml:"current_deadband"` // below it the pack neither charges nor discharges
	Location        string       `yaml:"location"`         // of the pack in the robot; empty gives bus and address

	// Periods of the registers that are not read at each poll, and the silence after which a pack is gone.
	NormalPeriod time.Duration `yaml:"normal_period"` // state of charge, cells, temperature
	SlowPeriod   time.Duration `yaml:"slow_period"`   // capacity, times, flags, serial number
	AbsentAfter  time.Duration `yaml:"absent_after"`

	// Quirks of gauge and wiring.
	Gap               time.Duration `yaml:"gap"`                // least silence between transactions
	ExactLength       bool          `yaml:"exact_length"`       // the gauge cannot stand to be read beyond a block
	SplitTransactions bool          `yaml:"split_transactions"` // a stop before each answer; excludes PEC
}

// Defaults are the parameters where a configuration says nothing.
func Defaults() Params {
	return Params{
		Address: BatteryAddress, CurrentMultiplier: 1, VoltageMultiplier: 1,
		NormalPeriod: time.Second, SlowPeriod: 5 * time.Second, AbsentAfter: 5 * time.Second, Gap: time.Millisecond,
	}
}

// BusAddress is the pack's 7-bit address.
func (p Params) BusAddress() uint16 { return p.Address }

// Check tells every value that is out of bounds.
func (p Params) Check() error {
	var faults []error
	want := func(ok bool, key string, value any, bound string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s: %v, want %s", key, value, bound))
		}
	}
	within := func(key string, d, least, most time.Duration) {
		want(d >= least && d <= most, key, d, fmt.Sprintf("%v to %v", least, most))
	}
	want(p.Address >= 0x08 && p.Address <= 0x77, "address", fmt.Sprintf("0x%02x", p.Address), "0x08 to 0x77")
	want(p.Cells >= 0 && p.Cells <= p.Chip.maxCells(), "cells", p.Cells, fmt.Sprintf("0 to %d", p.Chip.maxCells()))
	want(p.NominalVoltage >= 0 && p.NominalVoltage <= 1000, "nominal_voltage", p.NominalVoltage, "0 to 1000 V")
	want(p.CurrentMultiplier > 0 && p.CurrentMultiplier <= 1000, "current_multiplier", p.CurrentMultiplier, "above 0, to 1000")
	want(p.VoltageMultiplier > 0 && p.VoltageMultiplier <= 1000, "voltage_multiplier", p.VoltageMultiplier, "above 0, to 1000")
	want(p.CurrentDeadband >= 0 && p.CurrentDeadband <= 10, "current_deadband", p.CurrentDeadband, "0 to 10 A")
	within("normal_period", p.NormalPeriod, 100*time.Millisecond, normalLimit/2)
	within("slow_period", p.SlowPeriod, time.Second, slowLimit/2)
	within("absent_after", p.AbsentAfter, time.Second, time.Hour)
	within("gap", p.Gap, 0, 100*time.Millisecond)
	want(!p.SplitTransactions || p.PEC == PECOff, "split_transactions", true,
		"pec: off with it, since a stop in between leaves open what a PEC covers")
	return errors.Join(faults...)
}

func (p Params) quirks() smbus.Options {
	return smbus.Options{Gap: p.Gap, ExactLength: p.ExactLength, Split: p.SplitTransactions}
}

// PECPolicy says when packet error codes are used.
type PECPolicy uint8

const (
	PECAuto PECPolicy = iota
	PECOn
	PECOff
)

var pecNames = []string{"auto", "on", "off"}

func (p PECPolicy) String() string { return pecNames[p] }

// UnmarshalText reads "auto", "on" or "off".
func (p *PECPolicy) UnmarshalText(text []byte) error { return choose(p, pecNames, text) }

// Chip is a family of gauges.
type Chip uint8

const (
	ChipAuto    Chip = iota
	ChipSBS          // nothing but SBS, and cell voltages from CmdCell1 downwards if there are any
	ChipBQ40Z50      // 1 to 4 cells
	ChipBQ4050       // as BQ40Z50
	ChipBQ40Z80      // 2 to 7 cells, told by DAStatus1 and DAStatus3
	ChipBQ78350      // 3 to 15 cells
)

var chipNames = []string{"auto", "sbs", "bq40z50", "bq4050", "bq40z80", "bq78350"}

func (c Chip) String() string { return chipNames[c] }

// UnmarshalText reads a name of chipNames.
func (c *Chip) UnmarshalText(text []byte) error { return choose(c, chipNames, text) }

// extended reports whether the chip has CmdBlockAccess.
func (c Chip) extended() bool { return c > ChipSBS }

// maxCells is how many cells the chip can tell of.
func (c Chip) maxCells() int {
	switch c {
	case ChipBQ40Z50, ChipBQ4050:
		return 4
	case ChipBQ40Z80:
		return 7
	case ChipSBS:
		return 12
	}
	return 15
}

// WritePolicy bounds what the driver writes.
type WritePolicy uint8

const (
	WriteNever        WritePolicy = iota
	WriteCapacityMode             // BatteryMode: capacities in mAh
	WriteBroadcasts               // BatteryMode: no broadcasts to charger and host
	WriteFull                     // both
)

var writeNames = []string{"never", "capacity_mode", "broadcasts", "full"}

func (w WritePolicy) String() string { return writeNames[w] }

// UnmarshalText reads "never", "capacity_mode", "broadcasts" or "full".
func (w *WritePolicy) UnmarshalText(text []byte) error { return choose(w, writeNames, text) }

// Technology overrides what the pack tells of its chemistry; zero does not.
type Technology bms.Technology

// UnmarshalText reads "auto", or the name of a bms.Technology.
func (t *Technology) UnmarshalText(text []byte) error {
	known := slices.Clone(bms.TechnologyNames())
	known[0] = "auto"
	return choose(t, known, text)
}

func choose[T ~uint8](dst *T, names []string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%q is none of %v", text, names)
	}
	*dst = T(i)
	return nil
}
