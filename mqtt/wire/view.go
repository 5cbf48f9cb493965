package wire

import (
	"time"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/motor"
)

// Periods are the shortest times between two publications of a stream. News does not wait for them.
type Periods struct {
	Battery  time.Duration // of a BatteryState
	Estimate time.Duration
	Joints   time.Duration // of the joint state
}

// NewView returns the view of a robot in this package's convention: everything that the package comment
// lists but the gateway's own topics, which belong to the connection.
func NewView(t Topics, p Periods) View {
	v := &view{topics: t, periods: p}
	v.jointState, v.progress, v.safety = t.Robot(JointState), t.Robot(TrajectoryProgress), t.Robot(SafetyState)
	return v.append
}

// view keeps the names of the topics, which change only with the configuration, and the buffer of payloads.
type view struct {
	topics                       Topics
	periods                      Periods
	jointState, progress, safety string
	packs                        []packTopics
	joints                       []jointTopics
	buf                          []byte
}

type packTopics struct {
	name                          string
	state, estimate, availability string
	segments                      []string
	consumers                     []consumerTopic
}

type consumerTopic struct{ name, topic string }

type jointTopics struct{ name, availability, fault string }

func (v *view) append(dst []Message, s *model.Snapshot) []Message {
	v.buf = v.buf[:0]
	for i := range s.Packs {
		dst = v.appendPack(dst, &s.Packs[i], v.pack(i, s.Packs[i].Name), s.At)
	}
	n, connected, sampled := 0, uint64(0), time.Time{}
	for i := range s.Groups {
		g := &s.Groups[i]
		connected <<= 1
		if g.Connected {
			connected++
		}
		if g.At.After(sampled) {
			sampled = g.At
		}
		for j := range g.Joints {
			dst = v.appendJoint(dst, g, &g.Joints[j], v.joint(n, g.Joints[j].Name))
			n++
		}
	}
	if n > 0 {
		from := len(v.buf)
		v.buf = AppendJointState(v.buf, s.Groups)
		dst = append(dst, v.message(from, Message{Topic: v.jointState, Retain: true, Period: v.periods.Joints, Mark: connected, Fresh: fresh(sampled)}))
	}
	if id, ratio, mark := progress(s); id != 0 && ratio > 0 {
		from := len(v.buf)
		v.buf = AppendProgress(v.buf, ratio)
		dst = append(dst, v.message(from, Message{Topic: v.progress, Mark: id<<32 + mark, Class: ClassEvent}))
	}
	from := len(v.buf)
	v.buf = AppendSafety(v.buf, s)
	return append(dst, v.message(from, Message{Topic: v.safety, Retain: true, QoS: 1}))
}

// fresh is the instant of a measurement as Message.Fresh has it.
func fresh(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixNano()
}

// message completes m with what was appended to the buffer since from.
func (v *view) message(from int, m Message) Message {
	m.Payload = v.buf[from:len(v.buf):len(v.buf)]
	return m
}

func (v *view) appendPack(dst []Message, p *bms.State, t *packTopics, at time.Time) []Message {
	mark := batteryMark(p)
	from := len(v.buf)
	v.buf = AppendBatteryState(v.buf, p)
	dst = append(dst, v.message(from, Message{Topic: t.state, Retain: true, QoS: 1, Period: v.periods.Battery, Mark: mark, Fresh: fresh(p.At)}))
	for k := range Segments(p) {
		if k == len(t.segments) {
			name := p.Name + "_s" + string(rune('0'+k))
			t.segments = append(t.segments, v.topics.Battery(name, State))
		}
		from := len(v.buf)
		v.buf = AppendSegment(v.buf, p, k)
		dst = append(dst, v.message(from, Message{Topic: t.segments[k], Retain: true, QoS: 1, Period: v.periods.Battery, Mark: mark, Fresh: fresh(p.At)}))
	}
	from = len(v.buf)
	v.buf = AppendEstimate(v.buf, p, at)
	dst = append(dst, v.message(from, Message{Topic: t.estimate, Retain: true, Period: v.periods.Estimate}))
	from = len(v.buf)
	v.buf = append(v.buf, packAvailability(p)...)
	dst = append(dst, v.message(from, Message{Topic: t.availability, Retain: true, QoS: 1}))
	for i, c := range p.Consumers {
		if i == len(t.consumers) {
			t.consumers = append(t.consumers, consumerTopic{})
		}
		ct := &t.consumers[i]
		if ct.name != c.Name || ct.topic == "" {
			*ct = consumerTopic{c.Name, v.topics.PowerLoad(p.Name, c.Name)}
		}
		from := len(v.buf)
		v.buf = AppendPowerLoad(v.buf, c.Power)
		dst = append(dst, v.message(from, Message{Topic: ct.topic, Retain: true, QoS: 1}))
	}
	return dst
}

func (v *view) appendJoint(dst []Message, g *motor.State, j *motor.JointState, t *jointTopics) []Message {
	from := len(v.buf)
	v.buf = append(v.buf, jointAvailability(g)...)
	dst = append(dst, v.message(from, Message{Topic: t.availability, Retain: true, QoS: 1}))
	from = len(v.buf)
	v.buf = AppendJointFault(v.buf, j)
	return append(dst, v.message(from, Message{Topic: t.fault, Retain: true, QoS: 1}))
}

// pack returns the topics of pack i, made anew if the name at that place has changed.
func (v *view) pack(i int, name string) *packTopics {
	if i == len(v.packs) {
		v.packs = append(v.packs, packTopics{})
	}
	t := &v.packs[i]
	if t.state == "" || t.name != name {
		*t = packTopics{
			name: name, state: v.topics.Battery(name, State), estimate: v.topics.Battery(name, Estimate),
			availability: v.topics.Battery(name, Availability),
		}
	}
	return t
}

func (v *view) joint(i int, name string) *jointTopics {
	if i == len(v.joints) {
		v.joints = append(v.joints, jointTopics{})
	}
	t := &v.joints[i]
	if t.fault == "" || t.name != name {
		*t = jointTopics{
			name: name, availability: v.topics.Joint(name, Availability), fault: v.topics.Joint(name, Fault),
		}
	}
	return t
}
