package loop

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/motor"
)

// running is a rig whose joints are in motion.
func running(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := newRig(change)
	r.ready(t)
	r.Follow(r.both(t, 1, 1, 2, 3))
	r.tick(20)
	if r.machine.velocity[0] == 0 {
		t.Fatal("the joints do not move")
	}
	return r
}

// failing is a pacer that gives n ticks and then an error.
type failing struct {
	Steps
	err error
}

func (f *failing) Wait(ctx context.Context) (time.Duration, error) {
	at, err := f.Steps.Wait(ctx)
	if err != nil {
		err = f.err
	}
	return at, err
}

func TestRunHoldsForAMinuteAtOneKilohertz(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples := make(chan motor.Sample, 1) // taken before time goes on
		r := newRig(func(c *Config) { c.Period, c.Samples = time.Millisecond, samples })
		r.machine.dt = 1e-3
		r.Follow(r.both(t, 1, 9)) // too early: the controller has not answered
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Microsecond)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- r.Run(ctx, NewTimer(time.Millisecond)) }()
		var last motor.Sample
		taken := 0
		for {
			select {
			case last = <-samples:
				if taken++; taken == 10 {
					r.Follow(r.both(t, 2, 0.3, 0.6, 1))
				}
				continue
			case err := <-ended:
				if err != nil {
					t.Errorf("Run: %v", err)
				}
			}
			break
		}
		for len(samples) > 0 {
			last = <-samples
			taken++
		}
		if last.Counts != (motor.LoopCounts{Cycles: 60001}) || taken < 60001 {
			t.Errorf("%+v, %d samples", last.Counts, taken)
		}
		if p := r.machine.position[0]; math.Abs(p-1) > 1e-3 {
			t.Errorf("after a minute the joint is at %v, want 1", p)
		}
		if j := last.Joints[0]; j.Command.Mode != motor.ModeStop || j.Withheld != permit.ShuttingDown || last.Trajectory.ID != 2 {
			t.Errorf("last sample: %+v, withheld %v, %+v", j.Command, j.Withheld, last.Trajectory)
		}
	})
}

func TestRunStopsTheJointsHoweverItReturns(t *testing.T) {
	broken := errors.New("no clock")
	for name, c := range map[string]struct {
		pace  func(cancel func()) Pacer
		panic bool
		want  error
	}{
		"cancelled":     {pace: func(cancel func()) Pacer { cancel(); return NewTimer(period) }},
		"at its end":    {pace: func(func()) Pacer { return NewSteps(period, 5) }},
		"without clock": {pace: func(func()) Pacer { return &failing{*NewSteps(period, 5), broken} }, want: broken},
		"in a panic":    {pace: func(func()) Pacer { return NewSteps(period, 5) }, panic: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := running(t, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				func() {
					defer func() { recover() }()
					r.machine.panics = c.panic
					if err := r.Run(ctx, c.pace(cancel)); !errors.Is(err, c.want) {
						t.Errorf("Run: %v, want %v", err, c.want)
					}
				}()
				if r.machine.stops == 0 || r.machine.moving(0) || r.machine.closes != 1 {
					t.Errorf("stopped %d times, told %+v, closed %d times", r.machine.stops, r.machine.told, r.machine.closes)
				}
				if why := r.words[0].Reasons(); why&permit.ShuttingDown == 0 {
					t.Errorf("withheld for %v", why)
				}
			})
		})
	}
}

func TestRunWaitsUntilTheJointsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		r.machine.coast = 15
		start := time.Now()
		if err := r.Run(t.Context(), NewSteps(period, 0)); err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(start); took != 15*restEvery {
			t.Errorf("it waited %v for joints that coasted for 15 looks", took)
		}
		if s := <-r.samples; s.Joints[0].Feedback.Velocity != 0 || s.Joints[0].Command.Mode != motor.ModeStop {
			t.Errorf("last sample: %+v", s.Joints[0])
		}
	})
}

func TestRunSaysIfTheJointsDoNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, func(c *Config) { c.StopWait = 400 * time.Millisecond })
		r.machine.coast = 1e6
		start := time.Now()
		if err := r.Run(t.Context(), NewSteps(period, 0)); !errors.Is(err, ErrMoving) {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(start); took != 400*time.Millisecond {
			t.Errorf("it waited %v", took)
		}
	})
}

func TestRunRepeatsAStopThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		r.machine.stopErr, r.machine.deaf = link.Timeout, 4
		if err := r.Run(t.Context(), NewSteps(period, 0)); err != nil || r.machine.moving(0) || r.machine.stops != 5 {
			t.Errorf("Run: %v after %d stops", err, r.machine.stops)
		}
	})
}

func TestRunSaysIfAControllerCannotBeStopped(t *testing.T) {
	for kind, most := range map[link.Kind]time.Duration{link.Timeout: time.Second, link.Closed: 0} {
		synctest.Test(t, func(t *testing.T) {
			r := running(t, nil)
			r.machine.stopErr = kind
			start := time.Now()
			if err := r.Run(t.Context(), NewSteps(period, 0)); !errors.Is(err, kind) || r.machine.stops < 2 {
				t.Errorf("Run: %v after %d stops, want %v", err, r.machine.stops, kind)
			}
			if took := time.Since(start); took != most {
				t.Errorf("%v: it tried for %v, want %v", kind, took, most)
			}
		})
	}
}

func TestRunOfALostControllerEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		r.machine.readErr, r.machine.openErr = errGone, link.IO
		r.tick(1)
		start := time.Now()
		if err := r.Run(t.Context(), NewSteps(period, 1)); err != nil || time.Since(start) != 0 {
			t.Errorf("Run: %v after %v", err, time.Since(start))
		}
	})
}

func TestTimerLeavesMissedTicksOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace, start := NewTimer(period), time.Now()
		for _, c := range []struct{ busy, at, late time.Duration }{
			{0, 0, 0}, {0, period, 0}, {period / 2, 2 * period, 0},
			{period * 5 / 4, 3 * period, period / 4}, // delayed, not left out
			{0, 4 * period, 0},
			{period * 7 / 2, 7 * period, period / 2}, // 5 and 6 are left out
			{0, 8 * period, 0},
		} {
			time.Sleep(c.busy)
			at, err := pace.Wait(t.Context())
			if late := time.Since(start) - at; at != c.at || late != c.late || err != nil {
				t.Errorf("busy for %v: tick %v, late by %v, %v; want %v, %v", c.busy, at, late, err, c.at, c.late)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), period/2)
		defer cancel()
		if _, err := pace.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestStepsEndAfterTheLast(t *testing.T) {
	pace := NewSteps(period, 3)
	for i := range 3 {
		if at, err := pace.Wait(t.Context()); at != time.Duration(i)*period || err != nil {
			t.Errorf("tick %d: %v, %v", i, at, err)
		}
	}
	if _, err := pace.Wait(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the last tick: %v, want io.EOF", err)
	}
}

func TestKernelKeepsToTheGrid(t *testing.T) {
	pace, start, last := NewKernel(time.Millisecond), time.Now(), -time.Millisecond
	for i := range 20 {
		at, err := pace.Wait(t.Context())
		if err != nil || at <= last || at%time.Millisecond != 0 || (i == 0 && at != 0) {
			t.Fatalf("tick %d: %v after %v, %v", i, at, last, err)
		}
		if early := at - time.Since(start); early > 0 {
			t.Errorf("tick %v came %v early", at, early)
		}
		last = at
	}
	t.Logf("granted: %+v", pace.Realtime())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pace.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if n := testing.AllocsPerRun(20, func() { pace.Wait(t.Context()) }); n != 0 {
		t.Errorf("Wait allocates %v times", n)
	}
}

// BenchmarkLateness is how late each pacer's ticks of 1 ms come.
func BenchmarkLateness(b *testing.B) {
	for name, begin := range map[string]func() Pacer{
		"kernel": func() Pacer { return NewKernel(time.Millisecond) },
		"timer":  func() Pacer { return NewTimer(time.Millisecond) },
	} {
		b.Run(name, func(b *testing.B) {
			pace := begin()
			var late []time.Duration
			var first time.Time
			for b.Loop() {
				at, err := pace.Wait(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if first.IsZero() {
					first = time.Now()
				}
				late = append(late, time.Since(first)-at)
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2])/1e3, "p50-µs")
			b.ReportMetric(float64(late[len(late)*99/100])/1e3, "p99-µs")
		})
	}
}
