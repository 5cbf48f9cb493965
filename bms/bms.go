// Package bms is the vocabulary of batteries: what a pack tells, what is made of it, and what a driver
// must be able to do. It has no behaviour beyond names and predicates.
package bms

import (
	"context"
	"time"

	"hilgate/model/unit"
)

// Pack is a battery that can be asked for a reading.
type Pack interface {
	// Read polls the pack once. at is the instant of the poll, on a monotonic scale: from it the pack
	// decides which of its slower registers are due and which values have become too old to give.
	// Quantities that it cannot measure, or has not measured recently enough, are NaN.
	//
	// With an error the reading holds what is still recent enough, and Present. The error is, by
	// errors.Is, one of package link's kinds. Read blocks for as long as the bus does, and ends early,
	// between transactions, when ctx does.
	Read(ctx context.Context, at time.Time) (Reading, error)
}

// Identifier is a pack that knows who it is. Identity returns what it last told, without using the bus;
// known is false until it has told, and again after it was lost.
type Identifier interface {
	Identity() (id Identity, known bool)
}

// ChargeSwitch is a pack whose charging can be switched.
type ChargeSwitch interface {
	SetCharging(ctx context.Context, on bool) error
}

// MaxCells is the most cells of one pack that a Reading carries. HORUS messages carry 16; a larger pack is
// published in segments.
const MaxCells = 32

// Reading is what a pack told at one poll. Unknown quantities are NaN, unknown enumerations zero.
type Reading struct {
	Present bool // the pack answers, or did until a moment ago

	Voltage        unit.Volts   // of the whole pack, at its terminals
	Current        unit.Amperes // negative while discharging
	AverageCurrent unit.Amperes // over a minute, same sign
	Temperature    unit.Celsius // of the pack; the hottest sensor where it has no such figure

	Charge         unit.AmpereHours // remaining
	Capacity       unit.AmpereHours // at the last full charge
	DesignCapacity unit.AmpereHours // when new
	SoC            unit.Ratio       // the gauge's own state of charge, of Capacity
	SoCError       unit.Ratio       // the gauge's own margin for it
	SoH            unit.Ratio       // state of health

	TimeToEmpty, TimeToFull unit.Seconds

	Cells            []unit.Volts   // the most negative cell first; nil if the pack does not tell. Not to be modified
	CellTemperatures []unit.Celsius // by sensor; nil if the pack does not tell. Not to be modified

	Status Status
	Health Health
	Faults Faults

	Cycles          float64 // full cycles since new
	ChargingVoltage unit.Volts
	ChargingCurrent unit.Amperes
	NotCalibrated   bool // the gauge itself says that its state of charge may be far off
}

// Unmeasured is the reading of a pack that has told nothing: every quantity NaN.
func Unmeasured() Reading {
	nan := unit.Unknown[float64]()
	return Reading{
		Voltage: unit.Volts(nan), Current: unit.Amperes(nan), AverageCurrent: unit.Amperes(nan),
		Temperature: unit.Celsius(nan), Charge: unit.AmpereHours(nan), Capacity: unit.AmpereHours(nan),
		DesignCapacity: unit.AmpereHours(nan), SoC: unit.Ratio(nan), SoCError: unit.Ratio(nan),
		SoH: unit.Ratio(nan), TimeToEmpty: unit.Seconds(nan), TimeToFull: unit.Seconds(nan),
		Cycles: nan, ChargingVoltage: unit.Volts(nan), ChargingCurrent: unit.Amperes(nan),
	}
}

// Identity says which pack this is. Empty strings are unknown.
type Identity struct {
	Manufacturer, Device, Serial string
	Chemistry                    Technology
	Manufactured                 string // ISO date: "2023-11-28"
	Firmware                     string
	Link                         string // how the wire is protected, as "PEC" or "no PEC"
}

// Key joins what makes a pack unique in a fleet: a serial number alone does not.
func (id Identity) Key() string {
	return id.Manufacturer + "-" + id.Device + "-" + id.Manufactured + "-" + id.Serial
}

// Observation is one poll of one pack, as its poller hands it on. A failed poll travels the same way.
type Observation struct {
	Pack     string    // its name in the configuration
	At       time.Time // of the poll; with a monotonic reading
	Reading  Reading
	Identity Identity // zero if not known
	Err      error    // why the poll failed; nil if it did not
	Misses   int      // failed polls in a row, this one included
}
