package line

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hilgate/model/link"
)

// node is a second descriptor of a serial port's device node, for what the serial library does not offer:
// the lock, the true bit rate, the adapter's latency timer.
type node struct {
	fd    int
	path  string
	name  string // as the kernel calls it: ttyUSB0
	isPTY bool
}

// claim opens the node and locks it for this process. The kernel lets go of the lock however the process
// ends, so there are no stale ones. (The exclusive flag of terminals, which the library sets too, does not
// keep root out.)
func claim(path string) (*node, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, busy(path)
	}
	if err != nil {
		return nil, refused(path, "serial port", "dialout", err, SerialPorts)
	}
	n := &node{fd: fd, path: path}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = n.Close()
		return nil, busy(path)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		_ = n.Close()
		return nil, &Error{"fstat", path, err, kindOf(err)}
	}
	major := unix.Major(stat.Rdev)
	n.isPTY = major >= 136 && major <= 143 // Documentation/admin-guide/devices.txt: UNIX98 slaves
	if real, err := filepath.EvalSymlinks(path); err == nil {
		n.name = filepath.Base(real)
	}
	return n, nil
}

func (n *node) Close() error { return unix.Close(n.fd) }

// tolerance is how far the bit rate of a port may be from the one asked for: with 10 bits a byte, sampled in
// their middle, a receiver bears about 5 % between both ends, of which this leaves the other side half.
const tolerance = 0.025

// verify checks that the port runs at the bit rate that was asked for, which an adapter may refuse without a
// word, and asks a USB adapter not to hold back short answers. A pseudo terminal has neither.
func (n *node) verify(baud int) error {
	if n.isPTY {
		return nil
	}
	t, err := unix.IoctlGetTermios(n.fd, unix.TCGETS2)
	if err != nil {
		return &Error{"read back the bit rate", n.path, err, serialKind(err)}
	}
	if math.Abs(float64(t.Ospeed)-float64(baud)) > tolerance*float64(baud) {
		return fmt.Errorf("%d bit/s asked for, the port runs at %d: %w", baud, t.Ospeed, link.IO)
	}
	n.quicken()
	return nil
}

// quicken sets the adapter's latency timer to its least, by sysfs or else by the low latency flag of the
// port, as far as permissions go. What is left is told by latency.
func (n *node) quicken() {
	d, known := n.latency()
	if !known || d <= time.Millisecond {
		return
	}
	if os.WriteFile(latencyTimer(n.name), []byte("1"), 0) == nil {
		return
	}
	var s serialStruct
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(n.fd), unix.TIOCGSERIAL, uintptr(unsafe.Pointer(&s))); errno != 0 {
		return
	}
	s.flags |= asyncLowLatency
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(n.fd), unix.TIOCSSERIAL, uintptr(unsafe.Pointer(&s)))
}

// asyncLowLatency is ASYNC_LOW_LATENCY of linux/tty_flags.h, serialStruct is struct serial_struct of
// linux/serial.h.
const asyncLowLatency = 1 << 13

type serialStruct struct {
	kind, line                      int32
	port                            uint32
	irq, flags, fifo, divisor, base int32
	closeDelay                      uint16
	ioType, reserved                uint8
	hub6                            int32
	closingWait, closingWait2       uint16
	iomemBase                       unsafe.Pointer
	iomemRegShift                   uint16
	portHigh                        uint32
	iomapBase                       uintptr
}

// latencyTimer is where an FTDI adapter tells, in ms, how long it holds back an answer that does not fill
// a USB packet.
func latencyTimer(name string) string {
	return filepath.Join("/sys/bus/usb-serial/devices", name, "latency_timer")
}

func (n *node) latency() (d time.Duration, known bool) {
	text, err := os.ReadFile(latencyTimer(n.name))
	if err != nil {
		return 0, false
	}
	ms, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return time.Duration(ms) * time.Millisecond, err == nil
}

// SerialPorts lists the serial ports of this machine, by the names that stay the same where there are any.
// It opens none of them: opening a port changes its settings, even while another program uses it.
func SerialPorts() []string { return serialPorts("/") }

func serialPorts(root string) []string {
	byID, _ := filepath.Glob(filepath.Join(root, "dev/serial/by-id/*"))
	named := map[string]bool{}
	for _, l := range byID {
		if real, err := filepath.EvalSymlinks(l); err == nil {
			named[filepath.Base(real)] = true
		}
	}
	ports := byID
	ttys, _ := filepath.Glob(filepath.Join(root, "sys/class/tty/*"))
	for _, tty := range ttys {
		name := filepath.Base(tty)
		if _, err := os.Stat(filepath.Join(tty, "device")); err != nil || named[name] {
			continue // no hardware behind it, or listed already
		}
		if kind, err := os.ReadFile(filepath.Join(tty, "type")); err == nil && strings.TrimSpace(string(kind)) == "0" {
			continue // PORT_UNKNOWN: a place for a UART that is not there
		}
		ports = append(ports, filepath.Join(root, "dev", name))
	}
	return ports
}

func groupName(gid uint32) string {
	g, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10))
	if err != nil {
		return ""
	}
	return g.Name
}
