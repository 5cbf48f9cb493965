package metrics

import "hilgate/model"

// safetyFamilies tell of the robot's protective functions.
type safetyFamilies struct{ state, engaged, stops family }

func newSafetyFamilies(c *catalogue) safetyFamilies {
	return safetyFamilies{
		state:   c.gauge("safety_state", "What the robot's joints may do now: the one that is 1.", "state"),
		engaged: c.gauge("safety_estop_engaged", "1 while the emergency stop is engaged."),
		stops:   c.counter("safety_estops_total", "Engagements of the emergency stop."),
	}
}

// safetyState says what the joints may do, the gravest first.
type safetyState int

const (
	estop    safetyState = iota // an emergency stop is engaged
	disarmed                    // no controller answers, or there is none
	safeStop                    // each joint is withheld
	derated                     // some joints are withheld
	active                      // all may move, and a trajectory runs
	armed                       // all may move
)

var safetyNames = []string{"estop", "disarmed", "safe_stop", "derated", "active", "armed"}

func safetyOf(s *model.Snapshot) safetyState {
	joints, withheld := 0, 0
	connected, running := false, false
	for i := range s.Groups {
		g := &s.Groups[i]
		connected = connected || g.Connected
		running = running || g.Trajectory.Active
		for j := range g.Joints {
			joints++
			if g.Joints[j].Withheld != 0 {
				withheld++
			}
		}
	}
	switch {
	case s.Safety.EStop:
		return estop
	case !connected:
		return disarmed
	case withheld > 0 && withheld == joints:
		return safeStop
	case withheld > 0:
		return derated
	case running:
		return active
	}
	return armed
}

func (f *safetyFamilies) collect(p page, s *model.Snapshot) {
	p.one(f.state, safetyNames, int(safetyOf(s)))
	p.flag(f.engaged, s.Safety.EStop)
	p.put(f.stops, float64(s.Safety.EStops))
}
