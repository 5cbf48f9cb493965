// Package smbus reads and writes words and blocks of one SMBus device on any I²C bus, with packet error
// codes, pauses and retries. It owns the frames (SMBus 2.0, 5.5), not the meaning of what is in them.
//
//	write word   S [addr W] [cmd] [low] [high] ([PEC]) P
//	read word    S [addr W] [cmd] Sr [addr R] [low] [high] ([PEC]) P
//	write block  S [addr W] [cmd] [n] [data…] ([PEC]) P
//	read block   S [addr W] [cmd] Sr [addr R] [n] [data…] ([PEC]) P
//
// Words are little-endian. The PEC covers every byte from the first address on, address bytes with their
// direction bit included. Nothing on the wire says whether a device has one: it simply answers the byte
// after the data, or leaves the bus at 0xFF.
//
// A read is one transaction with a repeated start. Since most I²C adapters cannot stop where a block's own
// length byte says, a block is read at a fixed length and cut afterwards.
package smbus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"periph.io/x/conn/v3/i2c"

	"hilgate/model/link"
)

// pauses are the waits between the attempts of one exchange, of which there are one more. Each is varied
// by a fifth, so as not to stay in step with another master of the bus.
var pauses = [...]time.Duration{2 * time.Millisecond, 10 * time.Millisecond}

// MaxBlock is the longest block that SMBus 2.0 allows. SMBus 3 allows 255, and some devices use it.
const MaxBlock = 32

// Options are the quirks of a device and of its wiring.
type Options struct {
	Gap         time.Duration // least silence between two transactions
	ExactLength bool          // the device cannot stand to be read beyond its block: ask for the length first
	Split       bool          // a stop, not a repeated start, between command and answer
}

// Device is one device on a bus. It belongs to the goroutine that owns the bus.
//
// Errors are, by errors.Is, one of package link's kinds: those of the bus, which counts them itself, and
// link.PEC and link.Short, which the Device counts in the bus's counters.
type Device struct {
	PEC bool // ask for packet error codes, check them, and send them

	bus      i2c.Bus
	addr     uint16
	options  Options
	counters *link.Counters
	last     time.Time // end of the last transaction
	out      [2 + 255 + 1]byte
	in       [1 + 255 + 1]byte
}

// New makes a device at a 7-bit address, without PEC, and does not touch the bus.
func New(bus i2c.Bus, addr uint16, o Options) *Device {
	return &Device{bus: bus, addr: addr, options: o, counters: link.Of(bus)}
}

// Counters counts what went over the device's bus.
func (d *Device) Counters() *link.Counters { return d.counters }

// ReadWord reads a word, in up to three attempts.
func (d *Device) ReadWord(ctx context.Context, cmd byte) (word uint16, err error) {
	err = d.attempts(ctx, "read word", cmd, func() error {
		raw, err := d.read(ctx, cmd, wordLen(d.PEC))
		if err != nil {
			return err
		}
		word, err = ParseWord(raw, d.addr, cmd, d.PEC)
		return d.count(err)
	})
	return word, err
}

// ReadBlock reads a block of at most limit bytes, limit at most 255, in up to three attempts. expect is how
// many data bytes it probably has: only so many are clocked, and all of limit if there turn out to be more.
// The data is valid until the next call.
func (d *Device) ReadBlock(ctx context.Context, cmd byte, expect, limit int) (data []byte, err error) {
	err = d.attempts(ctx, "read block", cmd, func() error {
		data, err = d.readBlock(ctx, cmd, expect, limit)
		return err
	})
	return data, err
}

func (d *Device) readBlock(ctx context.Context, cmd byte, expect, limit int) ([]byte, error) {
	if d.options.ExactLength {
		raw, err := d.read(ctx, cmd, 1)
		if err != nil {
			return nil, err
		}
		expect = min(int(raw[0]), limit)
	}
	raw, err := d.read(ctx, cmd, blockLen(expect, d.PEC))
	if err == nil && int(raw[0]) > expect && int(raw[0]) <= limit {
		raw, err = d.read(ctx, cmd, blockLen(limit, d.PEC))
	}
	if err != nil {
		return nil, err
	}
	data, err := ParseBlock(raw, d.addr, cmd, limit, d.PEC)
	return data, d.count(err)
}

// WriteWord writes a word, in up to three attempts.
func (d *Device) WriteWord(ctx context.Context, cmd byte, word uint16) error {
	return d.attempts(ctx, "write word", cmd, func() error {
		return d.tx(ctx, AppendWriteWord(d.out[:0], d.addr, cmd, word, d.PEC), nil)
	})
}

// WriteBlock writes a block of at most 255 bytes, in up to three attempts.
func (d *Device) WriteBlock(ctx context.Context, cmd byte, data []byte) error {
	return d.attempts(ctx, "write block", cmd, func() error {
		return d.tx(ctx, AppendWriteBlock(d.out[:0], d.addr, cmd, data, d.PEC), nil)
	})
}

// Peek reads n bytes at a command, at most 255, once and unchecked, to find out what a device does. The
// bytes are valid until the next call.
func (d *Device) Peek(ctx context.Context, cmd byte, n int) ([]byte, error) {
	raw, err := d.read(ctx, cmd, n)
	if err != nil {
		return nil, fmt.Errorf("read 0x%02x: %w", cmd, err)
	}
	return raw, nil
}

// Pause waits, and tells why if ctx ends first.
func Pause(ctx context.Context, t time.Duration) error {
	if t <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempts does an exchange until it succeeds, at most once more than there are pauses.
func (d *Device) attempts(ctx context.Context, what string, cmd byte, exchange func() error) error {
	for i := 0; ; i++ {
		err := exchange()
		if err == nil {
			return nil
		}
		if i == len(pauses) || !passing(err) {
			return fmt.Errorf("%s 0x%02x: %w", what, cmd, err)
		}
		pause := pauses[i]
		if late := Pause(ctx, pause*4/5+rand.N(pause*2/5)); late != nil {
			return fmt.Errorf("%s 0x%02x: %w; %w", what, cmd, err, late)
		}
		d.counters.Retried()
	}
}

// passing reports whether a failure may be gone at the next attempt. A stuck bus or a lost port is not:
// each attempt there costs a time-out.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch link.KindOf(err) {
	case link.NACK, link.PEC, link.Timeout, link.Short, link.Arbitration:
		return true
	}
	return false
}

func (d *Device) read(ctx context.Context, cmd byte, n int) ([]byte, error) {
	d.out[0] = cmd
	return d.in[:n], d.tx(ctx, d.out[:1], d.in[:n])
}

func (d *Device) tx(ctx context.Context, w, r []byte) error {
	if err := Pause(ctx, d.options.Gap-time.Since(d.last)); err != nil {
		return err
	}
	defer func() { d.last = time.Now() }()
	if !d.options.Split || len(r) == 0 {
		return d.bus.Tx(d.addr, w, r)
	}
	if err := d.bus.Tx(d.addr, w, nil); err != nil {
		return err
	}
	return d.bus.Tx(d.addr, nil, r)
}

func (d *Device) count(err error) error {
	d.counters.Failed(err)
	return err
}
