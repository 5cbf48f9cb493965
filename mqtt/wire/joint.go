package wire

import (
	"math"
	"strconv"
	"time"

	"hilgate/model"
	"hilgate/motor"
)

// AppendJointState appends the joints of all groups as ROS's JointState: four lists of equal length, in
// rad, rad/s and N·m, or m, m/s and N for a joint that slides. Joints whose controller does not answer are
// null. stamp is the newest sample's, zero if no group answers.
func AppendJointState(dst []byte, groups []motor.State) []byte {
	var stamp time.Time
	for i := range groups {
		if g := &groups[i]; g.Connected && g.At.After(stamp) {
			stamp = g.At
		}
	}
	dst = append(dst, `{"stamp":`...)
	dst = appendTime(dst, stamp)
	dst = append(dst, `,"name":[`...)
	n := 0
	for i := range groups {
		for j := range groups[i].Joints {
			dst = comma(dst, &n)
			dst = appendString(dst, groups[i].Joints[j].Name)
		}
	}
	dst = append(dst, `],"position":[`...)
	dst = appendFeedback(dst, groups, func(fb *motor.Feedback) float64 { return float64(fb.Position) })
	dst = append(dst, `],"velocity":[`...)
	dst = appendFeedback(dst, groups, func(fb *motor.Feedback) float64 { return float64(fb.Velocity) })
	dst = append(dst, `],"effort":[`...)
	dst = appendFeedback(dst, groups, func(fb *motor.Feedback) float64 { return float64(fb.Effort) })
	return append(dst, `]}`...)
}

func appendFeedback(dst []byte, groups []motor.State, of func(*motor.Feedback) float64) []byte {
	n := 0
	for i := range groups {
		g := &groups[i]
		for j := range g.Joints {
			dst = comma(dst, &n)
			if g.Connected {
				dst = appendFloat(dst, of(&g.Joints[j].Feedback))
			} else {
				dst = append(dst, "null"...)
			}
		}
	}
	return dst
}

// comma appends a comma before every element but the first.
func comma(dst []byte, n *int) []byte {
	if *n > 0 {
		dst = append(dst, ',')
	}
	*n++
	return dst
}

// AppendProgress appends Gazebo's progress: {"data":0.5}, above 0 and up to 1.
func AppendProgress(dst []byte, ratio float32) []byte {
	dst = append(dst, `{"data":`...)
	dst = appendNumber(dst, float64(ratio), 32)
	return append(dst, '}')
}

// HRIM's faults of a servo (StateRotaryServo).
const (
	hrimNone = iota
	hrimCurrent
	hrimTemperature
	hrimBusVoltage
	hrimBridgeDriver
)

// hrimFault picks HRIM's one number for a set of faults: the first that applies, and the bridge driver for
// any disabling fault that HRIM has no name for. Warnings are no fault.
func hrimFault(f motor.Faults) int {
	switch {
	case f&motor.FaultOvercurrent != 0:
		return hrimCurrent
	case f&motor.FaultOvertemperature != 0:
		return hrimTemperature
	case f&(motor.FaultOvervoltage|motor.FaultUndervoltage) != 0:
		return hrimBusVoltage
	case f&motor.Disabling != 0:
		return hrimBridgeDriver
	}
	return hrimNone
}

// AppendJointFault appends what a joint's controller reports: HRIM's fault number, the whole set as a
// number and as names, and why the joint may not run now.
func AppendJointFault(dst []byte, j *motor.JointState) []byte {
	f := j.Feedback.Faults
	dst = append(dst, `{"fault":`...)
	dst = strconv.AppendInt(dst, int64(hrimFault(f)), 10)
	dst = append(dst, `,"code":`...)
	dst = strconv.AppendUint(dst, uint64(f), 10)
	dst = append(dst, `,"faults":`...)
	dst = appendSet(dst, f, motor.FaultNames())
	dst = append(dst, `,"withheld":`...)
	dst = appendReasons(dst, j.Withheld)
	return append(dst, '}')
}

func jointAvailability(g *motor.State) string {
	if g.Connected {
		return Online
	}
	return Offline
}

// progress is where the newest trajectory stands: over several groups that share it, where the slowest of
// them does. id is 0 if there was none. mark changes with each step of any group.
func progress(s *model.Snapshot) (id uint64, ratio float32, mark uint64) {
	for i := range s.Groups {
		id = max(id, s.Groups[i].Trajectory.ID)
	}
	ratio = float32(math.Inf(1))
	for i := range s.Groups {
		if p := s.Groups[i].Trajectory; p.ID == id {
			ratio = min(ratio, p.Ratio)
			mark += p.Changed
		}
	}
	return id, ratio, mark
}
