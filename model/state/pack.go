package state

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hilgate/bms"
	"hilgate/model/fusion"
	"hilgate/model/unit"
)

// Battery tells the store about one pack.
type Battery struct {
	Name, Driver string
	Fusion       fusion.Config // the linear model within it gives consumers, draining and recharging
	StaleAfter   time.Duration // without a good reading for so long, measured values are unknown
	Feeds        []string      // the joints that stop when it is empty or lost

	// SetCharging switches the charger, and SetLoad what the consumers draw, where something can be
	// switched: the pack's own charge switch, or the world behind a simulator. nil where nothing can.
	SetCharging func(on bool) error
	SetLoad     func(draining bool, consumers unit.Watts)
}

// pack is one battery in the store.
type pack struct {
	config Battery
	state  bms.State
	filter *fusion.Pack
	feeds  map[string]bool

	updated time.Time // when the filter was last brought up to date
	good    time.Time // of the last reading that was taken
	last    bms.Reading
	misses  int
}

func newPack(b Battery) (*pack, error) {
	filter, err := fusion.New(b.Fusion)
	if err != nil {
		return nil, fmt.Errorf("battery %s: %w", b.Name, err)
	}
	m := b.Fusion.Model
	p := &pack{config: b, filter: filter, feeds: map[string]bool{}}
	p.state = bms.State{
		Name: b.Name, Driver: b.Driver, Reading: bms.Unmeasured(), Feeds: b.Feeds,
		Draining: m.StartDraining, Rechargeable: m.EnableRecharge,
	}
	for _, j := range b.Feeds {
		p.feeds[j] = true
	}
	p.state.Estimate = filter.Estimate()
	p.apply()
	return p, nil
}

// observe takes one poll; work is the power of the joints that the pack feeds, W. It reports whether the
// outcome should be seen at once.
func (p *pack) observe(o bms.Observation, work float64) (changed bool) {
	p.state.Polls++
	p.misses = o.Misses
	var measured *bms.Reading
	switch {
	case o.Err != nil:
		p.state.Failures++
		p.state.LastError = o.Err.Error()
	default:
		var before *bms.Reading
		if !p.good.IsZero() {
			before = &p.last
		}
		reason, err := p.config.Fusion.Limits.Plausible(before, &o.Reading, o.At.Sub(p.good))
		if err != nil {
			p.state.Rejected[reason]++
			p.state.LastError = fmt.Sprintf("%s: %v", p.state.Name, err)
			p.misses++
			break
		}
		measured = &o.Reading
		p.good, p.state.At, p.state.LastError = o.At, o.At, ""
		p.state.Reading, p.state.Identity, p.last = o.Reading, o.Identity, o.Reading
	}
	return p.update(o.At, measured, work)
}

// tick carries a silent pack on.
func (p *pack) tick(at time.Time, work float64) (changed bool) {
	if p.misses == 0 && at.Sub(p.good) < p.config.StaleAfter {
		return false // the next reading is on its way
	}
	return p.update(at, nil, work)
}

// update brings filter and state to the instant at, with a reading or without.
func (p *pack) update(at time.Time, measured *bms.Reading, work float64) (changed bool) {
	dt := time.Duration(0)
	switch {
	case p.updated.IsZero():
		p.updated = at
	case at.After(p.updated): // a poll that took long began before the last tick: no time is counted twice
		dt, p.updated = at.Sub(p.updated), at
	}
	p.state.Load = unit.Watts(work) + p.consumed()
	p.filter.Update(dt, measured, p.state.Load, p.state.ChargerOn)

	before := p.state
	p.state.Estimate, p.state.Empty = p.filter.Estimate(), p.filter.Empty()
	switch {
	case p.good.IsZero():
		p.state.Quality = bms.Invalid
	case measured != nil:
		p.state.Quality = bms.Measured
	case at.Sub(p.good) < p.config.StaleAfter:
		p.state.Quality = bms.Estimated
	default:
		p.state.Quality = bms.Stale
		p.state.Reading = bms.Unmeasured()
	}
	if measured != nil {
		p.state.Status = measured.Status
	} else {
		p.state.Status = p.filter.Status()
	}
	p.count(dt)
	return before.Quality != p.state.Quality || before.Status != p.state.Status || before.Empty != p.state.Empty ||
		before.Reading.Faults != p.state.Reading.Faults || before.Reading.Health != p.state.Reading.Health
}

// count integrates charge and energy of the current that the filter counted, at the voltage that goes with it.
func (p *pack) count(dt time.Duration) {
	i, v := p.state.Estimate.Current, p.state.Reading.Voltage
	if !unit.Known(v) {
		v = p.state.Estimate.Voltage
	}
	if !unit.Known(i) || !unit.Known(v) {
		return
	}
	charge := unit.AmpereHours(float64(i) * dt.Hours())
	energy := unit.Joules(float64(i) * float64(v) * dt.Seconds())
	if i > 0 {
		p.state.ChargeIn += charge
		p.state.EnergyIn += energy
	} else {
		p.state.ChargeOut -= charge
		p.state.EnergyOut -= energy
	}
}

// consumed is what the consumers draw now: nothing unless the battery drains.
func (p *pack) consumed() unit.Watts {
	if !p.state.Draining {
		return 0
	}
	sum := p.config.Fusion.Model.PowerLoad
	for _, c := range p.state.Consumers {
		sum += c.Power
	}
	return sum
}

// apply tells whatever can be switched what the consumers draw.
func (p *pack) apply() {
	if p.config.SetLoad != nil {
		extra := unit.Watts(0)
		for _, c := range p.state.Consumers {
			extra += c.Power
		}
		p.config.SetLoad(p.state.Draining, extra)
	}
}

func (p *pack) recharge(on bool) error {
	if !p.state.Rechargeable {
		return errors.New("this battery cannot be recharged: enable_recharge is false")
	}
	if p.config.SetCharging != nil {
		if err := p.config.SetCharging(on); err != nil {
			return err
		}
	}
	p.state.ChargerOn = on
	return nil
}

func (p *pack) drain(on bool) {
	p.state.Draining = on
	p.apply()
}

// maxConsumers bounds what commands can make the state grow to.
const maxConsumers = 64

func (p *pack) setConsumer(c bms.Consumer) error {
	all := slices.Clone(p.state.Consumers) // snapshots share the old list
	i := slices.IndexFunc(all, func(o bms.Consumer) bool { return o.Name == c.Name })
	switch {
	case i >= 0:
		all[i] = c
	case len(all) >= maxConsumers:
		return fmt.Errorf("consumer %q: the battery has %d consumers, and no more are taken", c.Name, maxConsumers)
	default:
		all = append(all, c)
	}
	p.state.Consumers = all
	p.apply()
	return nil
}

func (p *pack) removeConsumer(name string) error {
	i := slices.IndexFunc(p.state.Consumers, func(c bms.Consumer) bool { return c.Name == name })
	if i < 0 {
		return fmt.Errorf("no consumer is named %q", name)
	}
	p.state.Consumers = slices.Delete(slices.Clone(p.state.Consumers), i, i+1)
	p.apply()
	return nil
}
