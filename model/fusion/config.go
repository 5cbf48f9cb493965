package fusion

import (
	"errors"
	"fmt"
	"math"
	"time"

	"hilgate/model/battery"
	"hilgate/model/unit"
)

// Config says how far each source of knowledge can be trusted. All errors are one standard deviation.
// The tags are keys of the configuration's fusion section.
type Config struct {
	// Model is the battery's linear model. Its capacity counts; if it is 0, the full capacity that the
	// gauge tells does, and nothing is estimated before it has told one. Leave it out for a gauge that has
	// learned the pack, as smart batteries have: it follows the pack's age. Give it where the gauge only
	// repeats a setting, or tells none.
	//
	// Physics has no quirks, so the model's are not used here, nor are its power_load, which is part of
	// Update's load, voltage, start_draining and fix_issue_225. Its initial_charge is what is assumed before the
	// first reading; half of the capacity if it was left out.
	Model battery.Config `yaml:"-"`

	// CurrentGainError and CurrentOffset are the errors of the current sensor: of what it shows, and at no
	// current, A. Both are taken as lasting, so that what they add to the counted charge does not average out.
	CurrentGainError unit.Ratio   `yaml:"current_gain_error"`
	CurrentOffset    unit.Amperes `yaml:"current_offset"`

	// VoltageNoise is the noise of one measurement of the pack's voltage, V. It averages out.
	VoltageNoise unit.Volts `yaml:"voltage_noise"`

	// VoltageModelError is how far the pack's open-circuit voltage is from the model's line, as part of the
	// voltage at full charge. ResistanceError is the error of the model's resistance, as part of it.
	VoltageModelError unit.Ratio `yaml:"voltage_model_error"`
	ResistanceError   unit.Ratio `yaml:"resistance_error"`

	// GaugeError is the least error that is believed of the gauge's own state of charge. A gauge that tells
	// a larger one, as SBS does by MaxError, is believed in that.
	GaugeError unit.Ratio `yaml:"gauge_error"`

	// ErrorTime is how long the errors of line, resistance and gauge stay as they are: within that time a
	// thousand readings tell no more than one does.
	ErrorTime time.Duration `yaml:"error_time"`

	// LoadError is the error of the load that the model runs on while the pack is silent, as part of it.
	LoadError unit.Ratio `yaml:"load_error"`

	// InitialSigma is the error of the state of charge before the first reading.
	InitialSigma unit.Ratio `yaml:"initial_sigma"`

	// AverageTime is the time constant of the current from which the times to empty and to full follow.
	AverageTime time.Duration `yaml:"average_time"`

	// Limits are the bounds of what is believed at all.
	Limits Limits `yaml:"limits"`
}

// Default is a modest shunt on a pack whose data sheet is known roughly.
func Default() Config {
	return Config{
		Model: battery.Default(), CurrentGainError: 0.05, CurrentOffset: 0.1, VoltageNoise: 0.02,
		VoltageModelError: 0.005, ResistanceError: 0.2, GaugeError: 0.02, ErrorTime: 5 * time.Minute,
		LoadError: 0.2, InitialSigma: 0.3, AverageTime: time.Minute, Limits: DefaultLimits(),
	}
}

// model is the battery model as it is used here, for a given capacity.
func (c *Config) model(capacity unit.AmpereHours) battery.Config {
	m := c.Model
	m.Capacity, m.InitialCharge = capacity, unit.Unknown[unit.AmpereHours]()
	m.Voltage, m.PowerLoad = unit.Unknown[unit.Volts](), unit.Unknown[unit.Watts]()
	m.StartDraining, m.FixIssue225, m.Quirks = true, true, battery.Quirks{}
	return m
}

// Check refuses, with a *battery.Fault for each bad key, joined, what cannot be meant. It checks the model
// too, which may leave capacity out here.
func (c *Config) Check() error {
	m := c.Model
	if m.Capacity == 0 {
		m.Capacity, m.InitialCharge = 1, min(m.InitialCharge, 1)
	}
	if m.Quirks.Unchecked { // what Gazebo clamps or guesses is still no physics
		m = c.model(m.Capacity)
	}
	faults := []error{m.Check()}
	want := func(holds bool, key string, value any, bound string) {
		if !holds {
			faults = append(faults, &battery.Fault{Key: key, Value: value, Want: bound})
		}
	}
	atLeast0 := func(key string, v float64, unit string) {
		want(v >= 0 && !math.IsInf(v, 0), key, v, fmt.Sprintf("0%s or more", unit))
	}
	atLeast0("current_gain_error", float64(c.CurrentGainError), "")
	atLeast0("current_offset", float64(c.CurrentOffset), " A")
	want(c.VoltageNoise > 0 && unit.Finite(c.VoltageNoise), "voltage_noise", float64(c.VoltageNoise), "above 0 V")
	atLeast0("voltage_model_error", float64(c.VoltageModelError), "")
	atLeast0("resistance_error", float64(c.ResistanceError), "")
	atLeast0("load_error", float64(c.LoadError), "")
	want(c.GaugeError > 0 && c.GaugeError <= 1, "gauge_error", float64(c.GaugeError), "above 0, at most 1")
	want(c.InitialSigma > 0 && c.InitialSigma <= maxSigma, "initial_sigma", float64(c.InitialSigma),
		fmt.Sprintf("above 0, at most %v", maxSigma))
	want(c.ErrorTime > 0, "error_time", c.ErrorTime, "above 0 s")
	want(c.AverageTime > 0, "average_time", c.AverageTime, "above 0 s")
	faults = append(faults, c.Limits.Check())
	return errors.Join(faults...)
}
