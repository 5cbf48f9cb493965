// Package sim is what every simulator of a device hangs on: memory lines and buses that a driver opens
// instead of a real port, PTYs and I²C device nodes that other people's software can open, the pace of the
// wire, and faults on purpose.
//
// A simulator itself is in its driver's folder: it is a Peer or a Target, answers bytes with bytes, and
// knows neither time nor goroutines. The Bench gives it both.
package sim

import (
	"io"
	"sync"

	"hilgate/model/link"
)

// Peer is a serial device seen from the wire.
type Peer interface {
	// Feed takes bytes that arrived, in any chunking, and appends what the device answers at once.
	Feed(dst, in []byte) []byte
}

// Target is an I²C device seen from the wire.
type Target interface {
	// Tx is one transaction at the device's address: w is written, then, after a repeated start, r is
	// filled. Either may be empty. The error is link.NACK if the device does not acknowledge.
	Tx(w, r []byte) error
}

// Bench serialises a world and the simulators that stand in it: one lock, and one way for time to pass.
type Bench struct {
	mu      sync.Mutex
	advance func()
}

// NewBench makes a bench. advance, called with the bench locked, brings the world to the present; nil
// leaves time to whoever holds the world.
func NewBench(advance func()) *Bench { return &Bench{advance: advance} }

// Do brings the world to the present and runs f alone in it.
func (b *Bench) Do(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.advance != nil {
		b.advance()
	}
	f()
}

// Line is a serial port in memory: Write feeds the peer, Read drains its answer. An empty Read is
// link.Timeout at once, since nothing more can come. It belongs to one goroutine.
type Line struct {
	bench  *Bench
	peer   Peer
	answer []byte
	spare  []byte
}

// NewLine joins a port to a peer.
func NewLine(b *Bench, p Peer) *Line { return &Line{bench: b, peer: p} }

var _ io.ReadWriteCloser = (*Line)(nil)

// Write hands p to the peer.
func (l *Line) Write(p []byte) (int, error) {
	l.bench.mu.Lock() // not Do: a closure would allocate in the control tick
	defer l.bench.mu.Unlock()
	if l.bench.advance != nil {
		l.bench.advance()
	}
	l.answer = l.peer.Feed(l.answer, p)
	return len(p), nil
}

// Read takes what the peer has answered.
func (l *Line) Read(p []byte) (int, error) {
	if len(l.answer) == 0 {
		return 0, link.Timeout
	}
	n := copy(p, l.answer)
	l.spare = append(l.spare[:0], l.answer[n:]...)
	l.answer, l.spare = l.spare, l.answer[:0]
	return n, nil
}

// Close does nothing: the line can be used again.
func (l *Line) Close() error { return nil }
