package plant

import (
	"math"

	"hilgate/model/unit"
)

// JointConfig describes a simulated axis and its brushed DC motor. The tags are keys of the
// configuration's simulate section; transmission and motor come from the joint's own entry.
type JointConfig struct {
	Inertia  float64       `yaml:"inertia"`  // of everything, seen at the joint: kg·m², or kg
	Damping  float64       `yaml:"damping"`  // viscous: N·m·s/rad, or N·s/m
	Friction unit.Effort   `yaml:"friction"` // Coulomb
	Load     unit.Effort   `yaml:"load"`     // that acts always, as gravity on a hoist; positive pushes forward
	Lower    unit.Position `yaml:"lower"`    // hard stops; both 0 is none
	Upper    unit.Position `yaml:"upper"`

	Ratio             float64    `yaml:"-"` // motor radians for one unit of the joint, with sign
	Efficiency        unit.Ratio `yaml:"-"`
	TorqueConstant    float64    `yaml:"-"` // N·m/A and V·s/rad
	WindingResistance unit.Ohms  `yaml:"-"`

	Ambient           unit.Celsius `yaml:"ambient"`
	HeatCapacity      float64      `yaml:"heat_capacity"`      // of the winding, J/K
	ThermalResistance float64      `yaml:"thermal_resistance"` // winding to ambient, K/W
}

// DefaultJoint is a small wheel on a geared 12 V motor.
func DefaultJoint() JointConfig {
	return JointConfig{
		Inertia: 0.02, Damping: 0.02, Friction: 0.05, Ratio: 30, Efficiency: 0.9, TorqueConstant: 0.021,
		WindingResistance: 0.6, Ambient: 25, HeatCapacity: 60, ThermalResistance: 4,
	}
}

// Joint is an axis with its motor, as physics has it.
type Joint struct {
	config JointConfig
	world  *World
	pack   *Pack // nil: a supply of constant voltage
	supply float64

	position, velocity float64 // joint
	drive              float64 // V on the winding
	driven             bool    // false: the winding is open and the motor coasts
	current            float64 // A in the winding
	heat               float64 // °C
	jammed             bool
}

// AddJoint puts a joint at rest, at 0, into the world. pack feeds its motor; nil stands for a bench supply
// of 12 V.
func (w *World) AddJoint(c JointConfig, pack *Pack) *Joint {
	j := &Joint{config: c, world: w, pack: pack, supply: 12, heat: float64(c.Ambient)}
	if pack != nil {
		pack.joints = append(pack.joints, j)
	}
	w.joints = append(w.joints, j)
	return j
}

// World is the world that the joint stands in.
func (j *Joint) World() *World { return j.world }

// Config is what the joint was made from.
func (j *Joint) Config() JointConfig { return j.config }

// Drive puts a voltage on the winding, until it is changed. 0 is a short circuit: the motor brakes.
// The voltage is bounded by Supply.
func (j *Joint) Drive(v unit.Volts) { j.drive, j.driven = float64(v), true }

// Release opens the winding: the motor coasts.
func (j *Joint) Release() { j.drive, j.driven, j.current = 0, false, 0 }

// Driven is the voltage on the winding, and whether it is connected at all.
func (j *Joint) Driven() (v unit.Volts, connected bool) {
	s := float64(j.Supply())
	return unit.Volts(min(max(j.drive, -s), s)), j.driven
}

// Supply is the voltage that the pack gives the controller.
func (j *Joint) Supply() unit.Volts {
	if j.pack != nil {
		return j.pack.Supply()
	}
	return unit.Volts(j.supply)
}

// SetSupply sets the voltage of the bench supply of a joint without a pack.
func (j *Joint) SetSupply(v unit.Volts) { j.supply = float64(v) }

// Position of the joint.
func (j *Joint) Position() unit.Position { return unit.Position(j.position) }

// Velocity of the joint.
func (j *Joint) Velocity() unit.Velocity { return unit.Velocity(j.velocity) }

// MotorAngle is the angle of the motor's shaft, rad.
func (j *Joint) MotorAngle() float64 { return j.position * j.config.Ratio }

// MotorSpeed is the speed of the motor's shaft, rad/s.
func (j *Joint) MotorSpeed() float64 { return j.velocity * j.config.Ratio }

// Current in the winding; its sign is that of the motor's torque.
func (j *Joint) Current() unit.Amperes { return unit.Amperes(j.current) }

// Power drawn from the supply; negative when the motor feeds back.
func (j *Joint) Power() unit.Watts {
	v, on := j.Driven()
	if !on {
		return 0
	}
	return unit.Watts(float64(v) * j.current)
}

// Temperature of the winding.
func (j *Joint) Temperature() unit.Celsius { return unit.Celsius(j.heat) }

// SetTemperature puts the winding at a temperature, to provoke a controller's protection.
func (j *Joint) SetTemperature(t unit.Celsius) { j.heat = float64(t) }

// Jam holds the axis where it is, as something stuck in the gear does, or frees it.
func (j *Joint) Jam(on bool) {
	j.jammed = on
	if on {
		j.velocity = 0
	}
}

func (j *Joint) step(dt float64) {
	c := &j.config
	j.current = 0
	if v, on := j.Driven(); on && c.WindingResistance > 0 {
		j.current = (float64(v) - c.TorqueConstant*j.MotorSpeed()) / float64(c.WindingResistance)
	}
	torque := c.TorqueConstant * j.current
	effort := torque * c.Ratio
	if effort*j.velocity >= 0 { // the gear's losses are on the side of whoever drives
		effort *= float64(c.Efficiency)
	} else {
		effort /= float64(c.Efficiency)
	}
	effort += float64(c.Load)
	r := float64(c.WindingResistance)
	j.heat += dt / c.HeatCapacity * (j.current*j.current*r - (j.heat-float64(c.Ambient))/c.ThermalResistance)
	if j.jammed {
		return
	}
	// Semi-implicit in viscous damping and back-EMF, so that a light rotor with a strong motor stays stable.
	damping := c.Damping
	if j.driven && r > 0 {
		emf := c.TorqueConstant * c.TorqueConstant * c.Ratio * c.Ratio / r * float64(c.Efficiency)
		effort += emf * j.velocity
		damping += emf
	}
	mass := c.Inertia + dt*damping
	free := (c.Inertia*j.velocity + dt*effort) / mass
	if slow := dt * float64(c.Friction) / mass; math.Abs(free) <= slow {
		j.velocity = 0 // Coulomb friction can stop the axis in this step, and does not turn it around
	} else {
		j.velocity = free - math.Copysign(slow, free)
	}
	j.position += dt * j.velocity
	if c.Lower < c.Upper {
		if stop := min(max(j.position, float64(c.Lower)), float64(c.Upper)); stop != j.position {
			j.position, j.velocity = stop, 0
		}
	}
}
