package line

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/physic"

	"hilgate/model/link"
)

// Requests of linux/i2c-dev.h, and what I2C_FUNCS must offer for one of them.
const (
	i2cRetries = 0x0701
	i2cTimeout = 0x0702 // in units of 10 ms
	i2cFuncs   = 0x0705
	i2cRdwr    = 0x0707

	funcI2C = 1 << 0 // I2C_FUNC_I2C: plain messages, not only SMBus transactions

	flagRead = 0x0001 // I2C_M_RD

	longest = 8192 // bytes of one message that I2C_RDWR takes
)

// message is struct i2c_msg, request struct i2c_rdwr_ioctl_data. Go lays both out as C does, for 32 and for
// 64 bits.
type message struct {
	addr, flags, len uint16
	buf              unsafe.Pointer
}

type request struct {
	msgs  unsafe.Pointer
	nmsgs uint32
}

// devI2C is a bus of Linux's i2c-dev.
//
// The kernel is handed addresses, and Go may move a goroutine's stack at any call, the one into the kernel
// included. So request and messages live on the heap, inside this struct; they hold pointers, which the
// garbage collector follows, and no integers, which it does not; they and the caller's buffers are pinned
// for the time of the call; and a pointer becomes an integer only in the argument list of the system call.
type devI2C struct {
	path     string
	counters *link.Counters

	mu      sync.Mutex
	fd      int // -1 once closed
	pinner  runtime.Pinner
	request request
	msgs    [2]message
}

func openI2C(path string, o Options) (*devI2C, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, refused(path, "I²C bus", "i2c", err, I2CBuses)
	}
	b := &devI2C{path: path, counters: o.Counters, fd: fd}
	if err := b.configure(o.Timeout); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// configure checks that the node is an adapter that can do plain I²C, and sets its timeout. Retries inside
// the kernel are switched off: whoever retries shall count.
func (b *devI2C) configure(timeout time.Duration) error {
	var funcs uintptr // C's unsigned long
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.fd), i2cFuncs, uintptr(unsafe.Pointer(&funcs))); errno != 0 {
		if errno == unix.ENOTTY {
			return fmt.Errorf("%s is no I²C bus: %w", b.path, &Error{"I2C_FUNCS", b.path, errno, link.IO})
		}
		return b.failed("I2C_FUNCS", errno)
	}
	if funcs&funcI2C == 0 {
		return fmt.Errorf("%s: the adapter does SMBus only, not plain I²C (I2C_FUNCS 0x%08x): %w", b.path, funcs, link.IO)
	}
	units := max(1, (timeout+9*time.Millisecond)/(10*time.Millisecond))
	if err := unix.IoctlSetInt(b.fd, i2cTimeout, int(units)); err != nil {
		return b.failed("I2C_TIMEOUT", err)
	}
	if err := unix.IoctlSetInt(b.fd, i2cRetries, 0); err != nil {
		return b.failed("I2C_RETRIES", err)
	}
	return nil
}

// String is the path of the device node.
func (b *devI2C) String() string { return b.path }

func (b *devI2C) Counters() *link.Counters { return b.counters }

// SetSpeed always fails: Linux fixes a bus's clock when it starts.
func (b *devI2C) SetSpeed(f physic.Frequency) error {
	return fmt.Errorf("%s: Linux sets the clock of an I²C bus at boot (on a Raspberry Pi by dtparam=i2c_arm_baudrate)", b.path)
}

// Close closes the bus, after the transfer that runs.
func (b *devI2C) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fd < 0 {
		return nil
	}
	err := unix.Close(b.fd)
	b.fd = -1
	return err
}

// Tx writes w to the device at a 7-bit address and then, after a repeated start, fills r from it, in one
// transfer that nothing can come between. Either may be empty; if both are, nothing is done.
func (b *devI2C) Tx(addr uint16, w, r []byte) error {
	switch {
	case addr > 0x7f:
		return fmt.Errorf("%s: address 0x%x has more than 7 bits: %w", b.path, addr, link.IO)
	case len(w) > longest || len(r) > longest:
		return fmt.Errorf("%s: %d bytes out, %d in: a message has at most %d: %w", b.path, len(w), len(r), longest, link.IO)
	case len(w) == 0 && len(r) == 0:
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	start := time.Now()
	done, want, errno := b.transfer(addr, w, r)
	took := time.Since(start).Seconds()
	if errno != 0 {
		b.counters.Exchanged(0, 0, took)
		return b.failed(fmt.Sprintf("transfer at 0x%02x", addr), errno)
	}
	if done < want {
		b.counters.Exchanged(0, 0, took)
		b.counters.Failed(link.Short)
		return fmt.Errorf("%s: transfer at 0x%02x: %d of %d messages done: %w", b.path, addr, done, want, link.Short)
	}
	b.counters.Exchanged(len(w), len(r), took)
	return nil
}

// transfer does the system call. The bus is locked.
func (b *devI2C) transfer(addr uint16, w, r []byte) (done, want int, errno syscall.Errno) {
	n := 0
	for _, m := range [2]struct {
		flags uint16
		buf   []byte
	}{{0, w}, {flagRead, r}} {
		if len(m.buf) == 0 {
			continue
		}
		b.pinner.Pin(&m.buf[0])
		b.msgs[n] = message{addr: addr, flags: m.flags, len: uint16(len(m.buf)), buf: unsafe.Pointer(&m.buf[0])}
		n++
	}
	b.pinner.Pin(b)
	b.request = request{msgs: unsafe.Pointer(&b.msgs[0]), nmsgs: uint32(n)}
	got, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.fd), i2cRdwr, uintptr(unsafe.Pointer(&b.request)))
	b.pinner.Unpin()
	b.msgs, b.request = [2]message{}, request{}
	return int(got), n, errno
}

func (b *devI2C) failed(op string, err error) error {
	e := &Error{Op: op, Device: b.path, Err: err, kind: link.IO}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.kind = transferKind(errno)
	}
	b.counters.Failed(e)
	return e
}

// groupOf is the name of the group that owns a device node; "" if that cannot be told.
func groupOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Gid != 0 {
		return groupName(s.Gid)
	}
	return ""
}

// transferKind says what an errno of an I²C transfer means. The kernel lists them in
// Documentation/i2c/fault-codes.rst; adapters differ in the following.
func transferKind(errno syscall.Errno) link.Kind {
	switch errno {
	case syscall.EREMOTEIO, // i2c-bcm2835 and DesignWare: address or data not acknowledged
		syscall.ENXIO: // i2c-gpio and most USB adapters: address not acknowledged
		return link.NACK
	case syscall.ETIMEDOUT: // no completion within the adapter's timeout; a clock held low, on i2c-gpio
		return link.Timeout
	case syscall.EAGAIN: // lost to another master
		return link.Arbitration
	case syscall.EBUSY: // the bus was not idle for longer than SMBus allows: held low, or never recovered
		return link.Stuck
	case syscall.EBADMSG: // an adapter that checks the PEC itself
		return link.PEC
	case syscall.EPROTO: // a block length that SMBus does not allow, seen by the adapter
		return link.Malformed
	}
	return portKind(errno)
}
