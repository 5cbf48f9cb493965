package plant

import (
	"math"
	"testing"
	"time"

	"hilgate/model/unit"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance || math.IsNaN(got) {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

func TestPackGivesConstantPowerAtItsTerminals(t *testing.T) {
	var w World
	c := DefaultPack()
	c.Load = 50
	p := w.AddPack(c)
	w.AdvanceTo(time.Second)
	near(t, "power", float64(p.Voltage())*float64(p.Current()), -50, 1e-9)
	ocv := float64(c.E0) + float64(c.E1)*(1-float64(p.SoC()))
	near(t, "sag", ocv-float64(p.Voltage()), -float64(p.Current())*float64(c.Resistance), 1e-4)
}

func TestPackRunsForCapacityByCurrent(t *testing.T) {
	var w World
	c := DefaultPack()
	c.Capacity, c.SoC, c.E1, c.Resistance, c.Load = 0.1, 1, 0, 0, 60
	p := w.AddPack(c)
	hours := float64(c.Capacity) * float64(c.E0) / float64(c.Load)
	w.AdvanceTo(time.Duration(hours * float64(time.Hour)))
	near(t, "charge at the end", float64(p.Charge()), 0, 1e-6)
}

func TestProtectionOpensBelowEmptyAndClosesOnCharge(t *testing.T) {
	var w World
	c := DefaultPack()
	c.Capacity, c.SoC, c.Load = 0.02, 0.05, 200
	p := w.AddPack(c)
	w.AdvanceTo(30 * time.Second)
	if !p.Protected() || p.Supply() != 0 || p.Current() != 0 {
		t.Fatalf("overdrawn: protected %v, supply %v, current %v; want true, 0, 0", p.Protected(), p.Supply(), p.Current())
	}
	p.SetDraining(false)
	p.SetCharging(true)
	w.AdvanceTo(2 * time.Hour)
	if p.Protected() {
		t.Error("protection still open after charging")
	}
	near(t, "state of charge after two charging times", float64(p.SoC()), 1, 0.01)
	near(t, "current when full", float64(p.Current()), 0, 1e-9)
}

func TestPackBrownsOutBeyondItsGreatestPower(t *testing.T) {
	var w World
	c := DefaultPack()
	c.Load = 1e4 // a pack of 16 V and 0.08 Ω gives 800 W at most
	p := w.AddPack(c)
	w.AdvanceTo(10 * time.Millisecond)
	if !p.Browned() {
		t.Error("10 kW do not brown the pack out")
	}
	near(t, "voltage at greatest power", float64(p.Voltage()), float64(c.E0+c.E1*0.2)/2, 0.01)
}

func TestWeakestCellBoundsThePack(t *testing.T) {
	var w World
	c := DefaultPack()
	c.CellSpread, c.SoC, c.Load = 0.1, 1, 50
	p := w.AddPack(c)
	near(t, "capacity", float64(p.Capacity()), float64(c.Capacity)*0.9, 1e-12)
	w.AdvanceTo(20 * time.Minute)
	sum := 0.0
	for i := range p.CellCount() {
		sum += float64(p.Cell(i))
	}
	near(t, "sum of cells", sum, float64(p.Voltage()), 1e-3)
	if p.Cell(0) >= p.Cell(3) {
		t.Errorf("weakest cell %v V, strongest %v V: want the weakest lower", p.Cell(0), p.Cell(3))
	}
}

func TestPackWarmsTowardsItsBalance(t *testing.T) {
	var w World
	c := DefaultPack()
	c.Capacity, c.Load, c.HeatCapacity = 1e3, 160, 1
	p := w.AddPack(c)
	w.AdvanceTo(time.Minute)
	i := float64(p.Current())
	near(t, "temperature", float64(p.Temperature()), float64(c.Ambient)+i*i*float64(c.Resistance)*c.ThermalResistance, 0.05)
}

func TestFreeMotorTurnsAtVoltageByConstant(t *testing.T) {
	var w World
	c := DefaultJoint()
	c.Damping, c.Friction = 0, 0
	j := w.AddJoint(c, nil)
	j.Drive(6)
	w.AdvanceTo(10 * time.Second)
	near(t, "motor speed", j.MotorSpeed(), 6/c.TorqueConstant, 0.5)
	near(t, "current", float64(j.Current()), 0, 0.01)
}

func TestStalledMotorDrawsVoltageByResistance(t *testing.T) {
	var w World
	c := DefaultJoint()
	j := w.AddJoint(c, nil)
	j.Jam(true)
	j.Drive(3)
	w.AdvanceTo(100 * time.Millisecond)
	near(t, "current", float64(j.Current()), 3/float64(c.WindingResistance), 1e-12)
	if j.Position() != 0 {
		t.Error("a jammed joint moved")
	}
}

func TestFrictionHoldsTheJointBelowItsBreakaway(t *testing.T) {
	var w World
	c := DefaultJoint()
	c.Friction, c.Load = 0.5, 0.4
	j := w.AddJoint(c, nil)
	w.AdvanceTo(time.Second)
	if j.Velocity() != 0 {
		t.Errorf("velocity %v under a load below friction, want 0", j.Velocity())
	}
}

func TestReleasedJointCoastsAndBrakedJointStops(t *testing.T) {
	var w World
	c := DefaultJoint()
	a, b := w.AddJoint(c, nil), w.AddJoint(c, nil)
	a.Drive(9)
	b.Drive(9)
	w.AdvanceTo(2 * time.Second)
	a.Release()
	b.Drive(0)
	w.AdvanceTo(2200 * time.Millisecond)
	if a.Velocity() <= 2*b.Velocity() {
		t.Errorf("0.2 s later: released %v rad/s, short-circuited %v rad/s", a.Velocity(), b.Velocity())
	}
	if a.Current() != 0 || a.Power() != 0 {
		t.Errorf("released motor: %v A, %v W", a.Current(), a.Power())
	}
}

func TestBrakingMotorFeedsThePack(t *testing.T) {
	var w World
	p := w.AddPack(DefaultPack())
	c := DefaultJoint()
	c.Inertia = 0.5
	j := w.AddJoint(c, p)
	j.Drive(12)
	w.AdvanceTo(20 * time.Second)
	j.Drive(6)
	w.AdvanceTo(20*time.Second + 2*time.Millisecond)
	if j.Power() >= 0 || p.Current() <= 0 {
		t.Errorf("after halving the voltage: joint draws %v W, pack current %v A; want regeneration", j.Power(), p.Current())
	}
}

func TestDriveIsBoundedByASaggingSupply(t *testing.T) {
	var w World
	c := DefaultPack()
	p := w.AddPack(c)
	j := w.AddJoint(DefaultJoint(), p)
	j.Jam(true)
	j.Drive(100)
	w.AdvanceTo(50 * time.Millisecond)
	if v, _ := j.Driven(); v != j.Supply() || v >= c.E0 {
		t.Errorf("drive %v V at a supply of %v V", v, j.Supply())
	}
}

func TestHardStopsHold(t *testing.T) {
	var w World
	c := DefaultJoint()
	c.Lower, c.Upper = -1, 1
	j := w.AddJoint(c, nil)
	j.Drive(12)
	w.AdvanceTo(5 * time.Second)
	if j.Position() != 1 || j.Velocity() != 0 {
		t.Errorf("at %v rad with %v rad/s, want 1 and 0", j.Position(), j.Velocity())
	}
}

func TestLightRotorWithStrongMotorIsStable(t *testing.T) {
	var w World
	c := DefaultJoint()
	c.Inertia, c.Ratio, c.TorqueConstant, c.WindingResistance = 1e-6, 100, 0.1, 0.05
	j := w.AddJoint(c, nil)
	j.Drive(12)
	w.AdvanceTo(time.Second)
	near(t, "motor speed", j.MotorSpeed(), 12/c.TorqueConstant, 1)
}

func TestRunsRepeatToTheSameBits(t *testing.T) {
	run := func(pieces int) (unit.AmpereHours, unit.Position) {
		var w World
		p := w.AddPack(DefaultPack())
		j := w.AddJoint(DefaultJoint(), p)
		w.OnStep(func(now, _ time.Duration) { j.Drive(unit.Volts(8 * math.Sin(now.Seconds()))) })
		for i := 1; i <= pieces; i++ {
			w.AdvanceTo(10 * time.Second * time.Duration(i) / time.Duration(pieces))
		}
		return p.Charge(), j.Position()
	}
	c1, x1 := run(1)
	c2, x2 := run(777)
	if c1 != c2 || x1 != x2 {
		t.Errorf("one piece: %v Ah, %v rad; 777 pieces: %v Ah, %v rad", c1, x1, c2, x2)
	}
}

func BenchmarkStepPackAndTwoJoints(b *testing.B) {
	var w World
	p := w.AddPack(DefaultPack())
	for range 2 {
		w.AddJoint(DefaultJoint(), p).Drive(5)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.AdvanceTo(w.now + Step)
	}
}
