//go:build !linux

package line

import (
	"errors"
	"path/filepath"
	"runtime"
	"time"

	"go.bug.st/serial"
)

// node keeps a second process from a port where the operating system does not.
type node struct{ release func() error }

func claim(path string) (*node, error) {
	release, err := lock(path)
	if errors.Is(err, errLocked) {
		return nil, busy(path)
	}
	if err != nil {
		return nil, refused(path, "serial port", "dialout", err, SerialPorts)
	}
	return &node{release}, nil
}

func (n *node) Close() error { return n.release() }

// verify trusts the system: neither macOS nor Windows takes a bit rate and then runs at another.
func (n *node) verify(int) error { return nil }

func (n *node) latency() (time.Duration, bool) { return 0, false }

var errLocked = errors.New("locked by another process")

// SerialPorts lists the serial ports of this machine.
func SerialPorts() []string {
	if runtime.GOOS == "windows" {
		ports, _ := serial.GetPortsList() // on Windows it reads the registry and opens no port
		return ports
	}
	ports, _ := filepath.Glob("/dev/cu.*")
	return ports
}
