package line

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"go.bug.st/serial"

	"hilgate/model/link"
)

// Unanswered is how many bytes in a row a port takes without one byte coming back. A system call that
// writes to a serial port has no deadline and blocks once the kernel's buffer (4 kB and more) is full,
// which happens when the other side hangs; nothing can wake it then. So the write that would exceed this
// bound is refused with link.Stuck, what the kernel still holds unsent is discarded, and counting begins
// anew: the kernel never holds more than this, and a device that comes back is heard.
const Unanswered = 512

// serialPort is what go.bug.st/serial and a line in memory have in common.
type serialPort interface {
	io.ReadWriteCloser
	SetReadTimeout(time.Duration) error
	ResetInputBuffer() error
	ResetOutputBuffer() error
}

// port counts, bounds and names what happens on a serial port. A transaction is a Write and the Reads up
// to the next one.
type port struct {
	device   string
	serial   serialPort
	node     io.Closer // holds the lock on the device; nil if there is none
	counters *link.Counters

	unanswered     int
	written, read  int // of the transaction that runs
	began, touched time.Time
	late           bool // its timeout has been counted
}

func newPort(device string, s serialPort, node io.Closer, o Options) *port {
	return &port{device: device, serial: s, node: node, counters: o.Counters}
}

func (p *port) Counters() *link.Counters { return p.counters }

func (p *port) SetReadTimeout(d time.Duration) error { return p.serial.SetReadTimeout(d) }

func (p *port) ResetInputBuffer() error {
	return p.failed("drop input", p.serial.ResetInputBuffer())
}

func (p *port) Write(b []byte) (int, error) {
	p.settle()
	p.began, p.touched = time.Now(), time.Time{}
	if p.unanswered+len(b) > Unanswered {
		p.unanswered = 0
		if err := p.serial.ResetOutputBuffer(); err != nil {
			return 0, p.failed("discard output", err)
		}
		p.counters.Failed(errStuck)
		return 0, errStuck
	}
	p.unanswered += len(b)
	sent := 0
	for sent < len(b) { // a signal can end the system call early
		n, err := p.serial.Write(b[sent:])
		sent += n
		p.written = sent
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return sent, p.failed("write", err)
		}
		if n == 0 && err == nil {
			return sent, p.failed("write", io.ErrShortWrite)
		}
	}
	p.touched = time.Now()
	return sent, nil
}

func (p *port) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := p.serial.Read(b)
	if err != nil {
		return n, p.failed("read", err)
	}
	p.touched = time.Now()
	if n == 0 {
		if !p.late { // once a transaction: a driver may well read on to see the line quiet
			p.late = true
			p.counters.Failed(errTimeout)
		}
		return 0, errTimeout
	}
	p.read += n
	p.unanswered = 0
	return n, nil
}

// Close closes the port and lets go of its lock.
func (p *port) Close() error {
	p.settle()
	err := p.serial.Close()
	if p.node != nil {
		err = errors.Join(err, p.node.Close())
	}
	return err
}

// settle counts the transaction that ends.
func (p *port) settle() {
	if p.written > 0 {
		p.counters.Exchanged(p.written, p.read, p.touched.Sub(p.began).Seconds())
	}
	p.written, p.read, p.late = 0, 0, false
}

// failed makes an error of the port into one with a kind, and counts it.
func (p *port) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Device: p.device, Err: err, kind: serialKind(err)}
	p.counters.Failed(e)
	return e
}

// waited is a Read that ended at its timeout; it is made once, so that a silent device costs no memory.
type waited struct{}

var errTimeout error = waited{}

func (waited) Error() string { return "no bytes before the read timeout" }
func (waited) Timeout() bool { return true }
func (waited) Is(target error) bool {
	return target == error(link.Timeout) || target == os.ErrDeadlineExceeded
}

// errStuck is a Write that was refused; made once, for the same reason.
var errStuck error = fmt.Errorf("%d bytes sent and not one answered: %w", Unanswered, link.Stuck)

// openSerial opens a port of the operating system.
func openSerial(path string, o Options) (*port, error) {
	n, err := claim(path)
	if err != nil {
		return nil, err
	}
	s, err := serial.Open(path, &serial.Mode{BaudRate: o.Baud})
	if err != nil {
		_ = n.Close()
		return nil, explain(path, err)
	}
	p := newPort(path, s, n, o)
	for _, step := range []func() error{
		func() error { return n.verify(o.Baud) },
		func() error { return s.SetReadTimeout(o.Timeout) },
		s.ResetInputBuffer,
		s.ResetOutputBuffer,
	} {
		if err := step(); err != nil {
			_ = p.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return p, nil
}

// explain makes the serial library's error into one for people.
func explain(path string, err error) error {
	if e, ok := errors.AsType[*serial.PortError](err); ok {
		switch e.Code() {
		case serial.PortBusy:
			return busy(path)
		case serial.PermissionDenied:
			err = os.ErrPermission
		case serial.PortNotFound:
			err = os.ErrNotExist
		case serial.InvalidSerialPort:
			return fmt.Errorf("%s is not a serial port, or takes no such settings: %w", path, err)
		}
	}
	return refused(path, "serial port", "dialout", err, SerialPorts)
}

func busy(path string) error {
	return &openError{path + " is in use by another program", link.IO, syscall.EBUSY}
}

// Latency is how long a USB adapter below the port may hold back a short answer: what is left after the
// port was opened, which asks the adapter for the least. known is false where there is no such timer.
func (p *port) Latency() (d time.Duration, known bool) {
	if n, ok := p.node.(*node); ok {
		return n.latency()
	}
	return 0, false
}
