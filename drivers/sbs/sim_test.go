package sbs

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"hilgate/drivers/smbus"
	"hilgate/model/link"
	"hilgate/model/plant"
)

// bench is a simulator with its world.
type bench struct {
	*Sim
	world *plant.World
	plant *plant.Pack
}

func newBench(p Params, change func(*plant.PackConfig)) *bench {
	c := plant.DefaultPack()
	if change != nil {
		change(&c)
	}
	b := &bench{world: new(plant.World)}
	b.plant = b.world.AddPack(c)
	b.Sim = NewSim(p, b.plant)
	return b
}

func (b *bench) run(d time.Duration) { b.world.AdvanceTo(b.world.Now() + d) }

// word reads a word with its packet error code.
func (b *bench) word(t *testing.T, cmd byte) uint16 {
	t.Helper()
	raw := make([]byte, 3)
	if err := b.Tx([]byte{cmd}, raw); err != nil {
		t.Fatalf("read 0x%02x: %v", cmd, err)
	}
	w, err := smbus.ParseWord(raw, BatteryAddress, cmd, true)
	if err != nil {
		t.Fatalf("read 0x%02x: % x: %v", cmd, raw, err)
	}
	return w
}

func (b *bench) lastCode(t *testing.T) ErrorCode {
	t.Helper()
	return Status(b.word(t, CmdBatteryStatus)).Code()
}

func (b *bench) write(cmd byte, word uint16) error {
	return b.Tx(smbus.AppendWriteWord(nil, BatteryAddress, cmd, word, true), nil)
}

// sub reads a sub-command by the block port.
func (b *bench) sub(t *testing.T, sub uint16) []byte {
	t.Helper()
	if err := b.Tx(smbus.AppendWriteBlock(nil, BatteryAddress, CmdBlockAccess, AppendMAC(nil, sub), true), nil); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 36)
	if err := b.Tx([]byte{CmdBlockAccess}, raw); err != nil {
		t.Fatal(err)
	}
	block, err := smbus.ParseBlock(raw, BatteryAddress, CmdBlockAccess, MaxMAC, true)
	if err != nil {
		t.Fatal(err)
	}
	data, err := ParseMAC(block, sub)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSimRefusesWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		w    []byte
		err  error
		code ErrorCode
	}{
		"unknown command":          {[]byte{0x30}, link.NACK, CodeUnsupportedCommand},
		"reserved command":         {[]byte{0x1e}, link.NACK, CodeReservedCommand},
		"write to a read-only one": {[]byte{CmdVoltage, 1, 2}, link.NACK, CodeAccessDenied},
		"half a word":              {[]byte{CmdBatteryMode, 1}, nil, CodeBadSize},
		"too long":                 {[]byte{CmdBatteryMode, 1, 2, 3, 4}, link.NACK, CodeBadSize},
		"wrong PEC":                {[]byte{CmdBatteryMode, 0x00, 0x60, 0x88}, link.NACK, CodeUnknownError},
		"right PEC":                {[]byte{CmdBatteryMode, 0x00, 0x60, 0x89}, nil, CodeOK},
		"no PEC":                   {[]byte{CmdBatteryMode, 0x00, 0x60}, nil, CodeOK},
		"empty block":              {[]byte{CmdBlockAccess, 0}, nil, CodeBadSize},
		"block cut":                {[]byte{CmdBlockAccess, 2, 0x54}, nil, CodeBadSize},
		"sealed command":           {[]byte{MACOperationStatus}, link.NACK, CodeUnsupportedCommand},
		"dangerous sub-command":    {[]byte{CmdManufacturerAccess, 0x10, 0x00}, nil, CodeAccessDenied},
	} {
		b := newBench(Defaults(), nil)
		before := b.mode
		if err := b.Tx(c.w, nil); !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if got := b.lastCode(t); got != c.code {
			t.Errorf("%s: code %v, want %v", name, got, c.code)
		}
		if got := b.lastCode(t); got != CodeOK {
			t.Errorf("%s: code %v remains after it was read", name, got)
		}
		if (c.code != CodeOK) && b.mode != before {
			t.Errorf("%s changed BatteryMode to %v", name, b.mode.Names())
		}
	}
}

func TestSimGivesFFBeyondItsAnswer(t *testing.T) {
	b := newBench(Defaults(), nil)
	r := make([]byte, 6)
	if err := b.Tx([]byte{CmdSerialNumber}, r); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0x1f, 0x0a, 0xe0, 0xff, 0xff, 0xff}; !bytes.Equal(r, want) {
		t.Errorf("got % x, want % x", r, want)
	}
	again := make([]byte, 2)
	if err := b.Tx(nil, again); err != nil || !bytes.Equal(again, r[:2]) {
		t.Errorf("a read without command gives % x, %v; want the last command's % x", again, err, r[:2])
	}
	plain := newBench(func() Params { p := Defaults(); p.PEC = PECOff; return p }(), nil)
	if err := plain.Tx([]byte{CmdSerialNumber}, r); err != nil || r[2] != 0xff {
		t.Errorf("a gauge without PEC gives % x", r)
	}
}

func TestSimMeasuresThePlant(t *testing.T) {
	b := newBench(Defaults(), func(c *plant.PackConfig) { c.Load = 60 })
	b.run(2 * time.Second)
	none := Scale{1, 1}
	near(t, "voltage", float64(none.DecodeVoltage(b.word(t, CmdVoltage))), float64(b.plant.Voltage()), 0.001)
	near(t, "current", float64(none.DecodeCurrent(b.word(t, CmdCurrent))), float64(b.plant.Current()), 0.001)
	near(t, "temperature", float64(DecodeTemperature(b.word(t, CmdTemperature))), float64(b.plant.Temperature()), 0.06)
	near(t, "charge", float64(none.DecodeCharge(b.word(t, CmdRemainingCapacity))), float64(b.plant.Charge()), 0.001)
	near(t, "cell 4", float64(DecodeMillivolts(b.word(t, CmdCell1-3))), float64(b.plant.Cell(3)), 0.001)
	near(t, "state of charge", float64(b.word(t, CmdRelativeStateOfCharge)), 80, 0)
	d, err := ParseDAStatus1(b.sub(t, MACDAStatus1))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "power", float64(d.Power), -60, 0.05)
}

func TestSimAveragesOverAMinute(t *testing.T) {
	b := newBench(Defaults(), func(c *plant.PackConfig) { c.Load = 60 })
	b.run(2 * time.Minute)
	drain := b.gauge.average()
	b.plant.SetDraining(false)
	b.run(30 * time.Second)
	near(t, "average after half a minute of rest", float64(b.gauge.average()), float64(drain)/2, 0.1)
	if got := b.word(t, CmdRunTimeToEmpty); got != endless {
		t.Errorf("RunTimeToEmpty at rest is %d, want 65535", got)
	}
	if got := b.word(t, CmdAverageTimeToEmpty); got == endless {
		t.Error("AverageTimeToEmpty is 65535 while the average still discharges")
	}
	b.run(31 * time.Second)
	near(t, "average after a minute of rest", float64(b.gauge.average()), 0, 1e-9)
}

func TestSimConvertsCapacitiesAtOnce(t *testing.T) {
	b := newBench(Defaults(), nil)
	inCharge := b.word(t, CmdFullChargeCapacity)
	if err := b.write(CmdAtRate, uint16(0xfc18)); err != nil { // −1000 mA
		t.Fatal(err)
	}
	hours := b.word(t, CmdAtRateTimeToEmpty)
	if err := b.write(CmdBatteryMode, uint16(CapacityMode|ChargerMode)); err != nil {
		t.Fatal(err)
	}
	nominal := float64(b.word(t, CmdDesignVoltage))
	near(t, "energy, 10 mWh", float64(b.word(t, CmdFullChargeCapacity)), float64(inCharge)*nominal/10000, 1)
	if got := b.word(t, CmdAtRate); got != 0xfc18 {
		t.Errorf("AtRate became 0x%04x: it is not to be converted", got)
	}
	near(t, "time at −1000 mA", float64(hours), 240, 1)
	near(t, "time at −10 W", float64(b.word(t, CmdAtRateTimeToEmpty)), 4*60*nominal/10000, 1)
}

func TestSimClearsAlarmModeAfterAMinute(t *testing.T) {
	b := newBench(Defaults(), nil)
	if err := b.write(CmdBatteryMode, 0xffff); err != nil {
		t.Fatal(err)
	}
	if got := Mode(b.word(t, CmdBatteryMode)); got != CapacityMode|ChargerMode|AlarmMode {
		t.Errorf("mode %v: only three bits are for the host", got.Names())
	}
	b.run(59 * time.Second)
	if Mode(b.word(t, CmdBatteryMode))&AlarmMode == 0 {
		t.Error("ALARM_MODE cleared after 59 s")
	}
	b.run(time.Second)
	if Mode(b.word(t, CmdBatteryMode))&AlarmMode != 0 {
		t.Error("ALARM_MODE stands after 60 s")
	}
}

func TestSimRaisesAlarmsAndClearsThemLater(t *testing.T) {
	b := newBench(Defaults(), func(c *plant.PackConfig) { c.Capacity, c.SoC, c.Load, c.ChargingTime = 0.1, 0.2, 20, 0.05 })
	status := func() Status { return Status(b.word(t, CmdBatteryStatus)) }
	for status()&FullyDischarged == 0 && b.world.Now() < time.Hour {
		b.run(time.Second)
	}
	want := FullyDischarged | RemainingCapacityAlarm | TerminateDischargeAlarm
	if got := status(); got&want != want {
		t.Errorf("empty: %v, want %v", got.Names(), want.Names())
	}
	b.plant.SetDraining(false)
	b.plant.SetCharging(true)
	for b.gauge.percent < 10 {
		b.run(time.Second)
	}
	if got := status(); got&FullyDischarged == 0 || got&DischargingOrResting != 0 {
		t.Errorf("at %d %%, charging: %v", b.gauge.percent, got.Names())
	}
	b.run(10 * time.Minute)
	if got := status(); got&FullyDischarged != 0 || got&FullyCharged == 0 || got&TerminateChargeAlarm == 0 {
		t.Errorf("full: %v", got.Names())
	}
	if b.word(t, CmdChargingCurrent) != 0 {
		t.Error("a full pack still asks for current")
	}
}

func TestSimEchoesSubCommandsAndObeysOnlyUnsealed(t *testing.T) {
	b := newBench(Defaults(), nil)
	if got := b.sub(t, MACDeviceType); !bytes.Equal(got, []byte{0x00, 0x45}) {
		t.Errorf("device type % x, want 00 45", got)
	}
	if bits, _ := ParseBits(b.sub(t, MACOperationStatus)); Operation(bits).Security() != Sealed {
		t.Errorf("security %v, want sealed", Operation(bits).Security())
	}
	if err := b.write(CmdManufacturerAccess, 0x0010); err != nil || b.faults.gone {
		t.Error("a sealed gauge obeyed a shutdown")
	}
	b.Seal(false)
	raw := make([]byte, 6)
	if err := b.Tx([]byte{MACOperationStatus}, raw); err != nil || raw[0] != 4 {
		t.Errorf("unsealed, command 0x54 gives % x, %v", raw, err)
	}
	if err := b.write(CmdManufacturerAccess, MACOperationStatus); err != nil {
		t.Fatal(err)
	}
	if err := b.Tx([]byte{CmdManufacturerData}, raw); err != nil || raw[0] != 4 {
		t.Errorf("ManufacturerData gives % x, %v; want four bytes without echo", raw, err)
	}
	if err := b.write(CmdManufacturerAccess, 0x0010); err != nil {
		t.Fatal(err)
	}
	if err := b.Tx([]byte{CmdVoltage}, raw[:2]); !errors.Is(err, link.NACK) {
		t.Errorf("after a shutdown: %v, want no acknowledgement", err)
	}
}

func TestSimSwapsBytesUnderARightPEC(t *testing.T) {
	b := newBench(Defaults(), nil)
	want := b.word(t, CmdVoltage)
	b.SwapBytes(true)
	if got := b.word(t, CmdVoltage); got != want>>8|want<<8 {
		t.Errorf("0x%04x, want 0x%04x swapped", got, want)
	}
}

func TestSimTruthIsJSON(t *testing.T) {
	b := newBench(Defaults(), nil)
	b.Busy(3)
	text, err := json.Marshal(b.Truth())
	if err != nil || !bytes.Contains(text, []byte(`"faults":["busy"]`)) || !bytes.Contains(text, []byte(`"soc":0.8`)) {
		t.Errorf("%s, %v", text, err)
	}
}

func FuzzSim(f *testing.F) {
	f.Add([]byte{0x09}, 3, uint8(1))
	f.Add([]byte{0x44, 2, 0x71, 0x00}, 36, uint8(2))
	f.Add([]byte{0x00, 0x10, 0x00}, 0, uint8(4))
	f.Add([]byte{0x03, 0x00, 0xe0, 0x01}, 2, uint8(5))
	f.Fuzz(func(t *testing.T, w []byte, n int, chip uint8) {
		p := Defaults()
		p.Chip = Chip(chip % uint8(len(chipNames)))
		b := newBench(p, func(c *plant.PackConfig) { c.Cells = int(chip%20) + 1 })
		b.Seal(chip&0x40 == 0)
		r := make([]byte, max(0, n)%300)
		if err := b.Tx(w, r); err != nil && !errors.Is(err, link.NACK) {
			t.Fatal(err)
		}
		if err := b.Tx([]byte{CmdBlockAccess}, r); err == nil && len(r) > 0 && r[0] > MaxMAC {
			t.Fatalf("block of %d bytes", r[0])
		}
		b.Tx(nil, r)
		b.Truth()
	})
}
