package configs

import (
	"time"

	"hilgate/motor"
	"hilgate/motor/trajectory"
)

// Motion is a trajectory that simulated joints follow from the start, over and over.
type Motion struct {
	JointNames []string      `yaml:"joint_names"`
	Points     []Waypoint    `yaml:"points"`
	Period     time.Duration `yaml:"period"` // from one beginning to the next; the last waypoint's time by default
}

// Waypoint is one point of a Motion. Each list is empty, or has one number a joint.
type Waypoint struct {
	Positions     []float64     `yaml:"positions"`  // rad or m
	Velocities    []float64     `yaml:"velocities"` // rad/s or m/s
	Effort        []float64     `yaml:"effort"`     // N·m or N
	TimeFromStart time.Duration `yaml:"time_from_start"`
}

const maxWaypoints = 1000

// Message is the motion as one command.
func (m *Motion) Message() trajectory.Message {
	t := trajectory.Message{ID: "motion", JointNames: m.JointNames}
	for _, p := range m.Points {
		t.Points = append(t.Points, trajectory.Point{
			Positions: p.Positions, Velocities: p.Velocities, Effort: p.Effort, FromStart: p.TimeFromStart,
		})
	}
	return t
}

func (c *checker) motion() {
	m := c.file.Motion
	if m == nil {
		return
	}
	joints := make([]*motor.Joint, len(m.JointNames))
	named := map[string]bool{}
	for i, name := range m.JointNames {
		path := index("motion.joint_names", i)
		motors, known := c.joints[name]
		switch {
		case !known:
			c.faultf(path, "%s: no joint has that name", name)
			continue
		case named[name]:
			c.faultf(path, "%s: named twice", name)
		case !c.moves(name):
			c.faultf(path, "%s: no controller moves it", name)
		}
		named[name] = true
		g := c.file.Group(motors)
		if b := c.file.Bus(g.Bus); b != nil && !b.Simulated() {
			c.faultf(path, "%s: a motion from the file is for simulated joints: want bus %s at sim: or pty:, not %s", name, b.Name, b.Device)
		}
		for k := range g.Joints {
			if g.Joints[k].Name == name {
				joints[i] = &g.Joints[k]
			}
		}
	}
	if len(m.JointNames) == 0 {
		c.faultf("motion.joint_names", "missing: want the joints that move")
	}
	if n := len(m.Points); n == 0 || n > maxWaypoints {
		c.faultf("motion.points", "%d waypoints: want 1 to %d", n, maxWaypoints)
		return
	}
	last := time.Duration(-1)
	for i := range m.Points {
		p := &m.Points[i]
		at := index("motion.points", i)
		if p.TimeFromStart <= last {
			c.faultf(at+".time_from_start", "%v: want later than the waypoint before, %v", p.TimeFromStart, max(0, last))
		}
		last = p.TimeFromStart
		c.waypoint(at+".positions", p.Positions, joints, func(l *motor.Limits) (float64, float64) { return float64(l.Lower), float64(l.Upper) })
		c.waypoint(at+".velocities", p.Velocities, joints, func(l *motor.Limits) (float64, float64) { return -float64(l.Velocity), float64(l.Velocity) })
		c.waypoint(at+".effort", p.Effort, joints, func(l *motor.Limits) (float64, float64) { return -float64(l.Effort), float64(l.Effort) })
	}
	if m.Period == 0 && !c.has("motion.period") {
		m.Period = last
	}
	if m.Period < last || m.Period <= 0 {
		c.faultf("motion.period", "%v: want above 0 and at least the last waypoint's time, %v", m.Period, last)
	}
}

// moves reports whether a controller moves the joint.
func (c *checker) moves(joint string) bool {
	for i := range c.file.Controllers {
		if c.file.Controllers[i].Index(joint) >= 0 {
			return true
		}
	}
	return false
}

// waypoint checks one list of a waypoint against the joints' limits, of which NaN is none.
func (c *checker) waypoint(at string, list []float64, joints []*motor.Joint, limits func(*motor.Limits) (low, high float64)) {
	if len(list) != 0 && len(list) != len(joints) {
		c.faultf(at, "%d numbers: want none, or one a joint, %d", len(list), len(joints))
		return
	}
	for i, x := range list {
		c.finite(index(at, i), x)
		if joints[i] == nil {
			continue
		}
		if low, high := limits(&joints[i].Limits); x < low || x > high {
			c.faultf(index(at, i), "%v: joint %s is limited to %v to %v", x, joints[i].Name, low, high)
		}
	}
}
