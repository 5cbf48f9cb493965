package sim

import (
	"errors"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"

	"hilgate/model/link"
)

func TestWireTimeCountsEveryBit(t *testing.T) {
	for _, c := range []struct {
		name          string
		written, read int
		bits          int
	}{
		{"a read word with PEC", 1, 3, 1 + 9*2 + 1 + 9*4 + 1}, // start, address, command, start, address, 3 bytes, stop
		{"a write word", 3, 0, 1 + 9*4 + 1},
		{"a read alone", 0, 2, 1 + 9*3 + 1},
		{"an address alone", 0, 0, 1 + 9 + 1},
	} {
		if got, want := WireTime(100*physic.KiloHertz, c.written, c.read), time.Duration(c.bits)*10*time.Microsecond; got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

func TestBusAddsUpItsWireTime(t *testing.T) {
	b := NewBus(NewBench(nil), "test")
	b.Attach(0x0b, reply(1, 2, 3))
	_ = b.SetSpeed(400 * physic.KiloHertz)
	if err := b.Tx(0x0b, []byte{9}, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := b.Tx(0x0c, []byte{9}, make([]byte, 3)); !errors.Is(err, link.NACK) {
		t.Errorf("absent device: %v, want link.NACK", err)
	}
	if got, want := b.WireTime(), time.Duration(57+11)*2500*time.Nanosecond; got != want {
		t.Errorf("%v, want %v: a read word with PEC, and an address without acknowledgement", got, want)
	}
}

func TestLineAnswersInAnyChunking(t *testing.T) {
	l := NewLine(NewBench(nil), feed(func(dst, in []byte) []byte { return append(dst, in...) }))
	if _, err := l.Read(make([]byte, 1)); !errors.Is(err, link.Timeout) {
		t.Errorf("empty line: %v, want link.Timeout", err)
	}
	if _, err := l.Write([]byte("abcde")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for b := make([]byte, 2); ; {
		n, err := l.Read(b)
		if err != nil {
			break
		}
		got = append(got, b[:n]...)
	}
	if string(got) != "abcde" {
		t.Errorf("read %q, want abcde", got)
	}
}

type feed func(dst, in []byte) []byte

func (f feed) Feed(dst, in []byte) []byte { return f(dst, in) }

// reply is a device that always answers the same.
func reply(b ...byte) Target { return answers(b) }

type answers []byte

func (a answers) Tx(_, r []byte) error {
	copy(r, a)
	return nil
}
