package mqtt

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hilgate/mqtt/wire"
)

// told records what an outbox sends, as "topic=payload/qos".
type told struct {
	list []string
	as   delivery
}

func (l *told) send(m *wire.Message, qos byte) delivery {
	if l.as != full {
		l.list = append(l.list, fmt.Sprintf("%s=%s/%d", m.Topic, m.Payload, qos))
	}
	return l.as
}

func (l *told) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(l.list, want) {
		t.Errorf("%s: sent %q, want %q", when, l.list, want)
	}
	l.list = nil
}

func at(d time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(d) }

func stream(payload string, mark uint64) wire.Message {
	return wire.Message{Topic: "s", Payload: []byte(payload), Retain: true, QoS: 1, Period: 200 * time.Millisecond, Mark: mark}
}

func state(payload string) wire.Message {
	return wire.Message{Topic: "a", Payload: []byte(payload), Retain: true, QoS: 1}
}

func TestStreamKeepsItsPeriodAndNewsDoesNotWait(t *testing.T) {
	var l told
	o := newOutbox()
	offer := func(d time.Duration, m ...wire.Message) time.Time { return o.offer(m, at(d), false, l.send) }

	offer(0, stream("1", 0))
	l.want(t, "at first", "s=1/1")
	if next := offer(50*time.Millisecond, stream("2", 0)); !next.Equal(at(200 * time.Millisecond)) {
		t.Errorf("the next is due at %v, want after the period", next.Sub(at(0)))
	}
	l.want(t, "within the period")
	offer(60*time.Millisecond, stream("3", 1))
	l.want(t, "with news", "s=3/1")
	offer(260*time.Millisecond, stream("4", 1))
	l.want(t, "after the period", "s=4/0")
	if next := offer(500*time.Millisecond, stream("4", 1)); !next.Equal(at(260 * time.Millisecond).Add(heartbeat)) {
		t.Errorf("the next is due at %v, want at the heartbeat", next.Sub(at(0)))
	}
	l.want(t, "without a change")
	offer(261*time.Millisecond+heartbeat, stream("4", 1))
	l.want(t, "at the heartbeat", "s=4/0")
	o.offer([]wire.Message{stream("5", 1)}, at(262*time.Millisecond+heartbeat), true, l.send)
	l.want(t, "when all are wanted", "s=5/0")
}

func TestStateIsSentWhenItChanges(t *testing.T) {
	var l told
	o := newOutbox()
	for i, payload := range []string{"online", "online", "offline", "online"} {
		o.offer([]wire.Message{state(payload)}, at(time.Duration(i)), false, l.send)
	}
	l.want(t, "in all", "a=online/1", "a=offline/1", "a=online/1")
	o.offer([]wire.Message{state("online")}, at(time.Hour), false, l.send)
	l.want(t, "after an hour")
}

func TestMessageWithoutRoomIsOfferedAgain(t *testing.T) {
	l := told{as: full}
	o := newOutbox()
	if next := o.offer([]wire.Message{state("online")}, at(0), false, l.send); !next.Equal(at(again)) {
		t.Errorf("the next is due after %v, want %v", next.Sub(at(0)), again)
	}
	l.as = sent
	o.offer([]wire.Message{state("online")}, at(again), false, l.send)
	l.want(t, "with room", "a=online/1")
}

func TestResetMakesWhatIsRetainedDueAgain(t *testing.T) {
	var l told
	o := newOutbox()
	event := wire.Message{Topic: "p", Payload: []byte("0.5"), Mark: 1}
	messages := []wire.Message{state("online"), stream("1", 0), event}
	l.as = dropped
	o.offer(messages, at(0), false, l.send)
	l.want(t, "offline", "a=online/1", "s=1/1", "p=0.5/0")
	l.as = sent
	o.offer(messages, at(1), false, l.send)
	l.want(t, "before the reset")
	o.reset()
	o.offer(messages, at(2), false, l.send)
	l.want(t, "after the reset", "a=online/1", "s=1/1")
}

func TestRetainedTopicThatIsGoneIsCleared(t *testing.T) {
	var l told
	o := newOutbox()
	o.offer([]wire.Message{state("online"), stream("1", 0)}, at(0), false, l.send)
	changes := o.changes
	l.list, l.as = nil, dropped
	o.offer([]wire.Message{stream("1", 0)}, at(1), false, l.send)
	l.want(t, "offline", "a=/1")
	l.as = sent
	o.offer([]wire.Message{stream("1", 0)}, at(2), false, l.send)
	l.want(t, "online", "a=/1")
	o.offer([]wire.Message{stream("1", 0)}, at(3), false, l.send)
	l.want(t, "afterwards")
	if !slices.Equal(o.order, []string{"s"}) || o.changes == changes {
		t.Errorf("the topics are %q after %d changes", o.order, o.changes)
	}
}

func TestPassWithNothingDueDoesNotAllocate(t *testing.T) {
	var l told
	o := newOutbox()
	messages := []wire.Message{state("online"), stream("1", 0)}
	o.offer(messages, at(0), false, l.send)
	if n := testing.AllocsPerRun(100, func() { o.offer(messages, at(1), false, l.send) }); n != 0 {
		t.Errorf("a pass without anything due allocates %v times, want 0", n)
	}
}

// A measurement comes every 20 ms and may be told every 100 ms; snapshots of other things come in between.
// Each message must tell a measurement at the moment it came, and the rate must hold.
func TestStreamTellsAMeasurementWhenItComes(t *testing.T) {
	o := newOutbox()
	start := time.Unix(1000, 0)
	var late []time.Duration
	for at := time.Duration(0); at < 10*time.Second; at += 5 * time.Millisecond {
		measured := at.Truncate(20 * time.Millisecond)
		m := wire.Message{
			Topic: "s", Payload: []byte(measured.String()), Period: 100 * time.Millisecond,
			Fresh: start.Add(measured).UnixNano(),
		}
		o.offer([]wire.Message{m}, start.Add(at), false, func(*wire.Message, byte) delivery {
			late = append(late, at-measured)
			return sent
		})
	}
	for i, d := range late {
		if d != 0 {
			t.Fatalf("message %d tells a measurement %v after it came", i, d)
		}
	}
	if n := len(late); n < 99 || n > 101 {
		t.Errorf("%d messages in 10 s, want 10 a second", n)
	}
}
