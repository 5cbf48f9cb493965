//go:build !linux

package sim

import (
	"context"
	"errors"
	"os"
	"time"
)

func openMaster() (*os.File, string, error) {
	return nil, "", errors.New("simulated serial ports for other programs need Linux; sim: works everywhere")
}

func bitRate(*os.File) int { return 0 }

func writeNow(f *os.File, b []byte) { _, _ = f.Write(b) }

func nap(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
