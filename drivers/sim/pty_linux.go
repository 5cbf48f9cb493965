package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// openMaster makes a pseudo terminal, both ends of it raw: no echo, no byte that means anything. The master
// does not block, so that package os waits for it, deadlines hold and Close wakes a reader.
func openMaster() (master *os.File, slave string, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	number, err := unlock(fd)
	if err != nil {
		return nil, "", errors.Join(err, unix.Close(fd))
	}
	slave = fmt.Sprintf("/dev/pts/%d", number)
	return os.NewFile(uintptr(fd), "/dev/ptmx"), slave, nil
}

// unlock lets the slave be opened, and makes it raw. Settings made at the master are the slave's.
func unlock(fd int) (number uint32, err error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return 0, fmt.Errorf("TIOCSPTLCK: %w", err)
	}
	if number, err = unix.IoctlGetUint32(fd, unix.TIOCGPTN); err != nil {
		return 0, fmt.Errorf("TIOCGPTN: %w", err)
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return 0, fmt.Errorf("TCGETS: %w", err)
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8 | unix.CREAD | unix.CLOCAL
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return 0, fmt.Errorf("TCSETS: %w", err)
	}
	return number, nil
}

// bitRate is the bit rate that the client has set; 0 if it cannot be told.
func bitRate(master *os.File) (baud int) {
	conn, err := master.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		if t, err := unix.IoctlGetTermios(int(fd), unix.TCGETS2); err == nil {
			baud = int(t.Ospeed)
		}
	})
	return baud
}

// writeNow hands bytes to the client. What its buffer does not hold is lost, as in a UART's overrun; so is
// everything once the port is unplugged.
func writeNow(master *os.File, b []byte) {
	conn, err := master.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _ = unix.Write(int(fd), b) })
}

// nap sleeps, by the kernel's own fine timer where it counts: those of package time are late by up to a
// millisecond while a program is idle. It ends early with ctx, but for the last milliseconds.
func nap(ctx context.Context, d time.Duration) {
	const fine = 2 * time.Millisecond
	end := time.Now().Add(d)
	if d > fine {
		select {
		case <-ctx.Done():
			return
		case <-time.After(d - fine):
		}
	}
	for left := time.Until(end); left > 0; left = time.Until(end) {
		ts := unix.NsecToTimespec(int64(left))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil) // a signal may end it early
	}
}
