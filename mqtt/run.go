package mqtt

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"hilgate/model"
	"hilgate/mqtt/wire"
)

// Times of connecting and leaving.
const (
	firstPause = 200 * time.Millisecond // before the second attempt, then doubled up to
	mostPause  = 10 * time.Second
	quickLoss  = 2 * time.Second // a session that ends sooner may have been taken over
	manyLosses = 5               // of those in a row
	farewell   = 500 * time.Millisecond
)

// runner is what Run's goroutine owns.
type runner struct {
	*Client
	session *session // the attempt or connection that stands; never nil
	pause   time.Duration
	quick   int    // sessions in a row that were lost at once
	failing string // why no connection could be made, as last logged

	timer    *time.Timer // the next publication that is due
	retry    *time.Timer // the next attempt
	outbox   *outbox
	messages []wire.Message
	info     []byte // payload of gateway/info, made when the topics change
	infoOf   uint64 // outbox.changes that it was made from
	snapshot *model.Snapshot

	answers   *answers
	following []*following
	generated uint64 // ids given to requests without one
}

func newRunner(c *Client) *runner {
	r := &runner{
		Client: c, session: &session{}, pause: firstPause, outbox: newOutbox(), answers: newAnswers(),
		timer: time.NewTimer(0), retry: time.NewTimer(0),
	}
	r.timer.Stop()
	r.retry.Stop()
	return r
}

// connect begins an attempt.
func (r *runner) connect(ctx context.Context) {
	s, err := r.open(ctx)
	if err != nil {
		r.session = &session{}
		r.failed(err)
		return
	}
	r.session = s
}

// connected is closed when the attempt that runs has ended; nil if there is none.
func (r *runner) connected() <-chan struct{} {
	if r.session.token == nil || r.session.up {
		return nil
	}
	return r.session.token.Done()
}

// up takes the outcome of an attempt.
func (r *runner) up() {
	s := r.session
	if err := s.token.Error(); err != nil {
		s.close()
		r.session = &session{}
		r.failed(err)
		return
	}
	s.up, s.since = true, time.Now()
	s.watcher.Go(func() { s.watch(r.Client) })
	r.stats.connects.Add(1)
	r.stats.connected.Store(true)
	r.failing = ""
	r.log.Info("connected", "broker", r.broker.Redacted())
	s.subscribe(r.Client)
	r.outbox.reset()
	r.publish(s.since)
}

// failed waits before the next attempt, longer each time, and not as long as others do.
func (r *runner) failed(err error) {
	if text := err.Error(); text != r.failing {
		r.failing = text
		r.log.Warn("cannot connect: trying on", "broker", r.broker.Redacted(), "err", err)
	}
	r.retry.Reset(r.pause/2 + rand.N(r.pause/2))
	r.pause = min(2*r.pause, mostPause)
}

// down takes the loss of the connection.
func (r *runner) down(err error) {
	lived := time.Since(r.session.since)
	r.session.close()
	r.session = &session{}
	r.stats.connected.Store(false)
	r.stats.losses.Add(1)
	r.log.Warn("connection lost", "broker", r.broker.Redacted(), "err", err)
	if lived >= quickLoss {
		r.quick, r.pause = 0, firstPause
		r.retry.Reset(rand.N(firstPause))
		return
	}
	if r.quick++; r.quick == manyLosses {
		r.quick = 0
		r.log.Error("the connection is lost again and again right after it was made: probably another client uses the same client id",
			"client_id", r.cfg.ClientID)
	}
	r.retry.Reset(r.pause/2 + rand.N(r.pause/2))
	r.pause = min(2*r.pause, mostPause)
}

// publish sends what is due of the newest snapshot, and sets the timer for what is due later.
func (r *runner) publish(now time.Time) { r.timer.Reset(time.Until(r.offer(now, false))) }

func (r *runner) offer(now time.Time, all bool) (next time.Time) {
	r.messages = r.messages[:0]
	if s := r.cfg.Latest(); s != nil {
		r.snapshot = s
		for _, view := range r.views {
			r.messages = view(r.messages, s)
		}
		for i := range r.messages {
			r.outbox.topic(r.messages[i].Topic) // so that the birth message lists it
		}
		r.messages = append(r.messages, wire.Message{
			Topic: r.topics.Robot(wire.GatewayInfo), Payload: r.birth(s), Retain: true, QoS: 1,
		})
		r.observe(s)
	}
	r.messages = append(r.messages, wire.Message{
		Topic: r.topics.Robot(wire.GatewayAvailability), Payload: []byte(wire.Online), Retain: true, QoS: 1,
	})
	return r.outbox.offer(r.messages, now, all, r.send)
}

// birth is the payload of gateway/info, which lists the topics.
func (r *runner) birth(s *model.Snapshot) []byte {
	if r.info == nil || r.infoOf != r.outbox.changes {
		r.infoOf = r.outbox.changes
		// What a view offers, and what only an event or a request brings.
		topics := append(slices.Clone(r.outbox.order), r.topics.Robot(wire.TrajectoryResult), r.topics.Response("any"))
		r.info = wire.AppendInfo(r.info[:0], &r.cfg.Info, s, topics, r.filters)
	}
	return r.info
}

// send hands a message to the broker, if there is one.
func (r *runner) send(m *wire.Message, qos byte) delivery {
	s := r.session
	if !s.up || s.broken {
		r.stats.dropped.Add(1)
		return dropped
	}
	// The library keeps the payload until it is confirmed; the view's buffer is used again before that.
	d, err := s.send(m.Topic, qos, m.Retain, append([]byte(nil), m.Payload...))
	switch {
	case err != nil:
		r.stats.failures.Add(1)
	case d == sent:
		r.stats.published[m.Class].Add(1)
		if len(m.Payload) == 0 {
			s.clears[m.Topic]++
		}
	}
	return d
}

// say sends what is not offered again: an answer, or an event. Without room for it, it is left out.
func (r *runner) say(m *wire.Message) {
	if r.send(m, 1) == full {
		r.stats.dropped.Add(1)
	}
}

// leave says goodbye: the last snapshot, "offline", and DISCONNECT, which takes the will back. What is not
// confirmed in time makes the connection be cut instead, and the will says it.
func (r *runner) leave() {
	s := r.session
	if !s.up {
		if s.client != nil {
			s.close()
		}
		return
	}
	done := make(chan bool, 1)
	go func() {
		r.offer(time.Now(), true)
		token := s.client.Publish(r.topics.Robot(wire.GatewayAvailability), 1, true, wire.Offline)
		confirmed := token.WaitTimeout(farewell) && token.Error() == nil
		if confirmed {
			s.client.Disconnect(uint((100 * time.Millisecond).Milliseconds()))
		}
		done <- confirmed
	}()
	deadline := time.NewTimer(farewell)
	defer deadline.Stop()
	confirmed := false
	select {
	case confirmed = <-done:
	case <-deadline.C:
		s.cut()
		confirmed = <-done // which ends soon: the connection is gone
	}
	s.close()
	r.stats.connected.Store(false)
	if confirmed {
		r.log.Info("disconnected", "broker", r.broker.Redacted())
	} else {
		r.log.Warn("the broker did not confirm the farewell: its will for the gateway says it", "broker", r.broker.Redacted())
	}
}
