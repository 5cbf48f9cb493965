package trajectory

import (
	"fmt"
	"math"
	"strings"
	"time"

	"hilgate/model/unit"
)

// maxFaults is how many faults a refusal spells out.
const maxFaults = 16

// Refusal says why a trajectory was not accepted.
type Refusal struct {
	Faults  []string // the first ones
	Omitted int      // how many more there are
}

func (r *Refusal) Error() string {
	text := "trajectory refused: " + strings.Join(r.Faults, "; ")
	if r.Omitted > 0 {
		text += fmt.Sprintf("; and %d more", r.Omitted)
	}
	return text
}

func (r *Refusal) addf(format string, args ...any) {
	if len(r.Faults) == maxFaults {
		r.Omitted++
		return
	}
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// quote shows a name from outside, as much of it as an operator needs.
func quote(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// judge finds the faults of a message; nil if there is none.
func judge(m Message, joints []Joint, o Options) error {
	r := new(Refusal)
	switch { // what is too large is not looked into
	case len(m.JointNames) == 0:
		r.addf("no joint names")
	case len(m.JointNames) > MaxNames:
		r.addf("%d joint names: at most %d are taken", len(m.JointNames), MaxNames)
	case len(m.Points) == 0:
		r.addf("no points")
	case len(m.Points) > MaxPoints:
		r.addf("%d points: at most %d are taken", len(m.Points), MaxPoints)
	default:
		r.times(m, o)
		if !o.Gazebo {
			r.points(m, r.names(m, joints), o)
		}
	}
	if len(r.Faults) == 0 {
		return nil
	}
	return r
}

// names finds the joint of each column; nil for one that is unknown.
func (r *Refusal) names(m Message, joints []Joint) []*Joint {
	known := make(map[string]*Joint, len(joints))
	for i := range joints {
		known[joints[i].Name] = &joints[i]
	}
	columns := make([]*Joint, len(m.JointNames))
	seen := make(map[string]bool, len(columns))
	for c, name := range m.JointNames {
		columns[c] = known[name]
		switch {
		case columns[c] == nil:
			r.addf("joint_names[%d]: no joint is named %s", c, quote(name))
		case seen[name]:
			r.addf("joint_names[%d]: %s is named twice", c, quote(name))
		}
		seen[name] = true
	}
	return columns
}

func (r *Refusal) times(m Message, o Options) {
	for i := range m.Points {
		at := m.Points[i].FromStart
		switch {
		case at > Horizon || at < -Horizon:
			r.addf("points[%d]: time_from_start %v is beyond %v", i, at, Horizon)
		case o.Gazebo:
		case at < 0:
			r.addf("points[%d]: time_from_start %v is negative", i, at)
		case i > 0 && at <= m.Points[i-1].FromStart:
			r.addf("points[%d]: time_from_start %v is not after %v of the point before", i, at, m.Points[i-1].FromStart)
		}
	}
	if !o.UseHeaderStart || m.Start.IsZero() {
		return
	}
	last := m.Points[len(m.Points)-1].FromStart
	switch ahead := m.Start.Sub(o.Now); {
	case ahead > Horizon || ahead < -Horizon:
		r.addf("header.stamp %v is further than %v from now", m.Start.UTC().Format(time.RFC3339), Horizon)
	case !o.Gazebo && ahead+last < 0:
		r.addf("header.stamp: the trajectory ended %v before it arrived", -(ahead + last))
	}
}

func (r *Refusal) points(m Message, columns []*Joint, o Options) {
	for i := range m.Points {
		p := &m.Points[i]
		r.list(p.Positions, columns, i, "positions", position)
		r.list(p.Velocities, columns, i, "velocities", velocity)
		r.list(p.Accelerations, columns, i, "accelerations", unbounded)
		r.list(p.Effort, columns, i, "effort", effort)
	}
	if first := m.Points[0].Positions; o.StartTolerance > 0 && len(first) == len(columns) {
		for c, j := range columns {
			if j == nil {
				continue
			}
			if apart := unit.Position(math.Abs(first[c] - float64(j.Position))); !(apart <= o.StartTolerance) {
				r.addf("points[0].positions[%d]: %s is at %v, further from %v than the start tolerance %v",
					c, quote(j.Name), j.Position, first[c], o.StartTolerance)
			}
		}
	}
}

// list judges the numbers of one field of point i. bounds are those of a joint, NaN where there is none.
func (r *Refusal) list(values []float64, columns []*Joint, i int, field string, bounds func(*Joint) (low, high float64)) {
	if len(values) != 0 && len(values) != len(columns) {
		r.addf("points[%d].%s: %d numbers for %d joints", i, field, len(values), len(columns))
		return
	}
	for c, v := range values {
		if !unit.Finite(v) {
			r.addf("points[%d].%s[%d]: %v is not a number", i, field, c, v)
			continue
		}
		if columns[c] == nil {
			continue
		}
		switch low, high := bounds(columns[c]); {
		case v < low:
			r.addf("points[%d].%s[%d]: %v is below %v, the limit of %s", i, field, c, v, low, quote(columns[c].Name))
		case v > high:
			r.addf("points[%d].%s[%d]: %v is above %v, the limit of %s", i, field, c, v, high, quote(columns[c].Name))
		}
	}
}

func position(j *Joint) (low, high float64) { return float64(j.Limits.Lower), float64(j.Limits.Upper) }

func velocity(j *Joint) (low, high float64) {
	return -float64(j.Limits.Velocity), float64(j.Limits.Velocity)
}

func effort(j *Joint) (low, high float64) { return -float64(j.Limits.Effort), float64(j.Limits.Effort) }

func unbounded(*Joint) (low, high float64) { return math.NaN(), math.NaN() }
