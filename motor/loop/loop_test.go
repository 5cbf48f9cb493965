package loop

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/motor/trajectory"
)

var (
	errNoise = fmt.Errorf("read encoders: %w", link.CRC)
	errGone  = fmt.Errorf("read encoders: %w", link.Closed)
)

func TestJointsAreWithheldUntilTheControllerHasAnswered(t *testing.T) {
	r := newRig(nil)
	withheld := func(when string, want permit.Reason) {
		t.Helper()
		for i, w := range r.words {
			if w.Reasons() != want {
				t.Errorf("%s: joint %d is withheld for %v, want %v", when, i, w.Reasons(), want)
			}
		}
	}
	withheld("before the first tick", permit.DeviceLost)
	r.machine.armErr = errNoise
	r.tick(1)
	withheld("not armed", permit.DeviceLost)
	r.machine.armErr, r.machine.readErr = nil, errNoise
	r.tick(11)
	if withheld("armed, no answer", permit.DeviceLost); r.machine.moving(0) {
		t.Error("a motor has power before the controller has answered")
	}
	r.machine.readErr = nil
	if s := r.tick(1); !s.Connected || s.Err != nil || s.Group != 3 || s.N != 2 || s.At.IsZero() {
		t.Errorf("connected %v, error %v, group %d, %d joints at %v", s.Connected, s.Err, s.Group, s.N, s.At)
	}
	withheld("answered", 0)
	if id, known := r.Identity(); id.Model != "machine" || !known {
		t.Errorf("identity %v, %v", id, known)
	}
}

func TestJointsRestWhereTheyAreMeasured(t *testing.T) {
	r := newRig(nil)
	r.machine.position[0] = 1.5
	s := r.tick(5)
	if j := s.Joints[0]; j.Target.Position != 1.5 || j.Command != (motor.Command{Mode: motor.ModeEffort}) {
		t.Errorf("a joint at 1.5 has target %v and command %+v", j.Target, j.Command)
	}
}

func TestGazebosJointsAreDrivenToTheirInitialPosition(t *testing.T) {
	r := newRig(func(c *Config) { c.Gazebo, c.Axes[0].Initial = true, 0.5 })
	if s := r.tick(1); s.Joints[0].Target.Position != 0.5 || s.Joints[0].Command.Effort <= 0 {
		t.Errorf("target %v, command %+v", s.Joints[0].Target, s.Joints[0].Command)
	}
	r.tick(500)
	if p := r.machine.position[0]; math.Abs(p-0.5) > 0.01 {
		t.Errorf("after 5 s the joint is at %v, want 0.5", p)
	}
}

func TestGazebosJointRestsWhereItWasStoppedToo(t *testing.T) {
	r := newRig(func(c *Config) { c.Gazebo = true })
	r.ready(t)
	r.Follow(r.both(t, 1, 1))
	r.tick(500)
	r.words[0].Withhold(permit.EStop)
	r.tick(10)
	r.words[0].Grant(permit.EStop)
	before := r.machine.position[0]
	if s := r.tick(500); math.Abs(r.machine.position[0]-before) > 0.05 || before < 0.5 {
		t.Errorf("after the release the joint goes by itself from %v to %v, target %v",
			before, r.machine.position[0], s.Joints[0].Target.Position)
	}
}

func TestLoopThatStoodStillBeginsAnew(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.Follow(r.both(t, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
	r.tick(15)
	r.now += stallAfter - period
	if s := r.tick(1); !s.Connected || !s.Trajectory.Active {
		t.Errorf("a short stall costs the controller: %+v", s.Trajectory)
	}
	r.now += stallAfter
	s := r.tick(1)
	if s.Connected || s.Err == nil || s.Trajectory.Active || s.Joints[0].Withheld != permit.DeviceLost || r.machine.moving(0) {
		t.Errorf("after a long stall: connected %v, %v, %+v, withheld %v, told %+v",
			s.Connected, s.Err, s.Trajectory, s.Joints[0].Withheld, r.machine.told)
	}
	for s = r.tick(1); !s.Connected; s = r.tick(1) {
	}
	before := r.machine.position[0]
	if r.tick(100); r.machine.arms != 2 || r.machine.position[0] != before {
		t.Errorf("armed %d times; it moves by itself from %v to %v", r.machine.arms, before, r.machine.position[0])
	}
}

func TestTrajectoryIsFollowedToItsEnd(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.Follow(r.goTo(t, 4, map[string][]float64{"left": {1, 2, 3}}))
	if s := r.tick(1); s.Trajectory != (motor.Progress{ID: 4, Active: true, Ratio: 1. / 3, Changed: 1}) {
		t.Errorf("begun: %+v", s.Trajectory)
	}
	if s := r.tick(20); s.Trajectory.Active != true || s.Joints[0].Target.Position != 2 {
		t.Errorf("under way: %+v to %v", s.Trajectory, s.Joints[0].Target.Position)
	}
	if s := r.tick(600); s.Trajectory != (motor.Progress{ID: 4, Ratio: 1, Changed: 3}) {
		t.Errorf("ended: %+v", s.Trajectory)
	}
	if p := r.machine.position; math.Abs(p[0]-3) > 0.01 || p[1] != 0 {
		t.Errorf("the joints are at %v, want 3 and 0", p)
	}
	r.Follow(r.both(t, 5, 0))
	r.Follow(r.both(t, 6, -1)) // the newest wins
	if s := r.tick(1); s.Trajectory != (motor.Progress{ID: 6, Ratio: 1, Changed: 4}) || s.Joints[1].Target.Position != -1 {
		t.Errorf("replaced: %+v to %v", s.Trajectory, s.Joints[1].Target.Position)
	}
}

func TestWithheldJointIsStoppedInTheSameTickAndRestsAfterwards(t *testing.T) {
	for _, why := range []permit.Reason{permit.EStop, permit.BatteryEmpty, permit.BatteryLost, permit.LevelInactive} {
		t.Run(why.String(), func(t *testing.T) {
			r := newRig(nil)
			r.ready(t)
			r.Follow(r.both(t, 1, 1, 2, 3))
			r.tick(15)
			r.words[1].Withhold(why)
			s := r.tick(1)
			if j := s.Joints[1]; r.machine.moving(1) || j.Command.Mode != motor.ModeStop || j.Withheld != why {
				t.Errorf("told %+v, sampled %+v, withheld %v", r.machine.told[1], j.Command, j.Withheld)
			}
			if s.Trajectory.Active || s.Trajectory.Ratio != 2./3 {
				t.Errorf("the trajectory goes on: %+v", s.Trajectory)
			}
			if j := s.Joints[0]; j.Target.Position != j.Feedback.Position || !r.machine.moving(0) {
				t.Errorf("the other joint is at %v with target %v", j.Feedback.Position, j.Target.Position)
			}
			writes := r.machine.writes
			r.tick(50)
			r.machine.position[1] = -0.7 // moved by hand
			r.tick(50)
			if r.machine.writes != writes+100 {
				t.Errorf("%d stops were written in 100 ticks", r.machine.writes-writes)
			}
			r.words[1].Grant(why)
			for range 100 {
				s = r.tick(1)
				if j := s.Joints[1]; j.Command.Effort != 0 || j.Target.Position != -0.7 || j.Command.Mode != motor.ModeEffort {
					t.Fatalf("allowed again, it does not rest: %+v to %v", j.Command, j.Target.Position)
				}
			}
			r.Follow(r.both(t, 2, 0))
			r.tick(600)
			if p := r.machine.position[1]; math.Abs(p) > 0.01 {
				t.Errorf("a new trajectory has brought it to %v, want 0", p)
			}
		})
	}
}

func TestTrajectoryOfAWithheldJointIsAbandonedAtOnce(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.words[1].Withhold(permit.EStop)
	r.Follow(r.both(t, 1, 1, 2))
	if s := r.tick(1); s.Trajectory != (motor.Progress{ID: 1}) || s.Joints[0].Target.Position != 0 {
		t.Errorf("%+v, target %v", s.Trajectory, s.Joints[0].Target.Position)
	}
	r.words[1].Grant(permit.EStop)
	if s := r.tick(50); s.Trajectory.Active || r.machine.position[0] != 0 || r.machine.position[1] != 0 {
		t.Errorf("it moves when the joint may run again: %v", r.machine.position)
	}
}

func TestTrajectoryOfOtherJointsGoesOn(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.words[1].Withhold(permit.LevelInactive)
	r.Follow(r.goTo(t, 1, map[string][]float64{"left": {1, 1}}))
	r.tick(600)
	if p := r.machine.position; math.Abs(p[0]-1) > 0.01 || r.machine.moving(1) {
		t.Errorf("left is at %v, right has power: %v", p[0], r.machine.moving(1))
	}
}

func TestFailedExchangeIsLeftOut(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.Follow(r.both(t, 1, 1, 2, 3))
	r.tick(3)
	before, writes := r.machine.told[0], r.machine.writes
	for range 2 {
		r.machine.readErr = errNoise
		if s := r.tick(1); s.N != 0 || r.machine.told[0] != before || r.machine.writes != writes {
			t.Errorf("after a failed read %+v was sent, %+v written", s, r.machine.told[0])
		}
	}
	r.machine.readErr = nil
	if s := r.tick(1); !s.Connected || !s.Trajectory.Active || s.Counts.Losses != 0 || r.machine.opens != 1 {
		t.Errorf("then: %+v, %d openings", s, r.machine.opens)
	}
}

func TestStopIsWrittenThoughTheReadFails(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.Follow(r.both(t, 1, 1, 2, 3))
	r.tick(3)
	before := r.machine.told[0]
	r.machine.readErr = errNoise
	r.words[1].Withhold(permit.EStop)
	r.tick(1)
	if r.machine.moving(1) || r.machine.told[0] != before {
		t.Errorf("left was told %+v, then %+v; right %+v", before, r.machine.told[0], r.machine.told[1])
	}
}

func TestLostControllerIsOpenedAgainAndItsJointsRest(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		ends int // ticks until it is lost
	}{"gone": {errGone, 1}, "silent": {fmt.Errorf("read: %w", link.Timeout), 3}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(nil)
			r.ready(t)
			r.Follow(r.both(t, 1, 1, 2, 3))
			r.tick(15)
			r.machine.readErr = c.err
			r.tick(c.ends - 1)
			if r.words[0].Reasons() != 0 {
				t.Error("lost too soon")
			}
			s := r.tick(1)
			if s.Connected || !errors.Is(s.Err, c.err) || s.Counts.Losses != 1 || s.Trajectory.Active ||
				s.Joints[0].Withheld != permit.DeviceLost || s.Joints[0].Command.Mode != motor.ModeStop {
				t.Errorf("lost: %+v", s)
			}
			if r.machine.closes != 1 || r.machine.stops != 1 || r.machine.moving(0) {
				t.Errorf("closed %d times, stopped %d times, told %+v", r.machine.closes, r.machine.stops, r.machine.told)
			}
			r.machine.openErr = link.IO
			var attempts []time.Duration
			for lost, opens := r.now, r.machine.opens; r.now < lost+20*time.Second; {
				if s := r.tick(1); s.Connected || s.Err == nil || s.N != 2 {
					t.Fatalf("while lost: %+v", s)
				}
				if r.machine.opens != opens {
					opens = r.machine.opens
					attempts = append(attempts, r.now-lost)
				}
			}
			ms := time.Millisecond
			want := []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 11300 * ms, 16300 * ms}
			if diff := cmp.Diff(want, attempts); diff != "" {
				t.Errorf("opened again (-want +got):\n%s", diff)
			}
			r.machine.openErr, r.machine.readErr, r.machine.position[0] = nil, nil, 40
			for s = r.tick(1); !s.Connected; s = r.tick(1) {
			}
			if j := s.Joints[0]; j.Target.Position != 40 || j.Command.Effort != 0 || r.machine.arms != 2 || s.Err != nil {
				t.Errorf("back: %+v to %v, armed %d times", j.Command, j.Target.Position, r.machine.arms)
			}
			r.tick(100)
			if r.machine.position[0] != 40 {
				t.Errorf("back, it moves by itself to %v", r.machine.position[0])
			}
		})
	}
}

func TestFailedWritesLoseTheController(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.machine.writeErr = errNoise
	if s := r.tick(2); !s.Connected {
		t.Error("lost after two failed writes")
	}
	if s := r.tick(1); s.Connected || s.Counts.Losses != 1 {
		t.Errorf("after three: %+v", s)
	}
}

func TestStaleCommandStopsUntilTheNextTrajectory(t *testing.T) {
	r := newRig(func(c *Config) { c.CommandTimeout = 200 * time.Millisecond })
	r.ready(t)
	r.Follow(r.both(t, 1, 1, 2, 3, 4, 5))
	if r.tick(21); !r.machine.moving(0) {
		t.Error("stale too soon")
	}
	if s := r.tick(1); r.machine.moving(0) || s.Joints[0].Withheld != permit.CommandStale || s.Trajectory.Active {
		t.Errorf("told %+v, withheld %v, %+v", r.machine.told[0], s.Joints[0].Withheld, s.Trajectory)
	}
	r.Follow(r.both(t, 2, 1, 2))
	if s := r.tick(1); !r.machine.moving(0) || !s.Trajectory.Active || s.Joints[0].Withheld != 0 {
		t.Errorf("told %+v, withheld %v, %+v", r.machine.told[0], s.Joints[0].Withheld, s.Trajectory)
	}
	for range 20 {
		r.Follow(r.both(t, 3, 1))
		if r.tick(10); !r.machine.moving(0) {
			t.Fatal("a stream of trajectories is stale")
		}
	}
}

func TestControllerFaultStopsUntilItIsGone(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	r.Follow(r.both(t, 1, 1, 2, 3))
	r.tick(5)
	r.machine.feedback.Faults = motor.FaultOvercurrent
	if s := r.tick(1); r.machine.moving(0) || s.Joints[0].Withheld != permit.DeviceFault || s.Trajectory.Active {
		t.Errorf("told %+v, withheld %v, %+v", r.machine.told[0], s.Joints[0].Withheld, s.Trajectory)
	}
	r.machine.feedback.Faults = motor.WarnOvercurrent
	if s := r.tick(1); !r.machine.moving(0) || s.Joints[0].Withheld != 0 || s.Joints[0].Command.Effort != 0 {
		t.Errorf("told %+v, withheld %v", r.machine.told[0], s.Joints[0].Withheld)
	}
}

func TestTrackingErrorStopsUntilSomebodyActs(t *testing.T) {
	trip := func(t *testing.T) *rig {
		r := newRig(func(c *Config) { c.Joints[0].Limits.TrackingError = 0.5 })
		r.ready(t)
		r.Follow(r.both(t, 1, 0.4, 3))
		if r.tick(11); !r.machine.moving(0) {
			t.Fatal("stopped within the bound")
		}
		s := r.tick(1) // the step to the second waypoint is too large
		if j := s.Joints[0]; r.machine.moving(0) || j.Withheld != permit.DeviceFault || j.Limited != motor.LimitTracking {
			t.Fatalf("told %+v, withheld %v by %v", r.machine.told[0], j.Withheld, j.Limited.Names())
		}
		if s = r.tick(100); r.machine.moving(0) || s.Joints[0].Withheld != permit.DeviceFault || s.Trajectory.Active {
			t.Fatalf("it is not latched: told %+v, withheld %v", r.machine.told[0], s.Joints[0].Withheld)
		}
		return r
	}
	t.Run("a new trajectory", func(t *testing.T) {
		r := trip(t)
		p := r.machine.position[0]
		r.Follow(r.both(t, 2, p+0.1, p+0.2))
		if s := r.tick(1); !r.machine.moving(0) || !s.Trajectory.Active {
			t.Errorf("told %+v, %+v", r.machine.told[0], s.Trajectory)
		}
	})
	t.Run("an emergency stop, released", func(t *testing.T) {
		r := trip(t)
		r.words[0].Withhold(permit.EStop)
		r.tick(2)
		r.words[0].Grant(permit.EStop)
		if s := r.tick(1); !r.machine.moving(0) || s.Joints[0].Command.Effort != 0 {
			t.Errorf("told %+v", r.machine.told[0])
		}
	})
}

func TestStopOfTheGateEndsTheTrajectory(t *testing.T) {
	r := newRig(func(c *Config) { c.Joints[0].Limits.Temperature = 80 })
	r.machine.feedback.Temperature = 20
	r.ready(t)
	r.Follow(r.both(t, 1, 1, 2, 3))
	r.tick(5)
	r.machine.feedback.Temperature = unit.Unknown[unit.Celsius]()
	if s := r.tick(1); r.machine.moving(0) || s.Trajectory.Active || s.Joints[0].Limited != motor.LimitTemperature {
		t.Errorf("told %+v, %+v by %v", r.machine.told[0], s.Trajectory, s.Joints[0].Limited.Names())
	}
}

func TestIntegralDoesNotWindUpAgainstTheGate(t *testing.T) {
	overshoot := func(gazebo bool) float64 {
		r := newRig(func(c *Config) {
			c.Gazebo = gazebo
			for i := range c.Joints {
				c.Joints[i].Limits.Effort = 2
				c.Axes[i].Position.IGain = 60
			}
		})
		r.ready(t)
		r.Follow(r.both(t, 1, 5))
		top := 0.0
		for range 3000 {
			r.tick(1)
			top = max(top, r.machine.position[0])
		}
		return top - 5
	}
	ours, gazebos := overshoot(false), overshoot(true)
	if ours > 2 || gazebos < 3*ours {
		t.Errorf("overshoot %v, in Gazebo's mode %v", ours, gazebos)
	}
}

func TestCommandIsGivenByTheJointsQuantity(t *testing.T) {
	r := newRig(func(c *Config) {
		c.Joints[0].Command, c.Joints[1].Command = motor.ModeVelocity, motor.ModePosition
		c.Axes[0].Position.PGain, c.Axes[0].Position.DGain = 2, 0
	})
	r.machine.position[1] = 8
	s := r.tick(1)
	if got, want := s.Joints[1].Command, (motor.Command{Mode: motor.ModePosition, Position: 8}); got != want {
		t.Errorf("at rest the position is %+v, want %+v", got, want)
	}
	traj, err := trajectory.New(trajectory.Message{
		JointNames: []string{"left", "right"},
		Points:     []trajectory.Point{{Positions: []float64{1, 9}, Velocities: []float64{0.5, 0.25}}},
	}, r.taken, trajectory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Follow(traj)
	s = r.tick(1)
	for i, want := range []motor.Command{
		{Mode: motor.ModeVelocity, Velocity: 0.5 + 2*1},
		{Mode: motor.ModePosition, Position: 9, Velocity: 0.25},
	} {
		if got := s.Joints[i]; got.Command != want || unit.Known(got.Wanted) {
			t.Errorf("joint %d: %+v, want %+v; wanted effort %v", i, got.Command, want, got.Wanted)
		}
	}
}

func TestHeaderStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(nil)
		r.ready(t)
		traj, err := trajectory.New(trajectory.Message{
			JointNames: []string{"left"}, Points: []trajectory.Point{{Positions: []float64{1}}}, Start: time.Now().Add(55 * time.Millisecond),
		}, r.taken, trajectory.Options{ID: 1, UseHeaderStart: true, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		r.Follow(traj)
		if s := r.tick(6); s.Trajectory != (motor.Progress{ID: 1, Active: true}) || s.Joints[0].Target.Position != 0 {
			t.Errorf("waiting: %+v", s.Trajectory)
		}
		if s := r.tick(1); s.Trajectory.Ratio != 1 || s.Joints[0].Target.Position != 1 {
			t.Errorf("begun: %+v", s.Trajectory)
		}
	})
}

func TestMissedTicksAreCountedAndTheirTimeIsKept(t *testing.T) {
	r := newRig(func(c *Config) { c.Axes[0].Position.IGain, c.Axes[0].Position.DGain = 10, 0 })
	r.ready(t)
	r.Follow(r.both(t, 1, 1))
	r.tick(1)
	before := r.controller.pids[0].position.Integral
	r.machine.dt = 0 // the error stays
	r.now += 3 * period
	s := r.tick(1)
	added := r.controller.pids[0].position.Integral - before
	if want := 10 * 4 * period.Seconds() * float64(s.Joints[0].Feedback.Position-1); math.Abs(added-want) > 1e-9 || s.Counts.Skipped != 3 {
		t.Errorf("the integral grew by %v, want %v; %d ticks skipped", added, want, s.Counts.Skipped)
	}
}

func TestSlowReaderCostsSamplesAndNothingElse(t *testing.T) {
	r := newRig(nil)
	r.ready(t)
	for range 10 {
		r.now += period
		r.Tick(r.now)
	}
	<-r.samples
	if s := r.tick(1); s.Counts.Dropped != 9 || s.Counts.Cycles != 13 {
		t.Errorf("%+v", s.Counts)
	}
}

func TestObserversAreToldEachStage(t *testing.T) {
	var read, control, write int
	r := newRig(func(c *Config) {
		c.Observe = Observers{
			Read: func(float64) { read++ }, Control: func(float64) { control++ }, Write: func(float64) { write++ },
		}
	})
	r.tick(10)
	if read != 10 || control != 10 || write != 10 {
		t.Errorf("%d, %d, %d times in 10 ticks", read, control, write)
	}
}

func TestTickDoesNotAllocate(t *testing.T) {
	r := newRig(func(c *Config) {
		c.Observe = Observers{Read: func(float64) {}, Control: func(float64) {}, Write: func(float64) {}}
		c.Joints[0].Limits.Effort = 1
	})
	r.ready(t)
	r.Follow(r.both(t, 1, make([]float64, 1000)...))
	for name, f := range map[string]func(){
		"running":  func() {},
		"withheld": func() { r.words[0].Withhold(permit.EStop) },
		"lost":     func() { r.machine.readErr, r.machine.openErr = errGone, link.IO; r.tick(2000) },
	} {
		f()
		if n := testing.AllocsPerRun(200, func() { r.tick(1) }); n != 0 && name != "lost" || n > 1 {
			t.Errorf("%s: Tick allocates %v times", name, n)
		}
	}
}

func BenchmarkTick(b *testing.B) {
	r := newRig(nil)
	r.tick(2)
	b.ReportAllocs()
	for b.Loop() {
		r.tick(1)
	}
}
