// Package line opens a bus from its address, and makes what the operating system says about it into package
// link's kinds and counts.
//
// An address is one of
//
//	/dev/i2c-1, I2C1, 1        an I²C bus, by path, or by any name or number that periph's host gives it
//	/dev/ttyAMA0, COM3         a serial port
//	sim:                       what the caller gives: a bus or a line in memory
//	pty:PATH                   a pseudo terminal, opened as any other serial port
//
// An I²C transfer on Linux is one ioctl, I2C_RDWR, of one or two messages (linux/i2c-dev.h, linux/i2c.h):
//
//	request  [msgs pointer] [nmsgs u32]                                16 bytes, 8 for a 32-bit caller
//	message  [addr u16] [flags u16, 1 = read] [len u16] [pad] [buf pointer]   16 bytes, 12 for a 32-bit caller
//
// Serial ports are go.bug.st/serial's, 8 bits, no parity, 1 stop bit.
package line

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"periph.io/x/conn/v3/i2c"

	"hilgate/model/link"
)

// DefaultTimeout is the timeout of a bus for which Options names none. A device on SMBus gives up a
// transaction after 25 to 35 ms (SMBus 2.0, §3.1.1), so what takes longer than this has hung.
const DefaultTimeout = 100 * time.Millisecond

// Options say how a bus is opened.
type Options struct {
	Baud    int           // of a serial port, bit/s; 0 is 115200
	Timeout time.Duration // of one I²C transfer or one serial Read; 0 is DefaultTimeout

	// Counters counts what goes over the bus, across reopenings; nil makes new ones.
	Counters *link.Counters

	// Bus and Wire are what "sim:" opens: an I²C bus, or the driver's end of a serial line.
	Bus  i2c.BusCloser
	Wire io.ReadWriteCloser
}

func (o Options) withDefaults() Options {
	if o.Baud == 0 {
		o.Baud = 115200
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Counters == nil {
		o.Counters = new(link.Counters)
	}
	return o
}

const (
	memory = "sim:"
	pseudo = "pty:"
)

// I2C is an open I²C bus. It may be used from several goroutines, which take turns.
type I2C interface {
	i2c.BusCloser
	Counters() *link.Counters
}

// OpenI2C opens an I²C bus. The error is, by errors.Is, link.Closed if there is no such bus, and says what
// there is; if the bus is there but may not be used, it says what stands in the way.
func OpenI2C(device string, o Options) (I2C, error) {
	o = o.withDefaults()
	if device == memory {
		if o.Bus == nil {
			return nil, fmt.Errorf("%s: there is no simulated I²C bus behind it", device)
		}
		o.Counters.Opened()
		return &memoryI2C{BusCloser: o.Bus, counters: o.Counters}, nil
	}
	path := device
	if !strings.HasPrefix(device, "/") {
		var err error
		if path, err = findI2C(device); err != nil {
			return nil, err
		}
	}
	bus, err := openI2C(path, o)
	if err != nil {
		return nil, err
	}
	o.Counters.Opened()
	return bus, nil
}

// Port is an open serial port. It belongs to one goroutine; only Close may come from another. Read and
// Write allocate nothing.
type Port interface {
	// Read waits for at least one byte. After the read timeout it returns an error that is link.Timeout and
	// os.ErrDeadlineExceeded; link.Closed means that the port is gone.
	//
	// Write refuses with link.Stuck what would make more than Unanswered bytes in a row without one byte
	// read: see there.
	io.ReadWriteCloser

	// SetReadTimeout sets how long Read waits from now on. It is no more than an assignment.
	SetReadTimeout(d time.Duration) error

	// ResetInputBuffer drops what has come in and was not read.
	ResetInputBuffer() error

	Counters() *link.Counters
}

// OpenSerial opens a serial port for this process alone. The error is, by errors.Is, link.Closed if there
// is no such port, and says what there is; if the port is there but may not be used, it says what stands in
// the way.
func OpenSerial(device string, o Options) (Port, error) {
	o = o.withDefaults()
	if device == memory {
		if o.Wire == nil {
			return nil, fmt.Errorf("%s: there is no simulated serial line behind it", device)
		}
		o.Counters.Opened()
		return newPort(device, memoryPort{o.Wire}, nil, o), nil
	}
	p, err := openSerial(strings.TrimPrefix(device, pseudo), o)
	if err != nil {
		return nil, err
	}
	o.Counters.Opened()
	return p, nil
}

// refused explains why a device node could not be opened. exists lists what could be opened instead; group
// is the one that owns such nodes on Debian.
func refused(path, what, group string, err error, exists func() []string) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &openError{fmt.Sprintf("there is no %s %s: %s", what, path, found(exists())), link.Closed, err}
	case errors.Is(err, os.ErrPermission):
		if owner := groupOf(path); owner != "" {
			group = owner
		}
		return &openError{fmt.Sprintf("no permission for %s: its user must be in group %s (usermod -aG %s USER, then log in anew)",
			path, group, group), link.IO, err}
	}
	return &openError{fmt.Sprintf("%s does not open: %v", path, err), kindOf(err), err}
}

func found(names []string) string {
	if len(names) == 0 {
		return "none is found on this machine"
	}
	return "found are " + strings.Join(names, ", ")
}

// openError is a bus that could not be opened: a text for people, a kind for the counters, and the cause.
type openError struct {
	text  string
	kind  link.Kind
	cause error
}

func (e *openError) Error() string   { return e.text }
func (e *openError) Unwrap() []error { return []error{e.kind, e.cause} }
