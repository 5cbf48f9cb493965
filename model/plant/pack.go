package plant

import (
	"math"

	"hilgate/model/unit"
)

// PackConfig describes a simulated battery. The tags are keys of the configuration's simulate section;
// where a key is left out there, the battery's model gives it.
type PackConfig struct {
	Cells    int              `yaml:"cells"`    // in series
	Capacity unit.AmpereHours `yaml:"capacity"` // of the mean cell
	SoC      unit.Ratio       `yaml:"soc"`      // at the start

	// The open-circuit voltage of the whole pack is E0 + E1·(1 − SoC), Gazebo's line.
	E0 unit.Volts `yaml:"open_circuit_voltage_constant_coef"`
	E1 unit.Volts `yaml:"open_circuit_voltage_linear_coef"`

	Resistance   unit.Ohms  `yaml:"resistance"`    // of the whole pack
	ChargingTime float64    `yaml:"charging_time"` // hours for the whole capacity at the charger's constant current
	Load         unit.Watts `yaml:"power_load"`    // of the electronics, drawn while Draining

	CellSpread unit.Ratio   `yaml:"cell_spread"` // the weakest cell holds this much less than the mean, the strongest as much more
	Ambient    unit.Celsius `yaml:"ambient"`

	HeatCapacity      float64 `yaml:"heat_capacity"`      // J/K
	ThermalResistance float64 `yaml:"thermal_resistance"` // K/W, to the ambient
}

// DefaultPack is a 4S lithium-ion pack of 5 Ah, four fifths full, at 25 °C.
func DefaultPack() PackConfig {
	return PackConfig{
		Cells: 4, Capacity: 5, SoC: 0.8, E0: 16.8, E1: -3.6, Resistance: 0.08, ChargingTime: 1,
		Ambient: 25, HeatCapacity: 400, ThermalResistance: 5,
	}
}

// Pack is a battery as physics has it. Its discharge switch opens when it is overdrawn, as the protection
// of a real pack does, and closes again when charging has brought some charge back.
type Pack struct {
	config PackConfig
	world  *World
	joints []*Joint

	cells    []cell
	current  float64 // A, negative discharging
	voltage  float64 // V at the terminals
	heat     float64 // °C
	draining bool
	charging bool
	open     bool // the discharge switch
	lacking  bool // the load asks for more than the pack can give
	extra    float64
}

type cell struct{ charge, capacity float64 } // Ah

// overdrawn is the part of the capacity below empty at which the protection opens the discharge switch,
// and recovered the part at which it closes again.
const overdrawn, recovered = -0.02, 0.01

// AddPack puts a pack into the world. Its electronics draw their load from the start.
func (w *World) AddPack(c PackConfig) *Pack {
	p := &Pack{config: c, world: w, heat: float64(c.Ambient), draining: true, cells: make([]cell, max(1, c.Cells))}
	for i := range p.cells {
		spread := 0.0
		if len(p.cells) > 1 { // evenly from weakest to strongest
			spread = float64(c.CellSpread) * (2*float64(i)/float64(len(p.cells)-1) - 1)
		}
		capacity := float64(c.Capacity) * (1 + spread)
		p.cells[i] = cell{charge: capacity * float64(c.SoC), capacity: capacity}
	}
	p.settle(0)
	w.packs = append(w.packs, p)
	return p
}

// World is the world that the pack stands in.
func (p *Pack) World() *World { return p.world }

// Config is what the pack was made from.
func (p *Pack) Config() PackConfig { return p.config }

// Voltage is the terminal voltage.
func (p *Pack) Voltage() unit.Volts { return unit.Volts(p.voltage) }

// Supply is the voltage that the loads see: the terminal voltage, or 0 once the protection has opened.
func (p *Pack) Supply() unit.Volts {
	if p.open {
		return 0
	}
	return unit.Volts(p.voltage)
}

// Current is negative while the pack discharges.
func (p *Pack) Current() unit.Amperes { return unit.Amperes(p.current) }

// Capacity is that of the weakest cell, which bounds the pack.
func (p *Pack) Capacity() unit.AmpereHours {
	least := math.Inf(1)
	for _, c := range p.cells {
		least = min(least, c.capacity)
	}
	return unit.AmpereHours(least)
}

// Charge is what the weakest cell still holds; below 0 when overdrawn.
func (p *Pack) Charge() unit.AmpereHours {
	least := math.Inf(1)
	for _, c := range p.cells {
		least = min(least, c.charge)
	}
	return unit.AmpereHours(least)
}

// SoC is Charge by Capacity.
func (p *Pack) SoC() unit.Ratio { return unit.Ratio(p.Charge() / p.Capacity()) }

// Temperature of the cells.
func (p *Pack) Temperature() unit.Celsius { return unit.Celsius(p.heat) }

// CellCount is the number of cells in series.
func (p *Pack) CellCount() int { return len(p.cells) }

// Cell is the voltage of cell i, the most negative first.
func (p *Pack) Cell(i int) unit.Volts {
	n := float64(len(p.cells))
	return unit.Volts(p.ocv(p.cells[i]) + p.current*float64(p.config.Resistance)/n)
}

// SetCharging connects or disconnects the charger: constant current, then constant voltage at E0.
func (p *Pack) SetCharging(on bool) { p.charging = on }

// Charging reports whether the charger is connected.
func (p *Pack) Charging() bool { return p.charging }

// SetDraining switches the electronics' load.
func (p *Pack) SetDraining(on bool) { p.draining = on }

// SetExtraLoad sets the power of further consumers, beside the configured load and the joints.
func (p *Pack) SetExtraLoad(w unit.Watts) { p.extra = float64(w) }

// Protected reports whether the protection has opened the discharge switch.
func (p *Pack) Protected() bool { return p.open }

// Browned reports whether the load asks for more power than the pack can give at its resistance.
func (p *Pack) Browned() bool { return p.lacking }

// ocv is the open-circuit voltage of one cell.
func (p *Pack) ocv(c cell) float64 {
	n := float64(len(p.cells))
	return (float64(p.config.E0) + float64(p.config.E1)*(1-c.charge/c.capacity)) / n
}

func (p *Pack) step(dt float64) {
	load := 0.0
	if p.draining {
		load += float64(p.config.Load) + p.extra
	}
	for _, j := range p.joints {
		load += float64(j.Power())
	}
	p.settle(load)
	for i := range p.cells {
		p.cells[i].charge += p.current * dt / 3600
	}
	r := float64(p.config.Resistance)
	p.heat += dt / p.config.HeatCapacity * (p.current*p.current*r - (p.heat-float64(p.config.Ambient))/p.config.ThermalResistance)
	switch soc := p.SoC(); {
	case soc < overdrawn:
		p.open = true
	case soc > recovered:
		p.open = false
	}
}

// settle finds current and terminal voltage under a load in watts: P = V·I with V = OCV − R·I, of which
// the smaller current is the stable one.
func (p *Pack) settle(load float64) {
	ocv := 0.0
	for _, c := range p.cells {
		ocv += p.ocv(c)
	}
	ocv = max(ocv, 0)
	r := float64(p.config.Resistance)
	drawn := 0.0
	p.lacking = false
	switch {
	case p.open && load > 0:
	case r == 0:
		drawn = load / max(ocv, 1e-3)
	default:
		root := ocv*ocv - 4*r*load
		p.lacking = root < 0
		drawn = (ocv - math.Sqrt(max(root, 0))) / (2 * r)
	}
	charge := 0.0
	if p.charging && p.config.ChargingTime > 0 {
		// The charger gives its constant current until the terminals reach E0, and then what holds them there.
		charge = float64(p.config.Capacity) / p.config.ChargingTime
		if r > 0 {
			charge = min(charge, max(0, (float64(p.config.E0)-ocv)/r+drawn))
		}
		if p.Charge() >= p.Capacity() {
			charge = min(charge, drawn)
		}
	}
	p.current = charge - drawn
	p.voltage = max(0, ocv+r*p.current)
}
