//go:build !linux

package line

import (
	"fmt"
	"runtime"

	"hilgate/model/link"
)

func openI2C(path string, o Options) (I2C, error) {
	return nil, fmt.Errorf("%s: I²C is not supported on %s, only on Linux: use a simulated bus: %w", path, runtime.GOOS, link.Closed)
}

func groupOf(string) string { return "" }
