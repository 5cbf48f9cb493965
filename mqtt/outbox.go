package mqtt

import (
	"bytes"
	"time"

	"hilgate/mqtt/wire"
)

// heartbeat is the longest time between two publications of a stream that does not change.
const heartbeat = 30 * time.Second

// again is when a message is offered anew that found no room.
const again = 50 * time.Millisecond

// A stream keeps its rate on average. One message may come early by this part of its period, so that a
// measurement is told when it comes and not later; and one that is due waits for the next measurement for that
// part at the longest.
const (
	early    = 4
	lateness = 2
)

// outbox remembers what was published on each topic, and so knows what is due.
type outbox struct {
	topics  map[string]*published
	order   []string // the topics, in the order in which they were first offered
	changes uint64   // of order
	pass    uint64
}

// published is the state of one topic.
type published struct {
	retain  bool
	payload []byte
	mark    uint64
	at      time.Time // zero: it is due, whatever the payload
	next    time.Time // from when on a stream may be published again
	fresh   int64     // of the message that was last offered
	pass    uint64    // in which it was last offered
}

// delivery says what became of a message.
type delivery uint8

const (
	sent    delivery = iota // handed to the broker
	dropped                 // left out: there is no connection
	full                    // to be offered again: too many are unconfirmed
)

func newOutbox() *outbox { return &outbox{topics: make(map[string]*published)} }

// offer sends those of the messages that are due, in their order, and clears retained topics that are no
// longer among them. With all set streams do not wait for their period. It returns when it wants to be
// called again at the latest; later messages may make that earlier.
func (o *outbox) offer(messages []wire.Message, now time.Time, all bool, send func(m *wire.Message, qos byte) delivery) (next time.Time) {
	o.pass++
	next = now.Add(heartbeat)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for i := range messages {
		m := &messages[i]
		p := o.topic(m.Topic)
		p.pass, p.retain = o.pass, m.Retain
		qos, from, is := p.due(m, all)
		known := m.Fresh == p.fresh // offered before, and so no longer fresh
		wait := time.Duration(0)
		if m.Fresh != 0 && !from.IsZero() {
			wait = m.Period / lateness
		}
		p.fresh = m.Fresh
		switch {
		case !is:
		case from.After(now):
			sooner(from.Add(wait))
		case known && now.Before(from.Add(wait)):
			sooner(from.Add(wait))
		case send(m, qos) == full:
			sooner(now.Add(again))
		default: // sent; or dropped, and then reset makes it due again
			p.payload, p.mark, p.at = append(p.payload[:0], m.Payload...), m.Mark, now
			if off := p.next.Sub(now); off > m.Period/early || off < -m.Period/lateness {
				p.next = now // news, or after a pause: another grid
			}
			p.next = p.next.Add(m.Period)
		}
	}
	o.clear(send, func() { sooner(now.Add(again)) })
	return next
}

// topic returns the state of a topic, which is a new one's if it was not offered before.
func (o *outbox) topic(name string) *published {
	p := o.topics[name]
	if p == nil {
		p = &published{}
		o.topics[name] = p
		o.order = append(o.order, name)
		o.changes++
	}
	return p
}

// due says whether m is to be published on its topic, at which QoS, and from when on.
func (p *published) due(m *wire.Message, all bool) (qos byte, from time.Time, is bool) {
	changed := !bytes.Equal(m.Payload, p.payload)
	switch {
	case p.at.IsZero(), m.Mark != p.mark, m.Period == 0 && changed:
		return m.QoS, time.Time{}, true
	case m.Period == 0:
		return 0, time.Time{}, false
	case changed && all:
		return 0, time.Time{}, true
	case changed && m.Fresh != 0:
		return 0, p.next.Add(-m.Period / early), true
	case changed:
		return 0, p.next, true
	}
	return 0, p.at.Add(heartbeat), true
}

// clear takes retained messages off the broker whose topics were not offered in this pass.
func (o *outbox) clear(send func(*wire.Message, byte) delivery, retry func()) {
	kept := o.order[:0]
	for _, topic := range o.order {
		if p := o.topics[topic]; p.pass != o.pass {
			gone := !p.retain
			if p.retain {
				switch send(&wire.Message{Topic: topic, Retain: true, QoS: 1}, 1) {
				case sent:
					gone = true
				case full:
					retry()
				case dropped: // it waits for the broker
				}
			}
			if gone {
				delete(o.topics, topic)
				o.changes++
				continue
			}
		}
		kept = append(kept, topic)
	}
	o.order = kept
}

// reset forgets what the broker was told that it should keep: all of it is due.
func (o *outbox) reset() {
	for _, p := range o.topics {
		if p.retain {
			p.at = time.Time{}
		}
	}
}
