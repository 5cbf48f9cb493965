//go:build unix && !linux

package line

import (
	"errors"

	"golang.org/x/sys/unix"
)

func lock(path string) (release func() error, err error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil, errors.Join(errLocked, unix.Close(fd))
	}
	return func() error { return unix.Close(fd) }, nil
}
