package roboclaw

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hilgate/model/link"
	"hilgate/motor"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCRCOfCheckText(t *testing.T) {
	if got := CRC(0, []byte("123456789")); got != 0x31c3 {
		t.Errorf("CRC = %#04x, want 0x31c3", got)
	}
}

// The packets are those that the manual and both vendor libraries print.
func TestRequestsAreAsOnTheWire(t *testing.T) {
	for _, c := range []struct {
		command Command
		values  []int64
		want    string
	}{
		{DutyBoth, []int64{16384, -16384}, "80224000c000e0df"},
		{DutyBoth, []int64{0, 0}, "8022000000009817"},
		{SpeedBoth, []int64{0, 0}, "80250000000000000000" + "3404"},
		{SpeedBoth, []int64{12000, -3400}, "802500002ee0fffff2b86d13"},
		{SetVelocityPIDM1, []int64{0x4000, 0x20000, 0x8000, 44000}, "801c0000400000020000000080000000abe05e00"},
		{SetTimeout, []int64{5}, "800e0548f0"},
		{GetVelocityPIDM1, nil, "8037"},
		{ReadEEPROM, []int64{7}, "80fc07"},
	} {
		got, err := AppendRequest(nil, Modern, 0x80, c.command, c.values...)
		if err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%v %v = %x, %v; want %s", c.command, c.values, got, err, c.want)
		}
	}
}

func TestEveryCommandSurvivesTheWayToTheUnit(t *testing.T) {
	for f := range firmwares {
		for i := range commands {
			c := Command(i)
			form := c.form(f)
			if form == nil {
				continue
			}
			values := make([]int64, len(form.args))
			for n := range values {
				values[n] = int64(n + 1)
				if form.args[n] == s16 || form.args[n] == s32 {
					values[n] = -values[n]
				}
			}
			packet, err := AppendRequest(nil, f, 0x83, c, values...)
			if err != nil {
				t.Errorf("%v, %v firmware: %v", c, f, err)
				continue
			}
			for n := range len(packet) {
				if _, took, err := ParseRequest(packet[:n], f); took != 0 || err != nil {
					t.Errorf("%v: %d of %d bytes: took %d, %v; want 0, nil", c, n, len(packet), took, err)
				}
			}
			r, n, err := ParseRequest(append(packet, 0x80), f)
			if err != nil || n != len(packet) || r.Addr != 0x83 || r.Command != c {
				t.Errorf("%v: took %d of %d, %+v, %v", c, n, len(packet), r, err)
			}
			if diff := cmp.Diff(values, r.Values[:r.N]); diff != "" {
				t.Errorf("%v: values (-want +got):\n%s", c, diff)
			}
		}
	}
}

func TestRequestRefusesWhatTheLayoutCannotHold(t *testing.T) {
	for _, c := range []struct {
		f       Firmware
		command Command
		values  []int64
		want    error
	}{
		{Modern, DutyM1, nil, ErrValues},
		{Modern, DutyM1, []int64{1, 2}, ErrValues},
		{Modern, DutyM1, []int64{32768}, ErrRange},
		{Modern, DutyM1, []int64{-32769}, ErrRange},
		{Modern, SetTimeout, []int64{256}, ErrRange},
		{Modern, SetTimeout, []int64{-1}, ErrRange},
		{Modern, SetMaxCurrentM1, []int64{1 << 32, 0}, ErrRange},
		{Modern, Command(0xee), nil, ErrUnknown},
		{Old, GetEncoders, nil, ErrUnknown},
		{Old, SetPWMMode, []int64{0, 0}, ErrValues},
	} {
		if got, err := AppendRequest(nil, c.f, 0x80, c.command, c.values...); !errors.Is(err, c.want) || len(got) != 0 {
			t.Errorf("%v firmware, %v %v = %x, %v; want %v", c.f, c.command, c.values, got, err, c.want)
		}
	}
}

func TestReplyOfAnotherRequestIsRefused(t *testing.T) {
	reply := unhex(t, "000186a0fffe79606ec9")
	var v [2]int64
	if _, err := ParseReply(v[:], Modern, []byte{0x80, byte(GetEncoders)}, reply); err != nil || v != [2]int64{100000, -100000} {
		t.Fatalf("encoders = %v, %v", v, err)
	}
	for _, request := range [][]byte{{0x80, byte(GetRawSpeeds)}, {0x81, byte(GetEncoders)}} {
		if _, err := ParseReply(v[:], Modern, request, reply); !errors.Is(err, link.CRC) {
			t.Errorf("as the reply to % x: %v, want a CRC error", request, err)
		}
	}
}

func TestRepliesOfAnotherLengthAreRefused(t *testing.T) {
	read, write := []byte{0x80, byte(GetMainVoltage)}, []byte{0x80, byte(DutyM1), 0, 0, 0, 0}
	for _, c := range []struct {
		request []byte
		reply   string
		want    error
	}{
		{read, "007ea8a3", nil},
		{read, "", link.Short},
		{read, "007ea8", link.Short},
		{read, "007ea8a300", link.Malformed},
		{read, "007ea8a2", link.CRC},
		{write, "ff", nil},
		{write, "", link.Short},
		{write, "00", link.Malformed},
		{write, "fe", link.Malformed},
		{write, "ffff", link.Malformed},
	} {
		var v [1]int64
		if _, err := ParseReply(v[:], Modern, c.request, unhex(t, c.reply)); !errors.Is(err, c.want) {
			t.Errorf("% x → %s: %v, want %v", c.request, c.reply, err, c.want)
		}
	}
}

func TestVersionIsReadUpToItsZero(t *testing.T) {
	request := []byte{0x80, byte(GetVersion)}
	reply := unhex(t, "55534220526f626f636c61772032783135612076342e322e380a00b162")
	for n := range len(reply) {
		if text, took, err := ParseVersion(request, reply[:n]); text != "" || took != 0 || err != nil {
			t.Errorf("after %d bytes: %q, %d, %v; want more to be asked for", n, text, took, err)
		}
	}
	if text, n, err := ParseVersion(request, reply); text != "USB Roboclaw 2x15a v4.2.8\n" || n != len(reply) || err != nil {
		t.Errorf("version = %q, %d, %v", text, n, err)
	}
	endless := bytes.Repeat([]byte{'a'}, maxVersion)
	if _, n, err := ParseVersion(request, endless); !errors.Is(err, ErrVersion) || n != maxVersion {
		t.Errorf("version without an end: %d, %v; want %d, %v", n, err, maxVersion, ErrVersion)
	}
}

func TestOldStatusMeansTheSameByOtherBits(t *testing.T) {
	for _, c := range []struct {
		status           Status
		errors, warnings []string
		m1, m2           motor.Faults
	}{
		{Status{Word: 0x00080001}, []string{"estop"}, []string{"main_voltage_low"},
			motor.FaultEStop | motor.WarnUndervoltage, motor.FaultEStop | motor.WarnUndervoltage},
		{Status{Word: 0x0804, Firmware: Old}, []string{"estop"}, []string{"main_voltage_low"},
			motor.FaultEStop | motor.WarnUndervoltage, motor.FaultEStop | motor.WarnUndervoltage},
		{Status{Word: 0x0001}, []string{"estop"}, nil, motor.FaultEStop, motor.FaultEStop},
		{Status{Word: 0x0001, Firmware: Old}, nil, []string{"m1_over_current"}, motor.WarnOvercurrent, 0},
		{Status{Word: 0x0080}, []string{"m2_driver_fault"}, nil, motor.FaultOther, motor.FaultDriver},
		{Status{Word: 0x0100, Firmware: Old}, []string{"m1_driver_fault"}, nil, motor.FaultDriver, motor.FaultOther},
		{Status{Word: 0xc000, Firmware: Old}, nil, nil, 0, 0},
		{Status{Word: 0x4000}, []string{"main_voltage_low"}, nil, motor.FaultUndervoltage, motor.FaultUndervoltage},
		{Status{Word: 0x1400}, []string{"m1_position", "m1_current"}, nil, motor.FaultFollowing | motor.FaultOvercurrent, motor.FaultOther},
		{Status{Word: 0x80000000}, nil, []string{"m2_over_regeneration"}, 0, motor.WarnOther},
	} {
		if diff := cmp.Diff(c.errors, c.status.Errors()); diff != "" {
			t.Errorf("%+v: errors (-want +got):\n%s", c.status, diff)
		}
		if diff := cmp.Diff(c.warnings, c.status.Warnings()); diff != "" {
			t.Errorf("%+v: warnings (-want +got):\n%s", c.status, diff)
		}
		if got := [2]motor.Faults{c.status.Faults(1), c.status.Faults(2)}; got != [2]motor.Faults{c.m1, c.m2} {
			t.Errorf("%+v: faults of M1 %v, of M2 %v; want %v, %v",
				c.status, got[0].Names(), got[1].Names(), c.m1.Names(), c.m2.Names())
		}
	}
}

func TestShortTimeoutIsNotSwitchedOff(t *testing.T) {
	for d, want := range map[string]int64{"0s": 0, "1ms": 1, "100ms": 1, "299ms": 2, "300ms": 3, "25.5s": 255, "1h": 255} {
		if got := RawTimeout(duration(t, d)); got != want {
			t.Errorf("RawTimeout(%s) = %d, want %d", d, got, want)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(unhexF("80224000c000e0df"), false)
	f.Add(unhexF("804e80"), true)
	f.Add(unhexF("800e0548f0"), true)
	f.Fuzz(func(t *testing.T, b []byte, old bool) {
		firmware := Modern
		if old {
			firmware = Old
		}
		r, n, err := ParseRequest(b, firmware)
		if n < 0 || n > len(b) {
			t.Fatalf("% x: took %d of %d bytes", b, n, len(b))
		}
		if n == 0 && err == nil && len(b) >= maxPacket {
			t.Fatalf("% x: asks for more than the longest packet", b)
		}
		if err != nil || n == 0 {
			return
		}
		again, err := AppendRequest(nil, firmware, r.Addr, r.Command, r.Values[:r.N]...)
		if err != nil || !bytes.Equal(again, b[:n]) {
			t.Fatalf("% x became %+v became % x, %v", b[:n], r, again, err)
		}
	})
}

func FuzzParseReply(f *testing.F) {
	f.Add(byte(GetEncoders), unhexF("000186a0fffe79606ec9"))
	f.Add(byte(GetVersion), unhexF("55534220526f626f636c61772032783135612076342e322e380a00b162"))
	f.Add(byte(DutyBoth), unhexF("ff"))
	f.Fuzz(func(t *testing.T, command byte, reply []byte) {
		c := Command(command)
		if !c.In(Modern) {
			return
		}
		request := []byte{0x80, command}
		if c == GetVersion {
			text, n, err := ParseVersion(request, reply)
			if err == nil && n > 0 && !bytes.Equal(AppendVersion(nil, request, text), reply[:n]) {
				t.Fatalf("% x: version %q does not survive", reply[:n], text)
			}
			return
		}
		var v [maxValues]int64
		n, err := ParseReply(v[:], Modern, request, reply)
		if err != nil {
			return
		}
		if again, err := AppendReply(nil, Modern, request, v[:n]...); err != nil || !bytes.Equal(again, reply) {
			t.Fatalf("%v: % x became %v became % x, %v", c, reply, v[:n], again, err)
		}
	})
}
