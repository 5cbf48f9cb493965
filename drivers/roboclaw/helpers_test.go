package roboclaw

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"hilgate/drivers/sim"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/motor"
)

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func unhexF(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// testJoint is a joint of the default plant: a small geared motor with an encoder of 512 lines.
func testJoint(name string, channel int, mode motor.Mode) motor.Joint {
	j := motor.NewJoint(name, channel)
	j.GearRatio, j.Efficiency = 30, 0.9
	j.TorqueConstant, j.WindingResistance = 0.021, 0.6
	j.CountsPerRevolution, j.MaxVelocity = 2048, 19
	j.Command = mode
	return j
}

func twoJoints(mode motor.Mode) []motor.Joint {
	return []motor.Joint{testJoint("left", 1, mode), testJoint("right", 2, mode)}
}

// bench is a group on a simulated unit. Time passes when the port waits in vain, and when the test says so.
type bench struct {
	t      *testing.T
	world  *plant.World
	axes   []*plant.Joint
	sim    *Sim
	group  *Group
	fb     []motor.Feedback
	joints []motor.Joint

	line    *sim.Line
	timeout time.Duration
	moved   int  // bytes, both ways
	dead    bool // nothing arrives
	counter link.Counters
}

func newBench(t *testing.T, p Params, joints []motor.Joint) *bench {
	t.Helper()
	b := &bench{t: t, world: new(plant.World), joints: joints, timeout: 50 * time.Millisecond}
	for i := range joints {
		c := plant.DefaultJoint()
		c.Ratio = joints[i].Transmission()
		b.axes = append(b.axes, b.world.AddJoint(c, nil))
		b.fb = append(b.fb, motor.Unmeasured())
	}
	b.sim = NewSim(p, joints, b.axes)
	b.line = sim.NewLine(sim.NewBench(nil), b.sim)
	g, err := Open(b, p, joints)
	if err != nil {
		t.Fatal(err)
	}
	b.group = g
	return b
}

func (b *bench) arm() *bench {
	b.t.Helper()
	if err := b.group.Arm(); err != nil {
		b.t.Fatalf("Arm: %v", err)
	}
	return b
}

func (b *bench) Counters() *link.Counters { return &b.counter }

func (b *bench) SetReadTimeout(d time.Duration) error {
	b.timeout = d
	return nil
}

func (b *bench) Write(p []byte) (int, error) {
	b.moved += len(p)
	if b.dead {
		return len(p), nil
	}
	return b.line.Write(p)
}

func (b *bench) Read(p []byte) (int, error) {
	n, err := b.line.Read(p)
	b.moved += n
	if errors.Is(err, link.Timeout) {
		b.pass(b.timeout)
	}
	return n, err
}

func (b *bench) pass(d time.Duration) { b.world.AdvanceTo(b.world.Now() + d) }

// tick is one cycle at 100 Hz with the same command for every joint.
func (b *bench) tick(cmd motor.Command) error {
	err := b.group.Read(b.fb)
	if err == nil {
		all := make([]motor.Command, len(b.fb))
		for i := range all {
			all[i] = cmd
		}
		err = b.group.Write(all)
	}
	b.pass(10 * time.Millisecond)
	return err
}

// run ticks for a time; every tick must succeed.
func (b *bench) run(d time.Duration, cmd motor.Command) {
	b.t.Helper()
	for end := b.world.Now() + d; b.world.Now() < end; {
		if err := b.tick(cmd); err != nil {
			b.t.Fatalf("at %v: %v", b.world.Now(), err)
		}
	}
}

// feed hands the simulator a request and returns the values of its answer; ok is false if it is silent.
func (b *bench) feed(c Command, args ...int64) (values []int64, ok bool) {
	b.t.Helper()
	return feed(b.t, b.sim, c, args...)
}

func feed(t *testing.T, s *Sim, c Command, args ...int64) (values []int64, ok bool) {
	t.Helper()
	request, err := AppendRequest(nil, s.firmware, s.addr, c, args...)
	if err != nil {
		t.Fatal(err)
	}
	reply := s.Feed(nil, request)
	if len(reply) == 0 {
		return nil, false
	}
	values = make([]int64, maxValues)
	n, err := ParseReply(values, s.firmware, request, reply)
	if err != nil {
		t.Fatalf("%v → % x: %v", c, reply, err)
	}
	return values[:n], true
}

// read is a value of the simulator that must be told.
func (b *bench) read(c Command, args ...int64) []int64 {
	b.t.Helper()
	v, ok := b.feed(c, args...)
	if !ok {
		b.t.Fatalf("%v: no answer", c)
	}
	return v
}
