package sbs

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"periph.io/x/conn/v3/physic"

	"hilgate/bms"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/model/unit"
)

// wire is a bus with one simulated pack on it. It counts bits as they would go over the wire, and may spoil
// what is read.
type wire struct {
	*bench
	t        *testing.T
	counters link.Counters
	spoil    func(r []byte)
	fail     func(cmd byte) error
	bits     int
	reads    map[byte]int
	command  byte
}

func (b *wire) String() string                  { return "i2c-1" }
func (b *wire) SetSpeed(physic.Frequency) error { return nil }
func (b *wire) Counters() *link.Counters        { return &b.counters }

func (b *wire) Tx(addr uint16, w, r []byte) error {
	for _, part := range [][]byte{w, r} {
		if len(part) > 0 {
			b.bits += 1 + 9*(1+len(part)) // start, address and bytes, each with its acknowledgement
		}
	}
	b.bits++ // stop
	if len(w) > 0 {
		b.command = w[0]
		b.reads[w[0]]++
	}
	var err error
	if b.fail != nil {
		err = b.fail(b.command)
	}
	if addr != BatteryAddress {
		err = link.NACK
	}
	if err == nil {
		err = b.Sim.Tx(w, r)
	}
	if err == nil && b.spoil != nil {
		b.spoil(r)
	}
	b.counters.Failed(err)
	return err
}

// rig is a driver on such a bus, polled in the time of the plant.
type rig struct {
	*wire
	driver *Pack
	start  time.Time
}

func newRig(t *testing.T, p Params, change func(*plant.PackConfig)) *rig {
	w := &wire{t: t, bench: newBench(p, change), reads: map[byte]int{}}
	return &rig{wire: w, driver: New(w, p), start: time.Now()}
}

// poll lets time pass and reads.
func (r *rig) poll(after time.Duration) (bms.Reading, error) {
	r.t.Helper()
	r.run(after)
	return r.driver.Read(r.t.Context(), r.start.Add(r.world.Now()))
}

// must polls and wants no error.
func (r *rig) must(after time.Duration) bms.Reading {
	r.t.Helper()
	reading, err := r.poll(after)
	if err != nil {
		r.t.Fatalf("at %v: %v", r.world.Now(), err)
	}
	return reading
}

// inBubble runs f where pauses take no time.
func inBubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

func with(change func(*Params)) Params {
	p := Defaults()
	change(&p)
	return p
}

func TestFirstReadTellsAll(t *testing.T) {
	for name, c := range map[string]struct {
		chip  Chip
		cells int
		volts unit.Volts
	}{
		"bq40z50 of 4": {ChipAuto, 4, 16.8}, "bq40z80 of 7": {ChipAuto, 7, 29.4}, "bq40z80 of 4": {ChipBQ40Z80, 4, 16.8},
		"bq78350 of 12": {ChipAuto, 12, 50.4}, "sbs of 3": {ChipSBS, 3, 12.6}, "bq4050 of 2": {ChipBQ4050, 2, 8.4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, with(func(p *Params) { p.Chip = c.chip }), func(pc *plant.PackConfig) {
					pc.Cells, pc.E0, pc.E1, pc.Load, pc.CellSpread = c.cells, c.volts, -c.volts/5, 50, 0.02
				})
				got := r.must(90 * time.Second)
				p := r.plant
				near(t, "voltage", float64(got.Voltage), float64(p.Voltage()), 0.006)
				near(t, "current", float64(got.Current), float64(p.Current()), 0.002)
				near(t, "average current", float64(got.AverageCurrent), float64(p.Current()), 0.05)
				near(t, "temperature", float64(got.Temperature), float64(p.Temperature()), 0.06)
				near(t, "charge", float64(got.Charge), float64(p.Charge()), 0.005)
				near(t, "capacity", float64(got.Capacity), float64(p.Capacity()), 0.001)
				near(t, "design capacity", float64(got.DesignCapacity), 5, 0.001)
				near(t, "state of charge", float64(got.SoC), float64(p.SoC()), 0.006)
				near(t, "time to empty", float64(got.TimeToEmpty), -3600*float64(got.Charge)/float64(got.Current), 120)
				near(t, "time to full", float64(got.TimeToFull), nan, 0)
				near(t, "charging voltage", float64(got.ChargingVoltage), float64(c.volts), 0.001)
				near(t, "charging current", float64(got.ChargingCurrent), 5, 0.001)
				if len(got.Cells) != c.cells {
					t.Fatalf("%d cells, want %d", len(got.Cells), c.cells)
				}
				for i, v := range got.Cells {
					near(t, "cell", float64(v), float64(p.Cell(i)), 0.002)
				}
				if !got.Present || got.Status != bms.Discharging || got.Health != bms.Good || got.NotCalibrated {
					t.Errorf("present %v, %v, %v, not calibrated %v", got.Present, got.Status, got.Health, got.NotCalibrated)
				}
				id, known := r.driver.Identity()
				id.Firmware = ""
				if want := (bms.Identity{
					Manufacturer: "hilgate", Device: "simulated", Serial: "0a1f", Chemistry: bms.LiIon,
					Manufactured: "2024-02-29", Link: "PEC",
				}); !known || id != want {
					t.Errorf("identity %+v, want %+v", id, want)
				}
				if r.dangerous != 0 || r.writes != 0 {
					t.Errorf("%d registers written, %d dangerous sub-commands", r.writes, r.dangerous)
				}
				if s, told := r.driver.Security(); c.chip != ChipSBS && (!told || s != Sealed) {
					t.Errorf("security %v, %v; want sealed", s, told)
				}
			})
		})
	}
}

// The wire time is counted as in every I²C transaction: 9 bits a byte, address bytes included, plus starts and stop.
func TestSnapshotFitsTwelveMillisecondsAt100kHz(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), func(c *plant.PackConfig) { c.Load = 60 })
		r.must(2 * time.Second)
		t.Logf("getting to know a pack takes %.2f ms", float64(r.bits)/100)
		r.bits, r.reads = 0, map[byte]int{}
		r.must(6 * time.Second) // everything but identity is due
		t.Logf("a full snapshot of 4 cells takes %.2f ms, by register: %v", float64(r.bits)/100, r.reads)
		if r.bits > 1200 {
			t.Errorf("a full snapshot takes %.2f ms", float64(r.bits)/100)
		}
		if r.reads[CmdFullChargeCapacity] != 1 || r.reads[CmdCell1-3] != 1 || r.reads[CmdBlockAccess] != 2 {
			t.Errorf("not all was read: %v", r.reads)
		}
	})
}

func TestSlowRegistersAreInterleavedAtFiftyHertz(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		most := 0
		r.reads = map[byte]int{}
		total := 0
		for range 500 { // 10 s
			r.bits = 0
			r.must(20 * time.Millisecond)
			most, total = max(most, r.bits), total+r.bits
		}
		t.Logf("at 50 Hz a poll takes %.2f ms at most, the bus is busy %.0f %%", float64(most)/100, float64(total)/100/100)
		if most > 1000 {
			t.Errorf("a poll takes %.2f ms", float64(most)/100)
		}
		for cmd, want := range map[byte]int{
			CmdVoltage: 500, CmdCurrent: 500, CmdBatteryStatus: 500, CmdTemperature: 10, CmdRelativeStateOfCharge: 10,
			CmdCell1 - 2: 10, CmdFullChargeCapacity: 2, CmdSerialNumber: 2, CmdManufacturerName: 0,
		} {
			if got := r.reads[cmd]; got < want-1 || got > want+1 {
				t.Errorf("register 0x%02x was read %d times, want %d", cmd, got, want)
			}
		}
	})
}

func TestPackIsStaleThenAbsentThenBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		r.Vanish(true)
		for i := 1; i <= 10; i++ {
			got, err := r.poll(500 * time.Millisecond)
			if !errors.Is(err, link.NACK) {
				t.Fatalf("gone for %d polls: %v", i, err)
			}
			if gone := i == 10; got.Present == gone || unit.Known(got.Voltage) == gone {
				t.Errorf("after %d polls: present %v, voltage %v", i, got.Present, got.Voltage)
			}
		}
		if _, known := r.driver.Identity(); known {
			t.Error("an absent pack has an identity")
		}
		before := r.bits
		if _, err := r.poll(300 * time.Millisecond); !errors.Is(err, link.NACK) {
			t.Errorf("absent: %v", err)
		}
		if after := r.bits; after == before {
			t.Error("the first poll without a pack does not look for one")
		}
		before = r.bits
		r.poll(300 * time.Millisecond)
		if r.bits != before {
			t.Error("an absent pack is looked for more than once a second")
		}
		r.Vanish(false)
		if got := r.must(time.Second); !got.Present || !unit.Known(got.Capacity) {
			t.Errorf("back: %+v", got)
		}
	})
}

func TestOneMissedPollKeepsTheValues(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		r.Busy(20)
		got, err := r.poll(time.Second)
		if !errors.Is(err, link.NACK) || !got.Present || !unit.Known(got.Voltage) || !unit.Known(got.SoC) {
			t.Errorf("%v; present %v, voltage %v, state of charge %v", err, got.Present, got.Voltage, got.SoC)
		}
		r.Busy(0)
		r.must(time.Second)
	})
}

func TestValuesGrowTooOldOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		r.fail = func(cmd byte) error { // only voltage, current and status go on
			if cmd == CmdVoltage || cmd == CmdCurrent || cmd == CmdBatteryStatus {
				return nil
			}
			return link.Arbitration
		}
		for range 6 {
			r.poll(time.Second)
		}
		got, _ := r.poll(time.Second)
		if !unit.Known(got.Voltage) || unit.Known(got.Temperature) || unit.Known(got.SoC) && !unit.Known(got.Capacity) ||
			unit.Known(got.Cells[0]) || !unit.Known(got.Capacity) == unit.Known(got.DesignCapacity) {
			t.Errorf("after 7 s: %+v", got)
		}
	})
}

func TestGaugeAsleepIsWokenByTheFirstQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.Sleep()
		r.must(time.Second)
		r.Sleep()
		r.must(time.Second)
	})
}

func TestBusyGaugeIsAskedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		for range 20 {
			r.Busy(2)
			r.must(100 * time.Millisecond)
		}
	})
}

func TestBusyCodeVoidsTheCurrentBeforeIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		left := 2
		r.fail = func(cmd byte) error {
			if cmd == CmdBatteryStatus && left > 0 {
				left--
				r.code = CodeBusy
			}
			return nil
		}
		before := r.reads[CmdCurrent]
		r.must(time.Second)
		if got := r.reads[CmdCurrent] - before; got != 3 {
			t.Errorf("current was read %d times, want 3", got)
		}
		left = 1000
		got, err := r.poll(time.Second)
		if !errors.Is(err, link.Refused) || unit.Known(got.Current) || !unit.Known(got.Voltage) {
			t.Errorf("%v, current %v, voltage %v", err, got.Current, got.Voltage)
		}
	})
}

func TestPECIsTriedAndNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		policy PECPolicy
		lie    bool
		want   bool
	}{
		"has it": {PECAuto, false, true}, "claims it": {PECAuto, true, false}, "not wanted": {PECOff, false, false},
		"demanded": {PECOn, false, true},
	} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, Defaults(), nil)
			r.driver.params.PEC = c.policy
			r.Lie(c.lie)
			got := r.must(time.Second)
			if r.driver.PECActive() != c.want || !got.Present {
				t.Errorf("%s: active %v, want %v", name, r.driver.PECActive(), c.want)
			}
		})
	}
}

func TestPECNeitherThereNorMissingIsABadLink(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.SpoilPEC(1 << 30)
		for range 5 {
			if got, err := r.poll(time.Second); !errors.Is(err, link.PEC) || got.Present {
				t.Errorf("%v, present %v", err, got.Present)
			}
		}
		r.SpoilPEC(0)
		r.poll(time.Second)
		r.must(time.Second)
	})
}

func TestPackWithoutSpecificationIsReadWithoutPECAfterSomeTries(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.fail = func(cmd byte) error {
			if cmd == CmdSpecificationInfo {
				return link.NACK
			}
			return nil
		}
		for i := range mostRefusals {
			got, err := r.poll(100 * time.Millisecond)
			if met := i == mostRefusals-1; got.Present != met || (err == nil) != met {
				t.Errorf("try %d: present %v, %v", i, got.Present, err)
			}
		}
		if r.driver.PECActive() {
			t.Error("PEC in use")
		}
	})
}

func TestGaugeOfAnUnknownTypeIsReadByWhatItHas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for cells, want := range map[int]Chip{3: ChipBQ40Z50, 6: ChipBQ40Z80} {
			p := with(func(p *Params) { p.Chip = ChipBQ4050 })
			if cells > 4 {
				p.Chip = ChipBQ40Z80
			}
			r := newRig(t, p, func(c *plant.PackConfig) { c.Cells, c.E0, c.E1 = cells, 25.2, -4 })
			r.driver.params.Chip = ChipAuto
			if p.Chip == ChipBQ4050 { // it has no DAStatus3
				r.fail = func(cmd byte) error {
					if cmd == CmdBlockAccess && r.Sim.sub == MACDAStatus3 {
						r.selected = false
					}
					return nil
				}
			}
			if got := r.must(time.Second); r.driver.chip != want || len(got.Cells) != cells {
				t.Errorf("%d cells: %v with %v", cells, r.driver.chip, got.Cells)
			}
		}
	})
}

func TestCutAnswersAreReadAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		before := r.must(time.Second)
		r.Cut(2)
		got := r.must(time.Second)
		near(t, "voltage", float64(got.Voltage), float64(before.Voltage), 0.01)
		if n := r.counters.Counts().Failures[link.PEC]; n != 2 {
			t.Errorf("%d packet errors, want 2", n)
		}
	})
}

func TestPECIsNotGivenUpForErrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		for range 3 {
			r.SpoilPEC(1000)
			if _, err := r.poll(time.Second); !errors.Is(err, link.PEC) {
				t.Errorf("%v, want PEC mismatch", err)
			}
		}
		r.SpoilPEC(0)
		r.must(time.Second)
		if !r.driver.PECActive() {
			t.Error("PEC was given up")
		}
	})
}

func TestSwappedPackIsKnownAnew(t *testing.T) {
	for name, change := range map[string]func(*Label){
		"serial": func(l *Label) { l.Serial++ },
		"date":   func(l *Label) { l.Manufactured++ },
		"name":   func(l *Label) { l.Device = "another" },
	} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, Defaults(), nil)
			r.must(time.Second)
			before, _ := r.driver.Identity()
			l := r.Label()
			change(&l)
			r.SetLabel(l)
			r.Lie(true)    // nothing of the old pack may remain
			r.Vanish(true) // pulled and plugged between two polls
			r.poll(100 * time.Millisecond)
			r.Vanish(false)
			r.SetCapacityMode(true)
			for range 8 { // a pack of the same PEC is known at the next poll, another after an absence
				r.poll(time.Second)
			}
			got := r.must(time.Second)
			after, known := r.driver.Identity()
			if !known || after == before || after.Link != "no PEC" {
				t.Errorf("%s: %+v, before %+v", name, after, before)
			}
			near(t, "charge", float64(got.Charge), float64(r.plant.Charge()), 0.005)
		})
	}
}

func TestPackThatDoesNotTellItsCurrentIsThereAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.fail = func(cmd byte) error {
			if cmd == CmdCurrent {
				return link.NACK
			}
			return nil
		}
		got, err := r.poll(time.Second)
		if !errors.Is(err, link.NACK) || !got.Present || unit.Known(got.Current) || !unit.Known(got.Voltage) {
			t.Errorf("first read: %v; present %v, current %v, voltage %v", err, got.Present, got.Current, got.Voltage)
		}
		if got.Status != bms.Discharging || got.Health != bms.Good { // by the flag
			t.Errorf("status %v, health %v", got.Status, got.Health)
		}
		for range mostRefusals {
			_, err = r.poll(time.Second)
		}
		if err != nil {
			t.Errorf("with the current known to be missing: %v", err)
		}
	})
}

func TestMissingRegistersAreDroppedAndCostNothingMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.fail = func(cmd byte) error {
			if cmd == CmdRelativeStateOfCharge || cmd == CmdTemperature || cmd == CmdStateOfHealth {
				return link.NACK
			}
			return nil
		}
		for range 40 {
			r.must(time.Second)
		}
		if got := r.reads[CmdRelativeStateOfCharge]; got != 3*mostRefusals {
			t.Errorf("0x0d was asked for %d times, want %d", got, 3*mostRefusals)
		}
		got := r.must(time.Second)
		near(t, "state of charge from the capacities", float64(got.SoC), 0.8, 0.001)
		near(t, "temperature of the hottest sensor", float64(got.Temperature), 25, 0.06)
		if len(got.CellTemperatures) != 1 {
			t.Errorf("sensors %v, want one", got.CellTemperatures)
		}
	})
}

func TestBusyGaugeIsNotTakenForAShorterPack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		left := 3
		r.fail = func(cmd byte) error {
			if cmd == CmdCell1-2 && left > 0 {
				left--
				return link.NACK
			}
			return nil
		}
		if got := r.must(time.Second); len(got.Cells) != 2 {
			t.Fatalf("%d cells", len(got.Cells))
		}
		r.must(5 * time.Second)
		if got := r.must(time.Second); len(got.Cells) != 4 || !unit.Known(got.Cells[3]) {
			t.Errorf("cells %v, want four", got.Cells)
		}
	})
}

func TestWritePolicyBoundsWhatIsWritten(t *testing.T) {
	for policy, want := range map[WritePolicy]struct {
		mode   Mode
		writes bool
	}{
		WriteNever:        {CapacityMode, false},
		WriteCapacityMode: {0, true},
		WriteBroadcasts:   {CapacityMode | ChargerMode | AlarmMode, true},
		WriteFull:         {ChargerMode | AlarmMode, true},
	} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, with(func(p *Params) { p.WritePolicy = policy }), nil)
			r.mode = CapacityMode
			r.must(time.Second)
			for range 150 { // beyond the minute after which the pack clears ALARM_MODE
				got := r.must(time.Second)
				if r.mode != want.mode {
					t.Fatalf("%v: mode %v, want %v", policy, r.mode.Names(), want.mode.Names())
				}
				near(t, "charge", float64(got.Charge), float64(r.plant.Charge()), 0.005)
			}
			if (r.writes > 0) != want.writes || r.writes > 6 || r.dangerous > 0 {
				t.Errorf("%v: %d writes, %d dangerous", policy, r.writes, r.dangerous)
			}
		})
	}
}

func TestCapacityModeIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		for i := range 6 {
			r.SetCapacityMode(i%2 == 0)
			r.must(time.Second)
			got := r.must(time.Second)
			near(t, "charge", float64(got.Charge), float64(r.plant.Charge()), 0.005)
			near(t, "capacity", float64(got.Capacity), 5, 0.005)
			near(t, "design capacity", float64(got.DesignCapacity), 5, 0.005)
		}
	})
}

func TestNominalVoltageOfOneCellIsMultiplied(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), func(c *plant.PackConfig) { c.Cells, c.E0, c.E1 = 10, 42, -8 })
		r.SetCapacityMode(true)
		got := r.must(time.Second)
		near(t, "capacity", float64(got.Capacity), 5, 0.01)
	})
}

func TestMultipliersUndoWhatTheGaugeDivides(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, with(func(p *Params) { p.CurrentMultiplier = 4 }), func(c *plant.PackConfig) { c.Load = 700 })
		got := r.must(time.Second)
		near(t, "current", float64(got.Current), float64(r.plant.Current()), 0.01)
		near(t, "charge", float64(got.Charge), float64(r.plant.Charge()), 0.01)
		if w, _ := r.driver.word(CmdRemainingCapacity); int(w) > 1100 {
			t.Errorf("the gauge tells %d mAh, want a quarter", w)
		}
	})
}

func TestOtherMasterIsNoticedByTheEcho(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		r.Trip(OTD)
		r.Intrude(2)
		r.must(5 * time.Second)
		got := r.must(5 * time.Second)
		if got.Health != bms.Overheat || r.counters.Counts().Failures[link.Malformed] == 0 {
			t.Errorf("health %v, %d wrong echoes", got.Health, r.counters.Counts().Failures[link.Malformed])
		}
	})
}

func TestProtectionsAndFailuresAreReportedAndTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		check := func(health bms.Health, faults bms.Faults) {
			t.Helper()
			if got := r.must(5 * time.Second); got.Health != health || got.Faults != faults {
				t.Errorf("%v %v, want %v %v", got.Health, got.Faults.Names(), health, faults.Names())
			}
		}
		check(bms.Good, 0)
		r.Trip(COV | PTO)
		check(bms.Overvoltage, bms.CellOvervoltage|bms.ChargeTimeout|bms.PackOvervoltage)
		r.Trip(0)
		check(bms.Good, 0)
		r.Fail(1 << 19)
		check(bms.Dead, bms.PermanentFailure)
		r.Fail(0)
		check(bms.Good, 0)
	})
}

func TestWithoutPECAJumpIsConfirmed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, with(func(p *Params) { p.PEC = PECOff }), nil)
		first := r.must(time.Second)
		once := func(cmd byte, value byte) {
			r.spoil = func(b []byte) {
				if r.command == cmd && len(b) == 2 {
					b[1], r.spoil = value, nil
				}
			}
		}
		for cmd, value := range map[byte]byte{CmdVoltage: 0xff, CmdTemperature: 0x10, CmdBatteryStatus: 0xff, CmdRelativeStateOfCharge: 1} {
			once(cmd, value)
			got := r.must(time.Second)
			if r.spoil != nil {
				t.Fatalf("0x%02x was not read", cmd)
			}
			near(t, "voltage", float64(got.Voltage), float64(first.Voltage), 0.01)
			near(t, "temperature", float64(got.Temperature), float64(first.Temperature), 0.1)
			near(t, "state of charge", float64(got.SoC), float64(first.SoC), 0.01)
			if got.Health != bms.Good {
				t.Errorf("0x%02x damaged: health %v", cmd, got.Health)
			}
		}
		r.spoil = func(b []byte) {
			for i := range b {
				b[i] = 0xff
			}
		}
		if _, err := r.poll(time.Second); !errors.Is(err, link.Implausible) {
			t.Errorf("a floating bus: %v, want implausible", err)
		}
	})
}

func TestNoisyCurrentIsFollowedAfterAStep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		random := rand.New(rand.NewPCG(5, 6))
		r.fail = func(byte) error { // another value at each transaction
			r.gauge.current = unit.Amperes(-20 + random.NormFloat64()/10)
			return nil
		}
		for range 50 {
			near(t, "current", float64(r.must(20*time.Millisecond).Current), -20, 1)
		}
	})
}

func TestShortRefusalDropsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		r.fail = func(cmd byte) error {
			if cmd == CmdVoltage {
				return link.NACK
			}
			return nil
		}
		for range 50 {
			if _, err := r.poll(20 * time.Millisecond); !errors.Is(err, link.NACK) {
				t.Errorf("%v, want no acknowledgement", err)
			}
		}
		r.fail = nil
		r.must(20 * time.Millisecond)
		if got := r.must(20 * time.Millisecond); !unit.Known(got.Voltage) || r.reads[CmdVoltage] < 100 {
			t.Errorf("voltage %v after %d questions", got.Voltage, r.reads[CmdVoltage])
		}
	})
}

// For ten minutes one bit in a hundred is damaged: whatever is told is what the gauge had in that second.
func TestNoDamagedValueIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		r := newRig(t, Defaults(), func(c *plant.PackConfig) { c.Load = 80 })
		r.spoil = func(b []byte) {
			for bit := range 8 * len(b) {
				if random.IntN(100) == 0 {
					b[bit/8] ^= 1 << (bit % 8)
				}
			}
		}
		good := 0
		for range 6000 {
			got, err := r.poll(100 * time.Millisecond)
			if err == nil {
				good++
			}
			if !got.Present {
				continue
			}
			p := r.plant
			for what, c := range map[string]struct{ got, want, tolerance float64 }{
				"voltage":         {float64(got.Voltage), float64(p.Voltage()), 0.2},
				"current":         {float64(got.Current), float64(p.Current()), 0.2},
				"charge":          {float64(got.Charge), float64(p.Charge()), 0.02},
				"state of charge": {float64(got.SoC), float64(p.SoC()), 0.012},
				"temperature":     {float64(got.Temperature), float64(p.Temperature()), 0.2},
				"cell":            {float64(got.Cells[1]), float64(p.Cell(1)), 0.1},
				"design capacity": {float64(got.DesignCapacity), 5, 0.001},
			} {
				if unit.Known(unit.Ratio(c.got)) {
					near(t, what, c.got, c.want, c.tolerance)
				}
			}
			if got.Health != bms.Good && got.Health != bms.HealthUnknown || got.Status == bms.Charging {
				t.Errorf("%v, %v", got.Health, got.Status)
			}
		}
		counts := r.counters.Counts()
		t.Logf("%d of 6000 polls good, %d packet errors, %d bad lengths, %d retries", good,
			counts.Failures[link.PEC], counts.Failures[link.Short], counts.Retries)
		if good < 5000 || r.dangerous > 0 {
			t.Errorf("%d of 6000 polls good, %d dangerous sub-commands", good, r.dangerous)
		}
	})
}

func TestLostPortAndCancelledContextEndTheReadAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, Defaults(), nil)
		r.must(time.Second)
		r.fail = func(cmd byte) error { return link.Closed }
		before := r.bits
		if _, err := r.poll(time.Second); !link.Lost(err) || r.bits-before > 60 {
			t.Errorf("%v after %d bits, want the port lost at the first", err, r.bits-before)
		}
		r.fail = nil
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.driver.Read(ctx, r.start.Add(r.world.Now()+time.Second)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want cancelled", err)
		}
	})
}

func TestReadIsCheapOnceThePackIsKnown(t *testing.T) {
	r := newRig(t, with(func(p *Params) { p.Gap = 0 }), nil)
	r.must(time.Second)
	at := r.start.Add(r.world.Now())
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		at = at.Add(time.Microsecond)
		if _, err := r.driver.Read(ctx, at); err != nil {
			t.Fatal(err)
		}
	})
	if n > 2 {
		t.Errorf("a poll allocates %v times, want the list of cells alone", n)
	}
}

func TestScheduleHasEachItemOnce(t *testing.T) {
	for chip := ChipSBS; chip <= ChipBQ78350; chip++ {
		seen := []uint32{}
		for _, it := range schedule(Defaults(), chip, chip.maxCells()) {
			key := uint32(it.cmd)<<16 | uint32(it.sub)
			if slices.Contains(seen, key) || it.sub != 0 && !Harmless(it.sub) {
				t.Errorf("%v: register 0x%02x, sub-command 0x%04x", chip, it.cmd, it.sub)
			}
			seen = append(seen, key)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	world := new(plant.World)
	p := with(func(p *Params) { p.Gap = 0 })
	w := &wire{bench: &bench{Sim: NewSim(p, world.AddPack(plant.DefaultPack()))}, reads: map[byte]int{}}
	driver, at, ctx := New(w, p), time.Now(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(20 * time.Millisecond)
		if _, err := driver.Read(ctx, at); err != nil {
			b.Fatal(err)
		}
	}
}
