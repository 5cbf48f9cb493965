package smbus

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"periph.io/x/conn/v3/physic"

	"hilgate/model/link"
)

// bus plays a device that has one block or word a command; step, if set, may spoil what it does.
type bus struct {
	counters link.Counters
	replies  map[byte][]byte
	step     func(n int, r []byte) error
	wrote    [][]byte
	lengths  []int
	times    []time.Time
	command  byte
}

func (b *bus) String() string                  { return "test" }
func (b *bus) SetSpeed(physic.Frequency) error { return nil }
func (b *bus) Counters() *link.Counters        { return &b.counters }

func (b *bus) Tx(addr uint16, w, r []byte) error {
	b.wrote = append(b.wrote, bytes.Clone(w))
	b.lengths = append(b.lengths, len(r))
	b.times = append(b.times, time.Now())
	if len(w) > 0 {
		b.command = w[0]
	}
	for i := copy(r, b.replies[b.command]); i < len(r); i++ {
		r[i] = 0xff
	}
	if b.step != nil {
		return b.step(len(b.wrote)-1, r)
	}
	return nil
}

func failing(errs ...error) func(int, []byte) error {
	return func(n int, r []byte) error {
		if n < len(errs) {
			return errs[n]
		}
		return nil
	}
}

func TestReadIsTriedThreeTimesWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{replies: map[byte][]byte{0x09: AppendWord(nil, battery, 0x09, 14832, true)}, step: failing(link.NACK, link.Timeout)}
		d := New(b, battery, Options{})
		d.PEC = true
		w, err := d.ReadWord(t.Context(), 0x09)
		if w != 14832 || err != nil {
			t.Fatalf("read %d, %v; want 14832", w, err)
		}
		for i, want := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond} {
			if got := b.times[i+1].Sub(b.times[i]); got < want*8/10 || got > want*12/10 {
				t.Errorf("pause %d took %v, want %v within a fifth", i, got, want)
			}
		}
		if got := b.counters.Counts().Retries; got != 2 {
			t.Errorf("%d retries counted, want 2", got)
		}
	})
}

func TestThirdFailureIsFinalAndKeepsItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{step: failing(link.NACK, link.NACK, link.NACK)}
		if _, err := New(b, battery, Options{}).ReadWord(t.Context(), 0x09); !errors.Is(err, link.NACK) || len(b.wrote) != 3 {
			t.Errorf("%v after %d attempts; want no acknowledgement after 3", err, len(b.wrote))
		}
		if n := b.counters.Counts().Failures[link.NACK]; n != 0 {
			t.Errorf("%d refusals counted; the bus counts its own", n)
		}
	})
}

func TestLostPortAndStuckBusAreNotTriedAgain(t *testing.T) {
	for _, kind := range []link.Kind{link.Closed, link.IO, link.Stuck} {
		b := &bus{step: failing(kind)}
		if err := New(b, battery, Options{}).WriteWord(t.Context(), 3, 0); !errors.Is(err, kind) || len(b.wrote) != 1 {
			t.Errorf("%v after %d attempts, want %v after 1", err, len(b.wrote), kind)
		}
	}
}

func TestDamageIsCountedAndReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{replies: map[byte][]byte{0x20: AppendBlock(nil, battery, 0x20, []byte("SDI"), true)}}
		b.step = func(n int, r []byte) error {
			switch n {
			case 0:
				r[2] ^= 4
			case 1:
				r[0] = 99
			}
			return nil
		}
		d := New(b, battery, Options{})
		d.PEC = true
		data, err := d.ReadBlock(t.Context(), 0x20, 32, 32)
		counts := b.counters.Counts()
		if string(data) != "SDI" || err != nil || counts.Failures[link.PEC] != 1 || counts.Failures[link.Short] != 1 {
			t.Errorf("read %q, %v; PEC %d, short %d; want SDI after one of each",
				data, err, counts.Failures[link.PEC], counts.Failures[link.Short])
		}
	})
}

func TestBlockIsReadAtTheExpectedLengthOrAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			expect int
			exact  bool
			want   []int // bytes read by transaction
		}{
			"as long as expected":   {5, false, []int{7}},
			"shorter than expected": {32, false, []int{34}},
			"longer than expected":  {2, false, []int{4, 34}},
			"asked for its length":  {32, true, []int{1, 7}},
		} {
			b := &bus{replies: map[byte][]byte{0x21: AppendBlock(nil, battery, 0x21, []byte("abcde"), true)}}
			d := New(b, battery, Options{ExactLength: c.exact})
			d.PEC = true
			data, err := d.ReadBlock(t.Context(), 0x21, c.expect, 32)
			if string(data) != "abcde" || err != nil || !slices.Equal(b.lengths, c.want) {
				t.Errorf("%s: read %q, %v in %v bytes, want abcde in %v", name, data, err, b.lengths, c.want)
			}
		}
	})
}

func TestSplitReadHasAStopInBetween(t *testing.T) {
	b := &bus{replies: map[byte][]byte{0x09: {0xf0, 0x39}}}
	w, err := New(b, battery, Options{Split: true}).ReadWord(t.Context(), 0x09)
	if w != 14832 || err != nil || len(b.wrote) != 2 || b.lengths[0] != 0 || len(b.wrote[1]) != 0 {
		t.Errorf("read %d, %v in % x, %v", w, err, b.wrote, b.lengths)
	}
}

func TestGapIsLeftBetweenTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{}
		d := New(b, battery, Options{Gap: time.Millisecond})
		for range 3 {
			if err := d.WriteBlock(t.Context(), 0x44, []byte{0x54, 0}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if err := d.WriteWord(t.Context(), 0, 0); err != nil {
			t.Fatal(err)
		}
		var gaps []time.Duration
		for i := range b.times[1:] {
			gaps = append(gaps, b.times[i+1].Sub(b.times[i]))
		}
		if want := []time.Duration{time.Millisecond, time.Millisecond, time.Second}; !slices.Equal(gaps, want) {
			t.Errorf("gaps %v, want %v", gaps, want)
		}
	})
}

func TestEndOfContextEndsTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &bus{step: func(int, []byte) error { cancel(); return link.NACK }}
		_, err := New(b, battery, Options{}).ReadWord(ctx, 0x09)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, link.NACK) || len(b.wrote) != 1 {
			t.Errorf("%v after %d attempts; want both causes after 1", err, len(b.wrote))
		}
	})
}

func TestPeekDoesNotCheckOrRepeat(t *testing.T) {
	b := &bus{replies: map[byte][]byte{0x1a: {0x31, 0x00}}}
	d := New(b, battery, Options{})
	d.PEC = true
	raw, err := d.Peek(t.Context(), 0x1a, 3)
	if !bytes.Equal(raw, []byte{0x31, 0x00, 0xff}) || err != nil || len(b.wrote) != 1 {
		t.Errorf("peeked % x, %v in %d transactions", raw, err, len(b.wrote))
	}
}

// One bit in a hundred is damaged, which leaves one frame of four whole.
func TestNoDamagedWordIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		b := &bus{replies: map[byte][]byte{}}
		b.step = func(_ int, r []byte) error {
			for bit := range 8 * len(r) {
				if random.IntN(100) == 0 {
					r[bit/8] ^= 1 << (bit % 8)
				}
			}
			return nil
		}
		d := New(b, battery, Options{})
		d.PEC = true
		good := 0
		for range 50_000 {
			want := uint16(random.Uint32())
			b.replies[0x09] = AppendWord(b.replies[0x09][:0], battery, 0x09, want, true)
			got, err := d.ReadWord(t.Context(), 0x09)
			if err == nil {
				good++
				if got != want {
					t.Fatalf("read 0x%04x, device said 0x%04x", got, want)
				}
			}
			b.wrote, b.lengths, b.times = b.wrote[:0], b.lengths[:0], b.times[:0]
		}
		t.Logf("%d of 50000 words read, %d frames found damaged", good, b.counters.Counts().Failures[link.PEC])
	})
}

func TestReadingAWordAllocatesNothing(t *testing.T) {
	d := New(quiet{}, battery, Options{})
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := d.ReadWord(ctx, 0x09); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a word allocates %v times, want 0", n)
	}
}

type quiet struct{}

func (quiet) String() string                    { return "quiet" }
func (quiet) SetSpeed(physic.Frequency) error   { return nil }
func (quiet) Tx(addr uint16, w, r []byte) error { return nil }
