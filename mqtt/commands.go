package mqtt

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"hilgate/model"
	"hilgate/model/unit"
	"hilgate/mqtt/wire"
)

// inbound is a command as it came in.
type inbound struct {
	session  *session
	topic    string
	cmd      wire.Command
	payload  []byte
	retained bool
	at       time.Time
	busy     bool // it took one of the last places: to be refused
}

// receive runs in the library's goroutine. It does not block.
func (c *Client) receive(s *session, m paho.Message) {
	cmd, ok := c.extra[m.Topic()]
	if !ok {
		if cmd, ok = c.topics.Parse(m.Topic()); !ok {
			return
		}
	}
	in := inbound{
		session: s, topic: m.Topic(), cmd: cmd, payload: m.Payload(), retained: m.Retained(), at: time.Now(),
		busy: len(c.inbound) >= inboundPlaces-refusalPlaces,
	}
	if cmd.Method == wire.MethodEStopEngage {
		c.engage(&in)
	}
	select {
	case c.inbound <- in:
	default:
		c.stats.commands[cmd.Method].Add(1)
		if cmd.Method != wire.MethodEStopEngage {
			c.stats.rejected[cmd.Method][wire.RejectBusy].Add(1)
		}
	}
}

// engage stops the robot, whatever the payload: it may say who asks for it and why.
func (c *Client) engage(in *inbound) {
	source, reason := "mqtt", ""
	if len(in.payload) <= c.cfg.MaxPayload {
		if r, err := wire.ParseRequest(in.payload); err == nil {
			reason = r.Reason
			switch {
			case r.Source != "":
				source = r.Source
			case r.Client != "":
				source = r.Client
			}
		}
	}
	c.handler.EStop(source, reason)
}

// refusal is why a command is not carried out.
type refusal struct {
	reject wire.Reject
	err    error
}

// command judges a command, has it carried out, and answers.
func (r *runner) command(in inbound) {
	if in.cmd.Echoed && r.echo(&in) {
		return
	}
	r.stats.commands[in.cmd.Method].Add(1)
	req, trajectory, no := r.read(&in)
	key := "" // of what was done, and is not to be done again
	if req.ID == "" {
		r.generated++
		req.ID = "gateway-" + strconv.FormatUint(r.generated, 10)
	} else if no == nil && in.cmd.Method != wire.MethodEStopEngage {
		key = wire.Segment(req.Client) + "/" + req.ID
	}
	if req.Client == "" {
		req.Client = "any"
	}
	a := &answer{
		key: key, topic: r.topics.Response(req.Client),
		ack: wire.Ack{ID: req.ID, Method: in.cmd.Name, Phase: wire.Accepted},
	}
	if last, ok := r.answers.last(key); ok { // told twice: answered twice, done once
		r.say(&wire.Message{Topic: a.topic, Payload: last, Class: wire.ClassAck})
		return
	}
	if no == nil && in.cmd.Method != wire.MethodEStopEngage {
		no = r.perform(&in, &req, trajectory, a)
	}
	if no == nil {
		level := slog.LevelInfo
		if in.cmd.Method == wire.MethodTrajectory {
			level = slog.LevelDebug // may be streamed
		}
		r.log.Log(context.Background(), level, "command", "method", a.ack.Method, "client", req.Client, "id", req.ID)
		r.tell(a)
		return
	}
	r.stats.rejected[in.cmd.Method][no.reject].Add(1)
	r.log.Warn("command refused", "method", in.cmd.Method.String(), "client", req.Client, "id", req.ID,
		"reason", no.reject.String(), "err", no.err)
	a.ack.Phase, a.ack.Code, a.ack.Message = wire.Rejected, no.reject.Code(), no.reject.String()
	if no.reject == wire.RejectExpired {
		a.ack.Phase = wire.Expired
	}
	if no.err != nil {
		a.ack.Message += ": " + no.err.Error()
	}
	r.tell(a)
	if in.cmd.Method == wire.MethodTrajectory {
		r.result(req.ID, wire.InvalidGoal, a.ack.Message, nil)
	}
}

// read looks at a payload, in the order in which it costs least. With a refusal the request is as far as it
// was read, so that it can be answered.
func (r *runner) read(in *inbound) (req wire.Request, m wire.Trajectory, no *refusal) {
	engaged := in.cmd.Method == wire.MethodEStopEngage // and so obeyed already, whatever the payload
	if len(in.payload) > r.cfg.MaxPayload {
		if !engaged {
			no = &refusal{wire.RejectTooLarge, fmt.Errorf("over %d bytes", r.cfg.MaxPayload)}
		}
		return req, m, no
	}
	var err error
	if in.cmd.Method == wire.MethodTrajectory && !in.retained && !in.busy {
		m, req, err = wire.ParseTrajectory(in.payload)
	} else {
		req, err = wire.ParseRequest(in.payload)
	}
	switch method := in.cmd.Method; {
	case engaged:
	case in.retained:
		no = &refusal{wire.RejectRetained, nil}
	case in.busy:
		no = &refusal{wire.RejectBusy, nil}
	case method == wire.MethodUnknown:
		no = &refusal{wire.RejectUnknown, fmt.Errorf("%.64q", in.cmd.Name)}
	case err != nil && method != wire.MethodDrainStart && method != wire.MethodDrainStop: // as in Gazebo, any payload drains
		no = &refusal{wire.RejectMalformed, err}
	case expired(&req, in.at, time.Now()):
		no = &refusal{wire.RejectExpired, nil}
	}
	return req, m, no
}

// clocksAgree is how far the clocks of sender and gateway may be apart for a time of sending to count.
const clocksAgree = 5 * time.Second

// expired reports whether the request's time to live is over: since it was sent, if the sender's clock can
// be believed, else since it came in.
func expired(req *wire.Request, came, now time.Time) bool {
	if req.TTL == 0 {
		return false
	}
	age := now.Sub(came)
	if !req.Stamp.IsZero() {
		if since := now.Sub(req.Stamp); since.Abs() < clocksAgree {
			age = since
		}
	}
	return age > req.TTL
}

// perform has the command carried out.
func (r *runner) perform(in *inbound, req *wire.Request, m wire.Trajectory, a *answer) *refusal {
	var err error
	h, cmd := r.handler, in.cmd
	if cmd.Generic {
		cmd.Battery, cmd.Consumer = req.Battery, req.Consumer
	}
	battery := packName(r.cfg.Latest(), cmd.Battery)
	switch cmd.Method {
	case wire.MethodTrajectory:
		var id uint64
		if id, err = h.Follow(m); err == nil {
			a.ack.Result = fmt.Appendf(nil, `{"trajectory":%d}`, id)
			r.follow(id, m.JointNames, a)
		}
	case wire.MethodEStopRelease:
		if req.Confirm == "" {
			return &refusal{wire.RejectMalformed, errors.New("confirm: missing: want the id of the emergency stop that is released")}
		}
		err = h.ReleaseEStop(req.Confirm)
	case wire.MethodRechargeStart:
		switch on, bad := req.Bool(); {
		case bad != nil:
			return &refusal{wire.RejectMalformed, bad}
		case !on:
			return &refusal{wire.RejectMalformed, errors.New("data: false does not start: use recharge/stop")}
		}
		err = h.Recharge(battery, true)
	case wire.MethodRechargeStop:
		err = h.Recharge(battery, false)
	case wire.MethodDrainStart:
		err = h.Drain(battery, true)
	case wire.MethodDrainStop:
		err = h.Drain(battery, false)
	case wire.MethodPowerLoad:
		consumer := consumerName(r.cfg.Latest(), battery, cmd.Consumer)
		if req.Empty() && !cmd.Generic {
			err = h.RemoveConsumer(battery, consumer)
			break
		}
		w, bad := req.Number()
		if bad != nil {
			return &refusal{wire.RejectMalformed, bad}
		}
		err = h.Consumer(battery, consumer, unit.Watts(w))
	}
	if err != nil {
		return &refusal{wire.RejectRefused, err}
	}
	return nil
}

// echo takes what comes in on a topic that the gateway publishes on too, and reports whether it was no
// command: one's own message, or what an earlier life of the gateway left with the broker. The latter is
// cleared, for it tells of a consumer that there is not.
func (r *runner) echo(in *inbound) bool {
	if len(in.payload) == 0 {
		if n := in.session.clears[in.topic]; n > 0 && !in.retained {
			in.session.clears[in.topic] = n - 1
			if n == 1 {
				delete(in.session.clears, in.topic) // names of consumers come from outside, without end
			}
			return true
		}
		return false
	}
	if len(in.payload) > r.cfg.MaxPayload || !wire.IsEcho(in.payload) {
		return false
	}
	if in.retained && r.snapshot != nil && r.outbox.topics[in.topic] == nil {
		r.say(&wire.Message{Topic: in.topic, Retain: true})
	}
	return true
}

// packName is the name of the pack that a topic's level means.
func packName(s *model.Snapshot, level string) string {
	if s != nil {
		for i := range s.Packs {
			if name := s.Packs[i].Name; name == level || wire.Segment(name) == level {
				return name
			}
		}
	}
	return level
}

// consumerName is the name of the consumer that a topic's level means.
func consumerName(s *model.Snapshot, battery, level string) string {
	if s != nil {
		if p := s.Pack(battery); p != nil {
			for _, c := range p.Consumers {
				if c.Name == level || wire.Segment(c.Name) == level {
					return c.Name
				}
			}
		}
	}
	return level
}

// answer is one request's answer, which may change from phase to phase.
type answer struct {
	key   string // of the request; empty if it has no id of its own
	topic string
	ack   wire.Ack
}

// tell publishes an answer and keeps it for the case that the request comes again.
func (r *runner) tell(a *answer) {
	a.ack.Stamp = time.Now()
	payload := wire.AppendAck(nil, &a.ack)
	r.answers.keep(a.key, payload)
	r.say(&wire.Message{Topic: a.topic, Payload: payload, Class: wire.ClassAck})
}

// mostAnswers is how many requests are remembered.
const mostAnswers = 1024

// answers remembers the last answer to each of the newest requests.
type answers struct {
	byKey map[string]*list.Element
	order *list.List // of *remembered, the newest first
}

type remembered struct {
	key     string
	payload []byte
}

func newAnswers() *answers {
	return &answers{byKey: make(map[string]*list.Element), order: list.New()}
}

// last is the last answer to the request of that key.
func (a *answers) last(key string) (payload []byte, ok bool) {
	e, ok := a.byKey[key]
	if !ok || key == "" {
		return nil, false
	}
	return e.Value.(*remembered).payload, true
}

// keep remembers an answer. Requests without a key are not remembered.
func (a *answers) keep(key string, payload []byte) {
	if key == "" {
		return
	}
	if e, ok := a.byKey[key]; ok {
		e.Value.(*remembered).payload = payload
		a.order.MoveToFront(e)
		return
	}
	a.byKey[key] = a.order.PushFront(&remembered{key, payload})
	if a.order.Len() > mostAnswers {
		oldest := a.order.Remove(a.order.Back()).(*remembered)
		delete(a.byKey, oldest.key)
	}
}
