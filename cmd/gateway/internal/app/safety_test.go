package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"hilgate/configs"
	"hilgate/drivers/sim"
	"hilgate/model/permit"
	"hilgate/motor/loop"
	"hilgate/motor/trajectory"
)

// toAndFro keeps both wheels of the demo turning for that many minutes.
func toAndFro(minutes int) trajectory.Message {
	m := trajectory.Message{JointNames: []string{"left", "right"}}
	for i := range 20 * minutes {
		far := 6 * float64(1-2*(i%2))
		m.Points = append(m.Points, trajectory.Point{
			Positions: []float64{far, -far}, FromStart: time.Duration(i+1) * 3 * time.Second,
		})
	}
	return m
}

// Whatever the cause: from the moment at which the gateway knows of it, which is when the permit is taken
// away, the simulated motors have no output after two periods of the loop, and none later; and by then the
// snapshot says why.
func TestEachCauseTakesThePowerWithinTwoPeriodsAndIsShown(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason permit.Reason
		edit   func(cfg *configs.File)
		cause  func(t *testing.T, g *Gateway)
		within time.Duration // the gateway is to know
	}{
		{"emergency stop", permit.EStop, nil, func(_ *testing.T, g *Gateway) {
			go g.orders.EStop("test", "because")
		}, 10 * time.Millisecond},
		{"lost pack", permit.BatteryLost, nil, func(_ *testing.T, g *Gateway) {
			g.world.find("gauge").injector.Set(sim.Faults{NACK: 1})
		}, 6 * time.Second},
		{"empty pack", permit.BatteryEmpty, func(cfg *configs.File) {
			cfg.Batteries[0].Plant.SoC = 0.005
		}, func(*testing.T, *Gateway) {}, 2 * time.Minute},
		{"lost controller", permit.DeviceLost, nil, func(_ *testing.T, g *Gateway) {
			g.world.find("drive").injector.Set(sim.Faults{Silence: 1})
		}, time.Second},
		{"stale command", permit.CommandStale, func(cfg *configs.File) {
			cfg.Controllers[0].CommandTimeout = 2 * time.Second
		}, func(*testing.T, *Gateway) {}, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := inBubble(t, func(cfg *configs.File) {
					cfg.Motion = nil
					if c.edit != nil {
						c.edit(cfg)
					}
				})
				for _, m := range g.groups {
					m.pacer = timer{loop.NewTimer(m.period)}
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- g.Run(ctx, nil) }()
				defer func() {
					cancel()
					if err := <-done; err != nil {
						t.Error(err)
					}
				}()
				until := func(what string, bound time.Duration, holds func() bool) time.Duration {
					t.Helper()
					begin := time.Now()
					for !holds() {
						if time.Since(begin) > bound {
							t.Fatalf("%s: not within %v", what, bound)
						}
						time.Sleep(time.Millisecond)
					}
					return time.Since(begin)
				}
				words := g.groups[0].permits
				until("both joints may run", 5*time.Second, func() bool { return words[0].Reasons()|words[1].Reasons() == 0 })
				if _, err := g.orders.Follow(toAndFro(5)); err != nil {
					t.Fatal(err)
				}
				until("both joints are driven", time.Second, func() bool { return driven(g) == 2 })

				c.cause(t, g)
				until("the gateway knows", c.within, func() bool {
					return words[0].Reasons()&c.reason != 0 && words[1].Reasons()&c.reason != 0
				})
				took := until("no output, and the reason shown", 2*g.groups[0].period, func() bool {
					return driven(g) == 0 && shown(g, c.reason)
				})
				t.Logf("no output, and said so, %v after the gateway knew", took)
				for range 1000 {
					time.Sleep(time.Millisecond)
					if driven(g) > 0 {
						t.Fatalf("the motors run again while the joints are withheld for %v", words[0].Reasons())
					}
				}
				if g.Latest().Groups[0].Trajectory.Active {
					t.Error("the trajectory was not dropped")
				}
			})
		})
	}
}

// driven is how many simulated motors have a voltage on their windings.
func driven(g *Gateway) (n int) {
	for _, j := range g.world.truth().Joints {
		if j.Output != 0 {
			n++
		}
	}
	return n
}

// shown reports whether the snapshot names a reason for the robot and for each of its joints.
func shown(g *Gateway, r permit.Reason) bool {
	s := g.Latest()
	for i := range s.Groups[0].Joints {
		if s.Groups[0].Joints[i].Withheld&r == 0 {
			return false
		}
	}
	return s.Safety.Withheld&r != 0
}
