package smbus

import (
	"bytes"
	"errors"
	"testing"

	"hilgate/model/link"
)

const battery = 0x0b

func TestPECOfCheckStringIsF4(t *testing.T) {
	if got := PEC(0, []byte("123456789")...); got != 0xf4 {
		t.Errorf("PEC = 0x%02x, want 0xf4", got)
	}
	crc := byte(0)
	for i, want := range []byte{0x62, 0x16, 0x07, 0xcb, 0xd0} {
		b := []byte{0x16, 0x09, 0x17, 0xf0, 0x39}[i]
		if crc = PEC(crc, b); crc != want {
			t.Errorf("after byte %d: 0x%02x, want 0x%02x", i, crc, want)
		}
	}
}

// The frames are those of the PEC routines of Linux 6.1 and of crcmod.
func TestFramesAreThoseOfOtherImplementations(t *testing.T) {
	for name, c := range map[string]struct{ got, want []byte }{
		"read Voltage":       {AppendWord(nil, battery, 0x09, 14832, true), []byte{0xf0, 0x39, 0xd0}},
		"read Current":       {AppendWord(nil, battery, 0x0a, 0xf542, true), []byte{0x42, 0xf5, 0xe5}},
		"read BatteryStatus": {AppendWord(nil, battery, 0x16, 0x00c0, true), []byte{0xc0, 0x00, 0x33}},
		"read block":         {AppendBlock(nil, battery, 0x20, []byte("SDI"), true), []byte{3, 'S', 'D', 'I', 0x6b}},
		"write BatteryMode":  {AppendWriteWord(nil, battery, 0x03, 0x6000, true), []byte{0x03, 0x00, 0x60, 0x89}},
		"write sub-command":  {AppendWriteWord(nil, battery, 0x00, 0x0054, true), []byte{0x00, 0x54, 0x00, 0x4b}},
		"write block":        {AppendWriteBlock(nil, battery, 0x44, []byte{0x71, 0x00}, true), []byte{0x44, 2, 0x71, 0x00, 0xdb}},
		"write without PEC":  {AppendWriteWord(nil, battery, 0x03, 0x6000, false), []byte{0x03, 0x00, 0x60}},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: got % x, want % x", name, c.got, c.want)
		}
	}
}

func TestEveryDamageOfUpToThreeBitsIsFound(t *testing.T) {
	frame := AppendWord(nil, battery, 0x09, 14832, true)
	for i := range 24 {
		for j := i; j < 24; j++ {
			for k := j; k < 24; k++ {
				damaged := bytes.Clone(frame)
				for bit := range map[int]bool{i: true, j: true, k: true} {
					damaged[bit/8] ^= 1 << (bit % 8)
				}
				if _, err := ParseWord(damaged, battery, 0x09, true); !errors.Is(err, link.PEC) {
					t.Fatalf("bits %d, %d, %d of % x: %v, want PEC mismatch", i, j, k, frame, err)
				}
			}
		}
	}
}

func TestSwappedBytesEscapeOnlyWhereTheyDifferByFD(t *testing.T) {
	for w := range 1 << 16 {
		low, high := byte(w), byte(w>>8)
		frame := AppendWord(nil, battery, 0x09, uint16(w), true)
		frame[0], frame[1] = high, low
		_, err := ParseWord(frame, battery, 0x09, true)
		if escapes := low == high || low^high == 0xfd; escapes != (err == nil) {
			t.Fatalf("0x%04x swapped: %v", w, err)
		}
	}
}

func TestIdleBusIsAWordOnlyAtTwoCommands(t *testing.T) {
	for cmd := range 256 {
		for _, idle := range [][]byte{{0xff, 0xff, 0xff}, {0, 0, 0}} {
			_, err := ParseWord(idle, battery, byte(cmd), true)
			if fits := cmd == 0x01 && idle[0] == 0xff || cmd == 0xd0 && idle[0] == 0; fits != (err == nil) {
				t.Errorf("command 0x%02x, % x: %v", cmd, idle, err)
			}
		}
	}
}

func TestLengthIsCheckedBeforeThePEC(t *testing.T) {
	long := AppendBlock(nil, battery, 0x20, make([]byte, 33), true)
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"longer than allowed, code right": {long, link.Short},
		"floating":                        {bytes.Repeat([]byte{0xff}, 34), link.Short},
		"empty":                           {nil, link.Short},
		"cut":                             {[]byte{3, 'S', 'D'}, link.Short},
		"code wrong":                      {[]byte{3, 'S', 'D', 'I', 0x6c}, link.PEC},
		"good, and read beyond":           {[]byte{3, 'S', 'D', 'I', 0x6b, 0xff, 0xff}, nil},
		"of length 0":                     {AppendBlock(nil, battery, 0x20, nil, true), nil},
	} {
		if _, err := ParseBlock(c.raw, battery, 0x20, MaxBlock, true); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzParseWord(f *testing.F) {
	f.Add([]byte{0xf0, 0x39, 0xd0}, byte(0x09), true)
	f.Add([]byte{0xf0}, byte(0x09), false)
	f.Fuzz(func(t *testing.T, b []byte, cmd byte, pec bool) {
		w, err := ParseWord(b, battery, cmd, pec)
		if err != nil {
			return
		}
		if again := AppendWord(nil, battery, cmd, w, pec); !bytes.HasPrefix(b, again) {
			t.Fatalf("% x comes back as % x", b, again)
		}
	})
}

func FuzzParseBlock(f *testing.F) {
	f.Add([]byte{3, 'S', 'D', 'I', 0x6b}, byte(0x20), true)
	f.Add([]byte{0xff}, byte(0x44), false)
	f.Fuzz(func(t *testing.T, b []byte, cmd byte, pec bool) {
		data, err := ParseBlock(b, battery, cmd, MaxBlock, pec)
		if err != nil {
			return
		}
		if len(data) > MaxBlock {
			t.Fatalf("% x gives %d bytes", b, len(data))
		}
		if again := AppendBlock(nil, battery, cmd, data, pec); !bytes.HasPrefix(b, again) {
			t.Fatalf("% x comes back as % x", b, again)
		}
	})
}
