package battery

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"hilgate/model/unit"
)

// keys lists the keys of the faults in err.
func keys(err error) []string {
	var all []string
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if f, ok := errors.AsType[*Fault](err); ok {
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
		{"capacity", func(c *Config) { c.Capacity = 0 }},
		{"capacity", func(c *Config) { c.Capacity = unit.AmpereHours(math.Inf(1)) }},
		{"open_circuit_voltage_constant_coef", func(c *Config) { c.E0 = 0 }},
		{"open_circuit_voltage_linear_coef", func(c *Config) { c.E1 = 0.1 }},
		{"open_circuit_voltage_linear_coef", func(c *Config) { c.E1 = -16.8 }},
		{"open_circuit_voltage_linear_coef", func(c *Config) { c.E1 = unit.Volts(math.NaN()) }},
		{"resistance", func(c *Config) { c.Resistance = -0.01 }},
		{"smooth_current_tau", func(c *Config) { c.Tau = 0 }},
		{"voltage", func(c *Config) { c.Voltage = -1 }},
		{"initial_charge", func(c *Config) { c.InitialCharge = 1.1 }},
		{"initial_charge", func(c *Config) { c.InitialCharge = -0.1 }},
		{"power_load", func(c *Config) { c.PowerLoad = unit.Watts(math.Inf(1)) }},
		{"power_load", func(c *Config) { c.PowerLoad = 600 }}, // 13.2 V behind 0.08 Ω give 544.5 W
		{"charging_time", func(c *Config) { c.ChargingTime = math.NaN() }},
		{"charging_time", func(c *Config) { c.ChargingTime = 0 }},
		{"charging_time", func(c *Config) { c.EnableRecharge, c.ChargingTime = false, -1 }},
		{"empty_soc", func(c *Config) { c.EmptySoC = -0.1 }},
		{"recover_soc", func(c *Config) { c.RecoverSoC = 0 }},
	} {
		c := pack()
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

func TestCheckTellsEveryFaultAtOnce(t *testing.T) {
	c := Default()
	c.Resistance, c.Tau = -1, -1
	err := c.Check()
	want := []string{"capacity", "open_circuit_voltage_constant_coef", "resistance", "smooth_current_tau"}
	if got := keys(err); !slices.Equal(got, want) {
		t.Errorf("faults of %v, want %v", got, want)
	}
	if !strings.Contains(err.Error(), "resistance is -1, want 0 Ω or more") {
		t.Errorf("text %q lacks value and bound", err)
	}
}

func TestGazeboGivesUpInItsOrder(t *testing.T) {
	c := Gazebo()
	c.EnableRecharge, c.RechargeByTopic = true, true
	for _, next := range []struct {
		key  string
		made Setup
		mend func()
	}{
		{"capacity", Setup{}, func() { c.Capacity = 1 }},
		{"battery_name", Setup{}, func() { c.Name = "b" }},
		{"voltage", Setup{}, func() { c.Voltage = -3 }},
		{"charging_time", Setup{Battery: true}, func() { c.ChargingTime = 0 }},
	} {
		made, err := c.Setup()
		if got := keys(err); !slices.Equal(got, []string{next.key}) || made != next.made {
			t.Errorf("%+v with %v, want %+v and %s", made, err, next.made, next.key)
		}
		next.mend()
	}
	if made, err := c.Setup(); err != nil || made != (Setup{true, true, true, true}) {
		t.Errorf("%+v, %v; want everything made", made, err)
	}
}

func TestGazeboGuessesWhereItDoesNotGiveUp(t *testing.T) {
	c := Gazebo()
	c.Name, c.Voltage, c.Capacity, c.InitialCharge, c.Tau = "b", -3, 2, 5, -1
	b := build(t, c)
	if b.Voltage() != 0 || b.Charge() != 2 || b.tau != 1 {
		t.Errorf("%v V, %v Ah, tau %v s; want 0, 2, 1", b.Voltage(), b.Charge(), b.tau)
	}
}
