package drivertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/link"
	"hilgate/model/unit"
)

// patient is a pack read as its poller does it: on a grid, and opened anew once the port is lost.
type patient struct {
	*rig
	pack bms.Pack
}

func (r *rig) patient(t *testing.T) *patient {
	t.Helper()
	return &patient{rig: r, pack: r.openPack(t)}
}

// read polls once, judges what came, and waits for the next poll.
func (p *patient) read(t *testing.T) (reading bms.Reading, err error) {
	t.Helper()
	start := time.Now()
	_ = p.bounded(t, "Read", func() error {
		reading, err = p.pack.Read(background(), time.Now())
		return err
	})
	if err != nil {
		wantKind(t, "Read", err)
	}
	p.judge(t, reading)
	if link.Lost(err) && err != nil {
		p.pack = p.openPack(t)
	}
	if rest := p.o.Period - time.Since(start); rest > 0 {
		p.pass(rest)
	}
	return reading, err
}

// judge compares every known value with the plant.
func (p *patient) judge(t *testing.T, r bms.Reading) {
	t.Helper()
	if t.Failed() {
		return // one wrong value says enough
	}
	tol := p.o.Tolerance
	p.bench.Do(func() {
		near(t, "voltage", r.Voltage, p.rig.pack.Voltage(), tol.Voltage)
		near(t, "current", r.Current, p.rig.pack.Current(), tol.Current)
		near(t, "average current", r.AverageCurrent, p.rig.pack.Current(), tol.Current)
		near(t, "temperature", r.Temperature, p.rig.pack.Temperature(), tol.Temperature)
		near(t, "charge", r.Charge, p.rig.pack.Charge(), tol.Charge)
		near(t, "capacity", r.Capacity, p.rig.pack.Capacity(), tol.Charge)
		near(t, "state of charge", r.SoC, p.rig.pack.SoC(), tol.SoC)
		for i, v := range r.Cells {
			if i >= p.rig.pack.CellCount() {
				t.Errorf("%d cells, the plant has %d", len(r.Cells), p.rig.pack.CellCount())
				break
			}
			near(t, fmt.Sprintf("cell %d", i+1), v, p.rig.pack.Cell(i), tol.Voltage)
		}
	})
	for what, v := range map[string]float64{
		"capacity": float64(r.Capacity), "design capacity": float64(r.DesignCapacity), "voltage": float64(r.Voltage),
	} {
		if v == 0 {
			t.Errorf("%s is 0: what is unknown must be NaN", what)
		}
	}
}

// warm polls until the driver has told all that it tells.
func (p *patient) warm(t *testing.T) bms.Reading {
	t.Helper()
	var r bms.Reading
	var err error
	for end := time.Now().Add(p.o.Warm); time.Now().Before(end); {
		r, err = p.read(t)
	}
	if err != nil {
		t.Fatalf("after %v on a sound wire: %v", p.o.Warm, err)
	}
	if !r.Present || !unit.Known(r.Voltage) || !unit.Known(r.Current) {
		t.Fatalf("after %v on a sound wire the pack has present %v, voltage %v, current %v", p.o.Warm, r.Present, r.Voltage, r.Current)
	}
	return r
}

// empty fails the test unless nothing is known.
func empty(t *testing.T, what string, r bms.Reading) {
	t.Helper()
	got, want := fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", bms.Unmeasured()) // as text, NaN is equal to NaN
	if got != want && !t.Failed() {
		t.Errorf("%s: something is known:\n got %s\nwant %s", what, got, want)
	}
}

func testPack(t *testing.T, spec drivers.Spec, o Options) {
	inBubble(t, "ReadsWhatThePackHolds", spec, o, func(t *testing.T, r *rig) {
		r.patient(t).warm(t)
	})
	inBubble(t, "OpeningTouchesNoBus", spec, o, func(t *testing.T, r *rig) {
		r.openPack(t)
		if r.wire.passed != 0 {
			t.Errorf("%d bytes passed before the first Read", r.wire.passed)
		}
	})
	inBubble(t, "AbsentPackGivesAnErrorAndNoNumbers", spec, o, func(t *testing.T, r *rig) {
		r.wire.absent = true
		p := r.patient(t)
		for range 20 {
			got, err := p.read(t)
			wantKind(t, "Read of an absent pack", err)
			empty(t, "Read of an absent pack", got)
		}
	})
	inBubble(t, "HungBusGivesAnError", spec, o, func(t *testing.T, r *rig) {
		r.faults.Set(sim.Faults{Stuck: true})
		got, err := r.patient(t).read(t)
		wantKind(t, "Read on a hung bus", err)
		empty(t, "Read on a hung bus", got)
	})
	inBubble(t, "PackThatFallsSilentIsForgottenAndReadAgain", spec, o, func(t *testing.T, r *rig) {
		p := r.patient(t)
		p.warm(t)
		r.wire.absent = true
		var got bms.Reading
		var err error
		for end := time.Now().Add(o.Forget); time.Now().Before(end); {
			got, err = p.read(t)
			wantKind(t, "Read of a silent pack", err)
		}
		empty(t, fmt.Sprintf("after %v of silence", o.Forget), got)
		r.wire.absent = false
		p.returns(t)
	})
	inBubble(t, "LostPortIsSaidToBeLost", spec, o, func(t *testing.T, r *rig) {
		p := r.patient(t)
		p.warm(t)
		r.wire.gone = true
		if _, err := p.read(t); !link.Lost(err) || err == nil {
			t.Errorf("Read on a port that is gone: %v, want one that link.Lost knows", err)
		}
		r.wire.gone = false
		p.returns(t)
	})
	inBubble(t, "ReadEndsWithItsContext", spec, o, func(t *testing.T, r *rig) {
		p := r.patient(t)
		ctx, cancel := context.WithCancel(background())
		cancel()
		if _, err := p.pack.Read(ctx, time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("Read with a context that has ended: %v, want context.Canceled", err)
		}
	})
	inBubble(t, "CutAnswersGiveNoWrongValue", spec, o, func(t *testing.T, r *rig) {
		skipWithout(t, o.NoChecksum)
		r.everyPlace(t, func(n int) { r.wire.arm(-1, 0, n) })
	})
	inBubble(t, "EveryFlippedByteGivesNoWrongValue", spec, o, func(t *testing.T, r *rig) {
		skipWithout(t, o.NoChecksum)
		r.everyPlace(t, func(n int) { r.wire.arm(n, n%8, -1) })
	})
	for name, f := range noise() {
		inBubble(t, name+"GivesNoWrongValue", spec, o, func(t *testing.T, r *rig) {
			skipWithout(t, o.NoChecksum)
			p := r.patient(t)
			p.warm(t)
			for seed := range uint64(8) {
				f.Seed = seed
				r.faults.Set(f)
				good := 0
				for range 100 {
					if _, err := p.read(t); err == nil {
						good++
					}
				}
				if good == 0 {
					t.Errorf("seed %d: not one of 100 polls succeeded", seed)
				}
			}
			r.faults.Set(sim.Faults{})
			p.returns(t)
		})
	}
}

// returns fails the test unless the pack is read again soon.
func (p *patient) returns(t *testing.T) {
	t.Helper()
	start := time.Now()
	var r bms.Reading
	var err error
	for time.Since(start) < p.o.Return {
		if r, err = p.read(t); err == nil && unit.Known(r.Voltage) && unit.Known(r.Current) {
			return
		}
	}
	t.Errorf("%v after it came back the pack has voltage %v, current %v, error %v", p.o.Return, r.Voltage, r.Current, err)
}

// everyPlace damages each byte of one poll in turn, in either direction, and reads on until all is well.
func (r *rig) everyPlace(t *testing.T, arm func(n int)) {
	t.Helper()
	p := r.patient(t)
	p.warm(t)
	most := 0
	for range 20 { // polls differ in length: slow registers take turns
		r.wire.arm(-1, 0, -1)
		if _, err := p.read(t); err != nil {
			t.Fatal(err)
		}
		most = max(most, r.wire.passed)
	}
	for n := range most {
		arm(n)
		_, _ = p.read(t)
		r.wire.arm(-1, 0, -1)
		_, _ = p.read(t)
		if t.Failed() {
			t.Fatalf("with byte %d of a poll damaged", n)
		}
	}
	p.returns(t)
}

func skipWithout(t *testing.T, why string) {
	t.Helper()
	if why != "" {
		t.Skip("does not apply:", why)
	}
}

// noise is one kind of bad wire each.
func noise() map[string]sim.Faults {
	return map[string]sim.Faults{
		"OnePercentFlips":   {Flip: 0.01},
		"LostAndStrayBytes": {Drop: 0.005, Noise: 0.005},
		"RepeatedAnswers":   {Duplicate: 0.05, Late: 0.05},
		"BrokenAnswers":     {Cut: 0.05, Silence: 0.05, NACK: 0.05},
	}
}
