package sbs

import (
	"math"
	"time"

	"hilgate/model/plant"
	"hilgate/model/unit"
)

// How often a gauge converts, and how often it counts (TI: voltage and current four times a second,
// state of charge and capacities once).
const (
	convertPeriod = 250 * time.Millisecond
	countPeriod   = time.Second
)

// gauge is what the simulated gauge has measured.
type gauge struct {
	voltage     unit.Volts
	current     unit.Amperes
	temperature unit.Celsius
	cells       []unit.Volts
	remaining   unit.AmpereHours // never below 0
	full        unit.AmpereHours
	percent     uint16 // of full

	fullyCharged    bool // from 100 % to below 95 %
	fullyDischarged bool // from 0 % to 20 %

	second     float64     // charge of the second that runs, A·s
	minute     [60]float64 // of the seconds before, a ring
	next       int         // in minute
	filled     int         // of minute
	discharged float64     // since it was made, Ah
}

func (g *gauge) step(p *plant.Pack, now, dt time.Duration) {
	current := float64(p.Current())
	g.second += current * dt.Seconds()
	g.discharged += max(0, -current) * dt.Hours()
	if now%convertPeriod == 0 {
		g.sample(p)
	}
	if now%countPeriod == 0 {
		g.minute[g.next] = g.second
		g.next = (g.next + 1) % len(g.minute)
		g.filled = min(g.filled+1, len(g.minute))
		g.second = 0
		g.count(p)
	}
}

func (g *gauge) sample(p *plant.Pack) {
	g.voltage, g.current, g.temperature = p.Voltage(), p.Current(), p.Temperature()
	g.cells = g.cells[:0]
	for i := range p.CellCount() {
		g.cells = append(g.cells, p.Cell(i))
	}
}

func (g *gauge) count(p *plant.Pack) {
	g.remaining, g.full = max(0, p.Charge()), p.Capacity()
	g.percent = word(math.Round(100 * float64(g.remaining/g.full)))
	switch {
	case g.percent >= 100:
		g.fullyCharged = true
	case g.percent < 95:
		g.fullyCharged = false
	}
	switch {
	case g.percent == 0:
		g.fullyDischarged = true
	case g.percent >= 20:
		g.fullyDischarged = false
	}
}

// average is the mean current of the last minute, or of as many seconds as there were.
func (g *gauge) average() unit.Amperes {
	if g.filled == 0 {
		return g.current
	}
	sum := 0.0
	for _, q := range g.minute[:g.filled] {
		sum += q
	}
	return unit.Amperes(sum / float64(g.filled))
}
