package wire

import (
	"strconv"

	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/motor"
)

// The modes of HORUS's SafetyStatus.
const (
	modeNormal   = '0'
	modeReduced  = '1' // some joint may not run
	modeSafeStop = '2' // no joint may run
)

func appendReasons(dst []byte, r permit.Reason) []byte { return appendSet(dst, r, permit.Names()) }

// AppendSafety appends HORUS's SafetyStatus, then the gateway's own members. watchdog_ok says that every
// controller answers and has its own command timeout armed, limits_ok that no joint is held by a fault or a
// limit's guard, comms_ok that every device answers. fault_code is the union of the reasons why joints may
// not run, as permit.Reason numbers them; x_joints names them joint by joint. x_estop_id is what a release
// of the emergency stop must confirm.
func AppendSafety(dst []byte, s *model.Snapshot) []byte {
	watchdog, limits, comms, joints, stopped := true, true, true, 0, 0
	for i := range s.Groups {
		g := &s.Groups[i]
		watchdog = watchdog && g.Connected && g.Identity.Failsafe != ""
		comms = comms && g.Connected
		for j := range g.Joints {
			w := g.Joints[j].Withheld
			joints++
			if w != 0 {
				stopped++
			}
			limits = limits && w&permit.DeviceFault == 0 && g.Joints[j].Feedback.Faults&motor.Disabling == 0
		}
	}
	for i := range s.Packs {
		comms = comms && packAvailability(&s.Packs[i]) == Online
	}
	mode := byte(modeNormal)
	switch {
	case s.Safety.EStop || joints > 0 && stopped == joints:
		mode = modeSafeStop
	case stopped > 0:
		mode = modeReduced
	}
	dst = append(dst, `{"enabled":true,"estop_engaged":`...)
	dst = appendBool(dst, s.Safety.EStop)
	dst = append(dst, `,"watchdog_ok":`...)
	dst = appendBool(dst, watchdog)
	dst = append(dst, `,"limits_ok":`...)
	dst = appendBool(dst, limits)
	dst = append(dst, `,"comms_ok":`...)
	dst = appendBool(dst, comms)
	dst = append(dst, `,"mode":`...)
	dst = append(dst, mode)
	dst = append(dst, `,"fault_code":`...)
	dst = strconv.AppendUint(dst, uint64(s.Safety.Withheld), 10)
	dst = append(dst, `,"x_withheld":`...)
	dst = appendReasons(dst, s.Safety.Withheld)
	dst = append(dst, `,"x_estop_id":`...)
	dst = strconv.AppendUint(dst, s.Safety.EStopID, 10)
	dst = append(dst, `,"x_estop_reason":`...)
	dst = appendString(dst, s.Safety.EStopReason)
	dst = append(dst, `,"x_estop_since":`...)
	dst = appendStamp(dst, s.Safety.EStopSince)
	dst = append(dst, `,"x_joints":{`...)
	n := 0
	for i := range s.Groups {
		for j := range s.Groups[i].Joints {
			joint := &s.Groups[i].Joints[j]
			dst = comma(dst, &n)
			dst = appendString(dst, joint.Name)
			dst = append(dst, ':')
			dst = appendReasons(dst, joint.Withheld)
		}
	}
	dst = append(dst, `},"x_batteries_empty":[`...)
	n = 0
	for i := range s.Packs {
		if s.Packs[i].Empty {
			dst = comma(dst, &n)
			dst = appendString(dst, s.Packs[i].Name)
		}
	}
	return append(dst, `]}`...)
}

// Info is what the gateway tells of itself.
type Info struct {
	Version, Revision string
	ConfigHash        string // of the configuration that it runs
	BootID            string // of the machine's boot; empty where there is none
	Started           string // RFC 3339
	Backends          []Backend
}

// Backend says what stands behind a device.
type Backend struct {
	Device string // its name in the configuration
	Driver string
	Kind   string // "real", "sim" or "replay"
}

// AppendInfo appends the birth message: who the gateway is, what it drives, every topic that it will
// publish on, and every filter that it listens to.
func AppendInfo(dst []byte, in *Info, s *model.Snapshot, topics, commands []string) []byte {
	dst = append(dst, `{"robot":`...)
	dst = appendString(dst, s.Robot)
	dst = append(dst, `,"version":`...)
	dst = appendString(dst, in.Version)
	dst = append(dst, `,"revision":`...)
	dst = appendString(dst, in.Revision)
	dst = append(dst, `,"config_hash":`...)
	dst = appendString(dst, in.ConfigHash)
	dst = append(dst, `,"boot_id":`...)
	dst = appendString(dst, in.BootID)
	dst = append(dst, `,"started":`...)
	dst = appendString(dst, in.Started)
	dst = append(dst, `,"simulated":`...)
	dst = appendBool(dst, s.Simulated)
	dst = append(dst, `,"devices":[`...)
	for i, b := range in.Backends {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = appendString(dst, b.Device)
		dst = append(dst, `,"driver":`...)
		dst = appendString(dst, b.Driver)
		dst = append(dst, `,"backend":`...)
		dst = appendString(dst, b.Kind)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"topics":`...)
	dst = appendStrings(dst, topics)
	dst = append(dst, `,"commands":`...)
	dst = appendStrings(dst, commands)
	return append(dst, '}')
}
