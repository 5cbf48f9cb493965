package mqtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/mqtt/broker"
	"hilgate/mqtt/wire"
)

// patience bounds every wait; it is reached only on failure.
const patience = 15 * time.Second

// robot is a store and a handler in one: what commands do to it shows in its snapshots.
type robot struct {
	mu       sync.Mutex
	snapshot *model.Snapshot
	changed  chan struct{}
	calls    []string
	refuse   error // what the next commands are answered
	hold     chan struct{}
}

func newRobot() *robot {
	r := bms.Unmeasured()
	r.Present, r.Voltage, r.Current, r.Cells = true, 15.2, -2.5, []unit.Volts{3.8, 3.8, 3.8, 3.8}
	joint := func(name string) motor.JointState {
		fb := motor.Unmeasured()
		fb.Position = 0.5
		return motor.JointState{Name: name, JointSample: motor.JointSample{Feedback: fb}}
	}
	return &robot{
		changed: make(chan struct{}),
		snapshot: &model.Snapshot{
			Robot: "rover", At: time.Now(),
			Packs: []bms.State{{
				Name: "main", Driver: "sbs", Quality: bms.Measured, At: time.Now(), Reading: r, Status: bms.Discharging,
				Consumers: []bms.Consumer{{Name: "Lidar 1", Power: 8}},
			}},
			Groups: []motor.State{{
				Name: "base", Driver: "roboclaw", Connected: true, At: time.Now(),
				Identity: motor.Identity{Failsafe: "serial timeout 0.2 s"},
				Joints:   []motor.JointState{joint("left"), joint("right")},
			}},
		},
	}
}

func (r *robot) latest() *model.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot
}

func (r *robot) onChange() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// set publishes a changed copy of the snapshot.
func (r *robot) set(change func(s *model.Snapshot)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := *r.snapshot
	s.Seq++
	s.At = time.Now()
	s.Packs = slices.Clone(s.Packs)
	s.Groups = slices.Clone(s.Groups)
	for i := range s.Packs {
		s.Packs[i].Consumers = slices.Clone(s.Packs[i].Consumers)
	}
	for i := range s.Groups {
		s.Groups[i].Joints = slices.Clone(s.Groups[i].Joints)
	}
	change(&s)
	r.snapshot = &s
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *robot) call(format string, args ...any) error {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return r.refuse
	}
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	return nil
}

func (r *robot) called() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func (r *robot) Follow(m wire.Trajectory) (uint64, error) {
	if err := r.call("follow %v %d", m.JointNames, len(m.Points)); err != nil {
		return 0, err
	}
	return uint64(len(r.called())), nil
}

func (r *robot) EStop(source, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf("estop %s %s", source, reason))
}

func (r *robot) ReleaseEStop(confirm string) error { return r.call("release %s", confirm) }
func (r *robot) Recharge(b string, on bool) error  { return r.call("recharge %s %v", b, on) }
func (r *robot) Drain(b string, on bool) error     { return r.call("drain %s %v", b, on) }
func (r *robot) RemoveConsumer(b, name string) error {
	if err := r.call("remove %s %s", b, name); err != nil {
		return err
	}
	r.set(func(s *model.Snapshot) {
		p := &s.Packs[0]
		p.Consumers = slices.DeleteFunc(p.Consumers, func(c bms.Consumer) bool { return c.Name == name })
	})
	return nil
}

func (r *robot) Consumer(b, name string, w unit.Watts) error {
	if err := r.call("consumer %s %s %v", b, name, float64(w)); err != nil {
		return err
	}
	r.set(func(s *model.Snapshot) {
		p := &s.Packs[0]
		for i := range p.Consumers {
			if p.Consumers[i].Name == name {
				p.Consumers[i].Power = w
				return
			}
		}
		p.Consumers = append(p.Consumers, bms.Consumer{Name: name, Power: w})
	})
	return nil
}

// broken is a reason to refuse.
var errBroken = errors.New("the charger is broken")

func (r *robot) stop(reason permit.Reason) {
	r.set(func(s *model.Snapshot) {
		for i := range s.Groups[0].Joints {
			s.Groups[0].Joints[i].Withheld = reason
		}
		s.Safety.Withheld = reason
	})
}

// startBroker runs an embedded broker on a free port, or on that of an earlier one.
func startBroker(t *testing.T, listen string) (b *broker.Broker, stop func()) {
	t.Helper()
	b, err := broker.New(broker.Config{Listen: listen}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // cleaned up in reverse order
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return b, stop
}

// startClient runs a client of r until the test ends, or until stop is called.
func startClient(t *testing.T, address string, r *robot, change func(*Config)) (c *Client, stop func()) {
	t.Helper()
	cfg := Config{
		Broker: "tcp://" + address, Robot: "rover", Latest: r.latest, Changed: r.onChange,
		BatteryRate: MaxRate, EstimateRate: MaxRate, JointRate: MaxRate,
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg, r, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // cleaned up in reverse order
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not return")
		}
	})
	t.Cleanup(stop)
	return c, stop
}

// listener is a foreign client: what it hears by topic, and all in order.
type listener struct {
	paho.Client
	mu   sync.Mutex
	last map[string]heard
	all  []heard
	news chan struct{}
}

type heard struct {
	topic, payload string
	retained       bool
	qos            byte
	at             time.Time
}

func listen(t *testing.T, address string, filters ...string) *listener {
	t.Helper()
	l := &listener{last: make(map[string]heard), news: make(chan struct{}, 1)}
	o := paho.NewClientOptions().AddBroker("tcp://" + address).SetClientID(fmt.Sprintf("listener-%p", l)).SetProtocolVersion(4)
	o.SetAutoReconnect(false)
	o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
		l.mu.Lock()
		defer l.mu.Unlock()
		h := heard{m.Topic(), string(m.Payload()), m.Retained(), m.Qos(), time.Now()}
		l.last[h.topic] = h
		l.all = append(l.all, h)
		select {
		case l.news <- struct{}{}:
		default:
		}
	})
	l.Client = paho.NewClient(o)
	confirmed(t, "connect", l.Connect())
	t.Cleanup(func() { l.Disconnect(0) })
	for _, f := range filters {
		confirmed(t, "subscribe", l.Subscribe(f, 1, nil))
	}
	return l
}

func confirmed(t *testing.T, what string, token paho.Token) {
	t.Helper()
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("%s: %v", what, token.Error())
	}
}

// say publishes a command.
func (l *listener) say(t *testing.T, topic, payload string) {
	t.Helper()
	confirmed(t, "publish", l.Publish(topic, 1, false, payload))
}

// until waits until the last message on a topic contains a text.
func (l *listener) until(t *testing.T, topic, text string) heard {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		h, ok := l.last[topic]
		known := slices.Sorted(maps.Keys(l.last))
		l.mu.Unlock()
		if ok && strings.Contains(h.payload, text) {
			return h
		}
		select {
		case <-l.news:
		case <-deadline:
			t.Fatalf("%s: last heard %q, want %q in it; topics are %q", topic, h.payload, text, known)
		}
	}
}

// heardOn lists all payloads of a topic.
func (l *listener) heardOn(topic string) (payloads []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.all {
		if h.topic == topic {
			payloads = append(payloads, h.payload)
		}
	}
	return payloads
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// safeBuffer may be written by several goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
