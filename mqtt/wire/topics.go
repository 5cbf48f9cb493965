package wire

import "strings"

// MaxSegment is the most bytes of one topic level that the gateway makes from a foreign name.
const MaxSegment = 64

// Segment turns a name into one topic level: lower case letters, digits, "_" and "-", at most MaxSegment of
// them. What does not fit becomes "_", so that no name can reach outside its level.
func Segment(name string) string {
	var b strings.Builder
	for _, r := range name {
		if b.Len() == MaxSegment {
			break
		}
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
		default:
			r = '_'
		}
		b.WriteByte(byte(r))
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}

// Topics makes and reads the topics of one robot.
type Topics struct {
	prefix string // empty, or levels with a trailing slash
	root   string // prefix + "model/{robot}/"
}

// NewTopics returns the topics of a robot below a prefix of any number of levels, which may be empty. All
// levels are made to fit the alphabet of Segment.
func NewTopics(prefix, robot string) Topics {
	var p strings.Builder
	for level := range strings.SplitSeq(prefix, "/") {
		if level != "" {
			p.WriteString(Segment(level) + "/")
		}
	}
	return Topics{prefix: p.String(), root: p.String() + "model/" + Segment(robot) + "/"}
}

// The leaves of Robot.
const (
	JointState          = "joint_state"
	JointTrajectory     = "joint_trajectory"
	TrajectoryProgress  = "joint_trajectory_progress"
	TrajectoryResult    = "joint_trajectory/result"
	SafetyState         = "safety/state"
	GatewayInfo         = "gateway/info"
	GatewayAvailability = "gateway/availability"
	EStopEngage         = "estop/engage"
	EStopRelease        = "estop/release"
)

// The leaves of Battery and Joint.
const (
	State        = "state"
	Estimate     = "estimate"
	Availability = "availability"
	Fault        = "fault"
)

// Robot is a topic of the robot as a whole.
func (t Topics) Robot(leaf string) string { return t.root + leaf }

// Battery is a topic of one pack.
func (t Topics) Battery(name, leaf string) string {
	return t.root + "battery/" + Segment(name) + "/" + leaf
}

// PowerLoad is the topic of one consumer of a pack.
func (t Topics) PowerLoad(battery, consumer string) string {
	return t.root + "battery/" + Segment(battery) + "/consumer/" + Segment(consumer) + "/power_load"
}

// Joint is a topic of one joint.
func (t Topics) Joint(name, leaf string) string {
	return t.root + "joint/" + Segment(name) + "/" + leaf
}

// Response is the topic on which a client hears the answers to its requests.
func (t Topics) Response(client string) string { return t.root + "rsp/" + Segment(client) }

// Extra is a topic that a configuration names freely, as Gazebo's power_draining_topic: below the prefix,
// without the leading slash, otherwise as it stands.
func (t Topics) Extra(topic string) string { return t.prefix + strings.TrimLeft(topic, "/") }

// Commands lists the filters to subscribe to, all at QoS 1.
func (t Topics) Commands() []string {
	return []string{
		t.root + "battery/+/recharge/+",
		t.root + "battery/+/drain/+",
		t.root + "battery/+/consumer/+/power_load",
		t.root + "battery/+/consumer/+/power_load/set",
		t.root + JointTrajectory,
		t.root + EStopEngage,
		t.root + EStopRelease,
		t.root + "req/+",
	}
}

// Command is what a topic asks for, before its payload was looked at.
type Command struct {
	Method   Method
	Name     string // of the method, as asked; for an unknown one the only trace of it
	Battery  string // a level of the topic; empty if the method has none, or the request names it
	Consumer string // likewise
	Generic  bool   // by req/{method}: battery and consumer stand in the arguments
	Echoed   bool   // the gateway publishes on this topic too
}

// Parse reads the topic of a command. Unknown verbs on a known path give MethodUnknown; ok is false for a
// topic that holds no command.
func (t Topics) Parse(topic string) (c Command, ok bool) {
	path, ok := strings.CutPrefix(topic, t.root)
	if !ok {
		return Command{}, false
	}
	switch path {
	case JointTrajectory:
		return Command{Method: MethodTrajectory, Name: MethodTrajectory.String()}, true
	case EStopEngage:
		return Command{Method: MethodEStopEngage, Name: MethodEStopEngage.String()}, true
	case EStopRelease:
		return Command{Method: MethodEStopRelease, Name: MethodEStopRelease.String()}, true
	}
	if name, ok := strings.CutPrefix(path, "req/"); ok {
		return Command{Method: MethodOf(name), Name: name, Generic: true}, true
	}
	level := strings.Split(path, "/")
	switch {
	case level[0] != "battery" || len(level) < 4:
	case len(level) == 4 && (level[2] == "recharge" || level[2] == "drain"):
		name := level[2] + "_" + level[3]
		return Command{Method: MethodOf(name), Name: name, Battery: level[1]}, true
	case (len(level) == 5 || len(level) == 6 && level[5] == "set") && level[2] == "consumer" && level[4] == "power_load":
		return Command{
			Method: MethodPowerLoad, Name: MethodPowerLoad.String(),
			Battery: level[1], Consumer: level[3], Echoed: len(level) == 5,
		}, true
	}
	return Command{}, false
}
