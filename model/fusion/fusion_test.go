package fusion

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilgate/bms"
	"hilgate/model/battery"
	"hilgate/model/unit"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

func build(t testing.TB, set func(c *Config)) *Pack {
	t.Helper()
	c := Default()
	c.Model = model()
	if set != nil {
		set(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func reading(v unit.Volts, i unit.Amperes) *bms.Reading {
	r := bms.Unmeasured()
	r.Present, r.Voltage, r.Current = true, v, i
	return &r
}

func TestNothingIsKnownBeforeTheFirstReading(t *testing.T) {
	p := build(t, nil)
	p.Update(time.Second, nil, 50, false)
	e := p.Estimate()
	if unit.Known(e.SoC) || unit.Known(e.Charge) || unit.Known(e.Current) || unit.Known(e.Residual) || e.SoCSigma < 0.3 {
		t.Errorf("before any reading: %+v; want everything unknown, and a sigma of at least 0.3", e)
	}
	if p.Empty() || p.Status() != bms.StatusUnknown || e.Capacity != 5 {
		t.Errorf("empty %v, status %v, capacity %v; want false, unknown, 5", p.Empty(), p.Status(), e.Capacity)
	}
}

func TestFirstReadingGivesTheStateOfChargeOfItsVoltage(t *testing.T) {
	p := build(t, nil)
	p.Update(0, reading(16.8-3.6*0.25-0.08*5, -5), 0, false)
	e := p.Estimate()
	near(t, "state of charge", float64(e.SoC), 0.75, 0.01)
	near(t, "residual", float64(e.Residual), 0, 0.05)
	near(t, "open-circuit voltage", float64(e.OpenCircuitVoltage), float64(e.Voltage)+0.08*5, 1e-9)
	near(t, "charge", float64(e.Charge), 5*float64(e.SoC), 1e-12)
	if e.SoCSigma > 0.05 {
		t.Errorf("sigma %v after a reading, want at most 0.05", e.SoCSigma)
	}
}

func TestCountingGoesOnWithoutVoltage(t *testing.T) {
	p := build(t, func(c *Config) { c.Model.InitialCharge = 5 })
	for range 360 {
		p.Update(10*time.Second, reading(unit.Volts(math.NaN()), -2.5), 0, false)
	}
	e := p.Estimate()
	near(t, "state of charge after an hour at half its capacity", float64(e.SoC), 0.5, 1e-9)
	near(t, "time to empty", float64(e.TimeToEmpty), 3600, 1e-6)
	near(t, "sigma", float64(e.SoCSigma), 0.3+(0.05*2.5+0.1)/5, 1e-9)
	if unit.Known(e.TimeToFull) || unit.Known(e.Residual) {
		t.Errorf("time to full %v, residual %v; want unknown", e.TimeToFull, e.Residual)
	}
}

func TestNoSlopeNoCorrection(t *testing.T) {
	p := build(t, func(c *Config) { c.Model.E1, c.Model.InitialCharge = 0, 2 })
	for range 100 {
		p.Update(time.Second, reading(3, 0), 0, false)
	}
	if e := p.Estimate(); e.SoC != 0.4 || e.Residual != 3-16.8 {
		t.Errorf("state of charge %v, residual %v; want 0.4 and −13.8", e.SoC, e.Residual)
	}
}

func TestManyReadingsTellNoMoreThanTheirCommonError(t *testing.T) {
	p := build(t, func(c *Config) { c.CurrentOffset = 0 })
	for range 100000 {
		p.Update(20*time.Millisecond, reading(15, 0), 0, false)
	}
	floor := 0.005 * 16.8 / 3.6
	if sigma := float64(p.Estimate().SoCSigma); sigma < floor-1e-12 || sigma > 1.2*floor {
		t.Errorf("sigma %v after 100,000 equal readings, want just %v", sigma, floor)
	}
}

func TestGaugeIsBelievedByItsOwnError(t *testing.T) {
	soc := func(margin unit.Ratio, uncalibrated bool) unit.Ratio {
		p := build(t, func(c *Config) { c.Model.E1, c.Model.InitialCharge = 0, 2.5 })
		r := reading(15, 0)
		r.SoC, r.SoCError, r.NotCalibrated = 0.9, margin, uncalibrated
		p.Update(0, r, 0, false)
		return p.Estimate().SoC
	}
	near(t, "with no margin told", float64(soc(unit.Unknown[unit.Ratio](), false)), 0.9, 0.003)
	near(t, "with a margin as large as the prior's", float64(soc(0.3, false)), 0.7, 1e-9)
	near(t, "of a gauge that is not calibrated", float64(soc(0, true)), 0.5, 1e-9)
}

func TestSilentPackRunsOnItsLoad(t *testing.T) {
	p := build(t, func(c *Config) { c.Model.Tau = 0.1 })
	p.Update(time.Second, reading(15, 0), 0, false)
	before := p.Estimate()
	for range 600 {
		p.Update(100*time.Millisecond, nil, 75, false)
	}
	e := p.Estimate()
	near(t, "power", float64(e.Voltage)*float64(e.Current), -75, 0.5)
	near(t, "charge drawn in a minute", float64(before.Charge-e.Charge), float64(-e.Current)/60, 0.001)
	if e.SoCSigma <= before.SoCSigma || p.Status() != bms.Discharging || unit.Known(e.Residual) {
		t.Errorf("sigma from %v to %v, %v, residual %v; want it to grow, discharging, unknown",
			before.SoCSigma, e.SoCSigma, p.Status(), e.Residual)
	}
}

func TestSilentPackKeepsTheCurrentThatNoLoadExplains(t *testing.T) {
	p := build(t, nil)
	for range 300 {
		p.Update(time.Second, reading(15, -4), 15, false) // 1 A of the 4 A is known
	}
	before := p.Estimate()
	for range 60 {
		p.Update(time.Second, nil, 15, false)
	}
	e := p.Estimate()
	near(t, "current", float64(e.Current), -4, 0.1)
	near(t, "sigma's growth in a minute", float64(e.SoCSigma-before.SoCSigma), (0.2*4+3)/60/5, 0.0005)
}

func TestSilentPackChargesAtItsChargersCurrent(t *testing.T) {
	p := build(t, func(c *Config) { c.Model.EnableRecharge, c.Model.ChargingTime, c.Model.Tau = true, 2, 0.1 })
	p.Update(time.Second, reading(15, 0), 0, false)
	for range 100 {
		p.Update(100*time.Millisecond, nil, 0, true)
	}
	if e := p.Estimate(); p.Status() != bms.Charging || math.Abs(float64(e.Current)-2.5) > 1e-6 || unit.Known(e.TimeToEmpty) {
		t.Errorf("%v at %v A, time to empty %v; want charging at 2.5 A, unknown", p.Status(), e.Current, e.TimeToEmpty)
	}
}

func TestSilenceBringsEmptyAndRecoveryNeedsMore(t *testing.T) {
	p := build(t, nil)
	p.Update(time.Second, reading(13.4, 0), 0, false)
	for range 3600 {
		p.Update(time.Second, nil, 100, false)
	}
	if !p.Empty() || p.Estimate().SoC != 0 || p.Estimate().SoCSigma < 0.03 {
		t.Fatalf("after an hour of silence: empty %v, %v ± %v", p.Empty(), p.Estimate().SoC, p.Estimate().SoCSigma)
	}
	runsAgain := func(soc float64) bool {
		for range 10000 {
			p.Update(time.Second, reading(unit.Volts(16.8-3.6*(1-soc)), 0), 0, false)
		}
		return !p.Empty()
	}
	if runsAgain(0.045) {
		t.Errorf("runs again at %v, below recover_soc", p.Estimate().SoC)
	}
	if !runsAgain(0.06) {
		t.Errorf("still empty at %v, above recover_soc", p.Estimate().SoC)
	}
}

func TestCapacityThatIsLeftOutIsTheGauges(t *testing.T) {
	p := build(t, func(c *Config) { c.Model.Capacity = 0 })
	r := reading(15, -1)
	r.SoC = 0.5
	p.Update(time.Second, r, 0, false)
	if e := p.Estimate(); unit.Known(e.SoC) || unit.Known(e.Capacity) {
		t.Errorf("without any capacity: %+v; want nothing known", e)
	}
	r.Capacity = 4.2
	p.Update(time.Second, r, 0, false)
	before := p.Estimate()
	if before.Capacity != 4.2 || !unit.Known(before.SoC) {
		t.Errorf("capacity %v, state of charge %v; want 4.2 and known", before.Capacity, before.SoC)
	}
	r.Capacity = 4.1
	p.Update(0, r, 0, false)
	near(t, "state of charge after the gauge has learned", float64(p.Estimate().SoC), float64(before.SoC), 1e-3)
	if got := p.Estimate().Capacity; got != 4.1 {
		t.Errorf("capacity %v, want 4.1", got)
	}
	configured := build(t, nil)
	configured.Update(time.Second, r, 0, false)
	if got := configured.Estimate().Capacity; got != 5 {
		t.Errorf("configured capacity 5 became %v", got)
	}
}

func TestStatusIsTheGaugesOwnWhereItTells(t *testing.T) {
	p := build(t, nil)
	r := reading(15, -3)
	r.Status = bms.Full
	if p.Update(time.Second, r, 0, false); p.Status() != bms.Full {
		t.Errorf("%v, want the told full", p.Status())
	}
	for current, want := range map[unit.Amperes]bms.Status{-3: bms.Discharging, 3: bms.Charging, 0.05: bms.NotCharging} {
		if p.Update(time.Second, reading(15, current), 0, false); p.Status() != want {
			t.Errorf("%v A: %v, want %v", current, p.Status(), want)
		}
	}
}

func TestGazeboQuirksDoNotReachTheFilter(t *testing.T) {
	p := build(t, func(c *Config) {
		m := c.Model
		c.Model = battery.Gazebo()
		c.Model.Capacity, c.Model.E0, c.Model.E1, c.Model.Resistance = m.Capacity, m.E0, m.E1, m.Resistance
	})
	p.Update(time.Second, reading(13.5, 0), 0, false)
	for range 3600 {
		p.Update(time.Second, nil, 100, false)
	}
	if e := p.Estimate(); e.SoC != 0 || e.Current != 0 || !p.Empty() {
		t.Errorf("drained in silence: %v, %v A, empty %v; want 0, 0, true", e.SoC, e.Current, p.Empty())
	}
}

func TestBeliefStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.Model = model()
		c.Model.EnableRecharge, c.Model.ChargingTime = true, 1
		if rapid.Bool().Draw(t, "auto") {
			c.Model.Capacity = 0
		}
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		maybe := func(name string, low, high float64) float64 {
			if rapid.IntRange(0, 3).Draw(t, "unknown "+name) == 0 {
				return math.NaN()
			}
			return rapid.Float64Range(low, high).Draw(t, name)
		}
		for range rapid.IntRange(1, 50).Draw(t, "updates") {
			var r *bms.Reading
			if rapid.Bool().Draw(t, "reading") {
				r = reading(unit.Volts(maybe("V", 0, 250)), unit.Amperes(maybe("A", -1000, 1000)))
				r.SoC, r.SoCError = unit.Ratio(maybe("SoC", 0, 1)), unit.Ratio(maybe("error", 0, 1))
				r.Capacity = unit.AmpereHours(maybe("Ah", 0, 1e3))
				if p.config.Limits.ranges(r) != nil {
					t.Fatal("an implausible reading was drawn")
				}
			}
			dt := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "dt"))
			p.Update(dt, r, unit.Watts(maybe("load", -1e3, 1e4)), rapid.Bool().Draw(t, "charging"))
			e := p.Estimate()
			if !(e.SoCSigma >= 0 && e.SoCSigma <= maxSigma) {
				t.Fatalf("sigma %v", e.SoCSigma)
			}
			if unit.Known(e.SoC) && !(e.SoC >= 0 && e.SoC <= 1 && e.CoulombSoC >= 0 && e.CoulombSoC <= 1) {
				t.Fatalf("state of charge %v, counted %v", e.SoC, e.CoulombSoC)
			}
			if unit.Known(e.SoC) && !(unit.Finite(e.Voltage) && unit.Finite(e.Current) && unit.Finite(e.Charge)) {
				t.Fatalf("%+v", e)
			}
			if e.TimeToEmpty < 0 || e.TimeToFull < 0 || unit.Known(e.TimeToEmpty) && unit.Known(e.TimeToFull) {
				t.Fatalf("time to empty %v, to full %v", e.TimeToEmpty, e.TimeToFull)
			}
		}
	})
}

func TestUpdateDoesNotAllocate(t *testing.T) {
	p := build(t, nil)
	r := reading(15, -3)
	r.SoC = 0.5
	if n := testing.AllocsPerRun(100, func() {
		p.Update(time.Second, r, 20, false)
		p.Update(time.Second, nil, 20, false)
	}); n != 0 {
		t.Errorf("Update allocates %v times, want 0", n)
	}
}

func BenchmarkUpdate(b *testing.B) {
	p := build(b, nil)
	r := reading(15, -3)
	r.SoC = 0.5
	b.ReportAllocs()
	for b.Loop() {
		p.Update(20*time.Millisecond, r, 45, false)
	}
}
