package fusion

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/model/battery"
	"hilgate/model/plant"
	"hilgate/model/unit"
)

// trial is one discharge of a simulated pack, seen through imperfect sensors.
type trial struct {
	seed      uint64
	gain      float64                   // of the current sensor: 0.05 shows 5 % too much
	offset    float64                   // of the current sensor, A
	noise     float64                   // of the voltage, V, one standard deviation
	bend      func(soc float64) float64 // V between the pack's open-circuit voltage and the model's line
	gauge     func(soc float64) float64 // the gauge's state of charge; nil for none
	start     float64                   // the pack's true state of charge
	silent    func(at time.Duration) bool
	set       func(c *Config)
	each      func(at time.Duration, p *Pack, truth *plant.Pack)
	until     float64 // the true state of charge at which the trial ends
	knownLoad float64 // the part of the load that fusion is told of
}

// score is how well the fused state of charge did after the first 5 % of the capacity.
type score struct {
	worst  float64 // largest error
	inside float64 // share of time with the truth within ±2σ
	sigma  float64 // mean
}

var simulated = plant.PackConfig{
	Cells: 4, Capacity: 5, SoC: 1, E0: 16.8, E1: -3.6, Resistance: 0.08, ChargingTime: 1,
	Ambient: 25, HeatCapacity: 400, ThermalResistance: 5,
}

func model() battery.Config {
	c := battery.Default()
	c.Capacity, c.E0, c.E1, c.Resistance, c.Tau = simulated.Capacity, simulated.E0, simulated.E1, simulated.Resistance, 2
	return c
}

const period = time.Second // of the readings

func (k trial) run(t testing.TB) score {
	t.Helper()
	rng := rand.New(rand.NewPCG(k.seed, 1))
	var world plant.World
	truth := simulated
	if k.start > 0 {
		truth.SoC = unit.Ratio(k.start)
	}
	pack := world.AddPack(truth)
	c := Default()
	c.Model = model()
	if k.set != nil {
		k.set(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var s score
	load, inside, counted := 100.0, 0, 0
	first := float64(pack.SoC())
	for at := period; float64(pack.SoC()) > k.until && at < 4*time.Hour; at += period {
		if rng.IntN(20) == 0 { // a robot that drives and stops
			load = 20 + 240*rng.Float64()
		}
		pack.SetExtraLoad(unit.Watts(load))
		world.AdvanceTo(at)
		var reading *bms.Reading
		if k.silent == nil || !k.silent(at) {
			r := bms.Unmeasured()
			soc := float64(pack.SoC())
			r.Present = true
			r.Current = pack.Current()*unit.Amperes(1+k.gain) + unit.Amperes(k.offset)
			r.Voltage = pack.Voltage() + unit.Volts(k.noise*rng.NormFloat64())
			if k.bend != nil {
				r.Voltage += unit.Volts(k.bend(soc))
			}
			if k.gauge != nil {
				r.SoC = unit.Ratio(k.gauge(soc))
			}
			reading = &r
		}
		p.Update(period, reading, unit.Watts(load*k.knownLoad), false)
		if k.each != nil {
			k.each(at, p, pack)
		}
		if first-float64(pack.SoC()) < 0.05 {
			continue
		}
		e := p.Estimate()
		off := math.Abs(float64(e.SoC - pack.SoC()))
		s.worst = max(s.worst, off)
		s.sigma += float64(e.SoCSigma)
		counted++
		if off <= 2*float64(e.SoCSigma) {
			inside++
		}
	}
	s.inside, s.sigma = float64(inside)/float64(counted), s.sigma/float64(counted)
	return s
}

// asSpecified is a current sensor that is off by 5 % and 0.1 A, both to the same side, and 20 mV of noise.
func asSpecified(side float64) trial {
	return trial{seed: 1, gain: 0.05 * side, offset: 0.1 * side, noise: 0.02, knownLoad: 1}
}

func TestFullDischargeWithABiasedCurrentSensor(t *testing.T) {
	for _, side := range []float64{1, -1} {
		s := asSpecified(side).run(t)
		t.Logf("sensor off by %+.0f %% and %+.1f A: worst error %.2f %%, mean sigma %.2f %%, within two sigma %.1f %% of the time",
			5*side, 0.1*side, 100*s.worst, 100*s.sigma, 100*s.inside)
		if s.worst > 0.02 || s.inside < 0.9 {
			t.Errorf("worst error %.4f, want at most 0.02; within ±2σ %.3f of the time, want 0.9 or more", s.worst, s.inside)
		}
	}
}

// lithium is how far a pack of four NMC cells is from the line 16.8 V − 3.6 V·(1 − SoC): the shape of published
// open-circuit curves, in steps of a tenth, steeper at both ends.
func lithium(soc float64) float64 {
	const steps = 10
	curve := [steps + 1]float64{3.0, 3.45, 3.55, 3.60, 3.64, 3.69, 3.77, 3.86, 3.96, 4.06, 4.2}
	i := min(max(int(soc*steps), 0), steps-1)
	f := soc*steps - float64(i)
	return 4*(curve[i]+f*(curve[i+1]-curve[i])) - (16.8 - 3.6*(1-soc))
}

func TestFullDischargeOfACurvedPackOnALinearModel(t *testing.T) {
	for _, side := range []float64{1, -1} {
		k := asSpecified(side)
		k.bend = lithium
		k.set = func(c *Config) { c.Model.E0, c.Model.E1, c.VoltageModelError = 16.33, -2.9, 0.01 } // its best fit
		s := k.run(t)
		t.Logf("curved pack, sensor off by %+.0f %%: worst error %.2f %%, mean sigma %.2f %%, within two sigma %.1f %% of the time",
			5*side, 100*s.worst, 100*s.sigma, 100*s.inside)
		if s.worst > 0.05 || s.inside < 0.9 {
			t.Errorf("worst error %.4f, want at most 0.05; within ±2σ %.3f of the time, want 0.9 or more", s.worst, s.inside)
		}
	}
}

func TestTruthIsWithinTwoSigma(t *testing.T) {
	const runs = 12
	inside, worst := 0.0, 0.0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d := Default()
		off := unit.Volts(rng.NormFloat64()) * unit.Volts(d.VoltageModelError) * simulated.E0
		resistance := 1 + float64(d.ResistanceError)*rng.NormFloat64()
		s := trial{
			seed: seed, noise: 0.02, knownLoad: 1,
			gain:   float64(d.CurrentGainError) * rng.NormFloat64(),
			offset: float64(d.CurrentOffset) * rng.NormFloat64(),
			bend:   func(float64) float64 { return float64(off) },
			set:    func(c *Config) { c.Model.Resistance *= unit.Ohms(resistance) },
		}.run(t)
		inside += s.inside / runs
		worst = max(worst, s.worst)
	}
	t.Logf("%d packs, each wrong as configured: within two sigma %.1f %% of the time, worst error %.1f %%", runs, 100*inside, 100*worst)
	if inside < 0.9 {
		t.Errorf("within ±2σ %.3f of the time, want 0.9 or more", inside)
	}
}

func TestWrongStartIsForgotten(t *testing.T) {
	k := asSpecified(1)
	k.set = func(c *Config) { c.Model.InitialCharge = c.Model.Capacity / 2 }
	worst := 0.0
	k.each = func(_ time.Duration, p *Pack, truth *plant.Pack) {
		if truth.SoC() < 0.9 {
			worst = max(worst, math.Abs(float64(p.Estimate().SoC-truth.SoC())))
		}
	}
	k.run(t)
	t.Logf("start wrong by 50 %%: worst error after 10 %% of the capacity %.2f %%", 100*worst)
	if worst > 0.03 {
		t.Errorf("worst error after 10 %% of the capacity %.4f, want at most 0.03", worst)
	}
}

func TestAMinuteOfSilence(t *testing.T) {
	const from, to = 10 * time.Minute, 11 * time.Minute
	for _, known := range []float64{1, 0.7} {
		k := asSpecified(1)
		k.start, k.knownLoad = 0.9, known
		k.silent = func(at time.Duration) bool { return at > from && at <= to }
		var before, after, sigmaBefore, sigmaAfter float64
		k.each = func(at time.Duration, p *Pack, truth *plant.Pack) {
			e := p.Estimate()
			switch at {
			case from:
				before, sigmaBefore = float64(e.SoC-truth.SoC()), float64(e.SoCSigma)
			case to:
				after, sigmaAfter = float64(e.SoC-truth.SoC()), float64(e.SoCSigma)
				if !p.Silent() || unit.Known(e.Residual) || !unit.Known(e.SoC) {
					t.Errorf("silent %v, residual %v, SoC %v; want true, unknown, known", p.Silent(), e.Residual, e.SoC)
				}
			}
		}
		k.run(t)
		drift := math.Abs(after - before)
		t.Logf("60 s of silence, %.0f %% of the load known: drift %.3f %%, sigma from %.2f %% to %.2f %%",
			100*known, 100*drift, 100*sigmaBefore, 100*sigmaAfter)
		if drift > 0.01 || sigmaAfter <= sigmaBefore || drift > 2*(sigmaAfter-sigmaBefore)+0.001 {
			t.Errorf("drift %.4f, want at most 0.01 and explained by sigma, which grows from %.4f to %.4f", drift, sigmaBefore, sigmaAfter)
		}
	}
}

func TestDrainedPackIsFoundEmptyBeforeItsProtectionOpens(t *testing.T) {
	for _, side := range []float64{1, -1} {
		k := asSpecified(side)
		k.until = -0.02
		empty := math.NaN()
		k.each = func(_ time.Duration, p *Pack, truth *plant.Pack) {
			if p.Empty() && math.IsNaN(empty) {
				empty = float64(truth.SoC())
			}
		}
		k.run(t)
		if !(math.Abs(empty) <= 0.02) {
			t.Errorf("sensor off by %v: found empty at a true state of charge of %v, want 0 ± 0.02", side*0.05, empty)
		}
	}
}

func TestGaugeHelpsWhereTheVoltageTellsNothing(t *testing.T) {
	k := asSpecified(1)
	k.start = 0.8
	k.set = func(c *Config) { c.Model.E1, c.Model.E0 = 0, 15 }
	k.gauge = func(soc float64) float64 { return math.Round(100*min(max(soc, 0), 1)) / 100 }
	if s := k.run(t); s.worst > 0.03 || s.inside < 0.9 {
		t.Errorf("worst error %.4f, want at most 0.03; within ±2σ %.3f of the time, want 0.9 or more", s.worst, s.inside)
	}
}
