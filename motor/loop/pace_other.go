//go:build !linux

package loop

import "time"

// Kernel is the pacer with the least lateness that this system has: the Timer.
type Kernel struct{ Timer }

// NewKernel makes a Kernel of that period, which must be positive.
func NewKernel(period time.Duration) *Kernel { return &Kernel{Timer: *NewTimer(period)} }

// Realtime says that nothing was granted. It may be called from any goroutine.
func (k *Kernel) Realtime() Realtime { return Realtime{} }
