package roboclaw

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

// newUnit is a simulated unit with two motors on the bench supply.
func newUnit(t *testing.T) *bench {
	t.Helper()
	return newBench(t, DefaultParams(), twoJoints(motor.ModeEffort))
}

func (b *bench) send(hexBytes string) string {
	b.t.Helper()
	return hex.EncodeToString(b.sim.Feed(nil, unhex(b.t, hexBytes)))
}

func TestUnitReassemblesPackets(t *testing.T) {
	b := newUnit(t)
	var got []byte
	for _, c := range unhex(t, "80220000000098178015") {
		got = b.sim.Feed(got, []byte{c})
	}
	if !bytes.HasPrefix(got, []byte{ack, 'U', 'S', 'B'}) {
		t.Errorf("byte by byte: %q, want an acknowledgement and the version", got)
	}
	if got := b.send("8022000000009817" + "8022000000009817"); got != "ffff" {
		t.Errorf("two packets at once: %s, want ffff", got)
	}
}

func TestUnitIsSilentAboutWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ wrong, next, after string }{
		"WrongCRC":           {"8022000000009816", "ff", "ff"},
		"OtherAddress":       {"8118", "ff", "ff"},
		"OtherAddressWrite":  {"812200000000f3f6", "ff", "ff"},
		"UnknownCommand":     {"80ee", "", "ff"},
		"NoAddress":          {"7f", "", "ff"},
		"HalfAPacket":        {"802200", "", "ff"},
		"PartOfALongRequest": {"8043", "", "ff"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newUnit(t)
			if got := b.send(c.wrong); got != "" {
				t.Errorf("%s is answered by %s", c.wrong, got)
			}
			b.pass(9 * time.Millisecond)
			if got := b.send("8022000000009817"); got != c.next {
				t.Errorf("a packet 9 ms later is answered by %q, want %q", got, c.next)
			}
			b.pass(11 * time.Millisecond)
			if got := b.send("8022000000009817"); got != c.after {
				t.Errorf("a packet after a pause is answered by %q, want %q", got, c.after)
			}
		})
	}
}

func TestEveryCommandOfAFirmwareIsAnswered(t *testing.T) {
	for f := range firmwares {
		b := newUnit(t)
		b.sim.SetFirmware(f)
		for i := range commands {
			c := Command(i)
			form := c.form(f)
			switch {
			case form == nil:
				if got := b.sim.Feed(nil, append([]byte{b.sim.addr, byte(c)}, make([]byte, maxPacket)...)); len(got) != 0 {
					t.Errorf("%v firmware answers %v by % x", f, c, got)
				}
			case c == GetVersion:
				if got := b.sim.Feed(nil, []byte{b.sim.addr, byte(c)}); len(got) < 10 {
					t.Errorf("version: % x", got)
				}
			default:
				args := make([]int64, len(form.args))
				if c == WriteNVM || c == RestoreDefaults && f == Modern {
					args[0] = Key
				}
				v, ok := b.feed(c, args...)
				if !ok || len(v) != len(form.reply) {
					t.Errorf("%v firmware answers %v by %v, %v", f, c, v, ok)
				}
			}
			b.pass(20 * time.Millisecond)
		}
	}
}

func TestSerialTimeoutStopsBothMotorsAndDoesNotLatch(t *testing.T) {
	b := newUnit(t)
	b.read(SetTimeout, 5)
	b.read(DutyBoth, 16384, -16384)
	b.pass(400 * time.Millisecond)
	b.read(GetEncoders) // any valid packet feeds it
	b.pass(499 * time.Millisecond)
	if got := b.read(GetPWMs); !cmp.Equal(got, []int64{16384, -16384}) {
		t.Errorf("before the timeout the duties are %v", got)
	}
	b.pass(250 * time.Millisecond)
	b.send("8022000000009816") // a damaged packet does not feed it
	b.pass(251 * time.Millisecond)
	for i, a := range b.axes {
		if v, _ := a.Driven(); v != 0 {
			t.Errorf("after the timeout M%d is driven with %v V", i+1, v)
		}
	}
	if truth := b.sim.Truth().(Truth); !truth.TimedOut {
		t.Errorf("truth: %+v, want timed_out", truth)
	}
	b.read(DutyM1, 1000)
	b.pass(2 * time.Millisecond)
	if v, _ := b.axes[0].Driven(); v <= 0 {
		t.Error("the next command does not work at once")
	}
}

func TestWithoutATimeoutTheMotorsRunOn(t *testing.T) {
	b := newUnit(t)
	b.read(SpeedBoth, 20000, 20000)
	b.pass(time.Minute)
	near(t, "velocity after a minute", float64(b.axes[0].Velocity()), 20000*2*math.Pi/2048/30, 0.1)
}

func TestEncoderTellsWrapAndDirectionOnce(t *testing.T) {
	b := newUnit(t)
	b.read(SetEncoderM1, math.MaxInt32)
	b.read(SetEncoderM2, math.MinInt32)
	b.read(DutyBoth, 8000, -8000)
	b.pass(100 * time.Millisecond)
	m1, m2 := b.read(GetEncoderM1), b.read(GetEncoderM2)
	if m1[0] >= 0 || m1[1] != EncoderOverflow {
		t.Errorf("M1 went above the most: count %d, status %03b", m1[0], m1[1])
	}
	if m2[0] <= 0 || m2[1] != EncoderUnderflow|EncoderBackward {
		t.Errorf("M2 went below the least: count %d, status %03b", m2[0], m2[1])
	}
	if got := b.read(GetEncoderStatus); !cmp.Equal(got, []int64{0, EncoderBackward}) {
		t.Errorf("read again, the status is %v", got)
	}
	b.read(ResetEncoders)
	if got := b.read(GetEncoders); !cmp.Equal(got, []int64{0, 0}) {
		t.Errorf("after a reset the counts are %v", got)
	}
}

func TestOldFirmwareTellsSpeedAsMagnitudeAndDirection(t *testing.T) {
	b := newUnit(t)
	b.read(SpeedM1, -20100)
	b.pass(2 * time.Second)
	for f, sign := range map[Firmware]int64{Modern: -1, Old: 1} {
		b.sim.SetFirmware(f)
		for _, c := range []Command{GetRawSpeedM1, GetSpeedM1} {
			v := b.read(c)
			near(t, c.String(), float64(sign*v[0]), 20100, 700)
			near(t, c.String()+", signed", float64(SignedSpeed(v[0], v[1])), -20100, 700)
			if v[1] != 1 {
				t.Errorf("%v: direction %d, want 1", c, v[1])
			}
		}
	}
}

func TestDutyFollowsItsAcceleration(t *testing.T) {
	b := newUnit(t)
	b.read(DutyAccelM1, FullDuty, FullDuty*2) // full in half a second
	b.pass(250 * time.Millisecond)
	near(t, "duty", float64(Duty(b.read(GetPWMs)[0])), 0.5, 0.01)
	b.read(SetDutyAccelM2, FullDuty*10, FullDuty)
	b.read(DutyM2, FullDuty)
	b.pass(50 * time.Millisecond)
	near(t, "default acceleration", float64(Duty(b.read(GetPWMs)[1])), 0.5, 0.02)
	b.pass(time.Second)
	b.read(DutyM2, 0)
	b.pass(100 * time.Millisecond)
	near(t, "default deceleration", float64(Duty(b.read(GetPWMs)[1])), 0.9, 0.02)
}

func TestDistancesAreQueuedAndEndAtTheirCount(t *testing.T) {
	b := newUnit(t)
	if got := b.read(GetBuffers); !cmp.Equal(got, []int64{0x80, 0x80}) {
		t.Errorf("after power-up the buffers are %x", got)
	}
	b.read(SpeedAccelDistanceM1, 100000, 20000, 10000, 0)
	b.read(SpeedAccelDistanceM1, 100000, -20000, 4000, 0)
	if got := b.read(GetBuffers); !cmp.Equal(got, []int64{1, 0x80}) {
		t.Errorf("with one running and one waiting the buffers are %x", got)
	}
	b.pass(650 * time.Millisecond)
	if got := b.read(GetBuffers); got[0] != 0 {
		t.Errorf("with the last one running the buffer is %x", got[0])
	}
	b.pass(5 * time.Second)
	if got := b.read(GetBuffers); got[0] != 0x80 {
		t.Errorf("at the end the buffer is %x", got[0])
	}
	near(t, "count", float64(b.read(GetEncoders)[0]), 6000, 2500)
	near(t, "speed at the end", float64(b.read(GetRawSpeeds)[0]), 0, 400)

	for range queueLength + 10 {
		b.read(SpeedDistanceM2, 100, 1_000_000, 0)
	}
	if got := b.read(GetBuffers); got[1] != queueLength {
		t.Errorf("a full queue tells %d", got[1])
	}
	b.read(SpeedDistanceM2, 100, 1000, atOnce)
	if got := b.read(GetBuffers); got[1] != 0 {
		t.Errorf("a command at once leaves %d in the queue", got[1])
	}
}

func TestPositionsAreReachedAndHeld(t *testing.T) {
	b := newUnit(t)
	b.read(PositionBoth, 100000, 30000, 100000, 40000, 50000, 10000, 50000, -20000, atOnce)
	b.pass(4 * time.Second)
	got := b.read(GetEncoders)
	near(t, "M1", float64(got[0]), 40000, 60)
	near(t, "M2", float64(got[1]), -20000, 60)
	b.read(SpeedPositionBoth, 30000, 0, 30000, 0, atOnce)
	b.pass(4 * time.Second)
	got = b.read(GetEncoders)
	near(t, "M1 back", float64(got[0]), 0, 60)
	near(t, "M2 back", float64(got[1]), 0, 60)
}

func TestCurrentIsFoldedBack(t *testing.T) {
	b := newUnit(t)
	b.axes[0].Jam(true)
	b.read(SetMaxCurrentM1, 300, 0)
	b.read(DutyM1, FullDuty)
	b.pass(100 * time.Millisecond)
	near(t, "current", float64(Amperes(b.read(GetCurrents)[0])), 3, 0.02)
	near(t, "duty", float64(Duty(b.read(GetPWMs)[0])), 3*0.6/12, 0.001)
	b.pass(2 * time.Millisecond)
	if s := (Status{Word: uint32(b.read(GetStatus)[0])}); !cmp.Equal(s.Warnings(), []string{"m1_over_current"}) {
		t.Errorf("warnings %v", s.Warnings())
	}
}

func TestErrorsSwitchTheOutputsOff(t *testing.T) {
	for name, c := range map[string]struct {
		cause func(b *bench, on bool)
		word  uint32
		ends  bool // with its cause
	}{
		"EStop":           {func(b *bench, on bool) { b.sim.SetEStop(on) }, ErrorEStop, false},
		"Undervoltage":    {func(b *bench, on bool) { supply(b, on, 4) }, ErrorMainLow | WarningMainLow, true},
		"Overvoltage":     {func(b *bench, on bool) { supply(b, on, 36) }, ErrorMainHigh | WarningMainHigh, true},
		"Overtemperature": {func(b *bench, on bool) { heat(b, on) }, ErrorTemperature2 | WarningTemperature2, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newUnit(t)
			b.read(DutyBoth, 10000, 10000)
			c.cause(b, true)
			b.pass(5 * time.Millisecond)
			if got := uint32(b.read(GetStatus)[0]); got != c.word {
				t.Errorf("status %08x, want %08x", got, c.word)
			}
			b.read(DutyBoth, 10000, 10000)
			b.pass(5 * time.Millisecond)
			for i, a := range b.axes {
				if _, on := a.Driven(); on {
					t.Errorf("M%d has power", i+1)
				}
			}
			c.cause(b, false)
			b.pass(5 * time.Millisecond)
			if v, _ := b.axes[0].Driven(); v != 0 {
				t.Error("the motors start by themselves")
			}
			b.read(DutyBoth, 10000, 10000)
			b.pass(5 * time.Millisecond)
			if v, _ := b.axes[0].Driven(); (v != 0) != c.ends {
				t.Errorf("with the cause gone a command drives the motor with %v V", v)
			}
		})
	}
}

func supply(b *bench, on bool, v unit.Volts) {
	if !on {
		v = 12
	}
	for _, a := range b.axes {
		a.SetSupply(v)
	}
}

func heat(b *bench, on bool) {
	b.axes[1].SetTemperature(25)
	if on {
		b.axes[1].SetTemperature(110)
	}
}

func TestEStopEndsAsItsLockSays(t *testing.T) {
	for lock, want := range map[int64]struct{ byItself, byReset bool }{
		LockAutomatic: {true, true}, LockSoftware: {false, true}, LockHardware: {false, false},
	} {
		b := newUnit(t)
		b.read(SetEStopLock, lock)
		stopped := func() bool {
			b.pass(2 * time.Millisecond)
			return uint32(b.read(GetStatus)[0])&ErrorEStop != 0
		}
		b.sim.SetEStop(true)
		b.pass(2 * time.Millisecond)
		b.read(ResetEStop)
		if !stopped() {
			t.Errorf("lock %#x: the stop ended while its input was closed", lock)
		}
		b.sim.SetEStop(false)
		if got := !stopped(); got != want.byItself {
			t.Errorf("lock %#x: with the input open it ended: %v, want %v", lock, got, want.byItself)
		}
		b.read(ResetEStop)
		if got := !stopped(); got != want.byReset {
			t.Errorf("lock %#x: by command it ended: %v, want %v", lock, got, want.byReset)
		}
		b.sim.PowerCycle()
		if stopped() {
			t.Errorf("lock %#x: the stop outlived the power", lock)
		}
	}
}

func TestSettingsOutliveThePowerOnlyInTheNVM(t *testing.T) {
	b := newUnit(t)
	b.read(SetTimeout, 7)
	b.sim.PowerCycle()
	if got := b.read(GetTimeout); got[0] != 0 {
		t.Errorf("a timeout that was not stored is %d after power-up", got[0])
	}
	b.read(SetTimeout, 7)
	if _, ok := b.feed(WriteNVM, Key+1); ok {
		t.Error("a wrong key is acknowledged")
	}
	b.read(WriteNVM, Key)
	b.read(SetTimeout, 9)
	b.read(ReadNVM)
	if got := b.read(GetTimeout); got[0] != 7 {
		t.Errorf("read back from the NVM the timeout is %d, want 7", got[0])
	}
	b.sim.PowerCycle()
	if got := b.read(GetTimeout); got[0] != 7 {
		t.Errorf("a stored timeout is %d after power-up, want 7", got[0])
	}
	if _, ok := b.feed(RestoreDefaults, 0); ok {
		t.Error("a wrong key is acknowledged")
	}
	b.read(RestoreDefaults, Key)
	if got := b.read(GetTimeout); got[0] != 0 {
		t.Errorf("from the factory the timeout is %d, want 0", got[0])
	}
}

func TestSettingsReadBackInTheirOwnOrder(t *testing.T) {
	for f, cases := range map[Firmware][]struct {
		set, get   Command
		args, want []int64
	}{
		Modern: {
			{SetVelocityPIDM1, GetVelocityPIDM1, []int64{1, 2, 3, 4}, []int64{2, 3, 1, 4}},
			{SetVelocityPIDM2, GetVelocityPIDM2, []int64{1, 2, 3, 4}, []int64{2, 3, 1, 4}},
			{SetPositionPIDM1, GetPositionPIDM1, []int64{1, 2, 3, 4, 5, -6, 7}, []int64{2, 3, 1, 4, 5, -6, 7}},
			{SetPositionPIDM2, GetPositionPIDM2, []int64{1, 2, 3, 4, 5, -6, 7}, []int64{2, 3, 1, 4, 5, -6, 7}},
			{SetMainLimits, GetMainLimits, []int64{70, 300, 9}, []int64{70, 300, 9}},
			{SetLogicLimits, GetLogicLimits, []int64{55, 120}, []int64{55, 120}},
			{SetDutyAccelM1, GetDutyAccels, []int64{1, 2}, []int64{1, 2, 0, 0}},
			{SetDutyAccelM2, GetDutyAccels, []int64{3, 4}, []int64{1, 2, 3, 4}},
			{SetPositionSpeedM2, GetPositionSpeeds, []int64{5}, []int64{2000, 5}},
			{SetPins, GetPins, []int64{1, 2, 3, 4, 5}, []int64{1, 2, 3, 4, 5}},
			{SetSpeedErrorLimit, GetSpeedErrorLimit, []int64{5, 6}, []int64{5, 6}},
			{SetPositionErrorLimit, GetPositionErrorLimit, []int64{5, 6}, []int64{5, 6}},
			{SetWindingM1, GetWindingM1, []int64{5, 6}, []int64{5, 6}},
			{SetMaxCurrentM2, GetMaxCurrentM2, []int64{500, 0}, []int64{500, 0}},
			{SetPWMMode, GetPWMMode, []int64{1, 0}, []int64{1, 0}},
			{SetEncoderModeM2, GetEncoderModes, []int64{1}, []int64{0, 1}},
			{SetConfig, GetConfig, []int64{0x1234}, []int64{0x1234}},
			{SetEStopLock, GetEStopLock, []int64{LockSoftware}, []int64{LockSoftware}},
		},
		Old: {
			{SetMainLimits, GetMainLimits, []int64{70, 300}, []int64{70, 300}},
			{SetPins, GetPins, []int64{1, 2, 3}, []int64{1, 2, 3}},
			{SetSpeedErrorLimit, GetSpeedErrorLimit, []int64{70000, 6}, []int64{70000, 6}},
			{SetPWMMode, GetPWMMode, []int64{1}, []int64{1}},
		},
	} {
		b := newUnit(t)
		b.sim.SetFirmware(f)
		for _, c := range cases {
			b.read(c.set, c.args...)
			if diff := cmp.Diff(c.want, b.read(c.get)); diff != "" {
				t.Errorf("%v firmware, %v (-want +got):\n%s", f, c.get, diff)
			}
		}
	}
	b := newUnit(t)
	b.read(WriteEEPROM, 255, 0xbeef)
	if got := b.read(ReadEEPROM, 255); got[0] != 0xbeef {
		t.Errorf("EEPROM word = %#x", got[0])
	}
}

func TestReversedMotorAndEncoderCountAsBefore(t *testing.T) {
	b := newUnit(t)
	b.read(SetEncoderModeM1, motorReversed|encoderReversed)
	b.read(DutyM1, 8000)
	b.pass(200 * time.Millisecond)
	if x, n := b.axes[0].Position(), b.read(GetEncoders)[0]; x >= 0 || n <= 0 {
		t.Errorf("the joint is at %v, the count at %d; want backwards and forwards", x, n)
	}
}

func TestSignMagnitudeCoastsAndLockedAntiPhaseBrakes(t *testing.T) {
	b := newUnit(t)
	b.read(SetPWMMode, 1, 0)
	b.read(DutyBoth, 20000, 20000)
	b.pass(time.Second)
	b.read(DutyBoth, 0, 0)
	b.pass(100 * time.Millisecond)
	if coasts, brakes := b.axes[0].Velocity(), b.axes[1].Velocity(); coasts < 2*brakes {
		t.Errorf("0.1 s later: %v rad/s coasting, %v rad/s braking", coasts, brakes)
	}
}

func TestLegacyCommandsAndMixedDrive(t *testing.T) {
	b := newUnit(t)
	duties := func(want ...float64) {
		t.Helper()
		got := b.read(GetPWMs)
		for i := range want {
			near(t, "duty", float64(Duty(got[i])), want[i], 0.01)
		}
	}
	b.read(ForwardM1, 127)
	b.read(BackwardM2, 64)
	duties(1, -0.5)
	b.read(BackwardM1, 127)
	b.read(ForwardM2, 127)
	duties(-1, 1)
	b.read(DriveM1, 64)
	b.read(DriveM2, 127)
	duties(0, 1)
	b.read(DutyBoth, 0, 0)
	b.read(MixedForward, 64)
	duties(0, 0)
	b.read(MixedRight, 32)
	duties(0.75, 0.25)
	b.read(MixedDrive, 64)
	b.read(MixedTurn, 0)
	duties(-1, 1)
	b.read(MixedBackward, 127)
	b.read(MixedLeft, 0)
	duties(-1, -1)
}

func TestBulkStatusTellsTheWholeUnit(t *testing.T) {
	b := newUnit(t)
	b.read(SpeedBoth, 20000, -10000)
	b.pass(2 * time.Second)
	s := ParseBulk(b.read(GetBulk))
	if s.Tick != 2000 || s.Status.Word != 0 || s.Main != 12 || s.Logic != 5 || s.SetSpeed != [2]int32{20000, -10000} {
		t.Errorf("bulk status %+v", s)
	}
	near(t, "speed", float64(s.Speed[0]), 20000, 500)
	near(t, "duty", float64(s.Duty[1]), float64(Duty(b.read(GetPWMs)[1])), 1e-9)
	if got := b.read(GetEncoders); int64(s.Count[0]) != got[0] || int64(s.Count[1]) != got[1] {
		t.Errorf("counts %v, want %v", s.Count, got)
	}
}

func TestTruthIsJSON(t *testing.T) {
	b := newUnit(t)
	b.read(SetTimeout, 3)
	b.read(DutyM1, 16384)
	b.pass(20 * time.Millisecond)
	src, err := json.Marshal(b.sim.Truth())
	if err != nil {
		t.Fatal(err)
	}
	var got Truth
	if err := json.Unmarshal(src, &got); err != nil {
		t.Fatal(err)
	}
	if got.PacketAge != 0.02 || got.Timeout != 0.3 || got.Packets.Valid != 2 || got.Motors[0].Output < 5 ||
		got.Motors[0].Controlled != "duty" || got.Errors == nil {
		t.Errorf("truth %s", src)
	}
}

func TestUnitWithoutMotorsAnswers(t *testing.T) {
	s := NewSim(DefaultParams(), nil, nil)
	for _, c := range []Command{GetEncoders, GetCurrents, GetMainVoltage, GetBulk, GetTemperatures} {
		if _, ok := feed(t, s, c); !ok {
			t.Errorf("%v: no answer", c)
		}
	}
	s.PowerCycle()
}

// A client over a line on which no time passes while it waits comes to its senses at the next cycle.
func TestCyclesOfTenMillisecondsAreAPause(t *testing.T) {
	b := newUnit(t).arm()
	b.timeout = 0
	for _, half := range []string{"802200", "80ee", "12", "8043000000000000"} {
		b.send(half)
		if err := b.group.Read(b.fb); err == nil {
			t.Errorf("after %s the next request is answered", half)
		}
		b.pass(10 * time.Millisecond)
		if err := b.group.Read(b.fb); err != nil {
			t.Errorf("10 ms after %s: %v", half, err)
		}
	}
}

// Whatever arrives, the unit lives on, and a motor moves only after a whole packet with the right CRC.
func FuzzSim(f *testing.F) {
	f.Add(unhexF("80224000c000e0df"), uint8(3), false)
	f.Add(unhexF("80224000c000e0de"), uint8(0), true)
	f.Add(unhexF("8025000000002222"), uint8(30), false)
	f.Fuzz(func(t *testing.T, b []byte, wait uint8, old bool) {
		if len(b) > 1<<12 {
			return
		}
		w := new(plant.World)
		joints := twoJoints(motor.ModeEffort)
		var axes []*plant.Joint
		for range joints {
			axes = append(axes, w.AddJoint(plant.DefaultJoint(), nil))
		}
		s := NewSim(DefaultParams(), joints, axes)
		if old {
			s.SetFirmware(Old)
		}
		half := len(b) / 2
		answer := s.Feed(nil, b[:half])
		w.AdvanceTo(time.Duration(wait) * time.Millisecond)
		answer = s.Feed(answer, b[half:])
		w.AdvanceTo(w.Now() + 20*time.Millisecond)
		if len(answer) > len(b)*maxReply {
			t.Fatalf("%d bytes are answered by %d", len(b), len(answer))
		}
		if cap(s.packet) > 2*maxPacket {
			t.Fatalf("a packet of %d bytes is held", cap(s.packet))
		}
		if sealed(b) {
			return
		}
		for i, a := range axes {
			if v, _ := a.Driven(); v != 0 {
				t.Fatalf("% x drives M%d with %v V, and holds no valid packet", b, i+1, v)
			}
		}
		if _, err := json.Marshal(s.Truth()); err != nil {
			t.Fatal(err)
		}
	})
}

// sealed reports whether any stretch of b that begins with the unit's address ends with its own CRC.
func sealed(b []byte) bool {
	for i, c := range b {
		if c != FirstAddress {
			continue
		}
		for n := 4; n <= maxPacket && i+n <= len(b); n++ {
			if CRC(0, b[i:i+n-2]) == binary.BigEndian.Uint16(b[i+n-2:]) {
				return true
			}
		}
	}
	return false
}
