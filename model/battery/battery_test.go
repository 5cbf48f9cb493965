package battery

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hilgate/bms"
	"hilgate/model/unit"
)

// pack is a 4S pack of 1 Ah with a constant load, right by default.
func pack() Config {
	c := Default()
	c.Capacity, c.E0, c.E1, c.Resistance, c.Tau, c.PowerLoad = 1, 16.8, -3.6, 0.08, 2, 20
	c.EnableRecharge, c.ChargingTime = true, 0.5
	return c
}

func build(t *testing.T, c Config) *Battery {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func run(b *Battery, span, dt time.Duration) {
	for t := time.Duration(0); t < span; t += dt {
		b.Step(dt)
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

func TestRuntimeIsEnergyByLoad(t *testing.T) {
	c := pack()
	c.E1, c.Resistance, c.Tau = 0, 0, 0.001
	b := build(t, c)
	hours := float64(c.Capacity) * float64(c.E0) / float64(c.PowerLoad)
	run(b, time.Duration(hours*float64(time.Hour)), 10*time.Millisecond)
	near(t, "charge after capacity·voltage/load", float64(b.Charge()), 0, 1e-6)
}

func TestChargeEndsAtEmptyAndCurrentWithIt(t *testing.T) {
	b := build(t, pack())
	run(b, 2*time.Hour, 100*time.Millisecond)
	if b.Charge() != 0 || b.SoC() != 0 || b.Current() != 0 || !b.Empty() || b.Status() != bms.NotCharging {
		t.Errorf("drained: %v Ah, SoC %v, %v A, empty %v, %v; want 0, 0, 0, true, not_charging",
			b.Charge(), b.SoC(), b.Current(), b.Empty(), b.Status())
	}
	near(t, "voltage without current", float64(b.Voltage()), 13.2, 1e-12)
}

func TestEmptyRecoversAboveItsThreshold(t *testing.T) {
	b := build(t, pack())
	run(b, 2*time.Hour, 100*time.Millisecond)
	b.Drain(false)
	b.Recharge(true)
	for b.Empty() {
		if b.SoC() > 0.0501 {
			t.Fatalf("still empty at %v", b.SoC())
		}
		b.Step(100 * time.Millisecond)
	}
	near(t, "state of charge on recovery", float64(b.SoC()), 0.05, 1e-4)
}

func TestChargingTimeFillsTheWholeBattery(t *testing.T) {
	c := pack()
	c.InitialCharge, c.StartDraining, c.Tau = 0, false, 0.01
	b := build(t, c)
	b.Recharge(true)
	run(b, 29*time.Minute, 10*time.Millisecond)
	if b.SoC() >= 1 || b.Status() != bms.Charging || b.Current() <= 0 {
		t.Errorf("a minute before: SoC %v, %v, %v A; want below 1, charging, positive", b.SoC(), b.Status(), b.Current())
	}
	run(b, 61*time.Second, 10*time.Millisecond)
	if b.SoC() != 1 || b.Current() != 0 || b.Status() != bms.Full {
		t.Errorf("after charging_time: SoC %v, %v A, %v; want 1, 0, full", b.SoC(), b.Current(), b.Status())
	}
}

func TestNothingFlowsWhenIdle(t *testing.T) {
	b := build(t, pack())
	run(b, time.Minute, 10*time.Millisecond)
	if b.Current() >= 0 || b.Status() != bms.Discharging {
		t.Fatalf("under load: %v A, %v", b.Current(), b.Status())
	}
	b.Drain(false)
	b.Step(10 * time.Millisecond)
	want := b.Config()
	if b.Current() != 0 || b.Voltage() != want.OpenCircuitVoltage(b.SoC()) || b.Status() != bms.NotCharging {
		t.Errorf("idle: %v A, %v V, %v; want 0 A at the open-circuit voltage, not charging", b.Current(), b.Voltage(), b.Status())
	}
}

func TestLoadBeyondTheResistanceDoesNotKillTheModel(t *testing.T) {
	b := build(t, pack())
	b.SetConsumer("winch", 1e5)
	run(b, time.Second, time.Millisecond)
	if b.Voltage() < 6 {
		t.Errorf("100 kW: %v V, want about half the open-circuit voltage", b.Voltage())
	}
	b.RemoveConsumer("winch")
	run(b, time.Minute, time.Millisecond)
	near(t, "power after the load has gone", float64(b.Voltage())*float64(b.Current()), -20, 0.01)
}

func TestLongStepDoesNotChangeTheTimeConstant(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		c := pack()
		c.Quirks.StickyTau = sticky
		b := build(t, c)
		b.Step(10 * time.Second)
		if want := map[bool]float64{false: 2, true: 10}[sticky]; b.tau != want {
			t.Errorf("sticky_tau %v: tau is %v s after a step of 10 s, want %v", sticky, b.tau, want)
		}
	}
}

func TestStepsOfNoTimeDoNothing(t *testing.T) {
	b := build(t, pack())
	b.Step(time.Second)
	before := *b
	b.Step(0)
	b.Step(-time.Second)
	if b.charge != before.charge || b.current != before.current || b.voltage != before.voltage {
		t.Errorf("steps of 0 and −1 s changed the battery")
	}
}

func TestConsumersAddUpInOrderOfCreation(t *testing.T) {
	b := build(t, pack())
	b.SetConsumer("arm", 12.5)
	b.SetConsumer("lidar", 8)
	b.SetConsumer("arm", 0.5)
	want := []bms.Consumer{{Name: PowerLoad, Power: 20}, {Name: "arm", Power: 0.5}, {Name: "lidar", Power: 8}}
	if diff := cmp.Diff(want, b.Consumers()); diff != "" || b.Load() != 28.5 {
		t.Errorf("load %v W, want 28.5; consumers (-want +got):\n%s", b.Load(), diff)
	}
	if !b.RemoveConsumer("arm") || b.RemoveConsumer("arm") || b.Load() != 28 {
		t.Errorf("arm removed: load %v W, want 28", b.Load())
	}
	b.Drain(false)
	if b.Load() != 0 {
		t.Errorf("not draining: load %v W, want 0", b.Load())
	}
}

func TestConsumersWithoutPowerLoad(t *testing.T) {
	for _, quirk := range []bool{false, true} {
		c := pack()
		c.PowerLoad, c.Quirks.NeedsPowerLoad = unit.Unknown[unit.Watts](), quirk
		b := build(t, c)
		b.SetConsumer("arm", 5)
		if want := map[bool]unit.Watts{false: 5, true: 0}[quirk]; b.Load() != want {
			t.Errorf("needs_power_load %v: load %v W, want %v", quirk, b.Load(), want)
		}
	}
}

func TestCommandsStartTheDrainAboveFloat32Zero(t *testing.T) {
	c := pack()
	c.StartDraining = false
	b := build(t, c)
	for _, v := range []float64{0, math.Copysign(0, -1), 1e-50, math.NaN()} {
		if b.Commanded(v); b.Draining() {
			t.Errorf("a command of %v starts the drain", v)
		}
	}
	if b.Commanded(0, -1e-44); !b.Draining() {
		t.Error("a command of −1e-44 does not start the drain")
	}
}

func TestRechargeIsRefusedUnlessEnabled(t *testing.T) {
	c := pack()
	c.EnableRecharge = false
	if b := build(t, c); b.Recharge(true) || b.Charging() {
		t.Error("charging, although enable_recharge is false")
	}
}

func TestResetRestoresTheInitialState(t *testing.T) {
	c := pack()
	c.InitialCharge, c.FixIssue225 = 0.7, false
	b, fresh := build(t, c), build(t, c)
	run(b, time.Minute, 100*time.Millisecond)
	b.SetConsumer(PowerLoad, 99)
	b.Recharge(true)
	b.Reset()
	for range 150 {
		if b.Message() != fresh.Message() || b.Load() != fresh.Load() || b.Empty() != fresh.Empty() {
			t.Fatalf("after reset %+v, want %+v", b.Message(), fresh.Message())
		}
		b.Step(10 * time.Millisecond)
		fresh.Step(10 * time.Millisecond)
	}
}

func TestAssumeSetsChargeAndCurrent(t *testing.T) {
	b := build(t, pack())
	b.Assume(0.5, -10)
	near(t, "voltage", float64(b.Voltage()), 16.8-3.6*0.5-0.08*10, 1e-12)
	if b.SoC() != 0.5 || b.Current() != -10 {
		t.Errorf("SoC %v, %v A; want 0.5, −10", b.SoC(), b.Current())
	}
	if b.Assume(-1, 0); b.SoC() != 0 || !b.Empty() {
		t.Errorf("charge below 0: SoC %v, empty %v; want 0, true", b.SoC(), b.Empty())
	}
}

func TestMessageScalesAndSigns(t *testing.T) {
	exact := Gazebo()
	exact.Name, exact.Voltage, exact.Capacity, exact.InitialCharge, exact.E0, exact.PowerLoad = "b", 12, 2, 1, 12, 6
	exact.StartDraining = true
	b := build(t, exact)
	b.Step(time.Second)
	if m := b.Message(); m.Percentage > 0.5 || m.Current != 0.5 {
		t.Errorf("legacy: percentage %v, current %v; want a ratio, and 0.5 A", m.Percentage, m.Current)
	}
	exact.FixIssue225, exact.InvertCurrentSign = true, true
	b = build(t, exact)
	b.Step(time.Second)
	if m := b.Message(); m.Percentage < 49 || m.Current != -0.5 || b.Current() != -0.5 {
		t.Errorf("fixed: percentage %v, current %v; want 0 to 100, and −0.5 A", m.Percentage, m.Current)
	}
}

// exact is the pack of these tests with all of Gazebo's quirks.
func exact() Config {
	c, g := pack(), Gazebo()
	c.Name, c.Voltage, c.Quirks = "b", c.E0, g.Quirks
	return c
}

func TestGazeboCollapsesForGood(t *testing.T) {
	c := exact()
	c.Tau = 0.001
	b := build(t, c)
	b.SetConsumer("winch", 1e5)
	b.Step(time.Millisecond)
	left := b.Charge()
	b.RemoveConsumer("winch")
	run(b, time.Minute, 10*time.Millisecond)
	if b.Voltage() != 0 || b.Charge() != left || b.Empty() || b.Status() != bms.Discharging {
		t.Errorf("%v V, %v Ah of %v, empty %v, %v; want 0 V, the same charge, not empty, discharging",
			b.Voltage(), b.Charge(), left, b.Empty(), b.Status())
	}
	b.Drain(false)
	b.Recharge(true)
	b.Step(time.Millisecond)
	if !math.IsNaN(float64(b.SoC())) || b.Voltage() != 0 || b.Empty() {
		t.Errorf("charged from 0 V: SoC %v, %v V, empty %v; want NaN, 0, false", b.SoC(), b.Voltage(), b.Empty())
	}
}

func TestGazeboFreezesWhatItLastShowed(t *testing.T) {
	b := build(t, exact())
	run(b, time.Minute, 10*time.Millisecond)
	b.Drain(false)
	before := b.Message()
	b.Step(time.Second)
	after := b.Message()
	before.Status = bms.Full // idle above 0.9
	if after != before || after.Current <= 0 {
		t.Errorf("idle: %+v, want %+v with a current", after, before)
	}
}

// The window as Gazebo keeps it.
type plainWindow []float64

func (w *plainWindow) sum(charge float64) float64 {
	if len(*w) >= length {
		*w = (*w)[1:]
	}
	*w = append(*w, charge)
	s := 0.0
	for _, c := range *w {
		s += c
	}
	return s
}

func TestWindowEqualsTheSumOldestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		var plain plainWindow
		for i, charge := range rapid.SliceOfN(rapid.Float64(), 1, 350).Draw(t, "charges") {
			got, want := w.sum(charge), plain.sum(charge)
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("charge %d: %v, want %v", i, got, want)
			}
		}
	})
}

func TestRightByDefaultStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.Capacity = unit.AmpereHours(rapid.Float64Range(0.01, 100).Draw(t, "capacity"))
		c.E0 = unit.Volts(rapid.Float64Range(1, 60).Draw(t, "e0"))
		c.E1 = -c.E0 * unit.Volts(rapid.Float64Range(0, 0.9).Draw(t, "fall"))
		c.Resistance = unit.Ohms(rapid.Float64Range(0, 1).Draw(t, "resistance"))
		c.InitialCharge = c.Capacity * unit.AmpereHours(rapid.Float64Range(0, 1).Draw(t, "initial"))
		c.FixIssue225 = rapid.Bool().Draw(t, "fix_issue_225")
		c.EnableRecharge, c.ChargingTime = true, rapid.Float64Range(0.1, 10).Draw(t, "charging_time")
		b, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			b.SetConsumer("load", unit.Watts(rapid.Float64Range(-1e4, 1e4).Draw(t, "load")))
			b.Drain(rapid.Bool().Draw(t, "drain"))
			b.Recharge(rapid.Bool().Draw(t, "recharge"))
			dt := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "dt"))
			for range 10 {
				b.Step(dt)
			}
			if q := b.Charge(); !(q >= 0 && q <= c.Capacity) || !(b.SoC() >= 0 && b.SoC() <= 1) {
				t.Fatalf("charge %v of %v Ah, SoC %v", q, c.Capacity, b.SoC())
			}
			if !unit.Finite(b.Voltage()) || b.Voltage() < 0 || !unit.Finite(b.Current()) {
				t.Fatalf("%v V, %v A", b.Voltage(), b.Current())
			}
		}
	})
}

func TestStepDoesNotAllocate(t *testing.T) {
	for name, b := range benchmarked(t) {
		if n := testing.AllocsPerRun(1000, func() { b.Step(time.Millisecond) }); n != 0 {
			t.Errorf("%s: Step allocates %v times, want 0", name, n)
		}
	}
}

func benchmarked(t testing.TB) map[string]*Battery {
	ours := pack()
	ours.Capacity = 1e9
	exact := Gazebo()
	exact.Name, exact.Voltage, exact.Capacity, exact.E0, exact.E1, exact.Resistance = "b", 16.8, 1e9, 16.8, -3.6, 0.08
	exact.PowerLoad, exact.StartDraining = 20, true
	legacy := exact
	exact.FixIssue225 = true
	all := map[string]*Battery{}
	for name, c := range map[string]Config{"ours": ours, "gazebo": exact, "gazebo_legacy": legacy} {
		b, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all
}

func BenchmarkStep(b *testing.B) {
	for name, battery := range benchmarked(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				battery.Step(time.Millisecond)
			}
		})
	}
}
