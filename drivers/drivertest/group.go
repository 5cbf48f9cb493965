package drivertest

import (
	"math"
	"slices"
	"testing"
	"time"

	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

// machine is a group as its loop drives it: read, judge, write on a grid, armed anew after some failures in
// a row, and opened anew once the port is lost.
type machine struct {
	*rig
	group    motor.Group
	feedback []motor.Feedback
	failures int // in a row
}

func (r *rig) machine(t *testing.T) *machine {
	t.Helper()
	m := &machine{rig: r, group: r.openGroup(t)}
	for range r.o.Joints {
		m.feedback = append(m.feedback, motor.Unmeasured())
	}
	return m
}

func (r *rig) armed(t *testing.T) *machine {
	t.Helper()
	m := r.machine(t)
	if err := m.bounded(t, "Arm", m.group.Arm); err != nil {
		t.Fatalf("Arm on a sound wire: %v", err)
	}
	return m
}

// commands is one command a joint: all of them still, or all moving forwards.
func (r *rig) commands(moving bool) []motor.Command {
	cmd := make([]motor.Command, len(r.o.Joints))
	for i := range cmd {
		if !moving {
			continue
		}
		cmd[i] = or(r.o.Motion, motor.Command{Mode: r.o.Joints[i].Command, Effort: 0.3, Velocity: 2, Position: 1})
	}
	return cmd
}

// tick is one period of the loop. It reports whether the controller answered all of it.
func (m *machine) tick(t *testing.T, cmd []motor.Command) bool {
	t.Helper()
	start := time.Now()
	err := m.bounded(t, "Read", func() error { return m.group.Read(m.feedback) })
	if err == nil {
		m.judge(t)
		err = m.bounded(t, "Write", func() error { return m.group.Write(cmd) })
	}
	switch {
	case err == nil:
		m.failures = 0
	case link.Lost(err):
		wantKind(t, "tick", err)
		m.group, m.failures = m.openGroup(t), 0
		_ = m.bounded(t, "Arm", m.group.Arm)
	default:
		wantKind(t, "tick", err)
		if m.failures++; m.failures%3 == 0 {
			_ = m.bounded(t, "Arm", m.group.Arm)
		}
	}
	m.pass(max(m.o.Period-time.Since(start), time.Millisecond))
	return err == nil
}

// judge compares every known value with the plant. A position was true within the remembered time.
func (m *machine) judge(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	tol := m.o.Tolerance
	m.bench.Do(func() {
		for i, fb := range m.feedback {
			low, high := slices.Min(m.recent[i]), slices.Max(m.recent[i])
			if p := float64(fb.Position); p < low-float64(tol.Position) || p > high+float64(tol.Position) {
				t.Errorf("joint %d: position: driver says %v, plant was in [%v, %v] ± %v", i, p, low, high, tol.Position)
			}
			near(t, "supply voltage", fb.Voltage, m.axes[i].Supply(), max(tol.Voltage, 1))
			if unit.Known(fb.Voltage) && fb.Voltage == 0 && m.axes[i].Supply() > 1 {
				t.Errorf("joint %d: supply voltage is 0: what is unknown must be NaN", i)
			}
		}
	})
}

// run ticks for a time and counts the good ticks.
func (m *machine) run(t *testing.T, d time.Duration, cmd []motor.Command) (good, all int) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); all++ {
		if m.tick(t, cmd) {
			good++
		}
	}
	return good, all
}

// still fails the test if a winding has a voltage.
func (r *rig) still(t *testing.T, when string) {
	t.Helper()
	r.pass(5 * time.Millisecond)
	if r.driven() {
		t.Errorf("%s a motor is driven", when)
	}
}

func testGroup(t *testing.T, spec drivers.Spec, o Options) {
	inBubble(t, "MovesForwardsAndTellsThePlantsPosition", spec, o, func(t *testing.T, r *rig) {
		m := r.armed(t)
		m.run(t, o.Warm, r.commands(true))
		if good, all := m.run(t, time.Second, r.commands(true)); good != all {
			t.Errorf("%d of %d ticks succeeded on a sound wire", good, all)
		}
		for i, fb := range m.feedback {
			if !unit.Known(fb.Position) || r.axes[i].Position() <= 0 || fb.Position <= 0 {
				t.Errorf("joint %d: told to move forwards, it is at %v, driver says %v", i, r.axes[i].Position(), fb.Position)
			}
			near(t, "velocity", fb.Velocity, r.axes[i].Velocity(), o.Tolerance.Velocity)
		}
	})
	inBubble(t, "OpeningTouchesNoPort", spec, o, func(t *testing.T, r *rig) {
		r.openGroup(t)
		if r.wire.passed != 0 {
			t.Errorf("%d bytes passed before Arm", r.wire.passed)
		}
	})
	inBubble(t, "WriteBeforeArmMovesNothing", spec, o, func(t *testing.T, r *rig) {
		m := r.machine(t)
		for range 5 {
			_ = m.group.Write(r.commands(true))
			r.still(t, "after Write before Arm")
		}
	})
	inBubble(t, "ArmMayBeRepeatedAndLeavesTheMotorsWithoutPower", spec, o, func(t *testing.T, r *rig) {
		m := r.armed(t)
		m.run(t, 200*time.Millisecond, r.commands(true))
		if !r.driven() {
			t.Fatal("the motors do not move")
		}
		if err := m.group.Arm(); err != nil {
			t.Errorf("Arm again: %v", err)
		}
		r.still(t, "after Arm")
		m.run(t, 200*time.Millisecond, r.commands(true))
		again := r.armed(t) // as a process that was started anew
		r.still(t, "after Arm by another process")
		again.run(t, 200*time.Millisecond, r.commands(true))
		if !r.driven() {
			t.Error("after arming again the motors do not move")
		}
	})
	inBubble(t, "StopTakesThePowerAwayWheneverItIsCalled", spec, o, func(t *testing.T, r *rig) {
		m := r.machine(t)
		if err := m.group.Stop(); err != nil {
			t.Errorf("Stop before Arm: %v", err)
		}
		r.still(t, "after Stop before Arm")
		m = r.armed(t)
		m.run(t, 200*time.Millisecond, r.commands(true))
		for _, when := range []string{"after Stop", "after the second Stop"} {
			if err := m.group.Stop(); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			r.still(t, when)
		}
		m = r.armed(t)
		m.run(t, 200*time.Millisecond, r.commands(true))
		r.faults.Set(sim.Faults{Silence: 1}) // commands arrive, answers do not
		wantKind(t, "Read without an answer", m.group.Read(m.feedback))
		_ = m.group.Stop()
		r.still(t, "after Stop whose answer was lost")
		r.faults.Set(sim.Faults{})
		if err := m.group.Stop(); err != nil {
			t.Errorf("Stop after an error: %v", err)
		}
	})
	inBubble(t, "NoNumberIsNoMotion", spec, o, func(t *testing.T, r *rig) {
		m := r.armed(t)
		nan, inf := math.NaN(), math.Inf(1)
		for _, mode := range []motor.Mode{motor.ModeEffort, motor.ModeVelocity, motor.ModePosition, motor.ModePosition + 1} {
			for _, v := range []float64{nan, inf, -inf} {
				cmd := r.commands(false)
				for i := range cmd {
					cmd[i] = motor.Command{Mode: mode, Effort: unit.Effort(v), Velocity: unit.Velocity(v), Position: unit.Position(v)}
				}
				_ = m.group.Write(cmd)
				r.still(t, "after a command of "+mode.String()+" without a number")
			}
		}
	})
	inBubble(t, "SilentGatewayStopsTheMotors", spec, o, func(t *testing.T, r *rig) {
		skipWithout(t, o.NoFailsafe)
		m := r.armed(t)
		m.run(t, 500*time.Millisecond, r.commands(true))
		if !r.driven() {
			t.Fatal("the motors do not move")
		}
		r.pass(o.Failsafe)
		r.still(t, "a while after the last command")
	})
	inBubble(t, "AbsentControllerGivesErrors", spec, o, func(t *testing.T, r *rig) {
		r.wire.absent = true
		m := r.machine(t)
		wantKind(t, "Arm", m.bounded(t, "Arm", m.group.Arm))
		wantKind(t, "Read", m.bounded(t, "Read", func() error { return m.group.Read(m.feedback) }))
		_ = m.bounded(t, "Write", func() error { return m.group.Write(r.commands(true)) })
		wantKind(t, "Stop", m.bounded(t, "Stop", m.group.Stop))
	})
	inBubble(t, "ControllerThatFallsSilentIsDrivenAgain", spec, o, func(t *testing.T, r *rig) {
		m := r.armed(t)
		m.run(t, 200*time.Millisecond, r.commands(true))
		r.wire.absent = true
		if good, _ := m.run(t, 3*time.Second, r.commands(true)); good > 0 {
			t.Errorf("%d ticks succeeded without a controller", good)
		}
		r.wire.absent = false
		m.returns(t)
	})
	inBubble(t, "LostPortIsSaidToBeLost", spec, o, func(t *testing.T, r *rig) {
		m := r.armed(t)
		r.wire.gone = true
		if err := m.group.Read(m.feedback); err == nil || !link.Lost(err) {
			t.Errorf("Read on a port that is gone: %v, want one that link.Lost knows", err)
		}
		if err := m.group.Stop(); err == nil {
			t.Error("Stop on a port that is gone: no error")
		}
		r.wire.gone = false
		m = r.machine(t)
		_ = m.group.Arm()
		m.returns(t)
	})
	inBubble(t, "EveryFlippedByteIsHarmless", spec, o, func(t *testing.T, r *rig) {
		skipWithout(t, o.NoChecksum)
		r.everyPlaceOfATick(t, func(n int) { r.wire.arm(n, n%8, -1) })
	})
	inBubble(t, "CutAnswersAreHarmless", spec, o, func(t *testing.T, r *rig) {
		r.everyPlaceOfATick(t, func(n int) { r.wire.arm(-1, 0, n) })
	})
	for name, f := range noise() {
		inBubble(t, name+"AreHarmless", spec, o, func(t *testing.T, r *rig) {
			skipWithout(t, o.NoChecksum)
			m := r.armed(t)
			for seed := range uint64(8) {
				f.Seed = seed
				r.faults.Set(f)
				if good, all := m.run(t, 2*time.Second, r.commands(true)); good == 0 {
					t.Errorf("seed %d: not one of %d ticks succeeded", seed, all)
				}
				_ = m.group.Stop()
				r.faults.Set(sim.Faults{})
				m.returns(t)
				if err := m.group.Stop(); err != nil {
					t.Fatalf("Stop on a sound wire: %v", err)
				}
				r.still(t, "after Stop")
				r.faults.Set(f)
				r.drive = 0
				m.run(t, 2*time.Second, r.commands(false))
				if r.drive != 0 {
					t.Fatalf("seed %d: told to be still, a motor was driven with %v V", seed, r.drive)
				}
				r.faults.Set(sim.Faults{})
				r.pass(100 * time.Millisecond)
			}
		})
	}
	t.Run("ReadAndWriteAllocateNothing", func(t *testing.T) { testAllocations(t, spec, o) })
}

// returns fails the test unless the controller is read and moves again soon.
func (m *machine) returns(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(m.o.Return); time.Now().Before(end); {
		if good, all := m.run(t, 2*m.o.Period, m.commands(true)); good == all && m.driven() {
			return
		}
	}
	t.Errorf("%v after it came back the controller does not drive its motors", m.o.Return)
}

// everyPlaceOfATick damages each byte of one tick in turn, in either direction.
func (r *rig) everyPlaceOfATick(t *testing.T, arm func(n int)) {
	t.Helper()
	m := r.armed(t)
	cmd := r.commands(true)
	m.run(t, 500*time.Millisecond, cmd)
	most := 0
	for range 20 { // ticks differ in length: slow values take turns
		r.wire.arm(-1, 0, -1)
		m.tick(t, cmd)
		most = max(most, r.wire.passed)
	}
	for n := range most {
		arm(n)
		m.tick(t, cmd)
		r.wire.arm(-1, 0, -1)
		m.run(t, 3*r.o.Period, cmd)
		if t.Failed() {
			t.Fatalf("with byte %d of a tick damaged", n)
		}
	}
	m.returns(t)
}

func testAllocations(t *testing.T, spec drivers.Spec, o Options) {
	world, now := new(plant.World), time.Duration(0)
	r := newRigAt(t, spec, o, world, func() { world.AdvanceTo(now) })
	r.port.instant = true
	m := r.machine(t)
	if err := m.group.Arm(); err != nil {
		t.Fatal(err)
	}
	cmd := r.commands(true)
	var err error
	tick := func() {
		now += o.Period
		if e := m.group.Read(m.feedback); e != nil {
			err = e
		}
		if e := m.group.Write(cmd); e != nil {
			err = e
		}
	}
	for range remembered { // buffers and the record have grown by then
		tick()
	}
	if n := testing.AllocsPerRun(500, tick); n != 0 {
		t.Errorf("Read and Write allocate %v times, want 0", n)
	}
	if err != nil {
		t.Errorf("on a sound wire: %v", err)
	}
}
