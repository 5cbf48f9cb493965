package line

import (
	"errors"
	"io"
	"time"

	"periph.io/x/conn/v3/i2c"

	"hilgate/model/link"
)

// memoryI2C counts what goes over a bus in memory.
type memoryI2C struct {
	i2c.BusCloser
	counters *link.Counters
}

func (b *memoryI2C) Counters() *link.Counters { return b.counters }

func (b *memoryI2C) Tx(addr uint16, w, r []byte) error {
	start := time.Now()
	err := b.BusCloser.Tx(addr, w, r)
	took := time.Since(start).Seconds()
	if err != nil {
		b.counters.Exchanged(0, 0, took)
		b.counters.Failed(err)
		return err
	}
	b.counters.Exchanged(len(w), len(r), took)
	return nil
}

// memoryPort gives a line in memory the shape of a serial port: a Read that has nothing to give is 0 bytes
// without an error, and at once, since nothing more can come.
type memoryPort struct{ io.ReadWriteCloser }

func (p memoryPort) Read(b []byte) (int, error) {
	n, err := p.ReadWriteCloser.Read(b)
	if err != nil && errors.Is(err, link.Timeout) {
		return 0, nil
	}
	return n, err
}

func (p memoryPort) SetReadTimeout(d time.Duration) error {
	if t, ok := p.ReadWriteCloser.(interface{ SetReadTimeout(time.Duration) error }); ok {
		return t.SetReadTimeout(d)
	}
	return nil
}

func (p memoryPort) ResetInputBuffer() error {
	if r, ok := p.ReadWriteCloser.(interface{ ResetInputBuffer() error }); ok {
		return r.ResetInputBuffer()
	}
	return nil
}

func (p memoryPort) ResetOutputBuffer() error { return nil }
