package sbs

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hilgate/bms"
	"hilgate/model/link"
	"hilgate/model/unit"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

var nan = math.NaN()

func TestSpecInfoScalesVoltageAndCurrent(t *testing.T) {
	s := ParseSpecInfo(0x1131)
	if s != (SpecInfo{Revision: 1, Version: 3, VScale: 1, IPScale: 1}) || !s.ClaimsPEC() || s.Word() != 0x1131 {
		t.Errorf("0x1131 is %+v", s)
	}
	scale := s.Scale()
	near(t, "voltage", float64(scale.DecodeVoltage(4120)), 41.2, 1e-9)
	near(t, "current", float64(scale.DecodeCurrent(0xf8d0)), -18.4, 1e-9)
	near(t, "charge", float64(scale.DecodeCharge(4800)), 48, 1e-9)
	near(t, "energy, scaled by both", float64(scale.DecodeEnergy(100)), 100, 1e-9)
	if got := ParseSpecInfo(0x4f31).Scale(); got != (Scale{1, 1}) {
		t.Errorf("exponents above 3 scale by %v, want 1 and 1", got)
	}
}

func TestWordsDecode(t *testing.T) {
	none := Scale{1, 1}
	for name, c := range map[string]struct{ got, want float64 }{
		"current at the end of its range": {float64(none.DecodeCurrent(0x8000)), -32.768},
		"25.05 °C":                        {float64(DecodeTemperature(2982)), 25.05},
		"below the coldest":               {float64(DecodeTemperature(2131)), nan},
		"the coldest":                     {float64(DecodeTemperature(2132)), -59.95},
		"the hottest":                     {float64(DecodeTemperature(4231)), 149.95},
		"above the hottest":               {float64(DecodeTemperature(4232)), nan},
		"minutes":                         {float64(DecodeMinutes(75)), 4500},
		"no time":                         {float64(DecodeMinutes(0xffff)), nan},
		"the longest time":                {float64(DecodeMinutes(0xfffe)), 65534 * 60},
		"63 %":                            {float64(DecodePercent(63)), 0.63},
		"120 % is full":                   {float64(DecodePercent(120)), 1},
		"121 % is none":                   {float64(DecodePercent(121)), nan},
		"health of capacity":              {float64(StateOfHealth(0x5d5f).Capacity()), 0.95},
		"health of energy":                {float64(StateOfHealth(0x5d5f).Energy()), 0.93},
	} {
		near(t, name, c.got, c.want, 1e-9)
	}
}

func TestDateIsADayOfTheCalendarOrEmpty(t *testing.T) {
	for word, want := range map[Date]string{
		0x577c: "2023-11-28", 0: "", NewDate(2024, time.February, 29): "2024-02-29", NewDate(2023, time.February, 29): "",
		NewDate(2107, time.December, 31): "2107-12-31", NewDate(1980, time.January, 1): "1980-01-01",
		Date(13<<5 | 1): "", Date(1 << 5): "", 0xffff: "",
	} {
		if got := word.String(); got != want {
			t.Errorf("0x%04x is %q, want %q", uint16(word), got, want)
		}
	}
}

func TestTextIsCutTrimmedAndPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"Robopack": "Robopack", " a b \x00junk": "a b", "": "", "\x00": "", "a\xffb\x07": "a?b?", "  \r\n": "",
	} {
		if got := DecodeText([]byte(in)); got != want {
			t.Errorf("%q decodes to %q, want %q", in, got, want)
		}
	}
}

func TestChemistryIsFoundByItsPrefix(t *testing.T) {
	for text, want := range map[string]bms.Technology{
		"LION": bms.LiIon, "lion": bms.LiIon, "\tLION": bms.LiIon, "Li-Ion": bms.LiIon, "LiP": bms.LiPo, "LIPO": bms.LiPo, "LiFe": bms.LiFe,
		"LFP": bms.LiFe, "LiMn": bms.LiMn, "NiMH": bms.NiMH, "NiCd": bms.NiCd, "PbAc": bms.VRLA, "2044": 0, "": 0, "LI": 0,
	} {
		if got := DecodeChemistry(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestFlagsHaveNames(t *testing.T) {
	for name, c := range map[string]struct{ got, want []string }{
		"status":    {Status(0x02c0).Names(), []string{"DISCHARGING", "INITIALIZED", "REMAINING_CAPACITY_ALARM"}},
		"mode":      {Mode(0xe001).Names(), []string{"INTERNAL_CHARGE_CONTROLLER", "ALARM_MODE", "CHARGER_MODE", "CAPACITY_MODE"}},
		"operation": {Operation(1<<11 | 3<<8 | 1<<1).Names(), []string{"DSG", "SS"}},
		"safety":    {Safety(1<<29 | 1<<17 | 1<<15 | 1).Names(), []string{"CUV", "HWD", "OCDL"}},
		"failure":   {Failure(1<<31 | 1<<4).Names(), []string{"SOT", "TS4"}},
		"gauging":   {Gauging(1<<6 | 1<<20).Names(), []string{"DSG", "OCVFR"}},
		"none":      {Status(0).Names(), []string{}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := Operation(0x0300).Security(); got != Sealed || got.String() != "sealed" {
		t.Errorf("security of 0x0300 is %v", got)
	}
	if got := Status(0x00a7).Code(); got != CodeUnknownError || got.String() != "UNKNOWN_ERROR" {
		t.Errorf("code of 0x00a7 is %v", got)
	}
	for name, i := range map[string]struct{ got, want Safety }{"OTF": {OTF, 1 << 16}, "CTO": {CTO, 1 << 20}, "OCDL": {OCDL, 1 << 29}} {
		if i.got != i.want {
			t.Errorf("%s is 0x%x, want 0x%x", name, i.got, i.want)
		}
	}
}

func TestStatusWithReservedBitsIsNotPlausible(t *testing.T) {
	for word, want := range map[Status]bool{0x00c0: true, 0: false, 0xffff: false, 0x04c0: false, 0x20c0: false, 0x0010: true} {
		if got := word.Plausible(); got != want {
			t.Errorf("0x%04x: %v, want %v", uint16(word), got, want)
		}
	}
}

func TestConditionFollowsTheOrderOfSBS(t *testing.T) {
	ok := condition{status: Initialized, told: true}
	with := func(change func(*condition)) condition { c := ok; change(&c); return c }
	for name, c := range map[string]struct {
		c      condition
		i      unit.Amperes
		status bms.Status
		health bms.Health
	}{
		"nothing told":              {condition{}, -1, bms.StatusUnknown, bms.HealthUnknown},
		"at rest":                   {ok, 0, bms.NotCharging, bms.Good},
		"within the deadband":       {ok, -0.05, bms.NotCharging, bms.Good},
		"sign beats flag":           {with(func(c *condition) { c.status |= DischargingOrResting }), 2, bms.Charging, bms.Good},
		"full":                      {with(func(c *condition) { c.status |= FullyCharged }), 0, bms.Full, bms.Good},
		"full but discharging":      {with(func(c *condition) { c.status |= FullyCharged }), -1, bms.Discharging, bms.Good},
		"no current, flag":          {with(func(c *condition) { c.status |= DischargingOrResting }), unit.Amperes(nan), bms.Discharging, bms.Good},
		"no current, no flag":       {ok, unit.Amperes(nan), bms.Charging, bms.Good},
		"empty is not dead":         {with(func(c *condition) { c.status |= FullyDischarged }), 0, bms.NotCharging, bms.Good},
		"failed beats hot":          {with(func(c *condition) { c.failed = true; c.safety = OTD }), 0, bms.NotCharging, bms.Dead},
		"hot by status":             {with(func(c *condition) { c.status |= OverTempAlarm }), 0, bms.NotCharging, bms.Overheat},
		"hot beats overvoltage":     {with(func(c *condition) { c.safety = OTF | COV }), 0, bms.NotCharging, bms.Overheat},
		"overcharged":               {with(func(c *condition) { c.status |= OverChargedAlarm }), 0, bms.NotCharging, bms.Overvoltage},
		"cold":                      {with(func(c *condition) { c.safety = UTC | CUV }), 0, bms.NotCharging, bms.Cold},
		"charge time-out":           {with(func(c *condition) { c.safety = CTO }), 0, bms.NotCharging, bms.SafetyTimerExpire},
		"watchdog":                  {with(func(c *condition) { c.safety = HWD }), 0, bms.NotCharging, bms.WatchdogTimerExpire},
		"any other protection":      {with(func(c *condition) { c.safety = ASCD }), 0, bms.NotCharging, bms.UnspecFailure},
		"not calibrated is healthy": {with(func(c *condition) { c.status = DischargingOrResting }), 0, bms.NotCharging, bms.Good},
	} {
		if s, h := c.c.powerSupply(c.i, 0.1), c.c.health(); s != c.status || h != c.health {
			t.Errorf("%s: %v, %v; want %v, %v", name, s, h, c.status, c.health)
		}
	}
}

func TestOnlySubCommandsThatReadAreHarmless(t *testing.T) {
	for _, sub := range []uint16{
		0x0010, 0x0011, 0x0012, 0x001d, 0x001e, 0x0020, 0x0021, 0x002a, 0x0030, 0x0033, 0x0035, 0x0037, 0x0041, 0x0f00,
		0x270c, 0x043d, 0x23a7, 0x4000, 0x5fff, 0x0414, 0x3672, 0xffff, 0x0000,
	} {
		if Harmless(sub) {
			t.Errorf("sub-command 0x%04x passes for harmless", sub)
		}
	}
	for _, sub := range []uint16{0x0001, 0x0002, 0x0006, 0x0050, 0x0057, 0x0060, 0x0064, 0x0071, 0x0075, 0x0077, 0x0078, 0x007b} {
		if !Harmless(sub) {
			t.Errorf("sub-command 0x%04x is refused", sub)
		}
	}
}

func TestEchoOfAnotherSubCommandIsMalformed(t *testing.T) {
	if _, err := ParseMAC([]byte{0x54, 0x00, 1}, 0x0051); !errors.Is(err, link.Malformed) {
		t.Errorf("%v, want malformed", err)
	}
	if _, err := ParseMAC([]byte{0x54}, 0x0054); !errors.Is(err, link.Short) {
		t.Errorf("%v, want short", err)
	}
	if data, err := ParseMAC([]byte{0x54, 0x00, 1}, 0x0054); err != nil || !bytes.Equal(data, []byte{1}) {
		t.Errorf("% x, %v; want 01", data, err)
	}
}

func TestFirmwareIsBigEndian(t *testing.T) {
	f, err := ParseFirmware([]byte{0x45, 0x00, 0x02, 0x08, 0x00, 0x21, 0x01, 0, 0, 0, 0})
	if err != nil || f.String() != "4500 v2.08 build 21" {
		t.Errorf("%v, %v", f, err)
	}
}

func TestMissingSensorIsUnknown(t *testing.T) {
	sensors, err := ParseTemperatures([]byte{0xa6, 0x0b, 0xb0, 0x0b, 0, 0, 0xba, 0x0b, 0, 0, 0, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "TS2", float64(sensors[2]), nan, 0)
	if got := sensors.Sensors(); len(got) != 2 {
		t.Errorf("%v, want two sensors", got)
	}
	near(t, "hottest", float64(hottestOf(sensors.Sensors())), 27.05, 1e-9)
	near(t, "hottest of none", float64(hottestOf(nil)), nan, 0)
}

func TestWordsSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.Uint16().Draw(t, "word")
		s := ParseSpecInfo(rapid.Uint16().Draw(t, "specification")).Scale()
		for name, again := range map[string]uint16{
			"voltage": s.EncodeVoltage(s.DecodeVoltage(w)), "current": s.EncodeCurrent(s.DecodeCurrent(w)),
			"charge": s.EncodeCharge(s.DecodeCharge(w)), "energy": s.EncodeEnergy(s.DecodeEnergy(w)),
			"specification": ParseSpecInfo(w).Word(),
		} {
			if again != w {
				t.Fatalf("%s 0x%04x comes back as 0x%04x", name, w, again)
			}
		}
		if c := DecodeTemperature(w); unit.Known(c) && EncodeTemperature(c) != w {
			t.Fatalf("temperature 0x%04x comes back as 0x%04x", w, EncodeTemperature(c))
		}
	})
}

func TestWordsSaturate(t *testing.T) {
	s := Scale{1, 1}
	for name, c := range map[string]struct{ got, want uint16 }{
		"too much voltage":      {s.EncodeVoltage(100), 0xffff},
		"negative voltage":      {s.EncodeVoltage(-1), 0},
		"too much charging":     {s.EncodeCurrent(40), 0x7fff},
		"too much discharging":  {s.EncodeCurrent(-40), 0x8000},
		"a current not known":   {s.EncodeCurrent(unit.Amperes(nan)), 0},
		"a voltage not known":   {s.EncodeVoltage(unit.Volts(nan)), 0},
		"endless discharge":     {minutes(5, 0), 0xffff},
		"the longest discharge": {minutes(5000, 0.001), 0xfffe},
		"a discharge of 2 h":    {minutes(5, 2.5), 120},
		"beyond empty":          {minutes(-1, 2.5), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: 0x%04x, want 0x%04x", name, c.got, c.want)
		}
	}
}

func FuzzParseMAC(f *testing.F) {
	f.Add([]byte{0x71, 0x00, 0x80, 0x0e}, uint16(0x0071))
	f.Add(DAStatus1{Pack: 14.84, Power: -40}.Append([]byte{0x71, 0x00}), uint16(0x0071))
	f.Fuzz(func(t *testing.T, block []byte, sub uint16) {
		data, err := ParseMAC(block, sub)
		if err != nil {
			return
		}
		if again := append(AppendMAC(nil, sub), data...); !bytes.Equal(again, block) {
			t.Fatalf("% x comes back as % x", block, again)
		}
		if d, err := ParseDAStatus1(data); err == nil && !bytes.Equal(d.Append(nil), data[:32]) {
			t.Fatalf("DAStatus1 % x comes back as % x", data, d.Append(nil))
		}
		if d, err := ParseDAStatus3(data); err == nil && !bytes.Equal(d.Append(nil), data[:18]) {
			t.Fatalf("DAStatus3 % x comes back as % x", data, d.Append(nil))
		}
		if d, err := ParseFirmware(data); err == nil && !bytes.Equal(d.Append(nil)[:7], data[:7]) {
			t.Fatalf("firmware % x comes back as % x", data, d.Append(nil))
		}
		if d, err := ParseTemperatures(data); err == nil {
			again, err := ParseTemperatures(d.Append(nil))
			if err != nil || !bytes.Equal(d.Append(nil), again.Append(nil)) {
				t.Fatalf("temperatures %v come back as %v, %v", d, again, err)
			}
		}
		if bits, err := ParseBits(data); err == nil && !bytes.HasPrefix(appendLong(nil, bits), data) {
			t.Fatalf("bits % x come back as 0x%x", data, bits)
		}
	})
}

func FuzzDecodeText(f *testing.F) {
	f.Add([]byte(" Robopack\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		text := DecodeText(b)
		if len(text) > len(b) || DecodeText([]byte(text)) != text {
			t.Fatalf("%q decodes to %q", b, text)
		}
		_ = DecodeChemistry(text)
	})
}
