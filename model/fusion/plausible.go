package fusion

import (
	"errors"
	"fmt"
	"math"
	"time"

	"hilgate/bms"
	"hilgate/model/battery"
	"hilgate/model/link"
	"hilgate/model/unit"
)

// Limits bound what is believed of a reading. Quantities that a pack does not tell are not judged.
type Limits struct {
	// Cells in series; 0 takes as many as the pack tells voltages of. It bounds the pack's voltage.
	Cells int `yaml:"cells"`

	// VoltageMin and VoltageMax bound the pack's voltage, V. NaN takes Cells times 1 V and 5 V, or 0 and 250 V
	// if the number of cells is not known.
	VoltageMin unit.Volts `yaml:"voltage_min"`
	VoltageMax unit.Volts `yaml:"voltage_max"`

	CurrentMax     unit.Amperes `yaml:"current_max"`     // magnitude, A
	TemperatureMin unit.Celsius `yaml:"temperature_min"` // °C
	TemperatureMax unit.Celsius `yaml:"temperature_max"` // °C
	CellMin        unit.Volts   `yaml:"cell_min"`        // V
	CellMax        unit.Volts   `yaml:"cell_max"`        // V

	// CellSum is how far the sum of the cells may be from the pack's voltage, as part of it. Cells are often
	// read later than the pack, so a load that comes in between counts as well.
	CellSum unit.Ratio `yaml:"cell_sum"`

	// The state of charge may jump by SoCStep at once, as gauges do that correct themselves, and change by
	// CRateMax, in capacities an hour. A change that lasts is so believed after a while.
	SoCStep  unit.Ratio `yaml:"soc_step"`
	CRateMax float64    `yaml:"c_rate_max"`
}

// DefaultLimits are those of any pack up to 250 V and 1000 A.
func DefaultLimits() Limits {
	nan := unit.Unknown[unit.Volts]()
	return Limits{
		VoltageMin: nan, VoltageMax: nan, CurrentMax: 1000, TemperatureMin: -40, TemperatureMax: 120,
		CellMin: 0.5, CellMax: 5.5, CellSum: 0.05, SoCStep: 0.1, CRateMax: 20,
	}
}

// Check refuses, with a *battery.Fault for each bad key, joined, bounds that cannot be meant.
func (l *Limits) Check() error {
	var faults []error
	want := func(holds bool, key string, value any, bound string) {
		if !holds {
			faults = append(faults, &battery.Fault{Key: key, Value: value, Want: bound})
		}
	}
	want(l.Cells >= 0, "cells", l.Cells, "0 or more")
	want(!(l.VoltageMin >= l.VoltageMax) && !math.IsInf(float64(l.VoltageMax), 0), "voltage_max",
		float64(l.VoltageMax), fmt.Sprintf("above voltage_min, %v V", float64(l.VoltageMin)))
	want(l.CurrentMax > 0, "current_max", float64(l.CurrentMax), "above 0 A")
	want(l.TemperatureMax > l.TemperatureMin, "temperature_max", float64(l.TemperatureMax),
		fmt.Sprintf("above temperature_min, %v °C", float64(l.TemperatureMin)))
	want(l.CellMax > l.CellMin, "cell_max", float64(l.CellMax), fmt.Sprintf("above cell_min, %v V", float64(l.CellMin)))
	want(l.CellSum > 0, "cell_sum", float64(l.CellSum), "above 0")
	want(l.SoCStep > 0, "soc_step", float64(l.SoCStep), "above 0")
	want(l.CRateMax > 0, "c_rate_max", l.CRateMax, "above 0 capacities an hour")
	return errors.Join(faults...)
}

// Plausible tells whether a reading can be true, and if not, why. before is the last reading that was, dt
// ago; nil if there was none. The error is a link.Implausible; the reason has a meaning only beside it.
//
// The bounds are those that keep garbage of broken checksums and missing sensors out, not those of a healthy pack: a
// cell at 0.6 V is to be seen, not hidden.
func (l *Limits) Plausible(before, now *bms.Reading, dt time.Duration) (bms.Reject, error) {
	if err := l.ranges(now); err != nil {
		return bms.RejectRange, err
	}
	if err := l.sum(now); err != nil {
		return bms.RejectCellSum, err
	}
	if before != nil && unit.Known(before.SoC) && unit.Known(now.SoC) {
		most := float64(l.SoCStep) + l.CRateMax*dt.Hours()
		if change := math.Abs(float64(now.SoC - before.SoC)); change > most {
			return bms.RejectJump, fmt.Errorf("state of charge from %.3g to %.3g in %v, most %.3g: %w",
				float64(before.SoC), float64(now.SoC), dt, most, link.Implausible)
		}
	}
	return 0, nil
}

// within fails if v is known and outside [low, high].
func within[Q ~float64](what string, v, low, high Q, in string) error {
	if v < low || v > high {
		return fmt.Errorf("%s of %.6g%s, bounds %.4g and %.4g: %w", what, float64(v), in, float64(low), float64(high), link.Implausible)
	}
	return nil
}

// each fails if one of the values is known and outside [low, high].
func each[Q ~float64](what string, values []Q, low, high Q, in string) error {
	for i, v := range values {
		if v < low || v > high {
			return within(fmt.Sprintf("%s %d", what, i+1), v, low, high, in)
		}
	}
	return nil
}

func (l *Limits) ranges(r *bms.Reading) error {
	low, high := l.voltages(r)
	for _, err := range [...]error{
		within("voltage", r.Voltage, low, high, " V"),
		within("current", r.Current, -l.CurrentMax, l.CurrentMax, " A"),
		within("average current", r.AverageCurrent, -l.CurrentMax, l.CurrentMax, " A"),
		within("temperature", r.Temperature, l.TemperatureMin, l.TemperatureMax, " °C"),
		within("state of charge", r.SoC, 0, 1, ""),
		within("charge", r.Charge, 0, math.MaxFloat64, " Ah"),
		within("capacity", r.Capacity, 0, math.MaxFloat64, " Ah"),
		each("cell", r.Cells, l.CellMin, l.CellMax, " V"),
		each("temperature", r.CellTemperatures, l.TemperatureMin, l.TemperatureMax, " °C"),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// voltages are the bounds of the pack's voltage.
func (l *Limits) voltages(r *bms.Reading) (low, high unit.Volts) {
	low, high = 0, 250
	cells := l.Cells
	if cells == 0 {
		cells = len(r.Cells)
	}
	if cells > 0 {
		low, high = unit.Volts(cells), 5*unit.Volts(cells)
	}
	if unit.Known(l.VoltageMin) {
		low = l.VoltageMin
	}
	if unit.Known(l.VoltageMax) {
		high = l.VoltageMax
	}
	return low, high
}

// sum compares the cells, if all are known, with the pack.
func (l *Limits) sum(r *bms.Reading) error {
	if len(r.Cells) == 0 || !unit.Known(r.Voltage) {
		return nil
	}
	sum := unit.Volts(0)
	for _, v := range r.Cells {
		sum += v
	}
	if off := math.Abs(float64(sum - r.Voltage)); off > float64(l.CellSum)*float64(r.Voltage) {
		return fmt.Errorf("cells add up to %.5g V, the pack has %.5g V: %w", float64(sum), float64(r.Voltage), link.Implausible)
	}
	return nil
}
