// Package wire is what the gateway says and hears over MQTT: topics, payloads, and the parsers of what
// arrives. It is pure: no connection, no goroutine, no clock.
//
// Below an optional prefix the topics are Gazebo's, without their leading slash, so that one who knows the
// simulator knows the robot:
//
//	model/{robot}/battery/{name}/state                     BatteryState, HORUS's ten members first
//	model/{robot}/battery/{name}/estimate                  the filter's belief
//	model/{robot}/battery/{name}/availability              online, offline
//	model/{robot}/battery/{name}/recharge/start, …/stop    ← commands
//	model/{robot}/battery/{name}/drain/start, …/stop       ← commands
//	model/{robot}/battery/{name}/consumer/{c}/power_load   W, told and, also as …/power_load/set, commanded
//	model/{robot}/joint_state                              ROS JointState
//	model/{robot}/joint_trajectory                         ← gz.msgs.JointTrajectory
//	model/{robot}/joint_trajectory_progress, …/result
//	model/{robot}/joint/{name}/availability, …/fault
//	model/{robot}/safety/state, estop/engage, estop/release
//	model/{robot}/gateway/availability (the will), gateway/info
//	model/{robot}/req/{method} ← , model/{robot}/rsp/{client}
//
// Payloads are JSON texts in UTF-8. A number that is not known, or not finite, is null: never a bare NaN,
// never zero, never left out. Quantities are in SI units, °C and Ah; a percentage exists only in HORUS's
// member of that name.
//
// Views turn a snapshot into messages by appending; in steady state they allocate nothing. Parsers are
// bounded in size, depth and count, and say where a text is wrong.
package wire

import (
	"time"

	"hilgate/model"
)

// Message is one publication that a view offers. Whoever publishes decides by Period, Mark and Payload
// whether it is due.
type Message struct {
	Topic   string
	Payload []byte // valid until the view is called again

	// Retain asks the broker to keep the message for later subscribers. A retained topic that a view
	// offered and no longer offers is to be cleared.
	Retain bool

	// QoS is for a publication because of a change, 0 or 1. The periodic stream is always 0.
	QoS byte

	// Period makes the topic a stream: a new payload is published at most that often, a new Mark at once.
	// With 0 each change of payload or mark is published at once.
	Period time.Duration

	// Mark changes when the message says something new in kind rather than in degree: another status,
	// another fault. Its value has no meaning beyond one process.
	Mark uint64

	Class Class

	// Fresh, of a stream, changes when what it tells was measured anew; 0 does not say. A message that is due
	// waits a little for the next measurement rather than tell the last one late.
	Fresh int64
}

// Class says what a publication is, for counting.
type Class uint8

const (
	ClassState Class = iota // what is so now
	ClassEvent              // what happened
	ClassAck                // an answer to a command
	Classes
)

var classNames = [Classes]string{"state", "event", "ack"}

func (c Class) String() string {
	if c < Classes {
		return classNames[c]
	}
	return "unknown"
}

// View appends the messages that tell of s. It is a pure function of s but for its buffers: a View belongs
// to one goroutine, and what it returned is valid until its next call.
type View func(dst []Message, s *model.Snapshot) []Message

// The payloads of availability topics: Home Assistant's defaults.
const (
	Online  = "online"
	Offline = "offline"
)
