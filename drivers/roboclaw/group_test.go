package roboclaw

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"hilgate/drivers"
	"hilgate/drivers/drivertest"
	"hilgate/drivers/sim"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

func TestDriverConforms(t *testing.T) {
	reversed := twoJoints(motor.ModeEffort)
	reversed[1].Reversed = true
	mixed := []motor.Joint{testJoint("left", 2, motor.ModeVelocity), testJoint("right", 1, motor.ModeEffort)}
	for _, c := range []struct {
		name string
		o    drivertest.Options
	}{
		{"Effort", drivertest.Options{Joints: reversed}},
		{"Velocity", drivertest.Options{Joints: twoJoints(motor.ModeVelocity)}},
		{"Position", drivertest.Options{Params: "acceleration: 20", Joints: twoJoints(motor.ModePosition)}},
		{"OneJoint", drivertest.Options{Joints: []motor.Joint{testJoint("arm", 2, motor.ModeEffort)}}},
		{"MixedModesInBulk", drivertest.Options{Params: "{acceleration: 50, feedback: bulk}", Joints: mixed}},
		{"Encoders", drivertest.Options{Params: "feedback: encoders", Joints: twoJoints(motor.ModeVelocity)}},
	} {
		t.Run(c.name, func(t *testing.T) { drivertest.Test(t, Spec(), c.o) })
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

func TestArmTellsWhoAnswersAndHowItFailsSafe(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeEffort))
	if _, known := b.group.Identity(); known {
		t.Error("the unit is known before Arm")
	}
	b.arm()
	got, known := b.group.Identity()
	want := motor.Identity{Model: "USB Roboclaw 2x15a", Firmware: "4.2.8", Failsafe: "serial timeout 300ms"}
	if diff := cmp.Diff(want, got); diff != "" || !known {
		t.Errorf("known %v; identity (-want +got):\n%s", known, diff)
	}
	if v := b.read(GetTimeout); v[0] != 3 {
		t.Errorf("the unit's serial timeout is %d × 0.1 s, want 3", v[0])
	}
}

func TestFirstReadTellsEverything(t *testing.T) {
	for _, feedback := range []Feedback{FeedbackSpeeds, FeedbackBulk} {
		p := DefaultParams()
		p.Feedback = feedback
		b := newBench(t, p, twoJoints(motor.ModeEffort)).arm()
		if err := b.group.Read(b.fb); err != nil {
			t.Fatal(err)
		}
		want := motor.Feedback{Temperature: 25, Voltage: 12}
		for i := range b.fb {
			got := b.fb[i]
			if got.EffortSource == motor.EffortUnknown {
				t.Errorf("%s, joint %d: source of effort unknown", feedback, i)
			}
			got.EffortSource = 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, joint %d (-want +got):\n%s", feedback, i, diff)
			}
		}
	}
}

// deviant is a unit that answers one command with values of its own.
type deviant struct {
	*Sim
	command Command
	values  []int64
}

func (d *deviant) Feed(dst, in []byte) []byte {
	if len(in) == 2 && Command(in[1]) == d.command {
		dst, _ = AppendReply(dst, Modern, in, d.values...)
		return dst
	}
	return d.Sim.Feed(dst, in)
}

func TestArmRefusesAUnitThatIsNotAsItMustBe(t *testing.T) {
	limited := twoJoints(motor.ModeEffort)
	limited[1].Limits.Current = 5
	for _, c := range []struct {
		name    string
		params  func(*Params)
		command Command
		values  []int64
		want    string
	}{
		{"SerialTimeout", nil, GetTimeout, []int64{0}, "serial timeout reads 0s, was set to 300ms"},
		{"CurrentLimit", nil, GetMaxCurrentM2, []int64{3000, 0}, "max current M2 reads 30 A, was set to 5 A"},
		{"Gains", func(p *Params) { p.VelocityPIDM1 = &VelocityPID{P: 2, I: 0.5, D: 0.25, QPPS: 44000} },
			GetVelocityPIDM1, []int64{0x4000, 0x8000, 0x20000, 44000}, "velocity PID M1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := DefaultParams()
			if c.params != nil {
				c.params(&p)
			}
			b := newBench(t, p, limited)
			b.line = sim.NewLine(sim.NewBench(nil), &deviant{b.sim, c.command, c.values})
			err := b.group.Arm()
			if !errors.Is(err, link.Refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Arm = %v, want a refusal that says %q", err, c.want)
			}
			if err := b.group.Write(make([]motor.Command, 2)); !errors.Is(err, link.Refused) {
				t.Errorf("Write = %v, want a refusal", err)
			}
			if n := b.counter.Counts().Failures[link.Refused]; n != 1 {
				t.Errorf("%d refusals counted, want 1", n)
			}
		})
	}
}

func TestConfiguredGainsThatTheUnitHasAreAccepted(t *testing.T) {
	p := DefaultParams()
	g := DefaultVelocityPID
	g.QPPS = uint32(math.Round(19 * 30 * 2048 / (2 * math.Pi))) // as commissioned
	p.VelocityPIDM1, p.VelocityPIDM2 = &g, &g
	newBench(t, p, twoJoints(motor.ModeVelocity)).arm()
}

func TestArmSetsWhatTheConfigurationBounds(t *testing.T) {
	p := DefaultParams()
	p.DutySlew, p.Timeout = 4, 500*time.Millisecond
	joints := twoJoints(motor.ModeEffort)
	joints[0].Limits.Current = 7.5
	b := newBench(t, p, joints).arm()
	for c, want := range map[Command][]int64{
		GetTimeout:      {5},
		GetMaxCurrentM1: {750, 0},
		GetMaxCurrentM2: {3000, 0},
		GetDutyAccels:   {4 * FullDuty, maxDutyAccel, 4 * FullDuty, maxDutyAccel},
	} {
		if diff := cmp.Diff(want, b.read(c)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c, diff)
		}
	}
}

func TestUnitThatRestartedMustBeArmedAnew(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeEffort)).arm()
	b.run(time.Second, motor.Command{Mode: motor.ModeEffort, Effort: 0.3})
	b.sim.PowerCycle()
	var err error
	for n := 0; err == nil; n++ {
		if n > len(rotation)*b.group.params.SlowEvery {
			t.Fatal("a whole rotation did not notice that the serial timeout is off")
		}
		err = b.tick(motor.Command{Mode: motor.ModeEffort, Effort: 0.3})
	}
	if !errors.Is(err, link.Refused) {
		t.Errorf("error %v, want a refusal", err)
	}
	if err := b.tick(motor.Command{}); !errors.Is(err, link.Refused) {
		t.Errorf("the tick after: %v, want a refusal until it is armed", err)
	}
	b.arm().run(time.Second, motor.Command{Mode: motor.ModeEffort, Effort: 0.3})
}

func TestOldFirmwareIsReadByItsOwnCommands(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeEffort))
	b.sim.SetFirmware(Old)
	b.arm().run(time.Second, motor.Command{Mode: motor.ModeEffort, Effort: 0.3})
	b.run(time.Second, motor.Command{Mode: motor.ModeEffort, Effort: -0.4})
	for i, fb := range b.fb {
		near(t, "position", float64(fb.Position), float64(b.axes[i].Position()), 0.1)
		near(t, "velocity", float64(fb.Velocity), float64(b.axes[i].Velocity()), 0.3)
		near(t, "temperature", float64(fb.Temperature), 25, 2)
	}
	b.sim.SetEStop(true)
	b.run(500*time.Millisecond, motor.Command{Mode: motor.ModeEffort})
	if f := b.fb[0].Faults; f != motor.FaultEStop {
		t.Errorf("faults %v, want estop", f.Names())
	}
}

func TestOldFirmwareCannotBeReadInBulk(t *testing.T) {
	p := DefaultParams()
	p.Feedback = FeedbackBulk
	b := newBench(t, p, twoJoints(motor.ModeEffort))
	b.sim.SetFirmware(Old)
	if err := b.group.Arm(); !errors.Is(err, link.Refused) {
		t.Errorf("Arm = %v, want a refusal", err)
	}
}

func TestEffortBecomesTheVoltageThatDrivesItsCurrent(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeEffort)).arm()
	for i := range b.axes {
		b.axes[i].Jam(true)
	}
	b.run(time.Second, motor.Command{Mode: motor.ModeEffort, Effort: 1.2})
	current := 1.2 / 30 / 0.9 / 0.021
	for i, fb := range b.fb {
		near(t, "current", float64(b.axes[i].Current()), current, 0.01)
		near(t, "measured current", float64(fb.Current), current, 0.02)
		near(t, "applied effort", float64(fb.Effort), 1.2, 0.01)
		near(t, "power", float64(fb.Power), current*current*0.6, 0.05)
	}
}

func TestEffortIsHeldWithinTheCurrentOfTheJoint(t *testing.T) {
	joints := twoJoints(motor.ModeEffort)
	joints[0].Limits.Current = 1.5
	b := newBench(t, DefaultParams(), joints).arm()
	b.axes[0].Jam(true)
	b.run(time.Second, motor.Command{Mode: motor.ModeEffort, Effort: -100})
	near(t, "current", float64(b.axes[0].Current()), -1.5, 0.01)
}

func TestEffortNeedsASupply(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeEffort)).arm()
	a := &b.group.axes[0]
	for _, supply := range []unit.Volts{0, -1, unit.Unknown[unit.Volts]()} {
		if d := a.dutyFor(1, supply); d != 0 {
			t.Errorf("at a supply of %v V the duty is %v, want 0", supply, d)
		}
	}
	a.speed = math.NaN()
	if d := a.dutyFor(1, 12); d != 0 {
		t.Errorf("without a velocity the duty is %v, want 0", d)
	}
}

func TestVelocityIsClosedByTheUnit(t *testing.T) {
	p := DefaultParams()
	for _, acceleration := range []float64{0, 40} {
		p.Acceleration = acceleration
		joints := twoJoints(motor.ModeVelocity)
		joints[1].Reversed = true
		b := newBench(t, p, joints).arm()
		b.run(2*time.Second, motor.Command{Mode: motor.ModeVelocity, Velocity: -4})
		for i, fb := range b.fb {
			near(t, "velocity", float64(b.axes[i].Velocity()), -4, 0.1)
			near(t, "read velocity", float64(fb.Velocity), -4, 0.15)
		}
	}
}

func TestPositionIsReachedByTheUnit(t *testing.T) {
	p := DefaultParams()
	p.Acceleration, p.Deceleration = 30, 15
	joints := twoJoints(motor.ModePosition)
	joints[1].Reversed = true
	b := newBench(t, p, joints).arm()
	b.run(3*time.Second, motor.Command{Mode: motor.ModePosition, Position: 2.5, Velocity: 5})
	for i, fb := range b.fb {
		near(t, "position", float64(b.axes[i].Position()), 2.5, 0.01)
		near(t, "read position", float64(fb.Position), 2.5, 0.01)
	}
}

func TestPositionGoesOnAcrossTheUnitsThirtyTwoBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := axis{scale: 1}
		start := rapid.Int32().Draw(t, "start")
		a.advance(start)
		want := int64(start)
		for _, step := range rapid.SliceOf(rapid.Int32()).Draw(t, "steps") {
			want += int64(step)
			a.advance(int32(want))
		}
		if a.count != want {
			t.Fatalf("count %d, want %d", a.count, want)
		}
	})
}

func TestPositionBeyondTheUnitsCountIsNotSentThere(t *testing.T) {
	p := DefaultParams()
	p.Acceleration = 10
	b := newBench(t, p, twoJoints(motor.ModePosition)).arm()
	a := &b.group.axes[0]
	for _, position := range []unit.Position{1e6, -1e6} {
		cmd := motor.Command{Mode: motor.ModePosition, Position: position, Velocity: 1}
		if o := a.order(&cmd, 12); o.kind != off {
			t.Errorf("position %v: %+v, want a stop", position, o)
		}
	}
	b.read(SetEncoderM1, math.MaxInt32)
	b.run(50*time.Millisecond, motor.Command{})
	b.read(SetEncoderM1, math.MinInt32)
	b.run(50*time.Millisecond, motor.Command{})
	cmd := motor.Command{Mode: motor.ModePosition, Position: 1, Velocity: 1}
	if o := a.order(&cmd, 12); o.kind != off {
		t.Errorf("with a count that has wrapped: %+v, want a stop", o)
	}
}

func TestChangeOfModeGoesByWayOfZero(t *testing.T) {
	p := DefaultParams()
	p.Acceleration = 50
	b := newBench(t, p, twoJoints(motor.ModeEffort)).arm()
	controlled := func(cmd ...motor.Command) (names [2]string) {
		t.Helper()
		if err := b.group.Write(cmd); err != nil {
			t.Fatal(err)
		}
		for i, m := range b.sim.Truth().(Truth).Motors {
			names[i] = m.Controlled
			if m.Controlled == "duty" && m.Duty == 0 {
				names[i] = "off"
			}
		}
		return names
	}
	effort := motor.Command{Mode: motor.ModeEffort, Effort: 1}
	velocity := motor.Command{Mode: motor.ModeVelocity, Velocity: 1}
	position := motor.Command{Mode: motor.ModePosition, Position: 1, Velocity: 1}
	stop := motor.Command{}
	for i, c := range []struct {
		cmd  []motor.Command
		want [2]string
	}{
		{[]motor.Command{effort, effort}, [2]string{"duty", "duty"}},
		{[]motor.Command{effort, velocity}, [2]string{"duty", "off"}},
		{[]motor.Command{effort, velocity}, [2]string{"duty", "speed"}},
		{[]motor.Command{position, velocity}, [2]string{"off", "speed"}},
		{[]motor.Command{position, velocity}, [2]string{"position", "speed"}},
		{[]motor.Command{position, position}, [2]string{"position", "off"}},
		{[]motor.Command{position, position}, [2]string{"position", "position"}},
		{[]motor.Command{stop, effort}, [2]string{"off", "off"}},
		{[]motor.Command{stop, effort}, [2]string{"off", "duty"}},
		{[]motor.Command{velocity, stop}, [2]string{"speed", "off"}},
		{[]motor.Command{velocity, velocity}, [2]string{"speed", "speed"}},
		{[]motor.Command{velocity, velocity}, [2]string{"speed", "speed"}},
	} {
		if got := controlled(c.cmd...); got != c.want {
			t.Errorf("step %d: the motors are driven by %v, want %v", i, got, c.want)
		}
	}
}

func TestChangeOfModeGoesByWayOfZeroAfterALostAcknowledgement(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeVelocity)[:1]).arm()
	speed, effort := motor.Command{Mode: motor.ModeVelocity, Velocity: 2}, motor.Command{Mode: motor.ModeEffort, Effort: 1}
	b.run(200*time.Millisecond, speed)
	b.dead = true // nobody knows whether the unit has heard that it shall stop
	if err := b.group.Write([]motor.Command{{}}); !errors.Is(err, link.Timeout) {
		t.Fatalf("Write to a dead unit: %v", err)
	}
	b.dead = false
	for i, want := range []float64{0, 0.05} {
		if err := b.group.Write([]motor.Command{effort}); err != nil {
			t.Fatal(err)
		}
		m := b.sim.Truth().(Truth).Motors[0]
		if m.Controlled != "duty" || (m.Duty != 0) != (want != 0) {
			t.Errorf("command %d of another mode: driven by %s, duty %v", i+1, m.Controlled, m.Duty)
		}
	}
}

func TestUnpluggedEncoderStopsItsMotor(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeVelocity)).arm()
	cmd := motor.Command{Mode: motor.ModeVelocity, Velocity: 6}
	b.run(time.Second, cmd)
	b.sim.SetEncoder(2, false)
	b.run(1500*time.Millisecond, cmd)
	if b.fb[0].Faults != 0 || b.fb[1].Faults != motor.FaultEncoder {
		t.Errorf("faults %v, %v; want none and encoder", b.fb[0].Faults.Names(), b.fb[1].Faults.Names())
	}
	near(t, "velocity of the sound joint", float64(b.axes[0].Velocity()), 6, 0.1)
	if v, _ := b.axes[1].Driven(); v != 0 {
		t.Errorf("the motor without an encoder is driven with %v V", v)
	}
	b.sim.SetEncoder(2, true)
	b.axes[1].Drive(1)
	b.pass(0)
	b.arm().run(time.Second, cmd)
	near(t, "velocity with the encoder back", float64(b.axes[1].Velocity()), 6, 0.1)
}

func TestFaultsOfTheUnitAreTold(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeEffort)).arm()
	b.axes[1].SetTemperature(120)
	b.axes[1].Jam(true)
	b.run(500*time.Millisecond, motor.Command{Mode: motor.ModeEffort, Effort: 1})
	want := motor.FaultOvertemperature | motor.WarnOvertemperature
	if f := b.fb[0].Faults; f != want {
		t.Errorf("hot: faults %v, want %v", f.Names(), want.Names())
	}
	b.axes[1].SetTemperature(25)
	b.axes[0].SetSupply(0)
	b.run(time.Second, motor.Command{Mode: motor.ModeEffort, Effort: 1})
	if f, v := b.fb[0].Faults, b.fb[0].Voltage; f != motor.FaultUndervoltage|motor.WarnUndervoltage || v != 0 {
		t.Errorf("without a supply: faults %v, %v V", f.Names(), v)
	}
}

func TestCycleMovesNoMoreBytesThanItSays(t *testing.T) {
	mixed := twoJoints(motor.ModeEffort)
	mixed[1].Command = motor.ModeVelocity
	for _, c := range []struct {
		name   string
		params func(*Params)
		joints []motor.Joint
		want   int
	}{
		{"TwoByEffort", nil, twoJoints(motor.ModeEffort), 33},
		{"OneByEffort", nil, twoJoints(motor.ModeEffort)[:1], 25},
		{"TwoByVelocity", nil, twoJoints(motor.ModeVelocity), 37},
		{"TwoByVelocityWithoutSpeeds", func(p *Params) { p.Feedback = FeedbackEncoders }, twoJoints(motor.ModeVelocity), 33},
		{"TwoByAcceleratedVelocity", func(p *Params) { p.Acceleration = 9 }, twoJoints(motor.ModeVelocity), 45},
		{"TwoByPosition", func(p *Params) { p.Acceleration = 9 }, twoJoints(motor.ModePosition), 62},
		{"OneByPosition", func(p *Params) { p.Acceleration = 9 }, twoJoints(motor.ModePosition)[:1], 40},
		{"OneOfEach", nil, mixed, 40},
		{"TwoInBulk", func(p *Params) { p.Feedback = FeedbackBulk }, twoJoints(motor.ModeEffort), 74},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := DefaultParams()
			if c.params != nil {
				c.params(&p)
			}
			b := newBench(t, p, c.joints).arm()
			cmd := make([]motor.Command, len(c.joints))
			for i, j := range c.joints {
				cmd[i] = motor.Command{Mode: j.Command, Effort: 0.3, Velocity: 1, Position: 0.1}
			}
			most := 0
			for range 3 * len(rotation) * p.SlowEvery {
				b.moved = 0
				if err := errors.Join(b.group.Read(b.fb), b.group.Write(cmd)); err != nil {
					t.Fatal(err)
				}
				b.pass(10 * time.Millisecond)
				most = max(most, b.moved)
			}
			if says := CycleBytes(p, c.joints); most != c.want || says != c.want {
				t.Errorf("the longest cycle moved %d bytes, CycleBytes says %d, want %d", most, says, c.want)
			}
		})
	}
}

func TestOpenTellsAllFaultsAtOnce(t *testing.T) {
	p := DefaultParams()
	p.Address, p.Timeout, p.ReplyTimeout, p.Feedback, p.SlowEvery = 0x7f, 0, 10*time.Millisecond, "all", 1
	p.DutySlew, p.Acceleration, p.GuardDuty, p.GuardCycles = 21, -1, 2, -1
	joints := []motor.Joint{motor.NewJoint("a", 2), motor.NewJoint("b", 2), motor.NewJoint("c", 3)}
	_, err := Open(&script{}, p, joints)
	if err == nil || !strings.Contains(err.Error(), "3 joints") {
		t.Errorf("three joints: %v", err)
	}
	_, err = Open(&script{}, p, joints[:2])
	for _, want := range []string{
		"address: 0x7f", "timeout: 0", "waive_timeout", "reply_timeout: 10ms", `feedback: "all"`, "slow_every: 1",
		"duty_slew: 21", "acceleration: -1", "encoder_guard_duty: 2", "encoder_guard_cycles: -1",
		`joint "a": counts_per_revolution: 0`, "torque_constant: 0", "winding_resistance: 0", "both on channel 2",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not tell %q:\n%v", want, err)
		}
	}
	p = DefaultParams()
	p.Timeout, p.WaiveTimeout, p.Feedback = 0, true, FeedbackEncoders
	if _, err = Open(&script{}, p, twoJoints(motor.ModeEffort)); err == nil || !strings.Contains(err.Error(), "needs the velocity") {
		t.Errorf("effort without velocities: %v", err)
	}
	for _, timeout := range []string{"-100ms", "250ms", "25.6s"} {
		p = DefaultParams()
		p.Timeout = duration(t, timeout)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), "timeout: "+timeout) {
			t.Errorf("timeout %s: %v", timeout, err)
		}
	}
}

func TestParametersAreReadFromTheConfiguration(t *testing.T) {
	registry := drivers.NewRegistry(Spec())
	for _, c := range []struct{ params, want string }{
		{"{}", ""},
		{"{address: 0x87, timeout: 500ms, reply_timeout: 20ms, duty_slew: 2, velocity_pid_m2: {p: 1, i: 0.5, d: 0.25, qpps: 44000}}", ""},
		{"{timeout: 0s, waive_timeout: true}", ""},
		{"{timeout: 0s}", "waive_timeout"},
		{"{parity: even}", "parity"},
		{"{acceleration: .nan}", "acceleration: NaN"},
	} {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(c.params), &n); err != nil {
			t.Fatal(err)
		}
		err := registry.Check("roboclaw", n.Content[0])
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.params, err, c.want)
		}
	}
}

// One byte in a hundred is damaged for ten minutes; no wrong value must come of it.
func TestOnePercentOfDamageForTenMinutesHarmsNothing(t *testing.T) {
	b := newBench(t, DefaultParams(), twoJoints(motor.ModeEffort))
	damage := sim.NewInjector(sim.Faults{Flip: 0.01, Seed: 1})
	b.line = sim.NewLine(sim.NewBench(nil), damage.Peer(b.sim))
	good, all, inARow := 0, 0, 0
	for err := b.group.Arm(); b.world.Now() < 10*time.Minute; all++ {
		if err != nil && inARow >= 3 {
			if err = b.group.Arm(); err != nil {
				continue
			}
			inARow = 0
		}
		if err = b.group.Read(b.fb); err == nil {
			for i, fb := range b.fb {
				near(t, "position", float64(fb.Position), float64(b.axes[i].Position()), 0.001)
				near(t, "voltage", float64(fb.Voltage), 12, 0.05)
				near(t, "velocity", float64(fb.Velocity), float64(b.axes[i].Velocity()), 1)
			}
			wanted := motor.Command{Mode: motor.ModeEffort, Effort: unit.Effort(0.5 * math.Sin(b.world.Now().Seconds()))}
			err = b.group.Write([]motor.Command{wanted, wanted})
		}
		b.pass(10 * time.Millisecond)
		inARow++
		if err == nil {
			good++
			inARow = 0
		}
		if t.Failed() {
			t.Fatalf("at %v", b.world.Now())
		}
	}
	n := b.counter.Counts().Failures
	t.Logf("%d of %d cycles; failures: %d CRC, %d malformed", good, all, n[link.CRC], n[link.Malformed])
	if good < all/3 || n[link.CRC] == 0 {
		t.Errorf("%d of %d cycles succeeded, %d CRC errors counted", good, all, n[link.CRC])
	}
}

func TestStrayByteIsNoAcknowledgement(t *testing.T) {
	addr := byte(FirstAddress)
	reply, _ := AppendReply(nil, Modern, []byte{addr, byte(GetTimeout)}, 3)
	port := &script{in: []byte{0xff}, replies: [][]byte{{0xff}, reply}}
	c := newClient(port, addr)
	c.suspect = trusted
	if _, err := c.ask(DutyBoth, 0, 0); !errors.Is(err, link.Malformed) {
		t.Errorf("with a stray 0xff before the acknowledgement: %v, want a malformed reply", err)
	}
	if v, err := c.ask(GetTimeout); err != nil || v[0] != 3 {
		t.Errorf("the next exchange: %v, %v", v, err)
	}
	if n := c.counters.Counts().Failures[link.Malformed]; n != 1 {
		t.Errorf("%d malformed replies counted, want 1", n)
	}
}

type endless struct{ script }

func (p *endless) Read(b []byte) (int, error) { return len(b), nil }

func TestLineThatNeverFallsSilentIsGivenUp(t *testing.T) {
	c := newClient(&endless{}, FirstAddress)
	if _, err := c.ask(GetTimeout); !errors.Is(err, link.Malformed) {
		t.Errorf("ask = %v, want a malformed reply", err)
	}
	if len(c.port.(*endless).wrote) != 0 {
		t.Error("a request was written into the babble")
	}
}

// Whatever comes back, the client returns, with a value only if the reply is the right one.
func FuzzClient(f *testing.F) {
	f.Add(byte(GetEncoders), unhexF("000186a0fffe79606ec9"), uint8(3))
	f.Add(byte(DutyBoth), unhexF("ff00"), uint8(1))
	f.Add(byte(GetVersion), unhexF("4100b162"), uint8(0))
	f.Add(byte(GetStatus), unhexF("000800013e3c"), uint8(0))
	f.Fuzz(func(t *testing.T, command byte, bytes []byte, before uint8) {
		c := Command(command)
		if !c.In(Modern) || len(bytes) >= babble {
			return
		}
		n := min(int(before), len(bytes))
		reply, _ := AppendReply(nil, Modern, []byte{FirstAddress, byte(GetTimeout)}, 3)
		port := &script{in: bytes[:n], replies: [][]byte{bytes[n:], reply}}
		client := newClient(port, FirstAddress)
		client.suspect = trusted
		switch c {
		case GetVersion:
			_, _ = client.version()
		case GetStatus:
			_, _ = client.generation()
			client.firmware = Modern
		default:
			args := make([]int64, len(c.form(Modern).args))
			if v, err := client.ask(c, args...); err == nil {
				if _, err := ParseReply(make([]int64, maxValues), Modern, port.wrote[0], bytes); err != nil {
					t.Fatalf("%v accepted % x as %v: %v", c, bytes, v, err)
				}
			}
		}
		if v, err := client.ask(GetTimeout); err != nil || v[0] != 3 {
			t.Fatalf("after % x the next exchange gave %v, %v", bytes, v, err)
		}
	})
}

func benchmarkTick(b *testing.B, joints []motor.Joint, p Params) {
	world := new(plant.World)
	var axes []*plant.Joint
	for i := range joints {
		c := plant.DefaultJoint()
		c.Ratio = joints[i].Transmission()
		axes = append(axes, world.AddJoint(c, nil))
	}
	line := sim.NewLine(sim.NewBench(nil), NewSim(p, joints, axes))
	g, err := Open(line, p, joints)
	if err == nil {
		err = g.Arm()
	}
	if err != nil {
		b.Fatal(err)
	}
	fb, cmd := make([]motor.Feedback, len(joints)), make([]motor.Command, len(joints))
	for i := range cmd {
		cmd[i] = motor.Command{Mode: joints[i].Command, Effort: 0.2, Velocity: 1, Position: 1}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Read(fb); err != nil {
			b.Fatal(err)
		}
		if err := g.Write(cmd); err != nil {
			b.Fatal(err)
		}
	}
	bytes := CycleBytes(p, joints)
	b.ReportMetric(float64(bytes), "wire-bytes/cycle")
	b.ReportMetric(115200/10/float64(bytes), "Hz-at-115200")
}

func BenchmarkTickOneJoint(b *testing.B) {
	benchmarkTick(b, twoJoints(motor.ModeEffort)[:1], DefaultParams())
}

func BenchmarkTickTwoJoints(b *testing.B) {
	benchmarkTick(b, twoJoints(motor.ModeEffort), DefaultParams())
}

func BenchmarkTickTwoJointsInBulk(b *testing.B) {
	p := DefaultParams()
	p.Feedback = FeedbackBulk
	benchmarkTick(b, twoJoints(motor.ModeEffort), p)
}
