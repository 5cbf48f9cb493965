package motor

import (
	"time"

	"hilgate/model/permit"
	"hilgate/model/unit"
)

// MaxJoints is the most joints of one group.
const MaxJoints = 32

// Target is where the trajectory wants a joint to be.
type Target struct {
	Position unit.Position
	Velocity unit.Velocity
	Effort   unit.Effort
}

// JointSample is one joint in one tick of its loop.
type JointSample struct {
	Feedback Feedback
	Target   Target
	Wanted   unit.Effort   // sum of both PIDs and the trajectory's effort, before the gate
	Command  Command       // what the gate let through
	Limited  Limit         // which bounds the gate applied
	Withheld permit.Reason // why it was stopped; 0 if it was not
}

// Limit is a set of bounds that the gate applied to a command.
type Limit uint8

const (
	LimitEffort Limit = 1 << iota
	LimitVelocity
	LimitPosition
	LimitCurrent
	LimitTracking
	LimitTemperature
)

var limitNames = [...]string{"effort", "velocity", "position", "current", "tracking", "temperature"}

// LimitNames lists the name of every bound, the lowest bit first.
func LimitNames() []string { return limitNames[:] }

// Names lists the names of the bounds in l.
func (l Limit) Names() []string { return members(limitNames[:], uint32(l)) }

// Sample is one tick of one loop, copied to whoever takes it. It holds no pointers into the loop.
type Sample struct {
	Group  int // which loop, by its place in the configuration
	At     time.Time
	Joints [MaxJoints]JointSample
	N      int // joints in use

	Connected bool  // the controller answered in this tick
	Err       error // why not; made once, when it was lost

	Trajectory Progress
	Counts     LoopCounts
}

// Progress is where a loop stands on its trajectory.
type Progress struct {
	ID      uint64  // which one, by order of acceptance; 0 if there was none
	Active  bool    // it runs, or has not begun
	Ratio   float32 // Gazebo's progress in (0,1]; 0 before the first point
	Changed uint64  // counts the changes of Ratio, so that each can be published once
}

// LoopCounts counts a loop's ticks since start.
type LoopCounts struct {
	Cycles, Overruns, Skipped, Dropped, Losses uint64
}

// State is what the gateway knows of one group of joints.
type State struct {
	Name, Driver string
	Identity     Identity
	Connected    bool
	LastError    string
	At           time.Time // of the last sample with an answer; zero if there was none
	Joints       []JointState
	Trajectory   Progress
	Counts       LoopCounts
}

// JointState is one joint of a State.
type JointState struct {
	Name      string
	Prismatic bool
	JointSample
}
