package metrics

import (
	"math"
	"time"

	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
)

// An answer of a controller counts for a second, or for three periods of a slow loop: an older one means
// that the loop or the store stands still.
const (
	answerFresh   = time.Second
	answerPeriods = 3
)

// axis is the families whose unit depends on whether a joint turns or slides.
type axis struct {
	position, positionError                         family
	velocity, velocityError                         family
	effort                                          family
	commandEffort, commandVelocity, commandPosition family
}

// motionFamilies tell of the joints and of the controllers behind which they hang.
type motionFamilies struct {
	turning, sliding axis
	limits, withheld family // of a joint

	amperes, watts, temperature family // of a joint's motor

	up, info, lastSample, volts, faults family // of a controller
	progress, active, goals             family
}

func newMotionFamilies(c *catalogue) motionFamilies {
	return motionFamilies{
		turning: newAxis(c, "radians", "radians_per_second", "newton_meters"),
		sliding: newAxis(c, "meters", "meters_per_second", "newtons"),
		limits: c.gauge("joint_limit_active",
			"1 for each bound that held the joint's last command back.", "joint", "limit"),
		withheld: c.gauge("joint_withheld", "1 for each reason why the joint may not move now.", "joint", "reason"),

		amperes: c.gauge("motor_current_amperes",
			"Current in the motor's winding: positive with positive effort.", "motor", "joint"),
		watts: c.gauge("motor_input_power_watts",
			"Power that the motor draws from its pack: negative when it feeds back.", "motor", "joint"),
		temperature: c.gauge("motor_temperature_celsius",
			"Hottest temperature that the controller tells for the joint.", "motor", "joint"),
		volts: c.gauge("motor_bus_volts",
			"Supply voltage at the controller; the lowest where each joint has its own.", "motor"),

		up: c.gauge("motor_up", "1 if the controller answers, else 0.", "motor"),
		info: c.gauge("motor_info", "What the controller says of itself; always 1.",
			"motor", "driver", "model", "firmware", "serial", "failsafe"),
		lastSample: c.gauge("motor_last_sample_timestamp_seconds",
			"When the controller last answered, Unix time.", "motor"),
		faults: c.gauge("motor_fault",
			"1 for each fault or warning that the controller reports for any of its joints.", "motor", "fault"),
		progress: c.gauge("joint_trajectory_progress_ratio",
			"Progress on the trajectory; 0 before its first point.", "motor"),
		active: c.gauge("joint_trajectory_active", "1 while a trajectory runs or waits for its start.", "motor"),
		goals:  c.counter("joint_trajectory_goals_total", "Trajectories that were accepted.", "motor"),
	}
}

func newAxis(c *catalogue, position, velocity, effort string) axis {
	return axis{
		position: c.gauge("joint_position_"+position, "Position of the joint, as measured.", "joint"),
		positionError: c.gauge("joint_position_error_"+position,
			"Measured position minus the one that the trajectory wants.", "joint"),
		velocity: c.gauge("joint_velocity_"+velocity, "Velocity of the joint, as measured.", "joint"),
		velocityError: c.gauge("joint_velocity_error_"+velocity,
			"Measured velocity minus the one that the trajectory wants.", "joint"),
		effort: c.gauge("joint_effort_"+effort,
			"Effort at the joint, measured by current, estimated from duty and speed, or only as commanded.",
			"joint", "source"),
		commandEffort: c.gauge("joint_command_effort_"+effort,
			"Effort that was sent to the controller; 0 while the joint is stopped.", "joint"),
		commandVelocity: c.gauge("joint_command_velocity_"+velocity,
			"Velocity that was sent to the controller.", "joint"),
		commandPosition: c.gauge("joint_command_position_"+position,
			"Position that was sent to the controller.", "joint"),
	}
}

// collect tells of one controller and its joints at the instant now; period is its loop's. What the
// controller told leaves the page while it does not answer; why its joints may not move stays.
func (f *motionFamilies) collect(p page, now time.Time, period time.Duration, g *motor.State) {
	up := g.Connected && now.Sub(g.At) <= max(answerFresh, answerPeriods*period)
	p.flag(f.up, up, g.Name)
	p.put(f.lastSample, instant(g.At), g.Name)
	p.put(f.progress, float64(g.Trajectory.Ratio), g.Name)
	p.flag(f.active, g.Trajectory.Active, g.Name)
	p.put(f.goals, float64(g.Trajectory.ID), g.Name)
	for i := range g.Joints {
		p.bits(f.withheld, permit.Names(), uint32(g.Joints[i].Withheld), g.Joints[i].Name)
	}
	if !up {
		return
	}
	id := &g.Identity
	p.put(f.info, 1, g.Name, g.Driver, told(id.Model), told(id.Firmware), told(id.Serial), told(id.Failsafe))
	var faults motor.Faults
	volts := unit.Volts(math.Inf(1))
	for i := range g.Joints {
		j := &g.Joints[i]
		faults |= j.Feedback.Faults
		if v := j.Feedback.Voltage; v < volts { // NaN is not
			volts = v
		}
		a := &f.turning
		if j.Prismatic {
			a = &f.sliding
		}
		a.collect(p, j)
		p.bits(f.limits, motor.LimitNames(), uint32(j.Limited), j.Name)
		p.put(f.amperes, float64(j.Feedback.Current), g.Name, j.Name)
		p.put(f.watts, float64(j.Feedback.Power), g.Name, j.Name)
		p.put(f.temperature, float64(j.Feedback.Temperature), g.Name, j.Name)
	}
	p.put(f.volts, float64(volts), g.Name)
	p.bits(f.faults, motor.FaultNames(), uint32(faults), g.Name)
}

func (a *axis) collect(p page, j *motor.JointState) {
	b, t := &j.Feedback, &j.Target
	p.put(a.position, float64(b.Position), j.Name)
	p.put(a.positionError, float64(b.Position-t.Position), j.Name)
	p.put(a.velocity, float64(b.Velocity), j.Name)
	p.put(a.velocityError, float64(b.Velocity-t.Velocity), j.Name)
	p.put(a.effort, float64(b.Effort), j.Name, b.EffortSource.String())
	switch j.Command.Mode {
	case motor.ModeStop:
		p.put(a.commandEffort, 0, j.Name)
	case motor.ModeEffort:
		p.put(a.commandEffort, float64(j.Command.Effort), j.Name)
	case motor.ModeVelocity:
		p.put(a.commandVelocity, float64(j.Command.Velocity), j.Name)
	case motor.ModePosition:
		p.put(a.commandPosition, float64(j.Command.Position), j.Name)
	}
}
