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
	eachStep  func(at time.Duration, p *Pack, truth *plant.Pack)
	untilSoC  float64
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
	for at := period; float64(pack.SoC()) > k.untilSoC && at < 4*time.Hour; at += period {
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
		if k.eachStep != nil {
			k.eachStep(at, p, pack)
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

func TestExplore(t *testing.T) {
	for _, re := range []float64{0.1, 0.2, 0.3} {
		for _, et := range []time.Duration{2 * time.Minute, 5 * time.Minute, 10 * time.Minute} {
			var in, worst, sigma float64
			n := 30
			for seed := range n {
				rng := rand.New(rand.NewPCG(uint64(seed), 7))
				dr, dv := re*rng.NormFloat64(), 0.005*16.8*rng.NormFloat64()
				k := trial{seed: uint64(seed), gain: 0.05 * rng.NormFloat64(), offset: 0.1 * rng.NormFloat64(), noise: 0.02, knownLoad: 1,
					bend: func(float64) float64 { return dv },
					set: func(c *Config) {
						c.ResistanceError, c.ErrorTime = unit.Ratio(re), et
						c.Model.Resistance *= unit.Ohms(1 + dr)
					}}
				s := k.run(t)
				in += s.inside / float64(n)
				sigma += s.sigma / float64(n)
				worst = max(worst, s.worst)
			}
			t.Logf("re=%v et=%v: inside %.3f worst %.3f sigma %.3f", re, et, in, worst, sigma)
		}
	}
}
