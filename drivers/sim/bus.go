package sim

import (
	"sync/atomic"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"hilgate/model/link"
)

// DefaultClock is the bit clock of a bus whose speed nobody set: the fastest that the SMBus 2.0
// specification allows (§3.1.1, table 1: 10 to 100 kHz).
const DefaultClock = 100 * physic.KiloHertz

// Bus is an I²C bus in memory. It implements periph's i2c.BusCloser. It takes no time, and adds up how much
// it would have taken on a wire. It may be used from several goroutines; Attach and SetSpeed come first.
type Bus struct {
	bench   *Bench
	name    string
	targets map[uint16]Target
	clock   physic.Frequency
	wire    atomic.Int64 // ns
}

var _ i2c.BusCloser = (*Bus)(nil)

// NewBus makes a bus without devices.
func NewBus(b *Bench, name string) *Bus {
	return &Bus{bench: b, name: name, targets: map[uint16]Target{}, clock: DefaultClock}
}

// Attach puts a device at a 7-bit address.
func (b *Bus) Attach(addr uint16, t Target) { b.targets[addr] = t }

// String is the name of the bus.
func (b *Bus) String() string { return b.name }

// Tx does one transaction; no device at addr is link.NACK.
func (b *Bus) Tx(addr uint16, w, r []byte) (err error) {
	b.bench.Do(func() {
		t, ok := b.targets[addr]
		if !ok {
			w, r = nil, nil // nothing follows an address that nobody acknowledges
			err = link.NACK
			return
		}
		err = t.Tx(w, r)
	})
	b.wire.Add(int64(WireTime(b.clock, len(w), len(r))))
	return err
}

// SetSpeed sets the clock by which WireTime counts. Memory itself has no pace.
func (b *Bus) SetSpeed(f physic.Frequency) error {
	b.clock = f
	return nil
}

// WireTime is how long all transactions so far would have held a wire.
func (b *Bus) WireTime() time.Duration { return time.Duration(b.wire.Load()) }

// Close does nothing: the bus can be used again.
func (b *Bus) Close() error { return nil }

// WireTime is how long one transaction of so many bytes holds an I²C bus at a clock: a start, nine bits
// for the address and for each byte (the ninth is the acknowledgement), a stop, and, if it both writes and
// reads, a repeated start with the address again. The time between transactions is not in it.
func WireTime(clock physic.Frequency, written, read int) time.Duration {
	bits := 1 + 9*(1+written) + 1
	switch {
	case read > 0 && written > 0:
		bits += 1 + 9*(1+read)
	case read > 0:
		bits += 9 * read
	}
	return time.Duration(bits) * clock.Period()
}
