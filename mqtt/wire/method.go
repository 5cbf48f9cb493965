package wire

// Method is what a command asks for: a closed set, so that it can label a metric.
type Method uint8

const (
	MethodUnknown Method = iota
	MethodTrajectory
	MethodEStopEngage
	MethodEStopRelease
	MethodRechargeStart
	MethodRechargeStop
	MethodDrainStart
	MethodDrainStop
	MethodPowerLoad
	Methods
)

var methodNames = [Methods]string{
	"unknown", "joint_trajectory", "estop_engage", "estop_release", "recharge_start", "recharge_stop",
	"drain_start", "drain_stop", "power_load",
}

func (m Method) String() string {
	if m < Methods {
		return methodNames[m]
	}
	return methodNames[MethodUnknown]
}

// MethodOf finds a method by name.
func MethodOf(name string) Method {
	for m := MethodTrajectory; m < Methods; m++ {
		if methodNames[m] == name {
			return m
		}
	}
	return MethodUnknown
}

// Reject says why a command was not carried out: a closed set, so that it can label a metric. It travels
// in an answer as a code and at the head of the message.
type Reject uint8

const (
	RejectRetained  Reject = iota // a stored command: whoever gave it may be long gone
	RejectMalformed               // the payload cannot be read
	RejectTooLarge                // the payload is beyond the limit, and was not read
	RejectUnknown                 // no such method
	RejectExpired                 // its time to live was over
	RejectRefused                 // understood, and not possible: the message says why
	RejectBusy                    // too many commands at once
	Rejects
)

var rejectNames = [Rejects]string{
	"retained", "malformed", "too_large", "unknown_method", "expired", "refused", "busy",
}

// rejectCodes follow HTTP, whose numbers most people know.
var rejectCodes = [Rejects]int{403, 400, 413, 404, 408, 409, 429}

func (r Reject) String() string {
	if r < Rejects {
		return rejectNames[r]
	}
	return "unknown"
}

// Code is the reason as the answer's number.
func (r Reject) Code() int {
	if r < Rejects {
		return rejectCodes[r]
	}
	return 500
}
