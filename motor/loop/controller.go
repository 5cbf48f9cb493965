package loop

import (
	"math"
	"time"

	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/motor/pid"
	"hilgate/motor/trajectory"
)

// Axis is how one joint is controlled.
type Axis struct {
	Position, Velocity pid.Config

	// Initial is the target of the position before any trajectory. It counts only in Gazebo's mode.
	Initial unit.Position
}

// Controller is Gazebo's JointTrajectoryController: a trajectory gives each joint a target, two PIDs
// compare it with what was measured. It knows no bus, no clock and no limits.
//
// What the sum of both PIDs means depends on by what the joint is commanded:
//
//	effort    sum + the trajectory's effort: Gazebo's way
//	velocity  the trajectory's velocity + sum, as a correction in rad/s or m/s
//	position  the trajectory's position as it is, with its velocity; the PIDs have no say
//
// In Gazebo's mode a joint is driven to its initial position from the first step on, its first derivative
// is that of a jump from an error of 0, and its integrals wind up while the command is held back. Else a
// joint rests where it was measured until a trajectory comes. So it does in both modes once it has been
// driven and was stopped, which Gazebo has no notion of.
type Controller struct {
	axes    []Axis
	gazebo  bool
	pids    []pids
	targets []motor.Target
	sums    []float64
	tracker trajectory.Tracker
}

// pids is the state of both controllers of a joint.
type pids struct {
	position, velocity pid.State

	fresh  bool // not stepped since they were reset
	driven bool // a command was granted, so that there is something that a stop ends
}

// NewController makes a controller; gazebo chooses Gazebo's mode. There are at most motor.MaxJoints axes.
func NewController(axes []Axis, gazebo bool) *Controller {
	c := &Controller{
		axes: axes, gazebo: gazebo, pids: make([]pids, len(axes)),
		targets: make([]motor.Target, len(axes)), sums: make([]float64, len(axes)),
	}
	for i := range axes {
		c.Rest(i, unit.Unknown[unit.Position]())
	}
	return c
}

// Tracker walks along the controller's trajectory; a new one begins there.
func (c *Controller) Tracker() *trajectory.Tracker { return &c.tracker }

// Target is where joint i shall be. Its position is NaN until the joint has been measured.
func (c *Controller) Target(i int) motor.Target { return c.targets[i] }

// Rest has joint i stay where it was measured, and forget what its PIDs have gathered. In Gazebo's mode a
// joint that was never driven goes to its initial position instead.
func (c *Controller) Rest(i int, measured unit.Position) {
	driven := c.pids[i].driven
	if c.gazebo && !driven {
		measured = c.axes[i].Initial
	}
	c.targets[i] = motor.Target{Position: measured}
	c.pids[i] = pids{fresh: !c.gazebo, driven: driven}
}

// Step moves the targets to the instant at and steps the PIDs by dt, the time since the step before.
// Feedback has one element a joint; an unknown position or velocity leaves its PID out. A negative dt, as
// after a jump back in time, drops the trajectory and puts all joints to Rest first, as if none had been
// driven. It reports whether the progress has changed.
func (c *Controller) Step(at, dt time.Duration, fb []motor.Feedback) (changed bool) {
	if dt < 0 {
		c.tracker.Drop()
		for i := range c.axes {
			c.pids[i].driven = false
			c.Rest(i, fb[i].Position)
		}
	}
	changed = c.tracker.Step(at, c.targets)
	for i := range c.axes {
		axis, state, target := &c.axes[i], &c.pids[i], &c.targets[i]
		if !c.gazebo && math.IsNaN(float64(target.Position)) {
			target.Position = fb[i].Position
		}
		position := float64(fb[i].Position - target.Position)
		velocity := float64(fb[i].Velocity - target.Velocity)
		if state.fresh {
			state.position.Settle(position)
			state.velocity.Settle(velocity)
			state.fresh = false
		}
		c.sums[i] = axis.Position.Step(&state.position, position, dt) + axis.Velocity.Step(&state.velocity, velocity, dt)
	}
	return changed
}

// Wanted is what the last step wants of joint i, given by a quantity of mode.
func (c *Controller) Wanted(i int, mode motor.Mode) motor.Command {
	target, cmd := &c.targets[i], motor.Command{Mode: mode}
	switch mode {
	case motor.ModeEffort:
		cmd.Effort = unit.Effort(c.sums[i]) + target.Effort
	case motor.ModeVelocity:
		cmd.Velocity = target.Velocity + unit.Velocity(c.sums[i])
	case motor.ModePosition:
		cmd.Position, cmd.Velocity = target.Position, target.Velocity
	}
	return cmd
}

// Granted tells the controller what became of what it wanted of joint i, so that its integrals do not wind
// up against a limit. In Gazebo's mode they do.
func (c *Controller) Granted(i int, wanted, granted motor.Command) {
	c.pids[i].driven = true
	if c.gazebo || granted.Mode != wanted.Mode {
		return
	}
	cut := float64(wanted.Effort - granted.Effort)
	if wanted.Mode == motor.ModeVelocity {
		cut = float64(wanted.Velocity - granted.Velocity)
	}
	c.pids[i].position.Unwind(cut)
	c.pids[i].velocity.Unwind(cut)
}
