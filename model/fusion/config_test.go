package fusion

import (
	"errors"
	"math"
	"slices"
	"testing"

	"hilgate/model/battery"
	"hilgate/model/unit"
)

// keys lists the keys of the faults in err.
func keys(err error) []string {
	var all []string
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if f, ok := errors.AsType[*battery.Fault](err); ok {
			all = append(all, f.Key)
		}
		return all
	}
	for _, e := range joined.Unwrap() {
		all = append(all, keys(e)...)
	}
	return all
}

func TestCheckNamesTheKey(t *testing.T) {
	for _, k := range []struct {
		key string
		set func(c *Config)
	}{
		{"resistance", func(c *Config) { c.Model.Resistance = -1 }},
		{"capacity", func(c *Config) { c.Model.Capacity = -1 }},
		{"current_gain_error", func(c *Config) { c.CurrentGainError = -0.1 }},
		{"current_offset", func(c *Config) { c.CurrentOffset = unit.Amperes(math.NaN()) }},
		{"voltage_noise", func(c *Config) { c.VoltageNoise = 0 }},
		{"voltage_model_error", func(c *Config) { c.VoltageModelError = unit.Ratio(math.Inf(1)) }},
		{"resistance_error", func(c *Config) { c.ResistanceError = -1 }},
		{"load_error", func(c *Config) { c.LoadError = -1 }},
		{"gauge_error", func(c *Config) { c.GaugeError = 0 }},
		{"initial_sigma", func(c *Config) { c.InitialSigma = 0.6 }},
		{"error_time", func(c *Config) { c.ErrorTime = 0 }},
		{"average_time", func(c *Config) { c.AverageTime = -1 }},
		{"cells", func(c *Config) { c.Limits.Cells = -1 }},
		{"voltage_max", func(c *Config) { c.Limits.VoltageMin, c.Limits.VoltageMax = 20, 10 }},
		{"voltage_max", func(c *Config) { c.Limits.VoltageMax = unit.Volts(math.Inf(1)) }},
		{"current_max", func(c *Config) { c.Limits.CurrentMax = 0 }},
		{"temperature_max", func(c *Config) { c.Limits.TemperatureMax = -50 }},
		{"cell_max", func(c *Config) { c.Limits.CellMax = 0.1 }},
		{"cell_sum", func(c *Config) { c.Limits.CellSum = 0 }},
		{"soc_step", func(c *Config) { c.Limits.SoCStep = unit.Ratio(math.NaN()) }},
		{"c_rate_max", func(c *Config) { c.Limits.CRateMax = 0 }},
	} {
		c := Default()
		c.Model = model()
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		k.set(&c)
		err := c.Check()
		if got := keys(err); !slices.Equal(got, []string{k.key}) {
			t.Errorf("faults of %v (%v), want one of %s", got, err, k.key)
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: New takes what Check refuses", k.key)
		}
	}
}

func TestModelMayLeaveCapacityOutAndGazebosIsCheckedAsPhysics(t *testing.T) {
	c := Default()
	c.Model = model()
	c.Model.Capacity, c.Model.InitialCharge = 0, 3
	if err := c.Check(); err != nil {
		t.Errorf("capacity left out: %v", err)
	}
	c.Model = battery.Gazebo()
	c.Model.Name, c.Model.Voltage, c.Model.Capacity = "b", 12, 1
	if got := keys(c.Check()); !slices.Equal(got, []string{"open_circuit_voltage_constant_coef"}) {
		t.Errorf("Gazebo's defaults: faults of %v, want one of open_circuit_voltage_constant_coef", got)
	}
}
