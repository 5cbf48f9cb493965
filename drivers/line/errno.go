package line

import (
	"errors"
	"os"
	"syscall"

	"go.bug.st/serial"

	"hilgate/model/link"
)

// Error is a system call that failed on a bus. By errors.Is it is one of package link's kinds, and by
// errors.As the errno itself.
type Error struct {
	Op     string // what was tried: "transfer at 0x0b"
	Device string
	Err    error // the errno
	kind   link.Kind
}

func (e *Error) Error() string { return e.Device + ": " + e.Op + ": " + e.Err.Error() }

// Unwrap is the errno.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the kind of the failure.
func (e *Error) Is(target error) bool { return target == error(e.kind) }

// portKind says what an errno means that any device node can give.
func portKind(errno syscall.Errno) link.Kind {
	switch errno {
	case syscall.ENODEV, syscall.ENXIO, // the device behind the node is gone
		syscall.ENOENT,       // and so is its node
		syscall.EBADF,        // we closed it ourselves
		syscall.ENOTCONN,     // the node was served by a process that is gone
		syscall.ECONNABORTED, // and went while it was to answer
		syscall.ESHUTDOWN:    // a USB adapter is being detached
		return link.Closed
	}
	return link.IO
}

// serialKind says what an error of a serial port means. EIO is what Linux answers on a terminal whose other
// side hung up: an adapter that was unplugged, a pseudo terminal without its master.
func serialKind(err error) link.Kind {
	if e, ok := errors.AsType[*serial.PortError](err); ok {
		switch e.Code() {
		case serial.PortClosed, serial.PortNotFound:
			return link.Closed
		}
	}
	if errors.Is(err, syscall.EIO) {
		return link.Closed
	}
	return kindOf(err)
}

// kindOf is the kind of an error that may hold one, or an errno, or neither.
func kindOf(err error) link.Kind {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return portKind(errno)
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrNotExist) {
		return link.Closed
	}
	return link.KindOf(err)
}
