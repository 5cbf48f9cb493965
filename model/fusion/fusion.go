// Package fusion makes one state of charge out of what a pack tells, the linear battery model, and the load
// that is known to be on the pack.
//
// The state of charge s follows from counting the measured current I (negative while discharging), and is
// corrected by what voltage and gauge say of it:
//
//	s ← s + I·dt/(3600·capacity)       σ ← σ + (gain error·|I| + offset)·dt/(3600·capacity)
//	V = E0 + E1·(1 − s) + R·I + error  slope ∂V/∂s = −E1; without a slope there is no correction
//	gauge = s + error
//
// Two things make its uncertainty honest. The errors of a current sensor last, so σ itself grows with them,
// not σ². And the error of the line and of the gauge is no noise: readings that follow each other
// share it, so they count by how far apart they are, and never push σ below that error.
//
// While the pack is silent, Gazebo's model (model/battery) gives the current from the known load and from
// what that load has failed to explain while the pack still spoke. σ then grows by the error of the load and
// by all of the unexplained current.
//
// Nothing here knows a clock. A Pack belongs to one goroutine.
package fusion

import (
	"math"
	"time"

	"hilgate/bms"
	"hilgate/model/battery"
	"hilgate/model/unit"
)

// Pack is the belief about one pack.
type Pack struct {
	config   Config
	model    *battery.Battery // nil until the capacity is known
	capacity float64          // Ah

	charge         filter
	coulomb        float64 // state of charge by counting alone
	voltage, gauge source
	known          bool // the pack has told something
	silent         bool // the last update had no reading

	current     float64       // A, negative discharging
	average     float64       // A, the same smoothed
	unexplained float64       // A: the measured current less what load and charger explain, smoothed
	measured    time.Duration // since the current was measured last
	residual    float64       // V
	told        bms.Status
	empty       bool
}

// New makes a pack of which nothing is known. The error is that of Check.
func New(c Config) (*Pack, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	p := &Pack{config: c, residual: math.NaN(), average: math.NaN(), unexplained: math.NaN()}
	prior := 0.5
	if c.Model.Capacity > 0 {
		if unit.Known(c.Model.InitialCharge) {
			prior = float64(unit.Clamp(c.Model.InitialCharge/c.Model.Capacity, 0, 1))
		}
		if err := p.size(c.Model.Capacity); err != nil {
			return nil, err
		}
	}
	sigma := float64(c.InitialSigma)
	p.charge = filter{soc: prior, variance: sigma * sigma}
	return p, nil
}

// size gives the pack its capacity.
func (p *Pack) size(capacity unit.AmpereHours) error {
	model, err := battery.New(p.config.model(capacity))
	if err != nil {
		return err
	}
	p.model, p.capacity = model, float64(capacity)
	return nil
}

// Update advances the belief by dt. r is what the pack has told at the end of that time, after it was found
// plausible; nil if it told nothing. load is all that is known to draw from the pack, power_load and
// joints included, negative if it feeds the pack; one that is not a number counts as 0. charging tells that
// the charger was started.
func (p *Pack) Update(dt time.Duration, r *bms.Reading, load unit.Watts, charging bool) {
	dt = max(dt, 0)
	if !unit.Finite(load) {
		load = 0
	}
	silence := bms.Unmeasured()
	p.silent = r == nil
	if r == nil {
		r = &silence
	}
	p.told, p.residual = r.Status, math.NaN()
	if told := float64(r.Capacity); p.config.Model.Capacity == 0 && told > 0 && told != p.capacity {
		// A capacity that makes no model is not taken; the one before stands.
		_ = p.size(r.Capacity)
	}
	if p.model == nil {
		return
	}
	p.voltage.since += dt
	p.gauge.since += dt
	p.count(dt, r, load, charging)
	first := !p.known
	p.known = p.known || unit.Known(r.Voltage) || unit.Known(r.Current) || unit.Known(r.SoC)
	p.correct(r)
	if first {
		p.coulomb = p.charge.soc
	}
	if p.known {
		p.empty = p.config.Model.Drained(unit.Ratio(p.charge.soc-grain), p.empty) ||
			!r.NotCalibrated && r.SoC <= p.config.Model.EmptySoC
	}
	p.model.Assume(unit.AmpereHours(p.charge.soc*p.capacity), unit.Amperes(p.current))
	if unit.Known(r.Voltage) {
		p.residual = float64(r.Voltage) - p.terminals()
	}
}

// count moves the state of charge by the current: the measured one, or else the model's.
func (p *Pack) count(dt time.Duration, r *bms.Reading, load unit.Watts, charging bool) {
	c := &p.config
	p.model.Recharge(charging)
	p.measured += dt
	part := dt.Seconds() / 3600 / p.capacity
	delta := float64(r.Current) * part
	if unit.Known(r.Current) {
		p.current = float64(r.Current)
		smooth(&p.unexplained, p.current-p.explained(load), p.measured, c.AverageTime)
		p.measured = 0
	} else {
		if unit.Known(p.unexplained) {
			load -= unit.Watts(p.unexplained) * unit.Watts(p.model.Voltage())
		}
		p.model.SetConsumer("load", load)
		p.model.Step(dt)
		p.current = float64(p.model.Current())
		delta = float64(p.model.SoC()) - p.charge.soc
	}
	p.charge.predict(delta, p.currentError(r)*part)
	p.coulomb = min(max(p.coulomb+delta, 0), 1)
	smooth(&p.average, p.current, dt, c.AverageTime)
}

// smooth moves an average, unknown until it has a first value, towards v, which has stood for dt.
func smooth(average *float64, v float64, dt, constant time.Duration) {
	if math.IsNaN(*average) {
		*average = v
	}
	*average -= (v - *average) * math.Expm1(-float64(dt)/float64(constant))
}

// explained is the current that load and charger explain, negative discharging.
func (p *Pack) explained(load unit.Watts) float64 {
	i := -float64(load) / float64(p.model.Voltage())
	if p.model.Charging() {
		i += p.capacity / p.config.Model.ChargingTime
	}
	return i
}

// currentError is the standard deviation of the current that was counted, A.
func (p *Pack) currentError(r *bms.Reading) float64 {
	c := &p.config
	if unit.Known(r.Current) {
		return float64(c.CurrentGainError)*math.Abs(p.current) + float64(c.CurrentOffset)
	}
	sigma := float64(c.LoadError) * math.Abs(p.current)
	if unit.Known(p.unexplained) {
		sigma += math.Abs(p.unexplained)
	}
	return sigma
}

// correct takes the voltage and the gauge's state of charge into the filter.
func (p *Pack) correct(r *bms.Reading) {
	c := &p.config
	if slope := -float64(c.Model.E1); slope > 0 && unit.Known(r.Voltage) {
		resistance := float64(c.Model.Resistance)
		lasting := square(float64(c.VoltageModelError)*float64(c.Model.E0)) +
			square(float64(c.ResistanceError)*resistance*p.current) + square(resistance*p.currentError(r))
		noise := p.voltage.noise(lasting, c.ErrorTime) + square(float64(c.VoltageNoise))
		p.charge.correct(float64(r.Voltage)-p.terminals(), slope, noise, lasting/square(slope))
		p.voltage.taken()
	}
	if unit.Known(r.SoC) && !r.NotCalibrated {
		sigma := float64(c.GaugeError)
		if unit.Known(r.SoCError) {
			sigma = max(sigma, float64(r.SoCError))
		}
		p.charge.correct(float64(r.SoC)-p.charge.soc, 1, p.gauge.noise(square(sigma), c.ErrorTime), square(sigma))
		p.gauge.taken()
	}
}

func square(v float64) float64 { return v * v }

// terminals is the voltage that the model has at the present state of charge and current.
func (p *Pack) terminals() float64 {
	return float64(p.config.Model.OpenCircuitVoltage(unit.Ratio(p.charge.soc))) +
		float64(p.config.Model.Resistance)*p.current
}

// grain is the part of the capacity that nobody can tell from nothing. A filter comes ever closer to 0
// without reaching it, so a pack that holds no more than this is empty.
const grain = 0.001

// Empty tells that the pack is drained: from a fused state of charge of empty_soc down, give or take a
// thousandth, until it is above recover_soc again. It is false until the pack has told something.
func (p *Pack) Empty() bool { return p.empty }

// Silent tells that the last update had no reading.
func (p *Pack) Silent() bool { return p.silent }

// Status is the pack's own, or else what the current tells, within the error of a current sensor.
func (p *Pack) Status() bms.Status {
	dead := float64(p.config.CurrentOffset)
	switch {
	case p.told != bms.StatusUnknown:
		return p.told
	case !p.known:
		return bms.StatusUnknown
	case p.current > dead:
		return bms.Charging
	case p.current < -dead:
		return bms.Discharging
	case p.charge.soc >= 1:
		return bms.Full
	}
	return bms.NotCharging
}

// Estimate is the present belief. Until the pack has told something all of it is unknown but SoCSigma and a
// configured capacity. The times follow from the smoothed current and are unknown while it does not flow
// that way, or is within the offset of the current sensor, so that no direction can be told.
func (p *Pack) Estimate() bms.Estimate {
	nan := math.NaN()
	e := bms.Estimate{
		SoC: unit.Ratio(nan), SoCSigma: unit.Ratio(math.Sqrt(p.charge.variance)), CoulombSoC: unit.Ratio(nan),
		Charge: unit.AmpereHours(nan), Capacity: unit.AmpereHours(nan), OpenCircuitVoltage: unit.Volts(nan),
		Resistance: unit.Ohms(nan), Voltage: unit.Volts(nan), Current: unit.Amperes(nan),
		Residual: unit.Volts(p.residual), TimeToEmpty: unit.Seconds(nan), TimeToFull: unit.Seconds(nan),
	}
	if p.model != nil {
		e.Capacity = unit.AmpereHours(p.capacity)
	}
	if !p.known {
		return e
	}
	s := p.charge.soc
	e.SoC, e.CoulombSoC, e.Charge = unit.Ratio(s), unit.Ratio(p.coulomb), unit.AmpereHours(s*p.capacity)
	e.OpenCircuitVoltage, e.Resistance = p.config.Model.OpenCircuitVoltage(e.SoC), p.config.Model.Resistance
	e.Voltage, e.Current = unit.Volts(max(p.terminals(), 0)), unit.Amperes(p.current)
	switch offset := float64(p.config.CurrentOffset); {
	case p.average < -offset:
		left := max(s-float64(p.config.Model.EmptySoC), 0)
		e.TimeToEmpty = unit.Seconds(left * p.capacity / -p.average * 3600)
	case p.average > offset:
		e.TimeToFull = unit.Seconds((1 - s) * p.capacity / p.average * 3600)
	}
	return e
}
