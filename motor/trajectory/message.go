package trajectory

import "time"

// Message is a commanded trajectory as it arrived, before anyone has looked at it: gz.msgs.JointTrajectory
// in Go's types. Numbers may be NaN or infinite and lists of any length; New refuses what cannot be run.
type Message struct {
	ID         string    // the sender's name for the request; may be empty
	Start      time.Time // the header's stamp; zero if there was none
	JointNames []string
	Points     []Point
}

// Point is one waypoint. Each list is empty, or has one number a joint, in the order of JointNames.
type Point struct {
	Positions     []float64 // rad or m
	Velocities    []float64 // rad/s or m/s
	Accelerations []float64 // accepted and not used, as in Gazebo
	Effort        []float64 // N·m or N
	FromStart     time.Duration
}
