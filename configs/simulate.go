package configs

import (
	"time"

	"go.yaml.in/yaml/v4"

	"hilgate/model/battery"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

// Simulate says what the simulated devices are like. A device on a sim: or pty: bus is simulated whether it
// is named here or not; any other that is named here is served by gateway sim at the address of its bus.
type Simulate struct {
	TimeScale float64      `yaml:"time_scale"` // how many times faster the packs drain and charge: see Hasten
	Ambient   unit.Celsius `yaml:"ambient"`    // around all devices

	// Devices holds the parameters of the plants, by device; Load puts what they come to into
	// Battery.Plant and Group.Plants.
	Devices map[string]yaml.Node `yaml:",inline"`
}

// simulateKeys are the keys of the section that are no devices.
var simulateKeys = []string{"time_scale", "ambient"}

func defaultSimulate() Simulate { return Simulate{TimeScale: 1, Ambient: 25} }

// Bounds of the simulation.
const (
	minTimeScale, maxTimeScale = 0.01, 1000
	minCelsius, maxCelsius     = -60, 120
	maxCells                   = 32
	maxSpread                  = 0.5
)

// Serves reports whether gateway sim serves the device: simulate names it, or its bus is simulated.
func (f *File) Serves(device string) bool {
	if _, named := f.Simulate.Devices[device]; named {
		return true
	}
	bus := ""
	if b := f.Battery(device); b != nil {
		bus = b.Bus
	} else if g := f.Group(device); g != nil {
		bus = g.Bus
	}
	b := f.Bus(bus)
	return b != nil && b.Simulated()
}

// Hasten has the simulated packs drain and charge so many times faster: their capacity and charging time
// are divided by factor, above 0, and so are the times that its fusion counts in discharges; currents and voltages stay as they are. Time itself passes as on the
// clock, so that control loops and timeouts see the robot that they are made for. Load has done so by
// TimeScale.
func (f *File) Hasten(factor float64) {
	for i := range f.Batteries {
		b := &f.Batteries[i]
		if !f.Serves(b.Name) {
			continue
		}
		b.Model.Capacity /= unit.AmpereHours(factor)
		b.Model.InitialCharge /= unit.AmpereHours(factor)
		b.Model.ChargingTime /= factor
		b.Fusion.Model = b.Model
		b.Fusion.ErrorTime = time.Duration(float64(b.Fusion.ErrorTime) / factor)
		b.Fusion.AverageTime = time.Duration(float64(b.Fusion.AverageTime) / factor)
		b.Fusion.Limits.CRateMax *= factor
		b.Plant.Capacity /= unit.AmpereHours(factor)
		b.Plant.ChargingTime /= factor
	}
}

func (c *checker) simulate() {
	s := &c.file.Simulate
	if !(s.TimeScale >= minTimeScale && s.TimeScale <= maxTimeScale) {
		c.faultf("simulate.time_scale", "%v: want %v to %v", s.TimeScale, minTimeScale, maxTimeScale)
	}
	c.celsius("simulate.ambient", s.Ambient)
	for name := range s.Devices {
		if _, known := c.devices[name]; !known {
			c.faultf("simulate."+name, "no battery and no motors have that name")
		}
	}
	for i := range c.file.Batteries {
		b := &c.file.Batteries[i]
		node := s.Devices[b.Name]
		b.Plant = packPlant(&b.Model, s.Ambient)
		at := "simulate." + b.Name
		c.collect(at, node.Load(&b.Plant, limits()))
		c.pack(at, &b.Plant)
	}
	for i := range c.file.Motors {
		g := &c.file.Motors[i]
		node := s.Devices[g.Name]
		at := "simulate." + g.Name
		pairs, err := mapping(&node)
		c.collect(at, err)
		axes := map[string]*yaml.Node{}
		for _, p := range pairs {
			axes[p.key] = p.value
			if c.joints[p.key] != g.Name {
				c.faultf(at+"."+p.key, "motors %s have no joint of that name", g.Name)
			}
		}
		for k := range g.Joints {
			j := &g.Joints[k]
			axis := jointPlant(j, s.Ambient)
			path := at + "." + j.Name
			if n := axes[j.Name]; n != nil {
				c.collect(path, n.Load(&axis, limits()))
			}
			c.axis(path, &axis)
			g.Plants = append(g.Plants, axis)
		}
	}
}

// packPlant is what the simulator of a pack is made from where simulate says no more: the battery that its
// model describes.
func packPlant(m *battery.Config, ambient unit.Celsius) plant.PackConfig {
	p := plant.DefaultPack()
	p.Ambient = ambient
	p.E0, p.E1, p.Resistance = m.E0, m.E1, m.Resistance
	if m.Capacity > 0 {
		p.Capacity = m.Capacity
	}
	p.SoC = 1 // as the model has it where initial_charge is left out
	if unit.Known(m.InitialCharge) && m.Capacity > 0 {
		p.SoC = unit.Ratio(m.InitialCharge / m.Capacity)
	}
	if unit.Known(m.PowerLoad) {
		p.Load = m.PowerLoad
	}
	if m.ChargingTime > 0 {
		p.ChargingTime = m.ChargingTime
	}
	return p
}

// jointPlant is what the simulator of a joint is made from where simulate says no more.
func jointPlant(j *motor.Joint, ambient unit.Celsius) plant.JointConfig {
	p := plant.DefaultJoint()
	p.Ambient = ambient
	p.Ratio, p.Efficiency = j.Transmission(), j.Efficiency
	if j.TorqueConstant > 0 {
		p.TorqueConstant = j.TorqueConstant
	}
	if j.WindingResistance > 0 {
		p.WindingResistance = j.WindingResistance
	}
	return p
}

func (c *checker) pack(at string, p *plant.PackConfig) {
	if p.Cells < 1 || p.Cells > maxCells {
		c.faultf(at+".cells", "%d: want 1 to %d", p.Cells, maxCells)
	}
	if !(p.SoC >= 0 && p.SoC <= 1) {
		c.faultf(at+".soc", "%v: want 0 to 1", p.SoC)
	}
	if !(p.CellSpread >= 0 && p.CellSpread < maxSpread) {
		c.faultf(at+".cell_spread", "%v: want 0 up to below %v", p.CellSpread, maxSpread)
	}
	c.given(at, "capacity", float64(p.Capacity), c.positive)
	c.given(at, "open_circuit_voltage_constant_coef", float64(p.E0), c.positive)
	if c.has(at+".open_circuit_voltage_linear_coef") && !(p.E1 <= 0 && p.E0+p.E1 > 0) {
		c.faultf(at+".open_circuit_voltage_linear_coef", "%v V: want at most 0, and above %v", p.E1, -p.E0)
	}
	c.given(at, "resistance", float64(p.Resistance), c.notNegative)
	c.given(at, "charging_time", p.ChargingTime, c.notNegative)
	c.given(at, "power_load", float64(p.Load), c.notNegative)
	c.positive(at+".heat_capacity", p.HeatCapacity)
	c.positive(at+".thermal_resistance", p.ThermalResistance)
	c.celsius(at+".ambient", p.Ambient)
}

// given checks what simulate gives itself: where it is left out it is the model's, and was checked there.
func (c *checker) given(at, key string, x float64, check func(string, float64)) {
	if c.has(at + "." + key) {
		check(at+"."+key, x)
	}
}

func (c *checker) axis(at string, p *plant.JointConfig) {
	c.positive(at+".inertia", p.Inertia)
	c.notNegative(at+".damping", p.Damping)
	c.notNegative(at+".friction", float64(p.Friction))
	c.finite(at+".load", float64(p.Load))
	if !(p.Lower <= p.Upper) {
		c.faultf(at+".lower", "%v: want at most upper, %v", p.Lower, p.Upper)
	}
	c.positive(at+".heat_capacity", p.HeatCapacity)
	c.positive(at+".thermal_resistance", p.ThermalResistance)
	c.celsius(at+".ambient", p.Ambient)
}

func (c *checker) celsius(path string, t unit.Celsius) {
	if !(t >= minCelsius && t <= maxCelsius) {
		c.faultf(path, "%v °C: want %v to %v", t, minCelsius, maxCelsius)
	}
}
