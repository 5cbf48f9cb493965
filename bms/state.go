package bms

import (
	"time"

	"hilgate/model/unit"
)

// State is what the gateway believes about one pack: the last reading, and what fusion makes of it.
type State struct {
	Name     string
	Driver   string
	Quality  Quality
	At       time.Time // of the last good reading; zero if there was none
	Reading  Reading   // measured values; all NaN once Quality is Stale
	Identity Identity  // zero if not known

	// Fused from reading, model and load. These go on while the pack is silent.
	Estimate Estimate

	Status       Status // as published: measured, or the model's while the pack is silent
	Empty        bool   // drained: the joints that it feeds may not run
	Draining     bool   // the model's consumers draw power
	ChargerOn    bool   // recharging was started and not stopped
	Rechargeable bool   // recharging may be started at all

	Load      unit.Watts // what the model's consumers and the joints draw, ≥ 0
	Consumers []Consumer // in order of creation

	Polls, Failures uint64 // since start
	LastError       string // of the last failed poll; empty after a good one
	Rejected        [RejectReasons]uint64

	Feeds []string // the joints that stop when it is empty

	EnergyIn, EnergyOut unit.Joules      // since start, both ≥ 0
	ChargeIn, ChargeOut unit.AmpereHours // since start, both ≥ 0
}

// Estimate is the filter's belief.
type Estimate struct {
	SoC                unit.Ratio       // in [0,1]
	SoCSigma           unit.Ratio       // one standard deviation
	CoulombSoC         unit.Ratio       // by counting alone, for comparison
	Charge             unit.AmpereHours // SoC × capacity
	Capacity           unit.AmpereHours
	OpenCircuitVoltage unit.Volts // of the linear model at that charge
	Resistance         unit.Ohms
	Voltage            unit.Volts   // the model's terminal voltage
	Current            unit.Amperes // the one that was counted; negative discharging
	Residual           unit.Volts   // measured minus predicted terminal voltage; NaN while silent
	TimeToEmpty        unit.Seconds
	TimeToFull         unit.Seconds
}

// Consumer is one load on a pack.
type Consumer struct {
	Name  string
	Power unit.Watts // negative feeds the pack
}

// Reject says why a reading was not taken into the state.
type Reject uint8

const (
	RejectRange   Reject = iota // a quantity outside what is physically possible for the pack
	RejectJump                  // a change that no pack can make in that time
	RejectCellSum               // cells and pack voltage disagree
	RejectReasons
)

var rejectNames = [RejectReasons]string{"range", "jump", "cell_sum"}

func (r Reject) String() string {
	if r < RejectReasons {
		return rejectNames[r]
	}
	return "unknown"
}
