// Package trajectory turns a commanded trajectory into where each joint shall be at a given instant.
//
// New judges a Message and makes a Trajectory of it, which never changes and may be shared. A Tracker, one
// a control loop, walks along it. By default it walks as Gazebo's JointTrajectoryController does: the
// target is the next waypoint, the first one that is not yet due, and not a point on the way there; each
// waypoint sets only what it has, everything else keeps the target that it had; the last target is held
// for ever. With Options.Interpolate the target moves in a straight line from waypoint to waypoint.
//
// Where Gazebo takes what it cannot run (no points: it aborts; unknown joints: skipped; times that fall,
// lists that are too short), New refuses, unless Options.Gazebo asks for its ways. Points without end are
// refused in either case.
package trajectory

import (
	"math"
	"slices"
	"time"

	"hilgate/model/unit"
	"hilgate/motor"
)

// Bounds of a trajectory. They keep its memory and its arithmetic bounded, and are far above what arms need.
const (
	MaxPoints = 10_000
	MaxNames  = 256
	Horizon   = 366 * 24 * time.Hour // between now, a start and a waypoint
)

// Joint is what must be known of a joint before it is commanded.
type Joint struct {
	Name string

	// Limits are those of the motor.Joint. Where there is no bound they are NaN, not 0.
	Limits motor.Limits

	// Position is where the joint is now, NaN if nobody knows. It counts only with a StartTolerance.
	Position unit.Position
}

// Options say how a trajectory is judged and run.
type Options struct {
	// ID is the trajectory's number by order of acceptance, from 1. A loop's motor.Progress carries it.
	ID uint64

	// Now is when the message arrived.
	Now time.Time

	// UseHeaderStart lets the trajectory begin at the stamp of its header, in the past too: it is joined
	// where it then stands. Without a stamp, as without this, it begins when the loop takes it. In Gazebo
	// use_header_start_time was meant to do this and does nothing.
	UseHeaderStart bool

	// Interpolate moves the target in a straight line between waypoints.
	Interpolate bool

	// StartTolerance is how far the first waypoint of a joint may be from its present position, rad or m.
	// 0 is any distance.
	StartTolerance unit.Position

	// Gazebo accepts whatever Gazebo accepts: unknown joints, lists of any length, any times, any numbers,
	// and no limit of a joint. What the joints may not do is then for the gate alone.
	Gazebo bool
}

// Trajectory is a sequence of waypoints that can be run. It never changes.
type Trajectory struct {
	id          uint64
	names       []string
	points      []Point
	start       time.Time // zero: when it is taken
	interpolate bool

	// due is the running maximum of the points' times, so that a search can find the next one even where
	// times fall.
	due []time.Duration
}

// New judges a message and copies it. joints are all that may be commanded. Its error is a *Refusal.
func New(m Message, joints []Joint, o Options) (*Trajectory, error) {
	if err := judge(m, joints, o); err != nil {
		return nil, err
	}
	t := &Trajectory{
		id: o.ID, names: slices.Clone(m.JointNames), interpolate: o.Interpolate,
		points: make([]Point, len(m.Points)), due: make([]time.Duration, len(m.Points)),
	}
	if o.UseHeaderStart {
		t.start = m.Start
	}
	latest := time.Duration(math.MinInt64)
	for i, p := range m.Points {
		latest = max(latest, p.FromStart)
		t.due[i] = latest
		t.points[i] = Point{
			Positions: slices.Clone(p.Positions), Velocities: slices.Clone(p.Velocities),
			Effort: slices.Clone(p.Effort), FromStart: p.FromStart,
		}
	}
	return t, nil
}

// ID is the number that the trajectory was given.
func (t *Trajectory) ID() uint64 { return t.id }

// Start is the instant of the header's stamp; zero if the trajectory begins when it is taken.
func (t *Trajectory) Start() time.Time { return t.start }

// Len is the number of waypoints, at least 1.
func (t *Trajectory) Len() int { return len(t.points) }

// Duration is the time of the last waypoint.
func (t *Trajectory) Duration() time.Duration { return t.due[len(t.due)-1] }

// Columns says which of joints each column of the trajectory's lists is for; -1 for none of them. A joint
// that is named twice has two columns.
func (t *Trajectory) Columns(joints []string) []int {
	columns := make([]int, len(t.names))
	for c, name := range t.names {
		columns[c] = slices.Index(joints, name)
	}
	return columns
}
