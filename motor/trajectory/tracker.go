package trajectory

import (
	"math"
	"slices"
	"time"

	"hilgate/model/unit"
	"hilgate/motor"
)

// Status says where a tracker stands.
type Status uint8

const (
	StatusReached Status = iota // nothing more to do, as at the beginning; targets are held
	StatusNew                   // a trajectory has come and has not begun
	StatusActive                // waypoints lie ahead
)

var statusNames = [...]string{"reached", "new", "active"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

// Tracker walks along trajectories, one at a time. A step costs the same wherever on however long a
// trajectory it is, but for a search that grows with the logarithm of what is left. The zero Tracker has
// reached its end. It belongs to one goroutine and allocates nothing.
type Tracker struct {
	traj     *Trajectory
	columns  []int
	status   Status
	index    int           // of the waypoint that is the target
	origin   time.Duration // when the trajectory begins, once fixed
	fixed    bool
	progress float32
	passed   int                           // waypoints, while interpolating
	from     [motor.MaxJoints]motor.Target // by joint: where the present line begins
}

// Begin takes a trajectory in place of the present one; it begins at the next step. columns is what
// Columns says about the joints that Step sets, at most motor.MaxJoints.
func (k *Tracker) Begin(t *Trajectory, columns []int) {
	k.traj, k.columns, k.status = t, columns, StatusNew
	k.index, k.passed, k.progress, k.fixed = 0, 0, 0, false
}

// BeginAt is Begin for a trajectory that begins at a given instant: until then the targets are held, and
// if the instant has passed the trajectory is joined where it then stands.
func (k *Tracker) BeginAt(t *Trajectory, columns []int, origin time.Duration) {
	k.Begin(t, columns)
	k.origin, k.fixed = origin, true
}

// Drop abandons the trajectory. The targets are left as they are.
func (k *Tracker) Drop() { *k = Tracker{} }

// Status says where the tracker stands.
func (k *Tracker) Status() Status { return k.status }

// Index is the place of the present waypoint in its trajectory.
func (k *Tracker) Index() int { return k.index }

// Progress is the share of the trajectory that has been applied, in (0,1], or 0 before its first waypoint.
// As in Gazebo it counts the waypoint that is the target, so that 1 is reached when the last one becomes
// the target; while interpolating it counts the waypoints that have been passed.
func (k *Tracker) Progress() float32 { return k.progress }

// Step brings the targets to the instant at, which must not be before that of the last step. It reports
// whether Progress has changed.
func (k *Tracker) Step(at time.Duration, targets []motor.Target) (changed bool) {
	if k.status == StatusReached {
		return false
	}
	begins := k.status == StatusNew
	if begins {
		if !k.fixed {
			k.origin = at
		}
		if at < k.origin {
			return false
		}
		k.status = StatusActive
		copy(k.from[:], targets)
	}
	next := k.next(at - k.origin)
	if k.traj.interpolate {
		return k.line(next, at-k.origin, targets)
	}
	if next == k.index && !begins {
		return false
	}
	k.index = next
	k.set(&k.traj.points[next], targets)
	return k.count(next + 1)
}

// next is the first waypoint from the present one on that is not due before t; the last one if all are.
func (k *Tracker) next(t time.Duration) int {
	n, _ := slices.BinarySearch(k.traj.due[k.index:len(k.traj.due)-1], t)
	return k.index + n
}

// count notes how many waypoints have been applied.
func (k *Tracker) count(applied int) bool {
	k.progress = float32(applied) / float32(len(k.traj.points))
	if applied == len(k.traj.points) {
		k.status = StatusReached
	}
	return true
}

// set puts what a waypoint has into the targets. Of two columns of one joint the later wins.
func (k *Tracker) set(p *Point, targets []motor.Target) {
	for c, j := range k.columns {
		if j < 0 {
			continue
		}
		if c < len(p.Positions) {
			targets[j].Position = unit.Position(p.Positions[c])
		}
		if c < len(p.Velocities) {
			targets[j].Velocity = unit.Velocity(p.Velocities[c])
		}
		if c < len(p.Effort) {
			targets[j].Effort = unit.Effort(p.Effort[c])
		}
	}
}

// line puts the targets on the straight line to waypoint next. What that waypoint does not have is held.
func (k *Tracker) line(next int, t time.Duration, targets []motor.Target) (changed bool) {
	begin, end := time.Duration(0), &k.traj.points[next]
	if next > 0 {
		begin = k.traj.points[next-1].FromStart
	}
	if next != k.index { // the line begins at the waypoint that was passed
		k.set(&k.traj.points[next-1], targets)
		copy(k.from[:], targets)
		k.index = next
	}
	share, passed := 1.0, next+1
	if t < end.FromStart {
		share, passed = float64(t-begin)/float64(end.FromStart-begin), next
	}
	for c, j := range k.columns {
		if j < 0 {
			continue
		}
		from, to := &k.from[j], &targets[j]
		if c < len(end.Positions) {
			to.Position = between(from.Position, unit.Position(end.Positions[c]), share)
		}
		if c < len(end.Velocities) {
			to.Velocity = between(from.Velocity, unit.Velocity(end.Velocities[c]), share)
		}
		if c < len(end.Effort) {
			to.Effort = between(from.Effort, unit.Effort(end.Effort[c]), share)
		}
	}
	if passed == k.passed {
		return false
	}
	k.passed = passed
	return k.count(passed)
}

// between is the point at a share of the way; the end itself if the beginning is unknown.
func between[Q ~float64](from, to Q, share float64) Q {
	if share >= 1 || math.IsNaN(float64(from)) {
		return to
	}
	return from + Q(share*float64(to-from))
}
