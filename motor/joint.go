package motor

import (
	"math"

	"hilgate/model/unit"
)

// Joint is one axis: where it hangs on the controller, what lies between motor and joint, and what it must
// never exceed. The tags are the keys of the configuration.
type Joint struct {
	Name string `yaml:"-"`

	// Channel is the joint's place behind the controller: a motor channel from 1, or a servo's bus ID.
	Channel int `yaml:"channel"`

	// Prismatic joints slide: metres and newtons instead of radians and newton-metres.
	Prismatic bool `yaml:"prismatic"`

	// Reversed joints count position, velocity and effort against the motor.
	Reversed bool `yaml:"reversed"`

	// GearRatio is the turns of the motor for one turn of the joint, or of the lead screw. Positive.
	GearRatio float64 `yaml:"gear_ratio"`

	// Lead is the travel of a prismatic joint for one turn of its screw, m.
	Lead float64 `yaml:"lead"`

	// Efficiency of the gear, above 0 up to 1.
	Efficiency unit.Ratio `yaml:"efficiency"`

	// TorqueConstant of the motor, N·m/A, equal to its speed constant in V·s/rad. 0 is not known: then the
	// joint cannot be commanded by effort.
	TorqueConstant float64 `yaml:"torque_constant"`

	// WindingResistance of the motor, Ω. 0 is not known.
	WindingResistance unit.Ohms `yaml:"winding_resistance"`

	// CountsPerRevolution of the encoder, for one turn of the motor: four times its lines.
	CountsPerRevolution float64 `yaml:"counts_per_revolution"`

	// MaxVelocity is the joint's velocity at full duty without load, which a controller that closes the
	// velocity loop itself needs (RoboClaw's QPPS). 0 is not known.
	MaxVelocity unit.Velocity `yaml:"max_velocity"`

	// Command is the quantity that the controller is given: effort, velocity or position.
	Command Mode `yaml:"command"`

	Limits Limits `yaml:"limits"`
}

// Limits bound one joint. NaN, or a key that is left out, is no bound.
type Limits struct {
	Lower         unit.Position `yaml:"lower"`          // rad or m
	Upper         unit.Position `yaml:"upper"`          // rad or m
	Velocity      unit.Velocity `yaml:"velocity"`       // magnitude, rad/s or m/s
	Effort        unit.Effort   `yaml:"effort"`         // magnitude, N·m or N
	Current       unit.Amperes  `yaml:"current"`        // magnitude in the winding
	Temperature   unit.Celsius  `yaml:"temperature"`    // of the controller's hottest sensor
	TrackingError unit.Position `yaml:"tracking_error"` // magnitude between target and measured position
}

// NewJoint is a joint with the defaults of the configuration: direct drive, commanded by effort, no bounds.
func NewJoint(name string, channel int) Joint {
	nan := math.NaN()
	return Joint{
		Name: name, Channel: channel, GearRatio: 1, Efficiency: 1, Command: ModeEffort,
		Limits: Limits{
			Lower: unit.Position(nan), Upper: unit.Position(nan), Velocity: unit.Velocity(nan),
			Effort: unit.Effort(nan), Current: unit.Amperes(nan), Temperature: unit.Celsius(nan),
			TrackingError: unit.Position(nan),
		},
	}
}

// Transmission is the motor's angle in radians for one unit of the joint's position, with the sign.
func (j *Joint) Transmission() float64 {
	n := j.GearRatio
	if j.Prismatic {
		n *= 2 * math.Pi / j.Lead
	}
	if j.Reversed {
		n = -n
	}
	return n
}

// MotorTorque is the torque that the motor must give for an effort at the joint, in N·m at its shaft. The
// gear's losses are on the side of whoever drives: add to them if driving is true, help if the load drives.
func (j *Joint) MotorTorque(e unit.Effort, driving bool) float64 {
	if driving {
		return float64(e) / j.Transmission() / float64(j.Efficiency)
	}
	return float64(e) / j.Transmission() * float64(j.Efficiency)
}

// JointEffort is the effort at the joint that a motor torque gives: the inverse of MotorTorque.
func (j *Joint) JointEffort(torque float64, driving bool) unit.Effort {
	if driving {
		return unit.Effort(torque * j.Transmission() * float64(j.Efficiency))
	}
	return unit.Effort(torque * j.Transmission() / float64(j.Efficiency))
}
