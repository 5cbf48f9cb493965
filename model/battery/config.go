package battery

import (
	"errors"
	"fmt"
	"math"

	"hilgate/model/unit"
)

// Config describes a battery. The keys are the names of Gazebo's SDF elements, and their meaning is
// Gazebo's; empty_soc, recover_soc and quirks are ours. NaN stands for an element that was left out.
//
// battery_name and recharge_by_topic matter to Gazebo alone: this gateway names a battery by its entry in
// the configuration and takes orders over MQTT. Gazebo also demands voltage.
type Config struct {
	Name string `yaml:"battery_name"`

	// Voltage is what the terminals show before the first step, V. NaN is the open-circuit voltage.
	Voltage unit.Volts `yaml:"voltage"`

	// Capacity is the charge of the full battery, Ah. Above 0.
	Capacity unit.AmpereHours `yaml:"capacity"`

	// InitialCharge is the charge at the start, Ah, from 0 to Capacity. NaN is a full battery.
	InitialCharge unit.AmpereHours `yaml:"initial_charge"`

	// The open-circuit voltage is E0 + E1·(1 − SoC): E0 at full charge, E0 + E1 when empty. E1 is 0 or
	// negative, V.
	E0 unit.Volts `yaml:"open_circuit_voltage_constant_coef"`
	E1 unit.Volts `yaml:"open_circuit_voltage_linear_coef"`

	// Resistance is the inner resistance, Ω. 0 is an ideal source.
	Resistance unit.Ohms `yaml:"resistance"`

	// Tau is the time constant of the current's low-pass, s. Above 0.
	Tau unit.Seconds `yaml:"smooth_current_tau"`

	// PowerLoad is the constant load, W, drawn while the battery drains. NaN is none.
	PowerLoad unit.Watts `yaml:"power_load"`

	// EnableRecharge lets recharging be started at all. ChargingTime is then needed: the hours in which
	// the charger's constant current gives the whole capacity.
	EnableRecharge bool    `yaml:"enable_recharge"`
	ChargingTime   float64 `yaml:"charging_time"`

	RechargeByTopic bool `yaml:"recharge_by_topic"` // Gazebo opens recharging as topics too; no effect here

	// FixIssue225 takes the state of charge as charge by capacity. Without it stands Gazebo's estimator
	// from before that fix, which falls about a hundred times too fast.
	FixIssue225 bool `yaml:"fix_issue_225"`

	StartDraining     bool `yaml:"start_draining"`      // the load is drawn from the first step on
	InvertCurrentSign bool `yaml:"invert_current_sign"` // negates the current of Message, and nothing else

	// The battery is empty from EmptySoC down, until its state of charge is above RecoverSoC again.
	// 0 ≤ EmptySoC < RecoverSoC ≤ 1.
	EmptySoC   unit.Ratio `yaml:"empty_soc"`
	RecoverSoC unit.Ratio `yaml:"recover_soc"`

	Quirks Quirks `yaml:"quirks"`
}

// Quirks are the ways of Gazebo's plugin that surprise its users. None is set by default. With all of them
// the model gives what Gazebo gives, to the last bit.
type Quirks struct {
	// UnboundedCharge lets charge and state of charge fall below 0, where the model then freezes, and rise
	// above full. Without it they end at empty and full, and so does the current.
	UnboundedCharge bool `yaml:"unbounded_charge"`

	// ChargeStopsAt90 has the charger give nothing from a state of charge of 0.9 on, while Charging stays
	// true. Without it the charger gives its constant current until the battery is full.
	ChargeStopsAt90 bool `yaml:"charge_stops_at_90"`

	// VoltageCollapses lets a load that the inner resistance cannot carry take the voltage to 0 V, where
	// the model freezes for good. Without it current and voltage end where the battery gives the most
	// power that it can, at half the open-circuit voltage.
	VoltageCollapses bool `yaml:"voltage_collapses"`

	// FrozenWhenIdle keeps the last current and voltage while nothing drains or charges. Without it the
	// current is then 0 and the voltage that of the open circuit.
	FrozenWhenIdle bool `yaml:"frozen_when_idle"`

	// StickyTau keeps for good the larger time constant that a step longer than Tau needs.
	StickyTau bool `yaml:"sticky_tau"`

	// BackwardSteps also runs steps of no or negative time, which undo what was drawn.
	BackwardSteps bool `yaml:"backward_steps"`

	// RatioPercentage gives the percentage of Message as 0 to 1 unless FixIssue225 is set.
	RatioPercentage bool `yaml:"ratio_percentage"`

	// StatusByFlags tells the status from the orders given, so that a dead battery is discharging and an
	// idle one above 0.9 is full. Without it the status tells what flows.
	StatusByFlags bool `yaml:"status_by_flags"`

	// NoHysteresis makes the battery empty exactly while its state of charge, as a float32, is at most 0.
	NoHysteresis bool `yaml:"no_hysteresis"`

	// NeedsPowerLoad ignores every consumer if power_load was left out.
	NeedsPowerLoad bool `yaml:"needs_power_load"`

	// Unchecked takes a configuration as Gazebo does, clamping or guessing what is out of bounds, and
	// refuses only where Gazebo gives up. Without it Check refuses with every reason at once.
	Unchecked bool `yaml:"unchecked"`
}

const (
	gazeboTau         = 1 // s; Gazebo's default, and its stand-in for one that is not positive
	defaultRecoverSoC = 0.05
)

// Default holds the defaults of the configuration: right by default, and draining from the start.
// Capacity and E0 have none.
func Default() Config {
	c := Gazebo()
	c.PowerLoad, c.FixIssue225, c.StartDraining, c.Quirks = 0, true, true, Quirks{}
	return c
}

// Gazebo holds Gazebo's own defaults, with all its quirks.
func Gazebo() Config {
	nan := math.NaN()
	return Config{
		Voltage: unit.Volts(nan), InitialCharge: unit.AmpereHours(nan), PowerLoad: unit.Watts(nan),
		ChargingTime: nan, Tau: gazeboTau, RecoverSoC: defaultRecoverSoC,
		Quirks: Quirks{
			UnboundedCharge: true, ChargeStopsAt90: true, VoltageCollapses: true, FrozenWhenIdle: true,
			StickyTau: true, BackwardSteps: true, RatioPercentage: true, StatusByFlags: true,
			NoHysteresis: true, NeedsPowerLoad: true, Unchecked: true,
		},
	}
}

// OpenCircuitVoltage is the voltage without load at a state of charge.
func (c *Config) OpenCircuitVoltage(soc unit.Ratio) unit.Volts {
	return c.E0 + unit.Volts(float64(c.E1)*float64(1-soc))
}

// Drained tells whether a battery at a state of charge is empty, if before it was.
func (c *Config) Drained(soc unit.Ratio, before bool) bool {
	if c.Quirks.NoHysteresis {
		return float32(soc) <= 0
	}
	return soc <= c.EmptySoC || before && soc <= c.RecoverSoC
}

// Fault is a key of the configuration with a value that it must not have.
type Fault struct {
	Key   string
	Value any
	Want  string // the bound
}

func (f *Fault) Error() string { return fmt.Sprintf("%s is %v, want %s", f.Key, f.Value, f.Want) }

// Check refuses, with a *Fault for each bad key, joined, what cannot be meant. With Quirks.Unchecked it
// refuses what Gazebo refuses.
func (c *Config) Check() error {
	if c.Quirks.Unchecked {
		_, err := c.Setup()
		return err
	}
	var faults []error
	want := func(holds bool, key string, value any, bound string) {
		if !holds {
			faults = append(faults, &Fault{key, value, bound})
		}
	}
	ranged := func(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
	var (
		capacity, e0, e1, r = float64(c.Capacity), float64(c.E0), float64(c.E1), float64(c.Resistance)
		least               = e0 + e1 // the open-circuit voltage when empty
	)
	want(ranged(capacity), "capacity", capacity, "above 0 Ah")
	want(ranged(e0), "open_circuit_voltage_constant_coef", e0, "above 0 V: the open-circuit voltage at full charge")
	want(e1 <= 0 && (least > 0 || !ranged(e0)), "open_circuit_voltage_linear_coef", e1,
		fmt.Sprintf("at most 0 V and above %v V, so that the voltage falls but stays positive", -e0))
	want(r >= 0 && unit.Finite(c.Resistance), "resistance", r, "0 Ω or more")
	want(ranged(float64(c.Tau)), "smooth_current_tau", float64(c.Tau), "above 0 s")
	want(!unit.Known(c.Voltage) || ranged(float64(c.Voltage)), "voltage", float64(c.Voltage), "above 0 V")
	want(!unit.Known(c.InitialCharge) || c.InitialCharge >= 0 && (c.InitialCharge <= c.Capacity || !ranged(capacity)),
		"initial_charge", float64(c.InitialCharge), fmt.Sprintf("from 0 Ah to the capacity of %v Ah", capacity))
	if p := float64(c.PowerLoad); unit.Known(c.PowerLoad) {
		want(!math.IsInf(p, 0), "power_load", p, "a number of watts")
		if most := least * least / (4 * r); r > 0 && least > 0 && unit.Finite(c.PowerLoad) {
			want(p <= most, "power_load", p, fmt.Sprintf("at most %.4g W, beyond which %v V behind %v Ω collapse", most, least, r))
		}
	}
	if c.EnableRecharge || unit.Known(c.ChargingTime) {
		want(ranged(c.ChargingTime), "charging_time", c.ChargingTime, "above 0 h, and given if enable_recharge is true")
	}
	want(c.EmptySoC >= 0 && c.EmptySoC < 1, "empty_soc", float64(c.EmptySoC), "from 0, below 1")
	want(c.RecoverSoC > c.EmptySoC && c.RecoverSoC <= 1, "recover_soc", float64(c.RecoverSoC),
		fmt.Sprintf("above empty_soc, %v, and at most 1", float64(c.EmptySoC)))
	return errors.Join(faults...)
}

// Setup is what Gazebo makes of a configuration.
type Setup struct {
	Battery          bool // the battery entity
	StateTopic       bool // the state is published
	RechargeServices bool // recharge/start and recharge/stop
	RechargeTopics   bool // the same as topics
}

// Setup follows Gazebo's own order of configuring. The error says where it gives up; what it had made until
// then stays. Recharging without charging_time leaves half a battery, on which Gazebo crashes at the first
// command to a joint, and which New refuses.
func (c *Config) Setup() (Setup, error) {
	var s Setup
	if c.Capacity <= 0 { // Gazebo takes NaN
		return s, &Fault{"capacity", float64(c.Capacity), "above 0 Ah"}
	}
	if c.Name == "" {
		return s, &Fault{"battery_name", `""`, "a name"}
	}
	if !unit.Known(c.Voltage) {
		return s, &Fault{"voltage", float64(c.Voltage), "a number of volts"}
	}
	s.Battery = true
	if c.EnableRecharge {
		if math.IsNaN(c.ChargingTime) {
			return s, &Fault{"charging_time", c.ChargingTime, "a number of hours, as enable_recharge is true"}
		}
		s.RechargeServices, s.RechargeTopics = true, c.RechargeByTopic
	}
	s.StateTopic = true
	return s, nil
}
