package fusion

import (
	"errors"
	"math"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/model/link"
	"hilgate/model/unit"
)

// sound is a reading of a healthy 4S pack.
func sound() bms.Reading {
	r := *reading(15.2, -3)
	r.Temperature, r.SoC, r.Charge, r.Capacity = 30, 0.6, 3, 5
	r.Cells = []unit.Volts{3.8, 3.8, 3.8, 3.8}
	r.CellTemperatures = []unit.Celsius{29, 30}
	return r
}

func TestSoundAndIncompleteReadingsArePlausible(t *testing.T) {
	l := DefaultLimits()
	whole, none, bare := sound(), bms.Unmeasured(), *reading(40, 0)
	oneCellLacks := sound()
	oneCellLacks.Cells = []unit.Volts{3.8, unit.Volts(math.NaN()), 3.8, 3.8}
	for name, r := range map[string]bms.Reading{"whole": whole, "none": none, "bare": bare, "one cell lacks": oneCellLacks} {
		if _, err := l.Plausible(&whole, &r, time.Second); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatCannotBeTrueIsRejected(t *testing.T) {
	before := sound()
	for _, k := range []struct {
		name   string
		reason bms.Reject
		set    func(r *bms.Reading)
	}{
		{"voltage below 1 V a cell", bms.RejectRange, func(r *bms.Reading) { r.Voltage = 3.9 }},
		{"voltage above 5 V a cell", bms.RejectRange, func(r *bms.Reading) { r.Voltage = 20.1 }},
		{"voltage infinite", bms.RejectRange, func(r *bms.Reading) { r.Voltage, r.Cells = unit.Volts(math.Inf(1)), nil }},
		{"voltage negative, cells unknown", bms.RejectRange, func(r *bms.Reading) { r.Voltage, r.Cells = -0.1, nil }},
		{"current", bms.RejectRange, func(r *bms.Reading) { r.Current = -1001 }},
		{"average current", bms.RejectRange, func(r *bms.Reading) { r.AverageCurrent = unit.Amperes(math.Inf(-1)) }},
		{"cold", bms.RejectRange, func(r *bms.Reading) { r.Temperature = -273.15 }},
		{"hot", bms.RejectRange, func(r *bms.Reading) { r.Temperature = 121 }},
		{"hot sensor", bms.RejectRange, func(r *bms.Reading) { r.CellTemperatures = []unit.Celsius{30, 6280.35} }},
		{"state of charge of −2330 %", bms.RejectRange, func(r *bms.Reading) { r.SoC = -23.3 }},
		{"state of charge of 4873 %", bms.RejectRange, func(r *bms.Reading) { r.SoC = 48.73 }},
		{"charge", bms.RejectRange, func(r *bms.Reading) { r.Charge = -0.01 }},
		{"capacity", bms.RejectRange, func(r *bms.Reading) { r.Capacity = unit.AmpereHours(math.Inf(1)) }},
		{"cell below its bound", bms.RejectRange, func(r *bms.Reading) { r.Cells = []unit.Volts{3.8, 0.4, 3.8, 3.8} }},
		{"cell that is not there", bms.RejectRange, func(r *bms.Reading) { r.Cells = []unit.Volts{3.8, 65.535, 3.8, 3.8} }},
		{"cells against pack", bms.RejectCellSum, func(r *bms.Reading) { r.Cells = []unit.Volts{3.8, 3.8, 3.8, 2.9} }},
		{"state of charge falls to 0", bms.RejectJump, func(r *bms.Reading) { r.SoC = 0 }},
		{"state of charge jumps to 1", bms.RejectJump, func(r *bms.Reading) { r.SoC = 1 }},
	} {
		r := sound()
		k.set(&r)
		l := DefaultLimits()
		reason, err := l.Plausible(&before, &r, time.Second)
		if err == nil || reason != k.reason || !errors.Is(err, link.Implausible) {
			t.Errorf("%s: %v (%v), want %v", k.name, reason, err, k.reason)
		}
	}
}

func TestChangeThatLastsIsBelievedInTheEnd(t *testing.T) {
	l := DefaultLimits()
	before, now := sound(), sound()
	now.SoC = 0.2
	if _, err := l.Plausible(&before, &now, 10*time.Second); err == nil {
		t.Error("0.6 to 0.2 in 10 s is believed")
	}
	if _, err := l.Plausible(&before, &now, time.Minute); err != nil {
		t.Errorf("after a minute: %v", err)
	}
	if _, err := l.Plausible(nil, &now, 0); err != nil {
		t.Errorf("with nothing before: %v", err)
	}
}

func TestConfiguredBoundsOverrideCells(t *testing.T) {
	l := DefaultLimits()
	r := *reading(15, 0)
	l.Cells = 2
	if _, err := l.Plausible(nil, &r, 0); err == nil {
		t.Error("15 V of two cells is believed")
	}
	l.VoltageMax = 16
	if _, err := l.Plausible(nil, &r, 0); err != nil {
		t.Errorf("voltage_max of 16 V: %v", err)
	}
	l.VoltageMin = 15.5
	if _, err := l.Plausible(nil, &r, 0); err == nil {
		t.Error("15 V are believed with a voltage_min of 15.5 V")
	}
}
