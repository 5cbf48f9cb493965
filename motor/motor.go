// Package motor is the vocabulary of joints: what a motor controller tells, what it is told, what a joint
// is, and what a driver must be able to do.
package motor

import (
	"fmt"

	"hilgate/model/unit"
)

// Group is the joints behind one controller, or one chain of controllers on one port. Slices have one
// element a joint, in the order in which the group was made. Calls block for no longer than the port's
// deadlines allow, so there is no context. A Group belongs to one goroutine. Errors are, by errors.Is, one
// of package link's kinds. Read and Write allocate nothing.
type Group interface {
	// Arm prepares the controller after each opening of the port: it finds out who answers, reads its
	// faults, sets the controller's own command timeout and reads it back, and leaves all joints without
	// power. Nothing is written by Write before Arm has succeeded.
	Arm() error

	// Read fills fb with what the controller tells now. What it did not tell this time keeps its value in
	// fb; with an error, fb is not to be used.
	Read(fb []Feedback) error

	// Write sends one command to each joint.
	Write(cmd []Command) error

	// Stop removes power from all joints. It may be called twice, before Arm, and after an error.
	Stop() error
}

// Identifier is a group that knows which controller answers. known is false until Arm has succeeded.
type Identifier interface {
	Identity() (id Identity, known bool)
}

// Identity says which controller this is. Empty strings are unknown.
type Identity struct {
	Model, Firmware, Serial string
	Failsafe                string // the controller's own timeout as read back: "serial timeout 0.3 s"
}

// Mode says by which quantity a joint is commanded.
type Mode uint8

const (
	ModeStop     Mode = iota // no power; the joint coasts or is braked, as the controller does it
	ModeEffort               // Effort
	ModeVelocity             // Velocity, closed by the controller
	ModePosition             // Position, closed by the controller, Velocity as its bound or feed-forward
)

var modeNames = [...]string{"stop", "effort", "velocity", "position"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// UnmarshalText reads the mode of a joint from a configuration: "effort", "velocity" or "position".
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range modeNames {
		if i > 0 && name == string(text) {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no command mode: want effort, velocity or position", text)
}

// Command is what one joint shall do until the next one. Only the quantities of its Mode count.
type Command struct {
	Mode     Mode
	Effort   unit.Effort
	Velocity unit.Velocity
	Position unit.Position
}

// EffortSource says where an applied effort comes from.
type EffortSource uint8

const (
	EffortUnknown   EffortSource = iota
	EffortMeasured               // from measured current
	EffortEstimated              // from duty and speed
	EffortCommanded              // only what was asked for
)

var effortSourceNames = [...]string{"unknown", "measured", "estimated", "commanded"}

func (s EffortSource) String() string {
	if int(s) < len(effortSourceNames) {
		return effortSourceNames[s]
	}
	return effortSourceNames[0]
}

// Feedback is what a controller told about one joint. Unknown quantities are NaN.
type Feedback struct {
	Position     unit.Position
	Velocity     unit.Velocity
	Effort       unit.Effort // applied at the joint, after the transmission
	EffortSource EffortSource
	Current      unit.Amperes // in the motor winding, positive with positive effort
	Power        unit.Watts   // drawn from the pack, negative when it feeds back
	Temperature  unit.Celsius // the hottest that the controller tells for this joint
	Voltage      unit.Volts   // supply at the controller
	Faults       Faults
}

// Unmeasured is the feedback of a joint that has told nothing.
func Unmeasured() Feedback {
	nan := unit.Unknown[float64]()
	return Feedback{
		Position: unit.Position(nan), Velocity: unit.Velocity(nan), Effort: unit.Effort(nan),
		Current: unit.Amperes(nan), Power: unit.Watts(nan), Temperature: unit.Celsius(nan),
		Voltage: unit.Volts(nan),
	}
}

// Faults is a set of what a controller reports. Those in Disabling mean that the motor has no power, or
// must have none; the others are warnings.
type Faults uint32

const (
	FaultEStop Faults = 1 << iota
	FaultOvertemperature
	FaultOvervoltage
	FaultUndervoltage
	FaultDriver
	FaultOvercurrent
	FaultFollowing // speed or position error beyond the controller's bound
	FaultEncoder
	FaultOther
	WarnOvertemperature
	WarnOvervoltage
	WarnUndervoltage
	WarnOvercurrent
	WarnOther

	Disabling = WarnOvertemperature - 1
)

var faultNames = [...]string{
	"estop", "overtemperature", "overvoltage", "undervoltage", "driver", "overcurrent", "following",
	"encoder", "other", "overtemperature_warning", "overvoltage_warning", "undervoltage_warning",
	"overcurrent_warning", "other_warning",
}

// FaultNames lists the name of every fault, the lowest bit first.
func FaultNames() []string { return faultNames[:] }

// Names lists the names of the faults in f.
func (f Faults) Names() []string { return members(faultNames[:], uint32(f)) }

// members lists the names of the bits that are set, the lowest first.
func members(names []string, set uint32) []string {
	var all []string
	for i, n := range names {
		if set&(1<<i) != 0 {
			all = append(all, n)
		}
	}
	return all
}
