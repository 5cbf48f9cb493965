package loop

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fifoPriority of the loop's thread, among 1 to 99: above the threads of interrupts (50) would let a fast
// loop starve the serial port that it waits for.
const fifoPriority = 49

// Kernel is the pacer with the least lateness: it sleeps in the kernel until an absolute instant, on a
// thread of its own, with SCHED_FIFO and locked memory where the system permits that. The goroutine that
// waits keeps the thread; it must end with the loop, and the thread with it.
type Kernel struct {
	grid
	first   int64 // ns of CLOCK_MONOTONIC
	granted atomic.Pointer[Realtime]
}

// NewKernel makes a Kernel of that period, which must be positive.
func NewKernel(period time.Duration) *Kernel { return &Kernel{grid: grid{period: period}} }

// Realtime says what was granted. It may be called from any goroutine.
func (k *Kernel) Realtime() Realtime {
	if r := k.granted.Load(); r != nil {
		return *r
	}
	return Realtime{}
}

// Wait waits for the next tick. The end of ctx is seen at a tick.
func (k *Kernel) Wait(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	begins := !k.begun
	if begins { // it takes a while, and comes before the first instant
		runtime.LockOSThread()
		k.granted.Store(&Realtime{FIFO: fifo(), Mlock: mlock(), Nanosleep: true})
	}
	now, err := monotonic()
	if err != nil {
		return 0, err
	}
	if begins {
		k.begun, k.first = true, now
		return 0, nil
	}
	at := k.next(time.Duration(now - k.first))
	until := unix.NsecToTimespec(k.first + int64(at))
	for {
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil)
		if !errors.Is(err, unix.EINTR) {
			return at, errors.Join(err, ctx.Err())
		}
	}
}

func monotonic() (ns int64, err error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	return now.Nano(), nil
}

// fifo gives the calling thread a real-time priority, which a child does not inherit.
func fifo() bool {
	return unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: fifoPriority,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0) == nil
}

// mlock keeps the process's pages in memory once they have been touched, so that it grows by nothing.
// A finite limit on locked memory would make a later allocation fail: then it is left alone.
func mlock() bool {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return false
	}
	if limit.Cur != unix.RLIM_INFINITY && !capable(unix.CAP_IPC_LOCK) {
		return false
	}
	return unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE|unix.MCL_ONFAULT) == nil
}

// capable reports whether the calling thread has a capability.
func capable(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 has 64 bits in two words
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
