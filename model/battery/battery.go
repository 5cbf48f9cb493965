// Package battery is Gazebo's linear battery model as pure steps: an open-circuit voltage that falls in
// proportion to the missing charge, an inner resistance, and a load in watts whose current passes a
// first-order low-pass.
//
//	i_raw = load/V − charger            V: terminal voltage of the step before
//	i     = i + dt/tau · (i_raw − i)    A, positive while discharging
//	q     = q − i·dt/3600               Ah
//	V     = max(0, E0 + E1·(1 − q/capacity) − R·i)
//
// The arithmetic is that of Gazebo's LinearBatteryPlugin, release branches 6 to 10, operation by operation:
// float64, left to right, no fused multiply-add. Where the plugin surprises, Quirks name the surprise.
// Without them the model is right by default; with all of them it is Gazebo's to the last bit.
//
// Nothing here knows a clock. A Battery belongs to one goroutine.
package battery

import (
	"math"
	"time"

	"hilgate/bms"
	"hilgate/model/unit"
)

// PowerLoad is the name of the consumer that stands for the configured power_load.
const PowerLoad = "power_load"

// Battery is the model's state. Inside, as in Gazebo, current is positive while discharging.
type Battery struct {
	config    Config
	consumers []bms.Consumer // power_load first, then in order of creation
	load      float64        // their sum, W

	voltage float64 // V at the terminals
	raw     float64 // A before the low-pass
	current float64 // A behind it
	charge  float64 // Ah
	soc     float64
	gate    float32 // soc as Gazebo's physics sees it: copied at each step of the model
	tau     float64 // s

	draining, charging, empty bool

	window window // of FixIssue225 = false
}

// New makes a battery in its initial state. The error is that of Check.
func New(c Config) (*Battery, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Tau <= 0 { // NaN, where it is taken, stays as in Gazebo
		c.Tau = gazeboTau
	}
	if !unit.Known(c.InitialCharge) {
		c.InitialCharge = c.Capacity
	}
	c.InitialCharge = unit.Clamp(c.InitialCharge, 0, c.Capacity)
	if !unit.Known(c.Voltage) {
		c.Voltage = c.OpenCircuitVoltage(unit.Ratio(c.InitialCharge / c.Capacity))
	}
	b := &Battery{config: c, tau: float64(c.Tau)}
	b.Reset()
	return b, nil
}

// Reset puts the battery back into its initial state, as Gazebo's world reset does: the load is power_load
// again, other consumers stay, and so does a time constant that StickyTau has raised.
func (b *Battery) Reset() {
	c := &b.config
	b.raw, b.current = 0, 0
	b.charge = float64(c.InitialCharge)
	b.soc = b.charge / float64(c.Capacity)
	b.gate = float32(b.soc)
	b.voltage = positive(float64(c.Voltage))
	b.draining, b.charging = c.StartDraining, false
	b.empty = c.Drained(unit.Ratio(b.soc), false)
	b.window.empty()
	if unit.Known(c.PowerLoad) {
		b.SetConsumer(PowerLoad, c.PowerLoad)
	}
}

// Commanded looks at the commands of one joint: any value whose magnitude, as a float32, is above 0 starts
// the draining. Nothing stops it but Drain. Gazebo does this before each step, also while paused, for the
// velocity and the force commands of every joint of the model.
func (b *Battery) Commanded(values ...float64) {
	for _, v := range values {
		if math.Abs(float64(float32(v))) > 0 {
			b.draining = true
		}
	}
}

// Drain starts or stops the drawing of the consumers.
func (b *Battery) Drain(on bool) { b.draining = on }

// Recharge connects or disconnects the charger. It has no effect, and returns false, unless EnableRecharge
// is set.
func (b *Battery) Recharge(on bool) bool {
	if b.config.EnableRecharge {
		b.charging = on
	}
	return b.config.EnableRecharge
}

// SetConsumer adds a consumer, or changes the power of the one of that name; negative power feeds the
// battery.
func (b *Battery) SetConsumer(name string, w unit.Watts) {
	for i := range b.consumers {
		if b.consumers[i].Name == name {
			b.consumers[i].Power = w
			b.add()
			return
		}
	}
	b.consumers = append(b.consumers, bms.Consumer{Name: name, Power: w})
	b.add()
}

// RemoveConsumer takes a consumer away; false if there is none of that name.
func (b *Battery) RemoveConsumer(name string) bool {
	for i := range b.consumers {
		if b.consumers[i].Name == name {
			b.consumers = append(b.consumers[:i], b.consumers[i+1:]...)
			b.add()
			return true
		}
	}
	return false
}

// add sums the consumers in order of creation: the order decides the last bit.
func (b *Battery) add() {
	b.load = 0
	if b.config.Quirks.NeedsPowerLoad && !unit.Known(b.config.PowerLoad) {
		return
	}
	for i := range b.consumers {
		b.load += float64(b.consumers[i].Power)
	}
}

// Consumers lists the consumers in order of creation, power_load first. It is not to be modified, and
// changes with the next SetConsumer or RemoveConsumer.
func (b *Battery) Consumers() []bms.Consumer { return b.consumers }

// Load is the power that the consumers draw now: their sum, or 0 while they do not drain.
func (b *Battery) Load() unit.Watts {
	if b.draining {
		return unit.Watts(b.load)
	}
	return 0
}

// Config is what the battery was made from, with what was left out filled in.
func (b *Battery) Config() Config { return b.config }

// Voltage at the terminals, 0 or more.
func (b *Battery) Voltage() unit.Volts { return unit.Volts(b.voltage) }

// Current is negative while the battery discharges.
func (b *Battery) Current() unit.Amperes { return unit.Amperes(-b.current) }

// RawCurrent is the current of the last step before its low-pass; negative while discharging.
func (b *Battery) RawCurrent() unit.Amperes { return unit.Amperes(-b.raw) }

// Charge is what is left.
func (b *Battery) Charge() unit.AmpereHours { return unit.AmpereHours(b.charge) }

// SoC is the state of charge, in [0, 1] unless Quirks.UnboundedCharge is set.
func (b *Battery) SoC() unit.Ratio { return unit.Ratio(b.soc) }

// SoC32 is the state of charge as the rest of Gazebo sees it: a float32, copied when the model runs.
func (b *Battery) SoC32() float32 { return b.gate }

// Empty tells that the battery is drained, so that what it feeds may not run: see Config.Drained.
func (b *Battery) Empty() bool { return b.empty }

// Draining tells that the consumers may draw.
func (b *Battery) Draining() bool { return b.draining }

// Charging tells that the charger is connected.
func (b *Battery) Charging() bool { return b.charging }

// Assume sets charge and current (negative discharging) to what someone knows better, as a filter does. The
// voltage follows; the orders and the consumers stay.
func (b *Battery) Assume(charge unit.AmpereHours, current unit.Amperes) {
	b.charge, b.current, b.raw = float64(charge), float64(-current), float64(-current)
	b.soc = b.charge / float64(b.config.Capacity)
	b.bound()
	b.show(b.terminals())
}

// Step advances the model by dt, which in Gazebo is the step of an unpaused world. It allocates nothing.
func (b *Battery) Step(dt time.Duration) {
	c := &b.config
	if dt <= 0 && !c.Quirks.BackwardSteps {
		return
	}
	switch frozen := c.Quirks.FrozenWhenIdle; {
	case b.charging:
	case !b.draining && frozen:
		return
	case (!b.draining || b.load == 0) && !frozen:
		b.rest()
		return
	}
	seconds := float64(dt) * 1e-9 // times, not by 1e9: the two differ in the last bit
	tau := b.tau
	if tau < seconds {
		tau = seconds
		if c.Quirks.StickyTau {
			b.tau = tau
		}
	}
	b.show(b.model(seconds, tau))
}

// model is the plugin's update. It returns the terminal voltage, which may be negative or NaN.
func (b *Battery) model(seconds, tau float64) float64 {
	c := &b.config
	if c.Quirks.VoltageCollapses && math.Abs(b.voltage) < 0.001 && !b.charging {
		return 0
	}
	if b.soc < 0 && !b.charging {
		return b.voltage
	}
	k := seconds / tau
	load := 0.0
	if b.draining {
		load = b.load
	}
	b.raw = load / b.voltage
	if r := float64(c.Resistance); r > 0 && !c.Quirks.VoltageCollapses {
		if most := b.openCircuit() / (2 * r); !(b.raw <= most) {
			b.raw = most
		}
	}
	if b.charging && (b.soc < 0.9 || !c.Quirks.ChargeStopsAt90) {
		b.raw -= float64(c.Capacity) / c.ChargingTime
	}
	b.current += float64(k * (b.raw - b.current))
	drawn := (seconds * b.current) / 3600
	b.charge -= drawn
	if c.FixIssue225 {
		b.soc = b.charge / float64(c.Capacity)
	} else {
		b.soc -= b.window.sum(drawn) / float64(c.Capacity)
	}
	b.bound()
	return b.terminals()
}

// bound holds charge within [0, capacity], where the current that would carry it further ends.
func (b *Battery) bound() {
	if b.config.Quirks.UnboundedCharge {
		return
	}
	capacity := float64(b.config.Capacity)
	switch {
	case b.charge < 0:
		b.charge, b.current = 0, min(b.current, 0)
	case b.charge > capacity:
		b.charge, b.current = capacity, max(b.current, 0)
	}
	b.soc = min(max(b.soc, 0), 1)
}

// rest is a step in which nothing flows.
func (b *Battery) rest() {
	b.raw, b.current = 0, 0
	b.show(b.openCircuit())
}

// show sets the terminal voltage, and what others see of the state of charge.
func (b *Battery) show(voltage float64) {
	if !b.config.Quirks.VoltageCollapses {
		voltage = max(voltage, b.openCircuit()/2)
	}
	b.voltage = positive(voltage)
	b.gate = float32(b.soc)
	b.empty = b.config.Drained(unit.Ratio(b.soc), b.empty)
}

func (b *Battery) openCircuit() float64 {
	return float64(b.config.OpenCircuitVoltage(unit.Ratio(b.charge / float64(b.config.Capacity))))
}

func (b *Battery) terminals() float64 {
	return b.openCircuit() - float64(float64(b.config.Resistance)*b.current)
}

// positive is v, or 0 if v is negative or NaN.
func positive(v float64) float64 {
	if v > 0 {
		return v
	}
	return 0
}
