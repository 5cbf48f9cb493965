package loop

import (
	"context"
	"io"
	"time"
)

// Pacer says when the ticks of a loop are. It belongs to the goroutine that runs the loop.
type Pacer interface {
	// Wait blocks until the next tick and returns its place on the grid of periods that begins at the
	// first one, at 0. Ticks that were missed are left out: they are never caught up by a burst. It
	// returns ctx's error when that ends, and io.EOF after a last tick.
	Wait(ctx context.Context) (at time.Duration, err error)
}

// grid is a pacer's place among its periods.
type grid struct {
	period time.Duration
	begun  bool
	tick   int64 // the one that was returned last
}

// next is the tick after the last one when so much time has passed since the first: one that lies ahead, or
// the latest that is due. So a tick that takes a little longer than its period delays the next one and
// does not cost it.
func (g *grid) next(passed time.Duration) (at time.Duration) {
	g.tick = max(g.tick+1, int64(passed/g.period))
	return g.at()
}

func (g *grid) at() time.Duration { return time.Duration(g.tick) * g.period }

// Timer is the pacer of package time: it runs everywhere, and in a synctest bubble. The runtime waits in
// whole milliseconds, so ticks come up to one late.
type Timer struct {
	grid
	timer *time.Timer
	first time.Time
}

// NewTimer makes a Timer of that period, which must be positive.
func NewTimer(period time.Duration) *Timer { return &Timer{grid: grid{period: period}} }

// Wait waits for the next tick.
func (t *Timer) Wait(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if !t.begun {
		t.begun, t.first = true, time.Now()
		return 0, nil
	}
	passed := time.Since(t.first)
	at := t.next(passed)
	if at <= passed {
		return at, nil
	}
	if t.timer == nil {
		t.timer = time.NewTimer(at - passed)
	} else {
		t.timer.Reset(at - passed)
	}
	select {
	case <-t.timer.C:
		return at, nil
	case <-ctx.Done():
		t.timer.Stop()
		return 0, ctx.Err()
	}
}

// Steps is a pacer that waits for nothing: replays and scenarios run as fast as they can.
type Steps struct {
	grid
	left int
}

// NewSteps makes a pacer of n ticks of that period.
func NewSteps(period time.Duration, n int) *Steps {
	return &Steps{grid: grid{period: period, tick: -1}, left: n}
}

// Wait returns the next tick at once; io.EOF after the last one.
func (s *Steps) Wait(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	s.left--
	s.tick++
	return s.at(), nil
}

// Realtime is what a Kernel pacer was granted against late ticks. Nothing is, before its first tick.
type Realtime struct {
	FIFO      bool // SCHED_FIFO: no ordinary process comes before the loop
	Mlock     bool // memory is locked: the loop waits for no page from disk
	Nanosleep bool // clock_nanosleep to an absolute instant: the runtime's timers are not used
}
