package drivertest

import (
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"hilgate/drivers/sim"
	"hilgate/model/link"
)

// wire is the state of the cable between driver and simulator.
type wire struct {
	absent bool // the device has no power: nothing answers
	gone   bool // the port itself was unplugged

	// Damage at one place, counted in bytes that pass in either direction. Negative: none.
	flipAt, cutAt int
	bit           int
	passed        int
}

func newWire() *wire { return &wire{flipAt: -1, cutAt: -1} }

// arm counts the bytes from 0 again, to flip one bit of byte flipAt and to lose an answer's bytes from
// cutAt on.
func (w *wire) arm(flipAt, bit, cutAt int) {
	w.flipAt, w.bit, w.cutAt, w.passed = flipAt, bit, cutAt, 0
}

func (w *wire) damage(b []byte) {
	if n := w.flipAt - w.passed; n >= 0 && n < len(b) {
		b[n] ^= 1 << w.bit
	}
	w.passed += len(b)
}

// cut says how many of an answer's n bytes arrive. Only one answer is cut.
func (w *wire) cut(n int) int {
	if at := w.cutAt - w.passed; at >= 0 && at < n {
		w.cutAt = -1
		return at
	}
	return n
}

// tappedPeer is a serial device behind a wire that can be damaged at one place.
type tappedPeer struct {
	sim.Peer
	wire *wire
}

func (p *tappedPeer) Feed(dst, in []byte) []byte {
	if p.wire.absent {
		return dst
	}
	if p.wire.flipAt >= 0 {
		in = append([]byte(nil), in...) // the driver's own buffer
	}
	p.wire.damage(in)
	before := len(dst)
	dst = p.Peer.Feed(dst, in)
	keep := before + p.wire.cut(len(dst)-before)
	p.wire.damage(dst[before:])
	return dst[:keep]
}

// port is a serial port in virtual time: bytes take their time on the wire, and an empty Read lasts for the
// read timeout.
type port struct {
	line     *sim.Line
	wire     *wire
	baud     int
	timeout  time.Duration
	instant  bool // takes no time, for counting allocations
	counters *link.Counters
}

func (p *port) Counters() *link.Counters { return p.counters }

func (p *port) SetReadTimeout(d time.Duration) error {
	p.timeout = d
	return nil
}

func (p *port) take(d time.Duration) {
	if !p.instant {
		time.Sleep(d)
	}
}

func (p *port) bytes(n int) time.Duration {
	return time.Duration(n) * 10 * time.Second / time.Duration(p.baud)
}

func (p *port) Write(b []byte) (int, error) {
	if p.wire.gone {
		return 0, link.Closed
	}
	p.take(p.bytes(len(b)))
	return p.line.Write(b)
}

func (p *port) Read(b []byte) (int, error) {
	if p.wire.gone {
		return 0, link.Closed
	}
	n, err := p.line.Read(b)
	if err != nil {
		p.take(p.timeout)
		p.counters.Failed(err)
		return n, err
	}
	p.take(p.bytes(n))
	return n, nil
}

// tapped is an I²C bus behind a wire that can be damaged at one place.
type tapped struct {
	i2c.Bus
	wire *wire
}

func (b *tapped) Tx(addr uint16, w, r []byte) error {
	if b.wire.absent {
		return link.NACK
	}
	sent := append([]byte(nil), w...)
	b.wire.damage(sent)
	if err := b.Bus.Tx(addr, sent, r); err != nil {
		return err
	}
	keep := b.wire.cut(len(r))
	b.wire.damage(r)
	for n := keep; n < len(r); n++ {
		r[n] = 0xff // nobody drives the line any more
	}
	return nil
}

// bus is an I²C bus in virtual time.
type bus struct {
	inner   i2c.Bus
	wire    *wire
	timeout time.Duration
}

func (b *bus) String() string                  { return "drivertest" }
func (b *bus) SetSpeed(physic.Frequency) error { return nil }

func (b *bus) Tx(addr uint16, w, r []byte) error {
	if b.wire.gone {
		return link.Closed
	}
	time.Sleep(sim.WireTime(clock, len(w), len(r)))
	err := b.inner.Tx(addr, w, r)
	if link.KindOf(err) == link.Timeout && err != nil {
		time.Sleep(b.timeout)
	}
	return err
}
